//! Tests that the changes of a preview are applied completely or not at all, and are undone
//! completely.

mod backups;
mod faults;
mod foreign_changes;
mod trees;

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use self::trees::{Node, Tree, any_tree, dir, file, link, tree};
use super::{FileBytesAndMode, PathChange, apply_all_or_none, assess_crash_protection};
use crate::error::{ErrorCode, ToolError};
use crate::files::Durability;
use crate::files::remove::inspect_entry;
use crate::files::rewind::RewindPlan;
use crate::files::state::journal::recover_unlocked_journals;
use crate::files::system::simulated_file_system::{self, SimulatedFileSystem};
use crate::files::undo::UndoPlan;
use crate::files::workspace::testing::{
    TestWorkspace, run_without_privileges, test_workspace_with_undo,
};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::limits::{MAX_FILES_PER_EDIT_CALL, MAX_PATHS_PER_APPLIED_PREVIEW, MAX_PREVIEWED_BYTES};

/// Returns a workspace that contains a tree.
fn workspace_with(tree: &Tree) -> TestWorkspace {
    let workspace = test_workspace_with_undo(&[]);
    trees::create(workspace.workspace.cwd(), tree);
    workspace
}

fn read(test: &TestWorkspace) -> Tree {
    trees::read(test.workspace.cwd())
}

fn apply(workspace: &Workspace, changes: &[PathChange]) -> Result<(), ToolError> {
    let protection = assess_crash_protection(workspace, changes)?;
    apply_all_or_none(workspace, changes, &protection, &mut |_| {})
}

fn undo(workspace: &Workspace) -> Result<(), ToolError> {
    let plan = UndoPlan::for_last_session_change(workspace)?;
    assert_eq!(plan.skipped().collect::<Vec<_>>(), Vec::<&_>::new());
    plan.run(workspace).map(drop)
}

fn journals(test: &TestWorkspace) -> usize {
    fs::read_dir(test.outer_folder().join("state/journal")).map_or(0, Iterator::count)
}

/// Applies the changes from one tree to another, compares the result, and undoes them.
fn check(old: &Tree, new: &Tree) {
    let test = workspace_with(old);
    let changes = trees::changes(&test.workspace, old, new);
    apply(&test.workspace, &changes).unwrap();
    assert_eq!(read(&test), trees::expected_tree_after_changes(old, new));
    assert_eq!(journals(&test), 0);
    if !changes.is_empty() {
        undo(&test.workspace).unwrap();
    }
    assert_eq!(read(&test), *old);
    let undone = UndoPlan::for_last_session_change(&test.workspace).unwrap_err();
    assert_eq!(undone.code(), Some(ErrorCode::NotFound));
}

/// Returns entries of each kind at the path `a`.
fn entries_of_each_kind() -> Vec<Tree> {
    vec![
        tree([]),
        tree([("a", file("text", 0o644))]),
        tree([("a", file("text", 0o755))]),
        tree([("a", file("other", 0o444))]),
        tree([("a", link("b"))]),
        tree([("a", link("/"))]),
        tree([("a", dir(0o700))]),
        tree([("a/b", file("b", 0o600)), ("a/deep/c", link("../b"))]),
        tree([("a/b/c", file("c", 0o644)), ("a/deep", dir(0o711))]),
    ]
}

#[test]
fn each_kind_of_entry_becomes_each_other_kind_and_back() {
    run_without_privileges(|| {
        for old in entries_of_each_kind() {
            for new in entries_of_each_kind() {
                println!("{old:?} -> {new:?}");
                check(&old, &new);
            }
        }
    });
}

