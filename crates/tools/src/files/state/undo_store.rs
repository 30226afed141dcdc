//! Where what was changed is kept, and the list of what was done. It undoes nothing itself.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

use super::late_writes::{LateWrite, WatchedBackup};
use super::undo_entry::{Backup, FileOperation, UndoEntry};
use crate::files::content_hash::ContentHash;
use crate::files::snapshot::EntrySnapshot;
use crate::files::state::journal::unique_temporary_name;
use crate::files::state::open_private;
use crate::files::state::session_folder::{self, FolderLock};
use crate::files::system::{Dir, EntryMetadata, FileVisibility, PinnedDirectory, copy_access};
use crate::limits::{
    MAX_LATE_WRITE_WATCHES, MAX_UNDO_BYTES, MAX_UNDO_ENTRIES, STATE_SWEEP_INTERVAL_BYTES,
};
use crate::lock::lock;

/// What was kept of the files that a session changed.
#[derive(Debug, Default)]
pub(crate) struct UndoStore {
    /// Where; nowhere, if nothing is kept.
    folder: Option<PathBuf>,
    state: Mutex<UndoState>,
}

#[derive(Debug, Default)]
struct UndoState {
    /// What takes long is done in it without the lock.
    folder: Option<Arc<SessionUndoFolder>>,
    /// With a number that no other step of the session has or had.
    entries: VecDeque<(u64, UndoEntry)>,
    /// What could not be undone of steps: it stays for whoever looks for it.
    unrestored: VecDeque<UndoEntry>,
    /// Whether a step was forgotten that nobody was told of.
    has_dropped_entries: bool,
    bytes: u64,
    /// How many they were when all of the state folder was looked at.
    bytes_at_last_sweep: u64,
    backup_count: u64,
    entry_count: u64,
    watched: VecDeque<WatchedBackup>,
    /// What could not be kept and nobody was told of.
    unrecoverable: Vec<PathBuf>,
    /// What was written late and nobody was told of.
    late_writes: VecDeque<LateWrite>,
}

/// The folder of one session.
#[derive(Debug)]
struct SessionUndoFolder {
    dir: Dir,
    path: PathBuf,
    _held: FolderLock,
}

