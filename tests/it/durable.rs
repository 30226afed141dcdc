//! Promise G10: if the agent is killed at any moment, nothing that a client received as final is
//! lost. `crates/store/tests/faults.rs` has the same test for the writes of the store.
//!
//! The variable `DURABLE_KILLS` sets the number of kills, and `DURABLE_SEED` sets the random seed.

use std::collections::BTreeMap;
use std::time::SystemTime;

use acp_store::{SessionHolder, SqliteSessionStore};
use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::SessionUpdate;
use serde_json::{Value, json};

use crate::harness::raw::{Raw, request};
use crate::harness::scratch::Scratch;
use crate::harness::script::{Model, call, end, run, text};

/// Number of prompts of a session.
const PROMPTS: usize = 3;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// A random number generator (SplitMix64). The same seed always gives the same numbers.
struct Numbers(u64);

impl Numbers {
    /// Returns a random number from 0 to `end - 1`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 33) as usize % end
    }
}

/// Returns a model with a script of random replies. Each start of the model repeats the script.
fn random_model(numbers: &mut Numbers) -> Model {
    let mut lines = Vec::new();
    for _ in 0..=numbers.below(4) {
        for _ in 0..=numbers.below(6) {
            lines.push(match numbers.below(8) {
                0 => json!({"thought": "First I look. "}),
                1 | 2 => text(&"Some words. ".repeat(1 + numbers.below(40))),
                3 => json!({"delay_ms": numbers.below(3)}),
                4 => call("read_file", json!({"path": "notes.txt"})),
                5 => call("write_file", json!({"path": "new.txt", "content": "a\n"})),
                6 => {
                    call("todo_write", json!({"todos": [{"content": "Look", "status": "pending"}]}))
                }
                _ => run("echo one; echo two >&2; exit 3"),
            });
        }
        lines.push(end());
    }
    lines.push(text("Done."));
    Model::from(lines)
}

/// The client's view of a session: its entries in the order in which they arrived.
#[derive(Debug, Default)]
struct ReceivedSession {
    entries: Vec<Entry>,
    client_state: V1ClientState,
}

#[derive(Debug, Clone, PartialEq)]
enum Entry {
    Prompt(String),
    /// A message of the agent, or a part of it between two other entries.
    Text {
        kind: String,
        id: Value,
        text: String,
    },
    Call(String),
    /// The response to a prompt. The agent does not send it again when the session is loaded.
    Answer,
}

impl ReceivedSession {
    fn receive(&mut self, line: &str) {
        // If the agent is killed, its last line may be incomplete.
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        if message["result"]["stopReason"].is_string() {
            self.entries.push(Entry::Answer);
        }
        if message["method"] != "session/update" {
            return;
        }
        let update = &message["params"]["update"];
        let kind = update["sessionUpdate"].as_str().unwrap();
        match kind {
            "user_message_chunk" => {
                let text = update["content"]["text"].as_str().unwrap();
                self.entries.push(Entry::Prompt(text.to_owned()));
            }
            "agent_message_chunk" | "agent_thought_chunk" => {
                let piece = update["content"]["text"].as_str().unwrap();
                match self.entries.last_mut() {
                    Some(Entry::Text { kind: last, id, text })
                        if *last == kind && *id == update["messageId"] =>
                    {
                        text.push_str(piece);
                    }
                    _ => self.entries.push(Entry::Text {
                        kind: kind.to_owned(),
                        id: update["messageId"].clone(),
                        text: piece.to_owned(),
                    }),
                }
            }
            "tool_call" => {
                self.entries.push(Entry::Call(update["toolCallId"].as_str().unwrap().to_owned()));
            }
            _ => {}
        }
        let update: SessionUpdate = serde_json::from_value(update.clone()).unwrap();
        self.client_state.apply_session_update(&update);
    }

    /// Returns the calls that have ended, or the calls that have not ended.
    fn calls(&self, has_ended: bool) -> BTreeMap<String, Value> {
        let calls = self
            .client_state
            .observed_calls()
            .map(|call| (call.tool_call_id.to_string(), serde_json::to_value(call).unwrap()));
        let is_ended =
            |call: &Value| ["completed", "failed"].iter().any(|it| call["status"] == *it);
        calls.filter(|(_, call)| is_ended(call) == has_ended).collect()
    }

