//! The store of backups, and the list of changes that can be undone.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::backup_copy::{copy_entry, is_same_content};
use super::late_writes::{LateWrite, WatchedBackup};
use super::undo_entry::{Backup, FileOperation, UndoEntry, backup_number};
use super::undo_folder::SessionUndoFolder;
use super::undo_log::{self, LostChanges, UndoLogLine};
use crate::files::content_hash::ContentHash;
use crate::files::entry_fingerprint::EntryFingerprint;
use crate::files::state::journal::{remove_tree, unique_temporary_name};
use crate::files::state::session_folder;
use crate::files::system::{Dir, EntryMetadata, FileKind, FileVisibility, PinnedDirectory};
use crate::limits::{
    MAX_LATE_WRITE_WATCHES, MAX_UNDO_BYTES, MAX_UNDO_ENTRIES, STATE_SWEEP_INTERVAL_BYTES,
};
use crate::lock::lock;

/// The backups of the files that a session changed, and the undo entries of the session.
#[derive(Debug, Default)]
pub(crate) struct UndoStore {
    /// The folder that contains the backups of all sessions. `None` if no backups are kept.
    folder: Option<PathBuf>,
    /// The name of the session's folder. `None` if no later process may undo the changes of this
    /// session.
    session: Option<String>,
    state: Mutex<UndoState>,
}

#[derive(Debug, Default)]
struct UndoState {
    /// The folder of this session. Slow operations use the folder without the lock.
    folder: Option<Arc<SessionUndoFolder>>,
    /// Whether the store has tried to load the entries of earlier processes.
    is_loaded: bool,
    /// The first prompt for which earlier processes left entries.
    first_logged_prompt: Option<u32>,
    /// The number of the prompt whose calls add entries now.
    prompt: u32,
    /// The undo entries with their numbers. A number is unique in the session.
    entries: VecDeque<(u64, UndoEntry)>,
    /// Undo entries that could not be restored. Their backups stay available to the user.
    unrestored: VecDeque<UndoEntry>,
    /// The changes that no rewind can undo.
    lost: LostChanges,
    /// Whether an undo entry was dropped since the last report.
    has_dropped_entries: bool,
    bytes: u64,
    /// The total size of this session's backups in bytes at the last sweep of the state folder.
    bytes_at_last_sweep: u64,
    backup_count: u64,
    entry_count: u64,
    watched: VecDeque<WatchedBackup>,
    /// Files without a backup that have not been reported yet.
    unrecoverable: Vec<PathBuf>,
    /// Late writes that have not been reported yet.
    late_writes: VecDeque<LateWrite>,
}

