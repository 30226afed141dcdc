//! Tests for the `terminal` tool: the result for the model, the report to the client, and the
//! output files.

mod client_terminal;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use acp_lifecycle::{
    AllowInProjectPolicy, CallOutcome, Effect, Policy, Secrets, Session, SessionHandle, Verdict,
    execute_call,
};
use acp_types::{Content, ContentBlock, Status, ToolCallId, ToolCallReport};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{Context, Registry, Workspace};
use callboard_process::env::base_env;
use callboard_process::limits::MAX_MODEL_OUTPUT_BYTES;

mod background;

/// A session in which every call is allowed.
struct TestSession {
    session: SessionHandle,
    registry: Registry,
    context: Context,
    folder: TempDir,
    calls: u32,
}

impl TestSession {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let mut session = Session::new(root.clone());
        session.replace_policy(Arc::new(AllowInProjectPolicy));
        session.set_secrets(Secrets::new(["hunter2hunter2"]));
        let workspace = Workspace::new(root, Vec::new()).unwrap();
        let workspace = Arc::new(workspace.with_state_folder(&folder.path().join("state")));
        Self {
            session: SessionHandle::new(session, SystemTime::now),
            registry: Registry::builtin(),
            context: Context::new(workspace).with_env(Arc::new(base_env(std::iter::empty()))),
            folder,
            calls: 0,
        }
    }

    /// Runs a call until it ends. Returns the result for the model, and the report for the client.
    async fn call(&mut self, name: &str, args: Value) -> (CallOutcome, ToolCallReport) {
        self.call_in(&CancellationToken::new(), name, args).await
    }

    /// Runs a call in a turn that the test may cancel.
    async fn call_in(
        &mut self,
        cancel: &CancellationToken,
        name: &str,
        args: Value,
    ) -> (CallOutcome, ToolCallReport) {
        self.calls += 1;
        let id = ToolCallId::new(format!("call{}", self.calls));
        let Self { session, registry, context, .. } = self;
        let open =
            registry.announce_call(session, &id, &"t".into(), name, context, cancel).unwrap();
        // The test answers no permission request. A call that requests permission therefore never
        // ends, and the timeout fails the test.
        let running = execute_call(open, registry.prepare_call(name, args, context));
        let ended = timeout(Duration::from_secs(200), running).await.expect(name);
        (ended, session.call_report(&id).unwrap())
    }
}

/// Allows every effect. Before that, the policy replaces a directory by a link to another
/// directory.
#[derive(Debug)]
struct FolderSwappingPolicy(std::path::PathBuf);

