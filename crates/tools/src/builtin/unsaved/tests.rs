//! A client that holds texts, and what it is told of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _, ready};
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use super::{Compared, Held, Rewrite, compare, put_back, remember, rewrite};
use crate::error::Code;
use crate::files::encoding::Text;
use crate::files::undo::Undoing;
use crate::files::workspace::Resolved;
use crate::files::workspace::testing::tree;
use crate::tool::Context;
use crate::tool::backend::{ClientError, TextBackend};

/// An editor: its texts, which it saves when it is told new ones, but for one file.
#[derive(Debug, Default)]
struct Editor {
    texts: Mutex<BTreeMap<PathBuf, String>>,
    refuses: Option<&'static str>,
    /// Cancelled when it has taken a text.
    cancels: CancellationToken,
    /// Every file it was asked about.
    asked: Mutex<Vec<PathBuf>>,
}

impl TextBackend for Editor {
    fn writes(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, ClientError>> {
        self.asked.lock().unwrap().push(path.to_owned());
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

/// A session with files on the disk and, in the editor, the same with `unsaved` before each.
struct Stage {
    _outer: tempfile::TempDir,
    editor: Arc<Editor>,
    context: Context,
}

fn stage(names: &[&str], refuses: Option<&'static str>) -> Stage {
    let tree = tree(&names.iter().map(|name| (*name, "text")).collect::<Vec<_>>());
    let texts = names.iter().map(|name| (tree.path(name), "unsaved text".to_owned())).collect();
    let editor = Arc::new(Editor { texts: Mutex::new(texts), refuses, ..Editor::default() });
    let workspace = Arc::new(tree.workspace.keeping(&tree.outer.path().join("state")));
    let context =
        Context { workspace, env: Arc::default(), text: Some(editor.clone()), terminal: None };
    Stage { _outer: tree.outer, editor, context }
}

impl Stage {
    fn at(&self, name: &str) -> (Resolved, Resolved) {
        let workspace = &self.context.workspace;
        let at = workspace.look(name).unwrap();
        let real = workspace.settle(&at).unwrap();
        (at, real)
    }

    fn texts(&self) -> Vec<String> {
        self.editor.texts.lock().unwrap().values().cloned().collect()
    }
}

fn new<'a>((at, real): &'a (Resolved, Resolved), found: &'a str) -> Rewrite<'a> {
    Rewrite { at, real: real.path(), found, end: "", text: "new text" }
}

#[tokio::test]
async fn each_file_is_asked_about_once_and_only_where_the_disk_would_be() {
    let stage = stage(&["a", "b"], None);
    std::fs::write(stage.context.workspace.cwd().join("program"), b"\x7fELF\0\0").unwrap();
    let given = ["a", "b", "./a", "missing", "b", "", "program", "/proc/self/environ"];
    let given = given.map(str::to_owned);
    stage.editor.texts.lock().unwrap().insert("/proc/self/environ".into(), "held".to_owned());
    let held = Held::to_change(&stage.context, &given).await.unwrap();
    let [a, b] = ["a", "b"].map(|name| stage.at(name).1);
    assert_eq!(held.text(a.path()), Some("unsaved text"));
    assert_eq!(held.text(b.path()), Some("unsaved text"));
    assert_eq!((held.texts.len(), held.notes_of_change().len()), (2, 2));
    let cwd = stage.context.workspace.cwd();
    let expected = ["a", "b", "missing"].map(|name| cwd.join(name));
    // They are asked about at once, each as soon as the disk has told its own text.
    let mut asked = stage.editor.asked.lock().unwrap().clone();
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
        let stage = stage(&["a", "b"], refuses);
        let [a, b] = ["a", "b"].map(|name| stage.at(name));
        let texts = [new(&a, "unsaved text"), new(&b, "unsaved text")];
        let done = rewrite(&stage.context, &texts, &CancellationToken::new()).await;
        assert_eq!(stage.texts(), expected, "{refuses:?}");
        let code = done.err().and_then(|error| error.code());
        assert_eq!(code, refuses.map(|_| Code::Io), "{refuses:?}");
    }
}

#[tokio::test]
async fn a_cancel_between_two_texts_puts_the_first_back() {
    let stage = stage(&["a", "b"], None);
    let [a, b] = ["a", "b"].map(|name| stage.at(name));
    let texts = [new(&a, "unsaved text"), new(&b, "unsaved text")];
    let error = rewrite(&stage.context, &texts, &stage.editor.cancels).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Cancelled), "{error}");
    assert_eq!(stage.texts(), ["unsaved text", "unsaved text"]);
}

