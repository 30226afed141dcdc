//! Tests that replayed documents give a client the same state as the live session.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::SessionUpdate;
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{
    CallEndReason, ContextUsage, Role, TerminalExit, TerminalPatch, ToolCallPatch, ToolKind,
};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{CallEnd, Session, Timestamp};

/// A session with its client, and the records of the session.
struct Recorded {
    session: Session,
    projection: V1Projection,
    client_state: V1ClientState,
    messages: String,
    fold: TranscriptFold,
    /// The documents with their subjects, in the order in which they were first recorded.
    records: Vec<(String, SessionDocument)>,
    now: Timestamp,
}

impl Recorded {
    fn new(display: TerminalDisplay) -> Self {
        Self {
            session: Session::new("/p"),
            projection: V1Projection::new(display),
            client_state: V1ClientState::new(),
            messages: String::new(),
            fold: TranscriptFold::default(),
            records: Vec::new(),
            now: Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH },
        }
    }

    /// Delivers all waiting items, like a driver.
    fn deliver(&mut self) {
        self.now.monotonic += Duration::from_millis(20);
        self.session.make_all_items_due(self.now.monotonic);
        while let Some(item) = self.session.poll(self.now.monotonic) {
            for changed in self.fold.apply(&item, self.now.monotonic) {
                let known =
                    self.records.iter_mut().find(|(subject, _)| *subject == changed.subject);
                match known {
                    Some((_, document)) => *document = changed.document,
                    None => self.records.push((changed.subject, changed.document)),
                }
            }
            let updates = match item {
                OutboxItem::ToolCall(id, patch) => {
                    self.projection.updates_for_call_patch(&id, patch)
                }
                OutboxItem::Terminal(id, patch) => {
                    self.projection.updates_for_terminal_patch(&id, &patch)
                }
                OutboxItem::Chunk(chunk) => vec![self.projection.update_for_chunk(&chunk)],
                OutboxItem::Prompt(block) => {
                    vec![self.projection.update_for_replayed_prompt_block(&block)]
                }
                OutboxItem::Plan(plan) => vec![self.projection.update_for_plan(&plan)],
                OutboxItem::State(state) => vec![self.projection.update_for_state(&state)],
                OutboxItem::PromptResponse(_) => {
                    self.client_state.check_calls_ended();
                    Vec::new()
                }
                _ => Vec::new(),
            };
            for update in updates {
                let update = serde_json::to_value(update).unwrap();
                let update: SessionUpdate = serde_json::from_value(update).unwrap();
                if let SessionUpdate::AgentMessageChunk(chunk) = &update {
                    self.messages += &serde_json::to_string(&chunk.content).unwrap();
                }
                self.client_state.apply_session_update(&update);
            }
        }
    }

    /// Loads the recorded documents, as another process would.
    fn reload(&self, display: TerminalDisplay) -> Self {
        let mut loaded = Self::new(display);
        for (_, document) in &self.records {
            let text = serde_json::to_string(document).unwrap();
            let document: SessionDocument = serde_json::from_str(&text).unwrap();
            assert_eq!(
                &document,
                self.records.iter().map(|(_, it)| it).find(|it| **it == document).unwrap()
            );
            loaded.session.replay_document(document, loaded.now);
        }
        loaded.deliver();
        loaded
    }

    fn observed_state(&self) -> BTreeMap<String, serde_json::Value> {
        let calls = self.client_state.observed_calls().map(|call| {
            let terminals = call.content.iter().filter_map(|item| {
                let item = serde_json::to_value(item).unwrap();
                let terminal = self.client_state.observed_terminal(item["terminalId"].as_str()?)?;
                Some(format!("{terminal:?}"))
            });
            let terminals: Vec<_> = terminals.collect();
            (call.tool_call_id.to_string(), json!({"call": call, "terminals": terminals}))
        });
        calls.collect()
    }
}

fn announced(recorded: &mut Recorded, id: &'static str, kind: ToolKind) {
    let patch = ToolCallPatch::for_new_call("tool", format!("Do {id}"), kind)
        .with_raw_input(json!({"a": 1}));
    assert!(recorded.session.announce_call(&id.into(), &"t1".into(), patch, recorded.now));
    recorded.deliver();
}

