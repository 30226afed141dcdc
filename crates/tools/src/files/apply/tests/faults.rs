//! Tests that interrupt the application of changes: by a kill, by errors of the file system, and by
//! changes of another program.

use std::io;

use pretty_assertions::assert_eq;

use super::*;

/// Two trees that differ in each possible way.
pub(super) fn rich_trees() -> (Tree, Tree) {
    let old = tree([
        ("chmod", file("same", 0o644)),
        ("dir-to-file/deep/x", file("x", 0o600)),
        ("dir-to-link/x", file("x", 0o644)),
        ("file-to-dir", file("f", 0o755)),
        ("file-to-link", file("f", 0o644)),
        ("gone", file("gone", 0o640)),
        ("gone-dir/deep/y", file("y", 0o644)),
        ("kept/x", file("x", 0o644)),
        ("link", link("chmod")),
        ("link-to-dir", link("kept")),
        ("link-to-file", link("chmod")),
        ("linked", file("many old bytes", 0o644)),
        ("plain", file("old", 0o644)),
        ("read-only", file("old", 0o444)),
    ]);
    let new = tree([
        ("added", file("added", 0o664)),
        ("added-dir/deep/z", file("z", 0o600)),
        ("added-empty", dir(0o711)),
        ("added-link", link("nowhere")),
        ("chmod", file("same", 0o755)),
        ("dir-to-file", file("d", 0o644)),
        ("dir-to-link", link("kept")),
        ("file-to-dir/deep/x", file("x", 0o644)),
        ("file-to-link", link("/")),
        ("kept/x", file("x", 0o644)),
        ("kept/y", file("y", 0o644)),
        ("link", link("plain")),
        ("link-to-dir/x", file("new x", 0o644)),
        ("link-to-file", file("l", 0o600)),
        ("linked", file("few bytes", 0o444)),
        ("plain", file("new", 0o644)),
        ("read-only", file("new", 0o444)),
    ]);
    (old, new)
}

/// Returns a workspace that contains a tree. The file `linked` has another hard link outside of the
/// project folder.
pub(super) fn workspace_with_hard_link(tree: &Tree) -> TestWorkspace {
    let test = workspace_with(tree);
    drop(fs::hard_link(test.path("linked"), test.outer_folder().join("hard")));
    test
}

/// Applies the changes of a test, and calls `hook` before each change of a file. Returns the result
/// and the number of these changes.
pub(super) fn apply_with_hook(
    test: &TestWorkspace,
    changes: &[PathChange],
    hook: impl FnMut(usize) -> io::Result<()> + 'static,
) -> (Result<(), ToolError>, usize) {
    simulated_file_system::run_with_hook(Box::new(hook), || apply(&test.workspace, changes))
}

/// Kills the application before a step: all steps from this one on fail.
pub(super) fn apply_and_kill(
    test: &TestWorkspace,
    changes: &[PathChange],
    kill: usize,
) -> (Result<(), ToolError>, usize) {
    apply_with_hook(test, changes, move |step| match step < kill {
        true => Ok(()),
        false => Err(io::Error::other("killed")),
    })
}

pub(super) fn recover(test: &TestWorkspace) {
    recover_unlocked_journals(&test.outer_folder().join("state/journal"));
    assert_eq!(journals(test), 0);
}

/// Asserts that the hard link has the same content and mode as the file in the tree. A read-only
/// file is replaced, so that its hard link keeps the old content.
fn require_same_hard_link(test: &TestWorkspace, old: &Tree) {
    let [inside, outside] = [test.path("linked"), test.outer_folder().join("hard")];
    if old.get(Path::new("linked")) == rich_trees().0.get(Path::new("linked")) {
        assert_eq!(fs::read(&inside).unwrap(), fs::read(&outside).unwrap());
        assert_eq!(fs::metadata(inside).unwrap().mode(), fs::metadata(outside).unwrap().mode());
    }
}

/// Kills the application before each of its steps, and starts again. All paths must be old or all
/// must be new.
fn kill_at_each_step(old: &Tree, new: &Tree) {
    let (expected, mut was_new) = (trees::expected_tree_after_changes(old, new), false);
    for kill in 0.. {
        let test = workspace_with_hard_link(old);
        let changes = trees::changes(&test.workspace, old, new);
        let (result, steps) = apply_and_kill(&test, &changes, kill);
        recover(&test);
        let now = read(&test);
        let is_new = now == expected;
        // If all steps fail from this step on, but the process lives, the result is true too.
        assert_eq!(
            is_new,
            result.is_ok() || now == *old && *old == expected,
            "{result:?} at {kill}"
        );
        if !is_new {
            assert_eq!(now, *old, "killed at step {kill}");
        }
        assert!(is_new || !was_new, "killed at step {kill}");
        require_same_hard_link(&test, old);
        was_new = is_new;
        if steps <= kill {
            break;
        }
    }
    assert!(was_new);
}

#[test]
fn after_a_kill_at_any_step_all_paths_are_old_or_all_are_new() {
    let (old, new) = rich_trees();
    run_without_privileges(|| {
        kill_at_each_step(&old, &new);
        kill_at_each_step(&new, &old);
    });
}

