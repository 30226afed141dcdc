//! Cancelled turns, queued prompts and closed sessions. Every turn is answered, and no process or
//! terminal is left behind.

use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{call, end, run, text};
use crate::harness::session::{call_text, meta};
use crate::harness::{Agent, Options, PermissionReply};

/// Script lines: a command that runs for ten minutes, and text that the model sends after it.
fn long() -> [Value; 3] {
    [run("echo started; sleep 600"), end(), text("Next.")]
}

/// Runs the script of [`long`] until its command has started. Returns the id of the prompt.
async fn start_long_turn() -> (Agent, Value) {
    let mut agent = Agent::ready(long(), Options::default()).await;
    let prompt = agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "started").await;
    (agent, prompt)
}

#[tokio::test]
async fn cancel_ends_a_command_and_its_turn() {
    let (mut agent, prompt) = start_long_turn().await;
    assert!(!agent.processes().is_empty());
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!(agent.processes(), [""; 0]);
    let call = agent.call("terminal");
    assert_eq!(call.status, ToolCallStatus::Failed);
    assert_eq!(meta(&call)["reason"], "turn");
    assert!(call_text(&call).contains("started"), "what was shown stays: {}", call_text(&call));
    assert_eq!(agent.turn("again").await, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn cancel_before_anything_changes_nothing() {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    agent.cancel().await;
    agent.cancel().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "Hello.");
    agent.finish().await;
}

#[tokio::test]
async fn cancel_stops_a_slow_model() {
    let script = [text("Well"), json!({"delay_ms": 600_000}), text(", never.")];
    let mut agent = Agent::ready(script, Options::default()).await;
    let prompt = agent.prompt("go").await;
    let session = agent.session_id();
    agent.until(|client| client.session(&session).message_text() == "Well").await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    agent.finish().await;
}

#[tokio::test]
async fn cancel_of_one_session_leaves_the_others_alone() {
    let wait = "echo started; cat gate";
    let mut agent = Agent::ready([run(wait), end(), text("Done.")], Options::default()).await;
    agent.scratch.fifo("gate");
    let other = agent.new_session().await;
    let first = agent.prompt("go").await;
    let second = agent.prompt_in(&other, "go").await;
    agent.until_shown(&agent.session_id(), "started").await;
    agent.until_shown(&other, "started").await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&first).await, "cancelled");
    agent.scratch.open_fifo("gate").await;
    assert_eq!(agent.stop_reason(&second).await, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn a_second_prompt_is_queued_and_answered_after_the_first() {
    let script = [
        run("echo started; cat gate"),
        end(),
        text("One."),
        json!({"end": "end_turn"}),
        text("Two."),
    ];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.scratch.fifo("gate");
    let first = agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "started").await;
    let second = agent.prompt("and then").await;
    agent.scratch.open_fifo("gate").await;
    assert_eq!(agent.stop_reason(&first).await, "end_turn");
    assert_eq!(agent.session().message_text(), "One.");
    assert_eq!(agent.client.response(&second), None);
    assert_eq!(agent.stop_reason(&second).await, "end_turn");
    assert_eq!(agent.session().message_text(), "One.Two.");
    agent.finish().await;
}

