//! The built-in `direct` model: the prompt itself lists the calls.

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;

use crate::harness::script::Model;
use crate::harness::session::call_text;
use crate::harness::{Agent, Options, PermissionReply};

const EDIT: &str = "edit notes.txt\n<<<\ntwo\n===\nzwei\n>>>";

#[tokio::test]
async fn the_prompt_read_calls_read_file() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    assert_eq!(agent.turn("read README.md").await, "end_turn");
    let call = agent.call("read_file");
    assert_eq!(call.status, ToolCallStatus::Completed);
    assert!(call_text(&call).contains("A folder for one test."), "{}", call_text(&call));
    assert_eq!(agent.session().message_text(), "Done: 1 call.");
    agent.finish().await;
}

#[tokio::test]
async fn several_lines_are_several_calls_in_order() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    agent.turn(&format!("{EDIT}\nread notes.txt\nrun exit 3\nread missing.txt")).await;
    let calls = agent.session().calls();
    let names: Vec<_> = calls.iter().map(|call| call.name.clone().unwrap()).collect();
    assert_eq!(names, ["edit_file", "read_file", "terminal", "read_file"]);
    assert!(call_text(calls[1]).contains("zwei"), "{}", call_text(calls[1]));
    let said = agent.session().message_text();
    assert!(said.starts_with("4 calls, "), "{said}");
    assert!(said.contains("missing.txt"), "{said}");
    agent.finish().await;
}

#[tokio::test]
async fn any_other_prompt_is_answered_with_the_help() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    for prompt in ["What is the time?", "help", "", "read README.md\nplease"] {
        assert_eq!(agent.turn(prompt).await, "end_turn");
    }
    assert!(
        agent.session().message_text().contains("grep REGEX"),
        "{}",
        agent.session().message_text()
    );
    assert_eq!(agent.session().calls().len(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn the_prompt_undo_reverts_an_edit() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    agent.turn(EDIT).await;
    assert_eq!(agent.scratch.read("notes.txt"), "one\nzwei\nthree\n");
    agent.turn("undo").await;
    assert_eq!(agent.scratch.read("notes.txt"), "one\ntwo\nthree\n");
    assert_eq!(agent.call("undo").status, ToolCallStatus::Completed);
    agent.finish().await;
}

#[tokio::test]
async fn an_edit_needs_permission() {
    for (answer, notes) in [
        (PermissionOptionKind::AllowOnce, "one\nzwei\nthree\n"),
        (PermissionOptionKind::RejectOnce, "one\ntwo\nthree\n"),
    ] {
        let mut agent = Agent::ready(Model::Direct, PermissionReply::Select(answer)).await;
        assert_eq!(agent.turn(EDIT).await, "end_turn");
        assert_eq!(agent.client.permission_requests.len(), 1);
        assert_eq!(agent.scratch.read("notes.txt"), notes);
        agent.finish().await;
    }
}

#[tokio::test]
async fn each_turn_makes_only_the_calls_of_its_prompt() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    for _ in 0..3 {
        agent.turn("think again\nthink once more").await;
    }
    assert_eq!(agent.session().calls().len(), 6);
    agent.finish().await;
}
