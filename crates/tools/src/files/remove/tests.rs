//! Tests for deleting and moving entries, and for undoing these changes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::inspect_entry;
use crate::error::{ErrorCode, ToolError};
use crate::files::Durability;
use crate::files::state::undo_entry::{FileOperation, UndoEntry};
use crate::files::system::simulated_file_system::{self, SimulatedFileSystem};
use crate::files::undo::UndoPlan;
use crate::files::workspace::testing::{TestWorkspace, test_workspace, test_workspace_with_undo};
use crate::files::workspace::{Workspace, guard};
use crate::files::write::{
    FileWrite, PreImage, atomic_write_if_unchanged, read_whole, write_all_or_none,
};
use crate::limits::MAX_UNDO_ENTRIES;
use crate::tool::ToolOutput;

fn delete(tree: &TestWorkspace, path: &str) -> Result<(), ToolError> {
    inspect_entry(&tree.workspace, &tree.resolve(path))?.delete_and_record_undo(&tree.workspace)
}

fn rename(tree: &TestWorkspace, from: &str, to: &str) -> Result<(), ToolError> {
    inspect_entry(&tree.workspace, &tree.resolve(from))?.move_to(&tree.workspace, &tree.resolve(to))
}

fn write(tree: &TestWorkspace, path: &str, text: &str) -> Result<(), ToolError> {
    let seen = read_whole(&tree.workspace, &tree.resolve(path), 1 << 20)?;
    atomic_write_if_unchanged(&tree.workspace, &tree.resolve(path), text.as_bytes(), &seen)
}

fn undo(tree: &TestWorkspace) -> Result<(), ToolError> {
    UndoPlan::for_last_session_change(&tree.workspace)?.run(&tree.workspace).map(drop)
}

/// Returns a workspace whose state folder cannot be used, with two files that a call has created.
fn two_new_files_without_state() -> TestWorkspace {
    let tree = test_workspace(&[]);
    let blocked = tree.outer_folder().join("blocked");
    fs::write(&blocked, "").unwrap();
    let workspace = tree.workspace.with_state_folder(&blocked.join("state"));
    let tree = TestWorkspace { workspace, ..tree };
    let at = ["one", "two"].map(|name| tree.resolve(name));
    let writes = at.each_ref().map(|at| FileWrite::new(at, None, b"new"));
    write_all_or_none(&tree.workspace, &writes).unwrap();
    tree
}

#[test]
fn an_undo_without_a_state_folder_removes_all_new_files() {
    let tree = two_new_files_without_state();
    undo(&tree).unwrap();
    assert_eq!(files(tree.workspace.cwd()).len(), 0);
}

#[test]
fn an_undo_without_a_state_folder_that_fails_removes_no_file() {
    let tree = two_new_files_without_state();
    let plan = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    // The files are removed in the reverse order.
    tree.write("one", "theirs");
    let before = files(tree.workspace.cwd());
    let error = plan.run(&tree.workspace).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview), "{error}");
    assert_eq!(files(tree.workspace.cwd()), before);
}

/// Returns the bytes and the mode of each file in a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
    let (mut folders, mut files) = (vec![folder.to_owned()], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap_or_default();
                files.insert(path, (bytes, metadata.permissions().mode()));
            }
        }
    }
    files
}

#[test]
fn undo_restores_deleted_and_moved_entries() {
    let tree = test_workspace_with_undo(&[("a", "text"), ("dir/b", "b"), ("dir/deep/c", "c")]);
    tree.link("link", "a");
    fs::set_permissions(tree.path("a"), fs::Permissions::from_mode(0o751)).unwrap();
    let before = files(tree.workspace.cwd());
    delete(&tree, "link").unwrap();
    assert_eq!(tree.names("."), ["a", "dir"]);
    delete(&tree, "a").unwrap();
    rename(&tree, "dir", "new/place").unwrap();
    assert_eq!(tree.read("new/place/deep/c"), "c");
    delete(&tree, "new/place").unwrap();
    write(&tree, "a", "another").unwrap();
    for _ in 0..5 {
        undo(&tree).unwrap();
    }
    assert_eq!(files(tree.workspace.cwd()), before);
    assert_eq!(undo(&tree).unwrap_err().code(), Some(ErrorCode::NotFound));
}

