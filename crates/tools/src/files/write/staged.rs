//! One file on its way: the new one beside the old one, then in its place, and back if need be.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::write_safety::{BackupLocation, WriteMode};
use super::{FileWrite, state_folder_error};
use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::contents::{differs, equals, equals_undisturbed, overwrite, write_with_progress};
use crate::files::state::journal::{self, PreparedFile, new_content_name, old_file_name};
use crate::files::state::undo_entry::FileOperation;
use crate::files::state::undo_store::UndoStore;
use crate::files::system::{
    Dir, EntryMetadata, FileId, FileKind, FileVisibility, HasFileId as _, PinnedDirectory,
    copy_access, link_count,
};
use crate::files::workspace::{Workspace, WorkspacePath, open};
use crate::limits::MAX_EXCHANGE_TRIES;

/// A file that is ready to be written. What lies beside it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct StagedFile<'a> {
    workspace: &'a Workspace,
    change: FileWrite<'a>,
    /// The real place.
    path: PathBuf,
    dir: Dir,
    /// Where the copies lie, if not beside it.
    backup_dir: Option<Dir>,
    mode: WriteMode,
    name: OsString,
    /// The file beside it: the new one, or a copy of the old one where that is written in place.
    temporary: OsString,
    /// The directories that were made for it.
    created_dirs: Vec<WorkspacePath>,
    /// What tells the new file from others, once it is held.
    new_file_id: FileId,
    /// The new file from when it is put in its place, so that what somebody puts there next is
    /// known for another one even if ours is gone.
    new_file: Option<File>,
    /// The old file, as it was when its content was compared last.
    old_metadata: Option<EntryMetadata>,
    new_hash: ContentHash,
    method: WriteMethod,
    stage: StagedState,
    /// Whether it held something else right after it was written in place.
    had_concurrent_write: bool,
}

#[derive(Debug)]
enum WriteMethod {
    /// Nothing was there.
    Add,
    /// It takes the place of another file.
    Replace,
    /// Its bytes are replaced.
    InPlace(File),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StagedState {
    /// The new file is beside the old one.
    Prepared,
    /// The new file is in its place. The old one is beside it, if there was one.
    Written,
    /// It is neither the old one nor the new one, and what lies beside it is needed.
    Stranded,
    /// Nothing is beside it any more.
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
    /// Makes the new file beside the old one, which it does not touch. It tells again and again how
    /// many bytes of it are written.
    pub(super) fn new(
        workspace: &'a Workspace,
        change: FileWrite<'a>,
        manner: WriteMode,
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
        let copies = match (manner.backup_location, workspace.journal_folder()) {
            (BackupLocation::StateFolder, Some(folder)) => {
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
        // From here on what is made is removed whatever happens.
        let mut staged = Self {
            workspace,
            change,
            path,
            dir,
            backup_dir: copies,
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
            let temporary = self.dir.create(&self.temporary, FileVisibility::Everyone)?;
            self.new_file_id = self.dir.entry_id(&self.temporary)?;
            write_with_progress(&temporary, self.change.bytes, filled)?;
            return Ok(self.workspace.durability().sync_file(&temporary)?);
        };
        // Opening it for writing asks for the permission that a rename would not need.
        let mut file = match self.dir.open_read_write(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(changed_error(self.change.path).into());
            }
            other => other?,
        };
        let metadata = file.metadata()?;
        open::require_file(self.change.path, &metadata)?;
        open::require_same(self.workspace, self.change.path, &metadata)?;
        self.old_metadata = Some(self.dir.entry_metadata(&self.name)?);
        self.require_unchanged(&mut file)?;
        if self.mode.backup_location == BackupLocation::NoBackup {
            self.method = WriteMethod::InPlace(file);
            return Ok(());
        }
        let temporary = self.temporary_dir().create(&self.temporary, FileVisibility::Owner);
        let temporary = temporary.map_err(|error| self.backup_error(error))?;
        self.method = WriteMethod::Replace;
        let ours = self.temporary_dir().entry_id(&self.temporary);
        self.new_file_id = ours.map_err(|error| self.backup_error(error))?;
        let is_in_place = self.mode.is_in_place || link_count(&metadata) > 1;
        if is_in_place || !copy_access(&file, &temporary)? {
            if self.mode.is_exchange_required {
                self.workspace.record_in_place_only(&self.path);
                return Err(in_place_only_error(self.change.path).into());
            }
            self.method = WriteMethod::InPlace(file);
            // Both are beside it, so that a half of each can be told from anything else.
            let copied = self
                .temporary_dir()
                .create(&new_content_name(&self.temporary), FileVisibility::Owner);
            let copied = copied.and_then(|new| {
                write_with_progress(&new, self.change.bytes, filled)?;
                self.workspace.durability().sync_file(&new)?;
                write_with_progress(&temporary, old, &mut |_| {})?;
                self.workspace.durability().sync_file(&temporary)
            });
            return copied.map_err(|error| self.backup_error(error));
        }
        write_with_progress(&temporary, self.change.bytes, filled)?;
        // Writing may have taken the set-user-id bit away.
        temporary.set_permissions(metadata.permissions())?;
        Ok(self.workspace.durability().sync_file(&temporary)?)
    }

    /// Blames the state folder for an error of the copies, where they lie there.
    fn backup_error(&self, error: io::Error) -> StageError {
        match self.backup_dir {
            Some(_) => state_folder_error(self.workspace, &error).into(),
            None => error.into(),
        }
    }

    /// Where its copies lie, and the new file before it is in its place.
    fn temporary_dir(&self) -> &Dir {
        self.backup_dir.as_ref().unwrap_or(&self.dir)
    }

    /// Puts the new file in its place, if there still is the old one.
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
            WriteMethod::Add => self.add(),
            _ => self.replace(),
        }
    }

