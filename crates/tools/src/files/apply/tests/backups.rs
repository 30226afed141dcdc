//! Tests for entries without a backup, and for undoing changes that another program has changed
//! since.

use pretty_assertions::assert_eq;

use super::faults::apply_with_hook;
use super::*;
use crate::files::workspace::testing::test_workspace;

/// Returns the paths that the next undo skips.
fn skipped(workspace: &Workspace) -> Vec<PathBuf> {
    let plan = UndoPlan::for_last_session_change(workspace).unwrap();
    plan.skipped().map(|it| it.path.clone()).collect()
}

fn undo_partly(workspace: &Workspace) {
    UndoPlan::for_last_session_change(workspace).unwrap().run(workspace).unwrap();
}

#[test]
fn without_a_state_folder_everything_is_applied_or_nothing() {
    let old = tree([("gone/x", file("x", 0o644)), ("plain", file("old", 0o644))]);
    let new = tree([("gone", link("x")), ("plain", file("new", 0o644)), ("z", dir(0o700))]);
    for is_changed in [true, false] {
        let test = test_workspace(&[]);
        trees::create(test.workspace.cwd(), &old);
        let changes = trees::changes(&test.workspace, &old, &new);
        if is_changed {
            let (gone, added) = (test.path("gone"), test.path("z"));
            let (result, _) = apply_with_hook(&test, &changes, move |_| {
                if !gone.exists() && !added.exists() {
                    fs::write(&added, "theirs")?;
                }
                Ok(())
            });
            let error = result.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview), "{error}");
            assert_eq!(fs::read(test.path("z")).unwrap(), b"theirs");
            fs::remove_file(test.path("z")).unwrap();
            assert_eq!(read(&test), old);
        } else {
            apply(&test.workspace, &changes).unwrap();
            assert_eq!(read(&test), new);
            let error = UndoPlan::for_last_session_change(&test.workspace).unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::NotFound));
        }
    }
}

/// Only files and links are copied to a state folder on another file system.
#[test]
fn an_entry_without_backup_is_removed_and_everything_else_is_undone() {
    let Ok(state) = tempfile::tempdir_in("/dev/shm") else {
        return eprintln!("skipped: there is no other file system in /dev/shm");
    };
    let old = tree([
        ("gone", file("gone", 0o640)),
        ("gone-dir/x", file("x", 0o644)),
        ("link", link("x")),
        ("plain", file("old", 0o600)),
        ("to-dir", file("f", 0o755)),
    ]);
    let new = tree([("plain", file("new", 0o644)), ("to-dir/x", file("x", 0o644))]);
    let test = test_workspace(&[]);
    trees::create(test.workspace.cwd(), &old);
    let workspace = Workspace::new(test.path("."), Vec::new()).unwrap();
    let workspace = workspace.with_state_folder(state.path());
    let root = workspace.open_dir(&workspace.resolve(".").unwrap()).unwrap();
    if workspace.undo_store().is_on_same_file_system(&root) {
        return eprintln!("skipped: /dev/shm is on the same file system");
    }
    let changes = trees::changes(&workspace, &old, &new);
    apply(&workspace, &changes).unwrap();
    assert_eq!(read(&test), new);
    assert_eq!(fs::read_dir(state.path().join("journal")).unwrap().count(), 0);
    assert_eq!(skipped(&workspace), [test.path("gone-dir")]);
    // It was known before that these entries have no backup.
    assert_eq!(workspace.undo_store().take_paths_without_backup(), Vec::<PathBuf>::new());
    undo_partly(&workspace);
    let mut wanted = old;
    wanted.retain(|path, _| !path.starts_with("gone-dir"));
    assert_eq!(read(&test), wanted);
}

/// If the name of a removed entry cannot be freed, the entry is skipped.
#[test]
fn undo_keeps_files_of_other_programs_and_restores_everything_else() {
    let old = tree([
        ("dir-to-file/x", file("x", 0o644)),
        ("file-to-dir", file("f", 0o644)),
        ("file-to-link", file("f", 0o644)),
        ("gone", file("gone", 0o644)),
    ]);
    let new = tree([
        ("dir-to-file", file("d", 0o644)),
        ("file-to-dir/deep/x", file("x", 0o644)),
        ("file-to-link", link("x")),
    ]);
    type Act = fn(&TestWorkspace);
    let acts: [(&str, Act); 5] = [
        ("dir-to-file", |test| fs::write(test.path("dir-to-file"), "theirs").unwrap()),
        ("file-to-dir", |test| fs::write(test.path("file-to-dir/deep/new"), "theirs").unwrap()),
        ("file-to-dir", |test| fs::write(test.path("file-to-dir/deep/x"), "theirs").unwrap()),
        ("file-to-link", |test| {
            fs::remove_file(test.path("file-to-link")).unwrap();
            // This file has the same hash as the target of the link.
            fs::write(test.path("file-to-link"), "x").unwrap();
        }),
        ("gone", |test| fs::create_dir(test.path("gone")).unwrap()),
    ];
    for (kept, act) in acts {
        let test = workspace_with(&old);
        let changes = trees::changes(&test.workspace, &old, &new);
        apply(&test.workspace, &changes).unwrap();
        act(&test);
        let theirs = read(&test);
        let is_kept = |path: &Path| path.starts_with(kept);
        assert!(skipped(&test.workspace).contains(&test.path(kept)), "{kept}");
        let rewound = RewindPlan::before_prompt(&test.workspace, 0).unwrap();
        assert!(rewound.kept().iter().any(|it| it.path == test.path(kept)), "{kept}");
        undo_partly(&test.workspace);
        let part = |tree: &Tree, is_part: bool| -> Tree {
            tree.clone().into_iter().filter(|(path, _)| is_kept(path) == is_part).collect()
        };
        let now = read(&test);
        assert_eq!(part(&now, false), part(&old, false), "{kept}");
        // Of the path that is kept, only entries of the call may be removed.
        for (path, node) in part(&theirs, true) {
            let is_ours = changes.iter().any(|change| match change {
                PathChange::Write { at, after, .. } => {
                    let Node::File { bytes, .. } = &node else { return false };
                    at.path_in_root() == path && *bytes == after.bytes
                }
                _ => false,
            });
            assert!(is_ours || now.get(&path) == Some(&node), "{path:?}");
        }
    }
}