impl UndoStore {
    /// Keeps what is changed in a folder of its own beneath `folder`.
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { folder: Some(folder), state: Mutex::default() }
    }

    /// Whether things can be moved from a directory to where they are kept, if they are.
    pub(crate) fn is_on_same_file_system(&self, dir: &Dir) -> bool {
        // It is made with the first change, beneath what is there.
        let mut above = self.folder.iter().flat_map(|folder| folder.ancestors());
        let existing =
            above.find_map(|path| PinnedDirectory::pin(path).ok()?.open_dir(Path::new("")).ok());
        existing.is_some_and(|existing| existing.is_on_same_file_system(dir))
    }

    /// Checks that something can be kept, as far as the system tells without trying.
    pub(crate) fn require_can_store(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let (store, _) = self.lock_state().next_backup_name(folder)?;
        match store.dir.is_removed() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => store.dir.require_can_create(),
        }
    }

    /// Moves something into the store. Nothing, if nothing is kept; an error if it cannot be
    /// moved, as to another file system.
    pub(crate) fn move_in(
        &self,
        dir: &Dir,
        name: &OsStr,
        bytes: u64,
    ) -> io::Result<Option<Backup>> {
        self.store_backup(|store, blob| {
            dir.rename_into(name, &store.dir, &blob)?;
            Ok(store.restrict_to_owner(blob, bytes))
        })
    }

    /// Copies a file into the store, with its owner, mode and attributes where they can be had.
    pub(crate) fn copy_in(&self, dir: &Dir, name: &OsStr) -> io::Result<Option<Backup>> {
        self.store_backup(|store, blob| {
            let bytes = copy(dir, name, &store.dir, &blob)?;
            Ok(store.restrict_to_owner(blob, bytes))
        })
    }

    /// Writes bytes into the store.
    pub(crate) fn write_backup(&self, bytes: &[u8]) -> io::Result<Option<Backup>> {
        self.store_backup(|store, blob| {
            store.dir.create(&blob, FileVisibility::Owner)?.write_all(bytes)?;
            Ok(Backup { name: blob, bytes: bytes.len() as u64, mode: None })
        })
    }

    /// Reads what is kept of a file.
    pub(crate) fn read(&self, blob: &Backup) -> io::Result<Vec<u8>> {
        fs::read(self.backup_path(blob).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Returns where something is kept.
    pub(crate) fn backup_path(&self, blob: &Backup) -> Option<PathBuf> {
        Some(self.open_folder().ok()?.path.join(&blob.name))
    }

    /// Returns the same, if something is there.
    pub(crate) fn existing_backup_path(&self, blob: &Backup) -> Option<PathBuf> {
        self.backup_path(blob).filter(|place| place.symlink_metadata().is_ok())
    }

    /// Looks at what is kept.
    pub(crate) fn snapshot_backup(&self, blob: &Backup) -> io::Result<EntrySnapshot> {
        EntrySnapshot::take(&self.open_folder()?.dir, &blob.name)
    }

    /// Moves what is kept to a name that nothing has; by a copy, if it is a file and cannot be
    /// moved.
    pub(crate) fn restore(&self, blob: &Backup, dir: &Dir, name: &OsStr) -> io::Result<()> {
        let store = self.open_folder()?;
        if let Some(mode) = blob.mode {
            store.dir.set_mode(&blob.name, mode)?;
        }
        match store.dir.rename_into(&blob.name, dir, name) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                // Beside its place first: half a file must not have its name.
                let beside = unique_temporary_name();
                let copied = copy(&store.dir, &blob.name, dir, &beside);
                let placed = copied.and_then(|_bytes| dir.rename(&beside, name));
                placed.inspect_err(|_| drop(dir.remove(&beside)))
            }
            done => done,
        }
        .inspect_err(|_| drop(store.dir.restrict_to_owner(&blob.name)))
    }

    /// Removes what is kept.
    pub(crate) fn remove(&self, blob: &Backup) {
        if let Ok(store) = self.open_folder() {
            store.remove(&blob.name);
        }
    }

    /// Notices from now on whether something writes to a file that was replaced, and that was so
    /// when it was compared last.
    pub(crate) fn watch(
        &self,
        path: &Path,
        blob: &Backup,
        look: EntryMetadata,
        old: impl FnOnce() -> ContentHash,
    ) {
        let mut kept = self.lock_state();
        kept.watched.push_back(WatchedBackup::new(path, blob.name.clone(), look, old));
        if kept.watched.len() > MAX_LATE_WRITE_WATCHES {
            kept.watched.pop_front();
        }
    }

    /// Whether there is anything that could be written late.
    pub(crate) fn is_watching(&self) -> bool {
        !self.lock_state().watched.is_empty()
    }

    /// Looks for what was written since to files that had been replaced.
    pub(crate) fn detect_late_writes(&self) {
        let Ok(store) = self.open_folder() else { return };
        // Whoever looks meanwhile finds none of these: each is told once.
        let mut watched = mem::take(&mut self.lock_state().watched);
        let mut late = Vec::new();
        watched.retain_mut(|watched| match watched.was_written(&store.dir) {
            Ok(is_written) => {
                let found = || (watched.path().to_owned(), watched.name().to_owned());
                late.extend(is_written.then(found));
                true
            }
            // It was restored, or is kept no more.
            Err(_) => false,
        });
        let mut kept = self.lock_state();
        for (path, name) in late {
            let can_be_undone = kept.can_undo(&name);
            let place = store.path.join(name);
            kept.push_late_write(LateWrite { path, backup: Some(place), can_be_undone });
        }
        watched.append(&mut kept.watched);
        let over = watched.len().saturating_sub(MAX_LATE_WRITE_WATCHES);
        kept.watched = watched.split_off(over);
    }

    /// Notes that something else was in a file right after it was written in place.
    pub(crate) fn record_concurrent_write(&self, path: &Path) {
        let path = path.to_owned();
        self.lock_state().push_late_write(LateWrite { path, backup: None, can_be_undone: false });
    }

    /// Notes that what was in a file before could not be kept, although it should have been.
    pub(crate) fn record_unrecoverable(&self, path: &Path) {
        let mut kept = self.lock_state();
        kept.unrecoverable.truncate(MAX_LATE_WRITE_WATCHES);
        kept.unrecoverable.push(path.to_owned());
    }

    /// Returns those files, each once.
    pub(crate) fn take_unrecoverable(&self) -> Vec<PathBuf> {
        mem::take(&mut self.lock_state().unrecoverable)
    }

    /// Returns what was found or noted, each once.
    pub(crate) fn take_late_writes(&self) -> Vec<LateWrite> {
        mem::take(&mut self.lock_state().late_writes).into()
    }

    /// Remembers a step, and forgets the oldest ones if it is too much.
    pub(crate) fn push(&self, step: UndoEntry) {
        if step.operations.is_empty() || self.folder.is_none() {
            return;
        }
        let mut kept = self.lock_state();
        if let Some(store) = &kept.folder {
            // The list is for people; without it everything can be undone all the same.
            drop(store.append_to_log(&step));
        }
        kept.bytes += step.backup_bytes();
        kept.entry_count += 1;
        let number = kept.entry_count;
        kept.entries.push_back((number, step));
        let room = match kept.folder_if_sweep_due() {
            None => MAX_UNDO_BYTES,
            Some(store) => {
                // Others take the lock meanwhile, tasks among them.
                drop(kept);
                let surplus = session_folder::surplus_bytes(&store.path);
                kept = self.lock_state();
                kept.bytes_at_last_sweep = kept.bytes.saturating_sub(surplus);
                MAX_UNDO_BYTES.min(kept.bytes_at_last_sweep)
            }
        };
        let mut forgotten = Vec::new();
        while kept.exceeds(room) {
            let Some(oldest) = kept.pop_oldest() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.backup_bytes());
            forgotten.push(oldest);
        }
        drop(kept);
        forgotten.iter().flat_map(UndoEntry::backups).for_each(|blob| self.remove(blob));
    }

    /// Returns whether steps were forgotten since this was asked last: they cannot be undone.
    pub(crate) fn take_has_dropped_entries(&self) -> bool {
        mem::take(&mut self.lock_state().has_dropped_entries)
    }

    /// Returns the last step and its number.
    pub(crate) fn last(&self) -> Option<(u64, UndoEntry)> {
        self.lock_state().entries.back().cloned()
    }

    /// Takes the last step off the list, if it has this number: nobody else undoes it then.
    pub(crate) fn claim(&self, number: u64) -> Option<UndoEntry> {
        let mut kept = self.lock_state();
        let is_last = kept.entries.back().is_some_and(|(last, _)| *last == number);
        let (_, step) = is_last.then(|| kept.entries.pop_back()).flatten()?;
        Some(step)
    }

    /// Puts a step back that was not undone.
    pub(crate) fn unclaim(&self, number: u64, step: UndoEntry) {
        let mut kept = self.lock_state();
        let at = kept.entries.partition_point(|(other, _)| *other < number);
        kept.entries.insert(at, (number, step));
    }

    /// Forgets a step that was undone, but for what is `left` of it: that is kept on.
    pub(crate) fn discard(&self, step: &UndoEntry, left: UndoEntry) {
        let is_left = |blob: &Backup| left.backups().any(|other| other.name == blob.name);
        let gone: Vec<_> = step.backups().filter(|blob| !is_left(blob)).collect();
        let mut kept = self.lock_state();
        kept.bytes = kept.bytes.saturating_sub(gone.iter().map(|blob| blob.bytes).sum());
        if left.backups().next().is_some() {
            kept.unrestored.push_back(left);
        }
        drop(kept);
        gone.into_iter().for_each(|blob| self.remove(blob));
    }

    fn open_folder(&self) -> io::Result<Arc<SessionUndoFolder>> {
        self.lock_state().folder.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn lock_state(&self) -> MutexGuard<'_, UndoState> {
        lock(&self.state)
    }

    /// Does something in the store with a new name, if there is a store.
    fn store_backup(
        &self,
        make: impl FnOnce(&SessionUndoFolder, OsString) -> io::Result<Backup>,
    ) -> io::Result<Option<Backup>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let (store, name) = self.lock_state().next_backup_name(folder)?;
        make(&store, name.clone()).inspect_err(|_| store.remove(&name)).map(Some)
    }
}

