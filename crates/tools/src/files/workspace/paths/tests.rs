//! What was looked at is what is used, or nothing is; what lies outside is pinned.

use std::fs;
use std::path::Path;

use acp_lifecycle::{AllowPolicy, AskPolicy, Effect, Effects, ReadOnlyPolicy, Rules, Verdict};
use pretty_assertions::assert_eq;

use crate::error::{Code, ToolError};
use crate::files::remove::find;
use crate::files::undo::Undoing;
use crate::files::workspace::open::Entry;
use crate::files::workspace::testing::{Tree, tree};
use crate::files::workspace::{Resolved, guard};
use crate::files::write::{atomic_write, read_whole};

fn code<T>(result: Result<T, ToolError>) -> Option<Code> {
    result.err().and_then(|error| error.code())
}

/// A tree in which `way` is a link to `dir`, and `old` beside it holds the same.
fn prepared() -> Tree {
    let tree = tree(&[("dir/file", "text"), ("old/file", "text"), ("old/deep/file", "text")]);
    tree.link("way", "dir");
    tree
}

/// Something that another process does between a look and its use.
type Swap = fn(&Tree);

fn remove_link(tree: &Tree, to: impl AsRef<Path>) {
    fs::remove_file(tree.path("way")).unwrap();
    tree.link("way", to);
}

fn by_a_link(tree: &Tree) {
    fs::rename(tree.path("dir"), tree.path("aside")).unwrap();
    tree.link("dir", "old");
}

fn by_another_directory(tree: &Tree) {
    fs::rename(tree.path("dir"), tree.path("aside")).unwrap();
    fs::rename(tree.path("old"), tree.path("dir")).unwrap();
}

fn moved_away(tree: &Tree) {
    fs::rename(tree.path("dir"), tree.outer().join("taken")).unwrap();
    tree.link("dir", tree.outer().join("taken"));
}

#[test]
fn where_the_way_leads_elsewhere_since_the_look_nothing_is_written() {
    let swaps: [(&str, Swap); 8] = [
        ("way/file", |tree| remove_link(tree, "old")),
        ("way/file", |tree| remove_link(tree, tree.outer())),
        ("way/file", by_a_link),
        ("dir/file", by_a_link),
        ("dir/file", by_another_directory),
        ("dir/file", moved_away),
        ("dir/new", by_another_directory),
        ("new/deep/file", |tree| tree.link("new", "old")),
    ];
    for (number, (path, swap)) in swaps.into_iter().enumerate() {
        let tree = prepared();
        let at = tree.workspace.look(path).unwrap();
        let seen = read_whole(&tree.workspace, &at, 99).unwrap();
        swap(&tree);
        let written = atomic_write(&tree.workspace, &at, b"new", &seen);
        assert_eq!(code(written), Some(Code::ChangedSincePreview), "{number}: {path}");
        for file in ["aside/file", "old/file", "old/deep/file", "dir/deep/file"] {
            let text = fs::read_to_string(tree.path(file)).unwrap_or("text".to_owned());
            assert_eq!(text, "text", "{number}: {file}");
        }
        assert!(!tree.outer().join("taken/new").exists());
    }
}

#[test]
fn a_file_that_is_another_one_since_the_look_is_not_written_but_read() {
    let tree = prepared();
    let at = tree.workspace.look("way/file").unwrap();
    let seen = read_whole(&tree.workspace, &at, 99).unwrap();
    // The same text in another file, which may have other names.
    tree.write("other", "text");
    fs::rename(tree.path("other"), tree.path("dir/file")).unwrap();
    let written = atomic_write(&tree.workspace, &at, b"new", &seen);
    assert_eq!(code(written), Some(Code::ChangedSincePreview));
    assert_eq!(tree.read("dir/file"), "text");
    assert!(tree.workspace.open_read(&at).is_ok());

    let at = tree.workspace.look("way/file").unwrap();
    atomic_write(&tree.workspace, &at, b"new", &seen).unwrap();
    assert_eq!(tree.read("dir/file"), "new");
}

