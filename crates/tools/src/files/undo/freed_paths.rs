//! The names that an undo frees before it restores removed entries.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use super::UndoAction;
use crate::files::workspace::WorkspacePath;

/// The paths that no longer exist after the actions that were planned so far.
#[derive(Debug, Default)]
pub(super) struct FreedPaths(BTreeSet<PathBuf>);

impl FreedPaths {
    /// Adds the paths that an action removes.
    pub(super) fn add(&mut self, action: &UndoAction) {
        match action {
            UndoAction::Remove(found) => {
                self.0.insert(found.entry.path.path().to_owned());
            }
            UndoAction::RemoveDirectory(at) if self.will_be_empty(at) => {
                self.0.insert(at.path().to_owned());
            }
            _ => {}
        }
    }

    /// Returns whether a directory will be empty.
    fn will_be_empty(&self, at: &WorkspacePath) -> bool {
        let dir = at.root.pinned.open_dir_without_links(&at.path_in_root);
        let entries = dir.and_then(|dir| dir.entries(self.0.len()));
        let is_freed = |name: &OsString| self.0.contains(&at.path().join(name));
        entries.is_ok_and(|(entries, has_more)| {
            !has_more && entries.iter().all(|entry| is_freed(&entry.name))
        })
    }

    pub(super) fn contains(&self, at: &WorkspacePath) -> bool {
        self.0.contains(at.path())
    }
}