impl UndoState {
    /// Returns the store, if so much was kept that all of the state folder has to be looked at: where
    /// all sessions have too many bytes, this one may have fewer than it has.
    fn folder_if_sweep_due(&mut self) -> Option<Arc<SessionUndoFolder>> {
        self.bytes_at_last_sweep = self.bytes_at_last_sweep.min(self.bytes);
        let store = self
            .folder
            .as_ref()
            .filter(|_| self.bytes >= self.bytes_at_last_sweep + STATE_SWEEP_INTERVAL_BYTES)?;
        self.bytes_at_last_sweep = self.bytes;
        Some(store.clone())
    }

    fn exceeds(&self, bytes: u64) -> bool {
        let count = self.unrestored.len() + self.entries.len();
        count > MAX_UNDO_ENTRIES || (self.bytes > bytes && count > 1)
    }

    /// Takes off what is forgotten first: what is undone already as far as it can be.
    fn pop_oldest(&mut self) -> Option<UndoEntry> {
        if let Some(left) = self.unrestored.pop_front() {
            return Some(left);
        }
        let (_, oldest) = self.entries.pop_front()?;
        self.has_dropped_entries = true;
        Some(oldest)
    }

    /// Whether a step holds this, so that it can be restored.
    fn can_undo(&self, name: &OsStr) -> bool {
        self.entries.iter().any(|(_, step)| step.backups().any(|blob| blob.name == name))
    }