    /// Returns the entries that must not be lost: ended calls, complete messages, and answered
    /// prompts. A message is complete if another entry arrived after it.
    fn durable_entries(&self) -> Vec<Entry> {
        let ended = self.calls(true);
        let answered = self.entries.iter().rposition(|entry| *entry == Entry::Answer);
        let is_durable = |(at, entry): &(usize, &Entry)| match entry {
            Entry::Prompt(_) => answered.is_some_and(|answered| *at < answered),
            Entry::Text { .. } => at + 1 < self.entries.len(),
            Entry::Call(id) => ended.contains_key(id),
            Entry::Answer => false,
        };
        let entries = self.entries.iter().enumerate().filter(is_durable);
        entries.map(|(_, entry)| entry.clone()).collect()
    }
}

/// Runs prompts until all are answered or the client has received `kill_at` lines. Then kills the
/// agent after a short busy loop of `turns` iterations. Returns the client's view and the session
/// id.
fn run_and_kill(
    scratch: &Scratch,
    model: &str,
    kill_at: usize,
    turns: usize,
) -> (ReceivedSession, String) {
    let mut agent = Raw::start_in(scratch.clone(), &["--model", model, "--mode", "auto"]);
    agent.initialize();
    let session = agent.new_session();
    let mut received = ReceivedSession::default();
    let mut lines = 0;
    'prompts: for prompt in 0..PROMPTS {
        let text = format!("Prompt {prompt}");
        let blocks = json!([{"type": "text", "text": text}]);
        agent.send(request(
            "p",
            "session/prompt",
            &json!({"sessionId": session, "prompt": blocks}),
        ));
        received.entries.push(Entry::Prompt(text));
        while lines < kill_at {
            let line = agent.receive();
            lines += 1;
            received.receive(&line);
            if received.entries.last() == Some(&Entry::Answer) {
                continue 'prompts;
            }
        }
        break;
    }
    (0..turns).for_each(|_| std::hint::spin_loop());
    // The lines that are still in the pipe also reach the client.
    agent.kill().iter().for_each(|line| received.receive(line));
    (received, session)
}

/// Loads the session in a new process, and asserts that nothing final is lost.
fn require_durable(
    scratch: &Scratch,
    model: &str,
    (live, session): &(ReceivedSession, String),
    what: &str,
) {
    let mut agent = Raw::start_in(scratch.clone(), &["--model", model, "--mode", "auto"]);
    agent.initialize();
    let params = json!({"sessionId": session, "cwd": scratch.cwd(), "mcpServers": []});
    agent.send(request("load", "session/load", &params));
    let mut loaded = ReceivedSession::default();
    let answer = loop {
        let line = agent.receive();
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"] == "load" {
            break message;
        }
        loaded.receive(&line);
    };
    agent.kill();
    let durable = live.durable_entries();
    if answer["error"].is_object() {
        // The agent was killed before it stored the session.
        assert_eq!(answer["error"]["data"]["reason"], "unknown_session", "{what}");
        assert_eq!(durable, [], "{what}");
        return;
    }
    assert_eq!(loaded.client_state.violations(), [], "{what}");
    assert_eq!(loaded.calls(false), BTreeMap::new(), "{what}: a call stays open");
    let after = loaded.calls(true);
    for (id, call) in live.calls(true) {
        assert_eq!(after.get(&id), Some(&call), "{what}: {id}");
    }
    let mut rest = loaded.entries.iter();
    for entry in &durable {
        assert!(
            rest.any(|other| other == entry),
            "{what}: {entry:?} of {durable:#?} in {loaded:#?}"
        );
    }
    let holder = SessionHolder::new(1, "test", SystemTime::now());
    let store = SqliteSessionStore::open(&scratch.sessions(), holder, || 4).unwrap();
    assert_eq!(store.find_integrity_faults().unwrap(), [""; 0], "{what}");
}

#[test]
fn a_kill_at_any_instant_loses_nothing_final() {
    let seed = number("DURABLE_SEED", 7) as u64;
    let mut final_entries = 0;
    for case in 0..number("DURABLE_KILLS", 12) {
        let numbers = &mut Numbers(seed ^ ((case as u64) << 32));
        let scratch = Scratch::new();
        let model = scratch.model(&random_model(numbers));
        let (kill_at, turns) = (numbers.below(60), numbers.below(100_000));
        let killed = run_and_kill(&scratch, &model, kill_at, turns);
        final_entries += killed.0.durable_entries().len();
        require_durable(&scratch, &model, &killed, &format!("case {case} of seed {seed}"));
    }
    assert!(final_entries > 0);
}
