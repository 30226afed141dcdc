//! Invalid calls of a model. Each call fails with a message that helps the model to correct it, and
//! the turn continues.

use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{call, end, text};
use crate::harness::session::{call_text, meta};
use crate::harness::{Agent, Options};

/// Asserts that each call fails with the expected code, that its text contains the expected words,
/// and that no file changes.
async fn fail(cases: &[(&str, Value, &str, &str)]) {
    let calls = cases.iter().flat_map(|(tool, args, ..)| [call(tool, args.clone()), end()]);
    let script: Vec<_> = calls.chain([text("I see.")]).collect();
    let mut agent = Agent::ready(script, Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "I see.");
    let calls = agent.session().calls();
    assert_eq!(calls.len(), cases.len());
    for (call, (tool, args, code, says)) in calls.into_iter().zip(cases) {
        let shown = call_text(call);
        assert_eq!(call.status, ToolCallStatus::Failed, "{tool} {args}");
        assert!(shown.contains(says), "{tool} {args}: {shown}");
        let output = call.raw_output.as_ref().unwrap();
        assert_eq!(output["code"], *code, "{tool} {args}: {output}");
        assert_eq!(meta(call)["reason"], "error", "{tool} {args}");
    }
    assert_eq!(agent.client.permission_requests.len(), 0);
    assert_eq!(agent.scratch.snapshot(), agent.scratch.untouched());
    agent.finish().await;
}

#[tokio::test]
async fn a_path_that_cannot_be_used_says_why() {
    fail(&[
        ("read_file", json!({"path": "missing.txt"}), "not_found", "missing.txt"),
        ("read_file", json!({"path": "src"}), "is_a_directory", "src"),
        ("read_file", json!({"path": "binary.bin"}), "binary_file", "binary"),
        ("read_file", json!({"path": "/dev/zero"}), "not_a_regular_file", "/dev/zero"),
        ("read_file", json!({"path": "/proc/self/environ"}), "outside_roots", "/proc/self/environ"),
        ("delete_path", json!({"path": "../script.jsonl"}), "outside_roots", "../script.jsonl"),
        ("read_file", json!({"path": "notes.txt", "offset": 9}), "invalid_arguments", "3 lines"),
        ("list_directory", json!({"path": "notes.txt"}), "not_a_directory", "notes.txt"),
        ("list_directory", json!({"path": "/proc/self/cwd"}), "outside_roots", "/proc/self/cwd"),
        ("write_file", json!({"path": "src", "content": ""}), "is_a_directory", "src"),
        ("move_path", json!({"from": "notes.txt", "to": "../x"}), "outside_roots", "../x"),
        (
            "write_file",
            json!({"path": "notes.txt/x", "content": ""}),
            "not_a_directory",
            "notes.txt",
        ),
        ("terminal", json!({"command": "pwd", "cwd": "missing"}), "not_found", "missing"),
        ("terminal", json!({"command": "pwd", "cwd": "/"}), "outside_roots", "/"),
    ])
    .await;
}

#[tokio::test]
async fn an_edit_without_exactly_one_match_says_why() {
    let edit = |old: &str| json!({"path": "notes.txt", "old_text": old, "new_text": "x"});
    let missing = json!({"path": "missing.txt", "old_text": "a", "new_text": "b"});
    fail(&[
        ("edit_file", edit("four"), "no_match", "notes.txt"),
        ("edit_file", edit("e"), "ambiguous_match", "notes.txt"),
        ("edit_file", missing, "not_found", "missing.txt"),
    ])
    .await;
}

#[tokio::test]
async fn a_pattern_that_does_not_compile_says_where() {
    fail(&[
        ("grep", json!({"pattern": "(two"}), "bad_pattern", "unclosed group"),
        ("grep", json!({"pattern": "two", "glob": "{a"}), "bad_pattern", "{a"),
        ("find_path", json!({"pattern": "[a"}), "bad_pattern", "[a"),
    ])
    .await;
}

#[tokio::test]
async fn arguments_that_break_the_schema_say_which() {
    let bad = "invalid_arguments";
    fail(&[
        ("read_file", json!({}), bad, "path"),
        ("read_file", json!({"path": ["notes.txt"]}), bad, "path"),
        ("read_file", json!({"path": "notes.txt", "file_path": "a"}), bad, "path"),
        ("read_file", json!({"path": "missing.txt", "colour": "red"}), "not_found", "missing.txt"),
        ("read_file", json!(["notes.txt"]), bad, "object"),
        ("read_file", json!("{\"path\": \"no"), bad, "JSON"),
        ("read_file", json!("notes.txt"), bad, "JSON"),
        ("todo_write", json!({"todos": [{"status": "pending"}]}), bad, "content"),
        ("terminal", json!({"command": "true", "timeout_ms": -1}), bad, "timeout_ms"),
    ])
    .await;
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_known_tools() {
    fail(&[("read_fil", json!({"path": "notes.txt"}), "unknown_tool", "read_file")]).await;
}

#[tokio::test]
async fn a_command_that_does_not_exist_fails_as_in_a_shell() {
    let script = [call("terminal", json!({"command": "no-such-command"})), end(), text("I see.")];
    let mut agent = Agent::ready(script, Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let call = agent.call("terminal");
    assert_eq!(meta(&call)["exitCode"], 127);
    assert!(call_text(&call).contains("no-such-command"), "{}", call_text(&call));
    agent.finish().await;
}

#[tokio::test]
async fn a_failed_model_ends_its_turn_with_the_error_message() {
    let script = [text("Well, "), json!({"error": {"message": "the model is asleep\nZzz"}})];
    let mut agent = Agent::ready(script, Options::default()).await;
    let id = agent.prompt("go").await;
    let shown = match agent.answer(&id).await {
        Ok(_) => agent.session().message_text(),
        Err(error) => error.to_string(),
    };
    assert!(shown.contains("the model is asleep"), "{shown}");
    agent.turn("and now?").await;
    agent.finish().await;
}
