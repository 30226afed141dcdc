//! The reversal of one operation of a change, and the reasons why an operation is not reversed.

use std::time::Instant;

use acp_types::{FileChange, FileChangeOperation, diff};

use super::SkippedRestore;
use super::freed_paths::FreedPaths;
use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::DecodedText;
use crate::files::remove::{ExistingEntry, inspect_entry, inspect_entry_with_text};
use crate::files::state::undo_entry::{Backup, FileOperation, ModeChange, UnrecordedCause};
use crate::files::system::{FileKind, mode_bits};
use crate::files::workspace::open::EntryPath;
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::files::write::{FileWrite, PreImage, ReplaceOrInPlace, read_whole};
use crate::limits::{MAX_DIFF_TIME, MAX_WHOLE_FILE_BYTES};
use crate::note::Note;

/// The reversal of one file operation.
#[derive(Debug)]
pub(super) enum UndoAction {
    /// Removes a created file or link.
    Remove(Box<ExistingEntry>),
    /// Restores the old bytes of a replaced file, and its old mode.
    Rewrite {
        at: WorkspacePath,
        now: Vec<u8>,
        before: Vec<u8>,
        modes: Option<ModeChange>,
        operation: FileOperation,
    },
    /// Restores a deleted entry.
    Restore {
        to: EntryPath,
        before: Backup,
    },
    MoveBack {
        found: Box<ExistingEntry>,
        to: EntryPath,
    },
    /// Removes a directory that the change created, if the directory is empty.
    RemoveDirectory(WorkspacePath),
    /// Skips a file that cannot be restored.
    Skip(SkippedRestore, FileOperation),
}

/// Returns why an operation would be skipped now, as the key of a message.
pub(in crate::files) fn find_obstacle(
    workspace: &Workspace,
    operation: &FileOperation,
) -> Result<Option<&'static str>, ToolError> {
    match UndoAction::try_plan(workspace, operation, &FreedPaths::default()) {
        Ok(_) => Ok(None),
        Err(UndoObstacle::Skipped(reason)) => Ok(Some(reason)),
        Err(UndoObstacle::Tool(error)) => Err(error),
    }
}

/// The reason why an operation cannot be undone.
enum UndoObstacle {
    /// The file is skipped for a permanent reason. The value is the message key of the reason.
    Skipped(&'static str),
    /// The file cannot be inspected now.
    Tool(ToolError),
}

impl From<ToolError> for UndoObstacle {
    fn from(error: ToolError) -> Self {
        match error.code() {
            Some(ErrorCode::NotFound | ErrorCode::NotADirectory) => Self::Skipped(REASON_GONE),
            Some(ErrorCode::NotPermitted) => Self::Skipped(REASON_NOT_PERMITTED),
            Some(
                ErrorCode::TooLarge
                | ErrorCode::IsADirectory
                | ErrorCode::NotARegularFile
                | ErrorCode::OutsideRoots
                | ErrorCode::InvalidArguments,
            ) => Self::Skipped(REASON_CHANGED),
            _ => Self::Tool(error),
        }
    }
}

impl UndoAction {
    pub(super) fn plan_or_skip(
        workspace: &Workspace,
        operation: FileOperation,
        freed: &FreedPaths,
    ) -> Result<Self, ToolError> {
        match Self::try_plan(workspace, &operation, freed) {
            Ok(action) => Ok(action),
            Err(UndoObstacle::Tool(error)) => Err(error),
            Err(UndoObstacle::Skipped(why)) => {
                let kept = operation
                    .backup()
                    .and_then(|before| workspace.undo_store().existing_backup_path(before));
                let (path, why) = (operation.affected_path().to_owned(), Note::new(why));
                Ok(Self::Skip(SkippedRestore { path, reason: why, backup: kept }, operation))
            }
        }
    }