    fn add(&self) -> Result<(), StageError> {
        match self.dir.rename(&self.temporary, &self.name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(match self.dir.kind(&self.name)? {
                    FileKind::Link => dangling_link_error(self.change.path).into(),
                    FileKind::Directory => StageError::Io(io::ErrorKind::IsADirectory.into()),
                    FileKind::File | FileKind::Special => changed_error(self.change.path).into(),
                })
            }
            done => Ok(done?),
        }
    }

    fn replace(&mut self) -> Result<(), StageError> {
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
                    // Until it is back, the file beside it is the only one that somebody wrote.
                    self.stage = StagedState::Stranded;
                    self.exchange_back(self.new_file_id)?;
                    self.stage = StagedState::Prepared;
                    Err(trouble)
                }
            },
        }
    }

    /// Compares and replaces, for systems that cannot exchange. The old file gets one more name
    /// before, so that it can be put back.
    fn replace_without_exchange(&mut self) -> Result<(), StageError> {
        let old = old_file_name(&self.temporary);
        self.require_unchanged_at(&self.name.clone())?;
        if self.dir.link(&self.name, &old).is_err() {
            // Nothing lies beside it then: see `make_again`.
            return Ok(self.dir.replace(&self.temporary, &self.name)?);
        }
        if let Err(error) = self.dir.replace(&self.temporary, &self.name) {
            self.dir.remove(&old)?;
            return Err(error.into());
        }
        if let Err(error) = self.dir.replace(&old, &self.temporary) {
            self.stage = StagedState::Stranded;
            self.dir.replace(&old, &self.name)?;
            self.stage = StagedState::Prepared;
            return Err(error.into());
        }
        Ok(())
    }

    fn overwrite(&mut self, file: &File) -> Result<(), StageError> {
        // Who replaced it by a rename has another file there, and this one is none of ours.
        let is_there = self.dir.entry_id(&self.name).ok() == Some(file.file_id()?);
        let old = self.change.expected.unwrap_or_default();
        if !is_there || !equals_undisturbed(file, &mut &*file, old)? {
            return Err(self.changed_error().into());
        }
        let durability = self.workspace.durability();
        let written = overwrite(file, self.change.bytes).and_then(|()| durability.sync_file(file));
        if written.is_err() {
            // Until it is whole again, the file beside it is the only whole one.
            self.stage = StagedState::Stranded;
            overwrite(file, old)?;
            self.stage = StagedState::Prepared;
        }
        self.had_concurrent_write = written.is_ok() && differs(file, self.change.bytes);
        Ok(written?)
    }

    /// Waits until the disk has the names in its directory, unless that is one of those that were
    /// waited for.
    pub(super) fn sync_names(&self, waited: &mut HashSet<FileId>) -> Result<(), ToolError> {
        let mut wait = || match waited.insert(self.dir.own_id()?) {
            true => self.workspace.durability().sync_directory(&self.dir),
            false => Ok(()),
        };
        wait().map_err(|error| self.workspace.explain_io_error(self.change.path, &error))
    }

    /// What a journal has to know.
    pub(super) fn journal_entry(&self) -> PreparedFile {
        let way = match self.method {
            WriteMethod::Add => journal::JournalWriteKind::Add,
            WriteMethod::Replace => journal::JournalWriteKind::Replace,
            WriteMethod::InPlace(_) => journal::JournalWriteKind::InPlace,
        };
        let old = self.old_metadata.map(|old| old.file_id);
        PreparedFile { way, ours: self.new_file_id, old, after: *self.new_hash.as_bytes() }
    }

    pub(super) fn is_in_place(&self) -> bool {
        matches!(self.method, WriteMethod::InPlace(_))
    }

    /// Whether somebody else wrote to it while it was written in place: it may hold parts of both.
    pub(super) fn had_concurrent_write(&self) -> bool {
        self.had_concurrent_write
    }

    /// Says that its file is not the one that was seen.
    pub(super) fn changed_error(&self) -> ToolError {
        changed_error(self.change.path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn new_hash(&self) -> ContentHash {
        self.new_hash
    }

    /// Keeps the old file, and tells what was done. It is done by now, so what cannot be kept is
    /// told to be lost.
    /// Without `undo`, nothing is kept.
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
                    undo.watch(&path, &blob, look, || ContentHash::of_bytes(old));
                }
                Some(blob)
            }
            Ok(None) => None,
            // What somebody wrote to it late is copied too.
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

    /// Removes what lies beside the file. Returns whether nothing is left to be put in order.
    pub(super) fn clean(&mut self) -> bool {
        let state = std::mem::replace(&mut self.stage, StagedState::Cleaned);
        if state == StagedState::Cleaned {
            return true;
        }
        if self.mode.backup_location == BackupLocation::NoBackup {
            return true;
        }
        let remove = |name: &OsStr| match self.temporary_dir().remove(name) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        };
        // A file that was added has its own name now, and nothing has this one.
        let mut is_clean = state != StagedState::Stranded && remove(&self.temporary);
        if let (WriteMethod::InPlace(_), true) = (&self.method, is_clean) {
            is_clean = remove(&new_content_name(&self.temporary));
        }
        if state != StagedState::Written {
            open::remove_dirs(&self.created_dirs);
        }
        is_clean
    }

    /// Makes all as it was before. The error names the file if that cannot be done.
    pub(super) fn roll_back(&mut self) -> Result<(), String> {
        if self.stage != StagedState::Written {
            return Ok(());
        }
        let done = match (&self.method, self.change.expected) {
            (WriteMethod::InPlace(file), Some(old)) => self.restore_in_place(file, old),
            (WriteMethod::Add, _) | (_, None) => self.if_still_ours(|| self.dir.remove(&self.name)),
            (WriteMethod::Replace, Some(old)) => {
                self.exchange_back(self.new_file_id).or_else(|error| match error.kind() {
                    io::ErrorKind::Unsupported => {
                        self.if_still_ours(|| self.dir.replace(&self.temporary, &self.name))
                    }
                    io::ErrorKind::NotFound => self.if_still_ours(|| self.recreate_old(old)),
                    _ => Err(error),
                })
            }
        };
        self.stage = if done.is_ok() { StagedState::Prepared } else { StagedState::Stranded };
        done.map_err(|error| format!("{} ({error})", self.change.path.given()))
    }

    /// Writes the old file anew, where no second name could be given to it.
    fn recreate_old(&self, old: &[u8]) -> io::Result<()> {
        let again = self.dir.create(&self.temporary, FileVisibility::Owner)?;
        write_with_progress(&again, old, &mut |_| {})?;
        copy_access(&self.dir.open(&self.name)?, &again)?;
        self.workspace.durability().sync_file(&again)?;
        self.dir.replace(&self.temporary, &self.name)
    }

    /// Does something with the file, if it is the one that was put there: any other is newer.
    fn if_still_ours(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let is_ours = self.dir.entry_id(&self.name).is_ok_and(|there| there == self.new_file_id);
        if is_ours { change() } else { Ok(()) }
    }

    /// Writes the old bytes, if the new ones are there: what somebody wrote since is newer.
    fn restore_in_place(&self, file: &File, old: &[u8]) -> io::Result<()> {
        let is_ours = equals_undisturbed(file, &mut &*file, self.change.bytes)?;
        if is_ours { overwrite(file, old) } else { Ok(()) }
    }

    /// Exchanges the file in its place, which is `put`, for the one beside it.
    ///
    /// Whatever comes out and is not what was put there is newer, so it is put back in turn: who
    /// writes last wins, as without us.
    fn exchange_back(&mut self, mut put: FileId) -> io::Result<()> {
        // What was put there is held too, until it is known whether it came out.
        let mut _held;
        for _ in 0..MAX_EXCHANGE_TRIES {
            let kept = self.dir.entry_id(&self.temporary)?;
            let holding = self.dir.hold_open(&self.temporary);
            match self.dir.exchange(&self.temporary, &self.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return self.dir.rename(&self.temporary, &self.name);
                }
                other => other?,
            }
            if self.dir.entry_id(&self.temporary)? == put {
                return Ok(());
            }
            (put, _held) = (kept, holding);
        }
        Err(io::Error::other("it is being written all the time"))
    }

    fn require_unchanged_at(&mut self, name: &OsStr) -> Result<(), StageError> {
        let Ok(mut file) = self.dir.open(name) else {
            return Err(changed_error(self.change.path).into());
        };
        if !file.metadata()?.is_file() {
            return Err(changed_error(self.change.path).into());
        }
        // Before its content: who writes after that is noticed by it.
        self.old_metadata = Some(self.dir.entry_metadata(name)?);
        self.require_unchanged(&mut file)
    }

    fn require_unchanged(&self, file: &mut impl io::Read) -> Result<(), StageError> {
        let is_old = equals(file, self.change.expected.unwrap_or_default())?;
        if is_old { Ok(()) } else { Err(changed_error(self.change.path).into()) }
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        self.clean();
    }
}

fn changed_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} was changed by something else since this change was prepared, so nothing was written. \
         Read it again",
        at.given()
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

/// Says that a file would be written in place, which the next preview knows.
fn in_place_only_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} can only be written in place, because its owner or attributes cannot be given to \
         another file or it has another name, so nothing was written. Try again",
        at.given()
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

fn dangling_link_error(at: &WorkspacePath) -> ToolError {
    let message = format!("{} is a link to a file that does not exist. Write that one", at.given());
    ToolError::recoverable(ErrorCode::NotFound, message)
}
