//! Undoes the last change of a session, completely or not at all.
//!
//! If another program changed a file after the session had changed it, this file is skipped. The
//! other files are still undone.
//!
//! First, the created files and links are removed. If the change removed entries too, the created
//! directories are removed next, because a removed entry may have the same name. Then the removed
//! entries are restored. At the end, the replaced files are written.

mod action;
mod freed_paths;
mod undone_steps;

use std::path::{Path, PathBuf};

use acp_types::FileChange;

use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::remove::RevocableRemoval;
use crate::files::state::undo_entry::{FileOperation, ModeChange, UndoEntry};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::files::write::{
    CrashProtection, FileWrite, stage_and_commit_writes, with_unrestored_files,
};
use crate::note::Note;

use self::action::UndoAction;
pub(super) use self::action::{
    REASON_CHANGED, REASON_FOLDER_TAKEN, REASON_FORMER_NAME_TAKEN, REASON_GONE, REASON_NAME_TAKEN,
    REASON_NOT_EMPTY, REASON_NOT_KEPT, REASON_SKIPPED, find_obstacle, unrecorded_reason,
};
use self::freed_paths::FreedPaths;
use self::undone_steps::UndoneSteps;

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
/// write::atomic_write_if_unchanged(&workspace, &at, b"text", &write::PreImage::Missing)?;
/// UndoPlan::for_last_session_change(&workspace)?.run(&workspace)?;
/// assert!(!cwd.join("new").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UndoPlan {
    number: u64,
    actions: Vec<UndoAction>,
    /// Whether the change is of a command. Other programs may have made a part of it, so the undo
    /// keeps all that it removes and replaces.
    is_of_command: bool,
    has_earlier_change: bool,
    crash_protection: CrashProtection,
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

/// The directories that an undone change had created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreatedDirectoryOutcomes {
    /// The directories that the undo has removed, innermost first.
    pub removed: Vec<PathBuf>,
    /// The directories that stay, because they are not empty or cannot be removed.
    pub kept: Vec<PathBuf>,
}

impl UndoPlan {
    /// Prepares to undo the last change. Changes no file. Blocks, also until the changes of the
    /// last command are recorded.
    ///
    /// If another program changed a file after this change, the file is skipped. This is not an
    /// error.
    ///
    /// # Errors
    ///
    /// `not_found` if there is nothing to undo; `not_permitted`, `io`.
    pub fn for_last_session_change(workspace: &Workspace) -> Result<Self, ToolError> {
        workspace.snapshot_store().wait_for_recordings(&|| false);
        Self::for_last_entry(workspace)
    }

    /// Prepares to undo the last change that is recorded.
    pub(super) fn for_last_entry(workspace: &Workspace) -> Result<Self, ToolError> {
        let nothing = || {
            let message = "There is nothing to undo: no file change of this session is kept.";
            ToolError::recoverable(ErrorCode::NotFound, message)
        };
        let (number, step) = workspace.undo_store().last().ok_or_else(nothing)?;
        let (mut actions, mut freed) = (Vec::new(), FreedPaths::default());
        let is_of_command = step.is_of_command;
        for operation in step.operations.into_iter().rev() {
            let action = UndoAction::plan_or_skip(workspace, operation, &freed)?;
            freed.add(&action);
            actions.push(action);
        }
        let protection = CrashProtection::assess(workspace, &restoring_file_writes(&actions))?;
        let has_earlier_change = workspace.undo_store().has_entry_before_last();
        Ok(Self {
            number,
            actions,
            is_of_command,
            has_earlier_change,
            crash_protection: protection,
        })
    }

    /// Returns the number of the undo entry.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether another undo can revert a change before this one.
    pub(crate) fn has_earlier_change(&self) -> bool {
        self.has_earlier_change
    }

    /// Returns whether the undo keeps files that it removes or replaces, in the session's folder of
    /// backups.
    pub(crate) fn backs_up_replaced_files(&self) -> bool {
        let is_kept = |action: &UndoAction| {
            matches!(action, UndoAction::Remove(_) | UndoAction::Rewrite { .. })
        };
        self.is_of_command && self.actions.iter().any(is_kept)
    }

    /// Returns how the files that the undo rewrites are protected from a crash.
    pub(crate) fn crash_protection(&self) -> &CrashProtection {
        &self.crash_protection
    }

