//! The stages of writing one file. The new file is created next to the old file, and is then moved
//! into its place. A rollback restores the old file.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::crash_protection::{RepairCopyLocation, ReplaceOrInPlace};
use super::{FileWrite, state_folder_error};
use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::contents::{
    differs_if_readable, equals_without_concurrent_change, overwrite, rest_equals,
    write_with_progress,
};
use crate::files::state::journal::{self, PlannedWrite, new_content_name, old_file_name};
use crate::files::state::undo_entry::FileOperation;
use crate::files::state::undo_store::UndoStore;
use crate::files::system::{
    Dir, EntryMetadata, FileId, FileKind, FileVisibility, HasFileId as _, PinnedDirectory,
    copy_access, link_count,
};
use crate::files::workspace::{Workspace, WorkspacePath, open};
use crate::limits::MAX_EXCHANGE_TRIES;

/// A file that is ready to be written. The temporary files are removed when this value is dropped.
#[derive(Debug)]
pub(super) struct StagedFile<'a> {
    workspace: &'a Workspace,
    change: FileWrite<'a>,
    /// The path of the file after all links are followed.
    path: PathBuf,
    dir: Dir,
    /// The directory that contains the copies. `None` if it is the directory of the file.
    repair_copy_dir: Option<Dir>,
    mode: ReplaceOrInPlace,
    name: OsString,
    /// The name of the temporary file, which contains the new content. If the file is written in
    /// place, the temporary file contains a copy of the old content instead.
    temporary: OsString,
    /// The directories that were created for the file.
    created_dirs: Vec<WorkspacePath>,
    /// The id of the new file, which is known as soon as this file has been created.
    new_file_id: FileId,
    /// The new file, which stays open after it was moved into place. The id of an open file is not
    /// used again, even if another program removes the file.
    new_file: Option<File>,
    /// The metadata of the old file at the time when its content was last compared.
    old_metadata: Option<EntryMetadata>,
    new_hash: ContentHash,
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
    /// The bytes of the old file are overwritten.
    InPlace(File),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StagedState {
    /// The new file exists next to the old file.
    Prepared,
    /// The new file is in place. If there was an old file, it is now next to the new file.
    Written,
    /// The file may contain a mixture of old and new bytes. The temporary files are kept, because
    /// they are needed to repair the file.
    Stranded,
    /// All temporary files have been removed.
    Cleaned,
}

enum StageError {
    Io(io::Error),
    Tool(ToolError),
}

impl From<io::Error> for StageError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ToolError> for StageError {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

impl StageError {
    fn into_tool_error(self, workspace: &Workspace, at: &WorkspacePath) -> ToolError {
        match self {
            Self::Io(error) => workspace.explain_io_error(at, &error),
            Self::Tool(error) => error,
        }
    }
}

impl<'a> StagedFile<'a> {
    /// Creates the new file next to the old file, without changing the old file. Calls `filled`
    /// with the number of bytes that were written so far.
    pub(super) fn create(
        workspace: &'a Workspace,
        change: FileWrite<'a>,
        manner: ReplaceOrInPlace,
        temporary: OsString,
        filled: &mut dyn FnMut(usize),
    ) -> Result<Self, ToolError> {
        let at = change.path;
        let target = workspace.canonicalize(at)?;
        let (Some(parent), Some(name)) = (target.parent(), target.path_in_root().file_name())
        else {
            return Err(workspace.explain_io_error(at, &io::ErrorKind::IsADirectory.into()));
        };
        let (dir, made) = match change.expected {
            None => open::create_dirs(workspace, &parent)?,
            Some(_) => match workspace.open_dir(&parent) {
                Err(error) if error.code() == Some(ErrorCode::NotFound) => {
                    return Err(changed_error(at));
                }
                other => (other?, Vec::new()),
            },
        };
        let copies = match (manner.repair_copy_location, workspace.journal_folder()) {
            (RepairCopyLocation::StateFolder, Some(folder)) => {
                let dir =
                    PinnedDirectory::pin(folder).and_then(|root| root.open_dir(Path::new("")));
                Some(dir.map_err(|error| state_folder_error(workspace, &error))?)
            }
            _ => None,
        };
        let (path, name) = (target.path().to_owned(), name.to_owned());
        let (state, way, ours, held, old) =
            (StagedState::Prepared, WriteMethod::Add, (0, 0), None, None);
        let after = ContentHash::of_bytes(change.bytes);
        // From here on, an error drops `staged`, which removes the created files.
        let mut staged = Self {
            workspace,
            change,
            path,
            dir,
            repair_copy_dir: copies,
            mode: manner,
            name,
            temporary,
            created_dirs: made,
            new_file_id: ours,
            new_file: held,
            old_metadata: old,
            new_hash: after,
            method: way,
            stage: state,
            had_concurrent_write: false,
        };
        staged.write_temporary(filled).map_err(|trouble| trouble.into_tool_error(workspace, at))?;
        Ok(staged)
    }

