//! Tests for undone moves, late writes and the reports about them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use pretty_assertions::assert_eq;

use crate::files::remove::inspect_entry;
use crate::files::state::late_writes::LateWrite;
use crate::files::system::simulated_file_system::{self, SimulatedFileSystem};
use crate::files::undo::{REASON_CHANGED, UndoPlan};
use crate::files::workspace::testing::{TestWorkspace, test_workspace_with_undo};
use crate::files::write::{PreImage, atomic_write_if_unchanged};
use crate::note::Note;
use crate::tool::Context;

/// Returns a workspace with a file that was replaced while another program had it open. Also
/// returns the open old file.
fn replaced_while_open() -> (TestWorkspace, File) {
    let tree = test_workspace_with_undo(&[("file", "old")]);
    let open = OpenOptions::new().write(true).open(tree.path("file")).unwrap();
    let seen = PreImage::Bytes(b"old".to_vec());
    atomic_write_if_unchanged(&tree.workspace, &tree.resolve("file"), b"new", &seen).unwrap();
    (tree, open)
}

/// For each late write, returns the content of its backup, and whether the write can be undone.
fn late_write_notices(tree: &TestWorkspace) -> Vec<(Option<String>, bool)> {
    let notice = |late: LateWrite| {
        assert_eq!(late.path, tree.path("file"));
        let kept = late.backup.map(|kept| fs::read_to_string(kept).unwrap());
        (kept, late.can_be_undone)
    };
    tree.workspace.take_late_writes().into_iter().map(notice).collect()
}

fn undo(tree: &TestWorkspace) {
    UndoPlan::for_last_session_change(&tree.workspace).unwrap().run(&tree.workspace).unwrap();
}

#[test]
fn undo_restores_late_writes_without_exchange_support() {
    for file_system in [SimulatedFileSystem::FullFeatured, SimulatedFileSystem::PlainRenameOnly] {
        simulated_file_system::run_on(file_system, || {
            let (tree, open) = replaced_while_open();
            assert_eq!(late_write_notices(&tree), []);
            open.write_all_at(b"late", 0).unwrap();
            assert_eq!(
                late_write_notices(&tree),
                [(Some("late".to_owned()), true)],
                "{file_system:?}"
            );
            assert_eq!(late_write_notices(&tree), []);
            undo(&tree);
            assert_eq!(tree.read("file"), "late");
        });
    }
}

#[test]
fn a_late_write_after_its_undo_cannot_be_undone() {
    let (tree, open) = replaced_while_open();
    tree.write("file", "theirs");
    undo(&tree);
    open.write_all_at(b"late", 0).unwrap();
    assert_eq!(late_write_notices(&tree), [(Some("late".to_owned()), false)]);
    assert_eq!(tree.read("file"), "theirs");
}

#[test]
fn a_write_after_the_preview_of_an_undo_is_kept_and_reported() {
    let (tree, open) = replaced_while_open();
    let undoing = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
    open.write_all_at(b"late", 0).unwrap();
    undoing.run(&tree.workspace).unwrap();
    assert_eq!(tree.read("file"), "old");
    assert_eq!(late_write_notices(&tree), [(Some("late".to_owned()), false)]);
}

#[tokio::test]
async fn each_late_write_is_reported_once() {
    let (tree, open) = replaced_while_open();
    let TestWorkspace { workspace, outer } = tree;
    let workspace = Arc::new(workspace);
    let context = Context::new(workspace.clone());
    assert_eq!(context.take_concurrent_write_reports().await, [""; 0]);
    open.write_all_at(b"late", 0).unwrap();
    // Detect the late write before `take_concurrent_write_reports` is called.
    workspace.detect_late_writes();
    let reports = context.take_concurrent_write_reports().await;
    let [report] = &reports[..] else { panic!("{reports:?}") };
    assert!(report.starts_with("Another program wrote to file after it was replaced"), "{report}");
    assert!(report.contains("undoing that change restores it"), "{report}");
    workspace.undo_store().record_concurrent_write(&workspace.cwd().join("file"));
    let mixed = context.take_concurrent_write_reports().await;
    assert!(mixed.len() == 1 && mixed[0].contains("may contain parts of both"), "{mixed:?}");
    assert_eq!(context.take_concurrent_write_reports().await, [""; 0]);
    drop(outer);
}

/// Moves an entry, as a call does.
fn move_entry(tree: &TestWorkspace, from: &str, to: &str) {
    let found = inspect_entry(&tree.workspace, &tree.resolve(from)).unwrap();
    found.move_to(&tree.workspace, &tree.resolve(to)).unwrap();
}

#[test]
fn a_move_is_undone_only_if_the_moved_entry_has_the_new_name() {
    type Change = fn(&TestWorkspace);
    let cases: [(&str, Change, bool); 8] = [
        ("file", |_| {}, true),
        ("folder", |_| {}, true),
        ("folder", |tree| tree.write("moved/other", "new"), true),
        ("file", |tree| tree.write("moved", "other content"), false),
        ("file", |tree| replace_moved(tree, |path| fs::create_dir(path)), false),
        ("file", |tree| replace_moved(tree, |path| symlink("x", path)), false),
        ("folder", |tree| replace_moved(tree, |path| fs::write(path, "new")), false),
        (
            "folder",
            |tree| {
                // The old folder still exists, so the new folder has another inode.
                fs::rename(tree.path("moved"), tree.path("aside")).unwrap();
                fs::create_dir(tree.path("moved")).unwrap();
            },
            false,
        ),
    ];
    for (at, (from, change, is_undone)) in cases.into_iter().enumerate() {
        let tree = test_workspace_with_undo(&[("file", "old"), ("folder/a", "old")]);
        move_entry(&tree, from, "moved");
        change(&tree);
        let plan = UndoPlan::for_last_session_change(&tree.workspace).unwrap();
        let reasons: Vec<_> = plan.skipped().map(|skipped| skipped.reason.clone()).collect();
        let expected = if is_undone { vec![] } else { vec![Note::new(REASON_CHANGED)] };
        assert_eq!(reasons, expected, "case {at}");
        plan.run(&tree.workspace).unwrap();
        assert_eq!(tree.path(from).exists(), is_undone, "case {at}");
        assert_ne!(tree.path("moved").symlink_metadata().is_ok(), is_undone, "case {at}");
    }
}

fn replace_moved(tree: &TestWorkspace, create: fn(&Path) -> std::io::Result<()>) {
    let path = tree.path("moved");
    fs::rename(&path, tree.path("aside")).unwrap();
    create(&path).unwrap();
}

#[test]
fn a_link_is_moved_back_only_if_its_target_is_the_same() {
    for (target, is_undone) in [("file", true), ("other", false)] {
        let tree = test_workspace_with_undo(&[("file", "old")]);
        symlink("file", tree.path("link")).unwrap();
        move_entry(&tree, "link", "moved");
        fs::remove_file(tree.path("moved")).unwrap();
        symlink(target, tree.path("moved")).unwrap();
        undo(&tree);
        assert_eq!(tree.path("link").symlink_metadata().is_ok(), is_undone);
    }
}

#[test]
fn a_move_is_undone_after_later_changes_of_the_file_are_undone() {
    let tree = test_workspace_with_undo(&[("file", "old")]);
    move_entry(&tree, "file", "moved");
    let seen = PreImage::Bytes(b"old".to_vec());
    atomic_write_if_unchanged(&tree.workspace, &tree.resolve("moved"), b"new", &seen).unwrap();
    undo(&tree);
    undo(&tree);
    assert_eq!(tree.read("file"), "old");
}
