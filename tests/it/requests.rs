//! Requests in any order and at any time. Each request is answered exactly once.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use serde_json::{Value, json};

use crate::harness::raw::{INITIALIZE, Raw, request};

#[test]
fn requests_sent_before_the_answer_to_initialize_are_answered() {
    let mut agent = Raw::start(&["--model", "direct"]);
    let new = json!({ "cwd": agent.scratch.cwd(), "mcpServers": [] });
    let mut lines = format!("{INITIALIZE}\n");
    // The requests are larger than the buffer of a pipe, so that the test also blocks when it
    // writes.
    for at in 0..200 {
        let meta = json!({ "cwd": "relative", "mcpServers": [], "_meta": {"x": "y".repeat(700)} });
        lines += &(request(&format!("bad{at}"), "session/new", &meta) + "\n");
    }
    lines += &(request("new", "session/new", &new) + "\n");
    agent.write(lines.as_bytes());
    assert_eq!(agent.answer("init")["result"]["protocolVersion"], 1);
    for at in 0..200 {
        assert_eq!(agent.answer(&format!("bad{at}"))["error"]["code"], -32602);
    }
    assert!(agent.answer("new")["result"]["sessionId"].is_string());
    drop(agent.end());
}

#[test]
fn requests_without_initialize_are_refused() {
    let mut agent = Raw::start(&["--model", "direct"]);
    agent.send(request("early", "session/new", &json!({ "cwd": "/", "mcpServers": [] })));
    assert_eq!(agent.answer("early")["error"]["code"], -32600);
    agent.initialize();
    drop(agent.end());
}

#[test]
fn a_refused_initialize_delays_no_other_request() {
    let mut agent = Raw::start(&["--model", "direct"]);
    let bad = request("bad", "initialize", &json!({ "protocolVersion": "one" }));
    let early = request("early", "session/new", &json!({ "cwd": "/", "mcpServers": [] }));
    agent.write(format!("{bad}\n{early}\n").as_bytes());
    assert!(agent.answer("bad")["error"].is_object());
    assert!(agent.answer("early")["error"].is_object());
    drop(agent.end());
}

/// The turn waits for a permission answer, which arrives after the second request with the same id.
#[test]
fn an_initialize_with_the_id_of_another_request_delays_nothing() {
    let mut agent = Raw::start(&["--model", "direct"]);
    agent.initialize();
    let session = agent.new_session();
    let prompt =
        json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "run true" }] });
    agent.send(request("twice", "session/prompt", &prompt));
    let asked = loop {
        let message: Value = serde_json::from_str(&agent.receive()).unwrap();
        if message["method"] == "session/request_permission" {
            break message["id"].clone();
        }
    };
    agent.send(request("twice", "initialize", &json!({ "protocolVersion": 1 })));
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow" } });
    agent.send(json!({ "jsonrpc": "2.0", "id": asked, "result": outcome }).to_string());
    assert_eq!(agent.answer("twice")["result"]["protocolVersion"], 1);
    assert_eq!(agent.answer("twice")["result"]["stopReason"], "end_turn");
    drop(agent.end());
}