/// The last change may have replaced a folder by a link to another folder, or the reverse.
#[test]
fn a_rewind_undoes_changes_of_entries_that_changed_their_kind_twice() {
    run_without_privileges(|| {
        for first in entries_of_each_kind() {
            for second in entries_of_each_kind() {
                println!("{first:?} -> {second:?}");
                rewind_to_prompt(&[tree([]), first.clone(), second], 0);
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_tree_becomes_each_other_tree_and_back(
        old in any_tree(),
        new in any_tree(),
    ) {
        run_without_privileges(|| check(&old, &new));
    }

    #[test]
    fn changes_of_several_prompts_are_rewound_in_a_later_process(
        trees in prop::collection::vec(any_tree(), 2..5),
        prompt in any::<prop::sample::Index>(),
    ) {
        run_without_privileges(|| rewind_to_prompt(&trees, prompt.index(trees.len() - 1)));
    }

    #[test]
    fn a_rewind_keeps_a_file_of_another_program_and_restores_all_other_folders(
        trees in prop::collection::vec(any_tree(), 2..5),
        prompt in any::<prop::sample::Index>(),
        foreign in any::<prop::sample::Index>(),
    ) {
        let prompt = prompt.index(trees.len() - 1);
        run_without_privileges(|| rewind_after_foreign_write(&trees, prompt, foreign));
    }
}

/// A session whose prompts have each turned one tree into the next.
struct Session {
    test: TestWorkspace,
    workspace: Workspace,
    /// The tree before each prompt, and the tree at the end.
    states: Vec<Tree>,
}

impl Session {
    fn new(trees: &[Tree]) -> Self {
        let test = workspace_with(&trees[0]);
        let (workspace, mut states) = (Self::open(&test), vec![trees[0].clone()]);
        for (number, new) in trees[1..].iter().enumerate() {
            workspace.set_prompt_number(number as u32 + 1);
            let old = &states[number];
            apply(&workspace, &trees::changes(&workspace, old, new)).unwrap();
            states.push(trees::expected_tree_after_changes(old, new));
        }
        drop(workspace);
        // A later process continues the session.
        let workspace = Self::open(&test);
        Self { test, workspace, states }
    }

    fn open(test: &TestWorkspace) -> Workspace {
        let workspace = Workspace::new(test.path("."), Vec::new()).unwrap();
        let workspace = workspace.with_durability(Durability::System);
        workspace.with_state_folder(&test.outer_folder().join("state")).with_session_id("session")
    }

    fn rewind(&self, prompt: usize) -> RewindPlan {
        RewindPlan::before_prompt(&self.workspace, prompt as u32 + 1).unwrap()
    }
}

fn rewind_to_prompt(trees: &[Tree], prompt: usize) {
    let session = Session::new(trees);
    let (before, wanted) = (read(&session.test), &session.states[prompt]);
    let plan = session.rewind(prompt);
    assert_eq!(plan.kept(), []);
    let changes = plan.changes().to_vec();
    let folder = session.test.path("");
    let is_listed = |path: &Path| changes.iter().any(|it| folder.join(path).starts_with(&it.path));
    // The plan lists neither directories nor modes.
    let content = |tree: &Tree, path: &Path| match tree.get(path) {
        Some(Node::File { bytes, .. }) => Some(bytes.clone()),
        Some(Node::Link(target)) => Some(target.as_os_str().as_encoded_bytes().to_vec()),
        Some(Node::Directory { .. }) | None => None,
    };
    for path in before.keys().chain(wanted.keys()) {
        let is_same = content(&before, path) == content(wanted, path);
        assert!(is_same || is_listed(path), "{path:?} is not in {changes:?}");
    }
    plan.run(&session.workspace).unwrap();
    assert_eq!(read(&session.test), *wanted);
}

/// Rewinds after another program has written to a file. Its content is kept. All files in other
/// folders are restored.
fn rewind_after_foreign_write(trees: &[Tree], prompt: usize, foreign: prop::sample::Index) {
    let session = Session::new(trees);
    let now = read(&session.test);
    let files: Vec<_> = now.iter().filter(|(_, node)| matches!(node, Node::File { .. })).collect();
    if files.is_empty() {
        return;
    }
    let path = files[foreign.index(files.len())].0;
    let full = session.test.path("").join(path);
    fs::remove_file(&full).unwrap();
    fs::write(&full, "theirs").unwrap();
    session.rewind(prompt).run(&session.workspace).unwrap();
    let elsewhere = |tree: &Tree| -> Tree {
        let top = path.iter().next();
        tree.clone().into_iter().filter(|(path, _)| path.iter().next() != top).collect()
    };
    let after = read(&session.test);
    assert_eq!(elsewhere(&after), elsewhere(&session.states[prompt]));
    let is_theirs = |node: &Node| matches!(node, Node::File { bytes, .. } if bytes == b"theirs");
    assert!(after.get(path).is_some_and(is_theirs), "{path:?} is lost: {after:?}");
}

/// Creates a path of a workspace from its text, as the caller does.
fn resolve(test: &TestWorkspace, path: &str) -> WorkspacePath {
    test.workspace.resolve_host_path(&test.path(path)).unwrap()
}

fn write(test: &TestWorkspace, path: &str, before: Option<(&str, u32)>, mode: u32) -> PathChange {
    let content = |(text, mode): (&str, u32)| FileBytesAndMode { bytes: text.into(), mode };
    let (before, after) = (before.map(content), content(("new", mode)));
    PathChange::Write { at: resolve(test, path), before, after }
}

fn remove(test: &TestWorkspace, path: &str) -> PathChange {
    PathChange::Remove(Box::new(inspect_entry(&test.workspace, &resolve(test, path)).unwrap()))
}

fn add_link(test: &TestWorkspace, path: &str, target: &str) -> PathChange {
    PathChange::AddLink { at: resolve(test, path), target: target.into() }
}

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn no_file_gets_a_set_user_id_bit_and_each_file_keeps_its_own() {
    let test = workspace_with(&tree([("old", file("old", 0o4755)), ("plain", file("old", 0o755))]));
    let changes = [
        write(&test, "old", Some(("old", 0o100_4755)), 0o100_4711),
        write(&test, "plain", Some(("old", 0o100_755)), 0o100_4755),
        write(&test, "new", None, 0o100_6754),
    ];
    apply(&test.workspace, &changes).unwrap();
    let modes = ["old", "plain", "new"].map(|path| mode(test.path(path)));
    assert_eq!(modes.map(|mode| format!("{mode:o}")), ["4711", "755", "754"]);
    undo(&test.workspace).unwrap();
    assert_eq!(mode(test.path("old")), 0o4755);
}

#[test]
fn a_file_written_in_place_gets_the_mode_and_both_are_undone() {
    let old = tree([("one", file("old", 0o644))]);
    for file_system in [SimulatedFileSystem::FullFeatured, SimulatedFileSystem::MountedFiles] {
        let test = workspace_with(&old);
        let hard_link = test.outer_folder().join("hard");
        fs::hard_link(test.path("one"), &hard_link).unwrap();
        simulated_file_system::run_on(file_system, || {
            let change = write(&test, "one", Some(("old", 0o644)), 0o600);
            apply(&test.workspace, &[change]).unwrap();
            assert_eq!(
                (fs::read_to_string(&hard_link).unwrap(), mode(hard_link.clone())),
                ("new".into(), 0o600)
            );
            undo(&test.workspace).unwrap();
            assert_eq!(
                (fs::read_to_string(&hard_link).unwrap(), mode(hard_link.clone())),
                ("old".into(), 0o644)
            );
        });
    }
}

/// In a preview, each name of a file is a separate file. So one call may write different contents
/// to two names, or remove one and write the other.
#[test]
fn several_changed_names_of_one_file_become_separate_files() {
    let old = tree([("one", file("old", 0o644))]);
    for (new, is_removed) in [
        (tree([("one", file("1", 0o644)), ("two", file("2", 0o600))]), false),
        (tree([("one", file("1", 0o644)), ("two", file("1", 0o644))]), false),
        (tree([("one", file("1", 0o644))]), true),
    ] {
        let test = workspace_with(&old);
        fs::hard_link(test.path("one"), test.path("two")).unwrap();
        let old = read(&test);
        let changes = trees::changes(&test.workspace, &old, &new);
        assert_eq!(changes.len(), 2);
        apply(&test.workspace, &changes).unwrap();
        assert_eq!(read(&test), new);
        if is_removed {
            // The removed name keeps the old content, whatever is written to the other name later.
            let undo_folder = test.outer_folder().join("state/undo");
            let is_old = |node: &Node| matches!(node, Node::File { bytes, .. } if bytes == b"old");
            assert_eq!(trees::read(&undo_folder).values().filter(|node| is_old(node)).count(), 2);
        }
        undo(&test.workspace).unwrap();
        assert_eq!(read(&test), old);
    }
}

#[test]
fn no_path_is_followed_through_a_link() {
    let test = workspace_with(&tree([("dir/file", file("old", 0o644))]));
    let outside = test.outer_folder().join("root-evil");
    fs::write(outside.join("file"), "old").unwrap();
    symlink(&outside, test.path("out")).unwrap();
    symlink("dir", test.path("in")).unwrap();
    let before = (read(&test), trees::read(&outside));
    for (parent, code) in [("out", ErrorCode::OutsideRoots), ("in", ErrorCode::ChangedSincePreview)]
    {
        let path = |name: &str| format!("{parent}/{name}");
        let at = resolve(&test, &path("new"));
        for change in [
            write(&test, &path("file"), Some(("old", 0o644)), 0o644),
            write(&test, &path("new"), None, 0o644),
            write(&test, &path("new/new"), None, 0o644),
            add_link(&test, &path("new"), "x"),
            PathChange::AddDirectory { at, mode: 0o755 },
        ] {
            let error = apply(&test.workspace, &[change]).unwrap_err();
            assert_eq!(error.code(), Some(code), "{error}");
        }
    }
    for path in ["in", "out"] {
        // A link in place of a file is not followed either.
        let error = apply(&test.workspace, &[write(&test, path, Some(("old", 0o644)), 0o644)]);
        assert!(error.is_err(), "{path}");
    }
    assert_eq!((read(&test), trees::read(&outside)), before);
}

#[test]
fn a_path_that_exists_already_is_detected_before_the_permission_request() {
    let test = workspace_with(&tree([("a", file("old", 0o644)), ("b/c", link("x"))]));
    let directory = PathChange::AddDirectory { at: resolve(&test, "b"), mode: 0o755 };
    for change in [write(&test, "a", None, 0o644), add_link(&test, "b/c", "y"), directory] {
        let error = assess_crash_protection(&test.workspace, &[change]).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview), "{error}");
    }
}

#[test]
fn contradictory_changes_are_rejected() {
    let old = tree([("a", file("old", 0o644)), ("dir/deep/x", file("x", 0o644))]);
    let test = workspace_with(&old);
    let old_a = || Some(("old", 0o644));
    for changes in [
        vec![write(&test, "a", old_a(), 0o644), write(&test, "a", old_a(), 0o600)],
        vec![write(&test, "b", None, 0o644), add_link(&test, "b", "x")],
        vec![write(&test, "b", None, 0o644), write(&test, "b/c", None, 0o644)],
        vec![write(&test, "b/c", None, 0o644), add_link(&test, "b", "x")],
        vec![write(&test, "a", old_a(), 0o644), write(&test, "a/b", None, 0o644)],
        vec![remove(&test, "a"), write(&test, "a", old_a(), 0o644)],
        vec![remove(&test, "a"), remove(&test, "a")],
        vec![remove(&test, "dir"), remove(&test, "dir/deep/x")],
        vec![remove(&test, "dir/deep/x"), remove(&test, "dir")],
        vec![remove(&test, "dir"), write(&test, "dir/deep/x", Some(("x", 0o644)), 0o644)],
    ] {
        let error = apply(&test.workspace, &changes).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview), "{changes:?}");
        assert_eq!(read(&test), old, "{changes:?}");
    }
}