impl UndoStore {
    /// Creates a store in a session folder beneath `folder`.
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { folder: Some(folder), ..Self::default() }
    }

    /// Sets the name of the session's folder. Entries that an earlier store added under this name
    /// can be undone.
    pub(crate) fn with_session(self, name: String) -> Self {
        Self { session: Some(name), ..self }
    }

    /// Returns the folder that contains the backups of all sessions. `None` if no backups are kept.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the number of entries that were added so far.
    pub(crate) fn added_entry_count(&self) -> u64 {
        self.lock_loaded().entry_count
    }

    /// Returns the entries that were added after the first `count` entries.
    pub(crate) fn entries_after(&self, count: u64) -> Vec<UndoEntry> {
        let kept = self.lock_state();
        let newest = kept.entries.iter().rev().take_while(|(number, _)| *number > count);
        newest.map(|(_, entry)| entry.clone()).collect()
    }

    /// Returns the first prompt for which earlier processes of the session left entries.
    pub(crate) fn first_logged_prompt(&self) -> Option<u32> {
        self.lock_loaded().first_logged_prompt
    }

    /// Sets the number of the prompt whose calls add entries from now on.
    pub(crate) fn set_prompt(&self, number: u32) {
        self.lock_state().prompt = number;
    }

    /// Returns the number of the current prompt.
    pub(crate) fn prompt(&self) -> u32 {
        self.lock_state().prompt
    }

    /// Returns whether entries can be moved from a directory into the store.
    pub(crate) fn is_on_same_file_system(&self, dir: &Dir) -> bool {
        // The folder is created with the first backup, on the same file system as its nearest
        // existing parent.
        let mut above = self.folder.iter().flat_map(|folder| folder.ancestors());
        let existing =
            above.find_map(|path| PinnedDirectory::pin(path).ok()?.open_dir(Path::new("")).ok());
        existing.is_some_and(|existing| existing.is_on_same_file_system(dir))
    }

    /// Checks that a backup can be created, as far as the system can report this without a write.
    pub(crate) fn require_can_store(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let store = self.lock_loaded().folder_or_create(folder, self.session.as_deref())?;
        match store.dir.is_removed() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => store.dir.require_can_create(),
        }
    }

    /// Moves an entry into the store. Returns `None` if no backups are kept.
    ///
    /// Fails if the entry cannot be moved, e.g. from another file system.
    pub(crate) fn move_in(
        &self,
        dir: &Dir,
        name: &OsStr,
        bytes: u64,
    ) -> io::Result<Option<Backup>> {
        self.create_backup_with(|store, backup_name| {
            let mode = store.move_in(dir, name, &backup_name)?;
            Ok(Backup { name: backup_name, bytes, mode })
        })
    }

    /// Copies a file into the store. The owner, the mode and the attributes are copied where
    /// possible.
    pub(crate) fn copy_in(&self, dir: &Dir, name: &OsStr) -> io::Result<Option<Backup>> {
        self.create_backup_with(|store, backup_name| {
            let bytes = copy_entry(dir, name, &store.dir, &backup_name)?;
            let mode = store.dir.restrict_file_to_owner(&backup_name).ok().flatten();
            Ok(Backup { name: backup_name, bytes, mode })
        })
    }

    /// Creates a backup of an entry that does not exist any more. `build` creates the backup with
    /// this name in this directory, and returns its size. `mode` is the mode of the entry; `None`
    /// for a link.
    pub(crate) fn build_backup_of_removed_entry(
        &self,
        mode: Option<u32>,
        build: impl FnOnce(&Dir, &OsStr) -> io::Result<u64>,
    ) -> io::Result<Option<Backup>> {
        self.create_backup_with(|store, backup_name| {
            let bytes = build(&store.dir, &backup_name)?;
            Ok(Backup { name: backup_name, bytes, mode })
        })
    }

    /// Writes bytes into the store.
    pub(crate) fn write_backup(&self, bytes: &[u8]) -> io::Result<Option<Backup>> {
        self.create_backup_with(|store, backup_name| {
            store.dir.create_new_file(&backup_name, FileVisibility::Owner)?.write_all(bytes)?;
            Ok(Backup { name: backup_name, bytes: bytes.len() as u64, mode: None })
        })
    }

    /// Reads the backup of a file.
    pub(crate) fn read(&self, backup: &Backup) -> io::Result<Vec<u8>> {
        fs::read(self.backup_path(backup).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Returns the path of a backup.
    pub(crate) fn backup_path(&self, backup: &Backup) -> Option<PathBuf> {
        Some(self.existing_folder().ok()?.path.join(&backup.name))
    }

    /// Returns the path of a backup, if the backup exists.
    pub(crate) fn existing_backup_path(&self, backup: &Backup) -> Option<PathBuf> {
        self.backup_path(backup).filter(|place| place.symlink_metadata().is_ok())
    }

    /// Computes the fingerprint of a backup.
    pub(crate) fn fingerprint_backup(&self, backup: &Backup) -> io::Result<EntryFingerprint> {
        EntryFingerprint::compute(&self.existing_folder()?.dir, &backup.name)
    }

    /// Moves a backup to an unused name. An entry on another file system is copied.
    pub(crate) fn restore(&self, backup: &Backup, dir: &Dir, name: &OsStr) -> io::Result<()> {
        let store = self.existing_folder()?;
        let is_dir = store.dir.entry_kind(&backup.name)? == FileKind::Directory;
        if let (Some(mode), false) = (backup.mode, is_dir) {
            store.dir.set_mode_following_links(&backup.name, mode)?;
        }
        match store.dir.rename_to_unused_in(&backup.name, dir, name) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                // Copy to a temporary name first, because an incomplete file must never have the
                // final name.
                let beside = unique_temporary_name();
                let copied = copy_entry(&store.dir, &backup.name, dir, &beside);
                let placed = copied.and_then(|_bytes| dir.rename_to_unused(&beside, name));
                placed.inspect_err(|_| drop(remove_tree(dir, &beside)))
            }
            done => done,
        }
        .inspect_err(|_| drop(store.dir.restrict_file_to_owner(&backup.name)))?;
        match (backup.mode, is_dir) {
            (Some(mode), true) => dir.set_entry_mode(name, mode),
            _ => Ok(()),
        }
    }

    /// Reverts [`Self::restore`], so that the entry is a backup again.
    pub(crate) fn revert_restore(
        &self,
        backup: &Backup,
        dir: &Dir,
        name: &OsStr,
    ) -> io::Result<()> {
        let store = self.existing_folder()?;
        match store.move_in(dir, name, &backup.name) {
            // The entry is a copy, so the backup still exists.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                match is_same_content(&store.dir, &backup.name, dir, name)? {
                    true => remove_tree(dir, name),
                    false => Err(io::Error::other("another program changed it")),
                }
            }
            done => done.map(drop),
        }
    }

    /// Returns the folder that contains the backups of this session, if any.
    pub(crate) fn session_folder_if_created(&self) -> Option<PathBuf> {
        Some(self.existing_folder().ok()?.path.clone())
    }

    /// Removes a backup.
    pub(crate) fn remove_backup(&self, backup: &Backup) {
        if let Ok(store) = self.existing_folder() {
            store.remove_backup(&backup.name);
        }
    }

    /// Watches the backup of a replaced file for late writes. `look` is the metadata and `old` is
    /// the content at the last comparison.
    pub(crate) fn watch_backup(
        &self,
        path: &Path,
        backup: &Backup,
        look: EntryMetadata,
        old: impl FnOnce() -> ContentHash,
    ) {
        let mut kept = self.lock_state();
        kept.watched.push_back(WatchedBackup::new(path, backup.name.clone(), look, old));
        if kept.watched.len() > MAX_LATE_WRITE_WATCHES {
            kept.watched.pop_front();
        }
    }

    /// Returns whether any backup is watched.
    pub(crate) fn is_watching(&self) -> bool {
        !self.lock_state().watched.is_empty()
    }

    /// Checks the watched backups for late writes.
    pub(crate) fn detect_late_writes(&self) {
        let Ok(store) = self.existing_folder() else { return };
        // Take the watched backups out of the list, so that two calls at the same time do not
        // report the same late write.
        let mut watched = mem::take(&mut self.lock_state().watched);
        let mut late = Vec::new();
        watched.retain_mut(|watched| match watched.has_write_since_last_check(&store.dir) {
            Ok(is_written) => {
                let found = || (watched.replaced_file_path().to_owned(), watched.name().to_owned());
                late.extend(is_written.then(found));
                true
            }
            // The backup was restored or removed.
            Err(_) => false,
        });
        let mut kept = self.lock_state();
        for (path, name) in late {
            let can_be_undone = kept.is_backup_referenced(&name);
            let place = store.path.join(name);
            kept.queue_late_write_report(LateWrite { path, backup: Some(place), can_be_undone });
        }
        watched.append(&mut kept.watched);
        let over = watched.len().saturating_sub(MAX_LATE_WRITE_WATCHES);
        kept.watched = watched.split_off(over);
    }

    /// Records that another program wrote to a file during a write in place.
    pub(crate) fn record_concurrent_write(&self, path: &Path) {
        let path = path.to_owned();
        self.lock_state().queue_late_write_report(LateWrite {
            path,
            backup: None,
            can_be_undone: false,
        });
    }

    /// Records that a file has no backup, although the backup was expected to succeed.
    pub(crate) fn record_missing_backup(&self, path: &Path) {
        let mut kept = self.lock_state();
        kept.unrecoverable.truncate(MAX_LATE_WRITE_WATCHES);
        kept.unrecoverable.push(path.to_owned());
    }

    /// Returns the files without a backup. Each file is returned only once.
    pub(crate) fn take_paths_without_backup(&self) -> Vec<PathBuf> {
        mem::take(&mut self.lock_state().unrecoverable)
    }

    /// Returns the detected late writes. Each late write is returned only once.
    pub(crate) fn take_late_writes(&self) -> Vec<LateWrite> {
        mem::take(&mut self.lock_state().late_writes).into()
    }

    /// Adds an undo entry. Drops the oldest entries if the limits are exceeded.
    pub(crate) fn push(&self, step: UndoEntry) {
        if step.operations.is_empty() || self.folder.is_none() {
            return;
        }
        let mut kept = self.lock_loaded();
        let step = UndoEntry { prompt: kept.prompt, ..step };
        kept.bytes += step.backup_bytes();
        kept.entry_count += 1;
        let number = kept.entry_count;
        if let Some(folder) = &self.folder
            && (kept.folder.is_some() || self.session.is_some())
            && let Ok(store) = kept.folder_or_create(folder, self.session.as_deref())
        {
            // An entry that cannot be logged can be undone by this process only.
            store.append_to_log(&UndoLogLine::Added { number, entry: step.clone() });
        }
        kept.entries.push_back((number, step));
        let room = match kept.folder_if_sweep_due() {
            None => MAX_UNDO_BYTES,
            Some(store) => {
                // Release the lock during the sweep, which is slow, so that other threads and async
                // tasks do not wait.
                drop(kept);
                let surplus = session_folder::sweep_and_count_surplus_bytes(&store.path);
                kept = self.lock_state();
                kept.bytes_at_last_sweep = kept.bytes.saturating_sub(surplus);
                MAX_UNDO_BYTES.min(kept.bytes_at_last_sweep)
            }
        };
        let mut forgotten = Vec::new();
        while kept.exceeds(room) {
            let Some(oldest) = kept.pop_entry_to_drop() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.backup_bytes());
            forgotten.push(oldest);
        }
        drop(kept);
        forgotten.iter().flat_map(UndoEntry::backups).for_each(|backup| self.remove_backup(backup));
    }

    /// Returns whether undo entries were dropped since the last call. Dropped entries cannot be
    /// undone.
    pub(crate) fn take_dropped_entries_flag(&self) -> bool {
        mem::take(&mut self.lock_state().has_dropped_entries)
    }

    /// Returns the last undo entry and its number.
    pub(crate) fn last(&self) -> Option<(u64, UndoEntry)> {
        self.lock_loaded().entries.back().cloned()
    }

    /// Returns whether there is an entry before the last one.
    pub(crate) fn has_entry_before_last(&self) -> bool {
        self.lock_loaded().entries.len() > 1
    }

    /// Returns the undo entries of a prompt and of all later prompts, the newest first, with their
    /// numbers.
    pub(crate) fn entries_since_prompt(&self, prompt: u32) -> Vec<(u64, UndoEntry)> {
        let kept = self.lock_loaded();
        let newest = kept.entries.iter().rev();
        newest.take_while(|(_, entry)| entry.prompt >= prompt).cloned().collect()
    }

    /// Returns the operations since a prompt that cannot be undone, because their entries were
    /// dropped or undone. Also returns whether an undo has skipped the operation.
    pub(crate) fn lost_operations_since_prompt(&self, prompt: u32) -> Vec<(FileOperation, bool)> {
        let kept = self.lock_loaded();
        let lost = kept.lost.operations_for_rewind_to(prompt);
        lost.map(|(operation, is_skipped)| (operation.clone(), is_skipped)).collect()
    }

    /// Records that the files before a prompt were restored.
    pub(crate) fn record_rewind(&self, prompt: u32) {
        let mut kept = self.lock_loaded();
        kept.lost.forget_prompts_since(prompt);
        kept.log(&UndoLogLine::Rewound { prompt });
    }

    /// Removes and returns the last undo entry if it has this number. So no other caller can undo
    /// the same entry.
    pub(crate) fn claim_last_entry(&self, number: u64) -> Option<UndoEntry> {
        let mut kept = self.lock_state();
        let is_last = kept.entries.back().is_some_and(|(last, _)| *last == number);
        let (_, step) = is_last.then(|| kept.entries.pop_back()).flatten()?;
        Some(step)
    }

    /// Puts back an undo entry that was not undone.
    pub(crate) fn put_back_entry(&self, number: u64, step: UndoEntry) {
        let mut kept = self.lock_state();
        let at = kept.entries.partition_point(|(other, _)| *other < number);
        kept.entries.insert(at, (number, step));
    }

    /// Removes the backups of an undo entry after its undo. The backups of `left`, the operations
    /// that were not undone, are kept, and those of `replaced`, the versions that the undo
    /// replaced.
    pub(crate) fn record_undone_entry(
        &self,
        number: u64,
        step: &UndoEntry,
        left: UndoEntry,
        replaced: Vec<FileOperation>,
    ) {
        let is_left = |backup: &Backup| left.backups().any(|other| other.name == backup.name);
        let gone: Vec<_> = step.backups().filter(|backup| !is_left(backup)).collect();
        let mut kept = self.lock_state();
        let prompt = kept.prompt;
        let line = UndoLogLine::Undone {
            number,
            prompt,
            left: left.operations.clone(),
            replaced: replaced.clone(),
        };
        kept.log(&line);
        kept.lost.add_undone(step, &left.operations, prompt);
        kept.bytes = kept.bytes.saturating_sub(gone.iter().map(|backup| backup.bytes).sum());
        let replaced = UndoEntry::new(replaced);
        kept.bytes += replaced.backup_bytes();
        let unrestored = [left, replaced].into_iter().filter(|it| it.backups().next().is_some());
        kept.unrestored.extend(unrestored);
        drop(kept);
        gone.into_iter().for_each(|backup| self.remove_backup(backup));
    }

    fn existing_folder(&self) -> io::Result<Arc<SessionUndoFolder>> {
        self.lock_state().folder.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn lock_state(&self) -> MutexGuard<'_, UndoState> {
        lock(&self.state)
    }

    /// Locks the state after the entries of earlier processes were read.
    fn lock_loaded(&self) -> MutexGuard<'_, UndoState> {
        let mut kept = self.lock_state();
        if let (false, Some(folder), Some(session)) = (kept.is_loaded, &self.folder, &self.session)
        {
            // If loading fails, the session can still undo the entries of this process.
            drop(kept.load(folder, session));
        }
        kept.is_loaded = true;
        kept
    }

    /// Calls `make` to create a backup with a new name, if backups are kept.
    fn create_backup_with(
        &self,
        make: impl FnOnce(&SessionUndoFolder, OsString) -> io::Result<Backup>,
    ) -> io::Result<Option<Backup>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let (store, name) = {
            let mut kept = self.lock_loaded();
            let store = kept.folder_or_create(folder, self.session.as_deref())?;
            kept.backup_count += 1;
            (store, OsString::from(kept.backup_count.to_string()))
        };
        make(&store, name.clone()).inspect_err(|_| store.remove_backup(&name)).map(Some)
    }
}

