//! What programs write to a file that was replaced, because they had it open: nobody sees it by its
//! name, but it is kept with the old file. And what they write to a file just while it is written in
//! place, as far as that can be seen.
//!
//! It knows nothing of steps.

use callboard_text::path_text;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::files::content_hash::{ContentHash, HashingReader};
use crate::files::system::{Dir, EntryMetadata};
use crate::limits::MTIME_GRANULARITY;
use crate::note::Note;

/// Something that a program wrote to a file that was replaced before, or just while it was written
/// in place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateWrite {
    /// The file that was meant.
    pub path: PathBuf,
    /// Where the old file lies with what was written to it. Nothing for a file that was written in
    /// place: what was written is in that itself, perhaps only a part of it.
    pub backup: Option<PathBuf>,
    /// Whether undoing the change restores it, if nothing else changes the file before.
    pub can_be_undone: bool,
}

impl LateWrite {
    /// Says what was written, and where it lies.
    ///
    /// `path` is the path of the file in the words of the session.
    pub(crate) fn note(&self, path: String) -> Note {
        let Some(kept) = &self.backup else {
            return Note::new("late-in-place").with("path", path);
        };
        let key = if self.can_be_undone { "late-undoable" } else { "late" };
        Note::new(key).with("path", path).with("kept", path_text(kept))
    }
}

/// A file that was replaced, in what is kept.
#[derive(Debug)]
pub(super) struct WatchedBackup {
    path: PathBuf,
    name: OsString,
    /// How large it was, and when it was written.
    size_and_mtime: (u64, i128),
    /// What it held, if a write since might have left the same time.
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

    /// Whether it was written since it was looked at last.
    pub(super) fn was_written(&mut self, dir: &Dir) -> io::Result<bool> {
        let look = dir.entry_metadata(&self.name)?;
        let now = (look.bytes, look.modified);
        let Some(stamp) = self.hash else {
            return Ok(std::mem::replace(&mut self.size_and_mtime, now) != now);
        };
        let is_settled = is_mtime_settled(&look);
        let mut stamping = HashingReader::new(dir.open(&self.name)?);
        io::copy(&mut stamping, &mut io::sink())?;
        let found = stamping.hash();
        (self.size_and_mtime, self.hash) = (now, found.filter(|_| !is_settled));
        Ok(found != Some(stamp))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its name in what is kept.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }
}

/// Whether another write would leave another time.
fn is_mtime_settled(look: &EntryMetadata) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let age = now.map_or(0, |now| now.as_nanos() as i128 - look.modified);
    // Whole seconds are all that some file systems know.
    let is_coarse = look.modified % 1_000_000_000 == 0;
    let tick = if is_coarse { 100 * MTIME_GRANULARITY } else { MTIME_GRANULARITY };
    age > tick.as_nanos() as i128
}
