//! Runs a complete `read_file` call and prints the updates that a client would receive.
//!
//! `cargo run -p acp-tools --example read [PATH]`. PATH is `Cargo.toml` by default.

use std::error::Error;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::SystemTime;

use acp_lifecycle::{
    ClientUnreachable, OutboxItem, OutboxSink, Session, SessionHandle, drive_session, execute_call,
};
use acp_tools::{CancellationToken, Context, Registry, Workspace};
use acp_types::CallEndReason;
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use callboard_process::env;
use serde_json::json;

/// A client of ACP v1 that prints each `session/update`. The session allows reads, so this client
/// never receives a permission request.
struct PrintingClient(V1Projection);

impl OutboxSink for PrintingClient {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        let OutboxItem::ToolCall(id, patch) = item else { return Ok(()) };
        for update in self.0.updates_for_call_patch(&id, patch) {
            let line = serde_json::to_string(&update).or(Err(ClientUnreachable))?;
            writeln!(io::stdout(), "{line}").or(Err(ClientUnreachable))?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "Cargo.toml".to_owned());
    let cwd = std::env::current_dir()?;
    let workspace = Arc::new(Workspace::new(cwd.clone(), Vec::new())?);
    let context = Context::new(workspace).with_env(Arc::new(env::base_env(env::own_env())));
    let registry = Registry::builtin();
    let session = SessionHandle::new(Session::new(cwd), SystemTime::now);
    let (cancel, stop) = (CancellationToken::new(), CancellationToken::new());
    let client = PrintingClient(V1Projection::new(TerminalDisplay::Text));
    let driver = tokio::spawn(drive_session(session.clone(), client, stop.clone()));

    let id = "t1/c1".into();
    let call = registry.announce_call(&session, &id, &"t1".into(), "read_file", &context, &cancel);
    let call = call.ok_or("the id is taken")?;
    let executor =
        registry.prepare_call("read_file", json!({ "path": path, "limit": 5 }), &context);
    let ended = execute_call(call, executor).await;
    session.end_turn(&"t1".into(), CallEndReason::Turn);

    stop.cancel();
    driver.await?;
    writeln!(io::stdout(), "The model reads:\n{}", ended.text)?;
    Ok(())
}
