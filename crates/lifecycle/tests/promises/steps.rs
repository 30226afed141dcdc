//! Tests of single steps of a session: turns, trace contexts, closing and content limits.

use std::time::{Instant, SystemTime};

use acp_lifecycle::{CallEnd, OutboxItem, Session, Timestamp};
use acp_types::{
    CallEndReason, MessageChunk, Plan, Progress, Role, Status, ToolCallId, ToolCallPatch, ToolKind,
    TraceContext, TurnId,
};
use pretty_assertions::assert_eq;

/// Maximum number of open turns with a trace context.
const MAX_TRACED_TURNS: usize = 64;

/// Maximum number of answered turns that are remembered.
const MAX_ENDED_TURNS: usize = 64;

fn now() -> Timestamp {
    Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH }
}

fn announcement() -> ToolCallPatch {
    ToolCallPatch::for_new_call("tool", "Tool", ToolKind::Other)
}

fn trace(number: usize) -> TraceContext {
    TraceContext { traceparent: Some(format!("00-{number}")), ..TraceContext::default() }
}

#[test]
fn the_documented_number_of_open_turns_has_a_trace() {
    let (mut session, now) = (Session::new("/p"), now());
    // Turns without a trace context do not count against the maximum.
    for number in 0..MAX_TRACED_TURNS {
        session.set_turn_trace_context(&format!("none{number}").into(), TraceContext::default());
    }
    for number in 0..=MAX_TRACED_TURNS {
        session.set_turn_trace_context(&number.to_string().into(), trace(number));
    }
    let announced_trace = |session: &mut Session, id: &'static str, turn: usize| {
        let id = ToolCallId::from(id);
        assert!(session.announce_call(&id, &turn.to_string().into(), announcement(), now));
        session.board().open_call_report(&id).unwrap().meta.trace.clone()
    };
    let last = MAX_TRACED_TURNS - 1;
    assert_eq!(announced_trace(&mut session, "a", 0), trace(0));
    assert_eq!(announced_trace(&mut session, "b", last), trace(last));
    assert_eq!(announced_trace(&mut session, "c", last + 1), TraceContext::default());
    // An ended turn no longer counts against the maximum.
    session.end_turn(&"0".into(), CallEndReason::Turn, now);
    session.set_turn_trace_context(&"again".into(), trace(7));
    assert!(session.announce_call(&"d".into(), &"again".into(), announcement(), now));
    assert_eq!(session.board().open_call_report(&"d".into()).unwrap().meta.trace, trace(7));
}

#[test]
fn no_call_is_announced_in_recently_answered_turns() {
    let (mut session, now) = (Session::new("/p"), now());
    let turns: Vec<_> =
        (0..MAX_ENDED_TURNS).map(|number| TurnId::from(number.to_string())).collect();
    turns.iter().for_each(|turn| session.end_turn(turn, CallEndReason::Turn, now));
    for turn in &turns {
        assert!(!session.announce_call(&"c".into(), turn, announcement(), now), "{turn}");
    }
}

#[test]
fn the_end_of_a_turn_ends_its_own_calls() {
    let (mut session, now) = (Session::new("/p"), now());
    for (id, turn) in [("a", "t"), ("b", "u")] {
        session.announce_call(&id.into(), &turn.into(), announcement(), now);
    }
    session.end_turn(&"t".into(), CallEndReason::Turn, now);
    let open = |session: &Session| session.board().open_calls(None);
    assert_eq!(open(&session), ["b".into()]);
    session.end_all_calls(CallEndReason::Shutdown, now);
    assert_eq!(open(&session), []);
}

#[test]
fn calls_that_end_with_a_turn_of_a_closing_session_have_the_reason_shutdown() {
    let (mut session, now) = (Session::new("/p"), now());
    let ends = |session: &mut Session, id: &'static str, reason| {
        let id = ToolCallId::from(id);
        session.announce_call(&id, &"t".into(), announcement(), now);
        session.finish_call(&id, CallEnd::cancelled(reason), now);
        session.board().history().get(&id).unwrap().meta.reason
    };
    assert!(!session.is_closing());
    assert_eq!(ends(&mut session, "a", CallEndReason::Turn), Some(CallEndReason::Turn));
    session.mark_closing();
    assert!(session.is_closing());
    assert_eq!(ends(&mut session, "b", CallEndReason::Turn), Some(CallEndReason::Shutdown));
    assert_eq!(ends(&mut session, "c", CallEndReason::User), Some(CallEndReason::User));
}

