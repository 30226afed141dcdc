//! What a client is told of calls that look, by their whole life: places, progress, images.

use std::ffi::OsStr;
use std::fs;
use std::sync::{Arc, Mutex, mpsc};
use std::time::SystemTime;

use acp_lifecycle::{Arriving, Ended, Item, Session, SessionHandle, Sink, Unreachable};
use acp_types::{Content, ContentBlock, Location, Status, ToolCallPatch, ToolCallReport};
use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::{live_before, opened};
use crate::builtin::find_path::FindPath;
use crate::builtin::grep::Grep;
use crate::builtin::list_directory::ListDirectory;
use crate::builtin::read_file::ReadFile;
use crate::builtin::think::Think;
use crate::files::state::journal::{Journal, unique};
use crate::files::workspace::testing::{Tree, kept, tree};
use crate::limits::{IMAGE_BYTES, RESULT_BYTES, SHOWN_IMAGE_BYTES};
use crate::{Context, Invocation, Registry, Tool, Workspace};

/// Keeps every patch that a client would be told.
#[derive(Clone, Default)]
struct Client(Arc<Mutex<Vec<ToolCallPatch>>>);

impl Sink for Client {
    fn deliver(&mut self, item: Item) -> Result<(), Unreachable> {
        if let Item::ToolCall(_, patch) = item {
            self.0.lock().unwrap().push(patch);
        }
        Ok(())
    }
}

/// One call, from its announcement to its end.
struct Life {
    ended: Ended,
    report: ToolCallReport,
    patches: Vec<ToolCallPatch>,
}

async fn live(tree: &Tree, tool: &str, args: Value) -> Life {
    let cwd = tree.workspace.cwd().to_owned();
    lived(Arc::new(Workspace::new(cwd, Vec::new()).unwrap()), tool, args).await
}

