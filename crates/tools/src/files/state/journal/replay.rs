//! Recovers the files that killed processes left unfinished, by replaying their journals.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

use super::{
    JOURNAL_PREFIX, JournalEntryKind, JournalRecord, JournalWriteKind, JournaledFile, PlannedWrite,
    TEMPORARY_PREFIX, TEMPORARY_SUFFIX, in_place_new_content_name, old_file_name,
};
use crate::files::content_hash::ContentHash;
use crate::files::contents::{overwrite, restore_mode_if_unchanged};
use crate::files::system::read_all_if_within_limit;
use crate::files::system::{Dir, FileKind, PinnedDirectory, boot_id, is_link_loop, link_count};
use crate::limits::{
    MAX_COUNTED_DEPTH, MAX_DIRECTORY_ENTRIES, MAX_JOURNAL_BYTES, MAX_JOURNAL_ENTRIES,
    MAX_WHOLE_FILE_BYTES,
};

/// Replays all journals in a folder, except those that a live process has locked. A journal whose
/// replay fails is kept for the next start.
pub(crate) fn recover_unlocked_journals(folder: &Path) {
    let Ok(journals) = fs::read_dir(folder) else { return };
    let is_call = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(JOURNAL_PREFIX.as_bytes()))
    };
    for journal in journals.flatten().map(|entry| entry.path()).filter(is_call) {
        // The lock is held until the journal is removed. A process that creates the same journal
        // waits for the lock, and then detects the removal.
        let Ok(file) = File::open(&journal) else { continue };
        if file.try_lock().is_ok() && replay_journal(&file).is_ok() {
            drop(fs::remove_file(&journal));
        }
    }
}

fn replay_journal(file: &File) -> io::Result<()> {
    if link_count(&file.metadata()?) == 0 {
        // Another process has replayed the journal meanwhile.
        return Ok(());
    }
    let (mut names, mut prepared, mut is_done) = (Vec::new(), Vec::new(), false);
    let mut is_of_earlier_boot = false;
    for line in BufReader::new(file.take(MAX_JOURNAL_BYTES)).lines() {
        // A truncated last line is ignored.
        match serde_json::from_str(&line?) {
            Ok(JournalRecord::Begin(begun)) => names = begun,
            Ok(JournalRecord::Boot(boot)) => is_of_earlier_boot = boot_id() != Some(&boot),
            Ok(JournalRecord::Ready(ready)) => prepared = ready,
            Ok(JournalRecord::Done) => is_done = true,
            Err(_) => break,
        }
    }
    let mut outcome = Ok(());
    for (at, names) in names.iter().enumerate().take(MAX_JOURNAL_ENTRIES).rev() {
        let left = match prepared.get(at) {
            None => ReplayStage::Begun,
            Some(prepared) if is_done => ReplayStage::Done(prepared),
            Some(prepared) if is_of_earlier_boot => ReplayStage::Restarted(prepared),
            Some(prepared) => ReplayStage::Ready(prepared),
        };
        // A failure must not prevent the recovery of the other files.
        outcome = outcome.and(names.recover(&left).or_else(ignore_missing));
    }
    outcome
}

