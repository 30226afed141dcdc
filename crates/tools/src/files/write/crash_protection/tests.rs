//! Tests for files that cannot be exchanged, for read-only folders, and for unusable state folders.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use super::super::tests::stage_file;
use super::super::{FileWrite, atomic_write_if_unchanged, read_whole, write_all_with_progress};
use super::{CrashProtection, RepairCopyLocation, ReplaceOrInPlace};
use crate::error::{ErrorCode, ToolError};
use crate::files::remove::inspect_entry;
use crate::files::state::journal::{
    JournaledFile, PlannedWrite, RollbackJournal, random_call_number, recover_unlocked_journals,
    temporary_name,
};
use crate::files::system::simulated_file_system::{self, SimulatedFileSystem};
use crate::files::undo::UndoPlan;
use crate::files::workspace::Workspace;
use crate::files::workspace::testing::{
    TestWorkspace, UNPRIVILEGED_USER, run_without_privileges, set_user, test_workspace,
    test_workspace_with_undo,
};

/// Runs a function as a user without root privileges, because root may write to every file.
fn without_privileges(tree: &TestWorkspace, run: impl FnOnce()) {
    if rustix::process::geteuid().is_root() {
        let mut folders = vec![tree.outer_folder().to_owned()];
        while let Some(folder) = folders.pop() {
            chown(&folder, Some(UNPRIVILEGED_USER), None).unwrap();
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                chown(&path, Some(UNPRIVILEGED_USER), None).unwrap();
                folders.extend(path.is_dir().then_some(path));
            }
        }
    }
    run_without_privileges(run);
    drop(fs::set_permissions(tree.path("."), Permissions::from_mode(0o755)));
}

/// Mounts a file system that only the current thread can see. Returns `false` if this is not
/// permitted.
#[expect(unsafe_code, reason = "no safe interface has it")]
fn mount(source: &Path, target: &Path, kind: &str, flags: libc::c_ulong, options: &str) -> bool {
    use std::ffi::CString;
    let text = |text: &Path| CString::new(text.to_str().unwrap()).unwrap();
    let (source, target, options) = (text(source), text(target), text(options.as_ref()));
    let (kind, root) = (text(kind.as_ref()), text("/".as_ref()));
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: all pointers refer to strings that outlive the call. Other threads keep their mounts.
    let is_mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                root.as_ptr(),
                root.as_ptr(),
                kind.as_ptr(),
                private,
                options.as_ptr().cast(),
            ) == 0
            && libc::mount(
                source.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                flags,
                options.as_ptr().cast(),
            ) == 0
    };
    if !is_mounted {
        println!("skipped: this user may not mount anything");
    }
    is_mounted
}

fn make_read_only(tree: &TestWorkspace) {
    fs::set_permissions(tree.path("."), Permissions::from_mode(0o555)).unwrap();
}

fn protection(tree: &TestWorkspace, found: Option<&[u8]>) -> Result<CrashProtection, ToolError> {
    let at = tree.resolve("file");
    CrashProtection::assess(&tree.workspace, &[FileWrite::new(&at, found, b"new")])
}

fn words(protection: &CrashProtection) -> String {
    protection.notes().map(|note| note.to_string()).collect()
}

fn write(tree: &TestWorkspace, text: &str) -> Result<(), ToolError> {
    let at = tree.resolve("file");
    let seen = read_whole(&tree.workspace, &at, 99)?;
    atomic_write_if_unchanged(&tree.workspace, &at, text.as_bytes(), &seen)
}

/// Writes a file, checks that the file keeps its id, and undoes the change.
fn is_written_in_place_and_undone(tree: &TestWorkspace) {
    let number = || fs::metadata(tree.path("file")).unwrap().ino();
    let (before, names) = (number(), tree.names("."));
    let notes: Vec<_> = protection(tree, Some(b"old")).unwrap().notes().collect();
    assert!(notes.is_empty(), "{notes:?}");
    write(tree, "new").unwrap();
    assert_eq!((tree.read("file"), number()), ("new".into(), before));
    assert_eq!(tree.names("."), names);
    assert_eq!(fs::read_dir(tree.outer_folder().join("state/journal")).unwrap().count(), 0);
    UndoPlan::for_last_session_change(&tree.workspace).unwrap().run(&tree.workspace).unwrap();
    assert_eq!((tree.read("file"), number()), ("old".into(), before));
}

#[test]
fn a_file_that_is_mounted_by_itself_is_written_in_place_and_undone() {
    let tree = test_workspace_with_undo(&[("file", "old")]);
    simulated_file_system::run_on(SimulatedFileSystem::MountedFiles, || {
        is_written_in_place_and_undone(&tree);
    });
    let tree = test_workspace_with_undo(&[("file", ""), ("mounted", "old")]);
    if mount(&tree.path("mounted"), &tree.path("file"), "none", libc::MS_BIND, "") {
        // Open the folder again. A descriptor that was opened before the mount does not see the
        // mount.
        let workspace = Workspace::new(tree.path("."), Vec::new()).unwrap();
        let tree = TestWorkspace {
            workspace: workspace.with_state_folder(&tree.outer_folder().join("state")),
            ..tree
        };
        is_written_in_place_and_undone(&tree);
        let error = inspect_entry(&tree.workspace, &tree.resolve("file")).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NotPermitted), "{error}");
    }
}