#[tokio::test]
async fn a_text_that_changed_since_it_was_shown_is_left_alone() {
    let stage = stage(&["a", "b"], None);
    let [a, b] = ["a", "b"].map(|name| stage.at(name));
    let texts = [new(&a, "unsaved text"), new(&b, "another text")];
    let error = rewrite(&stage.context, &texts, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::ChangedSincePreview));
    assert_eq!(stage.texts(), ["unsaved text", "unsaved text"]);
}

#[tokio::test]
async fn what_was_told_can_be_put_back() {
    let stage = stage(&["a"], None);
    let a = stage.at("a");
    let texts = [new(&a, "unsaved text")];
    rewrite(&stage.context, &texts, &CancellationToken::new()).await.unwrap();
    assert_eq!(put_back(&stage.context, &texts).await, "");
    assert!(Undoing::last(&stage.context.workspace).is_err(), "there is nothing to undo");
    assert_eq!(stage.texts(), ["unsaved text"]);
    let lost = texts.map(|text| Rewrite { end: "\n", ..text });
    assert_eq!(put_back(&stage.context, &lost).await, "");
    assert_eq!(stage.texts(), ["unsaved text\n"]);
}

#[tokio::test]
async fn a_change_that_the_editor_saved_can_be_undone() {
    let stage = stage(&["a"], None);
    let (a, path) = (stage.at("a"), stage.context.workspace.cwd().join("a"));
    let texts = [new(&a, "unsaved text")];
    rewrite(&stage.context, &texts, &CancellationToken::new()).await.unwrap();
    remember(&stage.context, &texts).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new text");
    Undoing::last(&stage.context.workspace).unwrap().run(&stage.context.workspace).unwrap();
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
        // UTF-16, which an editor decodes; Latin-1, which one may not.
        ("\u{e9}", Some(b"\xff\xfe\xe9\x00"), true),
        ("e", Some(b"\xff\xfe\xe9\x00"), false),
        ("caf\u{fffd} olé", Some(b"caf\xe9 ol\xe9"), true),
    ] {
        let disk = disk.map(|bytes| Text::decode("", bytes.to_vec()).unwrap());
        let is_same = compare(text, disk.as_ref()) == Compared::Same;
        assert_eq!(is_same, expected, "{text:?} {disk:?}");
    }
}

#[test]
fn what_a_client_says_is_made_visible_and_bounded() {
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
        let stage = stage(&["a"], None);
        let path = stage.context.workspace.cwd().join("a");
        std::fs::write(&path, latin).unwrap();
        stage.editor.texts.lock().unwrap().insert(path, text.to_owned());
        let (at, real) = stage.at("a");
        let read = Held::to_read(&stage.context, &at).await;
        assert_eq!((read.only_text(), read.notes_of_read().is_empty()), (None, !is_changed));
        let changed = Held::to_change(&stage.context, &["a".to_owned()]).await;
        match changed {
            Ok(held) => assert!(!is_changed && held.is_as_on_disk(real.path()), "{text}"),
            Err(error) => {
                assert!(is_changed && error.code() == Some(Code::UnsavedChanges), "{text}");
                assert!(error.to_string().contains("could not decode"), "{error}");
            }
        }
    }
}
