//! The staged changes of one call, which are applied completely or not at all.
//!
//! Removed entries are moved aside first. Then the new directories and links are moved into place,
//! parents first, and then the files. One journal protects all of these steps: after a crash, the
//! next start reverts a call that was not finished.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

use super::staged::StagedFile;
use super::staged_addition::StagedLinkOrDir;
use super::staged_removal::StagedRemoval;
use super::{state_folder_error, with_unrestored_files};
use crate::error::ToolError;
use crate::files::Durability;
use crate::files::state::journal::{JournaledFile, PlannedWrite, RollbackJournal};
use crate::files::state::undo_entry::FileOperation;
use crate::files::state::undo_store::UndoStore;
use crate::files::system::FileId;
use crate::files::workspace::Workspace;

/// The staged changes of one call. Until this value is dropped, the old files remain next to the
/// new files.
#[derive(Debug)]
pub(crate) struct StagedCall<'a> {
    workspace: &'a Workspace,
    pub(in crate::files) removals: Vec<StagedRemoval<'a>>,
    /// The new directories and links, parents first.
    pub(in crate::files) additions: Vec<StagedLinkOrDir<'a>>,
    pub(in crate::files) files: Vec<StagedFile<'a>>,
    journal: Option<RollbackJournal>,
}

impl<'a> StagedCall<'a> {
    /// Begins a call. `names` contains the removals, the additions and the files, in this order.
    /// `None` if the call has no journal.
    pub(in crate::files) fn begin(
        workspace: &'a Workspace,
        names: Option<Vec<JournaledFile>>,
    ) -> Result<Self, ToolError> {
        let begin = |names| match workspace.journal_folder_after_recovery() {
            Some(folder) => RollbackJournal::begin(folder, names).map(Some),
            None => Ok(None),
        };
        let journal = names.map_or(Ok(None), begin);
        let journal = journal.map_err(|error| state_folder_error(workspace, &error))?;
        let (removals, additions, files) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { workspace, removals, additions, files, journal })
    }

    /// Adds a file, and creates its temporary files. Calls `filled` with the number of bytes that
    /// were written so far.
    pub(in crate::files) fn stage_file(
        &mut self,
        mut staged: StagedFile<'a>,
        filled: &mut dyn FnMut(usize),
    ) -> Result<(), ToolError> {
        let done = staged.stage(filled);
        // After a failure, this call removes what was created.
        self.files.push(staged);
        done
    }

    /// Adds a link or a directory, and creates it at its temporary name.
    pub(in crate::files) fn stage_link_or_dir(
        &mut self,
        mut staged: StagedLinkOrDir<'a>,
    ) -> Result<(), ToolError> {
        let done = staged.stage();
        self.additions.push(staged);
        done
    }

    /// Applies all changes, or none of them.
    pub(in crate::files) fn commit(&mut self) -> Result<(), ToolError> {
        self.write_ready()?;
        if let Err(error) = self.put_all_in_place().and_then(|()| self.write_done()) {
            return Err(with_unrestored_files(error, &self.roll_back()));
        }
        for staged in self.files.iter().filter(|staged| staged.had_concurrent_write()) {
            self.workspace.undo_store().record_concurrent_write(staged.path());
        }
        Ok(())
    }

    /// Records in the journal that everything is staged.
    fn write_ready(&mut self) -> Result<(), ToolError> {
        let count = self.removals.len() + self.additions.len() + self.files.len();
        // After a power failure, a single exchanged file is either old or new, even if the journal
        // was not synced.
        let needs_it = count > 1 || self.files.iter().any(StagedFile::is_written_in_place);
        let is_one_exchange = !needs_it && self.files.len() == 1;
        let durability = if needs_it { self.workspace.durability() } else { Durability::System };
        let planned = self.planned_writes();
        if let Some(journal) = &mut self.journal {
            let bound = if is_one_exchange { journal.bind_to_boot() } else { Ok(()) };
            let ready = bound.and_then(|()| journal.write_ready(planned));
            let ready = ready.and_then(|()| journal.sync(durability));
            let ready = ready.and_then(|()| journal.sync_name(durability));
            ready.map_err(|error| state_folder_error(self.workspace, &error))?;
        }
        if needs_it {
            // The recovery after a power failure needs the temporary files, so their directory
            // entries must be on disk too.
            let mut waited = HashSet::new();
            for staged in &self.additions {
                staged.sync_temporary_dir(&mut waited)?;
            }
            for staged in &self.files {
                staged.sync_temporary_dir(&mut waited)?;
            }
        }
        Ok(())
    }

    /// Records in the journal that everything is in place. If the process is killed before this
    /// record is written, the next start reverts the call, which is consistent too.
    fn write_done(&mut self) -> Result<(), ToolError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let done = journal.write_done(self.workspace.durability());
        done.map_err(|error| state_folder_error(self.workspace, &error))
    }

    fn planned_writes(&self) -> Vec<PlannedWrite> {
        let removals = self.removals.iter().map(StagedRemoval::journal_entry);
        let additions = self.additions.iter().map(StagedLinkOrDir::journal_entry);
        let files = self.files.iter().map(StagedFile::journal_entry);
        removals.chain(additions).chain(files).collect()
    }

    /// Applies each change. Stops at the first failure.
    fn put_all_in_place(&mut self) -> Result<(), ToolError> {
        for removal in &mut self.removals {
            removal.move_aside_if_unchanged()?;
        }
        for addition in &mut self.additions {
            addition.move_into_place()?;
        }
        let mut written = HashSet::new();
        for staged in &mut self.files {
            // If two changes have the same path, the second one was previewed without the first
            // one, so it would revert the first one.
            if !written.insert(staged.path().to_owned()) {
                return Err(staged.changed_error());
            }
            staged.apply_if_unchanged()?;
        }
        self.sync_changed_directories()
    }

    fn sync_changed_directories(&self) -> Result<(), ToolError> {
        let mut waited: HashSet<FileId> = HashSet::new();
        for removal in &self.removals {
            removal.sync_directory_entries(&mut waited)?;
        }
        for addition in &self.additions {
            addition.sync_directory_entries(&mut waited)?;
        }
        // A file that is written in place keeps its directory entry, so its directory is not
        // synced.
        let mut moved = self.files.iter().filter(|staged| !staged.is_written_in_place());
        moved.try_for_each(|staged| staged.sync_directory_entries(&mut waited))
    }

    /// Reverts the applied changes in reverse order. Returns the paths that could not be restored.
    fn roll_back(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for staged in self.files.iter_mut().rev() {
            left.extend(staged.roll_back().err());
        }
        for addition in self.additions.iter_mut().rev() {
            left.extend(addition.roll_back().err());
        }
        for removal in self.removals.iter_mut().rev() {
            left.extend(removal.roll_back().err());
        }
        left
    }

    /// Turns the old files and the removed entries into backups. Returns the operations of the
    /// call, which are needed to undo it.
    ///
    /// At this point, the call is complete, so a failure of a backup must not fail the call.
    /// Instead, the operation is recorded as unrecoverable. If `undo` is `None`, no backup is
    /// created.
    pub(in crate::files) fn back_up_old(&mut self, undo: Option<&UndoStore>) -> Vec<FileOperation> {
        let mut operations: Vec<_> =
            self.removals.iter_mut().map(|removal| removal.back_up_or_remove(undo)).collect();
        operations.extend(self.additions.iter().map(StagedLinkOrDir::undo_operation));
        operations.extend(self.files.iter().flat_map(|staged| staged.back_up_old(undo)));
        operations
    }
}

impl Drop for StagedCall<'_> {
    fn drop(&mut self) {
        let mut is_clean = true;
        // Remove the files in reverse order, because a directory that was created for one file may
        // contain files that were written later.
        for staged in self.files.iter_mut().rev() {
            is_clean &= staged.remove_temporary_files();
        }
        for addition in self.additions.iter_mut().rev() {
            is_clean &= addition.remove_temporary_entry();
        }
        is_clean &= self.removals.iter().all(StagedRemoval::has_no_temporary_entry);
        if let (false, Some(journal)) = (is_clean, &mut self.journal) {
            journal.keep_for_replay();
        }
    }
}

/// Returns the record of the names of an entry for the journal.
pub(in crate::files) fn journal_names_of_entry(
    dir: PathBuf,
    name: OsString,
    temporary: OsString,
    temporary_dir: Option<PathBuf>,
) -> JournaledFile {
    let copies = temporary_dir.filter(|other| *other != dir).map(PathBuf::into_os_string);
    JournaledFile { dir: dir.into_os_string(), name, temporary, made: Vec::new(), copies }
}
