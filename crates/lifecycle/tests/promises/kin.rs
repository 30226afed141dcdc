//! Tests of calls that are cancelled individually, of calls with parents, and of calls that another
//! agent reports.

use std::time::{Instant, SystemTime};

use acp_lifecycle::{CallBoard, CallEnd, OutboxItem, Session, Timestamp, execute_call};
use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::ToolCallStatus;
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{
    CallCapabilities, CallEndReason, CallMeta, Content, Progress, Status, ToolCallId,
    ToolCallPatch, ToolKind,
};
use pretty_assertions::assert_eq;
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::{collection::vec, option::of, sample::select};

use crate::performing::{Act, Client, Stage, pass};

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_alone_ends_but_its_turn_continues() {
    for (client, act, may_have_acted) in [
        (Client::Answers("allow"), Act::Hang, Some(true)),
        (Client::Answers("allow"), Act::StopOnCancel, Some(true)),
        (Client::IsSilent, Act::Hang, Some(false)),
    ] {
        let stage = Stage::new(client);
        let task = tokio::spawn(execute_call(stage.announce(), stage.tool(act)));
        let neighbour = stage.announce_as("d").unwrap();
        pass(1).await;
        let offered = stage.session.call_report(&"c".into()).unwrap().capabilities;
        assert_eq!(offered, CallCapabilities::default().with_cancel());
        assert!(stage.session.cancel_call(&"c".into()));
        let ended = task.await.unwrap();
        assert_eq!((ended.status, ended.reason), (Status::Cancelled, Some(CallEndReason::User)));
        assert!(!ended.ends_turn && !stage.cancel.is_cancelled());
        assert!(neighbour.handle().is_open() && !neighbour.handle().cancel_token().is_cancelled());
        let report = stage.session.call_report(&"c".into()).unwrap();
        assert_eq!(report.meta.may_have_acted, may_have_acted);
        assert_eq!(report.capabilities, CallCapabilities::default());
        assert!(!stage.session.cancel_call(&"c".into()));
        drop(neighbour);
        assert_eq!(stage.status().await, Some(ToolCallStatus::Failed));
    }
}

#[tokio::test(start_paused = true)]
async fn child_calls_end_before_their_parent() {
    let stage = Stage::new(Client::Answers("allow"));
    let parent = stage.announce();
    let child = stage.announce_as("d").unwrap();
    child.handle().update_meta(|meta| meta.parent = Some("c".to_owned()));
    let task = tokio::spawn(execute_call(child, stage.tool(Act::Hang)));
    pass(1).await;
    drop(parent);
    let ended = task.await.unwrap();
    assert_eq!((ended.status, ended.reason), (Status::Cancelled, Some(CallEndReason::Dropped)));
    assert!(!ended.ends_turn);
    let ended: Vec<_> = stage.session.update(|session, _| {
        session.board().history().iter().map(|report| report.id.to_string()).collect()
    });
    assert_eq!(ended, ["d", "c"]);
    assert_eq!(stage.status().await, Some(ToolCallStatus::Failed));
}

/// A report of another agent: the number of the call, its status, and a text that is appended to
/// it.
type ForeignReport = (u8, Option<Status>, Option<u8>);