#[test]
fn a_file_in_a_folder_that_takes_no_other_is_written_in_place_and_undone() {
    let tree = test_workspace_with_undo(&[("file", "old")]);
    without_privileges(&tree, || {
        make_read_only(&tree);
        is_written_in_place_and_undone(&tree);
    });
}

#[test]
fn an_unwritable_file_is_rejected_before_the_permission_request() {
    let tree = test_workspace_with_undo(&[("file", "old"), ("target", "old")]);
    without_privileges(&tree, || {
        fs::set_permissions(tree.path("file"), Permissions::from_mode(0o444)).unwrap();
        let refused = |error: ToolError| assert_eq!(error.code(), Some(ErrorCode::NotPermitted));
        refused(protection(&tree, Some(b"old")).unwrap_err());
        make_read_only(&tree);
        refused(inspect_entry(&tree.workspace, &tree.resolve("target")).unwrap_err());
        for path in ["added", "folder/added"] {
            let at = tree.resolve(path);
            let change = FileWrite::new(&at, None, b"new");
            refused(CrashProtection::assess(&tree.workspace, &[change]).unwrap_err());
        }
    });
}

#[test]
fn a_state_folder_that_cannot_be_written_keeps_no_edit_from_being_made() {
    for is_closed in [false, true] {
        let tree = test_workspace_with_undo(&[("file", "old"), ("goes", "old")]);
        without_privileges(&tree, || {
            fs::set_permissions(tree.outer_folder(), Permissions::from_mode(0o555)).unwrap();
            if is_closed {
                make_read_only(&tree);
            }
            let protection = protection(&tree, Some(b"old")).unwrap();
            let notes = words(&protection);
            let state = tree.outer_folder().join("state").display().to_string();
            assert!(notes.contains(&state) && notes.contains("cannot be restored"), "{notes}");
            assert_eq!(notes.contains("crash"), is_closed, "{notes}");
            assert_eq!(protection.can_crash_mix_contents(), is_closed);
            write(&tree, "new").unwrap();
            assert_eq!(tree.read("file"), "new");
            if !is_closed {
                let found = inspect_entry(&tree.workspace, &tree.resolve("goes")).unwrap();
                assert!(found.restorability_note().unwrap().to_string().contains(&state));
                found.delete_and_record_undo(&tree.workspace).unwrap();
            }
            assert_eq!(tree.names(".").len(), if is_closed { 2 } else { 1 });
            fs::set_permissions(tree.outer_folder(), Permissions::from_mode(0o755)).unwrap();
        });
    }
}

#[test]
fn a_full_state_folder_keeps_no_edit_from_being_made() {
    let tree = test_workspace_with_undo(&[("file", "old"), ("goes", "old")]);
    let state = tree.outer_folder().join("state");
    fs::create_dir(&state).unwrap();
    if !mount("none".as_ref(), &state, "tmpfs", 0, "size=64k") {
        return;
    }
    fs::write(state.join("other"), vec![0; 1 << 17]).unwrap_err();
    let notes = words(&protection(&tree, Some(b"old")).unwrap());
    assert!(notes.contains(state.to_str().unwrap()), "{notes}");
    write(&tree, "new").unwrap();
    assert_eq!(tree.read("file"), "new");
    inspect_entry(&tree.workspace, &tree.resolve("goes"))
        .unwrap()
        .delete_and_record_undo(&tree.workspace)
        .unwrap();
    assert_eq!(tree.names("."), ["file"]);
}

/// The file system reports free space, but has no inodes for more files. Only a write detects this.
#[test]
fn a_state_folder_without_inodes_is_reported_and_remembered() {
    // The file system has inodes for the root and two folders. In the second case, it also has an
    // inode for a journal.
    for (is_closed, inodes) in [(false, 3), (true, 4)] {
        let tree = test_workspace_with_undo(&[("file", "old")]);
        let state = tree.outer_folder().join("state");
        fs::create_dir(&state).unwrap();
        let options = format!("nr_inodes={inodes}");
        if !mount("none".as_ref(), &state, "tmpfs", 0, &options) {
            return;
        }
        without_privileges(&tree, || {
            if is_closed {
                make_read_only(&tree);
            }
            let at = tree.resolve("file");
            let change = FileWrite::new(&at, Some(b"old"), b"new");
            let permitted = protection(&tree, Some(b"old")).unwrap();
            assert_eq!(permitted.notes().count(), 0);
            let error =
                write_all_with_progress(&tree.workspace, &[change], &permitted, &mut |_| {});
            let error = error.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview), "{error}");
            assert!(error.to_string().contains(state.to_str().unwrap()), "{error}");
            assert_eq!(tree.read("file"), "old");
            if !is_closed {
                let notes = words(&protection(&tree, Some(b"old")).unwrap());
                assert!(notes.contains(state.to_str().unwrap()), "{notes}");
                write(&tree, "new").unwrap();
                assert_eq!(tree.read("file"), "new");
            }
        });
    }
}

