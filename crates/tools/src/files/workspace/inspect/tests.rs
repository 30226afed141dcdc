//! Tests that a call uses exactly the file that was inspected. Other tests check that paths outside
//! of the project folders are pinned.

use std::fs;
use std::path::Path;

use acp_lifecycle::{
    AllowInProjectPolicy, AskExceptReadsPolicy, Effect, Effects, ReadOnlyPolicy, Rules, Verdict,
};
use pretty_assertions::assert_eq;

use crate::error::{ErrorCode, ToolError};
use crate::files::remove::inspect_entry;
use crate::files::undo::UndoPlan;
use crate::files::workspace::open::EntryPath;
use crate::files::workspace::testing::{TestWorkspace, test_workspace};
use crate::files::workspace::{WorkspacePath, guard};
use crate::files::write::{atomic_write_if_unchanged, read_whole};

fn code<T>(result: Result<T, ToolError>) -> Option<ErrorCode> {
    result.err().and_then(|error| error.code())
}

/// Creates a tree in which `way` is a link to `dir`. Another directory, `old`, has the same content
/// as `dir`.
fn tree_with_link() -> TestWorkspace {
    let tree =
        test_workspace(&[("dir/file", "text"), ("old/file", "text"), ("old/deep/file", "text")]);
    tree.link("way", "dir");
    tree
}

/// A change that another process makes after a path was inspected and before it is used.
type PathSwap = fn(&TestWorkspace);

fn remove_link(tree: &TestWorkspace, to: impl AsRef<Path>) {
    fs::remove_file(tree.path("way")).unwrap();
    tree.link("way", to);
}

fn by_a_link(tree: &TestWorkspace) {
    fs::rename(tree.path("dir"), tree.path("aside")).unwrap();
    tree.link("dir", "old");
}

fn by_another_directory(tree: &TestWorkspace) {
    fs::rename(tree.path("dir"), tree.path("aside")).unwrap();
    fs::rename(tree.path("old"), tree.path("dir")).unwrap();
}

fn moved_away(tree: &TestWorkspace) {
    fs::rename(tree.path("dir"), tree.outer_folder().join("taken")).unwrap();
    tree.link("dir", tree.outer_folder().join("taken"));
}

#[test]
fn nothing_is_written_if_the_path_changed_since_its_inspection() {
    let swaps: [(&str, PathSwap); 8] = [
        ("way/file", |tree| remove_link(tree, "old")),
        ("way/file", |tree| remove_link(tree, tree.outer_folder())),
        ("way/file", by_a_link),
        ("dir/file", by_a_link),
        ("dir/file", by_another_directory),
        ("dir/file", moved_away),
        ("dir/new", by_another_directory),
        ("new/deep/file", |tree| tree.link("new", "old")),
    ];
    for (number, (path, swap)) in swaps.into_iter().enumerate() {
        let tree = tree_with_link();
        let at = tree.workspace.resolve_and_follow_links(path).unwrap();
        let seen = read_whole(&tree.workspace, &at, 99).unwrap();
        swap(&tree);
        let written = atomic_write_if_unchanged(&tree.workspace, &at, b"new", &seen);
        assert_eq!(code(written), Some(ErrorCode::ChangedSincePreview), "{number}: {path}");
        for file in ["aside/file", "old/file", "old/deep/file", "dir/deep/file"] {
            let text = fs::read_to_string(tree.path(file)).unwrap_or("text".to_owned());
            assert_eq!(text, "text", "{number}: {file}");
        }
        assert!(!tree.outer_folder().join("taken/new").exists());
    }
}

#[test]
fn a_file_replaced_since_its_inspection_is_read_but_not_written() {
    let tree = tree_with_link();
    let at = tree.workspace.resolve_and_follow_links("way/file").unwrap();
    let seen = read_whole(&tree.workspace, &at, 99).unwrap();
    // Another file with the same text is rejected, because it may have other hard links.
    tree.write("other", "text");
    fs::rename(tree.path("other"), tree.path("dir/file")).unwrap();
    let written = atomic_write_if_unchanged(&tree.workspace, &at, b"new", &seen);
    assert_eq!(code(written), Some(ErrorCode::ChangedSincePreview));
    assert_eq!(tree.read("dir/file"), "text");
    assert!(tree.workspace.open_read(&at).is_ok());

    let at = tree.workspace.resolve_and_follow_links("way/file").unwrap();
    atomic_write_if_unchanged(&tree.workspace, &at, b"new", &seen).unwrap();
    assert_eq!(tree.read("dir/file"), "new");
}

