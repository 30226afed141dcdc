//! The stages of adding a link or an empty directory. It is created at a temporary name, and is
//! then moved into its place.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::stage_error::changed_error;
use super::staged_dir::{StagedDir, Staging};
use crate::error::ToolError;
use crate::files::content_hash::ContentHash;
use crate::files::state::journal::{JournalEntryKind, JournalWriteKind, PlannedWrite};
use crate::files::state::undo_entry::FileOperation;
use crate::files::system::{Dir, FileId, FileKind};
use crate::files::workspace::{Workspace, WorkspacePath};

/// A link or an empty directory to add.
#[derive(Debug)]
pub(in crate::files) struct StagedLinkOrDir<'a> {
    workspace: &'a Workspace,
    place: AdditionPlace,
    content: LinkOrDir<'a>,
    id: FileId,
    stage: AdditionStage,
}

/// The place of a link or a directory to add.
#[derive(Debug)]
pub(in crate::files) struct AdditionPlace {
    pub(in crate::files) at: WorkspacePath,
    /// The directory in which the entry is added.
    pub(in crate::files) dir: StagedDir,
    pub(in crate::files) name: OsString,
    /// The directory that contains the entry until it is moved into place.
    pub(in crate::files) temporary_dir: StagedDir,
    pub(in crate::files) temporary: OsString,
}

