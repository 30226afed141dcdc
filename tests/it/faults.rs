//! Each fault that the client of the test kit can simulate. The turn ends in the expected way, and
//! no process or terminal is left behind.

use std::time::Duration;

use acp_conformance::{
    FileService, MALFORMED_LINES, OutputTruncation, PermissionReplyTiming, ServiceBehaviour,
    TerminalService,
};
use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{call, end, run, text};
use crate::harness::{Agent, Options, PermissionReply};

/// Script lines: a command that records each of its runs in a file.
fn counting_script() -> [Value; 3] {
    [run("echo ran >> runs"), end(), text("Done.")]
}

/// Returns the number of times that the command of [`counting_script`] has run.
fn count_runs(agent: &Agent) -> usize {
    std::fs::read_to_string(agent.scratch.path("runs")).map_or(0, |runs| runs.lines().count())
}

fn timing(timing: PermissionReplyTiming) -> Options {
    Options::default().with_permission_reply_timing(timing)
}

#[tokio::test]
async fn an_invalid_permission_answer_runs_no_command() {
    for permission in [
        PermissionReply::Error,
        PermissionReply::Malformed,
        PermissionReply::SelectId("no such option"),
        PermissionReply::SelectId(""),
        PermissionReply::Select(PermissionOptionKind::RejectOnce),
    ] {
        let mut agent = Agent::ready(counting_script(), permission).await;
        assert_eq!(agent.turn("go").await, "end_turn", "{permission:?}");
        assert_eq!(agent.call("terminal").status, ToolCallStatus::Failed, "{permission:?}");
        assert_eq!(count_runs(&agent), 0, "{permission:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_delayed_permission_answer_is_accepted() {
    let mut agent = Agent::ready(
        counting_script(),
        timing(PermissionReplyTiming::Delayed(Duration::from_millis(50))),
    )
    .await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(count_runs(&agent), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_permission_answer_that_is_sent_twice_counts_once() {
    let mut agent = Agent::ready(counting_script(), timing(PermissionReplyTiming::Twice)).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!((count_runs(&agent), agent.client.permission_requests.len()), (1, 1));
    agent.finish().await;
}

#[tokio::test]
async fn a_permission_answer_after_the_cancel_runs_no_command() {
    let mut agent =
        Agent::ready(counting_script(), timing(PermissionReplyTiming::AfterCancel)).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| !client.permission_requests.is_empty()).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!((agent.call("terminal").status, count_runs(&agent)), (ToolCallStatus::Failed, 0));
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_permission_request_runs_no_command() {
    let mut agent = Agent::ready(counting_script(), PermissionReply::NoReply).await;
    agent.prompt("go").await;
    agent.until(|client| !client.permission_requests.is_empty()).await;
    agent.close_output();
    agent.finish().await;
    assert_eq!(count_runs(&agent), 0);
}

#[tokio::test]
async fn a_terminated_agent_leaves_no_process() {
    let mut agent = Agent::ready([run("echo started; sleep 600"), end()], Options::default()).await;
    agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "started").await;
    agent.terminate().await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_the_whole_call() {
    let mut options = Options::default();
    options.read_delay = Duration::from_millis(20);
    let mut agent = Agent::ready([run("seq 1 20000"), end(), text("Done.")], options).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.call("terminal").status, ToolCallStatus::Completed);
    assert!(agent.session().any_call_shows_line("20000"));
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_reads_again_receives_the_end_of_the_output() {
    let script = [run("echo started; cat gate; seq 1 20000"), end(), text("Done.")];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.scratch.fifo("gate");
    let prompt = agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "started").await;
    let stopped = agent.pause_reading().await;
    agent.scratch.open_fifo("gate").await;
    agent.until_alone().await;
    drop(stopped);
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert!(agent.session().any_call_shows_line("20000"));
    agent.finish().await;
}

#[tokio::test]
async fn each_prompt_of_a_flood_is_queued_or_refused_and_answered() {
    let mut agent = Agent::ready([run("echo started; sleep 600"), end()], Options::default()).await;
    let session = agent.session_id();
    let first = agent.prompt("go").await;
    agent.until_shown(&session, "started").await;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "more"}]});
    let prompts = agent.send_request_many_times(300, "session/prompt", &prompt).await.unwrap();
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&first).await, "cancelled");
    let mut held = 0;
    for prompt in &prompts {
        match agent.answer(prompt).await {
            Ok(result) => held += usize::from(result["stopReason"] == "cancelled"),
            Err(error) => assert_eq!(error["data"]["reason"], "busy", "{error}"),
        }
    }
    assert_eq!(held, 8);
    agent.finish().await;
}

#[tokio::test]
async fn a_flood_of_cancels_and_of_unknown_requests_does_no_harm() {
    let mut agent = Agent::ready(counting_script(), Options::default()).await;
    for _ in 0..300 {
        agent.cancel().await;
    }
    let pings = agent.send_request_many_times(300, "_test/ping", &json!({})).await.unwrap();
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(count_runs(&agent), 1);
    for ping in &pings {
        assert_eq!(agent.answer(ping).await.unwrap_err()["code"], -32601);
    }
    agent.finish().await;
}

#[tokio::test]
async fn malformed_lines_do_not_change_a_running_turn() {
    let script = [run("echo started; cat gate"), end(), text("Done.")];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.scratch.fifo("gate");
    let prompt = agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "started").await;
    for (_, line) in MALFORMED_LINES {
        agent.raw(line).await;
    }
    agent.scratch.open_fifo("gate").await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert_eq!(agent.call("terminal").status, ToolCallStatus::Completed);
    agent.finish().await;
}

#[tokio::test]
async fn every_tool_works_although_the_clients_file_requests_fail() {
    for service in [ServiceBehaviour::Works, ServiceBehaviour::Fails] {
        let options = Options::default()
            .with_files(FileService::default().with_read_behaviour(service))
            .with_terminals(
                TerminalService::default().with_truncation(OutputTruncation::KeepFirstBytes(1)),
            );
        let script = [
            call("read_file", json!({"path": "notes.txt"})),
            call("write_file", json!({"path": "x", "content": "x"})),
            run("echo ran >> runs"),
            end(),
            text("Done."),
        ];
        let mut agent = Agent::ready(script, options).await;
        assert_eq!(agent.turn("go").await, "end_turn");
        let calls = agent.session().calls();
        assert!(calls.iter().all(|call| call.status == ToolCallStatus::Completed), "{calls:#?}");
        assert_eq!((count_runs(&agent), agent.scratch.read("x")), (1, "x".to_owned()));
        agent.finish().await;
    }
}
