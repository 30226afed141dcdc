//! Undoes the last change of a session, completely or not at all.
//!
//! If another program changed a file after the session had changed it, this file is skipped. The
//! other files are still undone.

use std::path::{Path, PathBuf};
use std::time::Instant;

use acp_types::{FileChange, Operation, diff};

use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::DecodedText;
use crate::files::remove::{ExistingEntry, inspect_entry, inspect_entry_with_text};
use crate::files::state::undo_entry::{Backup, FileOperation, UndoEntry};
use crate::files::workspace::open::{self, EntryPath};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::files::write::{
    CrashProtection, FileWrite, PreImage, read_whole, with_unrestored_files,
    write_all_without_backups,
};
use crate::limits::{MAX_DIFF_TIME, MAX_WHOLE_FILE_BYTES};
use crate::note::Note;

/// The last change of a session, ready to be undone.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (cwd, state) = (directory.path().join("cwd"), directory.path().join("state"));
/// # std::fs::create_dir(&cwd)?;
/// use acp_tools::Workspace;
/// use acp_tools::files::{undo::UndoPlan, write};
///
/// let workspace = Workspace::new(cwd.clone(), Vec::new())?.with_state_folder(&state);
/// let at = workspace.resolve("new")?;
/// write::atomic_write(&workspace, &at, b"text", &write::PreImage::Missing)?;
/// UndoPlan::for_last_change(&workspace)?.run(&workspace)?;
/// assert!(!cwd.join("new").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UndoPlan {
    number: u64,
    actions: Vec<UndoAction>,
    crash_protection: CrashProtection,
}

/// The reversal of one file operation.
#[derive(Debug)]
enum UndoAction {
    /// Removes a created file.
    Remove(Box<ExistingEntry>),
    /// Restores the old bytes of a replaced file.
    Rewrite {
        at: WorkspacePath,
        now: Vec<u8>,
        before: Vec<u8>,
        deed: FileOperation,
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

/// A file that is skipped when the rest of a change is undone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct SkippedRestore {
    /// The path of the file.
    pub path: PathBuf,
    /// The reason why the file is skipped, as a clause for the end of a sentence about the file.
    pub reason: Note,
    /// The path of the backup, if a backup exists. The backup is kept until the limits of the undo
    /// store require its removal.
    pub backup: Option<PathBuf>,
}

impl UndoPlan {
    /// Prepares to undo the last change. Changes no file.
    ///
    /// If another program changed a file after this change, the file is skipped. This is not an
    /// error.
    ///
    /// # Errors
    ///
    /// `not_found` if there is nothing to undo; `not_permitted`, `io`.
    pub fn for_last_change(workspace: &Workspace) -> Result<Self, ToolError> {
        let nothing = || {
            let message = "There is nothing to undo: no file change of this session is kept.";
            ToolError::recoverable(ErrorCode::NotFound, message)
        };
        let (number, step) = workspace.undo_store().last().ok_or_else(nothing)?;
        let deeds =
            step.operations.into_iter().rev().map(|deed| UndoAction::plan_or_skip(workspace, deed));
        let deeds: Vec<_> = deeds.collect::<Result<_, _>>()?;
        let protection = CrashProtection::assess(workspace, &restoring_file_writes(&deeds))?;
        Ok(Self { number, actions: deeds, crash_protection: protection })
    }

    /// Returns the number of the undo entry.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns how the files that the undo rewrites are protected from a crash.
    pub(crate) fn crash_protection(&self) -> &CrashProtection {
        &self.crash_protection
    }

    /// Returns the changes that undoing would cause.
    pub(crate) fn changes(&self) -> impl Iterator<Item = FileChange> {
        self.actions.iter().filter_map(UndoAction::file_change)
    }

    /// Returns every path that the undo would change, and whether the undo removes the path.
    pub(crate) fn affected_paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.affected_workspace_paths().map(|(at, is_gone)| (at.path(), is_gone))
    }

    /// Returns the affected paths as resolved paths. Only the last component of a path may be a
    /// link.
    pub(crate) fn affected_workspace_paths(&self) -> impl Iterator<Item = (&WorkspacePath, bool)> {
        self.actions.iter().flat_map(|prepared| match prepared {
            UndoAction::Remove(found) => vec![(&found.entry.path, true)],
            UndoAction::Rewrite { at, .. } => vec![(at, false)],
            UndoAction::Restore { to, .. } => vec![(&to.path, false)],
            UndoAction::MoveBack { found, to } => {
                vec![(&found.entry.path, true), (&to.path, false)]
            }
            UndoAction::RemoveDirectory(_) | UndoAction::Skip(..) => Vec::new(),
        })
    }