impl Policy for FolderSwappingPolicy {
    fn judge(&self, _: &Effect) -> Verdict {
        let sub = self.0.join("root/sub");
        if std::fs::rename(&sub, self.0.join("root/old")).is_ok() {
            std::os::unix::fs::symlink(self.0.join("elsewhere"), &sub).unwrap();
        }
        Verdict::Allow
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_states_a_timeout_and_left_over_processes() {
    let mut stage = TestSession::new();
    for (args, status, expected) in [
        (
            json!({"command": "sleep 600", "timeout_ms": 50}),
            Status::Failed,
            "It was ended after its timeout of 50 ms.",
        ),
        (
            json!({"command": "sleep 600 & echo a"}),
            Status::Completed,
            "One process that it left running was ended.",
        ),
        // A timeout of 0 is no timeout.
        (json!({"command": "echo a", "timeout_ms": 0}), Status::Completed, ""),
    ] {
        let (ended, report) = stage.call("terminal", args.clone()).await;
        assert_eq!(ended.status, status, "{args}: {}", ended.text);
        let shown = format!("{:?}", report.content);
        assert!(shown.contains(expected), "{args}: {shown}");
        assert_eq!(shown.contains("was ended"), !expected.is_empty(), "{args}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_in_the_folder_that_was_shown_or_not_at_all() {
    let mut stage = TestSession::new();
    for folder in ["root/sub", "elsewhere"] {
        std::fs::create_dir(stage.folder.path().join(folder)).unwrap();
    }
    let swaps = Arc::new(FolderSwappingPolicy(stage.folder.path().to_owned()));
    stage.session.update(|session, _| session.replace_policy(swaps));
    let (ended, _) = stage.call("terminal", json!({"command": "touch made", "cwd": "sub"})).await;
    assert_eq!(ended.status, Status::Failed, "{}", ended.text);
    assert!(!stage.folder.path().join("elsewhere/made").exists());
    assert!(!stage.folder.path().join("root/old/made").exists());
    // The directory was renamed while it was open. Its path is read from the file descriptor and
    // therefore shows the new name.
    let (ended, _) = stage.call("terminal", json!({"command": "pwd", "cwd": "old"})).await;
    assert!(ended.text.contains("root/old\n"), "{}", ended.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_is_linked_and_read_without_its_secrets() {
    let mut stage = TestSession::new();
    std::fs::write(stage.folder.path().join("root/notes.txt"), "hunter2hunter2\n").unwrap();
    let line = json!({ "command": "seq 20000; cat notes.txt; false" });
    let (ended, report) = stage.call("terminal", line).await;
    assert_eq!(ended.status, Status::Failed);
    assert!(ended.text.len() < MAX_MODEL_OUTPUT_BYTES + 500);
    assert!(ended.text.starts_with("[exit code 1]\n[the whole output, "), "{}", &ended.text[..200]);
    assert!(ended.text.contains("]\n1\n2\n") && ended.text.contains("lines left out"));
    assert!(ended.text.ends_with("\n20000\n[redacted]\n"));

    let links = report.content.iter().filter_map(|content| match content {
        Content::Block(ContentBlock::ResourceLink(link)) => Some(link),
        _ => None,
    });
    let [link] = links.collect::<Vec<_>>()[..] else { panic!("{:?}", report.content) };
    assert!(report.content.iter().any(|content| matches!(content, Content::Terminal(_))));
    let raw = report.raw_output.unwrap();
    let path = raw["outputFile"].as_str().unwrap();
    assert_eq!(link.uri, format!("file://{path}"));
    let whole = std::fs::read_to_string(path).unwrap();
    assert!(whole.ends_with("hunter2hunter2\r\n") || whole.ends_with("hunter2hunter2\n"));
    assert_eq!(
        (raw["outputBytes"].as_u64(), raw["outputLines"].as_u64()),
        (Some(whole.len() as u64), Some(20_001))
    );
    assert_eq!(report.meta.output_bytes, Some(whole.len() as u64));
    assert_eq!(link.size, i64::try_from(whole.len()).ok());

    // The model reads a part of the output file. Secrets in this file are redacted in this session
    // and in other sessions.
    let above = Workspace::new(stage.folder.path().to_owned(), Vec::new()).unwrap();
    let other = Arc::new(above.with_state_folder(&stage.folder.path().join("state")));
    for workspace in [Arc::clone(&stage.context.workspace), other] {
        stage.context.workspace = workspace;
        let window = json!({ "path": path, "offset": -2 });
        let (read, _) = stage.call("read_file", window).await;
        assert_eq!(read.status, Status::Completed, "{}", read.text);
        assert!(read.text.starts_with(" 20000\t20000\n 20001\t[redacted]\n"), "{}", read.text);
    }
}

/// The command reads from its terminal, but no user can type into this terminal.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_for_unavailable_input_is_ended_and_reported() {
    let mut stage = TestSession::new();
    stage.session.update(|session, _| session.set_shows_terminals(true));
    let line = r"printf 'Password: '; read -r x < /dev/tty; echo got $x";
    let (ended, report) = stage.call("terminal", json!({ "command": line })).await;
    let note = "[ended because it may have been waiting for input, which is not available; it may \
                have had effects";
    assert!(ended.text.starts_with(note), "{}", ended.text);
    assert!(ended.text.ends_with("]\nPassword: "), "{}", ended.text);
    assert_eq!((ended.status, report.status), (Status::Failed, Status::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_exclude_stored_outputs() {
    let mut stage = TestSession::new();
    let folder = stage.folder.path().canonicalize().unwrap();
    std::fs::write(folder.join("root/notes.txt"), "hunter2hunter2\n").unwrap();
    let line = json!({ "command": "seq 20000; cat notes.txt" });
    let (_, report) = stage.call("terminal", line).await;
    let output = report.raw_output.unwrap()["outputFile"].as_str().unwrap().to_owned();
    for path in [&output, folder.join("state/output").to_str().unwrap()] {
        let args = json!({ "pattern": "hunter", "path": path });
        let (ended, report) = stage.call("grep", args).await;
        assert_eq!(report.raw_output.unwrap()["code"], "not_permitted", "{}", ended.text);
        assert!(ended.text.contains("read_file"), "{}", ended.text);
    }
    // A workspace of the parent directory can still read the other files in that directory.
    let workspace = Workspace::new(folder.clone(), Vec::new()).unwrap();
    stage.context.workspace = Arc::new(workspace.with_state_folder(&folder.join("state")));
    let above = json!({ "pattern": "hunter", "path": ".", "include_ignored": true });
    let (ended, report) = stage.call("grep", above).await;
    assert!(ended.text.contains("notes.txt\n1:hunter2hunter2"), "{}", ended.text);
    assert!(!ended.text.contains("output-1.txt"), "{}", ended.text);
    assert_eq!(report.raw_output.unwrap()["matches"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_output_has_no_file_and_no_escape_sequences() {
    let mut stage = TestSession::new();
    let line = r"printf '\033]52;c;eA==\007\033[31mred\033[0m\n10%%\r20%%\n'";
    let (ended, report) = stage.call("terminal", json!({ "command": line })).await;
    assert_eq!(
        (ended.status, ended.text.as_str()),
        (Status::Completed, "[exit code 0]\nred\n20%\n")
    );
    assert_eq!(report.raw_output.unwrap()["outputFile"], Value::Null);
    assert_eq!(report.content.len(), 1);
    assert!(!stage.folder.path().join("state/output").exists());
}
