//! The kit itself, against an agent whose every line the test writes.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_types::schema::v1::PermissionOptionKind;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};

use crate::{
    Agent, Behaviour, Cut, Error, Files, Form, Permission, Rule, Scripted, Service, Side,
    Terminals, Timing,
};

/// The agent's end of both streams.
struct Puppet {
    says: DuplexStream,
    hears: BufReader<DuplexStream>,
}

impl Puppet {
    async fn say(&mut self, message: &Value) {
        self.says.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.hears.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends the client a request of the session `s`.
    async fn ask(&mut self, id: i64, method: &str, mut params: Value) {
        params["sessionId"] = json!("s");
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    /// Tells the client something that it can wait for.
    async fn withdraw(&mut self, id: i64) {
        let params = json!({"requestId": id});
        self.say(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})).await;
    }
}

fn puppet(behaviour: impl Into<Behaviour>) -> (Agent, Puppet) {
    let (says, output) = duplex(1 << 20);
    let (input, hears) = duplex(1 << 20);
    let agent = Agent::connect(output, input, behaviour);
    (agent, Puppet { says, hears: BufReader::new(hears) })
}

/// Lets the client take a request in, and returns its answer.
async fn served(agent: &mut Agent, puppet: &mut Puppet, method: &str, params: Value) -> Value {
    puppet.ask(1, method, params).await;
    puppet.withdraw(1).await;
    let seen = agent.client.withdrawn.len();
    agent.until(|client| client.withdrawn.len() > seen).await.unwrap();
    puppet.hear().await
}

fn question() -> Value {
    let option = json!({"optionId": "yes", "name": "Yes", "kind": "allow_once"});
    json!({"toolCall": {"toolCallId": "c"}, "options": [option]})
}

