//! A model that fails. Transient errors are retried, and other errors end the turn with advice for
//! the user.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use crate::harness::script::{call, end, run, text};
use crate::harness::{Agent, Options};

fn fails(status: u16) -> Value {
    json!({"error": {"message": "slow down", "status": status}})
}

#[tokio::test]
async fn a_request_to_a_busy_model_is_retried_and_the_client_informed() {
    let mut agent = Agent::ready([fails(529), text("Hello.")], Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "Hello.");
    let thought = agent.session().thought_text();
    assert!(thought.starts_with("The model failed: slow down (status 529). "), "{thought}");
    assert!(thought.contains("asked again in "), "{thought}");
    agent.finish().await;
}

#[tokio::test]
async fn an_incomplete_reply_is_requested_again_and_its_calls_run_once() {
    let once = "echo once >> ran";
    let script = [text("We"), run(once), fails(500), text("Well."), run(once), end(), text("So.")];
    let mut agent = Agent::ready(script, Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "WeWell.So.");
    assert_eq!(agent.session().calls().len(), 2);
    assert_eq!(agent.scratch.read("ran"), "once\n");
    agent.finish().await;
}

#[tokio::test]
async fn cancel_ends_the_wait_for_a_busy_model_at_once() {
    let busy: Vec<_> = (0..10).map(|_| fails(503)).collect();
    let mut agent = Agent::ready(busy, Options::default()).await;
    let prompt = agent.prompt("go").await;
    let session = agent.session_id();
    // The delay before the third retry is at least 2 s.
    agent
        .until(|client| client.session(&session).thought_text().matches("again in").count() == 3)
        .await;
    let before = Instant::now();
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert!(before.elapsed() < Duration::from_millis(1_500), "{:?}", before.elapsed());
    agent.finish().await;
}

#[tokio::test]
async fn a_model_without_a_key_asks_for_a_login() {
    let mut agent = Agent::ready([fails(401), text("Hello.")], Options::default()).await;
    let prompt = agent.prompt("go").await;
    let error = agent.answer(&prompt).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32000), &json!("model_auth")));
    assert_eq!(agent.turn("again").await, "end_turn");
    assert_eq!(agent.session().message_text(), "Hello.");
    agent.finish().await;
}

#[tokio::test]
async fn a_permanent_error_ends_the_turn_at_once() {
    let mut agent = Agent::ready([fails(404), text("Hello.")], Options::default()).await;
    let prompt = agent.prompt("go").await;
    let error = agent.answer(&prompt).await.unwrap_err();
    assert_eq!(error["message"], "The model failed: slow down (status 404)");
    assert_eq!(agent.session().message_text(), "");
    agent.finish().await;
}

#[tokio::test]
async fn edits_of_one_file_run_in_order_and_before_the_next_command() {
    let edit = |old: &str, new: &str| {
        call("edit_file", json!({"path": "notes.txt", "old_text": old, "new_text": new}))
    };
    let write = call("write_file", json!({"path": "new.txt", "content": "new\n"}));
    let edits = [edit("one", "1"), edit("two", "2"), write, edit("1\n2", "3"), run("cat *.txt")];
    let script = edits.into_iter().chain([end(), text("Done.")]).collect::<Vec<_>>();
    let mut agent = Agent::ready(script, Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.scratch.read("notes.txt"), "3\nthree\n");
    let cat = agent.call("terminal");
    assert_eq!(cat.raw_output.unwrap()["exitCode"], 0);
    for line in ["3", "three", "new"] {
        assert!(agent.session().any_call_shows_line(line), "{line}");
    }
    agent.finish().await;
}