#[test]
fn an_inspected_path_is_only_read_at_its_target() {
    for swap in
        [by_a_link, moved_away, |tree: &TestWorkspace| remove_link(tree, tree.outer_folder())]
    {
        let tree = tree_with_link();
        let at = tree.workspace.resolve_and_follow_links("way/file").unwrap();
        swap(&tree);
        assert_eq!(code(tree.workspace.open_read(&at)), Some(ErrorCode::ChangedSincePreview));
        assert_eq!(code(tree.workspace.metadata(&at)), Some(ErrorCode::ChangedSincePreview));
    }
}

#[test]
fn an_entry_moves_only_to_the_inspected_directory() {
    for swap in [by_a_link, by_another_directory, |tree: &TestWorkspace| remove_link(tree, "old")] {
        let tree = tree_with_link();
        tree.write("a", "a");
        let found = inspect_entry(&tree.workspace, &tree.resolve("a")).unwrap();
        let to =
            EntryPath::resolve_without_following(&tree.workspace, &tree.resolve("way/b")).unwrap();
        let moved = inspect_entry(&tree.workspace, &tree.resolve("way/file")).unwrap();
        swap(&tree);
        let moved_out =
            EntryPath::resolve_without_following(&tree.workspace, &tree.resolve("c")).unwrap();
        assert_eq!(
            code(found.move_creating_dirs(&tree.workspace, &to)),
            Some(ErrorCode::ChangedSincePreview)
        );
        let renamed = moved.move_creating_dirs(&tree.workspace, &moved_out);
        assert_eq!(code(renamed), Some(ErrorCode::ChangedSincePreview));
        assert_eq!(tree.read("a"), "a");
        assert!(!tree.path("c").exists());
    }
}

fn outside(tree: &TestWorkspace, given: &str) -> WorkspacePath {
    let at = tree.workspace.resolve_and_follow_links(given).unwrap();
    assert!(tree.workspace.is_outside(&at), "{given}");
    at
}

#[test]
fn an_outside_path_is_shown_as_its_real_path_and_pinned() {
    let tree = test_workspace(&[]);
    tree.link("link", "../secret");
    fs::create_dir(tree.outer_folder().join("there")).unwrap();
    fs::write(tree.outer_folder().join("there/file"), "granted").unwrap();
    std::os::unix::fs::symlink("there", tree.outer_folder().join("alias")).unwrap();
    let real = tree.outer_folder().canonicalize().unwrap();
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
    assert_eq!(tree.workspace.resolve_and_follow_links("..").unwrap().path(), real);

    // The link and the name of the directory have changed. The pinned directory is still the one
    // for which permission was given.
    let at = outside(&tree, "../alias/file");
    fs::rename(tree.outer_folder().join("there"), tree.outer_folder().join("moved")).unwrap();
    fs::create_dir(tree.outer_folder().join("there")).unwrap();
    fs::write(tree.outer_folder().join("there/file"), "another").unwrap();
    let file = tree.workspace.open_read(&at).unwrap();
    assert_eq!(std::io::read_to_string(file).unwrap(), "granted");
    // A different file in the pinned directory is rejected.
    fs::write(tree.outer_folder().join("moved/other"), "another").unwrap();
    fs::rename(tree.outer_folder().join("moved/other"), tree.outer_folder().join("moved/file"))
        .unwrap();
    assert_eq!(code(tree.workspace.open_read(&at)), Some(ErrorCode::ChangedSincePreview));
    fs::remove_file(tree.outer_folder().join("moved/file")).unwrap();
    let link = tree.outer_folder().join("moved/file");
    std::os::unix::fs::symlink(tree.outer_folder().join("secret"), link).unwrap();
    assert_eq!(code(tree.workspace.open_read(&at)), Some(ErrorCode::ChangedSincePreview));
}