/// What the client writes when it is asked for permission, and then cancels.
async fn answers(behaviour: impl Into<Behaviour>) -> Vec<Value> {
    let (mut agent, mut puppet) = puppet(behaviour);
    puppet.ask(1, "session/request_permission", question()).await;
    agent.until(|client| !client.asked.is_empty()).await.unwrap();
    agent.cancel("s").await.unwrap();
    agent.close_input();
    let mut heard = Vec::new();
    let mut line = String::new();
    while puppet.hears.read_line(&mut line).await.unwrap() > 0 {
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
async fn permission_is_answered_as_it_is_told() {
    let yes = json!({"outcome": "selected", "optionId": "yes"});
    let cancel = json!("session/cancel");
    let with = |timing| Behaviour { timing, ..Behaviour::default() };
    assert_eq!(answers(Behaviour::default()).await, [yes.clone(), cancel.clone()]);
    assert_eq!(answers(with(Timing::Twice)).await, [yes.clone(), yes.clone(), cancel.clone()]);
    assert_eq!(answers(with(Timing::AfterCancel)).await, [cancel.clone(), yes]);
    assert_eq!(answers(Permission::Never).await, [json!("session/cancel")]);
    assert_eq!(answers(Permission::Error).await, [json!(null), cancel.clone()]);
    assert_eq!(answers(Permission::Malformed).await, [json!("allow"), cancel.clone()]);
    let other = json!({"outcome": "selected", "optionId": "other"});
    assert_eq!(answers(Permission::SelectId("other")).await, [other, cancel.clone()]);
    let none = Permission::Select(PermissionOptionKind::AllowAlways);
    assert_eq!(answers(none).await, [json!({"outcome": "cancelled"}), cancel]);
}

#[tokio::test]
async fn forms_are_answered_as_it_is_told() {
    let schema = json!({"type": "object", "properties": {"why": {"type": "string"}}});
    let params = json!({"mode": "form", "message": "Why?", "requestedSchema": schema});
    for (form, expected) in [
        (Form::Fill("so"), json!({"action": "accept", "content": {"why": "so"}})),
        (Form::LeaveEmpty, json!({"action": "accept", "content": {}})),
        (Form::Decline, json!({"action": "decline"})),
        (Form::Cancel, json!({"action": "cancel"})),
        (Form::Error, Value::Null),
    ] {
        let behaviour = Behaviour { form: Some(form), ..Behaviour::default() };
        assert_eq!(behaviour.advertised(), json!({"elicitation": {"form": {}}}));
        let (mut agent, mut puppet) = puppet(behaviour);
        let answer = served(&mut agent, &mut puppet, "elicitation/create", params.clone()).await;
        assert_eq!(answer["result"], expected);
        assert_eq!(answer["error"].is_null(), !expected.is_null());
        assert_eq!(agent.client.forms[0]["message"], "Why?");
    }
    // A client that shows none knows no such method.
    let (mut agent, mut puppet) = puppet(Behaviour::default());
    let answer = served(&mut agent, &mut puppet, "elicitation/create", params).await;
    assert_eq!((&answer["error"]["code"], agent.client.forms.len()), (&json!(-32601), 0));
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_comes_when_its_time_has_come() {
    let timing = Timing::Late(Duration::from_secs(5));
    let (mut agent, mut puppet) = puppet(Behaviour { timing, ..Behaviour::default() });
    let asked = tokio::time::Instant::now();
    puppet.ask(1, "session/request_permission", question()).await;
    let waiting = agent.until(|_| false);
    let (waited, answer) = tokio::join!(waiting, async {
        let answer = puppet.hear().await;
        (answer, asked.elapsed())
    });
    assert!(matches!(waited, Err(Error::Deadline(_))), "{waited:?}");
    assert_eq!(answer.0["id"], 1);
    assert!(answer.1 >= Duration::from_secs(5), "{:?}", answer.1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_takes_its_time() {
    let pause = Duration::from_secs(1);
    let (mut agent, mut puppet) = puppet(Behaviour { pause, ..Behaviour::default() });
    let start = tokio::time::Instant::now();
    for id in 0..5 {
        puppet.withdraw(id).await;
    }
    agent.until(|client| client.withdrawn.len() == 5).await.unwrap();
    assert!(start.elapsed() >= 4 * pause, "{:?}", start.elapsed());
}

#[tokio::test]
async fn files_are_those_of_an_editor() {
    let folder = TempDir::new().unwrap();
    let (saved, open) = (folder.path().join("saved"), folder.path().join("open"));
    std::fs::write(&saved, "one\ntwo\n").unwrap();
    std::fs::write(&open, "old").unwrap();
    let unsaved = BTreeMap::from([(open.clone(), "new".to_owned())]);
    let files = Some(Files { unsaved, ..Files::default() });
    let (mut agent, mut puppet) = puppet(Behaviour { files, ..Behaviour::default() });
    let (agent, puppet) = (&mut agent, &mut puppet);

    let read = served(agent, puppet, "fs/read_text_file", json!({"path": saved, "line": 2})).await;
    assert_eq!(read["result"], json!({"content": "two\n"}));
    let read = served(agent, puppet, "fs/read_text_file", json!({"path": open})).await;
    assert_eq!(read["result"], json!({"content": "new"}));
    let written = json!({"path": open, "content": "newer"});
    let written = served(agent, puppet, "fs/write_text_file", written).await;
    assert_eq!(written["result"], json!({}));
    assert_eq!(std::fs::read_to_string(&open).unwrap(), "newer");
    let missing = json!({"path": folder.path().join("missing")});
    let missing = served(agent, puppet, "fs/read_text_file", missing).await;
    assert_eq!(missing["error"]["code"], -32603);
    let terminal = served(agent, puppet, "terminal/create", json!({"command": "true"})).await;
    assert_eq!(terminal["error"]["code"], -32601, "it is not offered");
}

#[cfg(unix)]
#[tokio::test]
async fn terminals_run_commands_and_lose_what_they_are_told_to_lose() {
    for (cut, limit, expected, truncated) in [
        (Cut::AsAsked, json!(null), "12345678", false),
        (Cut::AsAsked, json!(3), "678", true),
        (Cut::Beginning(2), json!(100), "78", true),
        (Cut::End(2), json!(100), "12", true),
    ] {
        let terminals = Some(Terminals { cut, ..Terminals::default() });
        let (mut agent, mut puppet) = puppet(Behaviour { terminals, ..Behaviour::default() });
        let (agent, puppet) = (&mut agent, &mut puppet);
        let command = json!({"command": "sh", "args": ["-c", "printf $X; exit 3"],
            "env": [{"name": "X", "value": "12345678"}], "outputByteLimit": limit});
        let created = served(agent, puppet, "terminal/create", command).await;
        let terminal = json!({"terminalId": created["result"]["terminalId"]});
        let exit = exit(agent, puppet, &terminal).await;
        assert_eq!(exit["result"]["exitCode"], 3, "{exit}");
        let output = served(agent, puppet, "terminal/output", terminal.clone()).await;
        assert_eq!(output["result"]["output"], expected, "{cut:?}");
        assert_eq!(output["result"]["truncated"], truncated, "{cut:?}");
        assert_eq!(output["result"]["exitStatus"]["exitCode"], 3);
        served(agent, puppet, "terminal/release", terminal.clone()).await;
        let released = served(agent, puppet, "terminal/output", terminal).await;
        assert_eq!(released["error"]["code"], -32603);
    }
}

/// Waits for the exit of a terminal; the answer comes when it comes.
async fn exit(agent: &mut Agent, puppet: &mut Puppet, terminal: &Value) -> Value {
    puppet.ask(1, "terminal/wait_for_exit", terminal.clone()).await;
    said(agent, puppet).await
}

/// What the client says next.
async fn said(agent: &mut Agent, puppet: &mut Puppet) -> Value {
    tokio::select! {
        waited = agent.until(|_| false) => panic!("{waited:?}"),
        said = puppet.hear() => said,
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_terminal_is_killed_with_what_it_started() {
    let terminals = Some(Terminals::default());
    let (mut agent, mut puppet) = puppet(Behaviour { terminals, ..Behaviour::default() });
    let (agent, puppet) = (&mut agent, &mut puppet);
    let command = json!({"command": "sh", "args": ["-c", "sleep 600 & sleep 601"]});
    let created = served(agent, puppet, "terminal/create", command).await;
    let terminal = json!({"terminalId": created["result"]["terminalId"]});
    served(agent, puppet, "terminal/kill", terminal.clone()).await;
    let exit = exit(agent, puppet, &terminal).await;
    assert_eq!(exit["result"], json!({"exitCode": null, "signal": "9"}));
}

#[tokio::test(start_paused = true)]
async fn a_scripted_command_may_end_before_its_output_and_each_method_may_fail() {
    let second = Duration::from_secs(1);
    let scripted = Scripted {
        output: vec![(second, "a".to_owned()), (second * 3, "b".to_owned())],
        exit: Some((second * 2, json!({"exitCode": 7}))),
    };
    let but = BTreeMap::from([
        ("terminal/kill", Service::Fails),
        ("terminal/release", Service::Late(second * 9)),
    ]);
    let terminals = Some(Terminals { but, scripted: Some(scripted), ..Terminals::default() });
    let deadline = Duration::from_secs(100);
    let (mut agent, mut puppet) = puppet(Behaviour { terminals, deadline, ..Behaviour::default() });
    let (agent, puppet) = (&mut agent, &mut puppet);
    let created = served(agent, puppet, "terminal/create", json!({"command": "x"})).await;
    assert_eq!(agent.terminals(), 1);
    let terminal = json!({"terminalId": created["result"]["terminalId"]});
    assert_eq!(exit(agent, puppet, &terminal).await["result"], json!({"exitCode": 7}));
    let output = served(agent, puppet, "terminal/output", terminal.clone()).await;
    assert_eq!(output["result"]["output"], "a");
    let killed = served(agent, puppet, "terminal/kill", terminal.clone()).await;
    assert_eq!(killed["error"]["code"], -32603);
    tokio::time::advance(second * 3).await;
    let output = served(agent, puppet, "terminal/output", terminal.clone()).await;
    assert_eq!(output["result"]["output"], "ab");
    let begun = tokio::time::Instant::now();
    puppet.ask(1, "terminal/release", terminal).await;
    assert_eq!(said(agent, puppet).await["result"], json!({}));
    assert!(begun.elapsed() >= second * 9, "{:?}", begun.elapsed());
    assert_eq!(agent.terminals(), 0);
}

#[tokio::test]
async fn services_that_fail_and_that_never_answer() {
    for (service, expected) in [(Service::Fails, Some(-32603)), (Service::Never, None)] {
        let behaviour = Behaviour {
            files: Some(Files { service, ..Files::default() }),
            terminals: Some(Terminals { service, ..Terminals::default() }),
            ..Behaviour::default()
        };
        let (mut agent, mut puppet) = puppet(behaviour);
        puppet.ask(1, "fs/read_text_file", json!({"path": "/x"})).await;
        puppet.ask(2, "terminal/create", json!({"command": "true"})).await;
        puppet.withdraw(2).await;
        agent.until(|client| !client.withdrawn.is_empty()).await.unwrap();
        agent.notify("_x/barrier", json!({})).await.unwrap();
        if let Some(code) = expected {
            assert_eq!(puppet.hear().await["error"]["code"], code);
            assert_eq!(puppet.hear().await["error"]["code"], code);
        }
        assert_eq!(puppet.hear().await["method"], "_x/barrier");
    }
}

#[tokio::test]
async fn faults_of_the_agent_are_kept_with_the_transcript() {
    let (mut agent, mut puppet) = puppet(Behaviour::default());
    puppet.say(&json!("hello")).await;
    puppet.says.write_all(b"\xff no text\n").await.unwrap();
    drop(puppet.says);
    let status = agent.end().await.unwrap();
    assert_eq!(status, None);
    let rules: Vec<_> =
        agent.client.faults_of(Side::Agent).iter().map(|fault| fault.rule).collect();
    assert_eq!(rules, [Rule::NotAMessage, Rule::NotUtf8]);
    assert_eq!(
        agent.client.transcript(),
        "{\"dir\":\"out\",\"msg\":\"\\\"hello\\\"\"}\n{\"dir\":\"out\",\"msg\":\"\u{fffd} no text\"}\n"
    );
}

#[tokio::test]
async fn a_flood_does_not_drown_an_agent_that_answers_each_request() {
    let (mut agent, puppet) = puppet(Behaviour::default());
    let Puppet { mut says, mut hears } = puppet;
    let echo = tokio::spawn(async move {
        let mut line = String::new();
        while hears.read_line(&mut line).await.unwrap() > 0 {
            let request: Value = serde_json::from_str(&line).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": "x".repeat(500)});
            says.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            line.clear();
        }
    });
    // Far more than both pipes and the queue behind them hold.
    let ids = agent.flood(10_000, "_x/ping", &json!({"x": "x".repeat(500)})).await.unwrap();
    for id in &ids {
        assert!(agent.answer(id).await.is_ok());
    }
    agent.end().await.unwrap();
    echo.await.unwrap();
}

#[tokio::test]
async fn what_cannot_come_is_an_error_and_no_hang() {
    let (mut agent, puppet) = puppet(Behaviour::default());
    drop(puppet);
    let ended = agent.until(|client| client.first.is_some()).await;
    assert!(matches!(ended, Err(Error::Ended)), "{ended:?}");
    let closed = agent.raw(b"{}").await;
    assert!(matches!(closed, Err(Error::Io(_))), "{closed:?}");
}
