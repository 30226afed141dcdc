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
mod exchange;
mod stage_error;
mod staged;
mod staged_addition;
mod staged_call;
mod staged_dir;
mod staged_removal;

use std::io;

use callboard_text::group_thousands;

use crate::error::{ErrorCode, ToolError};
use crate::files::state::journal::{JournaledFile, random_call_number, temporary_name};
use crate::files::state::undo_entry::{ModeChange, UndoEntry};
use crate::files::system::read_all_if_within_limit;
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::progress::{FilesDone, OnProgress};

pub(crate) use self::crash_protection::CrashProtection;
pub(in crate::files) use self::crash_protection::ReplaceOrInPlace;
pub(in crate::files) use self::staged::StagedFile;
pub(in crate::files) use self::staged_addition::{AdditionPlace, LinkOrDir, StagedLinkOrDir};
pub(in crate::files) use self::staged_call::{StagedCall, journal_names_of_entry};
pub(in crate::files) use self::staged_dir::{StagedDir, Staging, WriteTarget};
pub(in crate::files) use self::staged_removal::{AsideName, EntryToRemove, StagedRemoval};

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
    /// The mode of the file in the preview, and its new mode. `None` if the mode is not compared
    /// and stays as it is.
    pub(crate) modes: Option<ModeChange>,
}

impl<'a> FileWrite<'a> {
    /// Creates the write of a file. `expected` is the content of the file in the preview.
    #[must_use]
    pub fn new(path: &'a WorkspacePath, expected: Option<&'a [u8]>, bytes: &'a [u8]) -> Self {
        Self { path, expected, bytes, modes: None }
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
    let bytes = read_all_if_within_limit(&file, cap)
        .map_err(|error| workspace.explain_io_error(at, &error))?;
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
pub fn atomic_write_if_unchanged(
    workspace: &Workspace,
    at: &WorkspacePath,
    bytes: &[u8],
    expected: &PreImage,
) -> Result<(), ToolError> {
    write_all_or_none(workspace, &[FileWrite::new(at, expected.bytes(), bytes)])
}

/// Writes several files: either all of them or none. Each file is written in the same way as by
/// [`atomic_write_if_unchanged`].
///
/// # Errors
///
/// Returns the error of [`atomic_write_if_unchanged`] for the first file that cannot be written or
/// that occurs twice. All files are then restored. If a file cannot be restored, the error contains
/// its path.
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
    let mut written = stage_and_commit_writes(workspace, changes, protection, watch)?;
    back_up_and_record_undo(workspace, &mut written, protection);
    Ok(())
}

/// Turns the old files of a call into backups, and records the operations that are needed to undo
/// the call.
pub(in crate::files) fn back_up_and_record_undo(
    workspace: &Workspace,
    call: &mut StagedCall<'_>,
    protection: &CrashProtection,
) {
    let undo = protection.keeps_backups().then(|| workspace.undo_store());
    let deeds = call.back_up_old(undo);
    workspace.undo_store().push(UndoEntry::new(deeds));
}

/// Writes several files: either all of them or none. Creates no backups.
pub(crate) fn stage_and_commit_writes<'a>(
    workspace: &'a Workspace,
    changes: &[FileWrite<'a>],
    protection: &CrashProtection,
    watch: &mut OnProgress<'_>,
) -> Result<StagedCall<'a>, ToolError> {
    let call = random_call_number();
    let manners = protection.choose_replace_or_in_place(workspace, changes)?;
    let names = match protection.keeps_backups() {
        true => Some(journal_files(workspace, changes, &manners, call)?),
        false => None,
    };
    let mut written = StagedCall::begin(workspace, names)?;
    let staging = Staging::new(workspace, changes.len());
    let of_bytes = changes.iter().map(|change| change.bytes.len()).sum();
    let of_files = changes.len();
    let mut far =
        FilesDone { files: 0, total_files: of_files, bytes: 0, total_bytes: Some(of_bytes) };
    for (number, (change, manner)) in changes.iter().zip(manners).enumerate() {
        let mut filled = |bytes| watch(FilesDone { bytes: far.bytes + bytes, ..far });
        let temporary = temporary_name(call, number);
        let target = WriteTarget::resolve(&staging, *change, manner)?;
        let staged = StagedFile::new(&staging, *change, target, manner, temporary);
        written.stage_file(staged, &mut filled)?;
        far = FilesDone { files: number + 1, bytes: far.bytes + change.bytes.len(), ..far };
        watch(far);
    }
    written.commit()?;
    for staged in &written.files {
        workspace.known_hashes().record(staged.path(), staged.new_hash());
    }
    Ok(written)
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

/// Returns the records of the names of the files for the journal.
fn journal_files(
    workspace: &Workspace,
    changes: &[FileWrite<'_>],
    manners: &[ReplaceOrInPlace],
    call: u64,
) -> Result<Vec<JournaledFile>, ToolError> {
    let names = changes.iter().zip(manners).enumerate().map(|(number, (change, manner))| {
        let real = workspace.path_beneath_real_root(&workspace.canonicalize(change.path)?);
        let parent = real.parent().zip(real.file_name());
        let is_a_directory =
            || workspace.explain_io_error(change.path, &io::ErrorKind::IsADirectory.into());
        let (dir, name) = parent.ok_or_else(is_a_directory)?;
        let missing = dir.ancestors().take_while(|dir| change.expected.is_none() && !dir.exists());
        let mut made: Vec<_> = missing.map(|dir| dir.as_os_str().to_owned()).collect();
        made.reverse();
        let copies = manner.repair_copy_folder(workspace);
        let (dir, name, temporary) = (dir.into(), name.to_owned(), temporary_name(call, number));
        Ok(JournaledFile { made, ..journal_names_of_entry(dir, name, temporary, copies) })
    });
    names.collect()
}

/// Creates the error for a state folder that cannot be used, although the preview could use it. The
/// next preview detects this.
pub(in crate::files) fn state_folder_error(workspace: &Workspace, error: &io::Error) -> ToolError {
    let message =
        format!("no file was changed: {}", workspace.state_folder().record_write_failure(error));
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
