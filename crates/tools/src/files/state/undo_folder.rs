//! The folder that contains the backups of one session and the log of its undo entries.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::session_folder::{self, FolderRemovalLock};
use super::undo_log::{self, UndoLogLine};
use crate::files::system::{Dir, PinnedDirectory};

/// The undo folder of one session.
#[derive(Debug)]
pub(super) struct SessionUndoFolder {
    pub(super) dir: Dir,
    pub(super) path: PathBuf,
    _held: FolderRemovalLock,
}

impl SessionUndoFolder {
    /// Opens or creates the folder of this session, and removes expired folders.
    pub(super) fn open_or_create(folder: &Path, session: Option<&str>) -> io::Result<Self> {
        let (path, held) = session_folder::open_or_create_session_folder(folder, session)?;
        let dir = PinnedDirectory::pin(&path)?.open_dir(Path::new(""))?;
        Ok(Self { dir, path, _held: held })
    }

    /// Moves an entry into the store, and restricts a file to its owner. Returns the old mode if
    /// the mode was changed. The content of a directory is not changed, because other users cannot
    /// reach it.
    pub(super) fn move_in(
        &self,
        dir: &Dir,
        name: &OsStr,
        backup: &OsStr,
    ) -> io::Result<Option<u32>> {
        let move_in = || dir.rename_to_unused_in(name, &self.dir, backup);
        match move_in() {
            // A directory can only be moved by a user who may change it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let inner = dir.open_dir(name).map_err(|_not_a_directory| error)?;
                let mode = inner.mode_bits()?;
                inner.allow_owner_to_change()?;
                let moved = move_in();
                moved.inspect_err(|_| drop(dir.set_entry_mode(name, mode)))?;
                Ok(Some(mode))
            }
            Err(error) => Err(error),
            Ok(()) => Ok(self.dir.restrict_file_to_owner(backup).ok().flatten()),
        }
    }

    /// Appends a line to the log of undo entries.
    pub(super) fn append_to_log(&self, line: &UndoLogLine) {
        if let Err(error) = undo_log::append(&self.path, line) {
            tracing::debug!(%error, "the log of changes could not be written");
        }
    }

    /// Removes a backup.
    pub(super) fn remove_backup(&self, name: &OsStr) {
        let path = self.path.join(name);
        // A backup that cannot be removed now is removed later, together with the folder.
        drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
    }
}
