//! Folders and files next to the database, for contents that are too large for the database.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::SessionStoreError;
use crate::limits::MAX_RECORD_BYTES;
use crate::record::AttachmentId;

/// The large contents of one session, each in a file whose name is the hash of its content.
#[derive(Debug)]
pub(super) struct LargeContentFolder {
    folder: PathBuf,
}

impl LargeContentFolder {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn path_of_contents(&self, id: AttachmentId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    /// Writes contents to files. The caller must [sync](sync_all) the files later. Returns the ids
    /// of those contents that had no file before.
    pub(super) fn write_contents(
        &self,
        contents: &[(AttachmentId, &[u8])],
    ) -> Result<Vec<AttachmentId>, SessionStoreError> {
        if contents.is_empty() {
            return Ok(Vec::new());
        }
        let mut added = Vec::new();
        // Only the process that holds the session writes in this folder, and it writes one file at
        // a time. One name for unfinished files is therefore enough.
        let unfinished = self.folder.join("unfinished");
        let mut write = |(id, bytes): &(AttachmentId, &[u8])| {
            drop(fs::remove_file(&unfinished));
            create_private_file(&unfinished)?.write_all(bytes)?;
            if !self.path_of_contents(*id).exists() {
                added.push(*id);
            }
            fs::rename(&unfinished, self.path_of_contents(*id))
        };
        let written = self.create_folder().and_then(|()| contents.iter().try_for_each(&mut write));
        if let Err(error) = written {
            drop(fs::remove_file(&unfinished));
            self.remove_contents(&added);
            return Err(SessionStoreError::from_io(&self.folder, error));
        }
        Ok(added)
    }

    /// Reads the content with this id. Returns `None` if the content is missing or damaged.
    pub(super) fn read_if_intact(&self, id: AttachmentId) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.path_of_contents(id)).ok()?;
        file.take(MAX_RECORD_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
        (AttachmentId::for_bytes(&bytes) == id).then_some(bytes)
    }

    /// Creates links to contents of another session. Contents never change, so both sessions can
    /// share them. Missing contents are skipped.
    pub(super) fn link_from_session(
        &self,
        other: &Self,
        ids: &[AttachmentId],
    ) -> Result<(), SessionStoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let linked = self.create_folder().and_then(|()| {
            for id in ids {
                let (from, to) = (other.path_of_contents(*id), self.path_of_contents(*id));
                match fs::hard_link(&from, &to) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    // Some file systems do not support hard links.
                    Err(_) => drop(fs::copy(&from, &to)?),
                    Ok(()) => {}
                }
            }
            sync_folder(&self.folder)
        });
        linked.map_err(|error| SessionStoreError::from_io(&self.folder, error))
    }

    /// Removes contents to which no record refers. If this fails, the contents stay until the
    /// session is removed.
    pub(super) fn remove_contents(&self, ids: &[AttachmentId]) {
        ids.iter().for_each(|id| drop(fs::remove_file(self.path_of_contents(*id))));
    }

    /// Removes all contents of the session.
    pub(super) fn remove_all_contents(&self) -> Result<(), SessionStoreError> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SessionStoreError::from_io(&self.folder, error))
            }
            _ => Ok(()),
        }
    }

    fn create_folder(&self) -> io::Result<()> {
        create_private_folder(&self.folder)
    }
}

/// Syncs files and their directory entries to the disk, so that both survive a power failure. Files
/// that no longer exist are skipped without an error.
pub(super) fn sync_all(paths: &[PathBuf]) -> Result<(), SessionStoreError> {
    // The folders contain the directory entries, and are synced after the files.
    let folders: BTreeSet<_> = paths.iter().filter_map(|path| path.parent()).collect();
    for path in paths.iter().map(PathBuf::as_path).chain(folders) {
        match File::open(path).and_then(|file| file.sync_all()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SessionStoreError::from_io(path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Creates a folder and its missing parents, with access for their owner only.
pub(super) fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Creates a new file that only its owner can access.
pub(super) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Removes the access of other users to a file or folder. Returns an error if the file or folder
/// belongs to another user.
#[cfg(unix)]
pub(super) fn restrict_to_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let found = fs::symlink_metadata(path)?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    match found.mode() & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(path, fs::Permissions::from_mode(found.mode() & 0o700)),
    }
}

#[cfg(not(unix))]
pub(super) fn restrict_to_owner(path: &Path) -> io::Result<()> {
    fs::symlink_metadata(path).map(drop)
}

/// Returns the number of free bytes for this user on the disk of a folder, if the system reports
/// the number.
#[cfg(unix)]
pub(super) fn free_disk_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
pub(super) fn free_disk_bytes(_: &Path) -> Option<u64> {
    None
}

/// Syncs the directory entries of a folder to the disk, so that they survive a power failure.
#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