/// Returns the files that the next undo skips, each with the text of its backup.
fn skipped_by_undo(tree: &TestWorkspace) -> Vec<(PathBuf, Option<String>)> {
    let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    let kept = |kept: &PathBuf| fs::read_to_string(kept).unwrap();
    undoing.skipped().map(|it| (it.path.clone(), it.backup.as_ref().map(kept))).collect()
}

#[test]
fn undo_skips_only_files_that_another_program_changed() {
    let tree = test_workspace_with_undo(&[("first", "old"), ("a", "old a"), ("b", "old b")]);
    write(&tree, "first", "new").unwrap();
    let [a, b, made] = ["a", "b", "dir/made"].map(|path| tree.resolve(path));
    let changes = [
        FileWrite::new(&a, Some(b"old a"), b"new a"),
        FileWrite::new(&b, Some(b"old b"), b"new b"),
        FileWrite::new(&made, None, b"made"),
    ];
    write_all_or_none(&tree.workspace, &changes).unwrap();
    tree.write("a", "theirs");
    tree.write("dir/made", "theirs");
    let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    let kept = undoing.skipped().find_map(|staying| staying.backup.clone()).unwrap();
    let theirs = [(tree.path("dir/made"), None), (tree.path("a"), Some("old a".to_owned()))];
    assert_eq!(skipped_by_undo(&tree), theirs);
    assert_eq!(undoing.affected_paths().collect::<Vec<_>>(), [(tree.path("b").as_path(), false)]);
    undoing.run(&tree.workspace).unwrap();
    assert_eq!(["a", "b", "dir/made"].map(|path| tree.read(path)), ["theirs", "old b", "theirs"]);
    // Of all backups, only the one that was not restored still exists.
    assert_eq!(fs::read_to_string(&kept).unwrap(), "old a");
    undo(&tree).unwrap();
    assert_eq!(tree.read("first"), "old");
    let names: Vec<_> = fs::read_dir(kept.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 2, "what is kept, and the list: {names:?}");
    assert_eq!(undo(&tree).unwrap_err().code(), Some(ErrorCode::NotFound));
}

#[test]
fn an_entry_that_cannot_be_undone_blocks_no_earlier_entry() {
    type Act = fn(&TestWorkspace);
    let cases: [(Act, Act, &str, Option<&str>); 7] = [
        (|tree| write(tree, "a", "new").unwrap(), |tree| tree.write("a", "b"), "a", Some("old")),
        (
            |tree| write(tree, "a", "new").unwrap(),
            |tree| fs::remove_file(tree.path("a")).unwrap(),
            "a",
            Some("old"),
        ),
        (|tree| write(tree, "b", "new").unwrap(), |tree| tree.write("b", "b"), "b", None),
        (
            |tree| write(tree, "b", "new").unwrap(),
            |tree| fs::remove_file(tree.path("b")).unwrap(),
            "b",
            None,
        ),
        (|tree| delete(tree, "a").unwrap(), |tree| tree.write("a", "b"), "a", Some("old")),
        (|tree| rename(tree, "a", "b").unwrap(), |tree| tree.write("a", "b"), "b", None),
        (
            |tree| rename(tree, "a", "b").unwrap(),
            |tree| fs::remove_file(tree.path("b")).unwrap(),
            "b",
            None,
        ),
    ];
    for (act, theirs, place, kept_text) in cases {
        let tree = test_workspace_with_undo(&[("first", "old"), ("a", "old")]);
        write(&tree, "first", "new").unwrap();
        act(&tree);
        theirs(&tree);
        let before = files(tree.workspace.cwd());
        assert_eq!(skipped_by_undo(&tree), [(tree.path(place), kept_text.map(str::to_owned))]);
        undo(&tree).unwrap();
        assert_eq!(files(tree.workspace.cwd()), before);
        undo(&tree).unwrap();
        assert_eq!(tree.read("first"), "old");
    }
}

#[test]
fn a_change_after_the_preview_of_an_undo_requires_a_new_preview() {
    let tree = test_workspace_with_undo(&[("a", "old")]);
    write(&tree, "a", "new").unwrap();
    let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    let pre_image = undoing.state_fingerprint();
    tree.write("a", "other");
    let error = undoing.run(&tree.workspace).unwrap_err();
    assert_eq!(
        (error.code(), tree.read("a").as_str()),
        (Some(ErrorCode::ChangedSincePreview), "other")
    );
    assert!(
        UndoPlan::for_last_session_change(&tree.workspace).unwrap().state_fingerprint()
            != pre_image
    );
}

