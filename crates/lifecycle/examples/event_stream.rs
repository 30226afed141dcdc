//! Converts another agent's event stream to `session/update` notifications of ACP v1.
//!
//! The events have the form that Codex and other agents use: an item starts, its output arrives in
//! deltas, and the item completes. Items that start twice, end twice or never end are corrected.
//!
//! `cargo run -p acp-lifecycle --example event_stream < events.jsonl`

#![expect(clippy::disallowed_methods, reason = "a program reads the clock that the crate may not")]

use std::io::{self, BufRead as _, Write};
use std::time::{Instant, SystemTime};

use acp_lifecycle::{OutboxItem, Session, Timestamp};
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{
    CallEndReason, Content, MessageChunk, Status, TerminalExit, TerminalPatch, ToolCallPatch,
    ToolKind, TurnId,
};
use serde::Deserialize;
use serde_json::json;

/// A line of the stream.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Event {
    Started { id: String, command: String },
    Delta { id: String, text: String },
    Completed { id: String, exit_code: i32 },
    Message { id: String, text: String },
}

/// Converts events to updates.
struct EventBridge {
    session: Session,
    sent: V1Projection,
    turn: TurnId,
}

impl EventBridge {
    fn new() -> Self {
        let mut session = Session::new("/project");
        // `TerminalDisplay::from_capabilities(&client_capabilities)` selects terminals for clients
        // that can display terminals.
        let surface = TerminalDisplay::Text;
        session.set_shows_terminals(surface == TerminalDisplay::MetaEvents);
        Self { session, sent: V1Projection::new(surface), turn: "turn1".into() }
    }

    fn handle_event(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Started { id, command } => {
                let patch =
                    ToolCallPatch::for_new_call("exec", format!("`{command}`"), ToolKind::Execute)
                        .with_raw_input(json!({ "command": command }))
                        .with_appended_content(Content::Terminal(id.clone().into()))
                        .with_status(Status::InProgress);
                self.session.upsert_foreign_call(&id.clone().into(), &self.turn, patch, now);
                let terminal = TerminalPatch::for_new_terminal(command, "/project");
                self.session.announce_terminal(&id.into(), terminal, now);
            }
            Event::Delta { id, text } => {
                self.session.append_terminal_output(&id.into(), text.as_bytes(), now);
            }
            Event::Completed { id, exit_code } => {
                let exit = TerminalExit { code: Some(exit_code), signal: None };
                self.session.exit_terminal(&id.clone().into(), exit, now);
                let status = if exit_code == 0 { Status::Completed } else { Status::Failed };
                let patch = ToolCallPatch::new().with_status(status);
                self.session.upsert_foreign_call(&id.into(), &self.turn, patch, now);
            }
            Event::Message { id, text } => {
                self.session.send_message_chunk(MessageChunk::from_agent(id, text), now);
            }
        }
    }

    /// Ends every item that is still open at the end of the stream.
    fn end_open_items(&mut self, now: Timestamp) {
        self.session.end_turn(&self.turn.clone(), CallEndReason::Turn, now);
        self.session.make_all_items_due(now.monotonic);
    }

    /// Writes the updates that are due. Call this method again at `session.next_poll_deadline()`,
    /// or after the next event if the event comes earlier.
    fn write_updates(&mut self, out: &mut impl Write, now: Instant) -> io::Result<()> {
        while let Some(item) = self.session.poll(now) {
            let updates = match item {
                OutboxItem::ToolCall(id, patch) => self.sent.updates_for_call_patch(&id, patch),
                OutboxItem::Terminal(id, new) => self.sent.updates_for_terminal_patch(&id, &new),
                OutboxItem::Chunk(chunk) => vec![self.sent.update_for_chunk(&chunk)],
                _ => Vec::new(),
            };
            for update in updates {
                writeln!(out, "{}", json!(update.into_params("sess_1")))?;
            }
        }
        Ok(())
    }
}

fn now() -> Timestamp {
    Timestamp { monotonic: Instant::now(), wall: SystemTime::now() }
}

fn main() -> io::Result<()> {
    let (mut bridge, mut out) = (EventBridge::new(), io::stdout().lock());
    for line in io::stdin().lock().lines() {
        match serde_json::from_str(&line?) {
            Ok(event) => bridge.handle_event(event, now()),
            Err(error) => writeln!(io::stderr(), "skipped a line: {error}")?,
        }
        bridge.write_updates(&mut out, Instant::now())?;
    }
    bridge.end_open_items(now());
    bridge.write_updates(&mut out, Instant::now())
}

#[cfg(test)]
mod tests {
    use super::{EventBridge, now};
    use acp_types::client_state::v1::V1ClientState;
    use acp_types::schema::v1::ToolCallStatus::Failed;

    #[test]
    fn each_item_is_a_call_that_ends_once() {
        let mut bridge = EventBridge::new();
        for line in [
            r#"{"type":"started","id":"1","command":"make"}"#,
            r#"{"type":"delta","id":"1","text":"cc a.c\n"}"#,
            r#"{"type":"completed","id":"1","exit_code":2}"#,
            r#"{"type":"completed","id":"1","exit_code":0}"#,
            r#"{"type":"started","id":"2","command":"sleep 9"}"#,
        ] {
            bridge.handle_event(serde_json::from_str(line).unwrap(), now());
        }
        bridge.end_open_items(now());
        let mut out = Vec::new();
        bridge.write_updates(&mut out, now().monotonic).unwrap();
        let mut client_state = V1ClientState::new();
        for line in String::from_utf8(out).unwrap().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            client_state
                .apply_session_update(&serde_json::from_value(line["update"].clone()).unwrap());
        }
        let calls: Vec<_> =
            client_state.observed_calls().map(|call| (&*call.title, call.status)).collect();
        let (make, sleep) = (("`make`", Failed), ("`sleep 9`", Failed));
        assert_eq!((calls, client_state.violations()), (vec![make, sleep], &[][..]));
    }
}
