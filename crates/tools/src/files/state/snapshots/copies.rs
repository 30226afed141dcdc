//! Copies of the contents of files, one after another in a file without a name. The copies end with
//! the process.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Mutex;

use crate::files::state::create_private_folder;
use crate::files::system::{Dir, EntryMetadata, read_all_if_within_limit};
use crate::limits::{MAX_SNAPSHOT_BYTES, MAX_SNAPSHOT_FILE_BYTES};
use crate::lock::lock;

/// A file with the copies of many contents.
#[derive(Debug)]
pub(in crate::files) struct ContentCopies(Mutex<CopiesFile>);

#[derive(Debug)]
struct CopiesFile {
    file: File,
    bytes: u64,
    /// Whether a file was not copied because there was no room.
    is_full: bool,
}

/// The place of a content in [`ContentCopies`].
#[derive(Debug, Clone)]
pub(in crate::files) struct ContentCopy {
    start: u64,
    pub(in crate::files) bytes: u64,
    /// Whether each change of the file after the copy changes its metadata. A change in the same
    /// instant of the file clock may not.
    pub(in crate::files) is_settled: bool,
}

/// The time before a copy in which a change may have the same time as a change after the copy, in
/// nanoseconds. Some file systems store times in units of two seconds.
const FILE_CLOCK_RESOLUTION: i128 = 2_000_000_000;

impl ContentCopies {
    /// Creates a file without a name in a folder of the user.
    pub(in crate::files) fn create(folder: &Path) -> io::Result<Self> {
        create_private_folder(folder)?;
        let file = tempfile::tempfile_in(folder)?;
        Ok(Self(Mutex::new(CopiesFile { file, bytes: 0, is_full: false })))
    }

    /// Returns whether a file was not copied because there was no room.
    pub(in crate::files) fn is_full(&self) -> bool {
        lock(&self.0).is_full
    }

    /// Copies the content of a file. Returns `None` if the file is too large, or has changed since
    /// `metadata` was read. `started` is a time before that.
    pub(in crate::files) fn copy_file(
        &self,
        dir: &Dir,
        name: &OsStr,
        metadata: &EntryMetadata,
        started: i128,
    ) -> io::Result<Option<ContentCopy>> {
        if metadata.bytes > MAX_SNAPSHOT_FILE_BYTES {
            return Ok(None);
        }
        let content = read_all_if_within_limit(&dir.open_file(name)?, MAX_SNAPSHOT_FILE_BYTES)?;
        let Some(content) = content.filter(|content| content.len() as u64 == metadata.bytes) else {
            return Ok(None);
        };
        if dir.entry_metadata(name)? != *metadata {
            return Ok(None);
        }
        let mut copies = lock(&self.0);
        let (start, bytes) = (copies.bytes, metadata.bytes);
        if start + bytes > MAX_SNAPSHOT_BYTES {
            copies.is_full = true;
            return Ok(None);
        }
        copies.file.seek(SeekFrom::Start(start))?;
        copies.file.write_all(&content)?;
        copies.bytes += bytes;
        let is_settled = metadata.changed < started - FILE_CLOCK_RESOLUTION;
        Ok(Some(ContentCopy { start, bytes, is_settled }))
    }

    /// Reads a copy.
    pub(in crate::files) fn read(&self, copy: &ContentCopy) -> io::Result<Vec<u8>> {
        let mut copies = lock(&self.0);
        copies.file.seek(SeekFrom::Start(copy.start))?;
        let mut content = Vec::new();
        let read = (&copies.file).take(copy.bytes).read_to_end(&mut content)?;
        if read as u64 == copy.bytes {
            Ok(content)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

#[cfg(test)]
impl ContentCopies {
    /// Returns the number of bytes of all copies.
    pub(in crate::files) fn byte_count(&self) -> u64 {
        lock(&self.0).bytes
    }
}
