//! The folder for the temporary files of a session.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

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
    _lock: File,
}

impl PrivateFolder {
    pub(super) fn create(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = File::open(folder.path())?;
            // Before it was locked, another process may have taken it for an abandoned one.
            if lock.try_lock().is_ok() && folder.path().exists() {
                let visible = folder.path().join("tmp");
                let created = Self { folder, visible, _lock: lock };
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
        open_folders(self.folder.path());
    }
}

/// Lets this user remove the content of all folders beneath a folder. Some programs, and the kernel
/// itself, create folders that their owner cannot change.
fn open_folders(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        #[cfg(unix)]
        drop(fs::set_permissions(
            &folder,
            <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700),
        ));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        folders.extend(entries.filter(is_folder).map(|entry| entry.path()));
    }
}

/// Removes the folders of processes that were killed. A folder that cannot be removed is left.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
    });
    for entry in ours {
        // Another user's folder cannot be opened.
        if let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            open_folders(&entry.path());
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
