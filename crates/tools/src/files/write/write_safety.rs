//! What protects a change from a crash, and whether it can be undone: decided by its preview, so that
//! whoever permits the change knows.

use std::io;

use super::FileWrite;
use crate::error::{ErrorCode, ToolError};
use crate::files::state::StateUnavailable;
use crate::files::workspace::{Workspace, guard, open};
use crate::note::Note;

/// What protects the files of one change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteSafety {
    /// Why nothing is kept of what is replaced, if so.
    state_unavailable: Option<StateUnavailable>,
    /// Whether something is replaced.
    replaces_files: bool,
    /// The files that are written in place while no copy of them is kept.
    unprotected_in_place: Vec<String>,
}

/// How one file is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WriteMode {
    /// Whether its bytes are replaced, because the file itself cannot be.
    pub(super) is_in_place: bool,
    pub(super) backup_location: BackupLocation,
    /// Whether nobody was told that a crash could tear it, so that it is not written in place.
    pub(super) is_exchange_required: bool,
}

/// Where the copies lie that make a file whole again which is written in place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum BackupLocation {
    /// In the folder of the file, where the new file is made, too.
    #[default]
    SameFolder,
    /// In the state folder.
    StateFolder,
    NoBackup,
}

impl WriteSafety {
    /// Looks at what protects a change, and refuses one that the file system does not permit.
    ///
    /// # Errors
    ///
    /// As [`atomic_write`](super::atomic_write), for what can be known before.
    pub(crate) fn assess(
        workspace: &Workspace,
        changes: &[FileWrite<'_>],
    ) -> Result<Self, ToolError> {
        let bytes = changes.iter().map(|change| backup_bytes(workspace, *change));
        let unkept = match changes {
            [] => None,
            _ => workspace.state_folder().require_space(bytes.sum()).err(),
        };
        let replaces = changes.iter().any(|change| change.expected.is_some());
        let mut torn = Vec::new();
        for change in changes {
            let manner = WriteMode::choose(workspace, *change, unkept.is_none())?;
            let is_in_place = || {
                let is_known = |at| {
                    guard::has_other_hard_links(workspace, &at)
                        || workspace.is_in_place_only(at.path())
                };
                manner.is_in_place || workspace.canonicalize(change.path).is_ok_and(is_known)
            };
            if unkept.is_some() && change.expected.is_some() && is_in_place() {
                torn.push(workspace.display(change.path.path()));
            }
        }
        Ok(Self { state_unavailable: unkept, replaces_files: replaces, unprotected_in_place: torn })
    }

    /// Whether a crash could leave a file that is neither the old one nor the new one.
    pub(crate) fn is_risky(&self) -> bool {
        !self.unprotected_in_place.is_empty()
    }

    /// Returns what whoever permits the change is to know, and the model, one sentence each.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> {
        let unkept = self.state_unavailable.as_ref().filter(|_| self.replaces_files);
        let unkept = unkept.map(|why| Note::new("unkept").with_notes("why", [why.note()], ""));
        let is_torn = !self.unprotected_in_place.is_empty();
        let torn =
            is_torn.then(|| Note::new("torn").with("paths", self.unprotected_in_place.join(", ")));
        torn.into_iter().chain(unkept)
    }

    /// Returns what a permission rests on.
    pub(crate) fn pre_image(&self) -> Vec<u8> {
        self.notes().map(|note| note.to_string()).collect::<String>().into_bytes()
    }

    /// Whether what is replaced is kept, and what a killed process leaves is put in order.
    pub(super) fn keeps_backups(&self) -> bool {
        self.state_unavailable.is_none()
    }

    /// Finds how each file is written now.
    ///
    /// # Errors
    ///
    /// As [`Self::of`]; `changed_since_preview` if one could be torn of which that was not said.
    pub(super) fn write_modes(
        &self,
        workspace: &Workspace,
        changes: &[FileWrite<'_>],
    ) -> Result<Vec<WriteMode>, ToolError> {
        let manners = changes.iter().map(|change| {
            let manner = WriteMode::choose(workspace, *change, self.keeps_backups())?;
            let path = workspace.display(change.path.path());
            let is_untold = !self.keeps_backups() && !self.unprotected_in_place.contains(&path);
            if manner.backup_location == BackupLocation::NoBackup && is_untold {
                let message = format!(
                    "the folder of {path} takes no other files any more, so nothing was written. \
                     Try again"
                );
                return Err(ToolError::recoverable(ErrorCode::ChangedSincePreview, message));
            }
            Ok(WriteMode { is_exchange_required: is_untold, ..manner })
        });
        manners.collect()
    }
}

/// Returns how many bytes the state folder has to take for a change: none if the old file is moved
/// there.
fn backup_bytes(workspace: &Workspace, change: FileWrite<'_>) -> u64 {
    let Some(found) = change.expected else { return 0 };
    let parent = workspace.canonicalize(change.path).ok().and_then(|at| at.parent());
    let dir = parent.and_then(|parent| workspace.open_dir(&parent).ok());
    let is_moved = dir.is_some_and(|dir| {
        dir.require_can_create().is_ok() && workspace.undo_store().is_on_same_file_system(&dir)
    });
    if is_moved { 0 } else { (found.len() + change.bytes.len()) as u64 }
}

impl WriteMode {
    /// Finds how a file is written.
    ///
    /// # Errors
    ///
    /// As [`Protection::of`].
    pub(super) fn choose(
        workspace: &Workspace,
        change: FileWrite<'_>,
        is_kept: bool,
    ) -> Result<Self, ToolError> {
        let at = change.path;
        let explain = |error: io::Error| workspace.explain_io_error(at, &error);
        let target = workspace.canonicalize(at)?;
        let (Some(parent), Some(name)) = (target.parent(), target.path_in_root().file_name())
        else {
            return Err(explain(io::ErrorKind::IsADirectory.into()));
        };
        if change.expected.is_none() {
            // Whatever else is wrong with it, making it says.
            match open::nearest_dir(workspace, &parent) {
                Ok(dir) => dir.require_can_create().map_err(explain)?,
                // The root itself is gone.
                Err(error) if error.code() == Some(ErrorCode::NotFound) => return Err(error),
                Err(_) => {}
            }
            return Ok(Self::default());
        }
        let dir = match workspace.open_dir(&parent) {
            Err(error) if error.code() == Some(ErrorCode::NotFound) => return Ok(Self::default()),
            other => other?,
        };
        match dir.require_writable(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(explain)?,
        }
        let (is_in_place, copies) = match (dir.require_can_create().is_err(), is_kept) {
            (false, _) => (dir.is_mounted(name), BackupLocation::SameFolder),
            (true, true) => (true, BackupLocation::StateFolder),
            (true, false) => (true, BackupLocation::NoBackup),
        };
        Ok(Self { is_in_place, backup_location: copies, is_exchange_required: false })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
