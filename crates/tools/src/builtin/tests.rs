//! The built-in tools by what is seen of their calls.

mod changes;
mod looks;
mod outdated;

use std::time::SystemTime;

use acp_lifecycle::{Ended, OpenCall, Session, SessionHandle, Sink, drive, perform};
use acp_types::{ToolCallPatch, ToolCallReport, ToolKind};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Context, Registry};

/// Opens a call, for what is asked of a tool outside of a whole life.
fn opened(context: &Context) -> OpenCall {
    let session = SessionHandle::new(Session::new(context.workspace.cwd()), SystemTime::now);
    let patch = ToolCallPatch::announce("tool", "Tool", ToolKind::Other);
    session.announce(&"t/c".into(), &"t".into(), patch, &CancellationToken::new()).unwrap()
}

/// Lives the life of a call, from its announcement to its end, before a client of its session.
async fn live_before<S: Sink + Send + 'static>(
    client: impl FnOnce(&SessionHandle) -> S,
    context: Context,
    tool: &str,
    args: Value,
) -> (Ended, ToolCallReport) {
    let session = SessionHandle::new(Session::new(context.workspace.cwd()), SystemTime::now);
    let registry = Registry::builtin().unwrap();
    let (cancel, stop) = (CancellationToken::new(), CancellationToken::new());
    let driver = tokio::spawn(drive(session.clone(), client(&session), stop.clone()));
    let id = "t/c".into();
    let open = registry.announce(&session, &id, &"t".into(), tool, &context, &cancel).unwrap();
    let ended = perform(open, registry.call(tool, args, &context)).await;
    let report = session.tool_call(&id).unwrap();
    stop.cancel();
    driver.await.unwrap();
    (ended, report)
}
