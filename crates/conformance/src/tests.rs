//! Tests of the kit itself, against a scripted agent: the test writes every line of the agent.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_types::schema::v1::PermissionOptionKind;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};

use crate::{
    AgentTestError, AgentUnderTest, ClientBehaviour, ConformanceRule, FileService, FormReply,
    OutputTruncation, PermissionReply, PermissionReplyTiming, ScriptedCommand, ServiceBehaviour,
    Side, TerminalService,
};

/// The agent's end of both streams.
struct ScriptedAgent {
    output: DuplexStream,
    input: BufReader<DuplexStream>,
}

impl ScriptedAgent {
    async fn send(&mut self, message: &Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.input.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends the client a request of the session `s`.
    async fn send_request(&mut self, id: i64, method: &str, mut params: Value) {
        params["sessionId"] = json!("s");
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    /// Cancels a request of the agent with `$/cancel_request`.
    async fn cancel_request(&mut self, id: i64) {
        let params = json!({"requestId": id});
        self.send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})).await;
    }
}

fn start_scripted_agent(behaviour: impl Into<ClientBehaviour>) -> (AgentUnderTest, ScriptedAgent) {
    let (says, output) = duplex(1 << 20);
    let (input, hears) = duplex(1 << 20);
    let agent = AgentUnderTest::connect(output, input, behaviour);
    (agent, ScriptedAgent { output: says, input: BufReader::new(hears) })
}

/// Sends a request to the client, and returns its response.
async fn request_from_client(
    agent: &mut AgentUnderTest,
    puppet: &mut ScriptedAgent,
    method: &str,
    params: Value,
) -> Value {
    puppet.send_request(1, method, params).await;
    puppet.cancel_request(1).await;
    let before = agent.client.cancelled_requests.len();
    agent.wait_until(|client| client.cancelled_requests.len() > before).await.unwrap();
    puppet.receive().await
}

fn permission_params() -> Value {
    let option = json!({"optionId": "yes", "name": "Yes", "kind": "allow_once"});
    json!({"toolCall": {"toolCallId": "c"}, "options": [option]})
}

/// Returns the client's messages after a permission request and a cancellation.
async fn permission_answers(behaviour: impl Into<ClientBehaviour>) -> Vec<Value> {
    let (mut agent, mut puppet) = start_scripted_agent(behaviour);
    puppet.send_request(1, "session/request_permission", permission_params()).await;
    agent.wait_until(|client| !client.permission_requests.is_empty()).await.unwrap();
    agent.cancel_and_send_deferred_replies("s").await.unwrap();
    agent.close_input();
    let mut heard = Vec::new();
    let mut line = String::new();
    while puppet.input.read_line(&mut line).await.unwrap() > 0 {
        let message: Value = serde_json::from_str(&line).unwrap();
        heard.push(match message["method"].as_str() {
            Some(method) => json!(method),
            None => message["result"]["outcome"].clone(),
        });
        line.clear();
    }
    heard
}

#[tokio::test]
async fn permission_is_answered_as_configured() {
    let yes = json!({"outcome": "selected", "optionId": "yes"});
    let cancel = json!("session/cancel");
    let with = |timing| ClientBehaviour { timing, ..ClientBehaviour::default() };
    assert_eq!(permission_answers(ClientBehaviour::default()).await, [yes.clone(), cancel.clone()]);
    assert_eq!(
        permission_answers(with(PermissionReplyTiming::Twice)).await,
        [yes.clone(), yes.clone(), cancel.clone()]
    );
    assert_eq!(
        permission_answers(with(PermissionReplyTiming::AfterCancel)).await,
        [cancel.clone(), yes]
    );
    assert_eq!(permission_answers(PermissionReply::NoReply).await, [json!("session/cancel")]);
    assert_eq!(permission_answers(PermissionReply::Error).await, [json!(null), cancel.clone()]);
    assert_eq!(
        permission_answers(PermissionReply::Malformed).await,
        [json!("allow"), cancel.clone()]
    );
    let other = json!({"outcome": "selected", "optionId": "other"});
    assert_eq!(
        permission_answers(PermissionReply::SelectId("other")).await,
        [other, cancel.clone()]
    );
    for (ids, expected) in [
        (&["other", "yes"][..], json!({"outcome": "selected", "optionId": "yes"})),
        (&["other"], json!({"outcome": "cancelled"})),
    ] {
        let reply = PermissionReply::SelectFirstOffered(ids);
        assert_eq!(permission_answers(reply).await, [expected, cancel.clone()]);
    }
    let none = PermissionReply::Select(PermissionOptionKind::AllowAlways);
    assert_eq!(permission_answers(none).await, [json!({"outcome": "cancelled"}), cancel]);
}

