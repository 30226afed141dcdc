//! The removal of an entry as one change of a call with several changes.
//!
//! The entry is moved to a temporary name and compared. When all changes of the call are in place,
//! it becomes a backup.

use callboard_text::path_text;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;

use super::{StagedDir, Staging};
use crate::error::ToolError;
use crate::files::remove::{AsideName, ExistingEntry, changed_error};
use crate::files::state::journal::{JournalWriteKind, PlannedWrite};
use crate::files::state::undo_entry::{Backup, FileOperation};
use crate::files::state::undo_store::UndoStore;
use crate::files::system::{FileId, FileKind};
use crate::files::workspace::Workspace;
use crate::limits::MAX_UNDO_BYTES;

/// An entry that a call removes.
#[derive(Debug)]
pub(in crate::files) struct StagedRemoval<'a> {
    workspace: &'a Workspace,
    found: &'a ExistingEntry,
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

impl<'a> StagedRemoval<'a> {
    /// Prepares the removal. Changes nothing.
    pub(in crate::files) fn create(
        staging: &Staging<'a>,
        found: &'a ExistingEntry,
        temporary: OsString,
    ) -> Result<Self, ToolError> {
        found.require_deletable()?;
        let (workspace, entry) = (staging.workspace, &found.entry);
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => changed_error(&entry.path),
            _ => workspace.explain_io_error(&entry.path, &error),
        };
        let dir = workspace.open_dir(&entry.parent)?;
        let id = dir.entry_id(&entry.name).map_err(explain)?;
        // The path of the entry itself has no links, unlike the path of `entry.parent`.
        let parent = entry.path.parent().unwrap_or_else(|| entry.parent.clone());
        let dir = staging.dir(&parent, dir).map_err(explain)?;
        let name = AsideName { entry, kind: found.fingerprint.kind, temporary };
        Ok(Self { workspace, found, dir, name, id, stage: RemovalStage::Original })
    }

    /// Returns the record of this entry for the journal.
    pub(in crate::files) fn journal_entry(&self) -> PlannedWrite {
        PlannedWrite::new(JournalWriteKind::Aside, self.id, None, [0; 32])
    }

    /// Moves the entry to its temporary name. Fails if the entry has changed since the preview.
    pub(in crate::files) fn commit(&mut self) -> Result<(), ToolError> {
        let path = &self.name.entry.path;
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => changed_error(path),
            _ => self.workspace.explain_io_error(path, &error),
        };
        let dir = self.dir.open().map_err(explain)?;
        self.name.move_aside(&dir).map_err(explain)?;
        self.stage = RemovalStage::Aside;
        match self.name.is_unchanged(&dir, &self.found.fingerprint) {
            true => Ok(()),
            false => Err(changed_error(path)),
        }
    }

    /// Waits until the names in the directory are on disk. Does nothing if `waited` already contains
    /// the directory.
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
        let undo = undo.filter(|_| self.found.can_be_restored());
        if let Some(backup) = undo.and_then(|undo| self.back_up(undo)) {
            return FileOperation::Deleted { path, backup };
        }
        if let Some(undo) = undo {
            undo.record_unrecoverable(&path);
        }
        self.remove();
        FileOperation::Unrecoverable { path }
    }

    fn back_up(&mut self, undo: &UndoStore) -> Option<Backup> {
        let seen = &self.found.fingerprint;
        let dir = self.dir.open().ok()?;
        match undo.move_in(&dir, &self.name.temporary, seen.bytes) {
            Ok(backup) => {
                self.stage = RemovalStage::Gone;
                backup
            }
            Err(_) if seen.kind == FileKind::File && seen.bytes <= MAX_UNDO_BYTES => {
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
    pub(in crate::files) fn is_finished(&self) -> bool {
        self.stage != RemovalStage::Aside
    }
}