    fn write_temporary(&mut self, filled: &mut dyn FnMut(usize)) -> Result<(), StageError> {
        let Some(old) = self.change.expected else {
            let temporary = self.dir.create_new_file(&self.temporary, FileVisibility::Everyone)?;
            self.new_file_id = self.dir.entry_id(&self.temporary)?;
            write_with_progress(&temporary, self.change.bytes, filled)?;
            return Ok(self.workspace.durability().sync_file(&temporary)?);
        };
        // Opening the file for writing checks that this process may write to it. A rename does not
        // check this.
        let mut file = match self.dir.open_read_write(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(changed_error(self.change.path).into());
            }
            other => other?,
        };
        let metadata = file.metadata()?;
        open::require_regular_file(self.change.path, &metadata)?;
        open::require_inspected_file_id(self.workspace, self.change.path, &metadata)?;
        self.old_metadata = Some(self.dir.entry_metadata(&self.name)?);
        self.require_unchanged(&mut file)?;
        if self.mode.repair_copy_location == RepairCopyLocation::NoCopy {
            self.method = WriteMethod::InPlace(file);
            return Ok(());
        }
        let temporary =
            self.temporary_dir().create_new_file(&self.temporary, FileVisibility::Owner);
        let temporary = temporary.map_err(|error| self.repair_copy_error(error))?;
        self.method = WriteMethod::Replace;
        let ours = self.temporary_dir().entry_id(&self.temporary);
        self.new_file_id = ours.map_err(|error| self.repair_copy_error(error))?;
        let is_in_place = self.mode.is_in_place || link_count(&metadata) > 1;
        if is_in_place || !copy_access(&file, &temporary)? {
            if self.mode.is_exchange_required {
                self.workspace.record_in_place_only(&self.path);
                return Err(in_place_only_error(self.change.path).into());
            }
            self.method = WriteMethod::InPlace(file);
            // The recovery compares the file with the old and the new content. In this way, it can
            // distinguish a torn file from a file that another program wrote.
            let copied = self
                .temporary_dir()
                .create_new_file(&new_content_name(&self.temporary), FileVisibility::Owner);
            let copied = copied.and_then(|new| {
                write_with_progress(&new, self.change.bytes, filled)?;
                self.workspace.durability().sync_file(&new)?;
                write_with_progress(&temporary, old, &mut |_| {})?;
                self.workspace.durability().sync_file(&temporary)
            });
            return copied.map_err(|error| self.repair_copy_error(error));
        }
        write_with_progress(&temporary, self.change.bytes, filled)?;
        // Writing the file may have cleared its set-user-id bit.
        temporary.set_permissions(metadata.permissions())?;
        Ok(self.workspace.durability().sync_file(&temporary)?)
    }

    /// Reports an error as an error of the state folder if the copies are in the state folder.
    fn repair_copy_error(&self, error: io::Error) -> StageError {
        match self.repair_copy_dir {
            Some(_) => state_folder_error(self.workspace, &error).into(),
            None => error.into(),
        }
    }