#[tokio::test]
async fn cancel_answers_the_queued_prompts() {
    let (mut agent, first) = start_long_turn().await;
    let held = [agent.prompt("and").await, agent.prompt("then").await];
    agent.cancel().await;
    for prompt in [&first, &held[0], &held[1]] {
        assert_eq!(agent.stop_reason(prompt).await, "cancelled");
    }
    assert_eq!(agent.session().calls().len(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn prompts_that_exceed_the_queue_are_refused() {
    let (mut agent, first) = start_long_turn().await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(agent.prompt("more").await);
    }
    let refused = agent.prompt("too many").await;
    let error = agent.answer(&refused).await.unwrap_err();
    assert_eq!(error["code"], -32603, "{error}");
    assert!(error["data"]["reason"].is_string(), "{error}");
    agent.cancel().await;
    for prompt in held.iter().chain([&first]) {
        assert_eq!(agent.stop_reason(prompt).await, "cancelled");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_running_prompt_is_cancelled_by_a_cancel_of_its_request() {
    let (mut agent, prompt) = start_long_turn().await;
    agent.notify("$/cancel_request", json!({ "requestId": prompt })).await;
    match agent.answer(&prompt).await {
        Ok(result) => assert_eq!(result["stopReason"], "cancelled"),
        Err(error) => assert_eq!(error["code"], -32800),
    }
    assert_eq!(agent.processes(), [""; 0]);
    assert_eq!(meta(&agent.call("terminal"))["reason"], "turn");
    agent.finish().await;
}

#[tokio::test]
async fn close_cancels_the_prompts_and_frees_the_session() {
    let (mut agent, prompt) = start_long_turn().await;
    let held = agent.prompt("and then").await;
    let params = json!({"sessionId": agent.session_id()});
    let close = agent.send("session/close", params.clone()).await;
    assert_eq!(agent.answer(&close).await, Ok(json!({})));
    // CLOSE-002: the prompts must be answered before the close, so these answers have already
    // arrived.
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!(agent.stop_reason(&held).await, "cancelled");
    assert_eq!(agent.processes(), [""; 0]);
    let id = agent.prompt("anyone?").await;
    assert_eq!(agent.answer(&id).await.unwrap_err()["code"], -32002);
    let second = agent.new_session().await;
    let id = agent.prompt_in(&second, "go").await;
    agent.until_shown(&second, "started").await;
    agent.notify("session/cancel", json!({ "sessionId": second })).await;
    assert_eq!(agent.stop_reason(&id).await, "cancelled");
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_directly_after_a_prompt_cancels_only_this_prompt() {
    let reply = [json!({"delay_ms": 600_000}), json!({"end": "end_turn"})];
    let mut agent = Agent::ready(vec![reply; 40].concat(), Options::default()).await;
    for _ in 0..20 {
        let cancelled = agent.prompt("go").await;
        agent.cancel().await;
        let next = agent.prompt("and then").await;
        assert_eq!(agent.stop_reason(&cancelled).await, "cancelled");
        agent.cancel().await;
        assert_eq!(agent.stop_reason(&next).await, "cancelled");
    }
    agent.finish().await;
}

#[tokio::test]
async fn cancel_ends_every_call_of_a_reply_and_runs_none_of_the_rest() {
    let write = |name: &str| call("write_file", json!({"path": name, "content": "x"}));
    let script = [write("a"), run("touch b"), write("c"), end(), text("This is never said.")];
    let mut agent = Agent::ready(script, PermissionReply::NoReply).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| !client.permission_requests.is_empty()).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    let calls = agent.session().calls();
    assert_eq!(calls.len(), 3);
    for call in calls {
        assert_eq!((call.status, &meta(call)["reason"]), (ToolCallStatus::Failed, &json!("turn")));
    }
    assert_eq!(agent.scratch.snapshot(), agent.scratch.untouched());
    agent.finish().await;
}

#[tokio::test]
async fn a_queued_prompt_is_cancelled_by_a_cancel_of_its_request() {
    let script = [run("echo started; cat gate"), end(), text("One.")];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.scratch.fifo("gate");
    let first = agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "started").await;
    let held = agent.prompt("and then").await;
    agent.notify("$/cancel_request", json!({ "requestId": held })).await;
    // The queued prompt is answered at once, while the first turn is still running.
    assert_eq!(agent.answer(&held).await.unwrap_err()["code"], -32800);
    assert_eq!(agent.call("terminal").status, ToolCallStatus::InProgress);
    agent.scratch.open_fifo("gate").await;
    assert_eq!(agent.stop_reason(&first).await, "end_turn");
    assert_eq!(agent.session().message_text(), "One.");
    agent.finish().await;
}

#[tokio::test]
async fn cancel_works_although_the_client_does_not_read() {
    // The call of a running command shows the last lines of the output. The loop repeats its lines,
    // so the line `50` is always among the last lines.
    let flood = "while :; do seq 1 100; done";
    let mut agent = Agent::ready([run(flood), end()], Options::default()).await;
    let prompt = agent.prompt("go").await;
    agent.until_shown(&agent.session_id(), "50").await;
    let stopped = agent.pause_reading().await;
    for _ in 0..1000 {
        // All answers together are larger than the buffer of a pipe.
        agent.send_unchecked("session/dance", json!({})).await;
    }
    agent.cancel().await;
    agent.until_alone().await;
    drop(stopped);
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    agent.finish().await;
}
