//! The steps of an undo that were done so far, and their reversal after a failure.

use std::io;
use std::path::PathBuf;

use super::CreatedDirectoryOutcomes;
use crate::error::ToolError;
use crate::files::remove::{RevocableRemoval, changed_error};
use crate::files::state::undo_entry::Backup;
use crate::files::workspace::open::{self, EntryPath};
use crate::files::workspace::{Workspace, WorkspacePath};

/// The steps of an undo that were done, and that are reverted if a later step fails.
#[derive(Debug, Default)]
pub(super) struct UndoneSteps<'a> {
    /// The removed entries.
    pub(super) removed: Vec<RevocableRemoval<'a>>,
    /// The removed directories with their modes.
    directories: Vec<(&'a WorkspacePath, Option<u32>)>,
    /// The directories that could not be removed.
    kept_directories: Vec<PathBuf>,
    restored: Vec<RestoredEntry<'a>>,
}

/// An entry that was restored from its backup.
#[derive(Debug)]
struct RestoredEntry<'a> {
    to: &'a EntryPath,
    backup: &'a Backup,
    created_dirs: Vec<WorkspacePath>,
}

impl<'a> UndoneSteps<'a> {
    /// Removes a directory if it is empty. Otherwise adds it to `kept_directories`.
    pub(super) fn remove_directory_if_empty(&mut self, at: &'a WorkspacePath) {
        let dir = at.root.pinned.open_dir_without_links(&at.path_in_root);
        let mode = dir.and_then(|dir| dir.mode_bits()).ok();
        match open::remove_empty_dir(at).map_err(|error| error.kind()) {
            Ok(()) => self.directories.push((at, mode)),
            Err(io::ErrorKind::NotFound) => {}
            Err(_) => self.kept_directories.push(at.path().to_owned()),
        }
    }

    /// Returns the directories of the completed undo.
    pub(super) fn into_directory_outcomes(self) -> CreatedDirectoryOutcomes {
        let removed = self.directories.iter().map(|(at, _)| at.path().to_owned()).collect();
        CreatedDirectoryOutcomes { removed, kept: self.kept_directories }
    }

    /// Restores a removed entry. Fails if its name is in use.
    pub(super) fn restore(
        &mut self,
        workspace: &Workspace,
        to: &'a EntryPath,
        backup: &'a Backup,
    ) -> Result<(), ToolError> {
        let (dir, created_dirs) = open::create_dirs(workspace, &to.parent)?;
        let restored = workspace.undo_store().restore(backup, &dir, &to.name);
        restored.map_err(|error| {
            open::remove_empty_dirs(&created_dirs);
            match error.kind() {
                io::ErrorKind::AlreadyExists => changed_error(&to.path),
                _ => workspace.explain_io_error(&to.path, &error),
            }
        })?;
        self.restored.push(RestoredEntry { to, backup, created_dirs });
        Ok(())
    }

    /// Reverts the steps in reverse order. Returns the paths for which this failed.
    pub(super) fn roll_back(self, workspace: &Workspace) -> Vec<String> {
        let mut left = Vec::new();
        for RestoredEntry { to, backup, created_dirs } in self.restored.into_iter().rev() {
            let dir = workspace.open_dir(&to.parent);
            let taken = dir.and_then(|dir| {
                let taken = workspace.undo_store().revert_restore(backup, &dir, &to.name);
                taken.map_err(|error| workspace.explain_io_error(&to.path, &error))
            });
            left.extend(taken.err().map(|error| error.to_string()));
            open::remove_empty_dirs(&created_dirs);
        }
        for (at, mode) in self.directories.into_iter().rev() {
            let created = open::create_dir_with_mode(at, mode);
            left.extend(created.err().map(|error| format!("{} ({error})", at.given())));
        }
        for removal in self.removed.into_iter().rev() {
            left.extend(removal.revoke(workspace).err().map(|error| error.to_string()));
        }
        left
    }
}