/// One line that a client with open sessions sends.
#[derive(Debug, Clone)]
enum ClientLine {
    /// A request with this method and these parameters, for the session with this index.
    Ask(&'static str, usize, Value),
    /// The notification `session/cancel` for the session with this index.
    Cancel(usize),
    /// The notification `$/cancel_request` for the request in the line with this index.
    CancelRequest(usize),
}

/// Number of open sessions. An index equal to this number stands for a session that does not exist.
const SESSIONS: usize = 3;

fn line() -> impl Strategy<Value = ClientLine> {
    let session = 0..SESSIONS + 1;
    let prompts = prop::sample::select(vec![
        "read notes.txt",
        "run true",
        "run sleep 0.03",
        "write new.txt\n<<<\na\n>>>",
        "think hm\nlist",
        "no command",
        "/mode ask",
        "/undo",
    ]);
    let prompt = prompts.prop_map(|text| json!({ "prompt": [{ "type": "text", "text": text }] }));
    let mode = prop::sample::select(vec!["ask", "auto", "read-only", "none"]);
    let option = prop::sample::select(vec![
        ("model", "direct"),
        ("model", "script:missing.jsonl"),
        ("mode", "accept-edits"),
        ("thought_level", "low"),
        ("none", "none"),
    ]);
    let set_option = option.prop_map(|(id, value)| json!({ "configId": id, "value": value }));
    let other = prop::sample::select(vec![
        ("session/new", json!({ "cwd": "/", "mcpServers": [] })),
        ("session/new", json!({ "cwd": "/none", "mcpServers": [] })),
        ("session/load", json!({ "cwd": "/", "mcpServers": [] })),
        ("session/list", json!({})),
        ("authenticate", json!({ "methodId": "none" })),
        ("logout", json!({})),
        ("initialize", json!({ "protocolVersion": 1 })),
        ("session/prompt", json!({ "prompt": 1 })),
        ("none", json!({})),
    ]);
    prop_oneof![
        4 => (session.clone(), prompt).prop_map(|(at, it)| ClientLine::Ask("session/prompt", at, it)),
        2 => (session.clone(), mode)
            .prop_map(|(at, mode)| ClientLine::Ask("session/set_mode", at, json!({ "modeId": mode }))),
        3 => (session.clone(), set_option)
            .prop_map(|(at, it)| ClientLine::Ask("session/set_config_option", at, it)),
        2 => session.clone().prop_map(|at| ClientLine::Ask("session/close", at, json!({}))),
        2 => (session.clone(), other).prop_map(|(at, (method, it))| ClientLine::Ask(method, at, it)),
        1 => session.prop_map(ClientLine::Cancel),
        1 => (0..30_usize).prop_map(ClientLine::CancelRequest),
    ]
}

/// Returns the responses, grouped by the ids of their requests.
fn answers(lines: impl Iterator<Item = String>) -> BTreeMap<String, Vec<Value>> {
    let mut answers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in lines {
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"].is_null() {
            let id = message["id"].as_str().unwrap().to_owned();
            answers.entry(id).or_default().push(message);
        }
    }
    answers
}

/// Sends all lines to an agent at once. If `disconnects` is true, closes the agent's input
/// immediately; otherwise, closes it after all requests are answered.
fn check(lines: &[ClientLine], disconnects: bool) {
    let mut agent = Raw::start(&["--model", "direct", "--mode", "auto"]);
    agent.initialize();
    let sessions: Vec<_> = (0..SESSIONS).map(|_| agent.new_session()).collect();
    let session = |at: &usize| sessions.get(*at).map_or("sess_none", String::as_str);
    let mut asked = Vec::new();
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        text += &match line {
            ClientLine::Ask(method, of, params) => {
                let mut params = params.clone();
                params["sessionId"] = session(of).into();
                asked.push(format!("r{at}"));
                request(&format!("r{at}"), method, &params)
            }
            ClientLine::Cancel(of) => json!({
                "jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session(of)},
            })
            .to_string(),
            ClientLine::CancelRequest(of) => json!({
                "jsonrpc": "2.0", "method": "$/cancel_request",
                "params": {"requestId": format!("r{of}")},
            })
            .to_string(),
        };
        text.push('\n');
    }
    agent.write(text.as_bytes());
    let mut said = Vec::new();
    let mut open = asked.clone();
    while !disconnects && !open.is_empty() {
        let line = agent.receive();
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"].is_null() {
            open.retain(|id| message["id"] != **id);
        } else if let Some(id) = message.get("id") {
            let error = json!({ "code": -32601, "message": "Method not found" });
            agent.send(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
        }
        said.push(line);
    }
    said.extend(agent.end());
    let answers = answers(said.into_iter());
    for id in &asked {
        let answers = answers.get(id).map_or(&[][..], Vec::as_slice);
        assert!(answers.len() == 1 || disconnects && answers.is_empty(), "{id}: {answers:?}");
        // The SDK sends a response with this text if the agent drops a request.
        let text = json!(answers).to_string();
        assert!(!text.contains("without responding"), "{id}: {text}");
    }
    assert_eq!(answers.keys().filter(|id| !asked.contains(id)).count(), 0);
}

proptest! {
    // `PROPTEST_CASES` overrides the number of random cases.
    #![proptest_config(Config {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    })]

    #[test]
    fn every_request_is_answered_once(
        lines in vec(line(), 1..60),
        disconnects in any::<bool>(),
    ) {
        check(&lines, disconnects);
    }
}

/// Regression test: if a session closes directly after a change of its model, the change must be
/// answered although the session has already ended.
#[test]
fn a_change_of_the_model_is_answered_although_its_session_closes() {
    let set = json!({ "configId": "model", "value": "direct" });
    let pairs = (0..SESSIONS).flat_map(|at| {
        let set = ClientLine::Ask("session/set_config_option", at, set.clone());
        [set, ClientLine::Ask("session/close", at, json!({}))]
    });
    let lines: Vec<_> = pairs.collect();
    for _ in 0..10 {
        check(&lines, false);
    }
}