    /// Returns the files that the undo skips, because another program changed them or no backup
    /// exists.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = &SkippedRestore> {
        self.actions.iter().filter_map(|prepared| match prepared {
            UndoAction::Skip(staying, _) => Some(staying),
            _ => None,
        })
    }

    /// Returns hashes of the current state of the files, for comparison with the preview.
    pub(crate) fn state_fingerprint(&self) -> Vec<u8> {
        let images = self.actions.iter().map(|prepared| match prepared {
            UndoAction::Remove(found) | UndoAction::MoveBack { found, .. } => {
                found.fingerprint.identifying_bytes()
            }
            UndoAction::Rewrite { now, before, .. } => {
                [now, before].map(|bytes| *ContentHash::of_bytes(bytes).as_bytes()).concat()
            }
            UndoAction::Skip(staying, _) => {
                let path = staying.path.as_os_str().as_encoded_bytes();
                ContentHash::of_bytes(&[path, staying.reason.to_string().as_bytes()].concat())
                    .as_bytes()
                    .to_vec()
            }
            UndoAction::Restore { .. } | UndoAction::RemoveDirectory(_) => Vec::new(),
        });
        self.number.to_le_bytes().into_iter().chain(images.flatten()).collect()
    }

    /// Undoes the change except for the skipped files. If a step fails, nothing is undone. After a
    /// successful undo, the previous change is the last change of the session, even if all files
    /// were skipped.
    ///
    /// # Errors
    ///
    /// `changed_since_preview` if a file was changed since the preview; `io`.
    pub fn run(self, workspace: &Workspace) -> Result<(), ToolError> {
        let undo = workspace.undo_store();
        let Some(step) = undo.claim_last_entry(self.number) else {
            let message = "Another change was made meanwhile. Preview the undo again.";
            return Err(ToolError::recoverable(ErrorCode::ChangedSincePreview, message));
        };
        let undone = self.undo_all(workspace);
        match &undone {
            Ok(()) => undo.discard_backups_except(self.number, &step, self.unrestored(workspace)),
            Err(_) => undo.put_back_entry(self.number, step),
        }
        undone
    }

    /// Returns the operations that remain after the undo. These are the skipped operations, and the
    /// operations whose backup was changed by another program after the undo had read it.
    fn unrestored(&self, workspace: &Workspace) -> UndoEntry {
        let is_written_late = |deed: &FileOperation, before: &[u8]| {
            let now = deed.backup().map(|blob| workspace.undo_store().read(blob));
            now.is_some_and(|now| now.is_ok_and(|now| now != before))
        };
        let left = self.actions.iter().filter_map(|prepared| match prepared {
            UndoAction::Skip(_, deed) => Some(deed.clone()),
            UndoAction::Rewrite { before, deed, .. } => {
                is_written_late(deed, before).then(|| deed.clone())
            }
            _ => None,
        });
        UndoEntry::new(left.collect())
    }

    fn undo_all(&self, workspace: &Workspace) -> Result<(), ToolError> {
        let mut taken = Vec::new();
        let done = self
            .remove_created(workspace, &mut taken)
            .and_then(|()| self.restore_contents(workspace));
        let mut left = Vec::new();
        for (found, blob) in taken.into_iter().rev() {
            match &done {
                Ok(()) => workspace.undo_store().remove(&blob),
                Err(_) => {
                    let put_back = found.restore(workspace, &blob);
                    left.extend(put_back.err().map(|error| error.to_string()));
                }
            }
        }
        done.map_err(|error| with_unrestored_files(error, &left))?;
        for prepared in &self.actions {
            if let UndoAction::RemoveDirectory(at) = prepared {
                open::remove_empty_dirs(std::slice::from_ref(at));
            }
        }
        Ok(())
    }

    /// Removes the files that the change created. Each file becomes a backup, from which it is
    /// restored if the undo fails.
    fn remove_created<'a>(
        &'a self,
        workspace: &Workspace,
        taken: &mut Vec<(&'a ExistingEntry, Backup)>,
    ) -> Result<(), ToolError> {
        for prepared in &self.actions {
            if let UndoAction::Remove(found) = prepared
                && let Some(blob) = found.remove_if_unchanged(workspace)?
            {
                taken.push((found, blob));
            }
        }
        Ok(())
    }

    /// Restores what the change replaced or removed: the bytes of any number of files, or one
    /// deleted or moved entry.
    fn restore_contents(&self, workspace: &Workspace) -> Result<(), ToolError> {
        let replaced = restoring_file_writes(&self.actions);
        drop(write_all_without_backups(workspace, &replaced, &self.crash_protection, &mut |_| {})?);
        self.actions.iter().try_for_each(|prepared| match prepared {
            UndoAction::Restore { to, before } => {
                let (dir, made) = open::create_dirs(workspace, &to.parent)?;
                let restored = workspace.undo_store().restore(before, &dir, &to.name);
                restored.map_err(|error| {
                    open::remove_empty_dirs(&made);
                    workspace.explain_io_error(&to.path, &error)
                })
            }
            UndoAction::MoveBack { found, to } => found.move_creating_dirs(workspace, to).map(drop),
            _ => Ok(()),
        })
    }
}

/// Returns the file writes that restore the old bytes.
fn restoring_file_writes(deeds: &[UndoAction]) -> Vec<FileWrite<'_>> {
    let replaced = deeds.iter().filter_map(|prepared| match prepared {
        UndoAction::Rewrite { at, now, before, .. } => {
            Some(FileWrite { path: at, expected: Some(now), bytes: before })
        }
        _ => None,
    });
    replaced.collect()
}

