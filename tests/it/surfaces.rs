//! Commands on every surface that a client has for them: a terminal of its own, one that it shows
//! of ours, text. However the client fails, the call ends and no terminal is left.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_conformance::{Cut, Scripted, Service, Terminals, shown};
use acp_types::schema::v1::{ToolCall, ToolCallContent, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{call, end, text};
use crate::harness::session::{meta, terminal_id};
use crate::harness::{Agent, Options};

/// A client that runs commands itself.
fn at_client(terminals: Terminals) -> Options {
    Options { terminals: Some(terminals), ..Options::default() }
}

/// One that does all but some methods.
fn but(methods: &[(&'static str, Service)]) -> Terminals {
    Terminals { but: methods.iter().copied().collect::<BTreeMap<_, _>>(), ..Terminals::default() }
}

fn shows_ours() -> Options {
    Options { capabilities: json!({"_meta": {"terminal_output": true}}), ..Options::default() }
}

/// Starts a turn that runs one command.
async fn begun(args: Value, options: Options) -> (Agent, Value) {
    let script = [call("terminal", args), end(), text("Done.")];
    let mut agent = Agent::ready(script, options).await;
    let prompt = agent.prompt("go").await;
    (agent, prompt)
}

async fn ran(args: Value, options: Options) -> (Agent, ToolCall) {
    let (mut agent, prompt) = begun(args, options).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    let call = agent.call("terminal");
    (agent, call)
}

/// How often a method was asked for.
fn asked(agent: &Agent, method: &str) -> usize {
    agent.client.transcript().matches(&format!("\"method\":\"{method}\"")).count()
}

/// Waits until the client has no terminal any more.
async fn until_released(agent: &mut Agent) {
    agent.until(|client| client.transcript().contains("\"method\":\"terminal/release\"")).await;
    assert_eq!((agent.terminals(), asked(agent, "terminal/release")), (0, 1));
}

#[tokio::test]
async fn a_command_comes_out_alike_on_every_surface() {
    let both = Options { terminals: Some(Terminals::default()), ..shows_ours() };
    for (options, at_client, is_terminal) in [
        (at_client(Terminals::default()), true, true),
        (both, false, true),
        (shows_ours(), false, true),
        (Options::default(), false, false),
    ] {
        let args = json!({"command": "echo one; echo $((1 + 1)) >&2; pwd; exit 3", "cwd": "src"});
        let (mut agent, call) = ran(args, options).await;
        assert_eq!((call.status, &meta(&call)["exitCode"]), (ToolCallStatus::Failed, &json!(3)));
        let raw = call.raw_output.clone().unwrap();
        assert_eq!((&raw["exitCode"], &raw["outputLines"]), (&json!(3), &json!(3)), "{raw}");
        assert_eq!(terminal_id(&call).is_some(), is_terminal, "{call:?}");
        assert_eq!(asked(&agent, "terminal/create"), usize::from(at_client));
        if at_client {
            until_released(&mut agent).await;
            // The client is told no more of the call by then, and the turn is not answered yet.
            let transcript = agent.client.transcript();
            let at = |what: &str| transcript.rfind(what).expect(what);
            let release = at("\"method\":\"terminal/release\"");
            assert!(at("\"status\":\"failed\"") < release && release < at("\"end_turn\""));
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_call_ends_however_a_client_fails_its_terminals() {
    let late = Service::Late(Duration::from_millis(200));
    let early = Scripted {
        output: vec![(Duration::from_millis(60), "late".to_owned())],
        exit: Some((Duration::ZERO, json!({"exitCode": 0}))),
    };
    let forgets =
        Terminals { service: Service::Fails, ..but(&[("terminal/create", Service::Works)]) };
    for (terminals, status) in [
        (Terminals { cut: Cut::Beginning(2), ..Terminals::default() }, ToolCallStatus::Completed),
        (Terminals { cut: Cut::End(2), ..Terminals::default() }, ToolCallStatus::Completed),
        (Terminals { service: late, ..Terminals::default() }, ToolCallStatus::Completed),
        (Terminals { scripted: Some(early), ..Terminals::default() }, ToolCallStatus::Completed),
        (but(&[("terminal/wait_for_exit", Service::Fails)]), ToolCallStatus::Completed),
        (but(&[("terminal/output", Service::Fails)]), ToolCallStatus::Completed),
        (but(&[("terminal/release", Service::Never)]), ToolCallStatus::Completed),
        (forgets, ToolCallStatus::Failed),
        (Terminals { service: Service::Fails, ..Terminals::default() }, ToolCallStatus::Failed),
    ] {
        let row = format!("{terminals:?}");
        let (mut agent, call) = ran(json!({"command": "seq 3"}), at_client(terminals)).await;
        assert_eq!(call.status, status, "{row}");
        let created = asked(&agent, "terminal/create");
        let is_refused = shown(&call).contains("No terminal can be had");
        assert_eq!((created, terminal_id(&call).is_none()), (1, is_refused), "{row}");
        assert_eq!(asked(&agent, "terminal/release"), usize::from(!is_refused), "{row}");
        agent.until_alone().await;
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_at_the_client() {
    let args = json!({"command": "echo begun; sleep 600 & sleep 601", "timeout_ms": 300});
    let (mut agent, call) = ran(args, at_client(Terminals::default())).await;
    assert_eq!((call.status, &meta(&call)["reason"]), (ToolCallStatus::Failed, &json!("timeout")));
    assert_eq!((asked(&agent, "terminal/kill"), &meta(&call)["signal"]), (1, &json!("9")));
    until_released(&mut agent).await;
    agent.until_alone().await;
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_leaves_no_terminal_at_a_client_that_works_or_not() {
    for terminals in [
        Terminals::default(),
        but(&[("terminal/kill", Service::Never)]),
        but(&[("terminal/kill", Service::Fails), ("terminal/output", Service::Never)]),
        but(&[("terminal/wait_for_exit", Service::Never), ("terminal/output", Service::Fails)]),
    ] {
        let row = format!("{terminals:?}");
        let args = json!({"command": "echo begun; sleep 600"});
        let (mut agent, prompt) = begun(args, at_client(terminals)).await;
        agent.until(|client| client.transcript().contains("\"terminal/wait_for_exit\"")).await;
        agent.cancel().await;
        assert_eq!(agent.stop_reason(&prompt).await, "cancelled", "{row}");
        until_released(&mut agent).await;
        let call = agent.call("terminal");
        assert_eq!(meta(&call)["reason"], "turn", "{row}");
        // What says so stands beside the terminal, which the client still knew then.
        let is_text = |item: &ToolCallContent| matches!(item, ToolCallContent::Content(_));
        assert!(terminal_id(&call).is_some() && call.content.iter().any(is_text), "{call:?}");
        agent.until_alone().await;
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_terminal_that_comes_when_its_turn_is_over_is_released() {
    let late = Service::Late(Duration::from_secs(2));
    let options = at_client(but(&[("terminal/create", late)]));
    let (mut agent, prompt) = begun(json!({"command": "sleep 600"}), options).await;
    agent.until(|client| client.transcript().contains("\"terminal/create\"")).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!(asked(&agent, "terminal/release"), 0);
    assert_eq!(asked(&agent, "$/cancel_request"), 1, "the client is told");
    until_released(&mut agent).await;
    agent.until_alone().await;
    agent.finish().await;
}

#[tokio::test]
async fn a_terminal_that_comes_when_its_session_is_closed_is_released() {
    let late = Service::Late(Duration::from_secs(2));
    let options = at_client(but(&[("terminal/create", late)]));
    let (mut agent, prompt) = begun(json!({"command": "sleep 600"}), options).await;
    agent.until(|client| client.transcript().contains("\"terminal/create\"")).await;
    let params = json!({"sessionId": agent.session_id()});
    assert_eq!(agent.request("session/close", params).await, Ok(json!({})));
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!(asked(&agent, "terminal/release"), 0);
    until_released(&mut agent).await;
    agent.until_alone().await;
    agent.finish().await;
}

#[tokio::test]
async fn a_session_that_is_closed_leaves_no_terminal_and_an_input_that_ends_no_call() {
    for is_closed in [true, false] {
        let scripted = Some(Scripted::default());
        let options = at_client(Terminals { scripted, ..Terminals::default() });
        let (mut agent, prompt) = begun(json!({"command": "sleep 600"}), options).await;
        agent.until(|client| client.transcript().contains("\"terminal/wait_for_exit\"")).await;
        if is_closed {
            let params = json!({"sessionId": agent.session_id()});
            assert_eq!(agent.request("session/close", params).await, Ok(json!({})));
            assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
        }
        agent.finish().await;
        assert_eq!(agent.call("terminal").status, ToolCallStatus::Failed);
        // A client that hears no more can be asked nothing.
        assert_eq!(agent.terminals(), usize::from(!is_closed));
    }
}
