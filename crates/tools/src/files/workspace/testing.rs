//! Workspaces for tests.

#[cfg(target_os = "linux")]
pub(crate) mod trees;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Workspace, WorkspacePath};
use crate::files::Durability;
use crate::files::state::session_folder::prevent_background_sweep;

/// A workspace whose project folder is the directory `root` in a temporary directory. `root-evil`
/// and `secret` are next to `root`.
pub(crate) struct TestWorkspace {
    pub(crate) outer: TempDir,
    pub(crate) workspace: Workspace,
}

/// Creates a workspace that contains files. Each file is given by its path and its text. A path
/// that ends with a slash creates an empty directory.
pub(crate) fn test_workspace(files: &[(&str, &str)]) -> TestWorkspace {
    // Files in hidden folders are protected, so the name of the directory does not begin with a
    // dot.
    let outer = tempfile::Builder::new().prefix("tree").tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::create_dir(outer.path().join("root-evil")).unwrap();
    fs::write(outer.path().join("root-evil/secret"), "secret").unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    let tree = TestWorkspace { workspace: Workspace::new(root, Vec::new()).unwrap(), outer };
    for (path, text) in files {
        tree.write(path, text);
    }
    tree
}

/// Creates a workspace in the same way as [`test_workspace`]. The state folder is next to `root`,
/// and is not swept in the background.
pub(crate) fn test_workspace_with_undo(files: &[(&str, &str)]) -> TestWorkspace {
    let tree = test_workspace(files);
    let state = tree.outer_folder().join("state");
    prevent_background_sweep(&state);
    let workspace = tree.workspace.with_state_folder(&state).with_durability(Durability::System);
    TestWorkspace { workspace, ..tree }
}

/// A user without root privileges.
#[cfg(target_os = "linux")]
pub(crate) const UNPRIVILEGED_USER: u32 = 65534;

/// Runs a function as a user without root privileges, because root may change every file.
#[cfg(target_os = "linux")]
pub(crate) fn run_without_privileges<T>(run: impl FnOnce() -> T) -> T {
    struct RestoreRoot;
    impl Drop for RestoreRoot {
        fn drop(&mut self) {
            set_user(0);
        }
    }
    let _restore = rustix::process::geteuid().is_root().then(|| {
        set_user(UNPRIVILEGED_USER);
        RestoreRoot
    });
    run()
}

/// Sets the user id of the current thread only. Each test runs in its own thread.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe interface has it for one thread")]
pub(crate) fn set_user(user: u32) {
    // SAFETY: the call changes no memory. Root stays the saved user id, so that the test can
    // restore it.
    let set = unsafe { libc::syscall(libc::SYS_setresuid, user, user, 0) };
    assert_eq!(set, 0);
}

impl TestWorkspace {
    pub(crate) fn outer_folder(&self) -> &Path {
        self.outer.path()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.workspace.cwd().join(path)
    }

    pub(crate) fn resolve(&self, path: &str) -> WorkspacePath {
        self.workspace.resolve(path).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let at = self.path(path);
        if path.ends_with('/') {
            return fs::create_dir_all(at).unwrap();
        }
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    #[cfg(unix)]
    pub(crate) fn link(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn fifo(&self, path: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.path(path), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Returns the names in a directory of the workspace, sorted.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
