//! Tests for the reports of calls that change nothing: locations, progress and images.

use std::ffi::OsStr;
use std::fs;
use std::sync::{Arc, Mutex, mpsc};
use std::time::SystemTime;

use acp_lifecycle::{
    CallOutcome, ClientUnreachable, OutboxItem, OutboxSink, PartialArguments, Session,
    SessionHandle,
};
use acp_types::{Content, ContentBlock, Location, Status, ToolCallPatch, ToolCallReport};
use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::{open_call, run_whole_call};
use crate::builtin::find_path::FindPath;
use crate::builtin::grep::Grep;
use crate::builtin::list_directory::ListDirectory;
use crate::builtin::read_file::ReadFile;
use crate::builtin::think::Think;
use crate::files::state::journal::{RollbackJournal, unique_temporary_name};
use crate::files::workspace::testing::{TestWorkspace, test_workspace, test_workspace_with_undo};
use crate::limits::{MAX_CLIENT_IMAGE_BYTES, MAX_IMAGE_BYTES, MAX_INLINE_RESULT_BYTES};
use crate::{Context, Invocation, Registry, Tool, Workspace};

/// Records each patch that a client would receive.
#[derive(Clone, Default)]
struct RecordingClient(Arc<Mutex<Vec<ToolCallPatch>>>);

impl OutboxSink for RecordingClient {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        if let OutboxItem::ToolCall(_, patch) = item {
            self.0.lock().unwrap().push(patch);
        }
        Ok(())
    }
}

/// The record of one call, from its announcement to its end.
struct CallRecord {
    ended: CallOutcome,
    report: ToolCallReport,
    patches: Vec<ToolCallPatch>,
}

async fn run_call(tree: &TestWorkspace, tool: &str, args: Value) -> CallRecord {
    let cwd = tree.workspace.cwd().to_owned();
    run_call_in(Arc::new(Workspace::new(cwd, Vec::new()).unwrap()), tool, args).await
}

