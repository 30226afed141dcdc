//! Files that were changed without a person's approval. A person is asked about the next command
//! that may execute them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use callboard_text::escape_invisible;

use super::{Session, SessionPermissions};
use crate::effects::{Effect, Effects};
use crate::limits;
use crate::rules::{PolicyVerdicts, Rules, Verdict, may_run_project_files};

impl SessionPermissions {
    /// Returns the files that were changed without a person's approval.
    pub(in crate::session) fn unreviewed_files(&self) -> impl Iterator<Item = &Path> {
        self.unreviewed_files.iter().map(PathBuf::as_path)
    }

    /// Adds files that an earlier process changed without a person's approval.
    pub(in crate::session) fn restore_unreviewed_files(&mut self, files: BTreeSet<PathBuf>) {
        self.unreviewed_changes += files.len() as u64;
        self.unreviewed_files.extend(files);
    }
}

impl Session {
    /// Returns true if a call runs a command that may execute project files, and if files were
    /// changed without a person's approval. Returns false if the policy alone, without rules,
    /// allows the call.
    pub(super) fn may_run_unreviewed_files(&self, judgement: &PolicyVerdicts) -> bool {
        !self.permissions.unreviewed_files.is_empty()
            && judgement.effects().iter().any(may_run_project_files)
            && Rules::default().combine_with_policy_verdicts(judgement) != Verdict::Allow
    }

    /// Records the files that a call changes without a person's approval.
    pub(super) fn record_unreviewed_files(&mut self, effects: &Effects) {
        let SessionPermissions { unreviewed_files, unreviewed_changes, .. } = &mut self.permissions;
        for effect in effects.iter() {
            if let Effect::Write(path) | Effect::Delete(path) = effect {
                *unreviewed_changes += 1;
                if unreviewed_files.len() < limits::MAX_UNREVIEWED_FILES {
                    unreviewed_files.insert(path.clone());
                }
            }
        }
    }

    /// Returns the note of a permission request that names these files.
    pub(super) fn unreviewed_files_note(&self) -> String {
        let files = &self.permissions.unreviewed_files;
        let named = files
            .iter()
            .take(limits::MAX_NAMED_UNREVIEWED_FILES)
            .map(|path| self.display_path(path));
        let named = ("named", named.collect::<Vec<_>>().join(", "));
        let more = files.len().saturating_sub(limits::MAX_NAMED_UNREVIEWED_FILES);
        let key = match more {
            0 => "unseen",
            _ if files.len() == limits::MAX_UNREVIEWED_FILES => "unseen-at-least",
            _ => "unseen-more",
        };
        escape_invisible(
            &self.permissions.localized_note(key, &[named, ("more", more.to_string())]),
        )
    }
}
