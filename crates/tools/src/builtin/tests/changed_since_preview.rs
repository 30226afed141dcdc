//! Tests for files that change while a permission request is open. The call must either ask again
//! or apply the change to the new content.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use acp_lifecycle::{
    CallOutcome, ClientUnreachable, Effect, OutboxItem, OutboxSink, PermissionAnswer, Policy,
    SessionHandle, Verdict,
};
use acp_types::{Content, FileChange, ToolCallReport};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::run_whole_call;
use crate::files::workspace::testing::{TestWorkspace, test_workspace};
use crate::{ClientError, Context, UnsavedTextBackend, Workspace};

/// Changes the files while a permission request is open. The argument is the number of earlier
/// requests.
type ConcurrentChange = fn(&TestWorkspace, u32);

/// A client that changes the files during each permission request and then allows the call.
struct ApprovingClient {
    session: SessionHandle,
    tree: Arc<TestWorkspace>,
    meanwhile: ConcurrentChange,
    asked: Arc<AtomicU32>,
    /// The change that each permission request showed.
    shown: Arc<Mutex<Vec<Option<FileChange>>>>,
}

impl OutboxSink for ApprovingClient {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        if let OutboxItem::PermissionRequest(number) = item {
            let call = self.session.update(|session, _| {
                session.pending_permission_request(number).unwrap().call.clone()
            });
            let change = change(&self.session.call_report(&call).unwrap());
            self.shown.lock().unwrap().push(change);
            (self.meanwhile)(&self.tree, self.asked.fetch_add(1, Ordering::Relaxed));
            let answer = PermissionAnswer::Selected { option_id: "allow".to_owned(), reason: None };
            self.session.answer_permission(number, answer);
        }
        Ok(())
    }
}

/// An editor. If the file `buffer` exists, that file contains the editor's unsaved text. Otherwise
/// the editor has no unsaved changes.
#[derive(Debug)]
struct FakeEditor {
    buffer: PathBuf,
    asked: Arc<AtomicU32>,
}

impl UnsavedTextBackend for FakeEditor {
    fn can_write(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, ClientError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let text = fs::read_to_string(&self.buffer).or_else(|_| fs::read_to_string(path));
        ready(text.map_err(|error| ClientError::new(&error.to_string()))).boxed()
    }

    fn write<'a>(&'a self, _: &'a Path, text: &'a str) -> BoxFuture<'a, Result<(), ClientError>> {
        fs::write(&self.buffer, text).unwrap();
        ready(Ok(())).boxed()
    }
}

fn change(report: &ToolCallReport) -> Option<FileChange> {
    report.content.iter().find_map(|content| match content {
        Content::Change(change) => Some(change.clone()),
        _ => None,
    })
}

struct ChangedCallRecord {
    ended: CallOutcome,
    report: ToolCallReport,
    shown: Vec<Option<FileChange>>,
    tree: Arc<TestWorkspace>,
    /// Number of requests for the editor's text that the client received.
    texts_asked: u32,
}

impl ChangedCallRecord {
    /// Returns the error code of the call, or `None` if the call completed.
    fn code(&self) -> Option<&str> {
        self.report.raw_output.as_ref()?.get("code")?.as_str()
    }

    fn asked(&self) -> usize {
        self.shown.len()
    }
}

/// Runs a complete call on the file `f`, which has ten lines.
async fn run_call_with_change(
    tool: &str,
    args: Value,
    meanwhile: ConcurrentChange,
) -> ChangedCallRecord {
    let tree = test_workspace(&[("f", LINES)]);
    let cwd = tree.workspace.cwd().to_owned();
    let workspace = Workspace::new(cwd, Vec::new()).unwrap();
    let workspace = Arc::new(workspace.with_state_folder(&tree.outer_folder().join("state")));
    let (buffer, asked) = (editor_buffer(&tree), Arc::default());
    let text: Arc<dyn UnsavedTextBackend> =
        Arc::new(FakeEditor { buffer, asked: Arc::clone(&asked) });
    let context = Context::new(workspace).with_unsaved_text_backend(Some(text));
    let (tree, shown) = (Arc::new(tree), Arc::default());
    let client = |session: &SessionHandle| ApprovingClient {
        session: session.clone(),
        tree: Arc::clone(&tree),
        meanwhile,
        asked: Arc::default(),
        shown: Arc::clone(&shown),
    };
    let (ended, report) = run_whole_call(client, context, tool, args).await;
    let shown = shown.lock().unwrap().clone();
    let texts_asked = asked.load(Ordering::Relaxed);
    ChangedCallRecord { ended, report, shown, tree, texts_asked }
}

