//! Writes whole files so that each is the old one or the new one, never half of each.
//!
//! It knows nothing of what is written or who permitted it.
//!
//! All new files are made beside the old ones first. Then each is exchanged with the old one, and
//! what came out is compared with what the preview saw: if somebody else wrote it meanwhile, it is
//! exchanged back, so nothing is lost. Where the system cannot exchange, the old one is compared
//! once more and replaced at once. If one file of several cannot be written, those before it are
//! put back.
//!
//! The owner, the mode and the extended attributes (access control lists among them) are kept. A
//! link stays a link: the file it leads to is written. A file with several names (hard links), and
//! one whose owner or attributes cannot be kept, is written in place, from a copy beside it. So are
//! files that cannot be exchanged: one that is mounted by itself, and one in a folder that takes no
//! other files; then the copies lie in the state folder.

mod staged;
mod write_safety;

use std::collections::HashSet;
use std::io;

use callboard_text::group_thousands;

use crate::error::{ErrorCode, ToolError};
use crate::files::Durability;
use crate::files::state::journal::{Journal, JournalFile, call_number, temporary_name};
use crate::files::state::undo_entry::{FileOperation, UndoEntry};
use crate::files::system::read_to_cap;
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::progress::{FileProgress, OnProgress};

use self::staged::StagedFile;
pub(crate) use self::write_safety::WriteSafety;
use self::write_safety::{BackupLocation, WriteMode};

/// What was there when a change was previewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreImage {
    /// Nothing.
    Missing,
    /// A file with these bytes.
    Bytes(Vec<u8>),
}

/// A file to be written.
#[derive(Debug, Clone, Copy)]
pub struct FileWrite<'a> {
    /// Where it is.
    pub path: &'a WorkspacePath,
    /// The bytes that the preview saw there; none if there was nothing.
    pub expected: Option<&'a [u8]>,
    /// What it shall hold.
    pub bytes: &'a [u8],
}

/// Reads a whole file for a preview; nothing is no error.
///
/// # Errors
///
/// As [`Workspace::open_read`], but not `not_found`; `too_large` for a file of more than `cap`
/// bytes.
pub fn read_whole(
    workspace: &Workspace,
    at: &WorkspacePath,
    cap: u64,
) -> Result<PreImage, ToolError> {
    let file = match workspace.open_read(at) {
        Err(error) if error.code() == Some(ErrorCode::NotFound) => return Ok(PreImage::Missing),
        other => other?,
    };
    let bytes = read_to_cap(&file, cap).map_err(|error| workspace.explain_io_error(at, &error))?;
    bytes.map(PreImage::Bytes).ok_or_else(|| {
        let message = format!("{} has more than {} bytes", at.given(), group_thousands(cap));
        ToolError::recoverable(ErrorCode::TooLarge, message)
    })
}

/// Writes a whole file if there still is what the preview saw. Missing directories are made.
///
/// A file that was not there is only ever added: if another one came meanwhile it stays.
///
/// # Errors
///
/// `changed_since_preview`, with nothing written; `is_a_directory`, `not_a_regular_file`,
/// `not_a_directory`; `outside_roots` if a link leads out; `not_permitted`, also for a file that
/// may not be written though it could be replaced; `io`.
pub fn atomic_write(
    workspace: &Workspace,
    at: &WorkspacePath,
    bytes: &[u8],
    expected: &PreImage,
) -> Result<(), ToolError> {
    write_all(workspace, &[FileWrite { path: at, expected: expected.bytes(), bytes }])
}

