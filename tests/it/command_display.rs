//! Commands with each kind of display: a terminal that the client runs, a terminal that the agent
//! runs and the client displays, and text. Even if the client fails, the call ends and every
//! terminal is released.

use std::time::Duration;

use acp_conformance::{
    OutputTruncation, ScriptedCommand, ServiceBehaviour, TerminalService, call_text,
};
use acp_types::schema::v1::{ToolCall, ToolCallContent, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{call, end, text};
use crate::harness::session::{meta, shown_terminal_id};
use crate::harness::{Agent, Options};

/// Returns options of a client that can run commands.
fn with_client_terminals(terminals: TerminalService) -> Options {
    Options::default().with_terminals(terminals)
}

/// Returns a terminal service with a different behaviour of some methods.
fn without_methods(methods: &[(&'static str, ServiceBehaviour)]) -> TerminalService {
    let mut terminals = TerminalService::default();
    terminals.method_overrides = methods.iter().copied().collect();
    terminals
}

fn with_terminal_display() -> Options {
    Options::default().with_capabilities(json!({"_meta": {"terminal_output": true}}))
}

/// Starts a turn that runs one command. Returns the id of the prompt.
async fn start_command(args: Value, options: Options) -> (Agent, Value) {
    let script = [call("terminal", args), end(), text("Done.")];
    let mut agent = Agent::ready(script, options).await;
    let prompt = agent.prompt("go").await;
    (agent, prompt)
}

async fn run_command(args: Value, options: Options) -> (Agent, ToolCall) {
    let (mut agent, prompt) = start_command(args, options).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    let call = agent.call("terminal");
    (agent, call)
}

/// Returns the number of requests and notifications of a method in the transcript.
fn count_requests(agent: &Agent, method: &str) -> usize {
    agent.client.transcript().matches(&format!("\"method\":\"{method}\"")).count()
}

/// Waits until the agent has released the terminal of the client.
async fn until_released(agent: &mut Agent) {
    agent.until(|client| client.transcript().contains("\"method\":\"terminal/release\"")).await;
    assert_eq!((agent.open_terminal_count(), count_requests(agent, "terminal/release")), (0, 1));
}

#[tokio::test]
async fn a_command_has_the_same_result_with_every_kind_of_display() {
    let both = with_terminal_display().with_terminals(TerminalService::default());
    for (options, at_client, is_terminal) in [
        (with_client_terminals(TerminalService::default()), true, true),
        (both, false, true),
        (with_terminal_display(), false, true),
        (Options::default(), false, false),
    ] {
        let args = json!({"command": "echo one; echo $((1 + 1)) >&2; pwd; exit 3", "cwd": "src"});
        let (mut agent, call) = run_command(args, options).await;
        assert_eq!((call.status, &meta(&call)["exitCode"]), (ToolCallStatus::Failed, &json!(3)));
        let raw = call.raw_output.clone().unwrap();
        assert_eq!((&raw["exitCode"], &raw["outputLines"]), (&json!(3), &json!(3)), "{raw}");
        assert_eq!(shown_terminal_id(&call).is_some(), is_terminal, "{call:?}");
        assert_eq!(count_requests(&agent, "terminal/create"), usize::from(at_client));
        if at_client {
            until_released(&mut agent).await;
            // The agent releases the terminal after the last update of the call, and before the
            // answer to the turn.
            let transcript = agent.client.transcript();
            let at = |what: &str| transcript.rfind(what).expect(what);
            let release = at("\"method\":\"terminal/release\"");
            assert!(at("\"status\":\"failed\"") < release && release < at("\"end_turn\""));
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_call_ends_with_every_fault_of_the_clients_terminals() {
    let late = ServiceBehaviour::Delayed(Duration::from_millis(200));
    let mut early = ScriptedCommand::default();
    early.output = vec![(Duration::from_millis(60), "late".to_owned())];
    early.exit = Some((Duration::ZERO, json!({"exitCode": 0})));
    let forgets = without_methods(&[("terminal/create", ServiceBehaviour::Works)])
        .with_behaviour(ServiceBehaviour::Fails);
    for (terminals, status) in [
        (
            TerminalService::default().with_truncation(OutputTruncation::KeepLastBytes(2)),
            ToolCallStatus::Completed,
        ),
        (
            TerminalService::default().with_truncation(OutputTruncation::KeepFirstBytes(2)),
            ToolCallStatus::Completed,
        ),
        (TerminalService::default().with_behaviour(late), ToolCallStatus::Completed),
        (
            TerminalService::default().with_script_for_every_command(early),
            ToolCallStatus::Completed,
        ),
        (
            without_methods(&[("terminal/wait_for_exit", ServiceBehaviour::Fails)]),
            ToolCallStatus::Completed,
        ),
        (
            without_methods(&[("terminal/output", ServiceBehaviour::Fails)]),
            ToolCallStatus::Completed,
        ),
        (
            without_methods(&[("terminal/release", ServiceBehaviour::NoReply)]),
            ToolCallStatus::Completed,
        ),
        (forgets, ToolCallStatus::Failed),
        (
            TerminalService::default().with_behaviour(ServiceBehaviour::Fails),
            ToolCallStatus::Failed,
        ),
    ] {
        let row = format!("{terminals:?}");
        let (mut agent, call) =
            run_command(json!({"command": "seq 3"}), with_client_terminals(terminals)).await;
        assert_eq!(call.status, status, "{row}");
        let created = count_requests(&agent, "terminal/create");
        let is_refused = call_text(&call).contains("The client started no terminal");
        assert_eq!((created, shown_terminal_id(&call).is_none()), (1, is_refused), "{row}");
        assert_eq!(count_requests(&agent, "terminal/release"), usize::from(!is_refused), "{row}");
        agent.until_alone().await;
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_at_the_client() {
    let args = json!({"command": "echo begun; sleep 600 & sleep 601", "timeout_ms": 300});
    let (mut agent, call) =
        run_command(args, with_client_terminals(TerminalService::default())).await;
    assert_eq!((call.status, &meta(&call)["reason"]), (ToolCallStatus::Failed, &json!("timeout")));
    assert_eq!((count_requests(&agent, "terminal/kill"), &meta(&call)["signal"]), (1, &json!("9")));
    until_released(&mut agent).await;
    agent.until_alone().await;
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_leaves_no_terminal_even_if_the_client_fails() {
    for terminals in [
        TerminalService::default(),
        without_methods(&[("terminal/kill", ServiceBehaviour::NoReply)]),
        without_methods(&[
            ("terminal/kill", ServiceBehaviour::Fails),
            ("terminal/output", ServiceBehaviour::NoReply),
        ]),
        without_methods(&[
            ("terminal/wait_for_exit", ServiceBehaviour::NoReply),
            ("terminal/output", ServiceBehaviour::Fails),
        ]),
    ] {
        let row = format!("{terminals:?}");
        let args = json!({"command": "echo begun; sleep 600"});
        let (mut agent, prompt) = start_command(args, with_client_terminals(terminals)).await;
        agent.until(|client| client.transcript().contains("\"terminal/wait_for_exit\"")).await;
        agent.cancel().await;
        assert_eq!(agent.stop_reason(&prompt).await, "cancelled", "{row}");
        until_released(&mut agent).await;
        let call = agent.call("terminal");
        assert_eq!(meta(&call)["reason"], "turn", "{row}");
        // The client still had the terminal when the call ended, so the reason is shown next to the
        // terminal.
        let is_text = |item: &ToolCallContent| matches!(item, ToolCallContent::Content(_));
        assert!(shown_terminal_id(&call).is_some() && call.content.iter().any(is_text), "{call:?}");
        agent.until_alone().await;
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_terminal_that_is_created_after_its_turn_is_released() {
    let late = ServiceBehaviour::Delayed(Duration::from_secs(2));
    let options = with_client_terminals(without_methods(&[("terminal/create", late)]));
    let (mut agent, prompt) = start_command(json!({"command": "sleep 600"}), options).await;
    agent.until(|client| client.transcript().contains("\"terminal/create\"")).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!(count_requests(&agent, "terminal/release"), 0);
    assert_eq!(count_requests(&agent, "$/cancel_request"), 1, "the client is told");
    until_released(&mut agent).await;
    agent.until_alone().await;
    agent.finish().await;
}

#[tokio::test]
async fn a_terminal_that_is_created_after_its_session_is_released() {
    let late = ServiceBehaviour::Delayed(Duration::from_secs(2));
    let options = with_client_terminals(without_methods(&[("terminal/create", late)]));
    let (mut agent, prompt) = start_command(json!({"command": "sleep 600"}), options).await;
    agent.until(|client| client.transcript().contains("\"terminal/create\"")).await;
    let params = json!({"sessionId": agent.session_id()});
    assert_eq!(agent.request("session/close", params).await, Ok(json!({})));
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!(count_requests(&agent, "terminal/release"), 0);
    until_released(&mut agent).await;
    agent.until_alone().await;
    agent.finish().await;
}

#[tokio::test]
async fn a_closed_session_leaves_no_terminal_and_a_closed_input_no_open_call() {
    for is_closed in [true, false] {
        let scripted = Some(ScriptedCommand::default());
        let options = with_client_terminals(
            TerminalService::default().with_script_for_every_command(scripted),
        );
        let (mut agent, prompt) = start_command(json!({"command": "sleep 600"}), options).await;
        agent.until(|client| client.transcript().contains("\"terminal/wait_for_exit\"")).await;
        if is_closed {
            let params = json!({"sessionId": agent.session_id()});
            assert_eq!(agent.request("session/close", params).await, Ok(json!({})));
            assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
        }
        agent.finish().await;
        assert_eq!(agent.call("terminal").status, ToolCallStatus::Failed);
        // After the connection has ended, the agent cannot send a request to release the terminal.
        assert_eq!(agent.open_terminal_count(), usize::from(!is_closed));
    }
}