fn editor_buffer(tree: &TestWorkspace) -> PathBuf {
    tree.outer_folder().join("buffer")
}

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

fn edit() -> Value {
    json!({ "path": "f", "old_text": "9\n", "new_text": "nine\n" })
}

/// Inserts a line at the beginning of the file, during the first permission request only.
fn insert_line_above(tree: &TestWorkspace, before: u32) {
    if before == 0 {
        tree.write("f", format!("0\n{LINES}"));
    }
}

/// Changes a line next to the edited line, during the first permission request only. The request
/// shows both lines.
fn change_neighbouring_line(tree: &TestWorkspace, before: u32) {
    if before == 0 {
        tree.write("f", LINES.replace("8\n", "eight\n"));
    }
}

/// Allows the first effects, and asks about all later ones, like a session whose mode changes.
#[derive(Debug)]
struct StricterPolicy {
    judged: AtomicU32,
    workspace: Arc<Workspace>,
    /// Whether the session had seen a file when it was about to ask.
    has_seen_file: AtomicBool,
}

impl Policy for StricterPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        if self.judged.fetch_add(1, Ordering::Relaxed) == 0 {
            return Verdict::Allow;
        }
        let Effect::Read(path) = effect else { panic!("{effect:?}") };
        let has_seen = self.workspace.known_hashes().contains(path);
        self.has_seen_file.fetch_or(has_seen, Ordering::Relaxed);
        Verdict::Ask
    }
}

/// The preview of a read may read the file, but a file whose read needs permission is read after
/// the answer.
#[tokio::test]
async fn a_file_whose_read_needs_permission_is_read_after_the_answer() {
    for is_outside in [true, false] {
        let tree = Arc::new(test_workspace(&[("inside", "before")]));
        let file = match is_outside {
            true => tree.outer_folder().join("outside"),
            false => tree.path("inside"),
        };
        fs::write(&file, "before").unwrap();
        let cwd = tree.workspace.cwd().to_owned();
        let workspace = Arc::new(Workspace::new(cwd, Vec::new()).unwrap());
        let policy = Arc::new(StricterPolicy {
            judged: AtomicU32::new(0),
            workspace: workspace.clone(),
            has_seen_file: AtomicBool::default(),
        });
        let asked = Arc::<AtomicU32>::default();
        let client = |session: &SessionHandle| {
            if !is_outside {
                let policy: Arc<dyn Policy> = policy.clone();
                drop(session.update(|session, _| session.replace_policy(policy)));
            }
            ApprovingClient {
                session: session.clone(),
                tree: Arc::clone(&tree),
                meanwhile: |tree, _| {
                    fs::write(tree.outer_folder().join("outside"), "after").unwrap();
                    tree.write("inside", "after");
                },
                asked: Arc::clone(&asked),
                shown: Arc::default(),
            }
        };
        let args = json!({ "path": file });
        let context = Context::new(workspace.clone());
        let (ended, _) = run_whole_call(client, context, "read_file", args).await;
        let asked = asked.load(Ordering::Relaxed);
        assert_eq!((ended.text.trim(), asked), ("1\tafter", 1), "outside: {is_outside}");
        assert!(!policy.has_seen_file.load(Ordering::Relaxed));
        assert!(workspace.known_hashes().contains(&file));
    }
}

