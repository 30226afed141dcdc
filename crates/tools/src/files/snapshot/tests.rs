//! Tests that the changes since a snapshot are recorded completely, and that their undo restores
//! exactly what was there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_types::FileChangeOperation;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{NoSnapshot, RecordedChanges, Snapshot};
use crate::error::ErrorCode;
use crate::files::content_hash::ContentHash;
use crate::files::rewind::RewindPlan;
use crate::files::state::snapshots::EntryContent;
use crate::files::state::undo_entry::{FileOperation, UndoEntry, UnrecordedCause};
use crate::files::system::file_clock_now;
use crate::files::undo::UndoPlan;
use crate::files::workspace::testing::trees::{self, Node, Tree, any_tree, dir, file, link, tree};
use crate::files::workspace::testing::{
    TestWorkspace, run_without_privileges, test_workspace_with_undo,
};
use crate::limits::{
    MAX_RECORDED_BYTES, MAX_RECORDED_CHANGES, MAX_SNAPSHOT_BYTES, MAX_SNAPSHOT_ENTRIES,
    MAX_SNAPSHOT_FILE_BYTES,
};

/// A time limit that no test reaches.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn workspace_with(tree: &Tree) -> TestWorkspace {
    let test = test_workspace_with_undo(&[]);
    trees::create(test.workspace.cwd(), tree);
    test
}

fn read(test: &TestWorkspace) -> Tree {
    trees::read(test.workspace.cwd())
}

fn take(test: &TestWorkspace) -> Snapshot {
    Snapshot::take(&test.workspace, TIME_LIMIT, &|| false).unwrap()
}

fn record(snapshot: &Snapshot, test: &TestWorkspace) -> RecordedChanges {
    snapshot.record_changes(&test.workspace, &|_| true).unwrap()
}

/// Undoes the last change. Returns the paths that it skips.
fn undo(test: &TestWorkspace) -> Vec<PathBuf> {
    let plan = UndoPlan::for_last_session_change(&test.workspace).unwrap();
    let skipped = plan.skipped().map(|skipped| skipped.path.clone()).collect();
    plan.run(&test.workspace).unwrap();
    skipped
}

fn names(paths: &[PathBuf], test: &TestWorkspace) -> Vec<String> {
    paths.iter().map(|path| test.workspace.display(path)).collect()
}

/// Waits until new files get a later time than earlier ones.
fn wait_for_new_instant() {
    wait_for_file_clock(50_000_000);
}

/// Waits until the metadata of the files is trusted.
fn wait_until_settled() {
    wait_for_file_clock(2_100_000_000);
}

fn wait_for_file_clock(nanoseconds: i128) {
    let end = file_clock_now() + nanoseconds;
    while file_clock_now() < end {
        std::thread::yield_now();
    }
}

/// Turns the tree `old` on disk into the tree `new`, as programs do it. A directory that both trees
/// have keeps its mode. `replaces` states whether changed files are replaced by new ones.
fn change(folder: &Path, old: &Tree, new: &Tree, replaces: bool) {
    let is_dir = |node: Option<&Node>| matches!(node, Some(Node::Directory { .. }));
    for (path, before) in old.iter().rev() {
        let (full, after) = (folder.join(path), new.get(path));
        let keeps = match (before, after) {
            (Node::File { .. }, Some(Node::File { .. })) => !replaces || Some(before) == after,
            _ => is_dir(Some(before)) && is_dir(after) || Some(before) == after,
        };
        match before {
            _ if keeps => {}
            Node::Directory { .. } => fs::remove_dir(full).unwrap(),
            _ => fs::remove_file(full).unwrap(),
        }
    }
    for (path, node) in new {
        let full = folder.join(path);
        match node {
            Node::File { bytes, mode } if old.get(path) != Some(node) => {
                if full.exists() {
                    fs::set_permissions(&full, Permissions::from_mode(0o600)).unwrap();
                }
                fs::write(&full, bytes).unwrap();
                fs::set_permissions(&full, Permissions::from_mode(*mode)).unwrap();
            }
            Node::Link(target) if old.get(path) != Some(node) => symlink(target, full).unwrap(),
            Node::Directory { mode } if !is_dir(old.get(path)) => {
                fs::create_dir(&full).unwrap();
                fs::set_permissions(&full, Permissions::from_mode(*mode)).unwrap();
            }
            _ => {}
        }
    }
}