async fn lived(workspace: Arc<Workspace>, tool: &str, args: Value) -> Life {
    let client = Client::default();
    let context = Context::new(workspace);
    let (ended, report) = live_before(|_| client.clone(), context, tool, args).await;
    let patches = client.0.lock().unwrap().clone();
    Life { ended, report, patches }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_tells_its_first_places_and_how_far_it_is() {
    let tree = tree(&[]);
    for name in 0..300 {
        tree.write(&format!("{name:03}"), "a\nneedle\n");
    }
    let Life { ended, report, patches } =
        live(&tree, "grep", json!({ "pattern": "needle", "max_results": 2000 })).await;
    assert_eq!(ended.status, Status::Completed);
    assert!(ended.text.contains("[300 matching lines in 300 files]"), "{}", ended.text);
    let place = |name: &str| Location::try_new(tree.path(name)).unwrap().at_line(2);
    assert_eq!(report.locations[..2], [place("000"), place("001")]);
    assert_eq!(report.meta.progress, None, "the call has ended");
    // A short call may have ended before any of it was due.
    for progress in patches.iter().filter_map(|patch| patch.meta.as_ref()?.progress.clone()) {
        assert!((1.0..=300.0).contains(&progress.current), "{progress:?}");
        assert!(progress.message.unwrap().starts_with("files, "));
    }
    // What was told of the places while it ran is the beginning of what is told at the end.
    let told: Vec<_> = patches.iter().filter_map(|patch| patch.locations.as_ref()).collect();
    assert!(told.iter().all(|told| report.locations.starts_with(told)), "{told:?}");
}

#[tokio::test]
async fn a_file_that_is_being_dictated_is_followed_line_by_line() {
    let tree = tree(&[]);
    let (registry, cancel) = (Registry::builtin().unwrap(), CancellationToken::new());
    let path = tree.path("new.rs");
    let session = SessionHandle::new(Session::new(tree.workspace.cwd()), SystemTime::now);
    let workspace = Arc::new(tree.workspace);
    let context = Context::new(workspace);
    let (id, mut arriving) = ("t/c".into(), Arriving::default());
    let open =
        registry.announce(&session, &id, &"t".into(), "write_file", &context, &cancel).unwrap();
    for (fragment, line) in [
        (r#"{"path": "new.rs", "#, None),
        (r#""content": "fn a() {\n"#, Some(2)),
        (r"    b();\n}\n", Some(4)),
    ] {
        arriving.push(fragment);
        registry.arriving(open.handle(), "write_file", &arriving, &context);
        let shown = session.tool_call(&id).unwrap().locations;
        let shown: Vec<_> = shown.iter().map(|at| (at.path(), at.line().map(u32::from))).collect();
        assert_eq!(shown, [(path.as_path(), line)], "{fragment}");
    }
}

#[tokio::test]
async fn arguments_of_a_search_reach_it() {
    let tree = tree(&[("a.rs", "x.y\nX.Y x.y\nxzy\n"), ("b.md", "x.y"), ("c", "one\ntwo")]);
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
        let life = live(&tree, "grep", args.clone()).await;
        assert!(life.ended.text.starts_with(expected), "{args}: {}", life.ended.text);
    }
    let life = live(&tree, "grep", json!({ "pattern": "x", "max_results": 1 })).await;
    assert_eq!(life.report.raw_output.unwrap()["nextOffset"], 1);
    let life = live(&tree, "find_path", json!({ "pattern": "ars", "fuzzy": true })).await;
    assert_eq!(life.ended.text, "a.rs\n");
    let life = live(&tree, "find_path", json!({ "pattern": "*", "offset": 1, "max_results": 1 }));
    assert!(life.await.ended.text.starts_with("b.md\n[1 more; "));
    let life = live(&tree, "list_directory", json!({ "path": ".", "offset": 2 })).await;
    assert_eq!(life.ended.text, "c (7 bytes)\n");
}

#[tokio::test]
async fn a_file_is_shown_as_what_it_is() {
    let tree = tree(&[("src/lines", "1\n2\n3\n")]);
    tree.write("image", b"GIF89a\x01\0\x01\0\0\0\0;");
    let life = live(&tree, "read_file", json!({ "path": "image" })).await;
    assert_eq!(life.ended.text, "[image/gif, 14 bytes]\n");
    assert_eq!(life.report.content.len(), 1);
    let shown = serde_json::to_value(&life.report.content[0]).unwrap();
    assert_eq!(shown["value"]["type"], "image");
    let life = live(&tree, "read_file", json!({ "path": "src/lines", "offset": -1 })).await;
    assert_eq!(life.report.locations[0].line().map(u32::from), Some(3));
    let life = live(&tree, "read_file", json!({ "path": "lib/lines" })).await;
    assert!(life.ended.text.contains("The same name is at: src/lines"), "{}", life.ended.text);
}

/// A line to the client bears less than a model takes: see the limits.
#[tokio::test]
async fn an_image_is_for_the_model_also_where_it_is_too_large_for_the_client() {
    let tree = tree(&[]);
    let whole = 768 * 1024;
    for (bytes, shown) in [
        (14, &["image"][..]),
        (SHOWN_IMAGE_BYTES, &["image"]),
        (SHOWN_IMAGE_BYTES + 1, &["resource_link", "text"]),
        (IMAGE_BYTES as usize, &["resource_link", "text"]),
        (IMAGE_BYTES as usize + 1, &["text"]),
    ] {
        let mut image = b"GIF89a\x01\0\x01\0\0\0\0;".to_vec();
        image.resize(bytes, 0);
        tree.write("an image", image);
        let Life { ended, report, .. } =
            live(&tree, "read_file", json!({ "path": "an image" })).await;
        let content = serde_json::to_value(&report.content).unwrap();
        let items = content.as_array().unwrap().iter();
        let kinds: Vec<_> = items.map(|item| item["value"]["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, shown, "{bytes}");
        assert!(report.content.iter().map(Content::byte_len).sum::<usize>() <= whole);
        let seen: Vec<_> = ended.images.iter().map(|image| image.data.len()).collect();
        let is_taken = bytes as u64 <= IMAGE_BYTES;
        assert_eq!(seen, if is_taken { vec![bytes.div_ceil(3) * 4] } else { vec![] }, "{bytes}");
        assert_eq!(ended.status == Status::Completed, is_taken);
        if shown[0] == "resource_link" {
            let link = &content[0]["value"];
            assert!(link["uri"].as_str().unwrap().ends_with("/an%20image"), "{link}");
            assert_eq!((&link["size"], &link["mimeType"]), (&json!(bytes), &json!("image/gif")));
        }
    }
}

/// What only looks may wait for a disk that hangs: meanwhile other sessions go on.
#[test]
fn looking_holds_up_nobody() {
    fn is_elsewhere<T: Tool>(tool: T, args: Value, context: &Context) -> bool {
        let args = serde_json::from_value(args).unwrap();
        // What is not done elsewhere is done when it is asked for the first time.
        let open = opened(context);
        tool.preview(args, Invocation::new(open.handle(), context)).now_or_never().is_none()
    }
    let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let _guard = runtime.enter();
    let (done, wait) = mpsc::channel::<()>();
    // Whatever goes elsewhere waits for this.
    drop(spawn_blocking(move || wait.recv()));
    let tree = tree(&[("f", "")]);
    let context = Context::new(Arc::new(tree.workspace));
    assert!(is_elsewhere(ReadFile, json!({ "path": "f" }), &context));
    assert!(is_elsewhere(ListDirectory, json!({ "path": "." }), &context));
    assert!(is_elsewhere(FindPath, json!({ "pattern": "f" }), &context));
    assert!(is_elsewhere(Grep, json!({ "pattern": "f" }), &context));
    assert!(!is_elsewhere(Think, json!({ "thought": "f" }), &context));
    drop(done);
}

/// A file that is out of the way while it is deleted, when its process is killed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_killed_process_left_is_in_order_before_anything_is_looked_at() {
    let tree = tree(&[("f", "text\n")]);
    let (state, aside) = (tree.outer().join("state"), unique());
    let cwd = tree.workspace.cwd().to_owned();
    let begun = Journal::aside(&state.join("journal"), &cwd, OsStr::new("f"), &aside);
    begun.unwrap().leave();
    fs::rename(cwd.join("f"), cwd.join(&aside)).unwrap();
    let workspace = Workspace::new(cwd.clone(), Vec::new()).unwrap().keeping(&state);
    assert!(!cwd.join("f").exists(), "who begins a session does not wait for it");
    let life = lived(Arc::new(workspace), "read_file", json!({ "path": "f" })).await;
    assert_eq!(life.ended.text, "     1\ttext\n");
    assert_eq!(fs::read_dir(state.join("journal")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_is_kept_whole_and_linked_and_what_is_kept_is_not_kept_again() {
    let tree = kept(&[]);
    tree.write("f", "a needle in a line that is neither long nor short\n".repeat(1000));
    let workspace = Arc::new(tree.workspace);
    for (tool, args) in [
        ("grep", json!({ "pattern": "needle", "max_results": 2000 })),
        ("read_file", json!({ "path": "f" })),
    ] {
        let Life { ended, report, .. } = lived(workspace.clone(), tool, args).await;
        let (told, text) = ended.text.split_once('\n').unwrap();
        let path = told.strip_suffix(']').unwrap().rsplit_once(": ").unwrap().1;
        assert!(told.starts_with("[the whole result, "), "{told}");
        assert_eq!(fs::read_to_string(path).unwrap(), text, "{tool}");
        let Some(Content::Block(ContentBlock::ResourceLink(link))) = report.content.last() else {
            panic!("{:?}", report.content)
        };
        assert!(link.uri.ends_with(path), "{}", link.uri);
        let again = lived(workspace.clone(), "read_file", json!({ "path": path })).await;
        assert!(again.ended.text.len() > RESULT_BYTES, "{}", again.ended.text.len());
        assert!(!again.ended.text.contains("[the whole result"), "{:.100}", again.ended.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_folder_that_is_gone_is_said_to_be_gone() {
    for is_made_again in [false, true] {
        let tree = tree(&[("f", "text")]);
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
            let Life { ended, .. } = lived(workspace.clone(), tool, args).await;
            let is_said = ended.text.contains(&format!("the folder {} is gone", cwd.display()));
            assert!(ended.status == Status::Failed && is_said, "{tool}: {}", ended.text);
        }
    }
}

#[tokio::test]
async fn what_arrives_by_another_name_is_what_the_call_is_about() {
    let tree = tree(&[]);
    let workspace = Workspace::new(tree.workspace.cwd().to_owned(), Vec::new()).unwrap();
    let workspace = Arc::new(workspace);
    let context = Context::new(workspace);
    let session = SessionHandle::new(Session::new(context.workspace.cwd()), SystemTime::now);
    let registry = Registry::builtin().unwrap();
    let (id, cancel) = ("t/c".into(), CancellationToken::new());
    let open =
        registry.announce(&session, &id, &"t".into(), "write_file", &context, &cancel).unwrap();
    let mut args = Arriving::default();
    args.push(r#"{"filePath": "a.rs", "file_text": "one\ntwo"#);
    registry.arriving(open.handle(), "write_file", &args, &context);
    let report = session.tool_call(&id).unwrap();
    assert!(report.title.contains("a.rs"), "{}", report.title);
    assert_eq!(report.raw_input, Some(json!({ "filePath": "a.rs" })));
    let lines: Vec<_> = report.locations.iter().map(|at| at.line().map(u32::from)).collect();
    assert_eq!(lines, [Some(2)]);
}