#[tokio::test]
async fn an_edit_of_unchanged_lines_follows_them_to_their_new_place() {
    let life = run_call_with_change("edit_file", edit(), insert_line_above).await;
    assert_eq!((life.code(), life.asked()), (None, 1), "{}", life.ended.text);
    assert_eq!(life.tree.read("f"), format!("0\n{}", LINES.replace('9', "nine")));
    // The client receives the line number after the concurrent change.
    assert_eq!(life.report.locations[0].line().map(u32::from), Some(10));
    let (before, now) = (life.shown[0].as_ref().unwrap(), change(&life.report).unwrap());
    assert_eq!((before.hunks[0].old_start, now.hunks[0].old_start), (6, 7));
    assert_eq!(before.hunks[0].lines, now.hunks[0].lines);
}

#[tokio::test]
async fn another_change_of_the_shown_state_requires_permission_again() {
    let numbered = json!({ "path": "f", "old_text": "9\n", "new_text": "n\n", "occurrence": 1 });
    let near = json!({ "path": "f", "old_text": "9\n", "new_text": "n\n", "line": 9 });
    for (tool, args, meanwhile, after) in [
        (
            "edit_file",
            edit(),
            change_neighbouring_line as ConcurrentChange,
            "1\n2\n3\n4\n5\n6\n7\neight\nnine\n10\n",
        ),
        // After the concurrent change, the same line number selects another line.
        ("edit_file", numbered, insert_line_above, "0\n1\n2\n3\n4\n5\n6\n7\n8\nn\n10\n"),
        ("edit_file", near, insert_line_above, "0\n1\n2\n3\n4\n5\n6\n7\n8\nn\n10\n"),
        ("write_file", json!({ "path": "f", "content": "new\n" }), insert_line_above, "new\n"),
    ] {
        let life = run_call_with_change(tool, args.clone(), meanwhile).await;
        assert_eq!((life.code(), life.asked()), (None, 2), "{args}: {}", life.ended.text);
        assert_eq!(life.tree.read("f"), after, "{args}");
        assert!(life.shown[0] != life.shown[1], "{args}: the same is shown");
        let said = serde_json::to_string(&life.report.content).unwrap();
        assert!(said.contains("after it was permitted"), "{said}");
    }
}

#[tokio::test]
async fn delete_and_move_apply_to_the_last_permitted_content() {
    let gone = json!({ "path": "f" });
    let moved = json!({ "from": "f", "to": "g" });
    for (tool, args) in [("delete_path", gone), ("move_path", moved)] {
        let life = run_call_with_change(tool, args, insert_line_above).await;
        assert_eq!((life.code(), life.asked()), (None, 2), "{tool}: {}", life.ended.text);
        assert!(!life.tree.path("f").exists());
    }
}

#[tokio::test]
async fn impossible_or_ever_changing_edits_fail_with_an_error_code() {
    for (meanwhile, code, asked) in [
        ((|tree, _| tree.write("f", LINES.replace('9', ""))) as ConcurrentChange, "no_match", 1),
        (|tree, _| tree.write("f", format!("9\n{LINES}")), "ambiguous_match", 1),
        (|tree, _| fs::remove_file(tree.path("f")).unwrap(), "not_found", 1),
        (
            |tree, before| tree.write("f", LINES.replace('8', &format!("8 {before}"))),
            "changed_since_preview",
            3,
        ),
    ] {
        let life = run_call_with_change("edit_file", edit(), meanwhile).await;
        assert_eq!((life.code(), life.asked()), (Some(code), asked), "{}", life.ended.text);
    }
}

#[tokio::test]
async fn an_edit_that_another_program_made_is_reported_as_already_applied() {
    let edit = json!({ "path": "f", "old_text": "8\n9\n10\n", "new_text": "8\nnine\n10\n" });
    let done = |tree: &TestWorkspace, _| tree.write("f", LINES.replace("9\n", "nine\n"));
    let life = run_call_with_change("edit_file", edit, done).await;
    assert_eq!((life.code(), life.asked()), (None, 1), "{}", life.ended.text);
    let says = "Nothing was changed in f: it already contains new_text, at line 8.";
    assert!(life.ended.text.contains(says), "{}", life.ended.text);
    assert!(format!("{:?}", life.report.content).contains(says), "{:?}", life.report.content);
    assert_eq!(change(&life.report), None, "{:?}", life.report.content);
}

