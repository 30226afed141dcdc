//! Tests for a client that has unsaved changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _, ready};
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use super::{
    TextComparison, UnsavedTextChange, UnsavedTexts, compare_with_disk, record_rewrites,
    restore_in_client, rewrite_in_client,
};
use crate::error::ErrorCode;
use crate::files::encoding::DecodedText;
use crate::files::undo::UndoPlan;
use crate::files::workspace::WorkspacePath;
use crate::files::workspace::testing::test_workspace;
use crate::tool::Context;
use crate::tool::backend::{ClientError, UnsavedTextBackend};

/// An editor that saves every new text that it receives, except the text of one file.
#[derive(Debug, Default)]
struct SavingEditor {
    texts: Mutex<BTreeMap<PathBuf, String>>,
    refuses: Option<&'static str>,
    /// The editor cancels this token when it has accepted a text.
    cancels: CancellationToken,
    /// The path of every request for a text.
    requested_paths: Mutex<Vec<PathBuf>>,
}

impl UnsavedTextBackend for SavingEditor {
    fn can_write(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, ClientError>> {
        self.requested_paths.lock().unwrap().push(path.to_owned());
        let text = self.texts.lock().unwrap().get(path).cloned();
        ready(text.ok_or_else(|| ClientError::new("no such buffer"))).boxed()
    }

    fn write<'a>(
        &'a self,
        path: &'a Path,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ClientError>> {
        if self.refuses.is_some_and(|name| path.ends_with(name)) {
            return ready(Err(ClientError::new("it is locked"))).boxed();
        }
        std::fs::write(path, text).unwrap();
        self.texts.lock().unwrap().insert(path.to_owned(), text.to_owned());
        self.cancels.cancel();
        ready(Ok(())).boxed()
    }
}

/// A session with files on disk. For each file, the editor has the same text with `unsaved` before
/// it.
struct EditorSession {
    _outer: tempfile::TempDir,
    editor: Arc<SavingEditor>,
    context: Context,
}

fn editor_session(names: &[&str], refuses: Option<&'static str>) -> EditorSession {
    let tree = test_workspace(&names.iter().map(|name| (*name, "text")).collect::<Vec<_>>());
    let texts = names.iter().map(|name| (tree.path(name), "unsaved text".to_owned())).collect();
    let editor =
        Arc::new(SavingEditor { texts: Mutex::new(texts), refuses, ..SavingEditor::default() });
    let workspace = Arc::new(tree.workspace.with_state_folder(&tree.outer.path().join("state")));
    let context = Context::new(workspace).with_unsaved_text_backend(Some(editor.clone()));
    EditorSession { _outer: tree.outer, editor, context }
}

impl EditorSession {
    fn at(&self, name: &str) -> (WorkspacePath, WorkspacePath) {
        let workspace = &self.context.workspace;
        let at = workspace.resolve_and_follow_links(name).unwrap();
        let real = workspace.canonicalize(&at).unwrap();
        (at, real)
    }

    fn texts(&self) -> Vec<String> {
        self.editor.texts.lock().unwrap().values().cloned().collect()
    }
}

fn new<'a>(
    (at, real): &'a (WorkspacePath, WorkspacePath),
    found: &'a str,
) -> UnsavedTextChange<'a> {
    UnsavedTextChange {
        at,
        real_path: real.path(),
        expected_text: found,
        lost_line_end: "",
        new_text: "new text",
    }
}

#[tokio::test]
async fn each_readable_file_is_queried_once() {
    let stage = editor_session(&["a", "b"], None);
    std::fs::write(stage.context.workspace.cwd().join("program"), b"\x7fELF\0\0").unwrap();
    let given = ["a", "b", "./a", "missing", "b", "", "program", "/proc/self/environ"];
    let given = given.map(str::to_owned);
    stage.editor.texts.lock().unwrap().insert("/proc/self/environ".into(), "held".to_owned());
    let held = UnsavedTexts::query_for_change(&stage.context, &given).await.unwrap();
    let [a, b] = ["a", "b"].map(|name| stage.at(name).1);
    assert_eq!(held.unsaved_text(a.path()), Some("unsaved text"));
    assert_eq!(held.unsaved_text(b.path()), Some("unsaved text"));
    assert_eq!((held.texts.len(), held.notes_for_change().len()), (2, 2));
    let cwd = stage.context.workspace.cwd();
    let expected = ["a", "b", "missing"].map(|name| cwd.join(name));
    // The requests are sent concurrently, each as soon as its file was read from disk.
    let mut asked = stage.editor.requested_paths.lock().unwrap().clone();
    asked.sort_unstable();
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn texts_are_changed_all_or_none() {
    for (refuses, expected) in [
        (None, ["new text", "new text"]),
        (Some("a"), ["unsaved text", "unsaved text"]),
        (Some("b"), ["unsaved text", "unsaved text"]),
    ] {
        let stage = editor_session(&["a", "b"], refuses);
        let [a, b] = ["a", "b"].map(|name| stage.at(name));
        let texts = [new(&a, "unsaved text"), new(&b, "unsaved text")];
        let done = rewrite_in_client(&stage.context, &texts, &CancellationToken::new()).await;
        assert_eq!(stage.texts(), expected, "{refuses:?}");
        let code = done.err().and_then(|error| error.code());
        assert_eq!(code, refuses.map(|_| ErrorCode::Io), "{refuses:?}");
    }
}

#[tokio::test]
async fn a_cancel_between_two_texts_puts_the_first_back() {
    let stage = editor_session(&["a", "b"], None);
    let [a, b] = ["a", "b"].map(|name| stage.at(name));
    let texts = [new(&a, "unsaved text"), new(&b, "unsaved text")];
    let error = rewrite_in_client(&stage.context, &texts, &stage.editor.cancels).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Cancelled), "{error}");
    assert_eq!(stage.texts(), ["unsaved text", "unsaved text"]);
}