/// Changes a tree several times, records each change, and undoes all of them.
fn check(states: &[Tree], replaces: bool) {
    let test = workspace_with(&states[0]);
    let mut expected = vec![states[0].clone()];
    for new in &states[1..] {
        let (old, snapshot) = (read(&test), take(&test));
        change(test.workspace.cwd(), &old, new, replaces);
        let recorded = record(&snapshot, &test);
        assert_eq!(names(&recorded.unrecorded, &test), Vec::<String>::new());
        assert_eq!(read(&test), trees::expected_tree_after_changes(&old, new));
        let is_changed = read(&test) != old;
        assert_eq!(recorded.paths().count() > 0, is_changed, "{old:?} -> {new:?}");
        if is_changed {
            expected.push(read(&test));
        }
    }
    while expected.len() > 1 {
        assert_eq!(read(&test), expected.pop().unwrap());
        assert_eq!(undo(&test), Vec::<PathBuf>::new());
    }
    assert_eq!(read(&test), expected[0]);
}

#[test]
fn each_kind_of_entry_becomes_each_other_kind_and_back() {
    let kinds = || {
        vec![
            tree([]),
            tree([("a", file("text", 0o644))]),
            tree([("a", file("text", 0o755))]),
            tree([("a", file("othr", 0o444))]),
            tree([("a", link("b"))]),
            tree([("a", link("/"))]),
            tree([("a", dir(0o700))]),
            tree([("a/b", file("b", 0o600)), ("a/deep/c", link("../b"))]),
            tree([("a/b/c", file("c", 0o644)), ("a/deep", dir(0o711))]),
        ]
    };
    for old in kinds() {
        for new in kinds() {
            println!("{old:?} -> {new:?}");
            for replaces in [false, true] {
                check(&[old.clone(), new.clone(), old.clone()], replaces);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_change_of_a_tree_is_undone(
        states in prop::collection::vec(any_tree(), 2..4),
        replaces: bool,
    ) {
        check(&states, replaces);
    }
}

#[test]
fn a_rewind_undoes_the_changes_of_commands_and_edits() {
    let test = workspace_with(&tree([("a", file("one", 0o644)), ("b", file("b", 0o644))]));
    let before = read(&test);
    test.workspace.set_prompt_number(1);
    let snapshot = take(&test);
    fs::write(test.path("a"), "two").unwrap();
    fs::rename(test.path("b"), test.path("c")).unwrap();
    record(&snapshot, &test);
    test.workspace.set_prompt_number(2);
    let at = test.resolve("a");
    let two = crate::files::write::PreImage::Bytes(b"two".to_vec());
    crate::files::write::atomic_write_if_unchanged(&test.workspace, &at, b"three", &two).unwrap();
    let plan = |prompt| RewindPlan::before_prompt(&test.workspace, prompt).unwrap();
    // Another program may have made a part of a command's changes.
    let kept = test.workspace.undo_store().session_folder_if_created();
    assert_eq!(plan(2).folder_of_replaced_files(&test.workspace), None);
    assert_eq!(plan(1).folder_of_replaced_files(&test.workspace), kept);
    plan(1).run(&test.workspace).unwrap();
    assert_eq!(read(&test), before);
}

#[test]
fn a_rewind_that_changes_no_file_of_a_command_keeps_none() {
    let test = workspace_with(&tree([("a", file("one", 0o644))]));
    test.workspace.set_prompt_number(1);
    let snapshot = take(&test);
    fs::write(test.path("a"), "two").unwrap();
    record(&snapshot, &test);
    fs::write(test.path("a"), "by the user").unwrap();
    let plan = RewindPlan::before_prompt(&test.workspace, 1).unwrap();
    assert_eq!(plan.folder_of_replaced_files(&test.workspace), None);
}

#[test]
fn a_file_that_changes_again_is_left_alone_by_an_undo() {
    let test = workspace_with(&tree([("a", file("one", 0o644)), ("b", file("b", 0o644))]));
    let snapshot = take(&test);
    for name in ["a", "b", "new"] {
        fs::write(test.path(name), "two").unwrap();
    }
    record(&snapshot, &test);
    fs::write(test.path("a"), "by the user").unwrap();
    assert_eq!(undo(&test), [test.path("a")]);
    assert_eq!((test.read("a"), test.read("b")), ("by the user".into(), "b".into()));
    assert!(!test.path("new").exists());
}

#[test]
fn changes_are_shown_as_diffs() {
    let test = workspace_with(&tree([("a", file("one\n", 0o644)), ("b", file("b\n", 0o644))]));
    let snapshot = take(&test);
    fs::write(test.path("a"), "two\n").unwrap();
    fs::rename(test.path("b"), test.path("c")).unwrap();
    let recorded = record(&snapshot, &test);
    let shown = |may_read: bool| {
        let changes =
            recorded.file_changes(&test.workspace, move |_, text| may_read.then_some(text));
        let changes = changes.map(|change| {
            let text = change.hunks.iter().flat_map(|hunk| &hunk.lines);
            let text = text.map(|line| &*line.text).collect::<String>();
            (change.operation, test.workspace.display(&change.path), text)
        });
        let mut changes: Vec<_> = changes.collect();
        changes.sort_by(|one, other| one.1.cmp(&other.1));
        changes
    };
    let expected = [
        (FileChangeOperation::Modify, "a".to_owned(), "one\ntwo\n".to_owned()),
        (FileChangeOperation::Delete, "b".to_owned(), "b\n".to_owned()),
        (FileChangeOperation::Add, "c".to_owned(), "b\n".to_owned()),
    ];
    assert_eq!(shown(true), expected);
    assert!(shown(false).iter().all(|(.., text)| text.is_empty()));
}

/// An undo removes new files, so it must never take an old file for a new one.
#[test]
fn files_from_outside_of_the_snapshot_are_no_new_files() {
    let test = workspace_with(&tree([(".gitignore", file("secret\n", 0o644))]));
    test.write("secret", "ignored");
    test.write("target/file", "generated");
    test.write("moved/a", "outside");
    let outside = test.outer_folder().join("outside");
    fs::rename(test.path("moved"), &outside).unwrap();
    wait_for_new_instant();
    let snapshot = take(&test);
    fs::write(test.path(".gitignore"), "").unwrap();
    fs::rename(&outside, test.path("moved")).unwrap();
    fs::rename(test.path("target/file"), test.path("file")).unwrap();
    let recorded = record(&snapshot, &test);
    assert_eq!(names(&recorded.unrecorded, &test), ["file", "moved", "secret"]);
    assert_eq!(undo(&test), Vec::<PathBuf>::new());
    assert_eq!(test.read(".gitignore"), "secret\n");
    for (name, text) in [("secret", "ignored"), ("moved/a", "outside"), ("file", "generated")] {
        assert_eq!(test.read(name), text);
    }
}

/// A file that is ignored from now on still exists.
#[test]
fn newly_ignored_files_are_not_removed_files() {
    let test = workspace_with(&tree([("a", file("a", 0o644)), ("b", file("b", 0o644))]));
    let snapshot = take(&test);
    fs::write(test.path(".gitignore"), "*\n").unwrap();
    fs::write(test.path("b"), "changed").unwrap();
    let recorded = record(&snapshot, &test);
    assert_eq!(names(&recorded.unrecorded, &test), Vec::<String>::new());
    undo(&test);
    assert_eq!((test.read("a"), test.read("b")), ("a".into(), "b".into()));
}

#[test]
fn a_change_in_the_instant_of_the_snapshot_is_found() {
    for round in 0..200 {
        let test = workspace_with(&tree([("a", file("one", 0o644))]));
        let snapshot = take(&test);
        fs::write(test.path("a"), "two").unwrap();
        assert_eq!(record(&snapshot, &test).paths().count(), 1, "{round}");
        undo(&test);
        assert_eq!(test.read("a"), "one");
    }
}

/// The times of some file systems do not distinguish two changes in one instant.
#[test]
fn the_metadata_of_a_file_that_has_just_changed_is_not_trusted() {
    let test = workspace_with(&tree([("a", file("one", 0o644))]));
    let is_same = || {
        let snapshot = take(&test);
        let entry = &snapshot.entries[&test.path("a")];
        entry.is_surely_same(&entry.clone())
    };
    assert!(!is_same());
    wait_until_settled();
    assert!(is_same());
}

#[test]
fn contents_beyond_the_limit_are_named() {
    let test = workspace_with(&tree([]));
    let snapshot = take(&test);
    let large = vec![b'x'; usize::try_from(MAX_SNAPSHOT_FILE_BYTES).unwrap()];
    let fitting = usize::try_from(MAX_RECORDED_BYTES / MAX_SNAPSHOT_FILE_BYTES).unwrap();
    (0..fitting + 2).for_each(|it| test.write(&it.to_string(), &large));
    let recorded = record(&snapshot, &test);
    assert_eq!((recorded.paths().count(), recorded.unrecorded.len()), (fitting, 2));
}

#[test]
fn removed_contents_beyond_the_limit_are_named() {
    let test = workspace_with(&tree([]));
    let large = vec![b'x'; usize::try_from(MAX_SNAPSHOT_FILE_BYTES).unwrap()];
    let fitting = usize::try_from(MAX_RECORDED_BYTES / MAX_SNAPSHOT_FILE_BYTES).unwrap();
    let names: Vec<_> = (0..fitting + 2).map(|it| it.to_string()).collect();
    names.iter().for_each(|name| test.write(name, &large));
    let snapshot = take(&test);
    names.iter().for_each(|name| fs::remove_file(test.path(name)).unwrap());
    let recorded = record(&snapshot, &test);
    assert_eq!((recorded.paths().count(), recorded.unrecorded.len()), (fitting, 2));
}

/// Outdated copies leave no room for a new content.
#[test]
fn copies_start_again_when_they_are_full() {
    let test = workspace_with(&tree([]));
    let count = MAX_SNAPSHOT_BYTES / MAX_SNAPSHOT_FILE_BYTES / 4 * 3;
    let mut large = vec![b'x'; usize::try_from(MAX_SNAPSHOT_FILE_BYTES).unwrap()];
    (0..count).for_each(|it| test.write(&it.to_string(), &large));
    let is_complete = |snapshot: &Snapshot| {
        let mut entries = snapshot.entries.values();
        entries.all(|entry| matches!(entry.content, EntryContent::File(Some(_))))
    };
    let first = take(&test);
    assert!(is_complete(&first));
    large[0] = b'y';
    (0..count / 2).for_each(|it| test.write(&it.to_string(), &large));
    assert!(is_complete(&take(&test)));
    // Earlier snapshots keep their copies.
    let name = test.path("0");
    let EntryContent::File(Some(copy)) = &first.entries[&name].content else { panic!("no copy") };
    assert_eq!(first.copies.read(copy).unwrap()[0], b'x');
    // A project that does not fit is not read twice for each command.
    (count..count * 2).for_each(|it| test.write(&it.to_string(), &large));
    wait_until_settled();
    let (one, other) = (take(&test), take(&test));
    assert!(!is_complete(&one) && Arc::ptr_eq(&one.copies, &other.copies));
}

/// E.g. `git stash` and `git stash pop` write many files again.
#[test]
fn files_with_the_same_content_do_not_count() {
    let test = workspace_with(&tree([("z", file("one", 0o644))]));
    let large = vec![b'x'; usize::try_from(MAX_SNAPSHOT_FILE_BYTES).unwrap()];
    let count = MAX_RECORDED_BYTES / MAX_SNAPSHOT_FILE_BYTES + 1;
    (0..count).for_each(|it| test.write(&it.to_string(), &large));
    let snapshot = take(&test);
    (0..count).for_each(|it| test.write(&it.to_string(), &large));
    fs::write(test.path("z"), "two").unwrap();
    let recorded = record(&snapshot, &test);
    assert_eq!(recorded.paths().collect::<Vec<_>>(), [test.path("z")]);
    assert_eq!(recorded.unrecorded, Vec::<PathBuf>::new());
}

#[test]
fn a_file_with_two_names_is_restored_once() {
    let test = workspace_with(&tree([("a", file("one", 0o644))]));
    fs::hard_link(test.path("a"), test.path("b")).unwrap();
    let snapshot = take(&test);
    fs::write(test.path("a"), "two").unwrap();
    assert_eq!(record(&snapshot, &test).paths().count(), 1);
    assert_eq!(undo(&test), Vec::<PathBuf>::new());
    assert_eq!((test.read("a"), test.read("b")), ("one".into(), "one".into()));
    let id = |name: &str| fs::metadata(test.path(name)).unwrap().ino();
    assert_eq!(id("a"), id("b"));
}

/// An undo writes to all names of a file, so a file that got another name is not restored.
#[test]
fn a_file_that_became_another_name_of_a_file_is_only_named() {
    let test = workspace_with(&tree([("a", file("A", 0o644)), ("b", file("B", 0o644))]));
    let outside = test.outer_folder().join("outside");
    fs::write(&outside, "outside").unwrap();
    for (target, text) in [(test.path("a"), "A"), (outside, "outside")] {
        let snapshot = take(&test);
        fs::remove_file(test.path("b")).unwrap();
        fs::hard_link(&target, test.path("b")).unwrap();
        assert_eq!(names(&record(&snapshot, &test).unrecorded, &test), ["b"]);
        assert_eq!(undo(&test), [test.path("b")]);
        assert_eq!(
            (fs::read_to_string(target).unwrap(), test.read("b")),
            (text.into(), text.into())
        );
    }
}

/// The moved file may be the only copy of its content.
#[test]
fn a_file_that_was_moved_over_another_from_outside_is_only_named() {
    let test = workspace_with(&tree([("a", file("A", 0o644)), ("b", file("B", 0o644))]));
    let outside = test.outer_folder().join("outside");
    fs::write(&outside, "outside").unwrap();
    wait_for_new_instant();
    let snapshot = take(&test);
    fs::rename(&outside, test.path("a")).unwrap();
    assert_eq!(names(&record(&snapshot, &test).unrecorded, &test), ["a"]);
    assert_eq!(undo(&test), [test.path("a")]);
    assert_eq!(test.read("a"), "outside");
    // The content of a file that the snapshot contains is known.
    let snapshot = take(&test);
    fs::rename(test.path("b"), test.path("a")).unwrap();
    record(&snapshot, &test);
    assert_eq!(undo(&test), Vec::<PathBuf>::new());
    assert_eq!((test.read("a"), test.read("b")), ("outside".into(), "B".into()));
}

/// Another program may have made a change while the command ran.
#[test]
fn an_undo_keeps_what_it_removes_and_replaces() {
    let test = workspace_with(&tree([("a", file("A", 0o644))]));
    let snapshot = take(&test);
    fs::write(test.path("a"), "by the user").unwrap();
    fs::write(test.path("new"), "by the user, too").unwrap();
    record(&snapshot, &test);
    undo(&test);
    let folder = test.workspace.undo_store().session_folder_if_created().unwrap();
    let kept = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut kept: Vec<_> = kept.filter_map(|path| fs::read_to_string(path).ok()).collect();
    kept.retain(|text| text.starts_with("by the user"));
    kept.sort();
    assert_eq!(kept, ["by the user", "by the user, too"]);
}

#[test]
fn an_undo_that_cannot_keep_a_file_changes_nothing() {
    run_without_privileges(|| {
        let test = workspace_with(&tree([("a", file("A", 0o644)), ("b", file("B", 0o644))]));
        let snapshot = take(&test);
        fs::write(test.path("a"), "changed").unwrap();
        fs::write(test.path("new"), "new").unwrap();
        record(&snapshot, &test);
        let changed = read(&test);
        let folder = test.workspace.undo_store().session_folder_if_created().unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o500)).unwrap();
        let plan = UndoPlan::for_last_session_change(&test.workspace).unwrap();
        let error = plan.run(&test.workspace).unwrap_err();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(error.code(), Some(ErrorCode::Io), "{error}");
        assert_eq!(read(&test), changed);
        assert_eq!(undo(&test), Vec::<PathBuf>::new());
        assert_eq!(test.read("a"), "A");
    });
}

/// The backups of a project on another file system are copies.
#[test]
fn removed_folders_and_links_are_restored_across_file_systems() {
    let Ok(state) = tempfile::tempdir_in("/dev/shm") else { return };
    let old = tree([
        ("another/a", file("A", 0o640)),
        ("folder/a", file("A", 0o640)),
        ("folder/inner/link", link("../a")),
        ("folder/inner/empty", dir(0o711)),
        ("link", link("folder")),
    ]);
    for fails in [false, true] {
        let test = workspace_with(&old);
        let TestWorkspace { workspace, outer } = test;
        let workspace = workspace.with_state_folder(state.path());
        let test = TestWorkspace { workspace, outer };
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        if device(state.path()) == device(test.workspace.cwd()) {
            return;
        }
        let snapshot = take(&test);
        fs::remove_dir_all(test.path("another")).unwrap();
        fs::remove_dir_all(test.path("folder")).unwrap();
        fs::remove_file(test.path("link")).unwrap();
        symlink("elsewhere", test.path("link")).unwrap();
        record(&snapshot, &test);
        let changed = read(&test);
        if fails {
            // One folder cannot be restored after the other folder and the link were restored.
            let plan = UndoPlan::for_last_session_change(&test.workspace).unwrap();
            fs::write(test.path("another"), "in the way").unwrap();
            plan.run(&test.workspace).unwrap_err();
            fs::remove_file(test.path("another")).unwrap();
            assert_eq!(read(&test), changed);
        }
        assert_eq!(undo(&test), Vec::<PathBuf>::new());
        assert_eq!(read(&test), old);
    }
}

#[test]
fn changes_of_other_calls_are_not_recorded_again() {
    let test = workspace_with(&tree([("a", file("A", 0o644)), ("b", file("B", 0o644))]));
    let (outer, inner) = (take(&test), take(&test));
    fs::write(test.path("a"), "by the inner command").unwrap();
    test.write("folder/x", "by the inner command");
    record(&inner, &test);
    fs::write(test.path("b"), "by the outer command").unwrap();
    test.write("folder/y", "by the outer command");
    let recorded = record(&outer, &test);
    assert_eq!(recorded.paths().collect::<Vec<_>>(), ["b", "folder/y"].map(|it| test.path(it)));
    assert_eq!(recorded.unrecorded, Vec::<PathBuf>::new());
    undo(&test);
    assert_eq!((test.read("a"), test.read("b")), ("by the inner command".into(), "B".into()));
    undo(&test);
    assert_eq!(test.read("a"), "A");
}

/// The content between both changes is not known.
#[test]
fn a_change_after_the_change_of_another_call_is_only_named() {
    let test = workspace_with(&tree([
        ("a", file("A", 0o644)),
        ("b", file("B", 0o644)),
        ("c", file("C", 0o644)),
        ("d/x", file("X", 0o644)),
        ("e/x", file("X", 0o644)),
        ("f", file("F", 0o644)),
        ("h", file("H", 0o644)),
        ("link", link("a")),
    ]));
    let (outer, inner) = (take(&test), take(&test));
    for name in ["a", "c", "new"] {
        fs::write(test.path(name), "by the inner command").unwrap();
    }
    let large = vec![b'x'; usize::try_from(MAX_SNAPSHOT_FILE_BYTES).unwrap() + 1];
    test.write("large", &large);
    test.write("g", "G");
    fs::create_dir(test.path("folder")).unwrap();
    for name in ["b", "link"] {
        fs::remove_file(test.path(name)).unwrap();
    }
    fs::remove_dir_all(test.path("d")).unwrap();
    symlink("b", test.path("link")).unwrap();
    record(&inner, &test);
    fs::rename(test.path("e"), test.path("moved")).unwrap();
    fs::rename(test.path("f"), test.path("moved-f")).unwrap();
    fs::rename(test.path("h"), test.path("moved-h")).unwrap();
    let moved = [("e", "moved"), ("f", "moved-f"), ("h", "moved-h")];
    let moved = moved.map(|(from, to)| (test.path(from), test.path(to)));
    let moved = moved.map(|(from, to)| FileOperation::Moved { from, to, moved: None });
    let created = FileOperation::Created {
        path: test.path("large"),
        hash_after: ContentHash::of_bytes(&large),
    };
    test.workspace.undo_store().push(UndoEntry::new([&moved[..], &[created]].concat()));
    // The changes of a third command are not known.
    let folder = test.workspace.cwd().to_owned();
    let root = FileOperation::Unrecorded { folder, cause: UnrecordedCause::UnreadFolders };
    test.workspace.undo_store().push(UndoEntry::of_command(vec![root]));
    fs::write(test.path("a"), "by the outer command").unwrap();
    test.write("b", "by the outer command");
    test.write("d/x", "by the outer command");
    fs::remove_file(test.path("link")).unwrap();
    symlink("c", test.path("link")).unwrap();
    fs::remove_file(test.path("new")).unwrap();
    fs::remove_dir(test.path("folder")).unwrap();
    fs::write(test.path("moved-f"), "by the outer command").unwrap();
    let recorded = record(&outer, &test);
    assert_eq!(recorded.operations, []);
    let expected = ["a", "b", "d", "folder", "link", "moved-f", "new"];
    assert_eq!(names(&recorded.unrecorded, &test), expected);
}

/// Without an entry, an undo would take back an earlier change.
#[test]
fn changes_that_cannot_be_found_are_skipped_by_an_undo() {
    let test = workspace_with(&tree([("a", file("A", 0o644))]));
    for text in ["one", "two"] {
        let snapshot = take(&test);
        fs::write(test.path("a"), text).unwrap();
        record(&snapshot, &test);
    }
    let snapshot = take(&test);
    fs::create_dir(test.path("folder")).unwrap();
    (0..=MAX_SNAPSHOT_ENTRIES).for_each(|it| test.write(&format!("folder/{it}"), ""));
    snapshot.record_changes(&test.workspace, &|_| true).unwrap_err();
    assert_eq!(undo(&test), [test.workspace.cwd()]);
    assert_eq!(test.read("a"), "two");
}

/// The files of the agent itself are no changes of a command.
#[test]
fn folders_of_the_agent_are_not_recorded() {
    let test = test_workspace_with_undo(&[("state/rules.json", "[]"), ("a", "A")]);
    let TestWorkspace { workspace, outer } = test;
    let state = workspace.cwd().join("state");
    let test = TestWorkspace { workspace: workspace.with_guarded_path(&state), outer };
    let snapshot = take(&test);
    test.write("state/rules.json", "[1]");
    test.write("a", "changed");
    assert_eq!(record(&snapshot, &test).paths().collect::<Vec<_>>(), [test.path("a")]);
}

/// A program that runs as root in a container may have made the files.
#[test]
fn files_that_may_not_be_changed_are_left_alone_by_an_undo() {
    run_without_privileges(|| {
        let test = workspace_with(&tree([("a", file("A", 0o644)), ("d/b", file("B", 0o644))]));
        let snapshot = take(&test);
        fs::write(test.path("a"), "changed").unwrap();
        fs::write(test.path("d/b"), "changed").unwrap();
        fs::write(test.path("d/new"), "new").unwrap();
        fs::set_permissions(test.path("d/b"), Permissions::from_mode(0o444)).unwrap();
        record(&snapshot, &test);
        fs::set_permissions(test.path("d"), Permissions::from_mode(0o555)).unwrap();
        let mut skipped = undo(&test);
        fs::set_permissions(test.path("d"), Permissions::from_mode(0o755)).unwrap();
        skipped.sort();
        assert_eq!(skipped, [test.path("d/b"), test.path("d/new")]);
        assert_eq!((test.read("a"), test.read("d/b")), ("A".into(), "changed".into()));
    });
}

#[test]
fn what_cannot_be_restored_is_named() {
    let test = workspace_with(&tree([
        ("a", file("a", 0o644)),
        ("denied", file("denied", 0o644)),
        ("unchanged/denied", file("denied", 0o644)),
        ("folder/small", file("small", 0o644)),
    ]));
    let large = vec![b'x'; usize::try_from(MAX_SNAPSHOT_FILE_BYTES).unwrap() + 1];
    for name in ["large", "changed", "folder/large"] {
        fs::write(test.path(name), &large).unwrap();
    }
    let snapshot = take(&test);
    fs::rename(test.path("large"), test.path("moved")).unwrap();
    fs::write(test.path("changed"), "").unwrap();
    fs::write(test.path("denied"), "").unwrap();
    fs::remove_dir_all(test.path("folder")).unwrap();
    fs::remove_file(test.path("a")).unwrap();
    test.fifo("fifo");
    let may_record = |path: &Path| !path.ends_with("denied");
    let recorded = snapshot.record_changes(&test.workspace, &may_record).unwrap();
    let mut unrecorded = names(&recorded.unrecorded, &test);
    unrecorded.sort();
    assert_eq!(unrecorded, ["changed", "denied", "fifo", "folder/large", "large", "moved"]);
    let mut skipped = undo(&test);
    skipped.sort();
    assert_eq!(skipped, ["changed", "denied", "large"].map(|name| test.path(name)));
    assert_eq!((test.read("a"), test.read("folder/small")), ("a".into(), "small".into()));
    assert_eq!(fs::metadata(test.path("moved")).unwrap().len(), large.len() as u64);
}

#[test]
fn too_many_changes_are_named_by_a_rewind() {
    let test = workspace_with(&tree([("a", file("a", 0o644))]));
    test.workspace.set_prompt_number(1);
    let snapshot = take(&test);
    fs::write(test.path("a"), "changed").unwrap();
    (0..=MAX_RECORDED_CHANGES).for_each(|it| test.write(&it.to_string(), ""));
    let recorded = record(&snapshot, &test);
    assert!(recorded.has_too_many && recorded.paths().count() == 0);
    let plan = RewindPlan::before_prompt(&test.workspace, 1).unwrap();
    assert_eq!(plan.kept()[0].path, test.workspace.cwd());
    let cwd = test.workspace.cwd().display();
    let note = format!(
        "Some changes in the project folder {cwd} are not undone: a command changed too many files \
         and folders."
    );
    assert_eq!(plan.kept()[0].note(&test.workspace).to_string(), note);
    let snapshot = take(&test);
    (0..=MAX_RECORDED_CHANGES).for_each(|it| fs::remove_file(test.path(&it.to_string())).unwrap());
    assert!(record(&snapshot, &test).has_too_many);
    let backups = fs::read_dir(test.outer_folder().join("state/undo")).unwrap();
    let backups = backups.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let names: Vec<_> = backups.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_str().unwrap().parse::<u64>().is_err()), "{names:?}");
}