#[test]
fn dropping_the_oldest_undo_entries_is_reported_once() {
    let tree = test_workspace_with_undo(&[("a", "old")]);
    let says = || {
        let output =
            ToolOutput::for_change_with_warnings(String::new(), json!({}), &tree.workspace);
        output.text.contains("oldest changes of this session cannot be undone")
    };
    for number in 1..=MAX_UNDO_ENTRIES + 1 {
        let deeds = vec![FileOperation::Unrecoverable { path: tree.path("a") }];
        tree.workspace.undo_store().push(UndoEntry::new(deeds));
        assert_eq!(says(), number > MAX_UNDO_ENTRIES, "{number}");
    }
    assert!(!says());
}

#[test]
fn an_entry_that_changed_since_the_preview_is_not_deleted() {
    let tree = test_workspace_with_undo(&[("a", "old"), ("dir/b", "b")]);
    let found = inspect_entry(&tree.workspace, &tree.resolve("a")).unwrap();
    tree.write("a", "new");
    let error = found.delete_and_record_undo(&tree.workspace).unwrap_err();
    assert_eq!(
        (error.code(), tree.read("a").as_str()),
        (Some(ErrorCode::ChangedSincePreview), "new")
    );
    tree.write("c", "there");
    let found = inspect_entry(&tree.workspace, &tree.resolve("a")).unwrap();
    let error = found.move_to(&tree.workspace, &tree.resolve("c")).unwrap_err();
    assert_eq!(
        (error.code(), tree.read("c").as_str()),
        (Some(ErrorCode::InvalidArguments), "there")
    );
}

#[test]
fn a_directory_in_which_anything_changed_since_the_preview_stays() {
    type Change = fn(&TestWorkspace);
    let changes: [(&str, Change); 7] = [
        ("another file", |tree| tree.write("dir/new", "")),
        ("one file less", |tree| fs::remove_file(tree.path("dir/deep/c")).unwrap()),
        ("other bytes", |tree| tree.write("dir/deep/c", "C")),
        ("a file over another", |tree| {
            tree.write("beside", "c");
            fs::rename(tree.path("beside"), tree.path("dir/deep/c")).unwrap();
        }),
        ("a mode", |tree| {
            fs::set_permissions(tree.path("dir/b"), fs::Permissions::from_mode(0o700)).unwrap();
        }),
        ("a link elsewhere", |tree| {
            fs::remove_file(tree.path("dir/link")).unwrap();
            tree.link("dir/link", "b");
        }),
        ("another directory", |tree| {
            fs::rename(tree.path("dir"), tree.path("was")).unwrap();
            fs::create_dir(tree.path("dir")).unwrap();
        }),
    ];
    for (what, change) in changes {
        for moves in [false, true] {
            let tree = test_workspace_with_undo(&[("dir/b", "b"), ("dir/deep/c", "c")]);
            tree.link("dir/link", "a");
            let found = inspect_entry(&tree.workspace, &tree.resolve("dir")).unwrap();
            change(&tree);
            let before = files(tree.workspace.cwd());
            let result = if moves {
                found.move_to(&tree.workspace, &tree.resolve("to/here"))
            } else {
                found.delete_and_record_undo(&tree.workspace)
            };
            let code = result.map_err(|error| error.code());
            assert_eq!(code, Err(Some(ErrorCode::ChangedSincePreview)), "{what}");
            assert_eq!(files(tree.workspace.cwd()), before, "{what}");
            assert_eq!(undo(&tree).unwrap_err().code(), Some(ErrorCode::NotFound), "{what}");
        }
    }
}

#[test]
fn a_file_or_link_that_changed_since_the_preview_is_not_moved() {
    let tree = test_workspace_with_undo(&[("a", "old")]);
    tree.link("link", "a");
    let [file, link] =
        ["a", "link"].map(|path| inspect_entry(&tree.workspace, &tree.resolve(path)).unwrap());
    tree.write("a", "new");
    fs::remove_file(tree.path("link")).unwrap();
    tree.link("link", "b");
    for found in [file, link] {
        let error = found.move_to(&tree.workspace, &tree.resolve("to/here")).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview));
    }
    assert_eq!(tree.names("."), ["a", "link"]);
    assert_eq!(tree.read("a"), "new");
}

