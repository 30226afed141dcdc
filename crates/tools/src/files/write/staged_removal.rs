//! The removal of an entry as one change of a call with several changes.
//!
//! The entry is moved to a temporary name and compared. When all changes of the call are in place,
//! it becomes a backup.

use callboard_text::path_text;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use super::stage_error::changed_error;
use super::staged_dir::{StagedDir, Staging};
use crate::error::ToolError;
use crate::files::entry_fingerprint::EntryFingerprint;
use crate::files::state::journal::{JournalWriteKind, PlannedWrite, remove_tree};
use crate::files::state::undo_entry::{Backup, FileOperation};
use crate::files::state::undo_store::UndoStore;
use crate::files::system::{Dir, FileId, FileKind};
use crate::files::workspace::Workspace;
use crate::files::workspace::open::EntryPath;
use crate::limits::MAX_UNDO_BYTES;

/// An entry, and the temporary name in the same directory to which it is moved.
#[derive(Debug)]
pub(in crate::files) struct AsideName<'a> {
    pub(in crate::files) entry: &'a EntryPath,
    pub(in crate::files) kind: FileKind,
    pub(in crate::files) temporary: OsString,
}

/// An entry to remove, as the preview has found it.
#[derive(Debug, Clone, Copy)]
pub(in crate::files) struct EntryToRemove<'a> {
    pub(in crate::files) entry: &'a EntryPath,
    pub(in crate::files) fingerprint: &'a EntryFingerprint,
    /// Whether the entry becomes a backup. Otherwise, the removal is permanent.
    pub(in crate::files) can_be_restored: bool,
}

/// An entry that a call removes.
#[derive(Debug)]
pub(in crate::files) struct StagedRemoval<'a> {
    workspace: &'a Workspace,
    found: EntryToRemove<'a>,
    dir: StagedDir,
    name: AsideName<'a>,
    id: FileId,
    stage: RemovalStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalStage {
    /// The entry has its original name.
    Original,
    /// The entry has its temporary name.
    Aside,
    /// The entry is a backup, or was removed.
    Gone,
}

impl AsideName<'_> {
    /// Moves the entry to its temporary name.
    pub(in crate::files) fn move_aside(&self, dir: &Dir) -> io::Result<()> {
        dir.rename_to_unused(&self.entry.name, &self.temporary)
    }

    /// Returns whether the entry at the temporary name matches the fingerprint.
    ///
    /// From the time when it is moved, the entry can only be changed by programs that already have
    /// the file or directory open.
    pub(in crate::files) fn is_unchanged(&self, dir: &Dir, seen: &EntryFingerprint) -> bool {
        EntryFingerprint::compute(dir, &self.temporary).is_ok_and(|now| now == *seen)
    }

    /// Moves the entry back to its original name. Fails if this name is in use.
    pub(in crate::files) fn move_back(&self, dir: &Dir) -> io::Result<()> {
        dir.rename_to_unused(&self.temporary, &self.entry.name)
    }

    /// Removes the entry permanently.
    pub(in crate::files) fn remove(&self, dir: &Dir) -> io::Result<()> {
        match self.kind {
            FileKind::Directory => remove_tree(dir, &self.temporary),
            FileKind::File | FileKind::Link | FileKind::Special => dir.remove_file(&self.temporary),
        }
    }

    /// Returns the path of the entry at its temporary name.
    pub(in crate::files) fn path(&self) -> PathBuf {
        self.entry.path.path().with_file_name(&self.temporary)
    }
}

