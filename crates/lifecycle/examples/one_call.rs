//! One call of a tool of your own: announced, asked about, run and ended.
//!
//! `cargo run -p acp-lifecycle --example one_call` prints what a client would be sent.

#![expect(clippy::disallowed_methods, reason = "a program reads the clock that the crate may not")]

use std::io::{self, Write as _};
use std::time::SystemTime;

use acp_lifecycle::{
    Answer, CallHandle, CancellationToken, Effect, Executor, Failure, Grant, Item, Pinned, Preview,
    Session, SessionHandle, Sink, Subject, Success, Unreachable, drive, perform,
};
use acp_types::{Reason, ToolCallPatch, ToolKind};
use serde_json::json;

/// A tool that greets somebody, once the client has allowed it.
struct Greet(&'static str);

impl Executor for Greet {
    type Plan = String;

    async fn preview(&mut self, _: &CallHandle) -> Result<Preview<String>, Failure> {
        let args = json!({ "name": self.0 });
        let subject = Subject::of_call("greet", &args, "/project".as_ref(), b"");
        let pinned = Pinned::new(format!("Hello, {}.", self.0), subject);
        let patch = ToolCallPatch::new().title(format!("Greet {}", self.0)).raw_input(args);
        Ok(Preview::new(pinned, Effect::Unknown).with_patch(patch))
    }

    async fn run(
        &mut self,
        pinned: Pinned<String>,
        grant: Grant,
        _: &CallHandle,
    ) -> Result<Success, Failure> {
        let text =
            pinned.release(grant).map_err(|error| Failure::report("bug", error.to_string()))?;
        Ok(Success { text, ..Success::default() })
    }
}

/// A client that prints what changes, and allows what it is asked about.
struct Client(SessionHandle);

impl Sink for Client {
    fn deliver(&mut self, item: Item) -> Result<(), Unreachable> {
        if let Item::Permission(id) = item {
            self.0.answer(id, Answer::Selected { option_id: "allow".to_owned(), reason: None });
        }
        let line = match item {
            Item::ToolCall(id, patch) => format!("{id}: {:?}, {:?}", patch.status, patch.title),
            other => format!("{other:?}"),
        };
        writeln!(io::stdout(), "{line}").or(Err(Unreachable))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let session = SessionHandle::new(Session::new("/project"), SystemTime::now);
    let (cancel, stop) = (CancellationToken::new(), CancellationToken::new());
    let driver = tokio::spawn(drive(session.clone(), Client(session.clone()), stop.clone()));
    let patch = ToolCallPatch::announce("greet", "Greet somebody", ToolKind::Other);
    let call = session.announce(&"t1/c1".into(), &"t1".into(), patch, &cancel);
    let call = call.ok_or(io::ErrorKind::AlreadyExists)?;
    let ended = perform(call, Greet("Ada")).await;
    session.end_turn(&"t1".into(), Reason::Turn);
    stop.cancel();
    driver.await?;
    writeln!(io::stdout(), "The model reads: {}", ended.text)
}