#[test]
fn an_entry_is_undone_once_even_after_two_previews() {
    let tree = test_workspace_with_undo(&[("a", "1")]);
    write(&tree, "a", "2").unwrap();
    let first = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    let second = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    first.run(&tree.workspace).unwrap();
    // The list of undo entries has the same length as before, but its last entry is a different
    // one.
    write(&tree, "a", "2").unwrap();
    let error = second.run(&tree.workspace).unwrap_err();
    assert_eq!(
        (error.code(), tree.read("a").as_str()),
        (Some(ErrorCode::ChangedSincePreview), "2")
    );
    undo(&tree).unwrap();
    assert_eq!(tree.read("a"), "1");
}

#[test]
fn an_entry_without_backup_is_skipped_and_reported() {
    let tree = test_workspace_with_undo(&[("a", "1"), ("b", "1")]);
    write(&tree, "a", "2").unwrap();
    let path = tree.path("b");
    tree.workspace
        .undo_store()
        .push(UndoEntry::new(vec![FileOperation::Unrecoverable { path: path.clone() }]));
    let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    assert_eq!(undoing.skipped().map(|it| &it.path).collect::<Vec<_>>(), [&path]);
    assert_eq!(undoing.changes().count(), 0);
    undoing.run(&tree.workspace).unwrap();
    assert_eq!((tree.read("a"), tree.read("b")), ("2".into(), "1".into()));
    undo(&tree).unwrap();
    assert_eq!(tree.read("a"), "1");
}

/// An undo entry with created and replaced files is either undone completely or not at all.
#[test]
fn an_undo_that_cannot_be_finished_changes_nothing() {
    let tree = test_workspace_with_undo(&[("a", "1")]);
    let [a, new] = ["a", "dir/new"].map(|path| tree.resolve(path));
    let changes = [FileWrite::new(&new, None, b"new"), FileWrite::new(&a, Some(b"1"), b"2")];
    write_all_or_none(&tree.workspace, &changes).unwrap();
    let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    tree.write("a", "theirs");
    let before = files(tree.workspace.cwd());
    let error = undoing.run(&tree.workspace).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview));
    assert_eq!(files(tree.workspace.cwd()), before);
    tree.write("a", "2");
    undo(&tree).unwrap();
    assert_eq!((tree.names("."), tree.read("a")), (vec!["a".to_owned()], "1".to_owned()));
}

/// The original directory may have been replaced by another directory, or by a link to another
/// directory.
#[test]
fn undo_restores_only_into_the_previewed_directory() {
    type Act = fn(&TestWorkspace);
    let acts: [Act; 2] =
        [|tree| delete(tree, "dir/a").unwrap(), |tree| rename(tree, "dir/a", "b").unwrap()];
    let swaps: [Act; 2] =
        [|tree| fs::create_dir(tree.path("dir")).unwrap(), |tree| tree.link("dir", "other")];
    for (act, swap) in acts.into_iter().flat_map(|act| swaps.map(|swap| (act, swap))) {
        let tree = test_workspace_with_undo(&[("dir/a", "a"), ("other/", "")]);
        act(&tree);
        let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
        fs::rename(tree.path("dir"), tree.path("aside")).unwrap();
        swap(&tree);
        let before = files(tree.workspace.cwd());
        let error = undoing.run(&tree.workspace).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview), "{error}");
        assert_eq!(files(tree.workspace.cwd()), before);
        // When the original directory is back, the entry can be undone.
        fs::rename(tree.path("dir"), tree.path("swapped")).unwrap();
        fs::rename(tree.path("aside"), tree.path("dir")).unwrap();
        undo(&tree).unwrap();
        assert_eq!(tree.read("dir/a"), "a");
    }
}

/// The preview shows the real path of the entry, not the path through a link.
#[test]
fn undo_shows_and_guards_the_real_path() {
    let tree = test_workspace_with_undo(&[("a/pre-commit", "a"), (".git/hooks/other", "")]);
    delete(&tree, "a/pre-commit").unwrap();
    fs::remove_dir(tree.path("a")).unwrap();
    tree.link("a", ".git/hooks");
    let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    let real = tree.path(".git/hooks/pre-commit");
    assert_eq!(undoing.affected_paths().collect::<Vec<_>>(), [(real.as_path(), false)]);
    assert!(
        undoing.affected_workspace_paths().all(|(at, _)| guard::is_guarded(&tree.workspace, at))
    );
}

