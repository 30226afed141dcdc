//! Commands: their streamed output, as text or in a terminal, and the ways in which they end.

use acp_types::schema::v1::{ToolCall, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{call, end, run};
use crate::harness::session::{call_text, meta, shown_terminal_id};
use crate::harness::{Agent, Options};

/// Returns options of a client that displays terminals of commands that the agent runs.
fn with_terminals() -> Options {
    Options::default().with_capabilities(json!({"_meta": {"terminal_output": true}}))
}

/// Runs a turn with one command, and returns the call.
async fn run_command(args: Value, options: Options) -> (Agent, ToolCall) {
    let mut agent = Agent::ready([call("terminal", args), end()], options).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let call = agent.call("terminal");
    (agent, call)
}

#[tokio::test]
async fn output_arrives_while_the_command_runs() {
    let mut agent = Agent::ready([run("echo live; cat gate"), end()], Options::default()).await;
    agent.scratch.fifo("gate");
    let prompt = agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "live").await;
    assert_eq!(agent.call("terminal").status, ToolCallStatus::InProgress);
    agent.scratch.open_fifo("gate").await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn output_goes_to_the_terminal_of_a_client_that_has_one() {
    let mut agent =
        Agent::ready([run("echo live; cat gate; exit 3"), end()], with_terminals()).await;
    agent.scratch.fifo("gate");
    let prompt = agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "live").await;
    assert_eq!(agent.call("terminal").status, ToolCallStatus::InProgress);
    agent.scratch.open_fifo("gate").await;
    agent.stop_reason(&prompt).await;
    let call = agent.call("terminal");
    let id = shown_terminal_id(&call).expect("a terminal");
    let terminal = agent.session().client_state.observed_terminal(&id).unwrap();
    assert_eq!(terminal.output, "live\r\n");
    let exit = json!({"terminal_id": id, "exit_code": 3, "signal": null});
    assert_eq!(terminal.exit, Some(exit));
    agent.finish().await;
}

#[tokio::test]
async fn the_exit_code_is_in_the_text_and_in_the_metadata() {
    for options in [Options::default(), with_terminals()] {
        let (mut agent, call) = run_command(json!({"command": "echo so; exit 3"}), options).await;
        assert_eq!(call.status, ToolCallStatus::Failed);
        assert_eq!(meta(&call)["exitCode"], 3);
        let exit = agent.session().client_state.observed_terminal(&call.tool_call_id.0);
        match exit.and_then(|terminal| terminal.exit.as_ref()) {
            Some(exit) => assert_eq!(exit["exit_code"], 3),
            None => assert!(call_text(&call).contains("exit code 3"), "{}", call_text(&call)),
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_command_has_a_terminal_if_the_client_displays_one_or_the_call_requests_one() {
    let command = "[ -t 1 ] && echo o''ut; [ -t 0 ] && echo i''n; echo done";
    for (tty, options, expected) in [
        (false, Options::default(), "done"),
        (true, Options::default(), "out\nin\ndone"),
        (false, with_terminals(), "out\r\ndone"),
    ] {
        let (mut agent, call) = run_command(json!({"command": command, "tty": tty}), options).await;
        let shown = match shown_terminal_id(&call) {
            Some(id) => agent.session().client_state.observed_terminal(&id).unwrap().output.clone(),
            None => call_text(&call),
        };
        assert!(shown.contains(expected), "{expected:?}: {shown:?}");
        assert_eq!(shown.contains("out"), expected.contains("out"), "{shown:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_resource_usage_of_a_command_is_in_the_metadata() {
    let (mut agent, call) = run_command(json!({"command": "true"}), Options::default()).await;
    let used = &meta(&call)["usage"];
    assert!(used["peakBytes"].as_u64().is_some_and(|bytes| bytes > 500_000), "{used}");
    assert!(used["cpuMs"].is_number(), "{used}");
    agent.finish().await;
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended() {
    let args = json!({"command": "echo started; sleep 600", "timeout_ms": 3000});
    let (mut agent, call) = run_command(args, Options::default()).await;
    assert_eq!(call.status, ToolCallStatus::Failed);
    assert_eq!(meta(&call)["reason"], "timeout");
    assert!(call_text(&call).contains("started"), "{}", call_text(&call));
    assert_eq!(agent.processes(), [""; 0]);
    agent.finish().await;
}

#[tokio::test]
async fn processes_that_a_command_leaves_running_are_ended() {
    let args = json!({"command": "setsid sleep 600 & sleep 601 & echo done"});
    let (mut agent, call) = run_command(args, Options::default()).await;
    assert_eq!(call.status, ToolCallStatus::Completed);
    assert_eq!(agent.processes(), [""; 0]);
    agent.finish().await;
}

#[tokio::test]
async fn a_command_runs_in_the_folder_it_names() {
    let (mut agent, call) =
        run_command(json!({"command": "pwd", "cwd": "src"}), Options::default()).await;
    let folder = agent.scratch.path("src");
    let folder = folder.to_str().unwrap();
    assert!(call_text(&call).lines().any(|line| line == folder), "{}", call_text(&call));
    agent.finish().await;
}

#[tokio::test]
async fn a_command_reads_nothing_and_cannot_write_to_the_protocol() {
    let command = "cat; echo '{\"jsonrpc\":\"2.0\"}'; echo '{}' >&2";
    for options in [Options::default(), with_terminals()] {
        let (mut agent, call) = run_command(json!({ "command": command }), options).await;
        assert_eq!(call.status, ToolCallStatus::Completed);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_flood_of_output_is_bounded_and_keeps_its_beginning_and_end() {
    let floods = [
        "seq 1 300000",
        // In JSON, each byte of this output needs six bytes. The bytes of the next output are not
        // UTF-8.
        "head -c 300000 /dev/zero | tr '\\0' '\\001'; echo",
        "head -c 300000 /dev/zero | tr '\\0' '\\377'; echo",
    ];
    let surfaces = [Options::default(), with_terminals()];
    for (flood, options) in floods.iter().flat_map(|flood| surfaces.clone().map(|o| (flood, o))) {
        let command = format!("echo first; {flood}; echo last");
        let (mut agent, call) = run_command(json!({ "command": command }), options).await;
        assert_eq!(call.status, ToolCallStatus::Completed);
        let session = agent.session();
        let output = match shown_terminal_id(&call) {
            Some(id) => session.client_state.observed_terminal(&id).unwrap().output.clone(),
            None => call_text(&call),
        };
        assert!(output.contains("first") && output.contains("last"), "{output}");
        assert!(session.updates.len() < 500, "{} updates", session.updates.len());
        agent.finish().await;
    }
}

#[tokio::test]
async fn control_sequences_are_not_part_of_the_text() {
    let args = json!({"command": "printf '\\033[31mred\\033[0m\\n'"});
    let (mut agent, call) = run_command(args, Options::default()).await;
    assert!(call_text(&call).lines().any(|line| line == "red"), "{:?}", call_text(&call));
    agent.finish().await;
}