/// Records one of each kind of document: a text, a thought, calls that complete, fail or are
/// cancelled, a terminal and a plan.
fn record_all_kinds(recorded: &mut Recorded) {
    let chunk = |role, text: &str| MessageChunk::new(role, "m", text);
    let now = recorded.now;
    recorded.session.send_message_chunk(chunk(Role::Thought, "hm"), now);
    recorded.session.send_message_chunk(chunk(Role::Agent, "I "), now);
    recorded.deliver();
    recorded.session.send_message_chunk(chunk(Role::Agent, "begin"), now);
    announced(recorded, "read", ToolKind::Read);
    recorded.session.start_call(&"read".into(), recorded.now);
    recorded.deliver();
    let end = CallEnd::completed().with_patch(
        ToolCallPatch::new()
            .with_appended_content(Content::from_text("done"))
            .with_raw_output(json!("x")),
    );
    recorded.session.finish_call(&"read".into(), end, recorded.now);
    let opened = TerminalPatch::for_new_terminal("make", "/p");
    recorded.session.announce_terminal(&"term".into(), opened, recorded.now);
    let patch = ToolCallPatch::for_new_call("terminal", "Run make", ToolKind::Execute)
        .with_content(vec![Content::Terminal("term".into())]);
    recorded.session.announce_call(&"run".into(), &"t1".into(), patch, recorded.now);
    recorded.session.start_call(&"run".into(), recorded.now);
    recorded.deliver();
    for line in ["one\n", "two\n", "three\n"] {
        recorded.session.append_terminal_output(&"term".into(), line.as_bytes(), recorded.now);
        recorded.deliver();
    }
    let exit = TerminalExit { code: Some(2), signal: None };
    recorded.session.exit_terminal(&"term".into(), exit, recorded.now);
    recorded.session.finish_call(
        &"run".into(),
        CallEnd::failed(CallEndReason::Error),
        recorded.now,
    );
    announced(recorded, "never", ToolKind::Edit);
    let denied = CallEnd::failed(CallEndReason::User);
    recorded.session.finish_call(&"never".into(), denied, recorded.now);
    announced(recorded, "stopped", ToolKind::Edit);
    recorded.session.start_call(&"stopped".into(), recorded.now);
    recorded.session.finish_call(
        &"stopped".into(),
        CallEnd::cancelled(CallEndReason::User),
        recorded.now,
    );
    recorded.session.send_plan(Plan::default(), recorded.now);
    let usage = SessionStatePart::Usage(ContextUsage::new(1, 2));
    recorded.session.send_state_part(usage, recorded.now);
    recorded.session.send_message_chunk(chunk(Role::Agent, "end"), recorded.now);
    recorded.session.end_turn(&"t1".into(), CallEndReason::Turn, recorded.now);
    recorded.deliver();
}

