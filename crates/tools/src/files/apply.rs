//! Applies the changes that the preview of a command has found: all of them, or none.
//!
//! The entries that the command removed are moved aside first. Then its new directories and links
//! are moved into place, and then the files that it wrote. So a file can become a directory, and
//! the reverse. A path is never followed through a link.
//!
//! The call is protected by one journal, and is undone as one change.

mod plan;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::path::{Path, PathBuf};

use crate::error::{ErrorCode, ToolError};
use crate::files::remove::ExistingEntry;
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::files::write::{CrashProtection, back_up_and_record_undo};
use crate::progress::OnProgress;

use self::plan::ApplyPlan;

/// The content and the permission bits of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileBytesAndMode {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

/// One change of a path. At most one change of a call adds or writes a path. The same call may
/// remove another entry of the same path.
#[derive(Debug)]
pub(crate) enum PathChange {
    /// Writes a file. A new file gets the mode of `after`, without its set-user-id, set-group-id
    /// and sticky bits. Missing directories are created.
    Write {
        at: WorkspacePath,
        /// The file at the time of the preview. `None` if it did not exist, or if the call removes
        /// the entry that existed.
        before: Option<FileBytesAndMode>,
        after: FileBytesAndMode,
    },
    /// Removes an entry. A directory is removed with all its content.
    Remove(Box<ExistingEntry>),
    /// Creates a link.
    AddLink { at: WorkspacePath, target: PathBuf },
    /// Creates an empty directory with this mode. Its owner gets all rights, so that the creation
    /// can be undone.
    AddDirectory { at: WorkspacePath, mode: u32 },
}

impl PathChange {
    /// Returns the path that changes.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Write { at, .. } | Self::AddLink { at, .. } | Self::AddDirectory { at, .. } => {
                at.path()
            }
            Self::Remove(found) => found.entry.path.path(),
        }
    }
}

/// Determines how the changes are protected against a crash.
///
/// # Errors
///
/// The errors of [`apply_all_or_none`] that can be detected without a change.
pub(crate) fn assess_crash_protection(
    workspace: &Workspace,
    changes: &[PathChange],
) -> Result<CrashProtection, ToolError> {
    workspace.recover_unfinished_writes();
    let plan = ApplyPlan::from_changes(workspace, changes).map_err(wrong_kind_to_changed_error)?;
    CrashProtection::assess_with_other_changes(workspace, &plan.rewrites())
}

/// Applies the changes: either all of them or none. Reports the progress to `watch`.
///
/// Removed entries and replaced files become backups if possible.
///
/// # Errors
///
/// - `changed_since_preview` if a path is not what the preview has found. In this case, nothing was
///   changed.
/// - `outside_roots` if a link leads out of the project folders.
/// - `too_large` for more than 2,000 changes, and for files that are too large to be restored.
/// - `not_permitted`, `io`. If a path could not be restored, the error contains it.
pub(crate) fn apply_all_or_none(
    workspace: &Workspace,
    changes: &[PathChange],
    protection: &CrashProtection,
    watch: &mut OnProgress<'_>,
) -> Result<(), ToolError> {
    workspace.recover_unfinished_writes();
    let plan = ApplyPlan::from_changes(workspace, changes);
    let call = plan.and_then(|plan| plan.stage(protection, watch));
    let call = call.and_then(|mut call| call.commit().map(|()| call));
    back_up_and_record_undo(workspace, &mut call.map_err(wrong_kind_to_changed_error)?, protection);
    Ok(())
}

/// Reports another kind of entry at a path as a change since the preview.
fn wrong_kind_to_changed_error(error: ToolError) -> ToolError {
    let has_other_kind = matches!(
        error.code(),
        Some(
            ErrorCode::NotFound
                | ErrorCode::IsADirectory
                | ErrorCode::NotADirectory
                | ErrorCode::NotARegularFile
        )
    );
    if !has_other_kind {
        return error;
    }
    let message = format!("{error}. It has changed since the preview, so nothing was changed");
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}