/// Writes several files, all or none, as [`atomic_write`] does.
///
/// # Errors
///
/// As [`atomic_write`], for the first file that cannot be written, also because it is given twice;
/// then all are as before. If one of them could not be put back, the error names it.
pub fn write_all(workspace: &Workspace, changes: &[FileWrite<'_>]) -> Result<(), ToolError> {
    let protection = WriteSafety::assess(workspace, changes)?;
    write_all_with_progress(workspace, changes, &protection, &mut |_| {})
}

/// The same, with the protection that was permitted. It reports its progress to `watch`.
pub(crate) fn write_all_with_progress(
    workspace: &Workspace,
    changes: &[FileWrite<'_>],
    protection: &WriteSafety,
    watch: &mut OnProgress<'_>,
) -> Result<(), ToolError> {
    let written = commit(workspace, changes, protection, watch)?;
    let undo = protection.keeps_backups().then(|| workspace.undo_store());
    let deeds: Vec<_> = written.staged.iter().flat_map(|staged| staged.back_up_old(undo)).collect();
    for deed in undo.map(|_| &deeds).into_iter().flatten() {
        if let FileOperation::Unrecoverable { path } = deed {
            workspace.undo_store().record_unrecoverable(path);
        }
    }
    workspace.undo_store().push(UndoEntry { operations: deeds });
    Ok(())
}

/// Files that were written, with the old ones still beside them until this is dropped.
#[derive(Debug)]
pub(crate) struct WrittenFiles<'a> {
    staged: Vec<StagedFile<'a>>,
    journal: Option<Journal>,
}

/// Writes several files, all or none, and keeps nothing of what was there.
pub(crate) fn commit<'a>(
    workspace: &'a Workspace,
    changes: &[FileWrite<'a>],
    protection: &WriteSafety,
    watch: &mut OnProgress<'_>,
) -> Result<WrittenFiles<'a>, ToolError> {
    let call = call_number();
    let manners = protection.write_modes(workspace, changes)?;
    let journal = match protection.keeps_backups() {
        true => begin_journal(workspace, changes, &manners, call)?,
        false => None,
    };
    let mut written = WrittenFiles { staged: Vec::with_capacity(changes.len()), journal };
    let of_bytes = changes.iter().map(|change| change.bytes.len()).sum();
    let of_files = changes.len();
    let mut far =
        FileProgress { files: 0, total_files: of_files, bytes: 0, total_bytes: Some(of_bytes) };
    for (number, (change, manner)) in changes.iter().zip(manners).enumerate() {
        let mut filled = |bytes| watch(FileProgress { bytes: far.bytes + bytes, ..far });
        let temporary = temporary_name(call, number);
        written.staged.push(StagedFile::new(workspace, *change, manner, temporary, &mut filled)?);
        far = FileProgress { files: number + 1, bytes: far.bytes + change.bytes.len(), ..far };
        watch(far);
    }
    let WrittenFiles { staged, journal } = &mut written;
    // One file that is exchanged is the old one or the new one without it, when the power is back.
    let needs_it = staged.len() > 1 || staged.iter().any(StagedFile::is_in_place);
    let durability = if needs_it { workspace.durability() } else { Durability::System };
    if let Some(journal) = journal {
        let ready = journal.write_ready(staged.iter().map(StagedFile::journal_entry).collect());
        let ready = ready.and_then(|()| journal.sync(durability));
        let ready = ready.and_then(|()| journal.sync_name(durability));
        ready.map_err(|error| state_folder_error(workspace, &error))?;
    }
    if needs_it {
        // Those beside the files: by them they are made whole again.
        sync_names(staged.iter())?;
    }
    if let Err(error) = put_all_in_place(staged) {
        let put_back = staged.iter_mut().rev().map(StagedFile::roll_back);
        let left: Vec<_> = put_back.filter_map(Result::err).collect();
        return Err(with_unrestored_files(error, &left));
    }
    if let Some(journal) = journal {
        // Without this line a process that is killed now would put them back, which is as good; but
        // once the call is told as done, no failure of the power may.
        drop(journal.write_done().and_then(|()| journal.sync(workspace.durability())));
    }
    for staged in staged {
        workspace.known_hashes().record(staged.path(), staged.new_hash());
        if staged.had_concurrent_write() {
            workspace.undo_store().record_concurrent_write(staged.path());
        }
    }
    Ok(written)
}

