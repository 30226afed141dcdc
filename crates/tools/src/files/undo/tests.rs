//! Tests for late writes and the reports about them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use pretty_assertions::assert_eq;

use crate::files::state::late_writes::LateWrite;
use crate::files::system::simulated_file_system::{self, SimulatedFileSystem};
use crate::files::undo::UndoPlan;
use crate::files::workspace::testing::{TestWorkspace, test_workspace_with_undo};
use crate::files::write::{PreImage, atomic_write};
use crate::tool::Context;

/// Returns a workspace with a file that was replaced while another program had it open. Also
/// returns the open old file.
fn replaced_while_open() -> (TestWorkspace, File) {
    let tree = test_workspace_with_undo(&[("file", "old")]);
    let open = OpenOptions::new().write(true).open(tree.path("file")).unwrap();
    let seen = PreImage::Bytes(b"old".to_vec());
    atomic_write(&tree.workspace, &tree.resolve("file"), b"new", &seen).unwrap();
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
    UndoPlan::for_last_change(&tree.workspace).unwrap().run(&tree.workspace).unwrap();
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
    let undoing = UndoPlan::for_last_change(&tree.workspace).unwrap();
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
    assert_eq!(context.take_foreign_change_reports().await, [""; 0]);
    open.write_all_at(b"late", 0).unwrap();
    // Detect the late write before `take_foreign_change_reports` is called.
    workspace.detect_late_writes();
    let reports = context.take_foreign_change_reports().await;
    let [report] = &reports[..] else { panic!("{reports:?}") };
    assert!(report.starts_with("Another program wrote to file after it was replaced"), "{report}");
    assert!(report.contains("undoing that change restores it"), "{report}");
    workspace.undo_store().record_concurrent_write(&workspace.cwd().join("file"));
    let mixed = context.take_foreign_change_reports().await;
    assert!(mixed.len() == 1 && mixed[0].contains("may contain parts of both"), "{mixed:?}");
    assert_eq!(context.take_foreign_change_reports().await, [""; 0]);
    drop(outer);
}