/// A call may only write with the protection for which permission was given. If the protection
/// changes, a new preview is required.
#[test]
fn a_late_failure_of_the_state_folder_is_reported_before_any_write() {
    let tree = test_workspace_with_undo(&[("file", "old")]);
    without_privileges(&tree, || {
        let protection = protection(&tree, Some(b"old")).unwrap();
        let at = tree.resolve("file");
        let change = FileWrite::new(&at, Some(b"old"), b"new");
        let journal = tree.outer_folder().join("state/journal");
        fs::set_permissions(&journal, Permissions::from_mode(0o555)).unwrap();
        let written = write_all_with_progress(&tree.workspace, &[change], &protection, &mut |_| {});
        assert_eq!(written.unwrap_err().code(), Some(ErrorCode::ChangedSincePreview));
        assert_eq!(tree.read("file"), "old");
        fs::set_permissions(&journal, Permissions::from_mode(0o755)).unwrap();
    });
}

/// The file has another owner. A new file could not get this owner, so the file must be written in
/// place.
#[test]
fn an_unexpected_write_in_place_requires_a_new_preview() {
    let tree = test_workspace(&[("file", "old")]);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    without_privileges(&tree, || {
        set_user(0);
        chown(tree.path("file"), Some(0), None).unwrap();
        fs::set_permissions(tree.path("file"), Permissions::from_mode(0o666)).unwrap();
        set_user(UNPRIVILEGED_USER);
        let at = tree.resolve("file");
        let change = FileWrite::new(&at, Some(b"old"), b"new");
        let permitted = protection(&tree, Some(b"old")).unwrap();
        assert!(!permitted.can_crash_mix_contents());
        let write =
            |permitted| write_all_with_progress(&tree.workspace, &[change], permitted, &mut |_| {});
        let error = write(&permitted).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview), "{error}");
        assert_eq!((tree.read("file"), tree.names(".")), ("old".into(), vec!["file".to_owned()]));
        let again = protection(&tree, Some(b"old")).unwrap();
        assert!(again.can_crash_mix_contents() && again.fingerprint() != permitted.fingerprint());
        write(&again).unwrap();
        assert_eq!(tree.read("file"), "new");
    });
}

/// Writes a file in place, with copies in the state folder, and stops as if the process was killed.
/// Returns the folder that contains the journal.
fn interrupted_write(tree: &TestWorkspace, torn: &str) -> PathBuf {
    let folder = tree.outer_folder().join("state/journal");
    fs::create_dir_all(&folder).unwrap();
    let (at, temporary) = (tree.resolve("file"), temporary_name(random_call_number(), 0));
    let names = JournaledFile {
        dir: tree.workspace.cwd().into(),
        name: "file".into(),
        temporary: temporary.clone(),
        made: Vec::new(),
        copies: Some(folder.as_os_str().to_owned()),
    };
    let mut journal = RollbackJournal::begin(&folder, vec![names]).unwrap();
    let manner = ReplaceOrInPlace {
        is_in_place: true,
        repair_copy_location: RepairCopyLocation::StateFolder,
        ..ReplaceOrInPlace::default()
    };
    let change = FileWrite::new(&at, Some(b"old text"), b"new");
    let staged = stage_file(tree, change, manner, temporary);
    let prepared: PlannedWrite = staged.journal_entry();
    journal.write_ready(vec![prepared]).unwrap();
    // Leave the files in the same state as a killed process would.
    std::mem::forget(staged);
    journal.keep_for_replay();
    drop(journal);
    tree.write("file", torn);
    assert_eq!(tree.names("."), ["file"]);
    folder
}

#[test]
fn after_a_kill_a_torn_file_is_made_whole_from_the_state_folder() {
    for torn in ["new", "old text", "new text", "theirs"] {
        let tree = test_workspace_with_undo(&[("file", "old text")]);
        let folder = interrupted_write(&tree, torn);
        recover_unlocked_journals(&folder);
        let expected = if torn == "theirs" { torn } else { "old text" };
        assert_eq!(tree.read("file"), expected, "{torn}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

/// The folder that contains the torn file cannot be opened, e.g. because its disk is not mounted
/// yet.
#[test]
fn the_copies_of_a_torn_file_stay_until_its_folder_can_be_opened() {
    for is_blocked in [false, true] {
        let tree = test_workspace_with_undo(&[("file", "old text")]);
        let folder = interrupted_write(&tree, "new text");
        let (root, elsewhere) = (tree.workspace.cwd(), tree.outer_folder().join("elsewhere"));
        fs::rename(root, &elsewhere).unwrap();
        if is_blocked {
            fs::write(root, "").unwrap();
        }
        recover_unlocked_journals(&folder);
        if is_blocked {
            fs::remove_file(root).unwrap();
        }
        fs::rename(&elsewhere, root).unwrap();
        recover_unlocked_journals(&folder);
        assert_eq!(tree.read("file"), "old text", "{is_blocked}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
