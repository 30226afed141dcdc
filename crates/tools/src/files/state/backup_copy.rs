//! Copies entries between the folder of backups and a project on another file system.

use std::ffi::OsStr;
use std::io;

use crate::files::entry_fingerprint::EntryFingerprint;
use crate::files::system::{Dir, DirectoryEntry, FileKind, FileVisibility, copy_access};
use crate::limits::MAX_DIRECTORY_ENTRIES;

/// Copies an entry to an unused name and returns the size of its files in bytes. The content of a
/// directory is copied too. The owner, the mode and the attributes are copied where possible.
pub(super) fn copy_entry(from: &Dir, name: &OsStr, to: &Dir, as_name: &OsStr) -> io::Result<u64> {
    match from.entry_kind(name)? {
        FileKind::File => {
            let mut from = from.open_file(name)?;
            let mut to = to.create_new_file(as_name, FileVisibility::Owner)?;
            let bytes = io::copy(&mut from, &mut to)?;
            copy_access(&from, &to)?;
            to.sync_data()?;
            Ok(bytes)
        }
        FileKind::Link => to.create_link(&from.read_link(name)?, as_name).map(|()| 0),
        FileKind::Directory => {
            to.create_dir(as_name)?;
            let (source, copy) = (from.open_dir(name)?, to.open_dir(as_name)?);
            let copied = list_dir_entries_sorted(&source)?
                .iter()
                .map(|entry| copy_entry(&source, &entry.name, &copy, &entry.name))
                .sum::<io::Result<u64>>()?;
            to.set_entry_mode(as_name, source.mode_bits()?)?;
            Ok(copied)
        }
        FileKind::Special => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Returns whether two entries have the same kind and the same content.
pub(super) fn is_same_content(
    dir: &Dir,
    name: &OsStr,
    other_dir: &Dir,
    other_name: &OsStr,
) -> io::Result<bool> {
    let kind = dir.entry_kind(name)?;
    if kind != other_dir.entry_kind(other_name)? {
        return Ok(false);
    }
    if kind != FileKind::Directory {
        let hash = EntryFingerprint::compute(dir, name)?.hash;
        return Ok(hash == EntryFingerprint::compute(other_dir, other_name)?.hash);
    }
    let (dir, other_dir) = (dir.open_dir(name)?, other_dir.open_dir(other_name)?);
    let (entries, others) = (list_dir_entries_sorted(&dir)?, list_dir_entries_sorted(&other_dir)?);
    if entries != others {
        return Ok(false);
    }
    for entry in entries {
        if !is_same_content(&dir, &entry.name, &other_dir, &entry.name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns all entries of a directory, sorted by name.
fn list_dir_entries_sorted(dir: &Dir) -> io::Result<Vec<DirectoryEntry>> {
    let (mut entries, has_more) = dir.entries(MAX_DIRECTORY_ENTRIES)?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    if has_more { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(entries) }
}