#[tokio::test]
async fn forms_are_answered_as_configured() {
    let schema = json!({"type": "object", "properties": {"why": {"type": "string"}}});
    let params = json!({"mode": "form", "message": "Why?", "requestedSchema": schema});
    for (form, expected) in [
        (FormReply::Fill("so"), json!({"action": "accept", "content": {"why": "so"}})),
        (FormReply::LeaveEmpty, json!({"action": "accept", "content": {}})),
        (FormReply::Decline, json!({"action": "decline"})),
        (FormReply::Cancel, json!({"action": "cancel"})),
        (FormReply::Error, Value::Null),
    ] {
        let behaviour = ClientBehaviour { form: Some(form), ..ClientBehaviour::default() };
        assert_eq!(behaviour.advertised_capabilities(), json!({"elicitation": {"form": {}}}));
        let (mut agent, mut puppet) = start_scripted_agent(behaviour);
        let answer =
            request_from_client(&mut agent, &mut puppet, "elicitation/create", params.clone())
                .await;
        assert_eq!(answer["result"], expected);
        assert_eq!(answer["error"].is_null(), !expected.is_null());
        assert_eq!(agent.client.forms[0]["message"], "Why?");
    }
    // A client that does not support forms rejects the method.
    let (mut agent, mut puppet) = start_scripted_agent(ClientBehaviour::default());
    let answer = request_from_client(&mut agent, &mut puppet, "elicitation/create", params).await;
    assert_eq!((&answer["error"]["code"], agent.client.forms.len()), (&json!(-32601), 0));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_answer_is_sent_after_its_delay() {
    let timing = PermissionReplyTiming::Delayed(Duration::from_secs(5));
    let (mut agent, mut puppet) =
        start_scripted_agent(ClientBehaviour { timing, ..ClientBehaviour::default() });
    let asked = tokio::time::Instant::now();
    puppet.send_request(1, "session/request_permission", permission_params()).await;
    let waiting = agent.wait_until(|_| false);
    let (waited, answer) = tokio::join!(waiting, async {
        let answer = puppet.receive().await;
        (answer, asked.elapsed())
    });
    assert!(matches!(waited, Err(AgentTestError::TimedOut(_))), "{waited:?}");
    assert_eq!(answer.0["id"], 1);
    assert!(answer.1 >= Duration::from_secs(5), "{:?}", answer.1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_waits_after_each_line() {
    let pause = Duration::from_secs(1);
    let (mut agent, mut puppet) =
        start_scripted_agent(ClientBehaviour { read_delay: pause, ..ClientBehaviour::default() });
    let start = tokio::time::Instant::now();
    for id in 0..5 {
        puppet.cancel_request(id).await;
    }
    agent.wait_until(|client| client.cancelled_requests.len() == 5).await.unwrap();
    assert!(start.elapsed() >= 4 * pause, "{:?}", start.elapsed());
}

#[tokio::test]
async fn files_include_unsaved_text() {
    let folder = TempDir::new().unwrap();
    let (saved, open) = (folder.path().join("saved"), folder.path().join("open"));
    std::fs::write(&saved, "one\ntwo\n").unwrap();
    std::fs::write(&open, "old").unwrap();
    let unsaved = BTreeMap::from([(open.clone(), "new".to_owned())]);
    let files = Some(FileService { unsaved, ..FileService::default() });
    let (mut agent, mut puppet) =
        start_scripted_agent(ClientBehaviour { files, ..ClientBehaviour::default() });
    let (agent, puppet) = (&mut agent, &mut puppet);

    let read =
        request_from_client(agent, puppet, "fs/read_text_file", json!({"path": saved, "line": 2}))
            .await;
    assert_eq!(read["result"], json!({"content": "two\n"}));
    let read = request_from_client(agent, puppet, "fs/read_text_file", json!({"path": open})).await;
    assert_eq!(read["result"], json!({"content": "new"}));
    let written = json!({"path": open, "content": "newer"});
    let written = request_from_client(agent, puppet, "fs/write_text_file", written).await;
    assert_eq!(written["result"], json!({}));
    assert_eq!(std::fs::read_to_string(&open).unwrap(), "newer");
    let missing = json!({"path": folder.path().join("missing")});
    let missing = request_from_client(agent, puppet, "fs/read_text_file", missing).await;
    assert_eq!(missing["error"]["code"], -32603);
    let terminal =
        request_from_client(agent, puppet, "terminal/create", json!({"command": "true"})).await;
    assert_eq!(terminal["error"]["code"], -32601, "it is not offered");
}

#[cfg(unix)]
#[tokio::test]
async fn terminals_run_commands_and_truncate_output_as_configured() {
    for (cut, limit, expected, truncated) in [
        (OutputTruncation::ToRequestedLimit, json!(null), "12345678", false),
        (OutputTruncation::ToRequestedLimit, json!(3), "678", true),
        (OutputTruncation::KeepLastBytes(2), json!(100), "78", true),
        (OutputTruncation::KeepFirstBytes(2), json!(100), "12", true),
    ] {
        let terminals = Some(TerminalService { truncation: cut, ..TerminalService::default() });
        let (mut agent, mut puppet) =
            start_scripted_agent(ClientBehaviour { terminals, ..ClientBehaviour::default() });
        let (agent, puppet) = (&mut agent, &mut puppet);
        let command = json!({"command": "sh", "args": ["-c", "printf $X; exit 3"],
            "env": [{"name": "X", "value": "12345678"}], "outputByteLimit": limit});
        let created = request_from_client(agent, puppet, "terminal/create", command).await;
        let terminal = json!({"terminalId": created["result"]["terminalId"]});
        let exit = wait_for_exit(agent, puppet, &terminal).await;
        assert_eq!(exit["result"]["exitCode"], 3, "{exit}");
        let output = request_from_client(agent, puppet, "terminal/output", terminal.clone()).await;
        assert_eq!(output["result"]["output"], expected, "{cut:?}");
        assert_eq!(output["result"]["truncated"], truncated, "{cut:?}");
        assert_eq!(output["result"]["exitStatus"]["exitCode"], 3);
        request_from_client(agent, puppet, "terminal/release", terminal.clone()).await;
        let released = request_from_client(agent, puppet, "terminal/output", terminal).await;
        assert_eq!(released["error"]["code"], -32603);
    }
}

/// Requests the exit of a terminal, and returns the response.
async fn wait_for_exit(
    agent: &mut AgentUnderTest,
    puppet: &mut ScriptedAgent,
    terminal: &Value,
) -> Value {
    puppet.send_request(1, "terminal/wait_for_exit", terminal.clone()).await;
    next_message(agent, puppet).await
}

/// Returns the client's next message.
async fn next_message(agent: &mut AgentUnderTest, puppet: &mut ScriptedAgent) -> Value {
    tokio::select! {
        waited = agent.wait_until(|_| false) => panic!("{waited:?}"),
        said = puppet.receive() => said,
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_terminal_is_killed_with_its_child_processes() {
    let terminals = Some(TerminalService::default());
    let (mut agent, mut puppet) =
        start_scripted_agent(ClientBehaviour { terminals, ..ClientBehaviour::default() });
    let (agent, puppet) = (&mut agent, &mut puppet);
    let command = json!({"command": "sh", "args": ["-c", "sleep 600 & sleep 601"]});
    let created = request_from_client(agent, puppet, "terminal/create", command).await;
    let terminal = json!({"terminalId": created["result"]["terminalId"]});
    request_from_client(agent, puppet, "terminal/kill", terminal.clone()).await;
    let exit = wait_for_exit(agent, puppet, &terminal).await;
    assert_eq!(exit["result"], json!({"exitCode": null, "signal": "9"}));
}

#[tokio::test(start_paused = true)]
async fn a_scripted_command_may_end_before_its_output_and_each_method_may_fail() {
    let second = Duration::from_secs(1);
    let scripted = ScriptedCommand {
        output: vec![(second, "a".to_owned()), (second * 3, "b".to_owned())],
        exit: Some((second * 2, json!({"exitCode": 7}))),
    };
    let but = BTreeMap::from([
        ("terminal/kill", ServiceBehaviour::Fails),
        ("terminal/release", ServiceBehaviour::Delayed(second * 9)),
    ]);
    let terminals = Some(TerminalService {
        method_overrides: but,
        scripted_command: Some(scripted),
        ..TerminalService::default()
    });
    let deadline = Duration::from_secs(100);
    let (mut agent, mut puppet) =
        start_scripted_agent(ClientBehaviour { terminals, deadline, ..ClientBehaviour::default() });
    let (agent, puppet) = (&mut agent, &mut puppet);
    let created =
        request_from_client(agent, puppet, "terminal/create", json!({"command": "x"})).await;
    assert_eq!(agent.open_terminal_count(), 1);
    let terminal = json!({"terminalId": created["result"]["terminalId"]});
    assert_eq!(wait_for_exit(agent, puppet, &terminal).await["result"], json!({"exitCode": 7}));
    let output = request_from_client(agent, puppet, "terminal/output", terminal.clone()).await;
    assert_eq!(output["result"]["output"], "a");
    let killed = request_from_client(agent, puppet, "terminal/kill", terminal.clone()).await;
    assert_eq!(killed["error"]["code"], -32603);
    tokio::time::advance(second * 3).await;
    let output = request_from_client(agent, puppet, "terminal/output", terminal.clone()).await;
    assert_eq!(output["result"]["output"], "ab");
    let started = tokio::time::Instant::now();
    puppet.send_request(1, "terminal/release", terminal).await;
    assert_eq!(next_message(agent, puppet).await["result"], json!({}));
    assert!(started.elapsed() >= second * 9, "{:?}", started.elapsed());
    assert_eq!(agent.open_terminal_count(), 0);
}

#[tokio::test]
async fn services_fail_or_do_not_reply_as_configured() {
    for (service, expected) in
        [(ServiceBehaviour::Fails, Some(-32603)), (ServiceBehaviour::NoReply, None)]
    {
        let behaviour = ClientBehaviour {
            files: Some(FileService { reads: service, ..FileService::default() }),
            terminals: Some(TerminalService { service, ..TerminalService::default() }),
            ..ClientBehaviour::default()
        };
        let (mut agent, mut puppet) = start_scripted_agent(behaviour);
        puppet.send_request(1, "fs/read_text_file", json!({"path": "/x"})).await;
        puppet.send_request(2, "terminal/create", json!({"command": "true"})).await;
        puppet.cancel_request(2).await;
        agent.wait_until(|client| !client.cancelled_requests.is_empty()).await.unwrap();
        agent.notify("_x/barrier", json!({})).await.unwrap();
        if let Some(code) = expected {
            assert_eq!(puppet.receive().await["error"]["code"], code);
            assert_eq!(puppet.receive().await["error"]["code"], code);
        }
        assert_eq!(puppet.receive().await["method"], "_x/barrier");
    }
}

#[tokio::test]
async fn faults_of_the_agent_are_kept_with_the_transcript() {
    let (mut agent, mut puppet) = start_scripted_agent(ClientBehaviour::default());
    puppet.send(&json!("hello")).await;
    puppet.output.write_all(b"\xff no text\n").await.unwrap();
    drop(puppet.output);
    let status = agent.close_input_and_wait_for_exit().await.unwrap();
    assert_eq!(status, None);
    let rules: Vec<_> =
        agent.client.violations_by(Side::Agent).iter().map(|fault| fault.rule).collect();
    assert_eq!(rules, [ConformanceRule::NotAMessage, ConformanceRule::NotUtf8]);
    assert_eq!(
        agent.client.transcript(),
        "{\"dir\":\"out\",\"msg\":\"\\\"hello\\\"\"}\n{\"dir\":\"out\",\"msg\":\"\u{fffd} no text\"}\n"
    );
}

#[tokio::test]
async fn a_flood_does_not_block_an_agent_that_answers_each_request() {
    let (mut agent, puppet) = start_scripted_agent(ClientBehaviour::default());
    let ScriptedAgent { mut output, mut input } = puppet;
    let echo = tokio::spawn(async move {
        let mut line = String::new();
        while input.read_line(&mut line).await.unwrap() > 0 {
            let request: Value = serde_json::from_str(&line).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": "x".repeat(500)});
            output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            line.clear();
        }
    });
    // The data is far larger than the two pipes and the queue can hold together.
    let ids = agent
        .send_request_many_times(10_000, "_x/ping", &json!({"x": "x".repeat(500)}))
        .await
        .unwrap();
    for id in &ids {
        assert!(agent.wait_for_result(id).await.is_ok());
    }
    agent.close_input_and_wait_for_exit().await.unwrap();
    echo.await.unwrap();
}

#[tokio::test]
async fn waiting_for_a_closed_agent_returns_an_error() {
    let (mut agent, puppet) = start_scripted_agent(ClientBehaviour::default());
    drop(puppet);
    let ended = agent.wait_until(|client| client.first_session.is_some()).await;
    assert!(matches!(ended, Err(AgentTestError::OutputClosed)), "{ended:?}");
    let closed = agent.send_raw_line(b"{}").await;
    assert!(matches!(closed, Err(AgentTestError::Io(_))), "{closed:?}");
}