/// How far the write of a file had progressed.
enum ReplayStage<'a> {
    /// The call has begun, so temporary files may exist.
    Begun,
    /// The file may have been moved into place, completely or partly.
    Ready(&'a PlannedWrite),
    /// As [`Ready`](Self::Ready), but the system has been restarted since. The file is complete,
    /// and stays as it is.
    Restarted(&'a PlannedWrite),
    /// The file was moved into place.
    Done(&'a PlannedWrite),
}

impl JournaledFile {
    /// Reverts the file if the call was not finished, and removes the temporary files.
    fn recover(&self, left: &ReplayStage<'_>) -> io::Result<()> {
        if !is_temporary(&self.temporary) || !is_single_component(&self.name) {
            return Ok(());
        }
        let pin = |path: &OsString| PinnedDirectory::pin(Path::new(path))?.open_dir(Path::new(""));
        let planned = match left {
            ReplayStage::Ready(planned) | ReplayStage::Restarted(planned) => Some(planned),
            ReplayStage::Begun | ReplayStage::Done(_) => None,
        };
        let copies = self.copies.as_ref().map(pin).transpose();
        let copies = copies.map_err(|error| match planned {
            Some(_) => io::Error::other(error),
            None => error,
        });
        // A new entry is staged outside of its folder if the call creates this folder.
        let is_in_new_folder = self.copies.is_some()
            && planned.is_none_or(|planned| planned.way == JournalWriteKind::Add);
        let is_missing = |error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => planned.is_none() || is_in_new_folder,
            // The folder would have replaced another entry, which is still there.
            io::ErrorKind::NotADirectory => is_in_new_folder,
            _ => is_in_new_folder && is_link_loop(error),
        };
        let cleaned = copies.and_then(|copies| match pin(&self.dir) {
            Ok(dir) => self.recover_in_dir(&dir, copies.as_ref().unwrap_or(&dir), left),
            // If the folder of the file does not exist, the copies of the file are useless.
            Err(error) if is_missing(&error) => {
                copies.map_or(Ok(()), |copies| self.remove_temporaries(&copies, left))
            }
            // The folder may be mounted later, so the recovery is tried again at the next start.
            // The journal is removed when it expires.
            Err(error) => Err(io::Error::other(error)),
        });
        let cleaned = cleaned.or_else(ignore_missing);
        if !matches!(left, ReplayStage::Done(_)) {
            // A directory that is not empty is not removed.
            self.made.iter().rev().for_each(|made| drop(fs::remove_dir(made)));
        }
        cleaned
    }

    fn recover_in_dir(&self, dir: &Dir, copies: &Dir, left: &ReplayStage<'_>) -> io::Result<()> {
        match left {
            ReplayStage::Ready(prepared) => {
                self.restore_old_file(dir, copies, prepared).or_else(ignore_missing)?;
            }
            ReplayStage::Done(PlannedWrite { way: JournalWriteKind::Aside, .. }) => {
                return remove_tree(dir, &self.temporary);
            }
            ReplayStage::Begun | ReplayStage::Restarted(_) | ReplayStage::Done(_) => {}
        }
        self.remove_temporaries(copies, left)
    }

    fn remove_temporaries(&self, dir: &Dir, left: &ReplayStage<'_>) -> io::Result<()> {
        for beside in [
            old_file_name(&self.temporary),
            in_place_new_content_name(&self.temporary),
            self.temporary.clone(),
        ] {
            if is_removable(dir, &beside, left) {
                remove_file_or_empty_dir(dir, &beside).or_else(ignore_missing)?;
            }
        }
        Ok(())
    }

    /// Restores the old file if the current file holds exactly the new bytes. If the current file
    /// holds other bytes, another program has changed it, and it is kept.
    fn restore_old_file(&self, dir: &Dir, copies: &Dir, prepared: &PlannedWrite) -> io::Result<()> {
        let is_there = || prepared.is_in_place(dir, &self.name);
        match prepared.way {
            JournalWriteKind::Add if is_there()? => remove_file_or_empty_dir(dir, &self.name),
            JournalWriteKind::Replace if is_there()? => {
                let old = old_file_name(&self.temporary);
                // On file systems without hard links, the temporary file is the old file at this
                // point.
                let old = if dir.entry_id(&old).is_ok() { &old } else { &self.temporary };
                dir.rename_over(old, &self.name)
            }
            JournalWriteKind::InPlace => {
                if let (Some(modes), Some(id)) = (prepared.modes, prepared.old) {
                    restore_mode_if_unchanged(dir, &self.name, id, modes)?;
                }
                let [old, new] =
                    [self.temporary.clone(), in_place_new_content_name(&self.temporary)];
                let (old, new) =
                    (read_whole_if_small(copies, &old)?, read_whole_if_small(copies, &new)?);
                let now = read_whole_if_small(dir, &self.name)?;
                if let (Some(old), Some(new), Some(now)) = (old, new, now)
                    && now != old
                    && is_interrupted_overwrite(&now, &old, &new)
                {
                    overwrite(&dir.open_read_write(&self.name)?, &old)?;
                }
                Ok(())
            }
            // The rename never overwrites an entry that was created meanwhile.
            JournalWriteKind::Aside => match dir.rename_to_unused(&self.temporary, &self.name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // Without renames that never replace an entry, both names may exist for a
                    // moment.
                    let ids = [&self.temporary, &self.name].map(|name| dir.entry_id(name).ok());
                    let is_same = ids[0].is_some() && ids[0] == ids[1];
                    if is_same { dir.remove_file(&self.temporary) } else { Ok(()) }
                }
                other => other,
            },
            JournalWriteKind::Add | JournalWriteKind::Replace => Ok(()),
        }
    }
}

impl PlannedWrite {
    /// Returns whether an entry is the new entry of the call, and no other program has changed it.
    fn is_in_place(&self, dir: &Dir, name: &OsStr) -> io::Result<bool> {
        if !dir.entry_id(name).is_ok_and(|there| there == self.ours) {
            return Ok(false);
        }
        let has_hash = |bytes: &[u8]| ContentHash::of_bytes(bytes).as_bytes() == &self.after;
        match (self.kind, dir.entry_kind(name)?) {
            (JournalEntryKind::File, FileKind::File) => match read_whole_if_small(dir, name) {
                // The new mode of the file may deny this process to read it.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
                bytes => Ok(bytes?.is_some_and(|bytes| has_hash(&bytes))),
            },
            (JournalEntryKind::Link, FileKind::Link) => {
                Ok(has_hash(dir.read_link(name)?.as_encoded_bytes()))
            }
            (JournalEntryKind::Directory, FileKind::Directory) => Ok(true),
            _ => Ok(false),
        }
    }
}

