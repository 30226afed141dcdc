//! Regression tests, one for each bug that once violated a guarantee.

use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use acp_lifecycle::{
    CallEnd, CallExecutor, CallFailure, CallHandle, CallPreview, CallSuccess, Effect, Effects,
    Grant, OutboxItem, PermissionSubject, PermitDecision, PinnedPlan, Session, SessionHandle,
    Timestamp, execute_call,
};
use acp_types::{
    CallEndReason, Content, Status, TerminalExit, TerminalPatch, ToolCallId, ToolCallPatch,
    ToolKind,
};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

fn now() -> Timestamp {
    Timestamp { monotonic: Instant::now(), wall: SystemTime::now() }
}

fn announcement() -> ToolCallPatch {
    ToolCallPatch::for_new_call("tool", "Tool", ToolKind::Other)
}

fn handle() -> SessionHandle {
    SessionHandle::new(Session::new("/p"), SystemTime::now)
}

#[test]
fn the_outbox_keeps_no_state_of_ended_calls() {
    let (mut session, now) = (Session::new("/p"), now());
    for number in 0..100 {
        let id = ToolCallId::from(format!("t/{number}"));
        let terminal = acp_types::TerminalId::new(id.0.clone());
        session.announce_terminal(&terminal, TerminalPatch::for_new_terminal("ls", "/"), now);
        let patch = announcement().with_appended_content(Content::Terminal(terminal.clone()));
        session.announce_call(&id, &"t".into(), patch, now);
        session.start_call(&id, now);
        session.append_terminal_output(&terminal, b"x", now);
        session.exit_terminal(&terminal, TerminalExit::default(), now);
        session.finish_call(&id, CallEnd::completed(), now);
        while session.poll(now.monotonic).is_some() {}
    }
    let kept = format!("{:?}", session.outbox());
    assert_eq!(kept.matches("Terminal(").count() + kept.matches("ToolCall(").count(), 0);
}

#[test]
fn no_call_is_announced_in_an_answered_turn() {
    let (mut session, now) = (Session::new("/p"), now());
    session.end_turn(&"t".into(), CallEndReason::Turn, now);
    assert!(!session.announce_call(&"c".into(), &"t".into(), announcement(), now));
    assert_eq!(session.poll(now.monotonic), Some(OutboxItem::PromptResponse("t".into())));
    assert_eq!(session.poll(now.monotonic), None);
    assert!(session.announce_call(&"c".into(), &"u".into(), announcement(), now));
}

#[test]
fn a_call_that_cannot_complete_fails_with_a_reason() {
    let (mut session, now, id) = (Session::new("/p"), now(), ToolCallId::from("c"));
    session.announce_call(&id, &"t".into(), announcement(), now);
    session.finish_call(&id, CallEnd::completed(), now);
    let ends = std::iter::from_fn(|| session.poll(now.monotonic)).filter_map(|item| match item {
        OutboxItem::ToolCall(_, patch) => patch.status.map(|status| (status, patch)),
        _ => None,
    });
    let (status, patch) = ends.last().unwrap();
    assert_eq!(status, Status::Failed);
    assert_eq!(patch.meta.unwrap().reason, Some(CallEndReason::Error));
    assert_eq!(patch.raw_output.unwrap()["code"], "error");
}

#[test]
fn a_call_that_has_ended_gets_no_permission() {
    let (mut session, now, id) = (Session::new("/p"), now(), ToolCallId::from("c"));
    session.announce_call(&id, &"t".into(), announcement(), now);
    session.finish_call(&id, CallEnd::cancelled(CallEndReason::User), now);
    let subject = PermissionSubject::for_call("tool", &json!({}), "/".as_ref(), b"");
    let reads = Effects::from(Effect::Read("/p/x".into()));
    assert!(matches!(
        session.decide_or_ask_permission(&id, &reads, subject, true, now),
        PermitDecision::Denied(_)
    ));
}

#[tokio::test]
async fn a_second_announcement_of_an_id_does_not_end_the_first() {
    let (session, cancel) = (handle(), CancellationToken::new());
    let first = session.announce_call(&"c".into(), &"t".into(), announcement(), &cancel).unwrap();
    assert!(session.announce_call(&"c".into(), &"t".into(), announcement(), &cancel).is_none());
    assert!(first.handle().is_open());
}

#[tokio::test]
async fn the_end_of_a_call_cancels_its_token() {
    let (session, cancel) = (handle(), CancellationToken::new());
    let dropped = session.announce_call(&"c".into(), &"t".into(), announcement(), &cancel).unwrap();
    let kept = session.announce_call(&"d".into(), &"t".into(), announcement(), &cancel).unwrap();
    let [first, second] = [&dropped, &kept].map(|open| open.handle().cancel_token().clone());
    drop(dropped);
    assert!(first.is_cancelled() && !second.is_cancelled());
    session.end_turn(&"t".into(), CallEndReason::Turn);
    assert!(second.is_cancelled() && !cancel.is_cancelled());
}

/// A tool whose preview waits for a signal. The tool records that it ran.
struct Late {
    go: Arc<Notify>,
    ran: Arc<Mutex<bool>>,
}

impl CallExecutor for Late {
    type Plan = ();

    async fn preview(&mut self, _: &CallHandle) -> Result<CallPreview<()>, CallFailure> {
        self.go.notified().await;
        let subject = PermissionSubject::for_call("tool", &json!({}), "/".as_ref(), b"");
        let effects = Effects::from(Effect::Read("/p/x".into()));
        let (patch, pinned) = (ToolCallPatch::new(), PinnedPlan::new((), subject));
        Ok(CallPreview::new(pinned, effects).with_patch(patch))
    }

    async fn run(
        &mut self,
        pinned: PinnedPlan<()>,
        grant: Grant,
        _: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        pinned.release(grant).unwrap();
        *self.ran.lock().unwrap() = true;
        Ok(CallSuccess::default())
    }
}

#[tokio::test]
async fn a_call_whose_turn_ended_during_its_preview_does_not_run() {
    let (session, cancel) = (handle(), CancellationToken::new());
    let open = session.announce_call(&"c".into(), &"t".into(), announcement(), &cancel).unwrap();
    let (go, ran) = (Arc::<Notify>::default(), Arc::<Mutex<bool>>::default());
    let late = Late { go: go.clone(), ran: ran.clone() };
    let performed = tokio::spawn(execute_call(open, late));
    tokio::task::yield_now().await;
    session.end_turn(&"t".into(), CallEndReason::Shutdown);
    go.notify_one();
    let ended = performed.await.unwrap();
    assert_eq!((ended.status, *ran.lock().unwrap()), (Status::Cancelled, false));
}