#[test]
fn a_project_with_too_many_entries_has_no_snapshots() {
    let test = workspace_with(&tree([]));
    fs::create_dir(test.path("folder")).unwrap();
    (0..MAX_SNAPSHOT_ENTRIES).for_each(|it| test.write(&format!("folder/{it}"), ""));
    let taken = || Snapshot::take(&test.workspace, TIME_LIMIT, &|| false);
    let refused = |is_repeated| move |why| why == NoSnapshot::TooLarge { is_repeated };
    assert!(taken().is_err_and(refused(false)));
    assert!(taken().is_err_and(refused(true)));
    test.workspace.set_prompt_number(2);
    assert!(taken().is_err_and(refused(false)));
    fs::remove_dir_all(test.path("folder")).unwrap();
    test.workspace.set_prompt_number(3);
    assert!(taken().is_ok());
}

#[test]
fn nothing_is_read_after_the_time_limit() {
    let test = workspace_with(&tree([("a", file("A", 0o644))]));
    let taken = Snapshot::take(&test.workspace, Duration::ZERO, &|| false);
    assert_eq!(taken.unwrap_err(), NoSnapshot::TimedOut);
    let snapshot = take(&test);
    fs::write(test.path("a"), "changed").unwrap();
    record(&snapshot, &test);
    for _ in 0..2 {
        let snapshot = Snapshot { time_limit: Duration::ZERO, ..take(&test) };
        let recorded = snapshot.record_changes(&test.workspace, &|_| true);
        assert_eq!(recorded.unwrap_err(), NoSnapshot::TimedOut);
    }
    // One entry is enough for both commands.
    assert_eq!(undo(&test), [test.workspace.cwd()]);
    assert_eq!(undo(&test), Vec::<PathBuf>::new());
    assert_eq!(test.read("a"), "A");
}