/// Puts files in their places, up to the first that cannot be.
fn put_all_in_place(staged: &mut [StagedFile<'_>]) -> Result<(), ToolError> {
    for at in 0..staged.len() {
        // A file can be given twice only if the second one was not seen after the first.
        let (before, rest) = staged.split_at_mut(at);
        let next = &mut rest[0];
        if before.iter().any(|before| before.path() == next.path()) {
            return Err(next.changed_error());
        }
        next.commit()?;
    }
    // A file that is written in place keeps its name.
    sync_names(staged.iter().filter(|staged| !staged.is_in_place()))
}

/// Waits until the disk has the names in the directories of files.
fn sync_names<'a>(mut staged: impl Iterator<Item = &'a StagedFile<'a>>) -> Result<(), ToolError> {
    let mut waited = HashSet::new();
    staged.try_for_each(|staged| staged.sync_names(&mut waited))
}

impl Drop for WrittenFiles<'_> {
    fn drop(&mut self) {
        // The last first: a directory that was made for one may hold the ones after it.
        for staged in self.staged.iter_mut().rev() {
            if let (false, Some(journal)) = (staged.clean(), &mut self.journal) {
                journal.keep_for_replay();
            }
        }
    }
}

impl PreImage {
    /// Returns the bytes, if there was a file.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Missing => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// Begins a journal, where the workspace keeps one.
fn begin_journal(
    workspace: &Workspace,
    changes: &[FileWrite<'_>],
    manners: &[WriteMode],
    call: u64,
) -> Result<Option<Journal>, ToolError> {
    let Some(folder) = workspace.journal_folder() else { return Ok(None) };
    let names = changes.iter().zip(manners).enumerate().map(|(number, (change, manner))| {
        let real = workspace.real_path(&workspace.canonicalize(change.path)?);
        let parent = real.parent().zip(real.file_name());
        let is_a_directory =
            || workspace.explain_io_error(change.path, &io::ErrorKind::IsADirectory.into());
        let (dir, name) = parent.ok_or_else(is_a_directory)?;
        let missing = dir.ancestors().take_while(|dir| change.expected.is_none() && !dir.exists());
        let mut made: Vec<_> = missing.map(|dir| dir.as_os_str().to_owned()).collect();
        made.reverse();
        let (dir, name, temporary) = (dir.into(), name.to_owned(), temporary_name(call, number));
        let copies = (manner.backup_location == BackupLocation::StateFolder)
            .then(|| folder.as_os_str().to_owned());
        Ok(JournalFile { dir, name, temporary, made, copies })
    });
    let names = names.collect::<Result<_, ToolError>>()?;
    Journal::begin(folder, names).map(Some).map_err(|error| state_folder_error(workspace, &error))
}

/// Says that the state folder failed since the change was previewed, which found it usable: another
/// preview finds that it is not.
fn state_folder_error(workspace: &Workspace, error: &io::Error) -> ToolError {
    let message = format!("nothing was done: {}", workspace.state_folder().record_failure(error));
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

/// Says why something could not be kept: the state folder is to blame if it takes nothing any more,
/// or if there is no room.
pub(crate) fn explain_backup_error(
    workspace: &Workspace,
    at: &WorkspacePath,
    error: &io::Error,
) -> ToolError {
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    match workspace.undo_store().require_can_store() {
        Err(error) => state_folder_error(workspace, &error),
        Ok(()) if is_full => state_folder_error(workspace, error),
        Ok(()) => workspace.explain_io_error(at, error),
    }
}

/// Adds to an error what could not be put back, if anything.
pub(crate) fn with_unrestored_files(error: ToolError, left: &[String]) -> ToolError {
    if left.is_empty() {
        return error;
    }
    // Whatever it was: something was done, so it must not count as something that was not.
    let message = format!("{error}. These could not be put back: {}", left.join(", "));
    ToolError::recoverable(ErrorCode::Io, message)
}

#[cfg(test)]
mod tests;