    /// Returns the directory that contains the copies, and the new file until it is moved into
    /// place.
    fn temporary_dir(&self) -> &Dir {
        self.repair_copy_dir.as_ref().unwrap_or(&self.dir)
    }

    /// Moves the new file into place if the old file has not changed.
    pub(super) fn commit(&mut self) -> Result<(), ToolError> {
        let done = self.put_in_place();
        done.map_err(|trouble| trouble.into_tool_error(self.workspace, self.change.path))?;
        if self.stage == StagedState::Prepared {
            self.stage = StagedState::Written;
        }
        Ok(())
    }

    fn put_in_place(&mut self) -> Result<(), StageError> {
        if let WriteMethod::InPlace(file) = &self.method {
            let file = file.try_clone()?;
            return self.overwrite(&file);
        }
        self.new_file = Some(self.dir.hold_open(&self.temporary)?);
        match self.method {
            WriteMethod::Add => self.add_new_file(),
            _ => self.exchange_if_unchanged(),
        }
    }

    fn add_new_file(&self) -> Result<(), StageError> {
        match self.dir.rename_to_unused(&self.temporary, &self.name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(match self.dir.entry_kind(&self.name)? {
                    FileKind::Link => dangling_link_error(self.change.path).into(),
                    FileKind::Directory => StageError::Io(io::ErrorKind::IsADirectory.into()),
                    FileKind::File | FileKind::Special => changed_error(self.change.path).into(),
                })
            }
            done => Ok(done?),
        }
    }

    fn exchange_if_unchanged(&mut self) -> Result<(), StageError> {
        match self.dir.exchange(&self.temporary, &self.name) {
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
                    self.exchange_back(self.new_file_id)?;
                    self.stage = StagedState::Prepared;
                    Err(trouble)
                }
            },
        }
    }

    /// Compares the file and replaces it. Used on file systems that do not support exchanges.
    /// Creates a hard link to the old file, so that the old file can be restored.
    fn replace_without_exchange(&mut self) -> Result<(), StageError> {
        let old = old_file_name(&self.temporary);
        self.require_unchanged_at(&self.name.clone())?;
        if self.dir.create_hard_link(&self.name, &old).is_err() {
            // If no hard link can be created, a rollback uses `recreate_old`.
            return Ok(self.dir.rename_over(&self.temporary, &self.name)?);
        }
        if let Err(error) = self.dir.rename_over(&self.temporary, &self.name) {
            self.dir.remove_file(&old)?;
            return Err(error.into());
        }
        if let Err(error) = self.dir.rename_over(&old, &self.temporary) {
            self.stage = StagedState::Stranded;
            self.dir.rename_over(&old, &self.name)?;
            self.stage = StagedState::Prepared;
            return Err(error.into());
        }
        Ok(())
    }

    fn overwrite(&mut self, file: &File) -> Result<(), StageError> {
        // If another program replaced the file by a rename, this descriptor still refers to the old
        // file.
        let is_there = self.dir.entry_id(&self.name).ok() == Some(file.file_id()?);
        let old = self.change.expected.unwrap_or_default();
        if !is_there || !equals_without_concurrent_change(file, &mut &*file, old)? {
            return Err(self.changed_error().into());
        }
        let durability = self.workspace.durability();
        let written = overwrite(file, self.change.bytes).and_then(|()| durability.sync_file(file));
        if written.is_err() {
            // Until the old bytes are restored, only the temporary file has complete content.
            self.stage = StagedState::Stranded;
            overwrite(file, old)?;
            self.stage = StagedState::Prepared;
        }
        self.had_concurrent_write = written.is_ok() && differs_if_readable(file, self.change.bytes);
        Ok(written?)
    }

    /// Waits until the entries of the directory are on disk. Does nothing if `waited` already
    /// contains the directory.
    pub(super) fn sync_directory_entries(
        &self,
        waited: &mut HashSet<FileId>,
    ) -> Result<(), ToolError> {
        let mut wait = || match waited.insert(self.dir.own_id()?) {
            true => self.workspace.durability().sync_directory(&self.dir),
            false => Ok(()),
        };
        wait().map_err(|error| self.workspace.explain_io_error(self.change.path, &error))
    }

    /// Returns the record of this file for the journal.
    pub(super) fn journal_entry(&self) -> PlannedWrite {
        let way = match self.method {
            WriteMethod::Add => journal::JournalWriteKind::Add,
            WriteMethod::Replace => journal::JournalWriteKind::Replace,
            WriteMethod::InPlace(_) => journal::JournalWriteKind::InPlace,
        };
        let old = self.old_metadata.map(|old| old.file_id);
        PlannedWrite { way, ours: self.new_file_id, old, after: *self.new_hash.as_bytes() }
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
        &self.path
    }

    pub(super) fn new_hash(&self) -> ContentHash {
        self.new_hash
    }

    /// Turns the old file into a backup. Returns the operations of this write, which are needed to
    /// undo it.
    ///
    /// At this point, the write is complete, so a failure of the backup must not fail the call.
    /// Instead, the operation is recorded as unrecoverable. If `undo` is `None`, no backup is
    /// created.
    pub(super) fn back_up_old(&self, undo: Option<&UndoStore>) -> Vec<FileOperation> {
        let (path, after) = (self.path.clone(), self.new_hash);
        let Some(old) = self.change.expected else {
            let made = self
                .created_dirs
                .iter()
                .map(|at| FileOperation::CreatedDirectory(at.path().to_owned()));
            return made.chain([FileOperation::Created { path, hash_after: after }]).collect();
        };
        let Some(undo) = undo else { return vec![FileOperation::Unrecoverable { path }] };
        let bytes = old.len() as u64;
        let before = match undo.move_in(self.temporary_dir(), &self.temporary, bytes) {
            Ok(Some(blob)) => {
                if let (WriteMethod::Replace, Some(look)) = (&self.method, self.old_metadata) {
                    undo.watch_backup(&path, &blob, look, || ContentHash::of_bytes(old));
                }
                Some(blob)
            }
            Ok(None) => None,
            // A copy of the old file includes what was written to it after `old` was read.
            Err(_) => {
                let copied = undo.copy_in(self.temporary_dir(), &self.temporary);
                copied.or_else(|_| undo.write_backup(old)).ok().flatten()
            }
        };
        vec![match before {
            Some(before) => FileOperation::Replaced { path, backup: before, hash_after: after },
            None => FileOperation::Unrecoverable { path },
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
        let remove = |name: &OsStr| match self.temporary_dir().remove_file(name) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        };
        // If a new file was added, it was moved by a rename, so its temporary name no longer
        // exists.
        let mut is_clean = state != StagedState::Stranded && remove(&self.temporary);
        if let (WriteMethod::InPlace(_), true) = (&self.method, is_clean) {
            is_clean = remove(&new_content_name(&self.temporary));
        }
        if state != StagedState::Written {
            open::remove_empty_dirs(&self.created_dirs);
        }
        is_clean
    }

    /// Restores the old state of the file. If the file cannot be restored, the error contains its
    /// path.
    pub(super) fn roll_back(&mut self) -> Result<(), String> {
        if self.stage != StagedState::Written {
            return Ok(());
        }
        let done = match (&self.method, self.change.expected) {
            (WriteMethod::InPlace(file), Some(old)) => self.restore_in_place(file, old),
            (WriteMethod::Add, _) | (_, None) => {
                self.run_if_still_ours(|| self.dir.remove_file(&self.name))
            }
            (WriteMethod::Replace, Some(old)) => {
                self.exchange_back(self.new_file_id).or_else(|error| match error.kind() {
                    io::ErrorKind::Unsupported => {
                        self.run_if_still_ours(|| self.dir.rename_over(&self.temporary, &self.name))
                    }
                    io::ErrorKind::NotFound => self.run_if_still_ours(|| self.recreate_old(old)),
                    _ => Err(error),
                })
            }
        };
        self.stage = if done.is_ok() { StagedState::Prepared } else { StagedState::Stranded };
        done.map_err(|error| format!("{} ({error})", self.change.path.given()))
    }

    /// Creates the old file again from its bytes. Used if no hard link to the old file could be
    /// created.
    fn recreate_old(&self, old: &[u8]) -> io::Result<()> {
        let again = self.dir.create_new_file(&self.temporary, FileVisibility::Owner)?;
        write_with_progress(&again, old, &mut |_| {})?;
        copy_access(&self.dir.open_file(&self.name)?, &again)?;
        self.workspace.durability().sync_file(&again)?;
        self.dir.rename_over(&self.temporary, &self.name)
    }

    /// Runs `change` if the file is still the new file. Otherwise, another program replaced the
    /// file later, and nothing is changed.
    fn run_if_still_ours(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let is_ours = self.dir.entry_id(&self.name).is_ok_and(|there| there == self.new_file_id);
        if is_ours { change() } else { Ok(()) }
    }

    /// Restores the old bytes if the file still contains the new bytes. Otherwise, another program
    /// wrote to the file later, and nothing is changed.
    fn restore_in_place(&self, file: &File, old: &[u8]) -> io::Result<()> {
        let is_ours = equals_without_concurrent_change(file, &mut &*file, self.change.bytes)?;
        if is_ours { overwrite(file, old) } else { Ok(()) }
    }

    /// Exchanges the temporary file with the file at the final name, which should have the id
    /// `put`.
    ///
    /// If the file at the final name has another id, another program has written it since. This
    /// file is then put back, so that the last write is preserved.
    fn exchange_back(&mut self, mut put: FileId) -> io::Result<()> {
        // Keeps the file at the final name open. The id of an open file is not used again, so the
        // next comparison cannot confuse this file with another one.
        let mut _held;
        for _ in 0..MAX_EXCHANGE_TRIES {
            let kept = self.dir.entry_id(&self.temporary)?;
            let holding = self.dir.hold_open(&self.temporary);
            match self.dir.exchange(&self.temporary, &self.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return self.dir.rename_to_unused(&self.temporary, &self.name);
                }
                other => other?,
            }
            if self.dir.entry_id(&self.temporary)? == put {
                return Ok(());
            }
            (put, _held) = (kept, holding);
        }
        Err(io::Error::other("other programs keep replacing the file"))
    }

    fn require_unchanged_at(&mut self, name: &OsStr) -> Result<(), StageError> {
        let Ok(mut file) = self.dir.open_file(name) else {
            return Err(changed_error(self.change.path).into());
        };
        if !file.metadata()?.is_file() {
            return Err(changed_error(self.change.path).into());
        }
        // Read the metadata before the content. If another program writes after the comparison, the
        // metadata then differ.
        self.old_metadata = Some(self.dir.entry_metadata(name)?);
        self.require_unchanged(&mut file)
    }

    fn require_unchanged(&self, file: &mut impl io::Read) -> Result<(), StageError> {
        let is_old = rest_equals(file, self.change.expected.unwrap_or_default())?;
        if is_old { Ok(()) } else { Err(changed_error(self.change.path).into()) }
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        self.remove_temporary_files();
    }
}

fn changed_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} was changed by another program since this change was prepared, so nothing was written. \
         Read it again",
        at.given()
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

/// Creates the error for a file that must be written in place. The next preview mentions that the
/// file is written in place.
fn in_place_only_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} can only be written in place, because its owner or attributes cannot be copied to \
         another file or it has several hard links, so nothing was written. Try again",
        at.given()
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

fn dangling_link_error(at: &WorkspacePath) -> ToolError {
    let message =
        format!("{} is a link to a file that does not exist. Write the target instead", at.given());
    ToolError::recoverable(ErrorCode::NotFound, message)
}