#[tokio::test]
async fn a_call_is_shown_as_written_and_run_with_normalised_arguments() {
    let written = json!({
        "file_path": "f", "why": "it fits", "edits": [{ "old_string": "9", "new_string": "nine" }],
    });
    let life = run_call_with_change("edit_file", written.clone(), |_, _| ()).await;
    assert_eq!((life.code(), life.asked()), (None, 1), "{}", life.ended.text);
    assert_eq!(life.tree.read("f"), LINES.replace('9', "nine"));
    assert_eq!((life.report.raw_input.as_ref(), &*life.report.title), (Some(&written), "Edit f"));
    let note = "The argument why is unknown and was ignored.";
    assert!(life.ended.text.ends_with(note), "{}", life.ended.text);
    // A failed call also reports that the argument was ignored. If two arguments contradict each
    // other, the call is rejected before any change.
    let missing = json!({ "path": "f", "old_str": "no such line", "new_str": "x", "why": "" });
    let life = run_call_with_change("edit_file", missing, |_, _| ()).await;
    assert_eq!(life.code(), Some("no_match"), "{}", life.ended.text);
    assert!(life.ended.text.ends_with(note), "{}", life.ended.text);
    let both = json!({ "path": "f", "file_path": "g", "old_text": "9", "new_text": "x" });
    let life = run_call_with_change("edit_file", both, |_, _| ()).await;
    assert_eq!((life.code(), life.asked()), (Some("invalid_arguments"), 0), "{}", life.ended.text);
    assert!(life.ended.text.contains("path and "), "{}", life.ended.text);
    // The line number decides where the new line is inserted.
    let insert = json!({ "path": "f", "old_text": "", "new_text": "0", "line": "1" });
    let life = run_call_with_change("edit_file", insert, insert_line_above).await;
    assert_eq!((life.code(), life.asked()), (None, 2), "{}", life.ended.text);
}

/// Types into the editor, during the first permission request only. The editor has dropped the
/// final line ending of the file.
fn type_without_last_line_end(tree: &TestWorkspace, before: u32) {
    if before == 0 {
        fs::write(editor_buffer(tree), format!("0\n{}", LINES.trim_end())).unwrap();
    }
}

#[tokio::test]
async fn the_last_line_end_that_an_editor_lost_is_written_back_with_an_edit() {
    for (args, after) in [
        (edit(), format!("0\n{}", LINES.replace('9', "nine"))),
        (
            json!({ "path": "f", "old_text": "9\n10\n", "new_text": "x\n" }),
            "0\n1\n2\n3\n4\n5\n6\n7\n8\nx\n".to_owned(),
        ),
    ] {
        let life =
            run_call_with_change("edit_file", args.clone(), type_without_last_line_end).await;
        assert_eq!(life.code(), None, "{args}: {}", life.ended.text);
        assert_eq!(fs::read_to_string(editor_buffer(&life.tree)).unwrap(), after, "{args}");
    }
}

/// Types into the editor, during the first permission request only.
fn type_into_editor(tree: &TestWorkspace, before: u32) {
    if before == 0 {
        fs::write(editor_buffer(tree), format!("0\n{LINES}")).unwrap();
    }
}

#[tokio::test]
async fn typing_during_the_permission_request_is_detected_and_kept() {
    let whole = json!({ "path": "f", "content": "new\n" });
    let edited = format!("0\n{}", LINES.replace('9', "nine"));
    for (tool, args, after) in [("edit_file", edit(), &edited[..]), ("write_file", whole, "new\n")]
    {
        let life = run_call_with_change(tool, args.clone(), type_into_editor).await;
        assert_eq!((life.code(), life.asked()), (None, 2), "{tool}: {}", life.ended.text);
        assert_eq!(life.tree.read("f"), LINES, "{tool}: the disk is another text than the editor");
        assert_eq!(fs::read_to_string(editor_buffer(&life.tree)).unwrap(), after, "{tool}");
        assert!(life.ended.text.contains("not saved"), "{tool}: {}", life.ended.text);
        // If the user does not type, the editor is queried once for the preview and once before the
        // change.
        assert_eq!(run_call_with_change(tool, args, |_, _| ()).await.texts_asked, 2, "{tool}");
    }
}