#[test]
fn undo_restores_a_name_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;

    let tree = test_workspace_with_undo(&[]);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(tree.workspace.cwd().join(name), "text").unwrap();
    let before = files(tree.workspace.cwd());
    let dir = tree.resolve(".").child(name);
    inspect_entry(&tree.workspace, &dir).unwrap().delete_and_record_undo(&tree.workspace).unwrap();
    assert_eq!(files(tree.workspace.cwd()).len(), 0);
    undo(&tree).unwrap();
    assert_eq!(files(tree.workspace.cwd()), before);
}

/// Returns a workspace whose backups are on another file system. Returns `None` if this machine has
/// only one file system.
fn tree_on_other_file_system() -> Option<(TestWorkspace, TempDir)> {
    let tree = test_workspace(&[("a", "text"), ("dir/b", "b")]);
    let state = tempfile::tempdir_in("/dev/shm").ok()?;
    let workspace =
        tree.workspace.with_state_folder(state.path()).with_durability(Durability::System);
    let dir = workspace.open_dir(&workspace.resolve(".").unwrap()).unwrap();
    let is_apart = !workspace.undo_store().is_on_same_file_system(&dir);
    is_apart.then_some((TestWorkspace { workspace, ..tree }, state))
}

#[test]
fn on_another_file_system_files_are_copied_and_other_losses_reported() {
    let Some((tree, _state)) = tree_on_other_file_system() else {
        return eprintln!("skipped: there is no other file system in /dev/shm");
    };
    fs::set_permissions(tree.path("a"), fs::Permissions::from_mode(0o751)).unwrap();
    let before = files(tree.workspace.cwd());
    let [a, dir] =
        ["a", "dir"].map(|path| inspect_entry(&tree.workspace, &tree.resolve(path)).unwrap());
    assert_eq!((a.can_be_restored(), a.restorability_note()), (true, None));
    assert!(
        !dir.can_be_restored()
            && dir.restorability_note().unwrap().to_string().contains("another file system")
    );
    a.delete_and_record_undo(&tree.workspace).unwrap();
    assert_eq!(tree.names("."), ["dir"]);
    undo(&tree).unwrap();
    assert_eq!(files(tree.workspace.cwd()), before);
    let a = inspect_entry(&tree.workspace, &tree.resolve("a")).unwrap();
    tree.write("a", "theirs");
    assert_eq!(
        a.delete_and_record_undo(&tree.workspace).unwrap_err().code(),
        Some(ErrorCode::ChangedSincePreview)
    );
    assert_eq!(
        (tree.names("."), tree.read("a")),
        (vec!["a".into(), "dir".into()], "theirs".into())
    );
    dir.delete_and_record_undo(&tree.workspace).unwrap();
    assert_eq!(tree.names("."), ["a"]);
    assert_eq!(UndoPlan::for_last_session_change(&tree.workspace).unwrap().skipped().count(), 1);
    fs::remove_dir_all(tree.workspace.journal_folder_after_recovery().unwrap().parent().unwrap())
        .unwrap();
}

#[test]
fn a_permanent_deletion_is_reported_and_still_compared() {
    let tree = test_workspace(&[("a", "text"), ("dir/deep/b", "b")]);
    tree.link("dir/out", tree.outer_folder());
    let [a, dir] =
        ["a", "dir"].map(|path| inspect_entry(&tree.workspace, &tree.resolve(path)).unwrap());
    assert!(!a.can_be_restored() && !dir.can_be_restored());
    tree.write("a", "other");
    tree.write("dir/deep/c", "");
    for found in [a, dir] {
        let error = found.delete_and_record_undo(&tree.workspace).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview));
    }
    assert_eq!((tree.names("."), tree.read("a")), (vec!["a".into(), "dir".into()], "other".into()));
    delete(&tree, "a").unwrap();
    delete(&tree, "dir").unwrap();
    assert_eq!(tree.names(".").len(), 0);
    assert!(tree.outer_folder().join("secret").exists());
}

#[test]
fn project_folders_and_special_files_are_not_deleted() {
    let tree = test_workspace(&[("a", "text")]);
    tree.fifo("fifo");
    tree.link("out", tree.outer_folder().join("root-evil"));
    for (path, code) in [
        (".", ErrorCode::InvalidArguments),
        ("nothing", ErrorCode::NotFound),
        ("fifo", ErrorCode::NotARegularFile),
        ("out/secret", ErrorCode::OutsideRoots),
    ] {
        let error = delete(&tree, path).unwrap_err();
        assert_eq!(error.code(), Some(code), "{path}: {error}");
    }
    assert_eq!(tree.names("."), ["a", "fifo", "out"]);
    assert!(tree.outer_folder().join("root-evil/secret").exists());
}

