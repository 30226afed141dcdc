//! Tests that a change of another program, before or during the application, is never lost, and
//! that all other paths are old or all are new.

use std::io;

use pretty_assertions::assert_eq;

use super::faults::{
    apply_and_kill, apply_with_hook, recover, rich_trees, workspace_with_hard_link,
};
use super::*;

/// A change of one path by another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForeignChange {
    Write,
    Replace,
    ReplaceByLink,
    Delete,
    CreateDirectory,
    MoveAway,
    ChangeMode,
}

const FOREIGN_CHANGES: [ForeignChange; 7] = [
    ForeignChange::Write,
    ForeignChange::Replace,
    ForeignChange::ReplaceByLink,
    ForeignChange::Delete,
    ForeignChange::CreateDirectory,
    ForeignChange::MoveAway,
    ForeignChange::ChangeMode,
];

const THEIRS: &[u8] = b"written by another program";

impl ForeignChange {
    /// Changes a path. `beside` is a path on the same file system that does not exist. Fails if the
    /// change is impossible.
    fn perform(self, path: &Path, beside: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap();
        if parent.canonicalize()? != parent {
            // The change would affect another path.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let kind = path.symlink_metadata().map(|found| found.file_type()).ok();
        let (is_file, is_dir) =
            (kind.is_some_and(|it| it.is_file()), kind.is_some_and(|it| it.is_dir()));
        match self {
            Self::Write if kind.is_some() && !is_file => Err(io::ErrorKind::InvalidInput.into()),
            Self::Write => fs::write(path, THEIRS),
            Self::Replace => {
                fs::write(beside, THEIRS)?;
                fs::rename(beside, path).inspect_err(|_| fs::remove_file(beside).unwrap())
            }
            Self::ReplaceByLink => {
                symlink("/", beside)?;
                fs::rename(beside, path).inspect_err(|_| fs::remove_file(beside).unwrap())
            }
            Self::Delete if is_dir => fs::remove_dir_all(path),
            Self::Delete => fs::remove_file(path),
            Self::CreateDirectory => fs::create_dir(path),
            Self::MoveAway => fs::rename(path, beside),
            Self::ChangeMode if is_file => fs::set_permissions(path, Permissions::from_mode(0o640)),
            Self::ChangeMode => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn writes_content(self) -> bool {
        matches!(self, Self::Write | Self::Replace)
    }
}

/// Returns all paths of two trees.
fn paths(old: &Tree, new: &Tree) -> Vec<PathBuf> {
    let mut paths: Vec<_> = old.keys().chain(new.keys()).cloned().collect();
    paths.sort();
    paths.dedup();
    paths
}

fn are_related(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Returns the entries of a tree that do not contain `path` and are not in it.
fn unrelated(tree: &Tree, path: &Path) -> Tree {
    tree.clone().into_iter().filter(|(other, _)| !are_related(other, path)).collect()
}

/// Returns the temporary entries at the top of a tree, and all other entries.
fn without_temporaries(tree: Tree) -> (Tree, Tree) {
    let is_temporary = |path: &PathBuf| path.as_os_str().as_encoded_bytes().starts_with(b".acp-");
    tree.into_iter().partition(|(path, _)| is_temporary(path))
}

fn has_theirs(folder: &Path) -> bool {
    let is_theirs = |node: &Node| matches!(node, Node::File { bytes, .. } if bytes == THEIRS);
    trees::read(folder).values().any(is_theirs)
}

/// Returns whether a change adds an entry. Otherwise, it changes or removes an existing entry.
fn is_addition(change: &PathChange) -> bool {
    match change {
        PathChange::Write { before, .. } => before.is_none(),
        PathChange::AddLink { .. } | PathChange::AddDirectory { .. } => true,
        PathChange::Remove(_) => false,
    }
}

fn path_of(change: &PathChange) -> &Path {
    match change {
        PathChange::Write { at, .. }
        | PathChange::AddLink { at, .. }
        | PathChange::AddDirectory { at, .. } => at.path_in_root(),
        PathChange::Remove(found) => found.entry.path.path_in_root(),
    }
}

fn change_before_applying(old: &Tree, new: &Tree, path: &Path, foreign: ForeignChange) {
    let test = workspace_with_hard_link(old);
    let changes = trees::changes(&test.workspace, old, new);
    let full = test.path("").join(path);
    if foreign.perform(&full, &test.outer_folder().join("beside")).is_err() {
        return;
    }
    let theirs = read(&test);
    let what = format!("{foreign:?} of {path:?}");
    match apply(&test.workspace, &changes) {
        Err(error) => {
            let code = error.code();
            // A folder that was replaced by a link leads out of the project folder.
            let is_outside =
                code == Some(ErrorCode::OutsideRoots) && foreign == ForeignChange::ReplaceByLink;
            assert!(is_outside || code == Some(ErrorCode::ChangedSincePreview), "{what}: {error}");
            assert_eq!(read(&test), theirs, "{what}");
            assert_eq!(journals(&test), 0);
        }
        Ok(()) => {
            let expected = trees::expected_tree_after_changes(old, new);
            assert_eq!(unrelated(&read(&test), path), unrelated(&expected, path), "{what}");
            assert!(!foreign.writes_content() || has_theirs(test.outer_folder()), "{what}");
            let mut related = changes.iter().filter(|change| are_related(path_of(change), path));
            // The mode of a removed file is not compared.
            let is_removed = related.clone().any(|it| matches!(it, PathChange::Remove(_)));
            let is_mode = foreign == ForeignChange::ChangeMode && is_removed;
            let is_inside = |change| is_addition(change) && path_of(change) != path;
            assert!(is_mode || related.all(is_inside), "{what}");
        }
    }
}

#[test]
fn nothing_is_applied_if_another_program_has_changed_a_path() {
    let (old, new) = rich_trees();
    run_without_privileges(|| {
        for path in paths(&old, &new) {
            for foreign in FOREIGN_CHANGES {
                change_before_applying(&old, &new, &path, foreign);
            }
        }
    });
}

/// Changes a path before a step of the application. Returns the number of steps.
fn change_while_applying(
    (old, new): (&Tree, &Tree),
    path: &Path,
    foreign: ForeignChange,
    at_step: usize,
) -> usize {
    let test = workspace_with_hard_link(old);
    let changes = trees::changes(&test.workspace, old, new);
    let (full, beside) = (test.path("").join(path), test.outer_folder().join("beside"));
    let done = Rc::new(Cell::new(false));
    let flag = done.clone();
    let (result, steps) = apply_with_hook(&test, &changes, move |step| {
        if step == at_step {
            flag.set(foreign.perform(&full, &beside).is_ok());
        }
        Ok(())
    });
    let what = format!("{foreign:?} of {path:?} at step {at_step}: {result:?}");
    let expected = trees::expected_tree_after_changes(old, new);
    let wanted = if result.is_ok() { &expected } else { old };
    let (left, now) = without_temporaries(read(&test));
    assert_eq!(unrelated(&now, path), unrelated(wanted, path), "{what}");
    assert!(left.is_empty() || what.contains("could not be restored"), "{what}: {left:?}");
    let is_lost = foreign.writes_content() && done.get() && !has_theirs(test.outer_folder());
    // No system has a conditional write, so a write at the same time as a write in place is lost.
    assert!(!is_lost || path == Path::new("linked"), "{what}");
    recover(&test);
    assert_eq!(unrelated(&read(&test), path).len(), unrelated(wanted, path).len() + left.len());
    steps
}

/// Changes a path after the application was killed before a step, and then starts again.
fn change_after_a_kill(
    (old, new): (&Tree, &Tree),
    path: &Path,
    foreign: ForeignChange,
    kill: usize,
) -> usize {
    let test = workspace_with_hard_link(old);
    let changes = trees::changes(&test.workspace, old, new);
    let (_, steps) = apply_and_kill(&test, &changes, kill);
    let (full, beside) = (test.path("").join(path), test.outer_folder().join("beside"));
    let is_done = foreign.perform(&full, &beside).is_ok();
    let kept = full.symlink_metadata().is_ok().then(|| trees::read_entry(&full));
    recover_unlocked_journals(&test.outer_folder().join("state/journal"));
    // If a folder is missing, the journal is kept for a later start.
    let keeps_folders = matches!(
        foreign,
        ForeignChange::Write | ForeignChange::CreateDirectory | ForeignChange::ChangeMode
    );
    assert!(!keeps_folders || journals(&test) == 0);
    let what = format!("{foreign:?} of {path:?} after a kill at step {kill}");
    let (_, now) = without_temporaries(read(&test));
    let is_new =
        unrelated(&now, path) == unrelated(&trees::expected_tree_after_changes(old, new), path);
    if !is_new {
        assert_eq!(unrelated(&now, path), unrelated(old, path), "{what}");
    }
    if is_done && foreign.writes_content() {
        assert_eq!(now.get(path), kept.as_ref(), "{what}");
    }
    steps
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_during_the_application_is_kept_and_all_other_paths_are_old_or_all_are_new(
        path in any::<prop::sample::Index>(),
        foreign in prop::sample::select(FOREIGN_CHANGES.to_vec()),
        step in any::<prop::sample::Index>(),
    ) {
        let (old, new) = rich_trees();
        let paths = paths(&old, &new);
        let path = &paths[path.index(paths.len())];
        run_without_privileges(|| {
            let steps = change_while_applying((&old, &new), path, foreign, usize::MAX);
            change_while_applying((&old, &new), path, foreign, step.index(steps));
        });
    }

    #[test]
    fn a_change_after_a_kill_is_kept_by_the_next_start(
        path in any::<prop::sample::Index>(),
        foreign in prop::sample::select(FOREIGN_CHANGES.to_vec()),
        kill in any::<prop::sample::Index>(),
    ) {
        let (old, new) = rich_trees();
        let paths = paths(&old, &new);
        let path = &paths[path.index(paths.len())];
        run_without_privileges(|| {
            let steps = change_after_a_kill((&old, &new), path, foreign, usize::MAX);
            change_after_a_kill((&old, &new), path, foreign, kill.index(steps));
        });
    }
}

#[test]
fn the_next_start_after_a_kill_keeps_a_new_folder_with_files_of_another_program() {
    let old = tree([("a", file("old", 0o644))]);
    let new = tree([("a", file("new", 0o644)), ("b/c", file("c", 0o644)), ("b/d", link("x"))]);
    let test = workspace_with(&old);
    let changes = trees::changes(&test.workspace, &old, &new);
    let last = test.path("b/c");
    // The process is killed when all paths are in place.
    let (result, _) = apply_with_hook(&test, &changes, move |_| match last.exists() {
        true => Err(io::Error::other("killed")),
        false => Ok(()),
    });
    result.unwrap_err();
    fs::write(test.path("b/e"), THEIRS).unwrap();
    recover(&test);
    let theirs = Node::File { bytes: THEIRS.to_vec(), mode: mode(test.path("b/e")) };
    let kept = tree([("a", file("old", 0o644)), ("b/e", theirs)]);
    assert_eq!(read(&test), kept);
}