#[tokio::test]
async fn a_text_that_changed_since_the_preview_is_not_replaced() {
    let stage = editor_session(&["a", "b"], None);
    let [a, b] = ["a", "b"].map(|name| stage.at(name));
    let texts = [new(&a, "unsaved text"), new(&b, "another text")];
    let error =
        rewrite_in_client(&stage.context, &texts, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview));
    assert_eq!(stage.texts(), ["unsaved text", "unsaved text"]);
}

#[tokio::test]
async fn sent_texts_can_be_restored() {
    let stage = editor_session(&["a"], None);
    let a = stage.at("a");
    let texts = [new(&a, "unsaved text")];
    rewrite_in_client(&stage.context, &texts, &CancellationToken::new()).await.unwrap();
    assert_eq!(restore_in_client(&stage.context, &texts).await, "");
    assert!(
        UndoPlan::for_last_session_change(&stage.context.workspace).is_err(),
        "there is nothing to undo"
    );
    assert_eq!(stage.texts(), ["unsaved text"]);
    let lost = texts.map(|text| UnsavedTextChange { lost_line_end: "\n", ..text });
    assert_eq!(restore_in_client(&stage.context, &lost).await, "");
    assert_eq!(stage.texts(), ["unsaved text\n"]);
}

#[tokio::test]
async fn a_change_that_the_editor_saved_can_be_undone() {
    let stage = editor_session(&["a"], None);
    let (a, path) = (stage.at("a"), stage.context.workspace.cwd().join("a"));
    let texts = [new(&a, "unsaved text")];
    rewrite_in_client(&stage.context, &texts, &CancellationToken::new()).await.unwrap();
    record_rewrites(&stage.context, &texts).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new text");
    UndoPlan::for_last_session_change(&stage.context.workspace)
        .unwrap()
        .run(&stage.context.workspace)
        .unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "unsaved text");
}

#[test]
fn a_text_that_differs_by_marks_and_line_ends_only_is_the_same() {
    for (text, disk, expected) in [
        ("a\nb\n", Some(&b"a\nb\n"[..]), true),
        ("a\nb\n", Some(b"a\r\nb\r\n"), true),
        ("a\nb\n", Some(b"\xef\xbb\xbfa\rb\n"), true),
        ("a\nb", Some(b"a\nb\n"), true),
        ("a\nb", Some(b"a\nb\n\n"), false),
        ("a\n\nb", Some(b"a\nb"), false),
        ("", Some(b""), true),
        ("", Some(b"a"), false),
        ("", None, true),
        ("a", None, false),
        // The editor can decode UTF-16, but cannot always decode Latin-1.
        ("\u{e9}", Some(b"\xff\xfe\xe9\x00"), true),
        ("e", Some(b"\xff\xfe\xe9\x00"), false),
        ("caf\u{fffd} olé", Some(b"caf\xe9 ol\xe9"), true),
    ] {
        let disk = disk.map(|bytes| DecodedText::decode("", bytes.to_vec()).unwrap());
        let is_same = compare_with_disk(text, disk.as_ref()) == TextComparison::Same;
        assert_eq!(is_same, expected, "{text:?} {disk:?}");
    }
}

#[test]
fn client_errors_are_escaped_and_bounded() {
    let error = ClientError::new(&format!("no\u{202e} such\nfile.{}", " ".repeat(9)));
    assert_eq!(error.to_string(), "no\\u{202e} such\\nfile");
    assert!(ClientError::new(&"x".repeat(1 << 20)).to_string().len() <= 1024);
}

#[tokio::test]
async fn a_text_that_the_editor_could_not_read_whole_is_never_written_back() {
    let latin = b"na\xefve caf\xe9, tr\xe8s bon\n";
    for (text, is_changed) in [
        ("nave caf, trs bon\n", false),
        ("na\u{fffd}ve caf\u{fffd}, tr\u{fffd}s bon", false),
        ("naïve café, très bon", false),
        ("na\u{fffd}ve caf\u{fffd}, tr\u{fffd}s bon indeed\n", true),
    ] {
        let stage = editor_session(&["a"], None);
        let path = stage.context.workspace.cwd().join("a");
        std::fs::write(&path, latin).unwrap();
        stage.editor.texts.lock().unwrap().insert(path, text.to_owned());
        let (at, real) = stage.at("a");
        let read = UnsavedTexts::query_for_read(&stage.context, &at).await;
        assert_eq!(
            (read.text_if_single_file(), read.notes_for_read().is_empty()),
            (None, !is_changed)
        );
        let changed = UnsavedTexts::query_for_change(&stage.context, &["a".to_owned()]).await;
        match changed {
            Ok(held) => assert!(!is_changed && held.is_same_on_disk(real.path()), "{text}"),
            Err(error) => {
                assert!(is_changed && error.code() == Some(ErrorCode::UnsavedChanges), "{text}");
                assert!(error.to_string().contains("could not decode"), "{error}");
            }
        }
    }
}