async fn run_call_in(workspace: Arc<Workspace>, tool: &str, args: Value) -> CallRecord {
    let client = RecordingClient::default();
    let context = Context::new(workspace);
    let (ended, report) = run_whole_call(|_| client.clone(), context, tool, args).await;
    let patches = client.0.lock().unwrap().clone();
    CallRecord { ended, report, patches }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_reports_its_first_matches_and_its_progress() {
    let tree = test_workspace(&[]);
    for name in 0..300 {
        tree.write(&format!("{name:03}"), "a\nneedle\n");
    }
    let CallRecord { ended, report, patches } =
        run_call(&tree, "grep", json!({ "pattern": "needle", "max_results": 2000 })).await;
    assert_eq!(ended.status, Status::Completed);
    assert!(ended.text.contains("[300 matching lines in 300 files]"), "{}", ended.text);
    let place = |name: &str| Location::try_new(tree.path(name)).unwrap().with_line(2);
    assert_eq!(report.locations[..2], [place("000"), place("001")]);
    assert_eq!(report.meta.progress, None, "the call has ended");
    // A short call may end before its first progress report is due.
    for progress in patches.iter().filter_map(|patch| patch.meta.as_ref()?.progress.clone()) {
        assert!((1.0..=300.0).contains(&progress.current), "{progress:?}");
        assert!(progress.message.unwrap().starts_with("files, "));
    }
    // While the call runs, only the first locations are reported. The report at the end of the call
    // begins with the same locations.
    let reported: Vec<_> = patches.iter().filter_map(|patch| patch.locations.as_ref()).collect();
    assert!(reported.iter().all(|some| report.locations.starts_with(some)), "{reported:?}");
}

#[tokio::test]
async fn the_location_follows_the_lines_of_a_streamed_file() {
    let tree = test_workspace(&[]);
    let (registry, cancel) = (Registry::builtin(), CancellationToken::new());
    let path = tree.path("new.rs");
    let session = SessionHandle::new(Session::new(tree.workspace.cwd()), SystemTime::now);
    let workspace = Arc::new(tree.workspace);
    let context = Context::new(workspace);
    let (id, mut arriving) = ("t/c".into(), PartialArguments::default());
    let open = registry
        .announce_call(&session, &id, &"t".into(), "write_file", &context, &cancel)
        .unwrap();
    for (fragment, line) in [
        (r#"{"path": "new.rs", "#, None),
        (r#""content": "fn a() {\n"#, Some(2)),
        (r"    b();\n}\n", Some(4)),
    ] {
        arriving.push(fragment);
        registry.report_partial_call(open.handle(), "write_file", &arriving, &context);
        let shown = session.call_report(&id).unwrap().locations;
        let shown: Vec<_> = shown.iter().map(|at| (at.path(), at.line().map(u32::from))).collect();
        assert_eq!(shown, [(path.as_path(), line)], "{fragment}");
    }
}

#[tokio::test]
async fn arguments_of_a_search_reach_it() {
    let tree =
        test_workspace(&[("a.rs", "x.y\nX.Y x.y\nxzy\n"), ("b.md", "x.y"), ("c", "one\ntwo")]);
    for (args, expected) in [
        (json!({ "pattern": "x.y", "literal": true, "type": "rust" }), "a.rs\n1:x.y\n2:X.Y x.y\n"),
        (json!({ "pattern": "x.y", "glob": "*.md" }), "b.md\n1:x.y\n"),
        (json!({ "pattern": "x", "offset": 2, "max_results": 1 }), "a.rs\n3:xzy\n"),
        (json!({ "pattern": "xzy", "context": 1 }), "a.rs\n2-X.Y x.y\n3:xzy\n"),
        (json!({ "pattern": "e.t", "multiline": true }), "[no match]\n"),
        (json!({ "pattern": "e\\st", "multiline": true }), "c\n1:one\n2:two\n"),
        (json!({ "pattern": "z", "word": true }), "[no match]\n"),
        (
            json!({ "pattern": "x", "max_per_file": 1, "file_type": "rust" }),
            "a.rs\n1:x.y\n[more matches in this file]\n",
        ),
    ] {
        let life = run_call(&tree, "grep", args.clone()).await;
        assert!(life.ended.text.starts_with(expected), "{args}: {}", life.ended.text);
    }
    let life = run_call(&tree, "grep", json!({ "pattern": "x", "max_results": 1 })).await;
    assert_eq!(life.report.raw_output.unwrap()["nextOffset"], 1);
    let life = run_call(&tree, "find_path", json!({ "pattern": "ars", "fuzzy": true })).await;
    assert_eq!(life.ended.text, "a.rs\n");
    let life =
        run_call(&tree, "find_path", json!({ "pattern": "*", "offset": 1, "max_results": 1 }));
    assert!(life.await.ended.text.starts_with("b.md\n[1 more; "));
    let life = run_call(&tree, "list_directory", json!({ "path": ".", "offset": 2 })).await;
    assert_eq!(life.ended.text, "c (7 bytes)\n");
}

#[tokio::test]
async fn a_file_is_shown_as_what_it_is() {
    let tree = test_workspace(&[("src/lines", "1\n2\n3\n")]);
    tree.write("image", b"GIF89a\x01\0\x01\0\0\0\0;");
    let life = run_call(&tree, "read_file", json!({ "path": "image" })).await;
    assert_eq!(life.ended.text, "[image/gif, 14 bytes]\n");
    assert_eq!(life.report.content.len(), 1);
    let shown = serde_json::to_value(&life.report.content[0]).unwrap();
    assert_eq!(shown["value"]["type"], "image");
    let life = run_call(&tree, "read_file", json!({ "path": "src/lines", "offset": -1 })).await;
    assert_eq!(life.report.locations[0].line().map(u32::from), Some(3));
    let life = run_call(&tree, "read_file", json!({ "path": "lib/lines" })).await;
    assert!(life.ended.text.contains("The same name is at: src/lines"), "{}", life.ended.text);
}

/// The size limit of a message to the client is lower than the size limit of an image for the
/// model. See `MAX_CLIENT_IMAGE_BYTES`.
#[tokio::test]
async fn the_model_receives_an_image_that_is_too_large_for_the_client() {
    let tree = test_workspace(&[]);
    let whole = 768 * 1024;
    for (bytes, shown) in [
        (14, &["image"][..]),
        (MAX_CLIENT_IMAGE_BYTES, &["image"]),
        (MAX_CLIENT_IMAGE_BYTES + 1, &["resource_link", "text"]),
        (MAX_IMAGE_BYTES as usize, &["resource_link", "text"]),
        (MAX_IMAGE_BYTES as usize + 1, &["text"]),
    ] {
        let mut image = b"GIF89a\x01\0\x01\0\0\0\0;".to_vec();
        image.resize(bytes, 0);
        tree.write("an image", image);
        let CallRecord { ended, report, .. } =
            run_call(&tree, "read_file", json!({ "path": "an image" })).await;
        let content = serde_json::to_value(&report.content).unwrap();
        let items = content.as_array().unwrap().iter();
        let kinds: Vec<_> = items.map(|item| item["value"]["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, shown, "{bytes}");
        assert!(report.content.iter().map(Content::approximate_json_len).sum::<usize>() <= whole);
        let seen: Vec<_> = ended.images.iter().map(|image| image.data.len()).collect();
        let is_taken = bytes as u64 <= MAX_IMAGE_BYTES;
        assert_eq!(seen, if is_taken { vec![bytes.div_ceil(3) * 4] } else { vec![] }, "{bytes}");
        assert_eq!(ended.status == Status::Completed, is_taken);
        if shown[0] == "resource_link" {
            let link = &content[0]["value"];
            assert!(link["uri"].as_str().unwrap().ends_with("/an%20image"), "{link}");
            assert_eq!((&link["size"], &link["mimeType"]), (&json!(bytes), &json!("image/gif")));
        }
    }
}

/// Reading a file may block if the disk does not respond. Other sessions must continue to run.
#[test]
fn previews_do_not_block_the_runtime() {
    fn is_elsewhere<T: Tool>(tool: T, args: Value, context: &Context) -> bool {
        let args = serde_json::from_value(args).unwrap();
        // A preview that needs no blocking thread is ready after the first poll.
        let open = open_call(context);
        tool.preview(args, Invocation::new(open.handle(), context, &Arc::default()))
            .now_or_never()
            .is_none()
    }
    let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let _guard = runtime.enter();
    let (done, wait) = mpsc::channel::<()>();
    // This task occupies the only blocking thread, so all other blocking work waits for it.
    drop(spawn_blocking(move || wait.recv()));
    let tree = test_workspace(&[("f", "")]);
    let context = Context::new(Arc::new(tree.workspace));
    assert!(is_elsewhere(ReadFile, json!({ "path": "f" }), &context));
    assert!(is_elsewhere(ListDirectory, json!({ "path": "." }), &context));
    assert!(is_elsewhere(FindPath, json!({ "pattern": "f" }), &context));
    assert!(is_elsewhere(Grep, json!({ "pattern": "f" }), &context));
    assert!(!is_elsewhere(Think, json!({ "thought": "f" }), &context));
    drop(done);
}

/// The killed process had moved a file away in order to delete it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn unfinished_changes_are_recovered_before_the_first_read() {
    let tree = test_workspace(&[("f", "text\n")]);
    let (state, aside) = (tree.outer_folder().join("state"), unique_temporary_name());
    let cwd = tree.workspace.cwd().to_owned();
    let begun =
        RollbackJournal::begin_quarantine(&state.join("journal"), &cwd, OsStr::new("f"), &aside);
    begun.unwrap().keep_for_replay();
    fs::rename(cwd.join("f"), cwd.join(&aside)).unwrap();
    let workspace = Workspace::new(cwd.clone(), Vec::new()).unwrap().with_state_folder(&state);
    assert!(!cwd.join("f").exists(), "who begins a session does not wait for it");
    let life = run_call_in(Arc::new(workspace), "read_file", json!({ "path": "f" })).await;
    assert_eq!(life.ended.text, "     1\ttext\n");
    assert_eq!(fs::read_dir(state.join("journal")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_is_stored_once_and_linked() {
    let tree = test_workspace_with_undo(&[]);
    tree.write("f", "a needle in a line that is neither long nor short\n".repeat(1000));
    let workspace = Arc::new(tree.workspace);
    for (tool, args) in [
        ("grep", json!({ "pattern": "needle", "max_results": 2000 })),
        ("read_file", json!({ "path": "f" })),
    ] {
        let CallRecord { ended, report, .. } = run_call_in(workspace.clone(), tool, args).await;
        let (note, text) = ended.text.split_once('\n').unwrap();
        let path = note.strip_suffix(']').unwrap().rsplit_once(": ").unwrap().1;
        assert!(note.starts_with("[the whole result, "), "{note}");
        assert_eq!(fs::read_to_string(path).unwrap(), text, "{tool}");
        let Some(Content::Block(ContentBlock::ResourceLink(link))) = report.content.last() else {
            panic!("{:?}", report.content)
        };
        assert!(link.uri.ends_with(path), "{}", link.uri);
        let again = run_call_in(workspace.clone(), "read_file", json!({ "path": path })).await;
        assert!(again.ended.text.len() > MAX_INLINE_RESULT_BYTES, "{}", again.ended.text.len());
        assert!(!again.ended.text.contains("[the whole result"), "{:.100}", again.ended.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_project_folder_is_reported() {
    for is_made_again in [false, true] {
        let tree = test_workspace(&[("f", "text")]);
        let cwd = tree.path(".").canonicalize().unwrap();
        let workspace = Arc::new(tree.workspace);
        fs::remove_dir_all(&cwd).unwrap();
        if is_made_again {
            fs::create_dir(&cwd).unwrap();
        }
        for (tool, args) in [
            ("list_directory", json!({})),
            ("find_path", json!({ "pattern": "*" })),
            ("grep", json!({ "pattern": "text" })),
            ("read_file", json!({ "path": "f" })),
            ("write_file", json!({ "path": "new", "content": "text" })),
            ("edit_file", json!({ "path": "f", "old_text": "text", "new_text": "new" })),
            ("delete_path", json!({ "path": "f" })),
            ("terminal", json!({ "command": "true" })),
        ] {
            let CallRecord { ended, .. } = run_call_in(workspace.clone(), tool, args).await;
            let is_said = ended.text.contains(&format!("the folder {} is gone", cwd.display()));
            assert!(ended.status == Status::Failed && is_said, "{tool}: {}", ended.text);
        }
    }
}

#[tokio::test]
async fn streamed_arguments_are_recognised_by_their_other_names() {
    let tree = test_workspace(&[]);
    let workspace = Workspace::new(tree.workspace.cwd().to_owned(), Vec::new()).unwrap();
    let workspace = Arc::new(workspace);
    let context = Context::new(workspace);
    let session = SessionHandle::new(Session::new(context.workspace.cwd()), SystemTime::now);
    let registry = Registry::builtin();
    let (id, cancel) = ("t/c".into(), CancellationToken::new());
    let open = registry
        .announce_call(&session, &id, &"t".into(), "write_file", &context, &cancel)
        .unwrap();
    let mut args = PartialArguments::default();
    args.push(r#"{"filePath": "a.rs", "file_text": "one\ntwo"#);
    registry.report_partial_call(open.handle(), "write_file", &args, &context);
    let report = session.call_report(&id).unwrap();
    assert!(report.title.contains("a.rs"), "{}", report.title);
    assert_eq!(report.raw_input, Some(json!({ "filePath": "a.rs" })));
    let lines: Vec<_> = report.locations.iter().map(|at| at.line().map(u32::from)).collect();
    assert_eq!(lines, [Some(2)]);
}