/// The kind of an added entry.
#[derive(Debug, Clone, Copy)]
pub(in crate::files) enum LinkOrDir<'a> {
    /// A link with its target.
    Link(&'a Path),
    /// A directory with its mode. `None` for the default mode.
    Directory(Option<u32>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AdditionStage {
    /// The entry has its temporary name, or does not exist yet.
    Prepared,
    /// The entry is in place.
    Added,
    /// A rollback failed. The next start repeats it.
    Stranded,
    /// The entry does not exist any more.
    Removed,
}

impl<'a> StagedLinkOrDir<'a> {
    pub(in crate::files) fn new(
        staging: &Staging<'a>,
        place: AdditionPlace,
        content: LinkOrDir<'a>,
    ) -> Self {
        let (workspace, stage) = (staging.workspace, AdditionStage::Prepared);
        Self { workspace, place, content, id: (0, 0), stage }
    }

    /// Creates the entry at its temporary name.
    pub(super) fn stage(&mut self) -> Result<(), ToolError> {
        let created = self.create_temporary_entry();
        self.id =
            created.map_err(|error| self.workspace.explain_io_error(&self.place.at, &error))?;
        Ok(())
    }

    fn create_temporary_entry(&self) -> io::Result<FileId> {
        let AdditionPlace { temporary_dir, temporary, .. } = &self.place;
        let dir = temporary_dir.open()?;
        match self.content {
            LinkOrDir::Link(target) => dir.create_link(target.as_os_str(), temporary)?,
            LinkOrDir::Directory(_) => dir.create_dir(temporary)?,
        }
        if let LinkOrDir::Directory(Some(mode)) = self.content {
            // Its owner needs all rights, so that files can be added to the directory, and removed
            // when the call is undone.
            dir.set_entry_mode(temporary, (mode & 0o777) | 0o700)?;
        }
        dir.entry_id(temporary)
    }

    /// Returns the directory that this entry will be. `None` for a link.
    pub(in crate::files) fn as_dir(&self) -> Option<StagedDir> {
        match self.content {
            LinkOrDir::Link(_) => None,
            LinkOrDir::Directory(_) => Some(StagedDir::for_later(&self.place.at, self.id)),
        }
    }

    /// Returns the record of this entry for the journal.
    pub(super) fn journal_entry(&self) -> PlannedWrite {
        let after = *self.content.link_target_hash().as_bytes();
        let kind = match self.content {
            LinkOrDir::Link(_) => JournalEntryKind::Link,
            LinkOrDir::Directory(_) => JournalEntryKind::Directory,
        };
        PlannedWrite { kind, ..PlannedWrite::new(JournalWriteKind::Add, self.id, None, after) }
    }

    /// Moves the entry into place if its path does not exist.
    pub(super) fn move_into_place(&mut self) -> Result<(), ToolError> {
        let AdditionPlace { at, dir, name, temporary_dir, temporary } = &self.place;
        let added = temporary_dir.open().and_then(|temporaries| {
            temporaries.rename_to_unused_in(temporary, &*dir.open()?, name)
        });
        added.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => changed_error(at),
            _ => self.workspace.explain_io_error(at, &error),
        })?;
        self.stage = AdditionStage::Added;
        Ok(())
    }

    /// Removes the entry from its place. A directory that contains files of other programs stays.
    /// If the entry cannot be removed, the error contains its path.
    pub(super) fn roll_back(&mut self) -> Result<(), String> {
        if self.stage != AdditionStage::Added {
            return Ok(());
        }
        let done = self.remove_if_still_ours();
        self.stage = if done.is_ok() { AdditionStage::Removed } else { AdditionStage::Stranded };
        done.map_err(|error| format!("{} ({error})", self.place.at.given()))
    }

    fn remove_if_still_ours(&self) -> io::Result<()> {
        let (dir, name) = (self.place.dir.open()?, &self.place.name);
        if !dir.entry_id(name).is_ok_and(|there| there == self.id) {
            return Ok(());
        }
        match self.content.remove_if_same_kind(&dir, name) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            done => done,
        }
    }

    /// Removes the entry if it was not moved into place. Returns `false` if something remains that
    /// the next start must remove.
    pub(super) fn remove_temporary_entry(&mut self) -> bool {
        match self.stage {
            AdditionStage::Added | AdditionStage::Removed => true,
            AdditionStage::Stranded => false,
            AdditionStage::Prepared => {
                self.stage = AdditionStage::Removed;
                let dir = self.place.temporary_dir.open();
                let removed = dir
                    .and_then(|dir| self.content.remove_if_same_kind(&dir, &self.place.temporary));
                removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
            }
        }
    }

    /// Waits until the temporary name is on disk. Does nothing if `waited` already contains its
    /// directory.
    pub(super) fn sync_temporary_dir(&self, waited: &mut HashSet<FileId>) -> Result<(), ToolError> {
        self.sync_dir_once(&self.place.temporary_dir, waited)
    }

    /// Waits until the final name is on disk, in the same way as [`Self::sync_temporary_dir`].
    pub(super) fn sync_directory_entries(
        &self,
        waited: &mut HashSet<FileId>,
    ) -> Result<(), ToolError> {
        self.sync_dir_once(&self.place.dir, waited)
    }

    fn sync_dir_once(
        &self,
        dir: &StagedDir,
        waited: &mut HashSet<FileId>,
    ) -> Result<(), ToolError> {
        let synced = dir.sync_once(self.workspace.durability(), waited);
        synced.map_err(|error| self.workspace.explain_io_error(&self.place.at, &error))
    }

    /// Returns the operation that is needed to undo the addition.
    pub(super) fn undo_operation(&self) -> FileOperation {
        let path = self.place.at.path().to_owned();
        match self.content {
            LinkOrDir::Link(_) => {
                FileOperation::CreatedLink { path, hash_after: self.content.link_target_hash() }
            }
            LinkOrDir::Directory(_) => FileOperation::CreatedDirectory(path),
        }
    }
}

impl LinkOrDir<'_> {
    /// Returns the hash of the target of a link.
    fn link_target_hash(self) -> ContentHash {
        match self {
            Self::Link(target) => ContentHash::of_bytes(target.as_os_str().as_encoded_bytes()),
            Self::Directory(_) => ContentHash::of_bytes(b""),
        }
    }

    /// Removes an entry of this kind. Does nothing if another program has put an entry of another
    /// kind there.
    fn remove_if_same_kind(self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        match (self, dir.entry_kind(name)?) {
            (Self::Link(_), FileKind::Link) => dir.remove_file(name),
            (Self::Directory(_), FileKind::Directory) => dir.remove_dir(name),
            _ => Ok(()),
        }
    }
}