    fn try_plan(
        workspace: &Workspace,
        operation: &FileOperation,
        freed: &FreedPaths,
    ) -> Result<Self, UndoObstacle> {
        if operation
            .backup()
            .is_some_and(|before| workspace.undo_store().existing_backup_path(before).is_none())
        {
            return Err(UndoObstacle::Skipped(REASON_NOT_KEPT));
        }
        Ok(match operation {
            FileOperation::CreatedDirectory(path) => {
                Self::RemoveDirectory(workspace.locate_without_following(path)?)
            }
            FileOperation::Unrecoverable { .. } => {
                return Err(UndoObstacle::Skipped(REASON_NOT_KEPT));
            }
            FileOperation::Unrecorded { cause, .. } => {
                return Err(UndoObstacle::Skipped(unrecorded_reason(*cause)));
            }
            FileOperation::Created { path, hash_after: after } => {
                let at = workspace.locate_without_following(path)?;
                Self::plan_removal_if_unchanged(
                    inspect_entry_with_text(workspace, &at)?,
                    FileKind::File,
                    *after,
                )?
            }
            FileOperation::CreatedLink { path, hash_after: after } => {
                let at = workspace.locate_without_following(path)?;
                Self::plan_removal_if_unchanged(
                    inspect_entry(workspace, &at)?,
                    FileKind::Link,
                    *after,
                )?
            }
            FileOperation::Replaced { path, backup: before, hash_after: after, modes } => {
                let at = workspace.canonicalize(&workspace.follow_links_of_host_path(path)?)?;
                let PreImage::Bytes(now) = read_whole(workspace, &at, MAX_WHOLE_FILE_BYTES)? else {
                    return Err(UndoObstacle::Skipped(REASON_GONE));
                };
                if ContentHash::of_bytes(&now) != *after {
                    return Err(UndoObstacle::Skipped(REASON_CHANGED));
                }
                let before = workspace.undo_store().read(before);
                let before = before.map_err(|error| {
                    let message = format!("the backup of {} cannot be read: {error}", at.given());
                    ToolError::recoverable(ErrorCode::Io, message)
                })?;
                let modes = modes.and_then(ModeChange::reverted);
                // A mode that another program has set stays.
                let mode = mode_bits(&workspace.metadata(&at)?);
                let modes = modes.filter(|modes| modes.before == Some(mode));
                let write = FileWrite { modes, ..FileWrite::new(&at, Some(&now), &before) };
                // Fails if the file cannot be written.
                ReplaceOrInPlace::choose(workspace, write, true)?;
                Self::Rewrite { at, now, before, modes, operation: operation.clone() }
            }
            FileOperation::Deleted { path, backup: before } => {
                let to = EntryPath::resolve_without_following(
                    workspace,
                    &workspace.locate_without_following(path)?,
                )?;
                require_free_name(workspace, &to, freed, REASON_NAME_TAKEN)?;
                Self::Restore { to, before: before.clone() }
            }
            FileOperation::Moved { from, to, moved } => {
                let found =
                    Box::new(inspect_entry(workspace, &workspace.locate_without_following(to)?)?);
                if moved.is_some() && *moved != found.to_moved_entry(workspace)? {
                    return Err(UndoObstacle::Skipped(REASON_CHANGED));
                }
                let to = EntryPath::resolve_without_following(
                    workspace,
                    &workspace.locate_without_following(from)?,
                )?;
                require_free_name(workspace, &to, freed, REASON_FORMER_NAME_TAKEN)?;
                Self::MoveBack { found, to }
            }
        })
    }

    fn plan_removal_if_unchanged(
        found: ExistingEntry,
        kind: FileKind,
        after: ContentHash,
    ) -> Result<Self, UndoObstacle> {
        match (found.fingerprint.kind, found.fingerprint.hash) == (kind, after) {
            true => Ok(Self::Remove(Box::new(found))),
            false => Err(UndoObstacle::Skipped(REASON_CHANGED)),
        }
    }

    /// Returns the file change that the undo would cause. Returns `None` for a directory, and for a
    /// file of which at most the mode changes.
    pub(super) fn file_change(&self) -> Option<FileChange> {
        match self {
            Self::Remove(found) => Some(found.deletion_change()),
            Self::Rewrite { now, before, .. } if now == before => None,
            Self::Rewrite { at, now, before, .. } => {
                let text = |bytes: &[u8]| DecodedText::decode("", bytes.to_vec()).ok();
                Some(match (text(now), text(before)) {
                    (Some(now), Some(before)) => {
                        let deadline = Instant::now() + MAX_DIFF_TIME;
                        let (now, before) = (now.as_str(), before.as_str());
                        diff::diff_texts(
                            at.path(),
                            FileChangeOperation::Modify,
                            now,
                            before,
                            deadline,
                        )
                    }
                    _ => FileChange::new(FileChangeOperation::Modify, at.path()),
                })
            }
            Self::Restore { to, .. } => {
                Some(FileChange::new(FileChangeOperation::Add, to.path.path()))
            }
            Self::MoveBack { found, to } => {
                let from = found.entry.path.path().to_owned();
                Some(FileChange::new(FileChangeOperation::Move { from }, to.path.path()))
            }
            Self::RemoveDirectory(_) | Self::Skip(..) => None,
        }
    }
}

pub(in crate::files) const REASON_NOT_KEPT: &str = "stays-not-kept";
pub(in crate::files) const REASON_SKIPPED: &str = "stays-skipped";
pub(in crate::files) const REASON_NOT_PERMITTED: &str = "stays-not-permitted";
pub(in crate::files) const REASON_CHANGED: &str = "stays-changed";
pub(in crate::files) const REASON_NOT_EMPTY: &str = "stays-not-empty";
pub(in crate::files) const REASON_GONE: &str = "stays-gone";
pub(in crate::files) const REASON_NAME_TAKEN: &str = "stays-taken";
pub(in crate::files) const REASON_FOLDER_TAKEN: &str = "stays-folder-taken";
pub(in crate::files) const REASON_FORMER_NAME_TAKEN: &str = "stays-former-taken";

/// Returns why the changes of a command cannot be undone, as the key of a message.
pub(in crate::files) fn unrecorded_reason(cause: UnrecordedCause) -> &'static str {
    match cause {
        UnrecordedCause::TooManyChanges => "stays-many",
        UnrecordedCause::UnreadFolders => "stays-unread",
    }
}

/// Checks that a name is free, and that its missing folders can be created.
fn require_free_name(
    workspace: &Workspace,
    to: &EntryPath,
    freed: &FreedPaths,
    taken: &'static str,
) -> Result<(), UndoObstacle> {
    let exists = workspace.open_dir(&to.parent).is_ok_and(|dir| dir.entry_kind(&to.name).is_ok());
    if exists && !freed.contains(&to.path) {
        return Err(UndoObstacle::Skipped(taken));
    }
    let parent = workspace.path_beneath_real_root(&to.parent);
    let nearest = parent.ancestors().find_map(|above| above.metadata().ok());
    match nearest.is_some_and(|found| !found.is_dir()) {
        true => Err(UndoObstacle::Skipped(REASON_FOLDER_TAKEN)),
        false => Ok(()),
    }
}