#[test]
fn a_replay_restores_the_state_of_the_client() {
    for display in [TerminalDisplay::Text, TerminalDisplay::MetaEvents] {
        let mut live = Recorded::new(display);
        record_all_kinds(&mut live);
        let loaded = live.reload(display);
        assert_eq!(loaded.observed_state(), live.observed_state(), "{display:?}");
        assert_eq!(loaded.client_state.latest_plan(), live.client_state.latest_plan());
        let texts = |messages: &str| messages.replace(r#""}{"type":"text","text":""#, "");
        assert_eq!(texts(&loaded.messages), texts(&live.messages));
        assert_eq!(loaded.client_state.violations(), []);
        assert_eq!(live.client_state.violations(), []);
        // The records of a loaded session are the same as before the load.
        assert_eq!(loaded.reload(display).observed_state(), live.observed_state());
        for id in ["read", "run", "never", "stopped"] {
            assert!(loaded.session.board().is_id_used(&id.into()));
        }
    }
}

#[test]
fn an_interrupted_call_fails_once_and_shows_its_last_output() {
    for display in [TerminalDisplay::Text, TerminalDisplay::MetaEvents] {
        let mut live = Recorded::new(display);
        let opened = TerminalPatch::for_new_terminal("sleep", "/p");
        live.session.announce_terminal(&"term".into(), opened, live.now);
        let patch = ToolCallPatch::for_new_call("terminal", "Run sleep", ToolKind::Execute)
            .with_content(vec![Content::Terminal("term".into())]);
        live.session.announce_call(&"run".into(), &"t1".into(), patch, live.now);
        live.session.start_call(&"run".into(), live.now);
        live.deliver();
        live.now.monotonic += OPEN_DOCUMENT_INTERVAL;
        live.session.append_terminal_output(&"term".into(), b"begun\n", live.now);
        live.deliver();
        let loaded = live.reload(display);
        let call = loaded.client_state.observed_call("run").unwrap();
        let call = serde_json::to_value(call).unwrap();
        assert_eq!(call["status"], "failed");
        assert_eq!(call["rawOutput"]["code"], "shutdown");
        assert_eq!(call["_meta"]["callboard"]["reason"], "shutdown");
        let run = loaded.observed_state()["run"].to_string();
        assert!(run.contains("begun"), "{run}");
        assert_eq!(loaded.client_state.violations(), []);
    }
}

#[test]
fn a_document_that_is_open_is_recorded_at_most_once_a_second() {
    let mut fold = TranscriptFold::default();
    let now = Instant::now();
    let chunk = |text: &str| OutboxItem::Chunk(MessageChunk::new(Role::Agent, "m", text));
    assert_eq!(fold.apply(&chunk("a"), now).len(), 1);
    assert_eq!(fold.apply(&chunk("b"), now + OPEN_DOCUMENT_INTERVAL / 2), []);
    let later = now + OPEN_DOCUMENT_INTERVAL;
    let [changed] = &fold.apply(&chunk("c"), later)[..] else { panic!("the whole message") };
    assert!(!changed.is_final);
    assert_eq!(fold.apply(&chunk("d"), later), []);
    let [end] = &fold.apply(&OutboxItem::PromptResponse("t1".into()), later)[..] else {
        panic!("the whole message")
    };
    assert!(end.is_final && end.subject == changed.subject);
    let SessionDocument::Message(message) = &end.document else { panic!("a message") };
    assert_eq!(message.text, "abcd");
}

#[test]
fn replayed_terminal_output_is_redacted_with_the_current_secrets() {
    let secret = "a-key-4567-89ab-cdef-0123";
    let long = format!("{}{secret}{}", "a".repeat(8180), "b".repeat(60_000));
    for (output, omitted) in [(format!("one {secret} two"), 0), (long, 60_000 + 8180 + 25 - 49_152)]
    {
        let mut live = Recorded::new(TerminalDisplay::Text);
        let now = live.now;
        live.session.announce_terminal(&"c".into(), TerminalPatch::default(), now);
        let patch = ToolCallPatch::for_new_call("terminal", "run", ToolKind::Execute);
        let patch = patch.with_content(vec![Content::Terminal("c".into())]);
        assert!(live.session.announce_call(&"c".into(), &"t".into(), patch, now));
        live.session.append_terminal_output(&"c".into(), output.as_bytes(), now);
        live.deliver();
        live.session.end_turn(&"t".into(), CallEndReason::Turn, now);
        live.deliver();
        let mut loaded = Session::new("/p");
        loaded.set_secrets(crate::Secrets::new([secret]));
        for (_, document) in &live.records {
            loaded.replay_document(document.clone(), now);
        }
        let mut shown = TerminalReport::new("c".into());
        while let Some(item) = loaded.poll(now.monotonic) {
            if let OutboxItem::Terminal(_, patch) = item {
                patch.apply(&mut shown);
            }
        }
        let text = String::from_utf8(shown.output.to_bytes_with_omission_line()).unwrap();
        assert!(text.contains("[redacted]") && !text.contains("a-key"), "{text:.9000}");
        assert_eq!(shown.output.omitted_bytes(), omitted);
    }
}

#[test]
fn a_terminal_that_its_call_no_longer_shows_ends_with_the_call() {
    let mut recorded = Recorded::new(TerminalDisplay::Text);
    announced(&mut recorded, "run", ToolKind::Execute);
    recorded.session.start_call(&"run".into(), recorded.now);
    let opened = TerminalPatch::for_new_terminal("make", "/p");
    recorded.session.announce_terminal(&"run".into(), opened, recorded.now);
    let shown = ToolCallPatch::new().with_content(vec![Content::Terminal("run".into())]);
    recorded.session.update_call(&"run".into(), shown, recorded.now);
    recorded.deliver();
    let text = ToolCallPatch::new().with_content(vec![Content::from_text("a summary")]);
    recorded.session.update_call(&"run".into(), text, recorded.now);
    recorded.session.append_terminal_output(&"run".into(), b"built\n", recorded.now);
    recorded.deliver();
    recorded.session.finish_call(&"run".into(), CallEnd::completed(), recorded.now);
    recorded.deliver();
    assert!(recorded.session.board().terminal(&"run".into()).is_none());
    assert!(recorded.fold.terminals.is_empty());
    // If the projection still had the terminal, the next call would show it.
    announced(&mut recorded, "next", ToolKind::Execute);
    let shown = ToolCallPatch::new().with_content(vec![Content::Terminal("run".into())]);
    recorded.session.update_call(&"next".into(), shown, recorded.now);
    recorded.deliver();
    let calls = recorded.observed_state();
    assert_eq!(calls["next"]["call"]["content"], serde_json::Value::Null);
}