impl UndoState {
    /// Returns the folder if enough was stored since the last sweep, so that another sweep is due.
    /// If all sessions together exceed their limit, this session may have to drop some of its
    /// entries.
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

    /// Removes and returns the entry to drop next. Entries that were already undone in part are
    /// dropped first.
    fn pop_entry_to_drop(&mut self) -> Option<UndoEntry> {
        if let Some(left) = self.unrestored.pop_front() {
            return Some(left);
        }
        let (number, oldest) = self.entries.pop_front()?;
        self.has_dropped_entries = true;
        self.log(&UndoLogLine::Dropped { number });
        self.lost.add_dropped(&oldest);
        Some(oldest)
    }

    /// Returns whether an undo entry refers to this backup, so that the backup can be restored.
    fn is_backup_referenced(&self, name: &OsStr) -> bool {
        self.entries.iter().any(|(_, step)| step.backups().any(|backup| backup.name == name))
    }

    /// Keeps a late write until it is reported.
    fn queue_late_write_report(&mut self, late: LateWrite) {
        self.late_writes.retain(|other| (&other.path, &other.backup) != (&late.path, &late.backup));
        self.late_writes.push_back(late);
        if self.late_writes.len() > MAX_LATE_WRITE_WATCHES {
            self.late_writes.pop_front();
        }
    }

