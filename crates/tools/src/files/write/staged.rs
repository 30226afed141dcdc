//! The stages of writing one file. The new file is created next to the old file, and is then moved
//! into its place. A rollback restores the old file.

mod roll_back;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use super::crash_protection::{RepairCopyLocation, ReplaceOrInPlace};
use super::exchange::exchange_back;
use super::stage_error::{StageError, changed_error, dangling_link_error, in_place_only_error};
use super::staged_dir::{StagedDir, Staging, WriteTarget};
use super::{FileWrite, state_folder_error};
use crate::error::ToolError;
use crate::files::content_hash::ContentHash;
use crate::files::contents::{
    differs_if_readable, equals_without_concurrent_change, overwrite, rest_equals,
    write_with_progress,
};
use crate::files::state::journal::{
    JournalWriteKind, PlannedWrite, in_place_new_content_name, old_file_name,
};
use crate::files::state::undo_entry::FileOperation;
use crate::files::state::undo_store::UndoStore;
use crate::files::system::{
    EntryMetadata, FileId, FileKind, FileVisibility, HasFileId as _, copy_access, is_link_loop,
    link_count, mode_bits, set_mode_bits,
};
use crate::files::workspace::{Workspace, open};

/// A file to write. Its temporary files are removed when this value is dropped.
#[derive(Debug)]
pub(in crate::files) struct StagedFile<'a> {
    workspace: &'a Workspace,
    change: FileWrite<'a>,
    target: WriteTarget,
    mode: ReplaceOrInPlace,
    /// The name of the temporary file, which contains the new content. If the file is written in
    /// place, the temporary file contains a copy of the old content instead.
    temporary: OsString,
    /// Whether the new file stays open until the end of the call.
    keeps_open: bool,
    /// Whether the content of the old file is compared when the file is staged. It is always
    /// compared again when the new file is moved into place.
    compares_first: bool,
    /// The id of the new file, which is known as soon as this file has been created.
    new_file_id: FileId,
    /// The new file, which may stay open after it was moved into place. The id of an open file is
    /// not used again, even if another program removes the file.
    new_file: Option<File>,
    /// The metadata of the old file at the time when its content was last compared.
    old_metadata: Option<EntryMetadata>,
    /// The hash of the new content, which is known when the file is staged.
    new_hash: Option<ContentHash>,
    method: WriteMethod,
    stage: StagedState,
    /// Whether the file had other content immediately after it was written in place.
    had_concurrent_write: bool,
}