#[test]
fn undo_restores_a_mode_unless_another_program_has_changed_it() {
    for (now, expected) in [(0o755, 0o644), (0o700, 0o700)] {
        let test = workspace_with(&tree([("a", file("same", 0o644))]));
        let content = |mode| FileBytesAndMode { bytes: b"same".to_vec(), mode };
        let (at, before, after) = (resolve(&test, "a"), Some(content(0o644)), content(0o755));
        apply(&test.workspace, &[PathChange::Write { at, before, after }]).unwrap();
        assert_eq!(mode(test.path("a")), 0o755);
        fs::set_permissions(test.path("a"), Permissions::from_mode(now)).unwrap();
        let plan = RewindPlan::before_prompt(&test.workspace, 0).unwrap();
        let paths: Vec<_> = plan.changes().iter().map(|change| change.path.clone()).collect();
        assert_eq!(paths.is_empty(), now == expected, "{paths:?}");
        undo(&test.workspace).unwrap();
        assert_eq!(mode(test.path("a")), expected);
    }
}

/// A change of the mode after the preview of an undo requires a new preview.
#[test]
fn a_mode_that_is_changed_after_the_preview_of_an_undo_is_detected() {
    let test = workspace_with(&tree([("a", file("old", 0o644)), ("b", file("b", 0o644))]));
    apply(&test.workspace, &[write(&test, "a", Some(("old", 0o644)), 0o755), remove(&test, "b")])
        .unwrap();
    let plan = UndoPlan::for_last_session_change(&test.workspace).unwrap();
    let fingerprint = plan.state_fingerprint();
    fs::set_permissions(test.path("a"), Permissions::from_mode(0o700)).unwrap();
    let before = read(&test);
    let error = plan.run(&test.workspace).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview));
    assert_eq!(read(&test), before);
    let plan = UndoPlan::for_last_session_change(&test.workspace).unwrap();
    assert_ne!(plan.state_fingerprint(), fingerprint);
}

/// A command may remove a folder that is read-only if it changes the mode first.
#[test]
fn read_only_folders_are_removed_and_restored_with_their_modes() {
    let (inner, outer) = ("gone/inner", "gone");
    let old = tree([("gone/inner/x", file("x", 0o444))]);
    let read_only = |test: &TestWorkspace, mode: u32| {
        for path in [outer, inner, outer] {
            drop(fs::set_permissions(test.path(path), Permissions::from_mode(mode)));
        }
    };
    run_without_privileges(|| {
        for has_state in [true, false] {
            let test = if has_state { workspace_with(&old) } else { test_workspace(&[]) };
            if !has_state {
                trees::create(test.workspace.cwd(), &old);
            }
            read_only(&test, 0o555);
            let before = read(&test);
            apply(&test.workspace, &[remove(&test, outer)]).unwrap();
            assert_eq!(read(&test), tree([]));
            if has_state {
                undo(&test.workspace).unwrap();
                assert_eq!(read(&test), before);
                // The temporary directory can be removed.
                read_only(&test, 0o755);
            }
        }
    });
}

#[test]
fn a_file_in_a_read_only_folder_is_written_in_place_with_its_mode() {
    let test = run_without_privileges(|| workspace_with(&tree([("dir/a", file("old", 0o644))])));
    run_without_privileges(|| {
        fs::set_permissions(test.path("dir"), Permissions::from_mode(0o555)).unwrap();
        let before = read(&test);
        let id = || fs::metadata(test.path("dir/a")).unwrap().ino();
        let old_id = id();
        apply(&test.workspace, &[write(&test, "dir/a", Some(("old", 0o644)), 0o600)]).unwrap();
        assert_eq!((id(), mode(test.path("dir/a"))), (old_id, 0o600));
        assert_eq!(fs::read(test.path("dir/a")).unwrap(), b"new");
        undo(&test.workspace).unwrap();
        assert_eq!((read(&test), id()), (before, old_id));
        fs::set_permissions(test.path("dir"), Permissions::from_mode(0o755)).unwrap();
    });
}

/// The link was changed by another program after the first change, and removed by the second one.
#[test]
fn a_rewind_forecasts_that_a_changed_link_is_kept() {
    let test = workspace_with(&tree([]));
    test.workspace.set_prompt_number(1);
    apply(&test.workspace, &[add_link(&test, "a", "x")]).unwrap();
    fs::remove_file(test.path("a")).unwrap();
    symlink("theirs", test.path("a")).unwrap();
    test.workspace.set_prompt_number(2);
    let changes = [remove(&test, "a"), write(&test, "a", None, 0o644)];
    apply(&test.workspace, &changes).unwrap();
    let plan = RewindPlan::before_prompt(&test.workspace, 1).unwrap();
    let kept: Vec<_> = plan.kept().iter().map(|kept| kept.path.clone()).collect();
    assert_eq!(kept, [test.path("a")]);
    plan.run(&test.workspace).unwrap();
    assert_eq!(read(&test), tree([("a", link("theirs"))]));
}