/// Returns why an operation would be skipped now, as the key of a message.
pub(super) fn find_obstacle(
    workspace: &Workspace,
    operation: &FileOperation,
) -> Result<Option<&'static str>, ToolError> {
    match UndoAction::try_plan(workspace, operation) {
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
    fn plan_or_skip(workspace: &Workspace, deed: FileOperation) -> Result<Self, ToolError> {
        match Self::try_plan(workspace, &deed) {
            Ok(prepared) => Ok(prepared),
            Err(UndoObstacle::Tool(error)) => Err(error),
            Err(UndoObstacle::Skipped(why)) => {
                let kept = deed
                    .backup()
                    .and_then(|before| workspace.undo_store().existing_backup_path(before));
                let (path, why) = (deed.affected_path().to_owned(), Note::new(why));
                Ok(Self::Skip(SkippedRestore { path, reason: why, backup: kept }, deed))
            }
        }
    }

    fn try_plan(workspace: &Workspace, deed: &FileOperation) -> Result<Self, UndoObstacle> {
        if deed
            .backup()
            .is_some_and(|before| workspace.undo_store().existing_backup_path(before).is_none())
        {
            return Err(UndoObstacle::Skipped(REASON_NOT_KEPT));
        }
        Ok(match deed {
            FileOperation::CreatedDirectory(path) => {
                Self::RemoveDirectory(workspace.locate_without_following(path)?)
            }
            FileOperation::Unrecoverable { .. } => {
                return Err(UndoObstacle::Skipped(REASON_NOT_KEPT));
            }
            FileOperation::Created { path, hash_after: after } => {
                let found =
                    inspect_entry_with_text(workspace, &workspace.locate_without_following(path)?)?;
                if found.fingerprint.hash != *after {
                    return Err(UndoObstacle::Skipped(REASON_CHANGED));
                }
                Self::Remove(Box::new(found))
            }
            FileOperation::Replaced { path, backup: before, hash_after: after } => {
                let at = workspace.canonicalize(&workspace.follow_links_of_recorded_path(path)?)?;
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
                Self::Rewrite { at, now, before, deed: deed.clone() }
            }
            FileOperation::Deleted { path, backup: before } => {
                let to = EntryPath::resolve_without_following(
                    workspace,
                    &workspace.locate_without_following(path)?,
                )?;
                require_free_name(workspace, &to, REASON_NAME_TAKEN)?;
                Self::Restore { to, before: before.clone() }
            }
            FileOperation::Moved { from, to } => {
                let found =
                    Box::new(inspect_entry(workspace, &workspace.locate_without_following(to)?)?);
                let to = EntryPath::resolve_without_following(
                    workspace,
                    &workspace.locate_without_following(from)?,
                )?;
                require_free_name(workspace, &to, REASON_FORMER_NAME_TAKEN)?;
                Self::MoveBack { found, to }
            }
        })
    }

    /// Returns the file change that the undo would cause. Returns `None` for a directory.
    fn file_change(&self) -> Option<FileChange> {
        match self {
            Self::Remove(found) => Some(found.deletion_change()),
            Self::Rewrite { at, now, before, .. } => {
                let text = |bytes: &[u8]| DecodedText::decode("", bytes.to_vec()).ok();
                Some(match (text(now), text(before)) {
                    (Some(now), Some(before)) => {
                        let deadline = Instant::now() + MAX_DIFF_TIME;
                        let (now, before) = (now.as_str(), before.as_str());
                        diff::diff_texts(at.path(), Operation::Modify, now, before, deadline)
                    }
                    _ => FileChange::new(Operation::Modify, at.path()),
                })
            }
            Self::Restore { to, .. } => Some(FileChange::new(Operation::Add, to.path.path())),
            Self::MoveBack { found, to } => {
                let from = found.entry.path.path().to_owned();
                Some(FileChange::new(Operation::Move { from }, to.path.path()))
            }
            Self::RemoveDirectory(_) | Self::Skip(..) => None,
        }
    }
}

pub(super) const REASON_NOT_KEPT: &str = "stays-not-kept";
pub(super) const REASON_CHANGED: &str = "stays-changed";
pub(super) const REASON_GONE: &str = "stays-gone";
pub(super) const REASON_NAME_TAKEN: &str = "stays-taken";
pub(super) const REASON_FOLDER_TAKEN: &str = "stays-folder-taken";
pub(super) const REASON_FORMER_NAME_TAKEN: &str = "stays-former-taken";

/// Checks that a name is free, and that its missing folders can be created.
fn require_free_name(
    workspace: &Workspace,
    to: &EntryPath,
    taken: &'static str,
) -> Result<(), UndoObstacle> {
    if workspace.open_dir(&to.parent).is_ok_and(|dir| dir.entry_kind(&to.name).is_ok()) {
        return Err(UndoObstacle::Skipped(taken));
    }
    let parent = workspace.real_path(&to.parent);
    let nearest = parent.ancestors().find_map(|above| above.metadata().ok());
    match nearest.is_some_and(|found| !found.is_dir()) {
        true => Err(UndoObstacle::Skipped(REASON_FOLDER_TAKEN)),
        false => Ok(()),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
