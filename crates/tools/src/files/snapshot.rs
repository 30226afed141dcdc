//! What is at a name, so that another look tells whether it still is the same.
//!
//! It changes nothing. A file is told by what it holds, a link by where it leads, a directory by
//! all that is in it: names, identities, sizes and times.

use std::ffi::OsStr;
use std::io;

use crate::files::stamp::{Stamp, Stamping};
use crate::files::system::read_capped;
use crate::files::system::{Dir, Kind, Look};
use crate::limits::{COUNTED_DEPTH, COUNTED_FILES, DIRECTORY_ENTRIES, FILE_BYTES, UNDO_BYTES};

/// What is at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) stamp: Stamp,
    pub(crate) bytes: u64,
    /// How many files and directories are in it.
    pub(crate) entries: u64,
    /// Whether all of a directory was looked at.
    pub(crate) is_whole: bool,
}

impl Seen {
    pub(crate) fn of(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        let look = dir.look(name)?;
        let kind = look.kind;
        let mut counted =
            Self { kind, stamp: Stamp::of(b""), bytes: 0, entries: 0, is_whole: true };
        counted.stamp = match kind {
            Kind::File if look.bytes <= UNDO_BYTES => {
                let mut stamping = Stamping::new(dir.open(name)?);
                counted.bytes = io::copy(&mut stamping, &mut io::sink())?;
                stamping.stamp().unwrap_or(counted.stamp)
            }
            Kind::File | Kind::Special => {
                counted.bytes = look.bytes;
                // A move changes when it changed.
                Stamp::of(&bytes_of(&Look { changed: 0, ..look }))
            }
            Kind::Link => Stamp::of(dir.read_link(name)?.as_encoded_bytes()),
            Kind::Directory => {
                let inside = counted.count(&dir.dir(name)?, 0);
                let (device, number) = look.identity;
                Stamp::of(
                    &[&device.to_le_bytes(), &number.to_le_bytes(), &inside.as_bytes()[..]]
                        .concat(),
                )
            }
        };
        Ok(counted)
    }

    /// As [`Self::of`]; a file that is small enough to be edited is read once, and returned.
    pub(crate) fn with_bytes(dir: &Dir, name: &OsStr) -> io::Result<(Self, Option<Vec<u8>>)> {
        let look = dir.look(name)?;
        if look.kind != Kind::File || look.bytes > FILE_BYTES {
            return Ok((Self::of(dir, name)?, None));
        }
        let Some(bytes) = read_capped(&dir.open(name)?, FILE_BYTES)? else {
            return Ok((Self::of(dir, name)?, None));
        };
        let (stamp, length) = (Stamp::of(&bytes), bytes.len() as u64);
        let seen = Self { kind: Kind::File, stamp, bytes: length, entries: 0, is_whole: true };
        Ok((seen, Some(bytes)))
    }

    /// Looks at what is in a directory; what cannot be read counts for nothing.
    fn count(&mut self, dir: &Dir, depth: usize) -> Stamp {
        let Ok((mut entries, is_cut)) = dir.entries(DIRECTORY_ENTRIES) else {
            self.is_whole = false;
            return Stamp::of(b"");
        };
        self.is_whole &= !is_cut;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let mut listing = Vec::new();
        for entry in entries {
            if self.entries == COUNTED_FILES {
                self.is_whole = false;
                break;
            }
            self.entries += 1;
            let name = entry.name.as_encoded_bytes();
            listing.extend((name.len() as u64).to_le_bytes());
            listing.extend(name);
            let Ok(look) = dir.look(&entry.name) else { continue };
            listing.extend(bytes_of(&look));
            if look.kind != Kind::Directory {
                self.bytes = self.bytes.saturating_add(look.bytes);
            } else if depth < COUNTED_DEPTH
                && let Ok(inner) = dir.dir(&entry.name)
            {
                listing.extend(self.count(&inner, depth + 1).as_bytes());
            } else {
                self.is_whole = false;
            }
        }
        Stamp::of(&listing)
    }

    /// Returns what a permission is for.
    pub(crate) fn pre_image(&self) -> Vec<u8> {
        [&[self.kind as u8][..], self.stamp.as_bytes()].concat()
    }
}

fn bytes_of(look: &Look) -> Vec<u8> {
    let (device, number) = look.identity;
    let numbers = [device, number, look.bytes, look.kind as u64].map(u64::to_le_bytes).concat();
    let times = [look.modified, look.changed].map(i128::to_le_bytes).concat();
    [numbers, times].concat()
}