#[derive(Debug)]
enum WriteMethod {
    /// The path does not exist yet, and the new file is added.
    Add,
    /// The new file replaces the old file.
    Replace,
    /// The bytes of the old file are overwritten. `None` if the old file does not stay open.
    InPlace(Option<File>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StagedState {
    /// The new file exists next to the old file, or does not exist yet.
    Prepared,
    /// The new file is in place. If there was an old file, it is now next to the new file.
    Written,
    /// The file may contain a mixture of old and new bytes. The temporary files are kept, because
    /// they are needed to repair the file.
    Stranded,
    /// All temporary files have been removed.
    Cleaned,
}

impl<'a> StagedFile<'a> {
    pub(in crate::files) fn new(
        staging: &Staging<'a>,
        change: FileWrite<'a>,
        target: WriteTarget,
        manner: ReplaceOrInPlace,
        temporary: OsString,
    ) -> Self {
        Self {
            workspace: staging.workspace,
            change,
            target,
            mode: manner,
            temporary,
            keeps_open: staging.keeps_open,
            compares_first: staging.compares_first,
            new_file_id: (0, 0),
            new_file: None,
            old_metadata: None,
            new_hash: None,
            method: WriteMethod::Add,
            stage: StagedState::Prepared,
            had_concurrent_write: false,
        }
    }

    /// Creates the new file next to the old file, without changing the old file. Calls `filled`
    /// with the number of bytes that were written so far.
    pub(super) fn stage(&mut self, filled: &mut dyn FnMut(usize)) -> Result<(), ToolError> {
        let bytes = self.change.bytes;
        let (hash, written) = ContentHash::of_bytes_during(bytes, || self.write_temporary(filled));
        self.new_hash = Some(hash);
        written.map_err(|trouble| trouble.into_tool_error(self.workspace, self.change.path))
    }

    fn write_temporary(&mut self, filled: &mut dyn FnMut(usize)) -> Result<(), StageError> {
        if self.change.expected.is_none() {
            return Ok(self.write_temporary_for_new_path(filled)?);
        }
        let (dir, (mut file, is_writable)) = (self.target.dir.open()?, self.open_old_file()?);
        let metadata = file.metadata()?;
        open::require_regular_file(self.change.path, &metadata)?;
        open::require_inspected_file_id(self.workspace, self.change.path, &metadata)?;
        self.old_metadata = Some(dir.entry_metadata(&self.target.name)?);
        let expected_size = self.change.expected.unwrap_or_default().len() as u64;
        if self.compares_first {
            self.require_unchanged(&mut file, &metadata)?;
        } else if metadata.len() != expected_size || !self.has_expected_mode(&metadata) {
            return Err(changed_error(self.change.path).into());
        }
        // A read-only file cannot be written in place.
        let is_linked = link_count(&metadata) > 1 && is_writable && !self.mode.breaks_links;
        if self.mode.repair_copy_location == RepairCopyLocation::NoCopy {
            self.method = WriteMethod::InPlace(self.keeps_open.then_some(file));
            return Ok(());
        }
        let copies = self.temporary_dir().open().map_err(|error| self.repair_copy_error(error))?;
        let temporary = copies.create_new_file(&self.temporary, FileVisibility::Owner);
        let temporary = temporary.map_err(|error| self.repair_copy_error(error))?;
        self.method = WriteMethod::Replace;
        let ours = copies.entry_id(&self.temporary);
        self.new_file_id = ours.map_err(|error| self.repair_copy_error(error))?;
        if self.mode.is_in_place || is_linked || !copy_access(&file, &temporary)? {
            if !is_writable {
                return Err(io::Error::from(io::ErrorKind::PermissionDenied).into());
            }
            if self.mode.is_exchange_required {
                self.workspace.record_in_place_only(&self.target.path);
                return Err(in_place_only_error(self.change.path).into());
            }
            self.method = WriteMethod::InPlace(self.keeps_open.then_some(file));
            let copied = self.write_repair_copies(&temporary, filled);
            return copied.map_err(|error| self.repair_copy_error(error));
        }
        write_with_progress(&temporary, self.change.bytes, filled)?;
        match self.change.modes {
            Some(modes) => set_mode_bits(&temporary, modes.after)?,
            // Writing the file may have cleared its set-user-id bit.
            None => temporary.set_permissions(metadata.permissions())?,
        }
        Ok(self.workspace.durability().sync_file(&temporary)?)
    }

    fn write_temporary_for_new_path(&mut self, filled: &mut dyn FnMut(usize)) -> io::Result<()> {
        let dir = self.temporary_dir().open()?;
        let temporary = dir.create_new_file(&self.temporary, FileVisibility::Everyone)?;
        self.new_file_id = dir.entry_id(&self.temporary)?;
        write_with_progress(&temporary, self.change.bytes, filled)?;
        if let Some(modes) = self.change.modes {
            set_mode_bits(&temporary, modes.after)?;
        }
        self.workspace.durability().sync_file(&temporary)
    }

    /// Opens the old file. Returns whether it is open for writing too.
    ///
    /// Opening it for writing checks that this process may write to it. A rename does not check
    /// this. A change with modes may replace a read-only file, because its preview has replaced the
    /// file already.
    fn open_old_file(&self) -> Result<(File, bool), StageError> {
        let dir = self.target.dir.open()?;
        match dir.open_read_write(&self.target.name) {
            Ok(file) => Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_link_loop(&error) => {
                Err(changed_error(self.change.path).into())
            }
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && self.change.modes.is_some()
                    && !self.mode.is_in_place =>
            {
                Ok((dir.open_file(&self.target.name)?, false))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the old and the new content to copies. The recovery compares the file with both. In
    /// this way, it can distinguish a torn file from a file that another program wrote.
    fn write_repair_copies(
        &self,
        temporary: &File,
        filled: &mut dyn FnMut(usize),
    ) -> io::Result<()> {
        let name = in_place_new_content_name(&self.temporary);
        let new = self.temporary_dir().open()?.create_new_file(&name, FileVisibility::Owner)?;
        write_with_progress(&new, self.change.bytes, filled)?;
        self.workspace.durability().sync_file(&new)?;
        write_with_progress(temporary, self.change.expected.unwrap_or_default(), &mut |_| {})?;
        self.workspace.durability().sync_file(temporary)
    }

    /// Reports an error as an error of the state folder if the copies are in the state folder.
    fn repair_copy_error(&self, error: io::Error) -> StageError {
        match self.mode.repair_copy_location {
            RepairCopyLocation::StateFolder => state_folder_error(self.workspace, &error).into(),
            RepairCopyLocation::SameFolder | RepairCopyLocation::NoCopy => error.into(),
        }
    }

    /// Returns the directory that contains the copies, and the new file until it is moved into
    /// place.
    pub(super) fn temporary_dir(&self) -> &StagedDir {
        self.target.temporary_dir.as_ref().unwrap_or(&self.target.dir)
    }

    /// Moves the new file into place if the old file has not changed.
    pub(super) fn apply_if_unchanged(&mut self) -> Result<(), ToolError> {
        let done = self.put_in_place();
        done.map_err(|trouble| trouble.into_tool_error(self.workspace, self.change.path))?;
        if self.stage == StagedState::Prepared {
            self.stage = StagedState::Written;
        }
        Ok(())
    }

    fn put_in_place(&mut self) -> Result<(), StageError> {
        if let WriteMethod::InPlace(file) = &self.method {
            return match self.old_file_in_place(file.as_ref()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(self.changed_error().into())
                }
                file => self.overwrite(&file?),
            };
        }
        if self.keeps_open {
            self.new_file = Some(self.temporary_dir().open()?.hold_open(&self.temporary)?);
        }
        match self.method {
            WriteMethod::Add => self.add_new_file(),
            _ => self.exchange_if_unchanged(),
        }
    }

    fn add_new_file(&self) -> Result<(), StageError> {
        let (dir, name) = (self.target.dir.open()?, &self.target.name);
        let temporaries = self.temporary_dir().open()?;
        match temporaries.rename_to_unused_in(&self.temporary, &dir, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(match dir.entry_kind(name)? {
                    FileKind::Link => dangling_link_error(self.change.path).into(),
                    FileKind::Directory => StageError::Io(io::ErrorKind::IsADirectory.into()),
                    FileKind::File | FileKind::Special => changed_error(self.change.path).into(),
                })
            }
            done => Ok(done?),
        }
    }

    fn exchange_if_unchanged(&mut self) -> Result<(), StageError> {
        let dir = self.target.dir.open()?;
        match dir.exchange(&self.temporary, &self.target.name) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.replace_without_exchange()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(changed_error(self.change.path).into())
            }
            Err(error) => Err(error.into()),
            Ok(()) => match self.require_unchanged_at(&self.temporary.clone()) {
                Ok(()) => Ok(()),
                Err(trouble) => {
                    // Until the exchange is reverted, the content that the other program wrote
                    // exists only in the temporary file.
                    self.stage = StagedState::Stranded;
                    exchange_back(&dir, &self.temporary, &self.target.name, self.new_file_id)?;
                    self.stage = StagedState::Prepared;
                    Err(trouble)
                }
            },
        }
    }

    /// Compares the file and replaces it. Used on file systems that do not support exchanges.
    /// Creates a hard link to the old file, so that the old file can be restored.
    fn replace_without_exchange(&mut self) -> Result<(), StageError> {
        let (dir, name) = (self.target.dir.open()?, self.target.name.clone());
        let old = old_file_name(&self.temporary);
        self.require_unchanged_at(&name)?;
        if dir.create_hard_link(&name, &old).is_err() {
            // If no hard link can be created, a rollback uses `recreate_old`.
            return Ok(dir.rename_over(&self.temporary, &name)?);
        }
        if let Err(error) = dir.rename_over(&self.temporary, &name) {
            dir.remove_file(&old)?;
            return Err(error.into());
        }
        if let Err(error) = dir.rename_over(&old, &self.temporary) {
            self.stage = StagedState::Stranded;
            dir.rename_over(&old, &name)?;
            self.stage = StagedState::Prepared;
            return Err(error.into());
        }
        Ok(())
    }

    /// Returns the old file of a write in place. If the file did not stay open, opens it again.
    /// Fails if another file has its name now.
    fn old_file_in_place(&self, opened: Option<&File>) -> io::Result<File> {
        if let Some(opened) = opened {
            return opened.try_clone();
        }
        let file = self.target.dir.open()?.open_read_write(&self.target.name)?;
        match self.old_metadata {
            Some(old) if old.file_id == file.file_id()? => Ok(file),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn overwrite(&mut self, file: &File) -> Result<(), StageError> {
        // If another program replaced the file by a rename, this descriptor still refers to the old
        // file.
        let there = self.target.dir.open()?.entry_id(&self.target.name).ok();
        let (is_there, old) =
            (there == Some(file.file_id()?), self.change.expected.unwrap_or_default());
        let is_old = is_there
            && self.has_expected_mode(&file.metadata()?)
            && equals_without_concurrent_change(file, &mut &*file, old)?;
        if !is_old {
            return Err(self.changed_error().into());
        }
        let durability = self.workspace.durability();
        let modes = self.mode_change_if_in_place();
        let set_mode = |mode: Option<u32>| mode.map_or(Ok(()), |mode| set_mode_bits(file, mode));
        let written = overwrite(file, self.change.bytes)
            .and_then(|()| set_mode(modes.map(|(_, after)| after)))
            .and_then(|()| durability.sync_file(file));
        if written.is_err() {
            // Until the old bytes are restored, only the temporary file has complete content.
            self.stage = StagedState::Stranded;
            overwrite(file, old)?;
            set_mode(modes.map(|(before, _)| before))?;
            self.stage = StagedState::Prepared;
        }
        self.had_concurrent_write = written.is_ok() && differs_if_readable(file, self.change.bytes);
        Ok(written?)
    }

    /// Returns the old and the new mode of a file that is written in place, if they differ.
    fn mode_change_if_in_place(&self) -> Option<(u32, u32)> {
        let modes = self.change.modes.filter(|_| self.is_written_in_place())?;
        Some((modes.before?, modes.after)).filter(|(before, after)| before != after)
    }

    /// Waits until the name of the file is on disk. Does nothing if `waited` already contains its
    /// directory.
    pub(super) fn sync_directory_entries(
        &self,
        waited: &mut HashSet<FileId>,
    ) -> Result<(), ToolError> {
        self.sync_dir_once(&self.target.dir, waited)
    }

    /// Waits until the names of the temporary files are on disk, in the same way as
    /// [`Self::sync_directory_entries`].
    pub(super) fn sync_temporary_dir(&self, waited: &mut HashSet<FileId>) -> Result<(), ToolError> {
        self.sync_dir_once(self.temporary_dir(), waited)
    }

    fn sync_dir_once(
        &self,
        dir: &StagedDir,
        waited: &mut HashSet<FileId>,
    ) -> Result<(), ToolError> {
        let wait = dir.sync_once(self.workspace.durability(), waited);
        wait.map_err(|error| self.workspace.explain_io_error(self.change.path, &error))
    }

    /// Returns the record of this file for the journal.
    pub(super) fn journal_entry(&self) -> PlannedWrite {
        let way = match self.method {
            WriteMethod::Add => JournalWriteKind::Add,
            WriteMethod::Replace => JournalWriteKind::Replace,
            WriteMethod::InPlace(_) => JournalWriteKind::InPlace,
        };
        let old = self.old_metadata.map(|old| old.file_id);
        let modes = self.mode_change_if_in_place();
        let after = *self.new_hash().as_bytes();
        PlannedWrite { modes, ..PlannedWrite::new(way, self.new_file_id, old, after) }
    }

    pub(super) fn is_written_in_place(&self) -> bool {
        matches!(self.method, WriteMethod::InPlace(_))
    }

    /// Returns whether another program wrote to the file while it was written in place, so that the
    /// file may contain parts of both writes.
    pub(super) fn had_concurrent_write(&self) -> bool {
        self.had_concurrent_write
    }

    /// Creates the error for a file that has changed since the preview.
    pub(super) fn changed_error(&self) -> ToolError {
        changed_error(self.change.path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.target.path
    }

    pub(super) fn new_hash(&self) -> ContentHash {
        self.new_hash.unwrap_or_else(|| ContentHash::of_bytes(self.change.bytes))
    }

    /// Turns the old file into a backup. Returns the operations of this write, which are needed to
    /// undo it.
    ///
    /// At this point, the write is complete, so a failure of the backup must not fail the call.
    /// Instead, the operation is recorded as unrecoverable. If `undo` is `None`, no backup is
    /// created.
    pub(super) fn back_up_old(&self, undo: Option<&UndoStore>) -> Vec<FileOperation> {
        let (path, after) = (self.target.path.clone(), self.new_hash());
        let Some(old) = self.change.expected else {
            let made = self
                .target
                .created_dirs
                .iter()
                .map(|at| FileOperation::CreatedDirectory(at.path().to_owned()));
            return made.chain([FileOperation::Created { path, hash_after: after }]).collect();
        };
        let Some(undo) = undo else { return vec![FileOperation::Unrecoverable { path }] };
        let bytes = old.len() as u64;
        let dir = self.temporary_dir().open();
        let moved = dir.as_ref().map_err(|error| error.kind().into());
        let before = match moved.and_then(|dir| undo.move_in(dir, &self.temporary, bytes)) {
            Ok(Some(blob)) => {
                if let (WriteMethod::Replace, Some(look)) = (&self.method, self.old_metadata) {
                    undo.watch_backup(&path, &blob, look, || ContentHash::of_bytes(old));
                }
                Some(blob)
            }
            Ok(None) => None,
            // A copy of the old file includes what was written to it after `old` was read.
            Err(_) => {
                let copied = dir.and_then(|dir| undo.copy_in(&dir, &self.temporary));
                copied.or_else(|_| undo.write_backup(old)).ok().flatten()
            }
        };
        let modes = self.change.modes;
        vec![match before {
            Some(backup) => FileOperation::Replaced { path, backup, hash_after: after, modes },
            None => {
                undo.record_missing_backup(&path);
                FileOperation::Unrecoverable { path }
            }
        }]
    }

    /// Removes the temporary files. Returns `false` if a file remains that a recovery needs.
    pub(super) fn remove_temporary_files(&mut self) -> bool {
        let state = std::mem::replace(&mut self.stage, StagedState::Cleaned);
        if state == StagedState::Cleaned {
            return true;
        }
        if self.mode.repair_copy_location == RepairCopyLocation::NoCopy {
            return true;
        }
        let dir = self.temporary_dir().open();
        let remove = |name: &OsStr| match dir.as_ref().map(|dir| dir.remove_file(name)) {
            Ok(Ok(())) => true,
            Ok(Err(error)) => error.kind() == io::ErrorKind::NotFound,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        // If a new file was added, it was moved by a rename, so its temporary name no longer
        // exists.
        let mut is_clean = state != StagedState::Stranded && remove(&self.temporary);
        if let (WriteMethod::InPlace(_), true) = (&self.method, is_clean) {
            is_clean = remove(&in_place_new_content_name(&self.temporary));
        }
        if state != StagedState::Written {
            open::remove_empty_dirs(&self.target.created_dirs);
        }
        is_clean
    }

    fn require_unchanged_at(&mut self, name: &OsStr) -> Result<(), StageError> {
        let dir = self.target.dir.open()?;
        let Ok(mut file) = dir.open_file(name) else {
            return Err(changed_error(self.change.path).into());
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(changed_error(self.change.path).into());
        }
        // Read the metadata before the content. If another program writes after the comparison, the
        // metadata then differ.
        self.old_metadata = Some(dir.entry_metadata(name)?);
        self.require_unchanged(&mut file, &metadata)
    }

    fn require_unchanged(
        &self,
        file: &mut impl io::Read,
        metadata: &Metadata,
    ) -> Result<(), StageError> {
        let is_old = self.has_expected_mode(metadata)
            && rest_equals(file, self.change.expected.unwrap_or_default())?;
        if is_old { Ok(()) } else { Err(changed_error(self.change.path).into()) }
    }

    /// Returns whether the file has the mode of the preview. Returns `true` if the mode is not
    /// compared.
    fn has_expected_mode(&self, metadata: &Metadata) -> bool {
        let expected = self.change.modes.and_then(|modes| modes.before);
        expected.is_none_or(|expected| mode_bits(metadata) == expected)
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        self.remove_temporary_files();
    }
}
