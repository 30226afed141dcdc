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

#[cfg(unix)]
use crate::limits::MAX_PRIVATE_FOLDER_DEPTH;
use crate::limits::MAX_PRIVATE_FOLDER_TRIES;

/// Beginning of the names of all folders for temporary files of sessions.
const PREFIX: &str = "callboard-tmp-";

/// A folder that only this user can access, and that is removed when the value is dropped. If a
/// process was killed, its folder is removed when the next folder is created.
///
/// Commands see only one of its subfolders.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    folder: TempDir,
    visible: PathBuf,
    /// The open folder. The folder is locked as long as the process lives.
    lock: File,
}

impl PrivateFolder {
    pub(super) fn create(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        // Another process may treat the new folder as abandoned and remove it before it is locked.
        // In this case, try again.
        let mut created = Self::try_create(parent);
        for _ in 1..MAX_PRIVATE_FOLDER_TRIES {
            if created.is_ok() {
                break;
            }
            created = Self::try_create(parent);
        }
        created
    }

    fn try_create(parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = open_own_folder(folder.path())?;
        lock.try_lock()?;
        let visible = folder.path().join("tmp");
        fs::create_dir(&visible)?;
        Ok(Self { folder, visible, lock })
    }

    /// Returns the folder that commands see.
    pub(super) fn visible_subfolder(&self) -> &Path {
        &self.visible
    }

    /// Returns the folder for the files that commands change in copied caches. Commands do not see
    /// this folder, and it may be missing.
    pub(super) fn layers(&self) -> PathBuf {
        self.folder.path().join("layers")
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        make_open_folder_removable(&self.lock);
    }
}

/// Gives this user the permission to remove the content of a folder of this user. See
/// [`make_open_folder_removable`].
pub(super) fn make_folder_content_removable(folder: &Path) {
    if let Ok(folder) = open_own_folder(folder) {
        make_open_folder_removable(&folder);
    }
}

/// Gives this user the permission to remove the content of a folder and of all its subfolders. This
/// is needed because some programs, and the kernel itself, create folders that their owner cannot
/// change. Links are not followed. The function keeps two descriptors open for each level, so the
/// depth is limited: folders deeper than [`MAX_PRIVATE_FOLDER_DEPTH`] levels are not changed.
#[cfg(unix)]
fn make_open_folder_removable(folder: &File) {
    let open = |parent: BorrowedFd<'_>, name: &OsStr| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(parent, name, flags, Mode::empty())?;
        // `fchmod` does not work for a descriptor with `O_PATH`. Changing the mode of its path in
        // `/proc` works.
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        Ok::<_, io::Error>((fs::read_dir(path)?, found))
    };
    let mut levels: Vec<_> = open(folder.as_fd(), OsStr::new(".")).into_iter().collect();
    while let Some((entries, folder)) = levels.last_mut() {
        match entries.next() {
            None => drop(levels.pop()),
            Some(Ok(entry)) if entry.file_type().is_ok_and(|kind| kind.is_dir()) => {
                let opened = open(folder.as_fd(), &entry.file_name());
                if levels.len() < MAX_PRIVATE_FOLDER_DEPTH {
                    levels.extend(opened);
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(not(unix))]
fn make_open_folder_removable(_: &File) {}

/// Opens a folder. Fails if it belongs to another user.
#[cfg(unix)]
fn open_own_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(openat(CWD, path, flags, Mode::empty())?);
    let is_own = folder.metadata()?.uid() == geteuid().as_raw();
    if is_own { Ok(folder) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(not(unix))]
fn open_own_folder(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Removes the folders of processes that were killed. A folder that cannot be removed is left.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
    });
    for entry in ours {
        // Only remove folders of this user. Other users can create folders with the same names.
        if let Ok(folder) = open_own_folder(&entry.path())
            && folder.try_lock().is_ok()
        {
            make_open_folder_removable(&folder);
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use pretty_assertions::assert_eq;

    use super::{PREFIX, PrivateFolder, make_open_folder_removable};

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
        assert!(
            first.visible_subfolder().exists()
                && second.visible_subfolder().exists()
                && other.exists()
        );
        assert!(!abandoned.exists());
        let closed = first.visible_subfolder().join("closed");
        fs::create_dir_all(closed.join("inner")).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
        let path = first.visible_subfolder().parent().unwrap().to_owned();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_in_which_none_can_be_created_is_an_error() {
        let parent = tempfile::tempdir().unwrap();
        assert!(PrivateFolder::create(&parent.path().join("missing")).is_err());
    }

    /// The test compares the modes of the folders. It does not try to remove them, because root can
    /// remove any folder.
    #[test]
    fn folders_are_opened_at_every_level_and_links_are_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let outside = parent.path().join("outside");
        let folder = PrivateFolder::create(parent.path()).unwrap();
        let deep = folder.visible_subfolder().join("d/".repeat(100));
        let closed = [
            folder.visible_subfolder().join("a"),
            folder.visible_subfolder().join("b"),
            deep,
            outside.clone(),
        ];
        for path in &closed {
            fs::create_dir_all(path).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o500)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, folder.visible_subfolder().join("link")).unwrap();
        make_open_folder_removable(&folder.lock);
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(closed.each_ref().map(mode), [0o700, 0o700, 0o700, 0o500]);
    }
}