    /// Remembers a late write until somebody is told of it.
    fn push_late_write(&mut self, late: LateWrite) {
        self.late_writes.retain(|other| (&other.path, &other.backup) != (&late.path, &late.backup));
        self.late_writes.push_back(late);
        if self.late_writes.len() > MAX_LATE_WRITE_WATCHES {
            self.late_writes.pop_front();
        }
    }

    /// Returns the store, which is made with the first thing that is kept, and a new name in it.
    fn next_backup_name(
        &mut self,
        folder: &Path,
    ) -> io::Result<(Arc<SessionUndoFolder>, OsString)> {
        let store = match &self.folder {
            Some(store) => store.clone(),
            None => self.folder.insert(Arc::new(SessionUndoFolder::make(folder)?)).clone(),
        };
        self.backup_count += 1;
        Ok((store, self.backup_count.to_string().into()))
    }
}

impl SessionUndoFolder {
    /// Makes a folder for this session, and removes those that nobody needs any more.
    fn make(folder: &Path) -> io::Result<Self> {
        let (path, held) = session_folder::make(folder)?;
        let dir = PinnedDirectory::pin(&path)?.open_dir(Path::new(""))?;
        Ok(Self { dir, path, _held: held })
    }

    /// Makes what was brought here its owner's alone. In a directory everything stays as it was:
    /// nobody else gets there.
    fn restrict_to_owner(&self, name: OsString, bytes: u64) -> Backup {
        let mode = self.dir.restrict_to_owner(&name).ok().flatten();
        Backup { name, bytes, mode }
    }

    fn append_to_log(&self, step: &UndoEntry) -> io::Result<()> {
        write_entry(step, open_private(&self.path.join("steps.jsonl"))?)
    }

    fn remove(&self, name: &OsStr) {
        let path = self.path.join(name);
        // What cannot be removed is removed with the folder, later.
        drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
    }
}

/// Writes a step as one line, in one write, which a kill does not tear.
fn write_entry(step: &UndoEntry, mut list: impl io::Write) -> io::Result<()> {
    let deeds = Value::from_iter(step.operations.iter().map(FileOperation::to_json));
    list.write_all(format!("{deeds}\n").as_bytes())
}

/// Copies a file to a name that nothing has, with its owner, mode and attributes where they can be
/// had; returns how many bytes it has.
fn copy(from: &Dir, name: &OsStr, to: &Dir, as_name: &OsStr) -> io::Result<u64> {
    let mut from = from.open(name)?;
    let mut to = to.create(as_name, FileVisibility::Owner)?;
    let bytes = io::copy(&mut from, &mut to)?;
    copy_access(&from, &to)?;
    to.sync_data()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    /// What each write has.
    struct WriteLog<'a>(&'a mut Vec<String>);

    impl io::Write for WriteLog<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_step_is_one_line_and_one_write() {
        let deeds = ["a", "b"].map(|path| FileOperation::CreatedDirectory(path.into())).into();
        let mut writes = Vec::new();
        write_entry(&UndoEntry { operations: deeds }, WriteLog(&mut writes)).unwrap();
        let line = "[{\"madeDirectory\":\"a\"},{\"madeDirectory\":\"b\"}]\n";
        assert_eq!(writes, [line]);
    }
}