impl<'a> StagedRemoval<'a> {
    /// Prepares the removal. Changes nothing.
    pub(in crate::files) fn create(
        staging: &Staging<'a>,
        found: EntryToRemove<'a>,
        temporary: OsString,
    ) -> Result<Self, ToolError> {
        let (workspace, entry) = (staging.workspace, found.entry);
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => changed_error(&entry.path),
            _ => workspace.explain_io_error(&entry.path, &error),
        };
        let dir = workspace.open_dir(&entry.parent)?;
        let id = dir.entry_id(&entry.name).map_err(explain)?;
        // The path of the entry itself has no links, unlike the path of `entry.parent`.
        let parent = entry.path.parent().unwrap_or_else(|| entry.parent.clone());
        let dir = staging.wrap_open_dir(&parent, dir).map_err(explain)?;
        let name = AsideName { entry, kind: found.fingerprint.kind, temporary };
        Ok(Self { workspace, found, dir, name, id, stage: RemovalStage::Original })
    }

    /// Returns the record of this entry for the journal.
    pub(in crate::files) fn journal_entry(&self) -> PlannedWrite {
        PlannedWrite::new(JournalWriteKind::Aside, self.id, None, [0; 32])
    }

    /// Moves the entry to its temporary name. Fails if the entry has changed since the preview.
    pub(in crate::files) fn move_aside_if_unchanged(&mut self) -> Result<(), ToolError> {
        let path = &self.name.entry.path;
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => changed_error(path),
            _ => self.workspace.explain_io_error(path, &error),
        };
        let dir = self.dir.open().map_err(explain)?;
        self.name.move_aside(&dir).map_err(explain)?;
        self.stage = RemovalStage::Aside;
        match self.name.is_unchanged(&dir, self.found.fingerprint) {
            true => Ok(()),
            false => Err(changed_error(path)),
        }
    }

    /// Waits until the names in the directory are on disk. Does nothing if `waited` already
    /// contains the directory.
    pub(in crate::files) fn sync_directory_entries(
        &self,
        waited: &mut HashSet<FileId>,
    ) -> Result<(), ToolError> {
        let synced = self.dir.sync_once(self.workspace.durability(), waited);
        synced.map_err(|error| self.workspace.explain_io_error(&self.name.entry.path, &error))
    }

    /// Moves the entry back. If its name is in use, the error contains its path and the path of its
    /// content.
    pub(in crate::files) fn roll_back(&mut self) -> Result<(), String> {
        if self.stage != RemovalStage::Aside {
            return Ok(());
        }
        let moved = self.dir.open().and_then(|dir| self.name.move_back(&dir));
        moved.map_err(|error| {
            let (given, place) = (self.name.entry.path.given(), self.name.path());
            format!("{given} ({error}; it is in {})", path_text(&place))
        })?;
        self.stage = RemovalStage::Original;
        Ok(())
    }

    /// Turns the entry into a backup if possible, and removes it otherwise. Returns the operation
    /// that is needed to undo the removal.
    pub(in crate::files) fn back_up_or_remove(
        &mut self,
        undo: Option<&UndoStore>,
    ) -> FileOperation {
        let path = self.name.entry.path.path().to_owned();
        let undo = undo.filter(|_| self.found.can_be_restored);
        if let Some(backup) = undo.and_then(|undo| self.back_up(undo)) {
            return FileOperation::Deleted { path, backup };
        }
        if let Some(undo) = undo {
            undo.record_missing_backup(&path);
        }
        self.remove();
        FileOperation::Unrecoverable { path }
    }

    fn back_up(&mut self, undo: &UndoStore) -> Option<Backup> {
        let seen = self.found.fingerprint;
        let dir = self.dir.open().ok()?;
        match undo.move_in(&dir, &self.name.temporary, seen.bytes) {
            Ok(backup) => {
                self.stage = RemovalStage::Gone;
                backup
            }
            Err(_) if seen.kind != FileKind::Directory && seen.bytes <= MAX_UNDO_BYTES => {
                let backup = undo.copy_in(&dir, &self.name.temporary).ok().flatten()?;
                self.remove();
                Some(backup)
            }
            Err(_) => None,
        }
    }

    /// Removes the entry. If this fails, the next start removes it.
    fn remove(&mut self) {
        let removed = self.dir.open().and_then(|dir| self.name.remove(&dir));
        if removed.is_ok() {
            self.stage = RemovalStage::Gone;
        }
    }

    /// Returns whether the entry has no temporary name any more.
    pub(in crate::files) fn has_no_temporary_entry(&self) -> bool {
        self.stage != RemovalStage::Aside
    }
}