/// A later snapshot copies only the files that have changed.
#[test]
fn files_are_copied_once() {
    let test = workspace_with(&tree([("a", file("12345678", 0o644)), ("b", file("123", 0o644))]));
    let bytes = |snapshot: &Snapshot| snapshot.copies.byte_count();
    wait_until_settled();
    assert_eq!(bytes(&take(&test)), 11);
    assert_eq!(bytes(&take(&test)), 11);
    fs::write(test.path("b"), "1234").unwrap();
    assert_eq!(bytes(&take(&test)), 15);
}

/// A project may try to make the agent wait for ever.
#[test]
fn pipes_in_a_repository_are_not_waited_for() {
    let test = workspace_with(&tree([("a", file("a", 0o644)), (".git/objects", dir(0o755))]));
    fs::create_dir(test.path(".git/refs")).unwrap();
    for name in [".git/HEAD", ".git/refs/stash", "pipe"] {
        test.fifo(name);
    }
    let snapshot = take(&test);
    fs::write(test.path("a"), "changed").unwrap();
    assert_eq!(record(&snapshot, &test).paths().count(), 1);
}

#[test]
fn a_new_commit_is_reported() {
    let test = workspace_with(&tree([("a", file("a", 0o644))]));
    let git = |args: &str| {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(args.split(' '))
            .current_dir(test.workspace.cwd())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git("init -q");
    git("add a");
    git("commit -qm one");
    let commands = [
        ("status", false),
        ("add a", false),
        ("commit -q --allow-empty -m two", true),
        ("checkout -q -b other", true),
        ("branch -q unused", false),
        ("stash -q", true),
    ];
    for (args, is_expected) in commands {
        fs::write(test.path("a"), args).unwrap();
        let snapshot = take(&test);
        git(args);
        assert_eq!(record(&snapshot, &test).has_other_commit, is_expected, "{args}");
    }
}