fn foreign_report() -> impl Strategy<Value = ForeignReport> {
    let status = of(select(&Status::ALL[..]));
    (0..3_u8, status, of(any::<u8>()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// If the reports of another agent arrive in any order, the client must still receive legal
    /// lifecycles.
    #[test]
    fn reports_in_any_order_result_in_legal_lifecycles(all in vec(foreign_report(), 0..24)) {
        let mut now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
        let mut session = Session::new("/p");
        for (call, status, text) in all {
            let mut patch = ToolCallPatch::new();
            patch.status = status;
            if let Some(text) = text {
                patch = patch.with_appended_content(Content::from_text(text.to_string()));
            }
            let id = format!("c{call}").into();
            session.upsert_foreign_call(&id, &"t".into(), patch, now);
            let board: &CallBoard = session.board();
            let report = board.open_call_report(&id).or_else(|| board.history().get(&id));
            assert!(report.is_some(), "the reported call exists");
            now.monotonic += std::time::Duration::from_millis(50);
        }
        session.end_turn(&"t".into(), CallEndReason::Turn, now);
        session.upsert_foreign_call(&"late".into(), &"t".into(), ToolCallPatch::for_new_call("x", "X", ToolKind::Other), now);
        assert!(!session.board().is_id_used(&"late".into()));
        let mut sent = V1Projection::new(TerminalDisplay::Text);
        let mut client_state = V1ClientState::new();
        while let Some(item) = session.poll(now.monotonic) {
            match item {
                OutboxItem::ToolCall(id, patch) => {
                    sent.updates_for_call_patch(&id, &patch).iter().for_each(|update| client_state.apply_session_update(update));
                }
                OutboxItem::PromptResponse(_) => client_state.check_calls_ended(),
                item => panic!("{item:?}"),
            }
        }
        assert_eq!(client_state.violations(), []);
    }
}

#[test]
fn a_call_first_reported_as_completed_has_run() {
    let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    let mut session = Session::new("/p");
    let mut meta = CallMeta::default();
    meta.reason = Some(CallEndReason::Timeout);
    for (id, status, meta, expected) in [
        ("a", Status::Completed, CallMeta::default(), (Status::Completed, None)),
        ("b", Status::Failed, CallMeta::default(), (Status::Failed, Some(CallEndReason::Error))),
        ("c", Status::Failed, meta, (Status::Failed, Some(CallEndReason::Timeout))),
        (
            "d",
            Status::Cancelled,
            CallMeta::default(),
            (Status::Cancelled, Some(CallEndReason::User)),
        ),
    ] {
        let patch = ToolCallPatch::for_new_call("x", "X", ToolKind::Other)
            .with_status(status)
            .with_meta(meta);
        session.upsert_foreign_call(&id.into(), &"t".into(), patch, now);
        let report = session.board().history().get(&id.into()).unwrap();
        assert_eq!((report.status, report.meta.reason), expected, "{id}");
    }
}

/// Returns the ids of calls in the order of their final reports.
fn ends(session: &mut Session, now: Timestamp) -> Vec<String> {
    let ended = std::iter::from_fn(|| session.poll(now.monotonic)).filter_map(|item| match item {
        OutboxItem::ToolCall(id, patch) => patch.status?.is_final().then(|| id.to_string()),
        _ => None,
    });
    ended.collect()
}

#[test]
fn calls_of_one_instant_end_in_the_order_of_their_announcement() {
    let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    for made_by_one in [false, true] {
        let mut session = Session::new("/p");
        session.announce_call(&"root".into(), &"t".into(), ToolCallPatch::new(), now);
        // The order of the ends does not depend on the time or the name of a call.
        let ids: Vec<_> = (0..99).map(|number| format!("c{}", number * 37 % 99)).collect();
        for id in &ids {
            let mut patch = ToolCallPatch::new();
            let parent = made_by_one.then(|| "root".to_owned());
            patch.meta.get_or_insert_default().parent = parent;
            session.announce_call(&ToolCallId::new(id.as_str()), &"t".into(), patch, now);
        }
        session.end_turn(&"t".into(), CallEndReason::Turn, now);
        let mut expected = ids.clone();
        expected.insert(if made_by_one { ids.len() } else { 0 }, "root".to_owned());
        assert_eq!(ends(&mut session, now), expected);
        assert_eq!(session.board().rejected_change_counters().late_changes, 0, "each ends once");
    }
}

/// Tests deeply nested calls, because no depth may exhaust the stack.
#[test]
fn deeply_nested_calls_end_children_first() {
    const DEPTH: usize = 2_000;
    let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    let session = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || {
        let mut session = Session::new("/p");
        for number in 0..DEPTH {
            let mut patch = ToolCallPatch::new();
            let parent = number.checked_sub(1).map(|parent| format!("c{parent}"));
            patch.meta.get_or_insert_default().parent = parent;
            session.announce_call(&format!("c{number}").into(), &"t".into(), patch, now);
        }
        // This parent would create a cycle. Only a check of all ancestors detects a cycle.
        let last = Some(format!("c{}", DEPTH - 1));
        session.update_call_meta(&"c0".into(), |meta| meta.parent = last, now);
        session.finish_call(&"c0".into(), CallEnd::completed(), now);
        (ends(&mut session, now), session.board().open_calls(None).len())
    });
    let (ended, open) = session.unwrap().join().unwrap();
    let expected: Vec<_> = (0..DEPTH).rev().map(|number| format!("c{number}")).collect();
    assert!(ended == expected && open == 0, "{} ended", ended.len());
}

#[test]
fn an_ended_call_reports_no_progress() {
    let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    for end in [
        CallEnd::completed(),
        CallEnd::failed(CallEndReason::Error),
        CallEnd::cancelled(CallEndReason::User),
    ] {
        let (mut session, id) = (Session::new("/p"), "c".into());
        session.announce_call(&id, &"t".into(), ToolCallPatch::new(), now);
        session.start_call(&id, now);
        let far = Progress::new(77.0).with_total(100.0).with_message("x".to_owned());
        session.report_progress(&id, far.clone(), now);
        assert_eq!(
            session.board().open_call_report(&id).unwrap().meta.progress.as_ref(),
            Some(&far)
        );
        // The final patch of the tool contains the progress again, but an ended call shows no
        // progress.
        let mut meta = CallMeta::default();
        meta.progress = Some(far);
        session.finish_call(&id, end.with_patch(ToolCallPatch::new().with_meta(meta)), now);
        let ended = session.board().history().get(&id).unwrap();
        assert_eq!((&ended.meta.progress, ended.title.contains('%')), (&None, false));
    }
}
