//! Invalid messages of a client. Each invalid request gets its own error, and the connection stays
//! open.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::scratch::Scratch;
use crate::harness::script::Model;
use crate::harness::script::text;
use crate::harness::{Agent, CALLBOARD, Options};

async fn ready() -> Agent {
    Agent::ready([text("Hello.")], Options::default()).await
}

/// Asserts that the connection still works and that no file has changed.
async fn assert_alive(mut agent: Agent) {
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "Hello.");
    assert_eq!(agent.scratch.snapshot(), agent.scratch.untouched());
    agent.finish().await;
}

#[tokio::test]
async fn a_line_that_is_not_a_message_gets_an_error_and_the_agent_continues() {
    let deep = "[".repeat(100_000);
    for (line, code) in [
        ("{\"jsonrpc\": \"2.0\", ", -32700),
        ("no JSON at all", -32700),
        ("\u{feff}{}", -32700),
        (&*deep, -32700),
        ("[]", -32600),
        ("17", -32600),
        ("{}", -32600),
        ("{\"jsonrpc\": \"1.0\", \"id\": null, \"method\": \"initialize\"}", -32600),
        ("{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": \"initialize\"}", -32600),
    ] {
        let mut agent = ready().await;
        agent.raw(line).await;
        agent.until(|client| !client.unmatched_errors.is_empty()).await;
        let error = &agent.client.unmatched_errors[0];
        let shown: String = line.chars().take(60).collect();
        assert_eq!(error["code"], code, "{shown}: {error}");
        assert_alive(agent).await;
    }
}

#[tokio::test]
async fn a_too_long_line_gets_an_error_and_the_agent_continues() {
    let mut agent = ready().await;
    agent.raw(&format!("{{\"jsonrpc\": \"2.0\", \"x\": \"{}\"}}", "x".repeat(17 << 20))).await;
    agent.until(|client| !client.unmatched_errors.is_empty()).await;
    assert_alive(agent).await;
}

#[tokio::test]
async fn a_request_before_initialize_is_refused() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": []});
    let error = agent.request("session/new", params).await.unwrap_err();
    assert_eq!(error["code"], -32600, "{error}");
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_alive(agent).await;
}

#[tokio::test]
async fn an_invalid_request_gets_the_error_code_of_its_fault() {
    let prompt = json!([{"type": "text", "text": "go"}]);
    let agent = ready().await;
    let (session, cwd) = (agent.session_id(), agent.scratch.cwd());
    let file = agent.scratch.path("notes.txt");
    let missing = agent.scratch.path("missing");
    let cases: Vec<(&str, Value, &[i64])> = vec![
        ("session/prompt", json!({ "prompt": prompt }), &[-32602]),
        ("session/prompt", json!({ "sessionId": session }), &[-32602]),
        ("session/prompt", json!({"sessionId": session, "prompt": "go"}), &[-32602]),
        ("session/prompt", json!({"sessionId": "none", "prompt": prompt}), &[-32002]),
        ("session/close", json!({"sessionId": "none"}), &[-32002]),
        ("session/new", json!({"mcpServers": []}), &[-32602]),
        ("session/new", json!({ "cwd": cwd }), &[-32602]),
        ("session/new", json!({"cwd": "src", "mcpServers": []}), &[-32602]),
        ("session/new", json!({"cwd": "", "mcpServers": []}), &[-32602]),
        ("session/new", json!({"cwd": missing, "mcpServers": []}), &[-32602, -32002]),
        ("session/new", json!({"cwd": file, "mcpServers": []}), &[-32602, -32002]),
        ("session/new", json!({"cwd": cwd, "mcpServers": 1}), &[-32602]),
        ("initialize", json!({"protocolVersion": "1"}), &[-32602, -32600]),
        ("session/dance", json!({}), &[-32601]),
        ("_callboard.test/nothing", json!({}), &[-32601]),
    ];
    let mut agent = agent;
    for (method, params, codes) in cases {
        let error = agent.request_unchecked(method, params.clone()).await.unwrap_err();
        let code = error["code"].as_i64().unwrap();
        assert!(codes.contains(&code), "{method} {params}: {error}");
    }
    assert_alive(agent).await;
}

#[tokio::test]
async fn an_error_does_not_repeat_the_parameters_of_its_request() {
    let mut agent = ready().await;
    let secret = "s".repeat(4096);
    let params = json!({"sessionId": 1, "secret": secret});
    let error = agent.request_unchecked("session/prompt", params).await.unwrap_err();
    assert!(error.to_string().len() < 1024, "{error}");
    assert_alive(agent).await;
}

#[tokio::test]
async fn a_notification_is_never_answered() {
    let mut agent = ready().await;
    for line in [
        json!({"jsonrpc": "2.0", "method": "session/dance", "params": {}}),
        json!({"jsonrpc": "2.0", "method": "_x/y"}),
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}}),
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": 17}}),
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 404}}),
        json!({"jsonrpc": "2.0", "method": "session/prompt", "params": {}}),
    ] {
        agent.raw(&line.to_string()).await;
    }
    // The answer to this request arrives after every answer to an earlier message.
    agent.request_unchecked("session/dance", json!({})).await.unwrap_err();
    assert_eq!(agent.client.unmatched_errors, [Value::Null; 0]);
    assert_alive(agent).await;
}

#[tokio::test]
async fn a_response_without_a_request_is_ignored() {
    let mut agent = ready().await;
    agent.raw("{\"jsonrpc\":\"2.0\",\"id\":\"none\",\"result\":{}}").await;
    agent.raw("{\"jsonrpc\":\"2.0\",\"id\":404,\"error\":{\"code\":1,\"message\":\"x\"}}").await;
    agent.request_unchecked("session/dance", json!({})).await.unwrap_err();
    assert_alive(agent).await;
}

#[tokio::test]
async fn a_model_that_cannot_be_opened_is_reported_at_start() {
    let scratch = Scratch::new();
    let lines = "{\"text\": \"fine\"}\n\n{\"txet\": \"wrong\"}\n";
    let script = scratch.model(&Model::Script(lines.to_owned()));
    for (model, says) in
        [(&*script, "line 3"), ("script:/no/such/file", "/no/such/file"), ("gpt", "`gpt`")]
    {
        let output = Command::new(CALLBOARD)
            .args(["acp", "--model", model])
            .env_clear()
            .envs(scratch.env())
            .output();
        let output = output.await.unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{model}");
        assert!(log.contains(says) && !log.contains("panicked"), "{model}: {log}");
        assert_eq!(output.stdout, b"", "stdout is for the protocol");
    }
}