#[test]
fn what_was_looked_at_is_read_nowhere_else() {
    for swap in [by_a_link, moved_away, |tree: &Tree| remove_link(tree, tree.outer())] {
        let tree = prepared();
        let at = tree.workspace.look("way/file").unwrap();
        swap(&tree);
        assert_eq!(code(tree.workspace.open_read(&at)), Some(Code::ChangedSincePreview));
        assert_eq!(code(tree.workspace.metadata(&at)), Some(Code::ChangedSincePreview));
    }
}

#[test]
fn what_is_moved_goes_where_it_was_shown_to_go() {
    for swap in [by_a_link, by_another_directory, |tree: &Tree| remove_link(tree, "old")] {
        let tree = prepared();
        tree.write("a", "a");
        let found = find(&tree.workspace, &tree.at("a")).unwrap();
        let to = Entry::find(&tree.workspace, &tree.at("way/b")).unwrap();
        let moved = find(&tree.workspace, &tree.at("way/file")).unwrap();
        swap(&tree);
        let moved_out = Entry::find(&tree.workspace, &tree.at("c")).unwrap();
        assert_eq!(code(found.rename(&tree.workspace, &to)), Some(Code::ChangedSincePreview));
        let renamed = moved.rename(&tree.workspace, &moved_out);
        assert_eq!(code(renamed), Some(Code::ChangedSincePreview));
        assert_eq!(tree.read("a"), "a");
        assert!(!tree.path("c").exists());
    }
}

fn outside(tree: &Tree, given: &str) -> Resolved {
    let at = tree.workspace.look(given).unwrap();
    assert!(tree.workspace.is_outside(&at), "{given}");
    at
}

#[test]
fn what_lies_outside_is_shown_by_its_real_path_and_pinned() {
    let tree = tree(&[]);
    tree.link("link", "../secret");
    fs::create_dir(tree.outer().join("there")).unwrap();
    fs::write(tree.outer().join("there/file"), "granted").unwrap();
    std::os::unix::fs::symlink("there", tree.outer().join("alias")).unwrap();
    let real = tree.outer().canonicalize().unwrap();
    for (given, path) in [
        ("../secret", "secret"),
        ("link", "secret"),
        ("../there/file", "there/file"),
        ("../alias/file", "there/file"),
        ("../alias/new", "there/new"),
        ("../none/new", "none/new"),
        ("../alias", "there"),
    ] {
        let at = outside(&tree, given);
        assert_eq!(at.path(), real.join(path), "{given}");
    }
    assert_eq!(tree.workspace.look("..").unwrap().path(), real);

    // Another link, another directory: it is still the granted one.
    let at = outside(&tree, "../alias/file");
    fs::rename(tree.outer().join("there"), tree.outer().join("moved")).unwrap();
    fs::create_dir(tree.outer().join("there")).unwrap();
    fs::write(tree.outer().join("there/file"), "another").unwrap();
    let file = tree.workspace.open_read(&at).unwrap();
    assert_eq!(std::io::read_to_string(file).unwrap(), "granted");
    // Another file is not.
    fs::write(tree.outer().join("moved/other"), "another").unwrap();
    fs::rename(tree.outer().join("moved/other"), tree.outer().join("moved/file")).unwrap();
    assert_eq!(code(tree.workspace.open_read(&at)), Some(Code::ChangedSincePreview));
    fs::remove_file(tree.outer().join("moved/file")).unwrap();
    let link = tree.outer().join("moved/file");
    std::os::unix::fs::symlink(tree.outer().join("secret"), link).unwrap();
    assert_eq!(code(tree.workspace.open_read(&at)), Some(Code::ChangedSincePreview));
}