#[test]
fn protected_names_and_backups_are_guarded() {
    let tree = test_workspace_with_undo(&[]);
    for (path, is_guarded) in [
        (".git/config", true),
        ("deep/.VSCode/settings.json", true),
        ("src/main.rs", false),
        (".gitignore", false),
    ] {
        let real = tree.workspace.canonicalize(&tree.resolve(path)).unwrap();
        assert_eq!(guard::is_guarded(&tree.workspace, &real), is_guarded, "{path}");
    }
    tree.write(".git/config", "");
    tree.link("innocent", ".git/config");
    let real = tree.workspace.canonicalize(&tree.resolve("innocent")).unwrap();
    assert!(guard::is_guarded(&tree.workspace, &real));
}

#[test]
fn the_state_folder_is_guarded_as_a_whole_by_every_name_of_it() {
    let tree = test_workspace(&[("linked", "x"), ("state/x", "")]);
    fs::hard_link(tree.path("linked"), tree.path("other")).unwrap();
    tree.link("by-link", "state");
    let workspace = Workspace::new(tree.workspace.cwd().to_owned(), Vec::new()).unwrap();
    let workspace = workspace.with_state_folder(&tree.path("by-link/callboard"));
    for (path, is_guarded, is_shared) in [
        ("state/callboard/permissions/user.json", true, false),
        ("by-link/callboard/journal/call-1", true, false),
        ("state/other", false, false),
        ("linked", false, true),
        ("state/x", false, false),
        ("none", false, false),
    ] {
        let real = workspace.canonicalize(&workspace.resolve(path).unwrap()).unwrap();
        assert_eq!(guard::is_guarded(&workspace, &real), is_guarded, "{path}");
        assert_eq!(guard::has_other_hard_links(&workspace, &real), is_shared, "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_changes_can_be_undone(
        steps in prop::collection::vec((0_u8..4, 0_usize..5, 0_usize..5, "[a-c\n]{0,6}"), 1..14),
    ) {
        let tree = test_workspace_with_undo(&[("a", "one\n"), ("d/b", "two\r\n"), ("d/e/c", "")]);
        fs::set_permissions(tree.path("d/b"), fs::Permissions::from_mode(0o640)).unwrap();
        let paths = ["a", "d/b", "d/e/c", "d/e", "new/f"];
        let before = files(tree.workspace.cwd());
        let mut done = 0;
        for (what, at, to, text) in steps {
            let (at, to) = (paths[at], paths[to]);
            let result = match what {
                0 | 1 => write(&tree, at, &text),
                2 => delete(&tree, at),
                _ if to.starts_with(at) => continue,
                _ => rename(&tree, at, to),
            };
            done += u32::from(result.is_ok());
        }
        for _ in 0..done {
            undo(&tree).unwrap();
        }
        prop_assert_eq!(files(tree.workspace.cwd()), before);
        prop_assert!(undo(&tree).is_err());
    }
}

#[test]
fn a_file_that_was_made_is_gone_again() {
    let tree = test_workspace_with_undo(&[]);
    write(&tree, "new", "text").unwrap();
    undo(&tree).unwrap();
    assert_eq!(read_whole(&tree.workspace, &tree.resolve("new"), 9).unwrap(), PreImage::Missing);
}

#[test]
fn limited_file_systems_give_the_same_results() {
    simulated_file_system::run_on_limited(&[
        undo_restores_deleted_and_moved_entries,
        undo_skips_only_files_that_another_program_changed,
        an_entry_that_cannot_be_undone_blocks_no_earlier_entry,
        a_change_after_the_preview_of_an_undo_requires_a_new_preview,
        an_entry_that_changed_since_the_preview_is_not_deleted,
        a_directory_in_which_anything_changed_since_the_preview_stays,
        a_file_or_link_that_changed_since_the_preview_is_not_moved,
        an_entry_is_undone_once_even_after_two_previews,
        undo_restores_a_name_that_is_not_utf8,
        on_another_file_system_files_are_copied_and_other_losses_reported,
        a_permanent_deletion_is_reported_and_still_compared,
        a_file_that_was_made_is_gone_again,
    ]);
    simulated_file_system::run_on(
        SimulatedFileSystem::PlainRenameNoLinks,
        every_sequence_of_changes_can_be_undone,
    );
}