#[test]
fn a_kill_on_a_file_system_with_plain_renames_has_the_same_result() {
    let (old, new) = rich_trees();
    run_without_privileges(|| {
        simulated_file_system::run_on(SimulatedFileSystem::PlainRenameOnly, || {
            kill_at_each_step(&old, &new);
        });
    });
}

/// Lets one or two steps fail, starting with step `first`. All paths must be old or all must be
/// new.
fn fail_at(old: &Tree, new: &Tree, first: usize, second: Option<usize>) -> usize {
    let test = workspace_with_hard_link(old);
    let changes = trees::changes(&test.workspace, old, new);
    let fails = move |step| step == first || Some(step) == second;
    let (result, steps) = apply_with_hook(&test, &changes, move |step| match fails(step) {
        true => Err(io::Error::other("simulated error")),
        false => Ok(()),
    });
    let expected = trees::expected_tree_after_changes(old, new);
    let without_temporaries = |tree: Tree| -> Tree {
        let is_temporary = |path: &Path| path.as_os_str().as_encoded_bytes().starts_with(b".acp-");
        let is_kept = |path: &Path| !path.iter().any(|name| is_temporary(Path::new(name)));
        tree.into_iter().filter(|(path, _)| is_kept(path)).collect()
    };
    let wanted = if result.is_ok() { &expected } else { old };
    let of = || format!("{result:?} after errors at {first} and {second:?}");
    if second.is_none() {
        assert_eq!(without_temporaries(read(&test)), *wanted, "{}", of());
    } else if without_temporaries(read(&test)) != *wanted {
        assert!(format!("{result:?}").contains("could not be restored"), "{}", of());
    }
    // The next start completes a failed rollback.
    recover(&test);
    assert_eq!(read(&test), *wanted, "{}", of());
    require_same_hard_link(&test, old);
    steps
}

#[test]
fn after_an_error_at_any_step_all_paths_are_old_or_all_are_new() {
    let (old, new) = rich_trees();
    run_without_privileges(|| {
        let steps = fail_at(&old, &new, usize::MAX, None);
        for step in 0..steps {
            fail_at(&old, &new, step, None);
        }
    });
}

/// The second error prevents the restoration of the file whose write the first error interrupted.
#[test]
fn a_file_that_cannot_be_restored_at_once_is_named() {
    let (old, new) = rich_trees();
    run_without_privileges(|| {
        let steps = fail_at(&old, &new, usize::MAX, None);
        for step in 0..steps {
            fail_at(&old, &new, step, Some(step + 1));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_a_kill_in_any_tree_all_paths_are_old_or_all_are_new(old in any_tree(), new in any_tree()) {
        run_without_privileges(|| kill_at_each_step(&old, &new));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_second_error_during_the_rollback_is_repaired_by_the_next_start(
        first in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
    ) {
        let (old, new) = rich_trees();
        run_without_privileges(|| {
            let first = first.index(fail_at(&old, &new, usize::MAX, None));
            let steps = fail_at(&old, &new, first, None);
            fail_at(&old, &new, first, Some(second.index(steps)));
        });
    }
}

/// Lets one step of an undo fail. The undo restores all paths or none, and can then be repeated.
fn fail_undo_at(old: &Tree, new: &Tree, fail: usize) -> usize {
    let test = workspace_with(old);
    let changes = trees::changes(&test.workspace, old, new);
    apply(&test.workspace, &changes).unwrap();
    let applied = read(&test);
    let hook = move |step| match step == fail {
        true => Err(io::Error::other("simulated error")),
        false => Ok(()),
    };
    let (undone, steps) =
        simulated_file_system::run_with_hook(Box::new(hook), || undo(&test.workspace));
    // The next start removes a temporary file that could not be removed.
    recover(&test);
    let (mut now, wanted) = (read(&test), if undone.is_ok() { old } else { &applied });
    // A created directory that cannot be removed stays, but it must be empty.
    now.retain(|path, node| !matches!(node, Node::Directory { .. }) || wanted.contains_key(path));
    assert_eq!(now, *wanted, "{undone:?} after an error at {fail}");
    if undone.is_err() {
        undo(&test.workspace).unwrap();
        assert_eq!(read(&test), *old, "after an error at {fail}");
    }
    steps
}

#[test]
fn an_undo_after_an_error_at_any_step_restores_all_paths_or_none() {
    let (old, new) = rich_trees();
    run_without_privileges(|| {
        for (old, new) in [(&old, &new), (&new, &old)] {
            let steps = fail_undo_at(old, new, usize::MAX);
            for step in 0..steps {
                fail_undo_at(old, new, step);
            }
        }
    });
}

#[test]
fn after_a_kill_a_call_with_many_paths_is_reverted_completely() {
    let old = tree([("gone", file("gone", 0o644))]);
    let mut new = Tree::new();
    new.extend((0..1_000).map(|number| (PathBuf::from(format!("{number}")), file("new", 0o644))));
    let test = workspace_with(&old);
    let changes = trees::changes(&test.workspace, &old, &new);
    let added = test.path("999");
    // The process is killed when all files are in place.
    let (_, _) = apply_with_hook(&test, &changes, move |_| match added.exists() {
        true => Err(io::Error::other("killed")),
        false => Ok(()),
    });
    assert!(test.path("0").exists() && !test.path("gone").exists());
    recover(&test);
    assert_eq!(read(&test), old);
}
