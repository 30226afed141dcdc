//! The folder for the temporary files of a session.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// Beginning of the names of all such folders.
const PREFIX: &str = "callboard-tmp-";

/// A folder that only this user can access, and that is removed when the value is dropped. The
/// folder of a process that was killed is removed when the next one is created.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    folder: TempDir,
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
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
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
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        assert!(first.path().exists() && second.path().exists() && other.exists());
        assert!(!abandoned.exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
