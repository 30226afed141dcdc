//! All ways in which a connection can end. The agent exits in time, and leaves no process behind.

use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{end, run, text};
use crate::harness::session::meta;
use crate::harness::{Agent, Options, PermissionReply, ReceivedPermissionRequest};

/// Starts a turn with a command, and waits until the command has printed "started".
async fn started(command: &str) -> Agent {
    let mut agent = Agent::ready([run(command), end()], Options::default()).await;
    agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "started").await;
    agent
}

#[tokio::test]
async fn shutdown_001_the_agent_ends_when_its_input_ends_at_any_time() {
    Agent::start([text("Hello.")], Options::default()).finish().await;
    let mut agent = Agent::start([text("Hello.")], Options::default());
    agent.initialize().await.unwrap();
    agent.finish().await;
    Agent::ready([text("Hello.")], Options::default()).await.finish().await;
}

#[tokio::test]
async fn a_running_command_ends_with_the_input() {
    let mut agent = started("echo started; sleep 600").await;
    agent.finish().await;
    // The client still reads at this time, so it receives the final update of the call.
    let call = agent.call("terminal");
    assert_eq!((call.status, &meta(&call)["reason"]), (ToolCallStatus::Failed, &json!("shutdown")));
}

#[tokio::test]
async fn a_command_that_ignores_signals_ends_with_the_input() {
    let deaf = "trap '' TERM HUP INT; echo started; while :; do sleep 600; done";
    started(deaf).await.finish().await;
}

#[tokio::test]
async fn commands_of_many_sessions_end_with_the_input() {
    let mut agent = started("echo started; setsid sleep 600 & sleep 601").await;
    for _ in 0..3 {
        let session = agent.new_session().await;
        agent.prompt_in(&session, "go").await;
        agent.until_shown(&session, "started").await;
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_turn_that_waits_for_permission_ends_with_the_input() {
    let mut agent = Agent::ready([run("true"), end()], PermissionReply::NoReply).await;
    agent.prompt("go").await;
    agent.until(|client| !client.permission_requests.is_empty()).await;
    agent.finish().await;
    assert_eq!(agent.call("terminal").status, ToolCallStatus::Failed);
}

#[tokio::test]
async fn a_turn_with_a_slow_model_ends_with_the_input() {
    let script = [text("Well"), json!({"delay_ms": 600_000})];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.prompt("go").await;
    let session = agent.session_id();
    agent.until(|client| client.session(&session).message_text() == "Well").await;
    agent.finish().await;
}

#[tokio::test]
async fn queued_prompts_end_with_the_input() {
    let mut agent = started("echo started; sleep 600").await;
    agent.prompt("and").await;
    agent.prompt("then").await;
    agent.finish().await;
}

#[tokio::test]
async fn the_agent_ends_when_its_output_is_closed() {
    let mut agent = started("echo started; while sleep 0.01; do echo more; done").await;
    agent.vanish().await;
    agent.finish().await;
}

/// Starts a turn with a running command, and another command that waits for permission. Returns the
/// agent and the id of the prompt.
async fn busy() -> (Agent, Value) {
    let script = [run("echo started; sleep 600"), run("true"), end()];
    let mut agent = Agent::ready(script, PermissionReply::NoReply).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| client.permission_requests.len() == 2).await;
    // The agent prepares the calls of one reply in parallel, so the permission request of either
    // call may arrive first.
    let says = |asked: &ReceivedPermissionRequest| {
        format!("{:?}", asked.request.tool_call).contains("started")
    };
    let sleeper =
        agent.client.permission_requests.iter().position(says).expect("it is asked about");
    agent.permit(sleeper, PermissionReply::default()).await;
    agent.until_shown(&agent.session_id(), "started").await;
    (agent, prompt)
}

/// Asserts that both calls have ended with a reason, that the output of the running command has
/// arrived, and that the prompt is answered.
fn assert_all_ended(agent: &Agent, prompt: &Value) {
    let answer = agent.client.response(prompt).expect("the turn is answered");
    assert_eq!(answer, &Ok(json!({"stopReason": "cancelled"})));
    let calls = agent.session().calls();
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!(
            (call.status, &meta(call)["reason"]),
            (ToolCallStatus::Failed, &json!("shutdown"))
        );
    }
    assert!(agent.session().any_call_shows_line("started"));
}

#[tokio::test]
async fn every_call_and_prompt_is_answered_when_the_input_ends() {
    let (mut agent, prompt) = busy().await;
    agent.finish().await;
    assert_all_ended(&agent, &prompt);
}

#[tokio::test]
async fn every_call_and_prompt_is_answered_when_a_signal_arrives() {
    let (mut agent, prompt) = busy().await;
    agent.terminate().await;
    assert_all_ended(&agent, &prompt);
}

#[tokio::test]
async fn a_command_that_ignores_signals_ends_when_the_agent_gets_a_signal() {
    let deaf = "trap '' TERM HUP INT; echo started; while :; do sleep 600; done";
    started(deaf).await.terminate().await;
}

#[tokio::test]
async fn a_signal_ends_the_agent_at_any_time() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    agent.initialize().await.unwrap();
    agent.terminate().await;
    Agent::ready([text("Hello.")], Options::default()).await.terminate().await;
}
