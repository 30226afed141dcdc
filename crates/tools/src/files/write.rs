//! Writes whole files. Each file has either its old or its new content, but never a mixture of
//! both.
//!
//! All new files are first created next to the old files. Then each new file is exchanged with its
//! old file, and the old file is compared with the preview. If another program wrote to the old
//! file in the meantime, the files are exchanged again, so that no content is lost. If the file
//! system does not support exchanges, the old file is compared once more and then replaced
//! immediately. If one of several files cannot be written, the files that were already written are
//! restored.
//!
//! The owner, the mode and the extended attributes (including access control lists) are preserved.
//! If the path is a link, the target of the link is written. Some files cannot be replaced by
//! another file: mount points, files with several hard links, and files whose owner or attributes
//! cannot be copied. Such files are written in place, with a copy in the same folder. If no other
//! file can be created in the folder, the file is also written in place, and its copies are in the
//! state folder.

mod crash_protection;
mod staged;

use std::collections::HashSet;
use std::io;

use callboard_text::group_thousands;

use crate::error::{ErrorCode, ToolError};
use crate::files::Durability;
use crate::files::state::journal::{Journal, JournalFile, next_call_number, temporary_name};
use crate::files::state::undo_entry::{FileOperation, UndoEntry};
use crate::files::system::read_to_cap;
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::progress::{FilesDone, OnProgress};

pub(crate) use self::crash_protection::CrashProtection;
use self::crash_protection::{RepairCopyLocation, ReplaceOrInPlace};
use self::staged::StagedFile;

/// The state of a file at the time when a change of it was previewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreImage {
    /// The file did not exist.
    Missing,
    /// The file existed and had these bytes.
    Bytes(Vec<u8>),
}

/// A file to write, and its new content.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FileWrite<'a> {
    /// The path of the file to write.
    pub path: &'a WorkspacePath,
    /// The content of the file in the preview. `None` if the file did not exist.
    pub expected: Option<&'a [u8]>,
    /// The new content of the file.
    pub bytes: &'a [u8],
}

impl<'a> FileWrite<'a> {
    /// Creates the write of a file. `expected` is the content of the file in the preview.
    #[must_use]
    pub fn new(path: &'a WorkspacePath, expected: Option<&'a [u8]>, bytes: &'a [u8]) -> Self {
        Self { path, expected, bytes }
    }
}

/// Reads a whole file for a preview. A missing file is not an error.
///
/// # Errors
///
/// The errors of [`Workspace::open_read`], except `not_found`; `too_large` for a file with more
/// than `cap` bytes.
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

/// Writes a whole file if it has not changed since the preview. Creates missing directories.
///
/// A new file never overwrites a file that another program created in the meantime.
///
/// # Errors
///
/// - `changed_since_preview` if the file has changed. In this case, nothing was written.
/// - `is_a_directory`, `not_a_regular_file`, `not_a_directory`.
/// - `outside_roots` if a link leads out of the project folders.
/// - `not_permitted`, e.g. for a read-only file, even if the permissions of its directory would
///   allow replacing the file.
/// - `io`.
pub fn atomic_write(
    workspace: &Workspace,
    at: &WorkspacePath,
    bytes: &[u8],
    expected: &PreImage,
) -> Result<(), ToolError> {
    write_all_or_none(workspace, &[FileWrite { path: at, expected: expected.bytes(), bytes }])
}