    /// Returns the changes that undoing would cause.
    pub(crate) fn changes(&self) -> impl Iterator<Item = FileChange> {
        self.actions.iter().filter_map(UndoAction::file_change)
    }

    /// Returns every path that the undo would change, except
    /// [directories](Self::created_directories), and whether the undo removes the path.
    pub(crate) fn affected_paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.affected_workspace_paths().map(|(at, is_gone)| (at.path(), is_gone))
    }

    /// Returns the affected paths as resolved paths. Only the last component of a path may be a
    /// link.
    pub(crate) fn affected_workspace_paths(&self) -> impl Iterator<Item = (&WorkspacePath, bool)> {
        self.actions.iter().flat_map(|action| match action {
            UndoAction::Remove(found) => vec![(&found.entry.path, true)],
            UndoAction::Rewrite { at, .. } => vec![(at, false)],
            UndoAction::Restore { to, .. } => vec![(&to.path, false)],
            UndoAction::MoveBack { found, to } => {
                vec![(&found.entry.path, true), (&to.path, false)]
            }
            UndoAction::RemoveDirectory(_) | UndoAction::Skip(..) => Vec::new(),
        })
    }

    /// Returns the changes of permission bits that undoing would cause.
    pub(crate) fn mode_changes(&self) -> impl Iterator<Item = (&Path, ModeChange)> {
        self.actions.iter().filter_map(|action| match action {
            UndoAction::Rewrite { at, modes: Some(modes), .. } => Some((at.path(), *modes)),
            _ => None,
        })
    }

    /// Returns the directories that the change created. The undo removes them if they are empty.
    pub(crate) fn created_directories(&self) -> impl Iterator<Item = &WorkspacePath> {
        self.actions.iter().filter_map(|action| match action {
            UndoAction::RemoveDirectory(at) => Some(at),
            _ => None,
        })
    }

    /// Returns the files that the undo skips, because another program changed them or no backup
    /// exists.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = &SkippedRestore> {
        self.actions.iter().filter_map(|action| match action {
            UndoAction::Skip(skipped, _) => Some(skipped),
            _ => None,
        })
    }

    /// Returns hashes of the current state of the files, for comparison with the preview.
    pub(crate) fn state_fingerprint(&self) -> Vec<u8> {
        let images = self.actions.iter().map(|action| match action {
            UndoAction::Remove(found) | UndoAction::MoveBack { found, .. } => {
                found.fingerprint.kind_and_hash_bytes()
            }
            UndoAction::Rewrite { now, before, modes, .. } => {
                let hashes = [now, before].map(|bytes| *ContentHash::of_bytes(bytes).as_bytes());
                let mode = modes.map_or(u32::MAX, |modes| modes.after);
                [&hashes.concat()[..], &mode.to_le_bytes()].concat()
            }
            UndoAction::Skip(skipped, _) => {
                let path = skipped.path.as_os_str().as_encoded_bytes();
                ContentHash::of_bytes(&[path, skipped.reason.to_string().as_bytes()].concat())
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
    pub fn run(self, workspace: &Workspace) -> Result<CreatedDirectoryOutcomes, ToolError> {
        let undo = workspace.undo_store();
        let Some(step) = undo.claim_last_entry(self.number) else {
            let message = "Another change was made meanwhile. Preview the undo again.";
            return Err(ToolError::recoverable(ErrorCode::ChangedSincePreview, message));
        };
        match self.undo_all(workspace) {
            Ok((replaced, directories)) => {
                let left = self.unrestored(workspace);
                undo.record_undone_entry(self.number, &step, left, replaced);
                Ok(directories)
            }
            Err(error) => {
                undo.put_back_entry(self.number, step);
                Err(error)
            }
        }
    }

    /// Returns the operations that remain after the undo. These are the skipped operations, and the
    /// operations whose backup was changed by another program after the undo had read it.
    fn unrestored(&self, workspace: &Workspace) -> UndoEntry {
        let is_written_late = |operation: &FileOperation, before: &[u8]| {
            let now = operation.backup().map(|backup| workspace.undo_store().read(backup));
            now.is_some_and(|now| now.is_ok_and(|now| now != before))
        };
        let left = self.actions.iter().filter_map(|action| match action {
            UndoAction::Skip(_, operation) => Some(operation.clone()),
            UndoAction::Rewrite { before, operation, .. } => {
                is_written_late(operation, before).then(|| operation.clone())
            }
            _ => None,
        });
        UndoEntry::new(left.collect())
    }

    /// Undoes everything. Returns the backups of the files that the undo of a command has removed
    /// or replaced, and the created directories.
    fn undo_all(
        &self,
        workspace: &Workspace,
    ) -> Result<(Vec<FileOperation>, CreatedDirectoryOutcomes), ToolError> {
        let store = workspace.undo_store();
        let (mut replaced, mut undone) = (Vec::new(), UndoneSteps::default());
        let kept = match self.is_of_command {
            true => self.back_up_files_to_rewrite(workspace, &mut replaced),
            false => Ok(()),
        };
        if let Err(error) = kept.and_then(|()| self.run_steps(workspace, &mut undone)) {
            let backups = replaced.iter().filter_map(FileOperation::backup);
            backups.for_each(|backup| store.remove_backup(backup));
            return Err(with_unrestored_files(error, &undone.roll_back(workspace)));
        }
        // An entry that is removed for good must not keep its directory from being removed.
        let removed: Vec<_> =
            undone.removed.drain(..).filter_map(RevocableRemoval::finish).collect();
        if !self.restores_deleted_entries() {
            self.remove_created_directories(&mut undone);
        }
        for (path, backup) in removed {
            if self.is_of_command {
                replaced.push(FileOperation::Deleted { path, backup });
            } else {
                store.remove_backup(&backup);
            }
        }
        Ok((replaced, undone.into_directory_outcomes()))
    }

    /// Creates backups of the files that will be rewritten, and adds them to `kept`. Fails if an
    /// entry that will be removed cannot be kept.
    fn back_up_files_to_rewrite(
        &self,
        workspace: &Workspace,
        kept: &mut Vec<FileOperation>,
    ) -> Result<(), ToolError> {
        for action in &self.actions {
            if let UndoAction::Remove(found) = action {
                found.require_restorable()?;
            }
        }
        for action in &self.actions {
            let UndoAction::Rewrite { at, now, .. } = action else { continue };
            let backup = workspace.undo_store().write_backup(now).map_err(|error| {
                let message =
                    format!("the current content of {} cannot be kept: {error}", at.given());
                ToolError::recoverable(ErrorCode::Io, message)
            })?;
            let path = at.path().to_owned();
            kept.extend(backup.map(|backup| FileOperation::Deleted { path, backup }));
        }
        Ok(())
    }

    /// Undoes the change. Adds what was done to `undone`, except for the last step, which is done
    /// completely or not at all.
    fn run_steps<'a>(
        &'a self,
        workspace: &Workspace,
        undone: &mut UndoneSteps<'a>,
    ) -> Result<(), ToolError> {
        for action in &self.actions {
            if let UndoAction::Remove(found) = action {
                undone.removed.push(found.remove_revocably(workspace)?);
            }
        }
        // A change with a moved entry contains no removed or replaced entry.
        for action in &self.actions {
            if let UndoAction::MoveBack { found, to } = action {
                found.move_creating_dirs(workspace, to)?;
            }
        }
        if self.restores_deleted_entries() {
            self.remove_created_directories(undone);
        }
        for action in &self.actions {
            if let UndoAction::Restore { to, before } = action {
                undone.restore(workspace, to, before)?;
            }
        }
        let replaced = restoring_file_writes(&self.actions);
        if replaced.is_empty() {
            // Without a file, the call would still need a journal.
            return Ok(());
        }
        stage_and_commit_writes(workspace, &replaced, &self.crash_protection, &mut |_| {}).map(drop)
    }

    fn restores_deleted_entries(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, UndoAction::Restore { .. }))
    }

    /// Removes the created directories that are empty, innermost first.
    fn remove_created_directories<'a>(&'a self, undone: &mut UndoneSteps<'a>) {
        for action in &self.actions {
            if let UndoAction::RemoveDirectory(at) = action {
                undone.remove_directory_if_empty(at);
            }
        }
    }
}

/// Returns the file writes that restore the old bytes.
fn restoring_file_writes(actions: &[UndoAction]) -> Vec<FileWrite<'_>> {
    let replaced = actions.iter().filter_map(|action| match action {
        UndoAction::Rewrite { at, now, before, modes, .. } => {
            Some(FileWrite { modes: *modes, ..FileWrite::new(at, Some(now), before) })
        }
        _ => None,
    });
    replaced.collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
