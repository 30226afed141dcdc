//! Determines how a change is protected against a crash, and whether it can be undone. The preview
//! determines this, so that the client can show it before permission is given.

use std::io;
use std::path::{Path, PathBuf};

use super::FileWrite;
use crate::error::{ErrorCode, ToolError};
use crate::files::state::StateUnavailable;
use crate::files::workspace::{Workspace, guard, open};
use crate::note::Note;

/// How the files of one change are protected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CrashProtection {
    /// The reason why there are no backups. `None` if there are backups.
    state_unavailable: Option<StateUnavailable>,
    /// Whether the change replaces at least one existing file.
    replaces_files: bool,
    /// The files that are written in place without a copy.
    unprotected_in_place: Vec<String>,
}

/// The way in which one file is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::files) struct ReplaceOrInPlace {
    /// Whether the bytes of the file are overwritten, because the file cannot be replaced by
    /// another file.
    pub(super) is_in_place: bool,
    /// Whether the file is replaced even if it has several hard links, so that the other links keep
    /// the old file.
    pub(in crate::files) breaks_links: bool,
    pub(super) repair_copy_location: RepairCopyLocation,
    /// Whether the file must not be written in place, because the preview did not mention that a
    /// crash could leave a torn file.
    pub(super) is_exchange_required: bool,
}

/// Where the copies are stored from which a torn file is restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::files) enum RepairCopyLocation {
    /// The copies are in the same folder as the file.
    #[default]
    SameFolder,
    /// The copies are in the state folder.
    StateFolder,
    NoCopy,
}

impl CrashProtection {
    /// Determines how a change is protected. Fails if the file system does not permit the change.
    ///
    /// # Errors
    ///
    /// The errors of [`atomic_write_if_unchanged`](super::atomic_write_if_unchanged) that can be
    /// detected before the write.
    pub(crate) fn assess(
        workspace: &Workspace,
        changes: &[FileWrite<'_>],
    ) -> Result<Self, ToolError> {
        match changes {
            [] => Ok(Self::default()),
            _ => Self::assess_with_other_changes(workspace, changes),
        }
    }

    /// Determines the protection in the same way as [`Self::assess`]. The call also makes changes
    /// other than these writes.
    pub(in crate::files) fn assess_with_other_changes(
        workspace: &Workspace,
        changes: &[FileWrite<'_>],
    ) -> Result<Self, ToolError> {
        let bytes = changes.iter().map(|change| required_state_bytes(workspace, *change));
        let unkept = workspace.state_folder().require_space(bytes.sum()).err();
        let replaces = changes.iter().any(|change| change.expected.is_some());
        let mut torn = Vec::new();
        for change in changes {
            let manner = ReplaceOrInPlace::choose(workspace, *change, unkept.is_none())?;
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

    /// Returns whether a file may contain a mixture of old and new content after a crash.
    pub(crate) fn can_crash_mix_contents(&self) -> bool {
        !self.unprotected_in_place.is_empty()
    }

    /// Returns notes for the permission request and for the model. Each note is one sentence.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> {
        let unkept = self.state_unavailable.as_ref().filter(|_| self.replaces_files);
        let unkept =
            unkept.map(|why| Note::new("unkept").with_joined_notes("why", [why.note()], ""));
        let is_torn = !self.unprotected_in_place.is_empty();
        let torn = is_torn
            .then(|| Note::new("torn").with_text("paths", self.unprotected_in_place.join(", ")));
        torn.into_iter().chain(unkept)
    }

    /// Returns bytes that identify this protection. A permission is only valid for the protection
    /// for which it was given.
    pub(crate) fn fingerprint(&self) -> Vec<u8> {
        self.notes().map(|note| note.to_string()).collect::<String>().into_bytes()
    }

    /// Returns whether backups and a journal are created.
    pub(in crate::files) fn keeps_backups(&self) -> bool {
        self.state_unavailable.is_none()
    }

    /// Returns the way in which each file must be written now.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::assess`]; `changed_since_preview` if a crash could leave a torn file
    /// although the preview did not mention this risk.
    pub(in crate::files) fn choose_replace_or_in_place(
        &self,
        workspace: &Workspace,
        changes: &[FileWrite<'_>],
    ) -> Result<Vec<ReplaceOrInPlace>, ToolError> {
        let manners = changes.iter().map(|change| {
            let manner = ReplaceOrInPlace::choose(workspace, *change, self.keeps_backups())?;
            let path = workspace.display(change.path.path());
            let is_unmentioned =
                !self.keeps_backups() && !self.unprotected_in_place.contains(&path);
            if manner.repair_copy_location == RepairCopyLocation::NoCopy && is_unmentioned {
                let message = format!(
                    "no files can be created in the folder of {path} any more, so nothing was \
                     written. Try again"
                );
                return Err(ToolError::recoverable(ErrorCode::ChangedSincePreview, message));
            }
            Ok(ReplaceOrInPlace { is_exchange_required: is_unmentioned, ..manner })
        });
        manners.collect()
    }
}

/// Returns the number of bytes that a change needs in the state folder. If the old file can be
/// moved there, this is zero.
fn required_state_bytes(workspace: &Workspace, change: FileWrite<'_>) -> u64 {
    let Some(found) = change.expected else { return 0 };
    let parent = workspace.canonicalize(change.path).ok().and_then(|at| at.parent());
    let dir = parent.and_then(|parent| workspace.open_dir(&parent).ok());
    let is_moved = dir.is_some_and(|dir| {
        dir.require_can_create().is_ok() && workspace.undo_store().is_on_same_file_system(&dir)
    });
    if is_moved { 0 } else { (found.len() + change.bytes.len()) as u64 }
}

impl ReplaceOrInPlace {
    /// Chooses the way in which a file is written.
    ///
    /// # Errors
    ///
    /// The errors of [`CrashProtection::assess`].
    pub(in crate::files) fn choose(
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
            // Other errors are reported when the file is created.
            match open::nearest_dir(workspace, &parent) {
                Ok(dir) => dir.require_can_create().map_err(explain)?,
                // The project folder itself no longer exists.
                Err(error) if error.code() == Some(ErrorCode::NotFound) => return Err(error),
                Err(_) => {}
            }
            return Ok(Self::default());
        }
        let dir = match workspace.open_dir(&parent) {
            Err(error) if error.code() == Some(ErrorCode::NotFound) => return Ok(Self::default()),
            other => other?,
        };
        let writable = match dir.require_file_writable(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other,
        };
        let (is_in_place, copies) = match (dir.require_can_create().is_err(), is_kept) {
            (false, _) => (dir.is_mounted(name), RepairCopyLocation::SameFolder),
            (true, true) => (true, RepairCopyLocation::StateFolder),
            (true, false) => (true, RepairCopyLocation::NoCopy),
        };
        if is_in_place || change.modes.is_none() {
            writable.map_err(explain)?;
        }
        Ok(Self { is_in_place, repair_copy_location: copies, ..Self::default() })
    }

    /// Returns the folder of the copies. Returns `None` if it is the folder of the file.
    pub(in crate::files) fn repair_copy_folder(self, workspace: &Workspace) -> Option<PathBuf> {
        let is_elsewhere = self.repair_copy_location == RepairCopyLocation::StateFolder;
        workspace.journal_folder_after_recovery().filter(|_| is_elsewhere).map(Path::to_owned)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
