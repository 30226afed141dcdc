//! Tests for the built-in tools. The tests run single steps of a call or complete calls.

mod change_tools;
mod changed_since_preview;
mod read_only_tools;

use std::time::SystemTime;

use acp_lifecycle::{
    CallOutcome, OpenCall, OutboxSink, Session, SessionHandle, drive_session, execute_call,
};
use acp_types::{ToolCallPatch, ToolCallReport, ToolKind};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Context, Registry};

/// Opens a call, so that a test can run single steps of a tool.
fn open_call(context: &Context) -> OpenCall {
    let session = SessionHandle::new(Session::new(context.workspace.cwd()), SystemTime::now);
    let patch = ToolCallPatch::for_new_call("tool", "Tool", ToolKind::Other);
    session.announce_call(&"t/c".into(), &"t".into(), patch, &CancellationToken::new()).unwrap()
}

/// Runs a complete call with a client, from its announcement to its end.
async fn run_whole_call<S: OutboxSink + Send + 'static>(
    client: impl FnOnce(&SessionHandle) -> S,
    context: Context,
    tool: &str,
    args: Value,
) -> (CallOutcome, ToolCallReport) {
    let session = SessionHandle::new(Session::new(context.workspace.cwd()), SystemTime::now);
    let registry = Registry::builtin();
    let (cancel, stop) = (CancellationToken::new(), CancellationToken::new());
    let driver = tokio::spawn(drive_session(session.clone(), client(&session), stop.clone()));
    let id = "t/c".into();
    let open = registry.announce_call(&session, &id, &"t".into(), tool, &context, &cancel).unwrap();
    let ended = execute_call(open, registry.prepare_call(tool, args, &context)).await;
    let report = session.call_report(&id).unwrap();
    stop.cancel();
    driver.await.unwrap();
    (ended, report)
}
