//! One call of a custom tool: announced, permitted, run and ended.
//!
//! `cargo run -p acp-lifecycle --example one_call` prints the updates that a client would receive.

#![expect(clippy::disallowed_methods, reason = "a program reads the clock that the crate may not")]

use std::io::{self, Write as _};
use std::time::SystemTime;

use acp_lifecycle::{
    CallExecutor, CallFailure, CallHandle, CallPreview, CallSuccess, CancellationToken,
    ClientUnreachable, Effect, Grant, OutboxItem, OutboxSink, PermissionAnswer, PermissionSubject,
    PinnedPlan, Session, SessionHandle, drive_session, execute_call,
};
use acp_types::{CallEndReason, ToolCallPatch, ToolKind};
use serde_json::json;

/// A tool that greets a person after the client has allowed the call.
struct GreetTool(&'static str);

impl CallExecutor for GreetTool {
    type Plan = String;

    async fn preview(&mut self, _: &CallHandle) -> Result<CallPreview<String>, CallFailure> {
        let args = json!({ "name": self.0 });
        let subject = PermissionSubject::for_call("greet", &args, "/project".as_ref(), b"");
        let pinned = PinnedPlan::new(format!("Hello, {}.", self.0), subject);
        let patch =
            ToolCallPatch::new().with_title(format!("Greet {}", self.0)).with_raw_input(args);
        Ok(CallPreview::new(pinned, Effect::Unknown).with_patch(patch))
    }

    async fn run(
        &mut self,
        pinned: PinnedPlan<String>,
        grant: Grant,
        _: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        let text = pinned
            .release(grant)
            .map_err(|error| CallFailure::recoverable("bug", error.to_string()))?;
        Ok(CallSuccess::new(text))
    }
}

/// A client that prints every update and allows every permission request.
struct StdoutClient(SessionHandle);

impl OutboxSink for StdoutClient {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        if let OutboxItem::PermissionRequest(id) = item {
            self.0.answer_permission(
                id,
                PermissionAnswer::Selected { option_id: "allow".to_owned(), reason: None },
            );
        }
        let line = match item {
            OutboxItem::ToolCall(id, patch) => {
                format!("{id}: {:?}, {:?}", patch.status, patch.title)
            }
            other => format!("{other:?}"),
        };
        writeln!(io::stdout(), "{line}").or(Err(ClientUnreachable))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let session = SessionHandle::new(Session::new("/project"), SystemTime::now);
    let (cancel, stop) = (CancellationToken::new(), CancellationToken::new());
    let driver =
        tokio::spawn(drive_session(session.clone(), StdoutClient(session.clone()), stop.clone()));
    let patch = ToolCallPatch::for_new_call("greet", "Greet a person", ToolKind::Other);
    let call = session.announce_call(&"t1/c1".into(), &"t1".into(), patch, &cancel);
    let call = call.ok_or(io::ErrorKind::AlreadyExists)?;
    let ended = execute_call(call, GreetTool("Ada")).await;
    session.end_turn(&"t1".into(), CallEndReason::Turn);
    stop.cancel();
    driver.await?;
    writeln!(io::stdout(), "The model reads: {}", ended.text)
}
