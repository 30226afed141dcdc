//! Tests that durations and totals are correct for every end of a call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_lifecycle::{
    CallExecutor, CallFailure, CallHandle, CallPreview, CallSuccess, Grant, PinnedPlan,
    ToolMiddleware, UpdateCounts, execute_call,
};
use acp_types::schema::v1::Meta;
use acp_types::{
    CallEndReason, Content, Progress, Status, TerminalExit, TerminalPatch, ToolCallPatch, ToolKind,
    TraceContext,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::stage::{Stage, pass};

/// Runs for 30 ms before it succeeds, fails, panics or hangs.
async fn tool(name: &str, _: Value) -> Result<(), String> {
    pass(30).await;
    match name {
        "fail" => Err("no luck".to_owned()),
        "panic" => panic!("a planted panic"),
        "hang" => std::future::pending().await,
        _ => Ok(()),
    }
}

/// Runs one call. The client answers after 20 ms, and the turn is cancelled after 60 ms.
async fn play(option: Option<&'static str>, name: &str) -> Stage {
    let stage = Stage::new(None);
    let tools = ToolMiddleware::new(stage.session.clone()).with_timeout(Duration::from_millis(35));
    let client = async {
        pass(20).await;
        if let Some(option) = option {
            let option_id = option.to_owned();
            let id = stage.received.lock().unwrap().ids[0];
            stage.session.answer_permission(
                id,
                acp_lifecycle::PermissionAnswer::Selected { option_id, reason: None },
            );
        }
        pass(40).await;
        stage.cancel.cancel();
    };
    let turn = "t".into();
    let call = tools.call(&turn, "a", name, json!({}), &stage.cancel, tool);
    let (_ended, ()) = tokio::join!(call, client);
    stage
}

#[tokio::test(start_paused = true)]
async fn every_ended_call_reports_its_waiting_time_and_run_time() {
    const ALLOW: Option<&str> = Some("allow");
    for (option, name, status, queued, ran) in [
        (ALLOW, "work", Status::Completed, 20, 30),
        (ALLOW, "fail", Status::Failed, 20, 30),
        (ALLOW, "panic", Status::Failed, 20, 30),
        (ALLOW, "hang", Status::Failed, 20, 35),
        (Some("reject"), "work", Status::Failed, 20, 0),
        (None, "work", Status::Cancelled, 60, 0),
    ] {
        let stage = play(option, name).await;
        let report = stage.ended("t/a");
        let timed = (report.status, report.meta.queued_ms, report.meta.duration_ms);
        assert_eq!(timed, (status, Some(queued), Some(ran)), "{option:?} {name}");
        assert_eq!(report.meta.started_at.is_some(), ran > 0, "{option:?} {name}");
        let (_, shown) = stage.shown("t/a").await;
        assert_eq!((shown.queued_ms, shown.duration_ms), (Some(queued), Some(ran)));
    }
}

/// An executor that fails in its preview.
struct Unfit;

impl CallExecutor for Unfit {
    type Plan = ();

    async fn preview(&mut self, _: &CallHandle) -> Result<CallPreview<()>, CallFailure> {
        pass(10).await;
        Err(CallFailure::recoverable("unfit", "It cannot be done."))
    }

    async fn run(
        &mut self,
        _: PinnedPlan<()>,
        _: Grant,
        _: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        Err(CallFailure::recoverable("never", "It never comes to this."))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_in_its_preview_only_waited() {
    let stage = Stage::new(None);
    let patch = ToolCallPatch::for_new_call("x", "X", ToolKind::Other);
    let open = stage.session.announce_call(&"a".into(), &"t".into(), patch, &stage.cancel).unwrap();
    execute_call(open, Unfit).await;
    let meta = stage.ended("a").meta;
    assert_eq!((meta.queued_ms, meta.duration_ms), (Some(10), Some(0)));
    assert_eq!(meta.started_at, None);
}

#[tokio::test(start_paused = true)]
async fn a_tool_cannot_change_measured_fields() {
    let stage = Stage::new(Some("allow"));
    let trace = TraceContext { baggage: Some("a=b".to_owned()), ..TraceContext::default() };
    stage.session.set_turn_trace_context(&"t".into(), trace.clone());
    async fn lie(_: &str, _: Value) -> Result<(), String> {
        CallHandle::current().unwrap().update_meta(|meta| {
            *meta = acp_types::CallMeta::default();
            meta.duration_ms = Some(9);
            meta.reason = Some(CallEndReason::User);
            meta.exit_code = Some(3);
        });
        pass(5).await;
        Ok(())
    }
    let tools = ToolMiddleware::new(stage.session.clone());
    tools.call(&"t".into(), "a", "x", json!({}), &stage.cancel, lie).await.unwrap();
    let meta = stage.ended("t/a").meta;
    assert_eq!((meta.queued_ms, meta.duration_ms), (Some(0), Some(5)));
    assert!(meta.started_at.is_some() && meta.reason.is_none());
    assert_eq!((meta.exit_code, meta.trace), (Some(3), trace));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_call_reports_the_output_bytes_of_its_terminals() {
    let stage = Stage::new(Some("allow"));
    async fn print(_: &str, _: Value) -> Result<(), String> {
        let call = CallHandle::current().unwrap();
        let id = call.open_terminal(TerminalPatch::for_new_terminal("yes", "/p"));
        call.append_terminal_output(&id, &[b'y'; 100_000]);
        call.exit_terminal(&id, TerminalExit { code: Some(0), signal: None });
        Ok(())
    }
    let tools = ToolMiddleware::new(stage.session.clone());
    tools.call(&"t".into(), "a", "x", json!({}), &stage.cancel, print).await.unwrap();
    let report = stage.ended("t/a");
    assert_eq!(report.meta.output_bytes, Some(100_000));
    assert_eq!(report.content[0], Content::Terminal("t/a".into()));
    assert!(stage.session.update(|session, _| session.board().terminal(&"t/a".into()).is_none()));
}

#[tokio::test(start_paused = true)]
async fn every_call_of_a_turn_has_its_trace_from_the_first_report_on() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let meta = json!({ "traceparent": parent, "tracestate": "a=b", "baggage": "c=d" });
    let meta: Meta = serde_json::from_value(meta).unwrap();
    let stage = Stage::new(None);
    stage.session.set_turn_trace_context(&"t".into(), TraceContext::from_meta(Some(&meta)));
    let tools = ToolMiddleware::new(stage.session.clone());
    let turn = "t".into();
    let call = tools.call(&turn, "a", "x", json!({}), &stage.cancel, tool);
    assert!(tokio::time::timeout(Duration::from_millis(10), call).await.is_err());
    let asked = stage.received.lock().unwrap().asked[0].clone();
    let requested_meta = serde_json::to_value(asked).unwrap()["toolCall"]["_meta"].clone();
    assert_eq!(requested_meta["traceparent"], parent);
    let (call, _) = stage.shown("t/a").await;
    for (key, value) in &meta {
        assert_eq!(&call["_meta"][key], value);
    }
    // Calls of another turn are not counted.
    let turn = "u".into();
    let call = tools.call(&turn, "a", "x", json!({}), &stage.cancel, tool);
    assert!(tokio::time::timeout(Duration::from_millis(10), call).await.is_err());
    assert!(stage.ended("u/a").meta.trace.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_sums_up_its_calls_and_its_updates() {
    let stage = Stage::new(Some("allow"));
    let tools = ToolMiddleware::new(stage.session.clone());
    for name in ["work", "fail", "work"] {
        drop(tools.call(&"t".into(), name, name, json!({}), &stage.cancel, tool).await);
    }
    pass(100).await;
    let usage = stage.session.total_call_usage();
    let sums: Vec<_> = usage
        .tools
        .iter()
        .map(|(name, sums)| {
            (name.as_str(), sums.ended_calls(), sums.failed, sums.total_run_ms, sums.longest_run_ms)
        })
        .collect();
    assert_eq!(sums, [("fail", 1, 1, 30, 30), ("work", 2, 0, 60, 30)]);
    assert_eq!(usage.tools[0].1.reasons, [(CallEndReason::Error, 1)].into());
    let UpdateCounts { offered, joined, sent, dropped, .. } = usage.updates;
    assert_eq!((offered, dropped), (joined + sent, 0));
    // Three calls were each announced, asked about, started and ended.
    assert_eq!(sent, 12);
    // Updates after the end of a call are dropped.
    stage.session.update(|session, now| {
        session.update_call(&"t/work".into(), ToolCallPatch::new().with_title("late"), now);
    });
    let late = stage.session.total_call_usage().updates;
    assert_eq!((late.offered, late.dropped), (offered + 1, 1));
}

#[tokio::test(start_paused = true)]
async fn changes_after_the_end_of_a_call_are_counted_and_not_sent() {
    let (stage, late) = (Stage::new(Some("allow")), Arc::<Mutex<Option<CallHandle>>>::default());
    let keeps = |_: &str, _: Value| {
        *late.lock().unwrap() = CallHandle::current();
        acp_lifecycle::report_progress(1.0, 2.0, "half");
        std::future::ready(Ok::<_, String>(()))
    };
    let tools = ToolMiddleware::new(stage.session.clone());
    tools.call(&"t".into(), "a", "x", json!({}), &stage.cancel, keeps).await.unwrap();
    pass(1_000).await;
    let before = stage.session.total_call_usage().updates;
    let call = late.lock().unwrap().take().unwrap();
    // There is no current call outside of a call's task.
    acp_lifecycle::report_progress(2.0, None, "late");
    call.report_progress(Progress::new(2.0));
    call.set_subtitle(Some("late"));
    call.update(ToolCallPatch::new().with_title("Late"));
    call.append_content(Content::from_text("late"));
    call.mark_paused();
    call.mark_resumed();
    pass(1_000).await;
    let after = stage.session.total_call_usage().updates;
    assert_eq!((after.sent, after.dropped), (before.sent, before.dropped + 6));
    let (call, meta) = stage.shown("t/a").await;
    assert_eq!((&call["title"], &call["status"]), (&json!("x"), &json!("completed")));
    assert_eq!(meta.progress, None);
}