    fn log(&self, line: &UndoLogLine) {
        if let Some(store) = &self.folder {
            store.append_to_log(line);
        }
    }

    /// Returns the session folder. Creates the folder if it does not exist.
    fn folder_or_create(
        &mut self,
        folder: &Path,
        session: Option<&str>,
    ) -> io::Result<Arc<SessionUndoFolder>> {
        if let Some(store) = &self.folder {
            return Ok(store.clone());
        }
        let opened = Arc::new(SessionUndoFolder::open_or_create(folder, session)?);
        Ok(self.folder.insert(opened).clone())
    }

    /// Reads the entries that earlier processes of the session added.
    fn load(&mut self, folder: &Path, session: &str) -> io::Result<()> {
        if !session_folder::has_session_folder(folder, session) {
            return Ok(());
        }
        let store = self.folder_or_create(folder, Some(session))?;
        let names = fs::read_dir(&store.path)?.filter_map(|entry| Some(entry.ok()?.file_name()));
        let numbers: HashSet<_> = names.filter_map(|name| backup_number(&name)).collect();
        self.backup_count = numbers.iter().max().copied().unwrap_or_default();
        let logged = undo_log::read(&store.path)?;
        let undo_log::LoggedEntries { entries, mut unrestored, lost, .. } = logged;
        // An entry may name a backup that no longer exists, e.g. if a line of the log is missing. A
        // new backup must not get the same name.
        self.backup_count = self.backup_count.max(logged.last_backup);
        (self.lost, self.first_logged_prompt) = (lost, logged.first_prompt);
        let is_kept = |backup: &Backup| {
            backup_number(&backup.name).is_some_and(|number| numbers.contains(&number))
        };
        unrestored.retain(|entry| entry.backups().any(is_kept));
        let kept = entries.iter().map(|(_, entry)| entry).chain(&unrestored);
        self.bytes = kept.map(UndoEntry::backup_bytes).sum();
        (self.entries, self.unrestored, self.entry_count) =
            (entries, unrestored, logged.last_number);
        Ok(())
    }
}
