//! Detects writes to a file after the file was replaced, by programs that still had the old file
//! open.
//!
//! Such a write does not appear under the name of the file, but the backup contains it. If another
//! program writes to a file while this program writes the file in place, the write of the other
//! program is detected as far as possible.

use callboard_text::path_text;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::files::content_hash::{ContentHash, HashingReader};
use crate::files::system::{Dir, EntryMetadata};
use crate::limits::MTIME_GRANULARITY;
use crate::note::Note;

/// A write by another program to a file that had been replaced, or that was being written in place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateWrite {
    /// The file that the program meant to write.
    pub path: PathBuf,
    /// The path of the backup that contains the write. `None` for a file that was written in place,
    /// because the file itself contains the write, perhaps only in part.
    pub backup: Option<PathBuf>,
    /// Whether undoing the change restores the late write, if no other change of the file follows.
    pub can_be_undone: bool,
}

impl LateWrite {
    /// Returns a note with the paths of the written file and of its backup.
    ///
    /// `path` is the path of the file as the session displays it.
    pub(crate) fn note(&self, path: String) -> Note {
        let Some(kept) = &self.backup else {
            return Note::new("late-in-place").with_text("path", path);
        };
        let key = if self.can_be_undone { "late-undoable" } else { "late" };
        Note::new(key).with_text("path", path).with_text("kept", path_text(kept))
    }
}

/// The backup of a replaced file, which is checked for late writes.
#[derive(Debug)]
pub(super) struct WatchedBackup {
    path: PathBuf,
    name: OsString,
    /// The size in bytes and the modification time of the backup at the last check.
    size_and_mtime: (u64, i128),
    /// The content hash of the backup. The hash is recorded if a later write could leave the same
    /// modification time.
    hash: Option<ContentHash>,
}

impl WatchedBackup {
    pub(super) fn new(
        path: &Path,
        name: OsString,
        look: EntryMetadata,
        old: impl FnOnce() -> ContentHash,
    ) -> Self {
        let hash = (!is_mtime_settled(&look)).then(old);
        Self { path: path.to_owned(), name, size_and_mtime: (look.bytes, look.modified), hash }
    }

    /// Returns whether another program wrote to the backup since the last check.
    pub(super) fn has_write_since_last_check(&mut self, dir: &Dir) -> io::Result<bool> {
        let look = dir.entry_metadata(&self.name)?;
        let now = (look.bytes, look.modified);
        let Some(stamp) = self.hash else {
            return Ok(std::mem::replace(&mut self.size_and_mtime, now) != now);
        };
        let is_settled = is_mtime_settled(&look);
        let mut stamping = HashingReader::new(dir.open_file(&self.name)?);
        io::copy(&mut stamping, &mut io::sink())?;
        let found = stamping.hash();
        (self.size_and_mtime, self.hash) = (now, found.filter(|_| !is_settled));
        Ok(found != Some(stamp))
    }

    pub(super) fn replaced_file_path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the backup in its folder.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }
}

/// Returns whether a later write would certainly change the modification time.
fn is_mtime_settled(look: &EntryMetadata) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let age = now.map_or(0, |now| now.as_nanos() as i128 - look.modified);
    // Some file systems store only whole seconds.
    let is_coarse = look.modified % 1_000_000_000 == 0;
    let tick = if is_coarse { 100 * MTIME_GRANULARITY } else { MTIME_GRANULARITY };
    age > tick.as_nanos() as i128
}
