//! Fingerprints of directory entries, which are used to detect later changes.
//!
//! A file is identified by its content and a link by its target. A directory is identified by the
//! names, ids, sizes and times of all entries in it.

use std::ffi::OsStr;
use std::io;

use crate::files::content_hash::{ContentHash, HashingReader};
use crate::files::system::read_all_if_within_limit;
use crate::files::system::{Dir, EntryMetadata, FileKind};
use crate::limits::{
    MAX_COUNTED_DEPTH, MAX_COUNTED_FILES, MAX_DIRECTORY_ENTRIES, MAX_UNDO_BYTES,
    MAX_WHOLE_FILE_BYTES,
};

/// Kind, hash and size of a directory entry at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryFingerprint {
    pub(crate) kind: FileKind,
    pub(crate) hash: ContentHash,
    pub(crate) bytes: u64,
    /// The number of files and directories in the entry.
    pub(crate) entries: u64,
    /// Whether all entries in a directory were read.
    pub(crate) is_complete: bool,
}

impl EntryFingerprint {
    pub(crate) fn compute(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        let look = dir.entry_metadata(name)?;
        let kind = look.kind;
        let mut counted = Self {
            kind,
            hash: ContentHash::of_bytes(b""),
            bytes: 0,
            entries: 0,
            is_complete: true,
        };
        counted.hash = match kind {
            FileKind::File if look.bytes <= MAX_UNDO_BYTES => {
                let mut stamping = HashingReader::new(dir.open_file(name)?);
                counted.bytes = io::copy(&mut stamping, &mut io::sink())?;
                stamping.hash().unwrap_or(counted.hash)
            }
            FileKind::File | FileKind::Special => {
                counted.bytes = look.bytes;
                // The change time is not compared, because moving an entry changes it.
                ContentHash::of_bytes(&encode_metadata(&EntryMetadata { changed: 0, ..look }))
            }
            FileKind::Link => ContentHash::of_bytes(dir.read_link(name)?.as_encoded_bytes()),
            FileKind::Directory => {
                let inside = counted.hash_directory(&dir.open_dir(name)?, 0);
                let (device, number) = look.file_id;
                ContentHash::of_bytes(
                    &[&device.to_le_bytes(), &number.to_le_bytes(), &inside.as_bytes()[..]]
                        .concat(),
                )
            }
        };
        Ok(counted)
    }

    /// Computes the fingerprint in the same way as [`Self::compute`]. If the file is small enough
    /// to be edited, it is read only once, and its bytes are returned too.
    pub(crate) fn compute_with_bytes(
        dir: &Dir,
        name: &OsStr,
    ) -> io::Result<(Self, Option<Vec<u8>>)> {
        let look = dir.entry_metadata(name)?;
        if look.kind != FileKind::File || look.bytes > MAX_WHOLE_FILE_BYTES {
            return Ok((Self::compute(dir, name)?, None));
        }
        let Some(bytes) = read_all_if_within_limit(&dir.open_file(name)?, MAX_WHOLE_FILE_BYTES)?
        else {
            return Ok((Self::compute(dir, name)?, None));
        };
        let (stamp, length) = (ContentHash::of_bytes(&bytes), bytes.len() as u64);
        let seen = Self {
            kind: FileKind::File,
            hash: stamp,
            bytes: length,
            entries: 0,
            is_complete: true,
        };
        Ok((seen, Some(bytes)))
    }

    /// Hashes the entries of a directory and of its subdirectories. Skips entries that cannot be
    /// read.
    fn hash_directory(&mut self, dir: &Dir, depth: usize) -> ContentHash {
        let Ok((mut entries, is_cut)) = dir.entries(MAX_DIRECTORY_ENTRIES) else {
            self.is_complete = false;
            return ContentHash::of_bytes(b"");
        };
        self.is_complete &= !is_cut;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let mut listing = Vec::new();
        for entry in entries {
            if self.entries == MAX_COUNTED_FILES {
                self.is_complete = false;
                break;
            }
            self.entries += 1;
            let name = entry.name.as_encoded_bytes();
            listing.extend((name.len() as u64).to_le_bytes());
            listing.extend(name);
            let Ok(look) = dir.entry_metadata(&entry.name) else { continue };
            listing.extend(encode_metadata(&look));
            if look.kind != FileKind::Directory {
                self.bytes = self.bytes.saturating_add(look.bytes);
            } else if depth < MAX_COUNTED_DEPTH
                && let Ok(inner) = dir.open_dir(&entry.name)
            {
                listing.extend(self.hash_directory(&inner, depth + 1).as_bytes());
            } else {
                self.is_complete = false;
            }
        }
        ContentHash::of_bytes(&listing)
    }

    /// Returns bytes that identify this state of the entry. A permission is only valid for the
    /// state for which it was given.
    pub(crate) fn kind_and_hash_bytes(&self) -> Vec<u8> {
        [&[self.kind as u8][..], self.hash.as_bytes()].concat()
    }
}

fn encode_metadata(look: &EntryMetadata) -> Vec<u8> {
    let (device, number) = look.file_id;
    let numbers = [device, number, look.bytes, look.kind as u64].map(u64::to_le_bytes).concat();
    let times = [look.modified, look.changed].map(i128::to_le_bytes).concat();
    [numbers, times].concat()
}