/// A folder may be removed and created again with other content, and its parents may be listed in
/// any order.
#[test]
fn changes_may_have_any_order() {
    let old = tree([("a/b/c", file("old", 0o644)), ("a/d", link("x"))]);
    let test = workspace_with(&old);
    let directory = |path: &str, mode| PathChange::AddDirectory { at: resolve(&test, path), mode };
    let changes = [
        write(&test, "a/b/new", None, 0o644),
        add_link(&test, "a/d/e", "y"),
        directory("a/b", 0o700),
        directory("a", 0o711),
        remove(&test, "a"),
    ];
    apply(&test.workspace, &changes).unwrap();
    let new = tree([
        ("a", dir(0o711)),
        ("a/b", dir(0o700)),
        ("a/b/new", file("new", 0o644)),
        ("a/d/e", link("y")),
    ]);
    assert_eq!(read(&test), new);
    undo(&test.workspace).unwrap();
    assert_eq!(read(&test), old);
}

#[test]
fn calls_that_are_too_large_are_rejected() {
    let test = workspace_with(&tree([]));
    let change = |number| write(&test, &format!("{number}"), None, 0o644);
    let many: Vec<_> = (0..=MAX_PATHS_PER_APPLIED_PREVIEW).map(change).collect();
    let deep = |number| write(&test, &format!("{number}/a/b/c/d"), None, 0o644);
    let deep: Vec<_> = (0..MAX_PATHS_PER_APPLIED_PREVIEW / 2).map(deep).collect();
    let bytes = vec![0; usize::try_from(MAX_PREVIEWED_BYTES).unwrap() + 1];
    let after = FileBytesAndMode { bytes, mode: 0o644 };
    let large = vec![PathChange::Write { at: resolve(&test, "large"), before: None, after }];
    for changes in [many, deep, large] {
        let error = apply(&test.workspace, &changes).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::TooLarge), "{error}");
        assert_eq!(read(&test), tree([]));
    }
}