#[test]
fn special_files_and_files_of_processes_are_rejected() {
    let tree = test_workspace(&[]);
    tree.fifo("fifo");
    fs::rename(tree.path("fifo"), tree.outer_folder().join("fifo")).unwrap();
    let secret = tree.outer_folder().join("secret");
    tree.link("root", "/proc/self/root");
    for (given, expected) in [
        ("../fifo", ErrorCode::NotARegularFile),
        ("/dev/null", ErrorCode::NotARegularFile),
        ("/dev/zero", ErrorCode::NotARegularFile),
        ("/proc/self/environ", ErrorCode::OutsideRoots),
        ("/proc/self/mem", ErrorCode::OutsideRoots),
        ("/proc/self", ErrorCode::OutsideRoots),
        ("/proc/sys/kernel/hostname", ErrorCode::OutsideRoots),
        ("/proc/self/root", ErrorCode::OutsideRoots),
        (&format!("/proc/self/root{}", secret.display()), ErrorCode::OutsideRoots),
        (&format!("root{}", secret.display()), ErrorCode::OutsideRoots),
        ("/proc/self/fd/0", ErrorCode::OutsideRoots),
        ("/dev/fd/0", ErrorCode::OutsideRoots),
        ("/dev/stdin", ErrorCode::OutsideRoots),
        ("/proc/self/cwd/new", ErrorCode::OutsideRoots),
    ] {
        let resolved = tree.workspace.resolve_and_follow_links(given);
        assert_eq!(code(resolved), Some(expected), "{given}");
    }
}

#[test]
fn outside_paths_require_permission_and_protected_ones_always() {
    let tree = test_workspace(&[("file", "")]);
    tree.link("link", tree.outer_folder().join("secret"));
    fs::create_dir(tree.outer_folder().join(".ssh")).unwrap();
    fs::write(tree.outer_folder().join(".ssh/key"), "").unwrap();
    for (given, is_asked, is_guarded) in [
        ("file", false, false),
        ("../secret", true, false),
        ("link", true, false),
        ("../.ssh/key", true, true),
        ("../.SSH/new", true, true),
    ] {
        let at = tree.workspace.resolve_and_follow_links(given).unwrap();
        let effects = guard::mark_outside_effects(
            &tree.workspace,
            guard::path_effects(&tree.workspace, &at, Effect::Read),
        );
        let expected = if is_asked { Verdict::Ask } else { Verdict::Allow };
        assert_eq!(
            Rules::default().judge_call(&effects, &AskExceptReadsPolicy),
            expected,
            "{given}"
        );
        assert_eq!(
            Rules::default().judge_call(&effects, &AllowInProjectPolicy),
            expected,
            "{given}"
        );
        let read_only = Rules::default().judge_call(&effects, &ReadOnlyPolicy);
        assert_eq!(read_only == Verdict::Deny, is_asked, "{given}");
        assert_eq!(effects.is_always_asked(), is_guarded, "{given}");
        assert_eq!(guard::is_guarded(&tree.workspace, &at), is_guarded, "{given}");
    }
}

#[test]
fn files_outside_are_written_where_they_were_shown() {
    let tree = test_workspace(&[]);
    for (given, file) in [("../secret", "secret"), ("../made/new", "made/new")] {
        let at = outside(&tree, given);
        let seen = read_whole(&tree.workspace, &at, 99).unwrap();
        atomic_write_if_unchanged(&tree.workspace, &at, b"new", &seen).unwrap();
        assert_eq!(fs::read_to_string(tree.outer_folder().join(file)).unwrap(), "new");
    }
    let at = outside(&tree, "../made/more/file");
    std::os::unix::fs::symlink(tree.outer_folder(), tree.outer_folder().join("made/more")).unwrap();
    let written = atomic_write_if_unchanged(
        &tree.workspace,
        &at,
        b"new",
        &crate::files::write::PreImage::Missing,
    );
    assert_eq!(code(written), Some(ErrorCode::ChangedSincePreview));
    assert!(!tree.outer_folder().join("file").exists());
}

#[test]
fn a_write_to_an_outside_file_can_be_undone() {
    let tree = test_workspace(&[]);
    let state = tree.outer_folder().join("state");
    let tree = TestWorkspace { workspace: tree.workspace.with_state_folder(&state), ..tree };
    let at = outside(&tree, "../secret");
    let seen = read_whole(&tree.workspace, &at, 99).unwrap();
    atomic_write_if_unchanged(&tree.workspace, &at, b"new", &seen).unwrap();
    let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    let effects: Effects =
        undoing.affected_paths().map(|(path, _)| Effect::Write(path.into())).collect();
    let effects = guard::mark_outside_effects(&tree.workspace, effects);
    assert_eq!(Rules::default().judge_call(&effects, &AllowInProjectPolicy), Verdict::Ask);
    undoing.run(&tree.workspace).unwrap();
    assert_eq!(fs::read_to_string(tree.outer_folder().join("secret")).unwrap(), "secret");
}
