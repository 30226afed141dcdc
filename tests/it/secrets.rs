//! Secrets in the agent's environment. These secrets are redacted in messages and logs, and
//! unchanged in files.

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::scratch::SECRET;
use crate::harness::script::{call, end, run, text};
use crate::harness::session::{call_text, meta};
use crate::harness::{Agent, Options, PermissionReply};

const ALLOW: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowOnce);

/// Finishes a test, and asserts that the secret appears neither in the transcript nor in the log.
async fn finish(mut agent: Agent) {
    agent.finish().await;
    let said = agent.client.transcript();
    assert!(said.contains("[redacted]") && !said.contains(SECRET), "{said}");
    assert!(!agent.stderr_log().contains(SECRET), "{}", agent.stderr_log());
}

#[tokio::test]
async fn a_secret_in_a_message_is_redacted_even_across_chunks() {
    let (first, rest) = SECRET.split_at(11);
    let script = [text("It is "), text(first), text(rest), text(". It was "), text(first)];
    let mut agent = Agent::ready(script, Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "It is [redacted]. It was [redacted]");
    finish(agent).await;
}

#[tokio::test]
async fn a_command_with_a_secret_runs_unchanged_and_can_be_allowed_only_once() {
    let (first, rest) = SECRET.split_at(5);
    // The output contains the secret in one piece, in two pieces, and in Base64.
    let command = format!(
        "echo {SECRET} > out.txt; cat out.txt; printf {first}; sleep 0.1; echo {rest}; base64 out.txt"
    );
    let mut agent = Agent::ready([run(&command), end(), run(&command), end()], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.scratch.read("out.txt"), format!("{SECRET}\n"));
    assert_eq!(agent.client.permission_requests.len(), 2);
    let asked = &agent.client.permission_requests[0].request;
    let kinds: Vec<_> = asked.options.iter().map(|option| option.kind).collect();
    assert_eq!(kinds, [PermissionOptionKind::AllowOnce, PermissionOptionKind::RejectOnce]);
    let note = serde_json::to_string(&asked.tool_call.fields.content).unwrap();
    assert!(note.contains("Not everything of this call is shown"), "{note}");
    finish(agent).await;
}

#[tokio::test]
async fn arguments_are_shown_without_secrets_and_files_keep_every_byte() {
    let file = format!("one {SECRET}\ntwo\n");
    let write = call("write_file", json!({"path": "key.txt", "content": file}));
    let edit = json!({"path": "key.txt", "old_text": "two", "new_text": "three"});
    let read = call("read_file", json!({"path": "key.txt"}));
    let script = [write, end(), call("edit_file", edit), end(), read, end()];
    let mut agent = Agent::ready(script, ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.scratch.read("key.txt"), format!("one {SECRET}\nthree\n"));
    let written = agent.call("write_file");
    assert_eq!(written.status, ToolCallStatus::Completed);
    let input = json!({"path": "key.txt", "content": "one [redacted]\ntwo\n"});
    assert_eq!(written.raw_input, Some(input));
    assert_eq!(meta(&written)["dropped"]["redacted"], 1);
    // A text that the call writes to a file is shown without redaction.
    assert!(serde_json::to_string(&written.content).unwrap().contains(SECRET));
    assert!(call_text(&agent.call("read_file")).contains("one [redacted]"));
    agent.finish().await;
}