#[test]
fn many_paths_in_many_folders_need_few_open_files() {
    let count = MAX_PATHS_PER_APPLIED_PREVIEW / 4;
    assert!(count > MAX_FILES_PER_EDIT_CALL);
    let mut old = Tree::new();
    let mut new = Tree::new();
    for number in 0..count {
        let folder = PathBuf::from(format!("{number}"));
        old.insert(folder.clone(), dir(0o755));
        new.insert(folder.clone(), dir(0o755));
        old.insert(folder.join("file"), file("old", 0o644));
        new.insert(folder.join("file"), file("new", 0o600));
        old.insert(folder.join("gone"), file("old", 0o644));
        new.insert(folder.join("dir"), dir(0o700));
        new.insert(folder.join("dir/link"), link("x"));
    }
    let test = workspace_with(&old);
    let changes = trees::changes(&test.workspace, &old, &new);
    assert_eq!(changes.len(), 4 * count);
    let most = Rc::new(Cell::new(0));
    let seen = most.clone();
    let hook = move |_| {
        seen.set(seen.get().max(fs::read_dir("/proc/self/fd")?.count()));
        Ok(())
    };
    let (applied, _) = simulated_file_system::run_with_hook(Box::new(hook.clone()), || {
        apply(&test.workspace, &changes)
    });
    applied.unwrap();
    assert!(read(&test) == new);
    let (undone, _) =
        simulated_file_system::run_with_hook(Box::new(hook), || undo(&test.workspace));
    undone.unwrap();
    assert!(read(&test) == old);
    assert!(most.get() < 200, "{} files were open", most.get());
}