#[test]
fn a_start_returns_whether_the_step_was_legal() {
    let (mut session, now, id) = (Session::new("/p"), now(), ToolCallId::from("c"));
    assert!(!session.start_call(&id, now));
    assert!(session.announce_call(&id, &"t".into(), announcement(), now));
    assert!(!session.announce_call(&id, &"t".into(), announcement(), now));
    assert!(session.start_call(&id, now));
    session.finish_call(&id, CallEnd::completed(), now);
    assert!(!session.start_call(&id, now));
}

#[test]
fn a_repeated_foreign_report_is_not_counted() {
    let (mut session, now, id) = (Session::new("/p"), now(), ToolCallId::from("c"));
    let report = |status| announcement().with_status(status);
    let status = |session: &Session| session.board().open_call_report(&id).unwrap().status;
    session.upsert_foreign_call(&id, &"t".into(), report(Status::Pending), now);
    assert_eq!(status(&session), Status::Pending);
    for expected in [Status::InProgress, Status::InProgress, Status::Paused, Status::InProgress] {
        session.upsert_foreign_call(&id, &"t".into(), report(expected), now);
        assert_eq!(status(&session), expected);
    }
    session.upsert_foreign_call(&id, &"t".into(), report(Status::Completed), now);
    let report = session.board().history().get(&id).unwrap();
    assert_eq!((report.status, report.title.as_str()), (Status::Completed, "Tool"));
    assert_eq!(
        (
            session.board().rejected_change_counters().illegal_steps,
            session.board().rejected_change_counters().late_changes
        ),
        (0, 0)
    );
}

#[test]
fn all_items_of_a_session_pass_through_its_outbox() {
    let (mut session, now) = (Session::new("/p"), now());
    let text = "Hello.".to_owned();
    let chunk = MessageChunk::new(Role::Agent, "m", text);
    session.send_message_chunk(chunk.clone(), now);
    session.send_message_chunk(MessageChunk::from_agent("m", ""), now);
    session.send_plan(Plan::default(), now);
    assert_eq!(session.outbox().len(), 2);
    let items = std::iter::from_fn(|| session.poll(now.monotonic));
    assert_eq!(
        items.collect::<Vec<_>>(),
        [OutboxItem::Chunk(chunk), OutboxItem::Plan(Plan::default())]
    );
    assert_eq!(session.call_usage().updates.offered, 2);
}

#[test]
fn credentials_in_a_message_are_redacted_without_known_secrets() {
    let (mut session, now) = (Session::new("/p"), now());
    for text in ["Send Authorization: Bea", "rer abc123456.\n"] {
        let (role, message) = (Role::Agent, "m".to_owned());
        session.send_message_chunk(MessageChunk::new(role, message, text), now);
    }
    session.send_plan(Plan::default(), now);
    let mut said = String::new();
    while let Some(item) = session.poll(now.monotonic) {
        if let OutboxItem::Chunk(chunk) = item {
            said += &chunk.text;
        }
    }
    assert_eq!(said, "Send Authorization: Bearer [redacted]\n");
}

#[test]
fn progress_is_reported_in_the_metadata_and_after_the_title() {
    let (mut session, now, id) = (Session::new("/p"), now(), ToolCallId::from("c"));
    session.announce_call(&id, &"t".into(), announcement(), now);
    let progress = Progress::new(1.0).with_total(2.0).with_message("copying".to_owned());
    session.report_progress(&id, progress.clone(), now);
    let report = session.board().open_call_report(&id).unwrap();
    assert_eq!(report.meta.progress, Some(progress));
    assert!(report.title.starts_with("Tool") && report.title.contains("copying"), "{report:?}");
    session.set_subtitle(&id, Some("resting"), now);
    assert!(session.board().open_call_report(&id).unwrap().title.ends_with("resting"));
    session.set_subtitle(&id, None, now);
    assert_eq!(session.board().open_call_report(&id).unwrap().title, "Tool");
}

#[test]
fn paths_are_displayed_relative_to_the_project_folder() {
    let session = Session::new("/p");
    for (path, shown) in [("/p", "."), ("/p/a/b", "a/b"), ("/q/a", "/q/a"), ("/", "/")] {
        assert_eq!(session.display_path(path.as_ref()), shown);
    }
}
