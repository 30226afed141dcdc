//! What protects a change from a crash, and whether it can be undone: decided by its preview, so that
//! whoever permits the change knows.

use std::io;

use super::Change;
use crate::error::{Code, ToolError};
use crate::files::state::Unkept;
use crate::files::workspace::{Workspace, guard, open};
use crate::note::Note;

/// What protects the files of one change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Protection {
    /// Why nothing is kept of what is replaced, if so.
    unkept: Option<Unkept>,
    /// Whether something is replaced.
    replaces: bool,
    /// The files that are written in place while no copy of them is kept.
    torn: Vec<String>,
}

/// How one file is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Manner {
    /// Whether its bytes are replaced, because the file itself cannot be.
    pub(super) is_in_place: bool,
    pub(super) copies: Copies,
    /// Whether nobody was told that a crash could tear it, so that it is not written in place.
    pub(super) is_exchanged_only: bool,
}

/// Where the copies lie that make a file whole again which is written in place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Copies {
    /// In the folder of the file, where the new file is made, too.
    #[default]
    Beside,
    /// In the state folder.
    State,
    Nowhere,
}

impl Protection {
    /// Looks at what protects a change, and refuses one that the file system does not permit.
    ///
    /// # Errors
    ///
    /// As [`atomic_write`](super::atomic_write), for what can be known before.
    pub(crate) fn of(workspace: &Workspace, changes: &[Change<'_>]) -> Result<Self, ToolError> {
        let bytes = changes.iter().map(|change| kept_bytes(workspace, *change));
        let unkept = match changes {
            [] => None,
            _ => workspace.state().require(bytes.sum()).err(),
        };
        let replaces = changes.iter().any(|change| change.found.is_some());
        let mut torn = Vec::new();
        for change in changes {
            let manner = Manner::of(workspace, *change, unkept.is_none())?;
            let is_in_place = || {
                let is_known =
                    |at| guard::is_shared(workspace, &at) || workspace.is_unexchangeable(at.path());
                manner.is_in_place || workspace.settle(change.at).is_ok_and(is_known)
            };
            if unkept.is_some() && change.found.is_some() && is_in_place() {
                torn.push(workspace.display(change.at.path()));
            }
        }
        Ok(Self { unkept, replaces, torn })
    }

    /// Whether a crash could leave a file that is neither the old one nor the new one.
    pub(crate) fn is_risky(&self) -> bool {
        !self.torn.is_empty()
    }

    /// Returns what whoever permits the change is to know, and the model, one sentence each.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> {
        let unkept = self.unkept.as_ref().filter(|_| self.replaces);
        let unkept = unkept.map(|why| Note::new("unkept").with_notes("why", [why.note()], ""));
        let is_torn = !self.torn.is_empty();
        let torn = is_torn.then(|| Note::new("torn").with("paths", self.torn.join(", ")));
        torn.into_iter().chain(unkept)
    }

    /// Returns what a permission rests on.
    pub(crate) fn pre_image(&self) -> Vec<u8> {
        self.notes().map(|note| note.to_string()).collect::<String>().into_bytes()
    }

    /// Whether what is replaced is kept, and what a killed process leaves is put in order.
    pub(super) fn is_kept(&self) -> bool {
        self.unkept.is_none()
    }

    /// Finds how each file is written now.
    ///
    /// # Errors
    ///
    /// As [`Self::of`]; `changed_since_preview` if one could be torn of which that was not said.
    pub(super) fn manners(
        &self,
        workspace: &Workspace,
        changes: &[Change<'_>],
    ) -> Result<Vec<Manner>, ToolError> {
        let manners = changes.iter().map(|change| {
            let manner = Manner::of(workspace, *change, self.is_kept())?;
            let path = workspace.display(change.at.path());
            let is_untold = !self.is_kept() && !self.torn.contains(&path);
            if manner.copies == Copies::Nowhere && is_untold {
                let message = format!(
                    "the folder of {path} takes no other files any more, so nothing was written. \
                     Try again"
                );
                return Err(ToolError::report(Code::ChangedSincePreview, message));
            }
            Ok(Manner { is_exchanged_only: is_untold, ..manner })
        });
        manners.collect()
    }
}

/// Returns how many bytes the state folder has to take for a change: none if the old file is moved
/// there.
fn kept_bytes(workspace: &Workspace, change: Change<'_>) -> u64 {
    let Some(found) = change.found else { return 0 };
    let parent = workspace.settle(change.at).ok().and_then(|at| at.parent());
    let dir = parent.and_then(|parent| workspace.open_dir(&parent).ok());
    let is_moved =
        dir.is_some_and(|dir| dir.require_taking().is_ok() && workspace.undo().is_beside(&dir));
    if is_moved { 0 } else { (found.len() + change.bytes.len()) as u64 }
}

impl Manner {
    /// Finds how a file is written.
    ///
    /// # Errors
    ///
    /// As [`Protection::of`].
    pub(super) fn of(
        workspace: &Workspace,
        change: Change<'_>,
        is_kept: bool,
    ) -> Result<Self, ToolError> {
        let at = change.at;
        let explain = |error: io::Error| workspace.explain(at, &error);
        let target = workspace.settle(at)?;
        let (Some(parent), Some(name)) = (target.parent(), target.beneath().file_name()) else {
            return Err(explain(io::ErrorKind::IsADirectory.into()));
        };
        if change.found.is_none() {
            // Whatever else is wrong with it, making it says.
            match open::nearest_dir(workspace, &parent) {
                Ok(dir) => dir.require_taking().map_err(explain)?,
                // The root itself is gone.
                Err(error) if error.code() == Some(Code::NotFound) => return Err(error),
                Err(_) => {}
            }
            return Ok(Self::default());
        }
        let dir = match workspace.open_dir(&parent) {
            Err(error) if error.code() == Some(Code::NotFound) => return Ok(Self::default()),
            other => other?,
        };
        match dir.require_writable(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(explain)?,
        }
        let (is_in_place, copies) = match (dir.require_taking().is_err(), is_kept) {
            (false, _) => (dir.is_mounted(name), Copies::Beside),
            (true, true) => (true, Copies::State),
            (true, false) => (true, Copies::Nowhere),
        };
        Ok(Self { is_in_place, copies, is_exchanged_only: false })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
