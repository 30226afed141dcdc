//! The folder for the temporary files of a session.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::{
    ffi::OsStr,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

#[cfg(unix)]
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    process::geteuid,
};
use tempfile::TempDir;

/// Beginning of the names of all such folders.
const PREFIX: &str = "callboard-tmp-";

/// A folder that only this user can access, and that is removed when the value is dropped. The
/// folder of a process that was killed is removed when the next one is created.
///
/// Commands see only one of its subfolders.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    folder: TempDir,
    visible: PathBuf,
    /// The folder itself, which is locked as long as the process lives.
    lock: File,
}

impl PrivateFolder {
    pub(super) fn create(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let Some(lock) = open_own_folder(folder.path()) else { continue };
            // Before it was locked, another process may have taken it for an abandoned one.
            if lock.try_lock().is_ok() && folder.path().exists() {
                let visible = folder.path().join("tmp");
                let created = Self { folder, visible, lock };
                fs::create_dir(created.visible())?;
                return Ok(created);
            }
        }
    }

    /// Returns the folder that commands see.
    pub(super) fn visible(&self) -> &Path {
        &self.visible
    }

    /// Returns the folder for the changes to other folders, which commands do not see. It need not
    /// exist.
    pub(super) fn layers(&self) -> PathBuf {
        self.folder.path().join("layers")
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        open_folders(&self.lock);
    }
}

/// Lets this user remove the content of all folders beneath a folder. Some programs, and the kernel
/// itself, create folders that their owner cannot change. Links are not followed.
#[cfg(unix)]
fn open_folders(folder: &File) {
    let open = |parent: BorrowedFd<'_>, name: &OsStr| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(parent, name, flags, Mode::empty())?;
        // A descriptor of this kind has no permissions to change, but its path in `/proc` has.
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        Ok::<_, io::Error>((found, path))
    };
    let mut folders: Vec<_> = open(folder.as_fd(), OsStr::new(".")).into_iter().collect();
    while let Some((folder, path)) = folders.pop() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.extend(open(folder.as_fd(), &entry.file_name()));
            }
        }
    }
}

#[cfg(not(unix))]
fn open_folders(_: &File) {}

/// Opens a folder if it belongs to this user.
#[cfg(unix)]
fn open_own_folder(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    let is_own = folder.metadata().is_ok_and(|it| it.uid() == geteuid().as_raw());
    is_own.then_some(folder)
}

#[cfg(not(unix))]
fn open_own_folder(path: &Path) -> Option<File> {
    File::open(path).ok()
}

/// Removes the folders of processes that were killed. A folder that cannot be removed is left.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
    });
    for entry in ours {
        // Other users can create folders with such names.
        if let Some(folder) = open_own_folder(&entry.path())
            && folder.try_lock().is_ok()
        {
            open_folders(&folder);
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::{PREFIX, PrivateFolder};

    #[test]
    fn only_folders_of_killed_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let (abandoned, other) =
            (parent.path().join(format!("{PREFIX}a")), parent.path().join("b"));
        for folder in [&abandoned, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
        }
        let first = PrivateFolder::create(parent.path()).unwrap();
        let second = PrivateFolder::create(parent.path()).unwrap();
        assert!(first.visible().exists() && second.visible().exists() && other.exists());
        assert!(!abandoned.exists());
        let closed = first.visible().join("closed");
        fs::create_dir_all(closed.join("inner")).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
        let path = first.visible().parent().unwrap().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