/// Removes a file, a link or an empty directory. Keeps a directory that is not empty.
fn remove_file_or_empty_dir(dir: &Dir, name: &OsStr) -> io::Result<()> {
    if dir.entry_kind(name)? != FileKind::Directory {
        return dir.remove_file(name);
    }
    match dir.remove_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other,
    }
}

/// Returns whether a temporary file can be removed. If the temporary file is the new file or the
/// old file of the call, it can be removed. If another program wrote it during the exchange, or if
/// it is a quarantined entry that has no other name, it must be kept.
fn is_removable(dir: &Dir, name: &OsStr, left: &ReplayStage<'_>) -> bool {
    match left {
        ReplayStage::Ready(PlannedWrite { way: JournalWriteKind::Aside, .. }) => false,
        ReplayStage::Ready(PlannedWrite { way: JournalWriteKind::Replace, ours, old, .. })
        | ReplayStage::Restarted(PlannedWrite {
            way: JournalWriteKind::Replace, ours, old, ..
        }) => dir
            .entry_id(name)
            .is_ok_and(|there| there == *ours || old.is_none_or(|old| there == old)),
        _ => true,
    }
}

/// Returns whether `now` is the result of an interrupted write of `new` over `old`.
///
/// After a kill, the file has old bytes, then new bytes from some offset on, then old bytes again.
/// After a power failure, each block has either the old or the new bytes.
fn is_interrupted_overwrite(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    let same = |(one, other): &(&u8, &u8)| one == other;
    let start = now.iter().zip(old).take_while(same).count();
    let end = if now.len() == old.len() {
        let kept = now[start..].iter().rev().zip(old.iter().rev()).take_while(same).count();
        now.len() - kept
    } else {
        now.len()
    };
    let is_length = (new.len().min(old.len())..=new.len().max(old.len())).contains(&now.len());
    let is_block = |at: usize| {
        let block = at..now.len().min(at + DISK_BLOCK_BYTES);
        [old, new].iter().any(|of| of.get(block.clone()) == Some(&now[block.clone()]))
    };
    let is_killed = || start >= end || new.get(start..end) == Some(&now[start..end]);
    is_length && (is_killed() || (0..now.len()).step_by(DISK_BLOCK_BYTES).all(is_block))
}

/// Bytes that a disk writes atomically.
const DISK_BLOCK_BYTES: usize = 512;

/// Removes an entry; a directory is removed with all its content. A directory that is nested too
/// deeply or is too large is not removed.
pub(crate) fn remove_tree(dir: &Dir, name: &OsStr) -> io::Result<()> {
    fn remove_recursively(dir: &Dir, name: &OsStr, depth: usize) -> io::Result<()> {
        if dir.entry_kind(name)? != FileKind::Directory {
            return dir.remove_file(name);
        }
        if depth > MAX_COUNTED_DEPTH {
            return Err(io::Error::other("directories are nested too deeply"));
        }
        let inner = dir.open_dir(name)?;
        drop(inner.allow_owner_to_change());
        for entry in inner.entries(MAX_DIRECTORY_ENTRIES)?.0 {
            remove_recursively(&inner, &entry.name, depth + 1)?;
        }
        dir.remove_dir(name)
    }
    remove_recursively(dir, name, 0)
}

/// Reads a whole file. Returns `None` for a file that is too large to be part of a call.
fn read_whole_if_small(dir: &Dir, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    read_all_if_within_limit(&dir.open_file(name)?, MAX_WHOLE_FILE_BYTES)
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn is_single_component(name: &OsStr) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

fn is_temporary(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        name.starts_with(TEMPORARY_PREFIX)
            && name.ends_with(TEMPORARY_SUFFIX)
            && !name.contains('/')
    })
}

#[cfg(test)]
mod tests {
    use super::{DISK_BLOCK_BYTES, is_interrupted_overwrite};

    /// Returns a file of blocks. Each block repeats one letter, and the last block is half as long
    /// as the others.
    fn blocks(letters: &str) -> Vec<u8> {
        let whole: Vec<u8> =
            letters.bytes().flat_map(|letter| vec![letter; DISK_BLOCK_BYTES]).collect();
        whole[..whole.len() - DISK_BLOCK_BYTES / 2].to_vec()
    }

    #[test]
    fn what_a_kill_or_a_failure_of_the_power_left_is_told_from_what_somebody_wrote() {
        let (old, new) = (blocks("aaaa"), blocks("bbbb"));
        for (now, expected) in [
            ("aaaa", true),
            ("abba", true),
            ("abab", true),
            ("babb", true),
            ("abcb", false),
            ("aaaaa", false),
        ] {
            assert_eq!(is_interrupted_overwrite(&blocks(now), &old, &new), expected, "{now}");
        }
        let mut half = blocks("bbaa");
        half[DISK_BLOCK_BYTES + 7] = b'a';
        assert!(!is_interrupted_overwrite(&half, &old, &new));
    }
}