#[test]
fn what_is_no_file_or_of_a_process_is_not_even_asked_about() {
    let tree = tree(&[]);
    tree.fifo("fifo");
    fs::rename(tree.path("fifo"), tree.outer().join("fifo")).unwrap();
    let secret = tree.outer().join("secret");
    tree.link("root", "/proc/self/root");
    for (given, expected) in [
        ("../fifo", Code::NotARegularFile),
        ("/dev/null", Code::NotARegularFile),
        ("/dev/zero", Code::NotARegularFile),
        ("/proc/self/environ", Code::OutsideRoots),
        ("/proc/self/mem", Code::OutsideRoots),
        ("/proc/self", Code::OutsideRoots),
        ("/proc/sys/kernel/hostname", Code::OutsideRoots),
        ("/proc/self/root", Code::OutsideRoots),
        (&format!("/proc/self/root{}", secret.display()), Code::OutsideRoots),
        (&format!("root{}", secret.display()), Code::OutsideRoots),
        ("/proc/self/fd/0", Code::OutsideRoots),
        ("/dev/fd/0", Code::OutsideRoots),
        ("/dev/stdin", Code::OutsideRoots),
        ("/proc/self/cwd/new", Code::OutsideRoots),
    ] {
        let looked = tree.workspace.look(given);
        assert_eq!(code(looked), Some(expected), "{given}");
    }
}

#[test]
fn the_outside_is_asked_about_and_what_is_protected_there_each_time() {
    let tree = tree(&[("file", "")]);
    tree.link("link", tree.outer().join("secret"));
    fs::create_dir(tree.outer().join(".ssh")).unwrap();
    fs::write(tree.outer().join(".ssh/key"), "").unwrap();
    for (given, is_asked, is_guarded) in [
        ("file", false, false),
        ("../secret", true, false),
        ("link", true, false),
        ("../.ssh/key", true, true),
        ("../.SSH/new", true, true),
    ] {
        let at = tree.workspace.look(given).unwrap();
        let effects =
            guard::judged(&tree.workspace, guard::looked_at(&tree.workspace, &at, Effect::Read));
        let expected = if is_asked { Verdict::Ask } else { Verdict::Allow };
        assert_eq!(Rules::default().judge(&effects, &AskPolicy), expected, "{given}");
        assert_eq!(Rules::default().judge(&effects, &AllowPolicy), expected, "{given}");
        let read_only = Rules::default().judge(&effects, &ReadOnlyPolicy);
        assert_eq!(read_only == Verdict::Deny, is_asked, "{given}");
        assert_eq!(effects.is_guarded(), is_guarded, "{given}");
        assert_eq!(guard::is_guarded(&tree.workspace, &at), is_guarded, "{given}");
    }
}

#[test]
fn files_outside_are_written_where_they_were_shown() {
    let tree = tree(&[]);
    for (given, file) in [("../secret", "secret"), ("../made/new", "made/new")] {
        let at = outside(&tree, given);
        let seen = read_whole(&tree.workspace, &at, 99).unwrap();
        atomic_write(&tree.workspace, &at, b"new", &seen).unwrap();
        assert_eq!(fs::read_to_string(tree.outer().join(file)).unwrap(), "new");
    }
    let at = outside(&tree, "../made/more/file");
    std::os::unix::fs::symlink(tree.outer(), tree.outer().join("made/more")).unwrap();
    let written =
        atomic_write(&tree.workspace, &at, b"new", &crate::files::write::PreImage::Missing);
    assert_eq!(code(written), Some(Code::ChangedSincePreview));
    assert!(!tree.outer().join("file").exists());
}

#[test]
fn what_was_written_outside_is_undone_there() {
    let tree = tree(&[]);
    let state = tree.outer().join("state");
    let tree = Tree { workspace: tree.workspace.keeping(&state), ..tree };
    let at = outside(&tree, "../secret");
    let seen = read_whole(&tree.workspace, &at, 99).unwrap();
    atomic_write(&tree.workspace, &at, b"new", &seen).unwrap();
    let undoing = Undoing::last(&tree.workspace).unwrap();
    let effects: Effects = undoing.places().map(|(path, _)| Effect::Write(path.into())).collect();
    let effects = guard::judged(&tree.workspace, effects);
    assert_eq!(Rules::default().judge(&effects, &AllowPolicy), Verdict::Ask);
    undoing.run(&tree.workspace).unwrap();
    assert_eq!(fs::read_to_string(tree.outer().join("secret")).unwrap(), "secret");
}
