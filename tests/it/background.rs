//! Commands in the background: they continue after their turn, accept further calls, and end with
//! their session.

use acp_types::schema::v1::{ToolCall, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{call, end, run, text};
use crate::harness::session::{call_text, meta, shown_terminal_id};
use crate::harness::{Agent, Options};

/// Returns options of a client that displays terminals of commands that the agent runs.
fn with_terminals() -> Options {
    Options::default().with_capabilities(json!({"_meta": {"terminal_output": true}}))
}

/// Script lines: the model starts a command in the background.
fn start_in_background(command: &str) -> [Value; 2] {
    [call("terminal", json!({"command": command, "background": true})), end()]
}

/// Script line: the turn ends. The lines after it are for the next turn.
fn end_of_turn() -> Value {
    json!({"end": "end_turn"})
}

/// Returns all calls of a tool in the first session, as received by the client.
fn calls(agent: &Agent, tool: &str) -> Vec<ToolCall> {
    let is_of = |call: &&ToolCall| call.name.as_deref() == Some(tool);
    agent.session().calls().into_iter().filter(is_of).cloned().collect()
}

#[tokio::test]
async fn a_background_command_outlives_its_turn_and_accepts_calls() {
    let id = |id: &str| json!({"id": id});
    let typed = json!({"id": "bg-2", "text": "hello\n"});
    let reader = json!({
        "command": "echo ready; read -r x; echo \"got $x\"", "background": true, "tty": true,
    });
    let script: Vec<_> = start_in_background("echo begun; sleep 600")
        .into_iter()
        .chain([call("terminal", reader), end(), text("Started."), end_of_turn()])
        .chain([call("terminal_output", json!({})), end()])
        .chain([call("terminal_input", typed), end()])
        .chain([call("terminal_output", json!({"id": "bg-2", "wait_ms": 60_000})), end()])
        .chain([call("terminal_output", json!({"id": "bg-2", "whole": true})), end()])
        .chain([call("terminal_stop", id("bg-1")), end(), text("Stopped."), end_of_turn()])
        .collect();
    for options in [Options::default(), with_terminals()] {
        let mut agent = Agent::ready(script.clone(), options).await;
        assert_eq!(agent.turn("go").await, "end_turn");
        let sent = calls(&agent, "terminal");
        for (call, id) in sent.iter().zip(["bg-1", "bg-2"]) {
            assert_eq!(call.status, ToolCallStatus::Completed);
            assert_eq!(meta(call)["background"], id);
            assert_eq!(call.raw_output.as_ref().unwrap()["running"], true);
            assert!(
                call_text(call).contains(&format!("in the background as {id}")),
                "{}",
                call_text(call)
            );
            if let Some(terminal) = shown_terminal_id(call) {
                let terminal = agent.session().client_state.observed_terminal(&terminal).unwrap();
                assert!(terminal.exit.is_some(), "nothing more comes");
            }
        }
        assert!(agent.processes().iter().any(|process| process.contains("sleep 600")));
        let asked = agent.client.permission_requests.len();
        assert_eq!(agent.turn("and on").await, "end_turn");
        assert_eq!(
            agent.client.permission_requests.len(),
            asked + 1,
            "only what is typed is asked about"
        );
        let shown = calls(&agent, "terminal_output");
        let stopped = agent.call("terminal_stop");
        let parts = ["bg-1 has run for", "exit code 0", "got hello", "it was stopped"];
        for (call, part) in shown.iter().chain([&stopped]).zip(parts) {
            assert_eq!(call.status, ToolCallStatus::Completed, "{}", call.title);
            assert!(call_text(call).contains(part), "{}: {}", call.title, call_text(call));
        }
        assert_eq!(shown.len(), 3);
        assert_eq!(shown[0].title, "List the commands in the background");
        assert!(agent.call("terminal_input").title.contains("hello\\n"));
        assert_eq!(agent.processes(), [""; 0]);
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_end_of_a_background_command_is_a_call_of_the_next_turn() {
    let replies = (0..5_000).flat_map(|_| [text("Well."), end_of_turn()]);
    let script: Vec<_> =
        start_in_background("cat gate; echo over; exit 3").into_iter().chain(replies).collect();
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.scratch.fifo("gate");
    assert_eq!(agent.turn("go").await, "end_turn");
    agent.scratch.open_fifo("gate").await;
    while calls(&agent, "terminal_output").is_empty() {
        assert_eq!(agent.turn("is it over?").await, "end_turn");
    }
    let call = agent.call("terminal_output");
    assert_eq!(call.status, ToolCallStatus::Completed);
    assert!(call.title.contains("cat gate; echo over; exit 3"), "{}", call.title);
    assert_eq!(meta(&call)["exitCode"], 3);
    assert!(call_text(&call).contains("exit code 3") && call_text(&call).contains("over\n"));
    agent.turn("again").await;
    assert_eq!(calls(&agent, "terminal_output").len(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_keeps_background_commands_and_a_closed_session_ends_them() {
    let script: Vec<_> = start_in_background("trap '' TERM; setsid sleep 600 & sleep 600")
        .into_iter()
        .chain([run("echo started; sleep 601"), end(), text("Next.")])
        .collect();
    let mut agent = Agent::ready(script, Options::default()).await;
    let session = agent.session_id();
    let prompt = agent.prompt("go").await;
    agent.until_shown(&session, "started").await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    let left = agent.processes();
    assert!(left.iter().any(|process| process.contains("sleep 600")), "{left:?}");
    assert!(!left.iter().any(|process| process.contains("sleep 601")), "{left:?}");
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    agent.until_alone().await;
    agent.finish().await;
}