/// Writes several files: either all of them or none. Each file is written in the same way as by
/// [`atomic_write`].
///
/// # Errors
///
/// Returns the error of [`atomic_write`] for the first file that cannot be written or that occurs
/// twice. All files are then restored. If a file cannot be restored, the error contains its path.
pub fn write_all_or_none(
    workspace: &Workspace,
    changes: &[FileWrite<'_>],
) -> Result<(), ToolError> {
    let protection = CrashProtection::assess(workspace, changes)?;
    write_all_with_progress(workspace, changes, &protection, &mut |_| {})
}

/// Writes files in the same way as [`write_all_or_none`]. Uses the protection for which permission
/// was given, and reports the progress to `watch`.
pub(crate) fn write_all_with_progress(
    workspace: &Workspace,
    changes: &[FileWrite<'_>],
    protection: &CrashProtection,
    watch: &mut OnProgress<'_>,
) -> Result<(), ToolError> {
    let written = write_all_without_backups(workspace, changes, protection, watch)?;
    let undo = protection.keeps_backups().then(|| workspace.undo_store());
    let deeds: Vec<_> = written.staged.iter().flat_map(|staged| staged.back_up_old(undo)).collect();
    for deed in undo.map(|_| &deeds).into_iter().flatten() {
        if let FileOperation::Unrecoverable { path } = deed {
            workspace.undo_store().record_unrecoverable(path);
        }
    }
    workspace.undo_store().push(UndoEntry::new(deeds));
    Ok(())
}

/// Files that were written. Until this value is dropped, the old files remain next to the new
/// files.
#[derive(Debug)]
pub(crate) struct WrittenFiles<'a> {
    staged: Vec<StagedFile<'a>>,
    journal: Option<Journal>,
}

/// Writes several files: either all of them or none. Creates no backups.
pub(crate) fn write_all_without_backups<'a>(
    workspace: &'a Workspace,
    changes: &[FileWrite<'a>],
    protection: &CrashProtection,
    watch: &mut OnProgress<'_>,
) -> Result<WrittenFiles<'a>, ToolError> {
    let call = next_call_number();
    let manners = protection.write_modes(workspace, changes)?;
    let journal = match protection.keeps_backups() {
        true => begin_journal(workspace, changes, &manners, call)?,
        false => None,
    };
    let mut written = WrittenFiles { staged: Vec::with_capacity(changes.len()), journal };
    let of_bytes = changes.iter().map(|change| change.bytes.len()).sum();
    let of_files = changes.len();
    let mut far =
        FilesDone { files: 0, total_files: of_files, bytes: 0, total_bytes: Some(of_bytes) };
    for (number, (change, manner)) in changes.iter().zip(manners).enumerate() {
        let mut filled = |bytes| watch(FilesDone { bytes: far.bytes + bytes, ..far });
        let temporary = temporary_name(call, number);
        written.staged.push(StagedFile::create(
            workspace,
            *change,
            manner,
            temporary,
            &mut filled,
        )?);
        far = FilesDone { files: number + 1, bytes: far.bytes + change.bytes.len(), ..far };
        watch(far);
    }
    let WrittenFiles { staged, journal } = &mut written;
    // After a power failure, a single exchanged file is either old or new, even if the journal was
    // not synced.
    let needs_it = staged.len() > 1 || staged.iter().any(StagedFile::is_written_in_place);
    let durability = if needs_it { workspace.durability() } else { Durability::System };
    if let Some(journal) = journal {
        let ready = journal.write_ready(staged.iter().map(StagedFile::journal_entry).collect());
        let ready = ready.and_then(|()| journal.sync(durability));
        let ready = ready.and_then(|()| journal.sync_name(durability));
        ready.map_err(|error| state_folder_error(workspace, &error))?;
    }
    if needs_it {
        // The recovery after a power failure needs the temporary files, so their directory entries
        // must be on disk too.
        sync_directory_entries(staged.iter())?;
    }
    if let Err(error) = put_all_in_place(staged) {
        let put_back = staged.iter_mut().rev().map(StagedFile::roll_back);
        let left: Vec<_> = put_back.filter_map(Result::err).collect();
        return Err(with_unrestored_files(error, &left));
    }
    if let Some(journal) = journal {
        // If the process is killed before this record is written, the next start reverts the call,
        // which is consistent too. However, a power failure must not revert a call that was
        // reported as complete. Therefore the record is synced.
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

/// Moves each file into place. Stops at the first failure.
fn put_all_in_place(staged: &mut [StagedFile<'_>]) -> Result<(), ToolError> {
    for at in 0..staged.len() {
        // If two changes have the same path, the second one was previewed without the first one, so
        // it would revert the first one.
        let (before, rest) = staged.split_at_mut(at);
        let next = &mut rest[0];
        if before.iter().any(|before| before.path() == next.path()) {
            return Err(next.changed_error());
        }
        next.commit()?;
    }
    // A file that is written in place keeps its directory entry, so its directory is not synced.
    sync_directory_entries(staged.iter().filter(|staged| !staged.is_written_in_place()))
}

/// Waits until the directory entries of some files are on disk.
fn sync_directory_entries<'a>(
    mut staged: impl Iterator<Item = &'a StagedFile<'a>>,
) -> Result<(), ToolError> {
    let mut waited = HashSet::new();
    staged.try_for_each(|staged| staged.sync_directory_entries(&mut waited))
}

impl Drop for WrittenFiles<'_> {
    fn drop(&mut self) {
        // Remove the files in reverse order, because a directory that was created for one file may
        // contain files that were written later.
        for staged in self.staged.iter_mut().rev() {
            if let (false, Some(journal)) = (staged.remove_temporary_files(), &mut self.journal) {
                journal.keep_for_replay();
            }
        }
    }
}

impl PreImage {
    /// Returns the bytes that the file had. Returns `None` if the file did not exist.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Missing => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// Creates a journal if the workspace uses journals.
fn begin_journal(
    workspace: &Workspace,
    changes: &[FileWrite<'_>],
    manners: &[ReplaceOrInPlace],
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
        let copies = (manner.repair_copy_location == RepairCopyLocation::StateFolder)
            .then(|| folder.as_os_str().to_owned());
        Ok(JournalFile { dir, name, temporary, made, copies })
    });
    let names = names.collect::<Result<_, ToolError>>()?;
    Journal::begin(folder, names).map(Some).map_err(|error| state_folder_error(workspace, &error))
}

/// Creates the error for a state folder that cannot be used, although the preview could use it. The
/// next preview detects this.
fn state_folder_error(workspace: &Workspace, error: &io::Error) -> ToolError {
    let message =
        format!("no file was changed: {}", workspace.state_folder().record_failure(error));
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

/// Creates the error for a failed backup. If the state folder is unusable or full, the error names
/// this folder.
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

/// Adds to an error the list `left` of files that could not be restored. If the list is empty,
/// returns the error unchanged.
pub(crate) fn with_unrestored_files(error: ToolError, left: &[String]) -> ToolError {
    if left.is_empty() {
        return error;
    }
    // The code is always `io`, because other codes promise that nothing was changed.
    let message = format!("{error}. These could not be restored: {}", left.join(", "));
    ToolError::recoverable(ErrorCode::Io, message)
}

#[cfg(test)]
mod tests;
