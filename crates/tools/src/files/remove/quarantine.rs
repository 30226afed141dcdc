//! Moves an entry to a temporary name, and compares it there with its fingerprint. The entry is
//! then removed permanently, or moved back.
//!
//! The journal records the temporary name. If the process is killed, the next start finds the entry
//! by this record.

use callboard_text::path_text;
use std::ffi::OsStr;
use std::io;

use super::{cannot_move_back_error, changed_error};
use crate::error::{ErrorCode, ToolError};
use crate::files::Durability;
use crate::files::entry_fingerprint::EntryFingerprint;
use crate::files::state::journal::{RollbackJournal, unique_temporary_name};
use crate::files::system::Dir;
use crate::files::workspace::Workspace;
use crate::files::workspace::open::EntryPath;
use crate::files::write::AsideName;

/// An entry that has been moved to a temporary name.
#[derive(Debug)]
pub(super) struct Quarantined<'a> {
    dir: Dir,
    name: AsideName<'a>,
    journal: Option<RollbackJournal>,
}

impl<'a> Quarantined<'a> {
    /// Moves an entry to a temporary name. If the entry does not match the fingerprint, moves it
    /// back and fails.
    pub(super) fn move_aside_if_unchanged(
        workspace: &Workspace,
        dir: Dir,
        entry: &'a EntryPath,
        seen: &EntryFingerprint,
    ) -> Result<Self, ToolError> {
        let explain = |error: io::Error| workspace.explain_io_error(&entry.path, &error);
        let name = AsideName { entry, kind: seen.kind, temporary: unique_temporary_name() };
        let folder = workspace.journal_folder_after_recovery();
        let place = workspace.path_beneath_real_root(&entry.path);
        let parent = place.parent().unwrap_or(&place);
        let begin = |folder| {
            RollbackJournal::begin_quarantine(folder, parent, &entry.name, &name.temporary)
        };
        // If the journal cannot be created, the call continues, because a crash cannot lose a
        // backup: either the entry gets no backup, or its backup exists before the entry is
        // removed.
        let journal = folder.map(begin).and_then(Result::ok);
        name.move_aside(&dir).map_err(explain)?;
        let aside = Self { dir, name, journal };
        if aside.name.is_unchanged(&aside.dir, seen) {
            return Ok(aside);
        }
        aside.restore()?;
        Err(changed_error(&entry.path))
    }

    /// Returns the directory of the entry.
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the temporary name.
    pub(super) fn quarantine_name(&self) -> &OsStr {
        &self.name.temporary
    }

    /// Moves the entry back to its original name.
    pub(super) fn restore(mut self) -> Result<(), ToolError> {
        self.name.move_back(&self.dir).map_err(|_taken| {
            if let Some(journal) = &mut self.journal {
                journal.keep_for_replay();
            }
            cannot_move_back_error(&self.name.entry.path, &path_text(&self.name.path()))
        })
    }

    /// Removes the entry permanently.
    ///
    /// If the removal fails, the error contains the path of the entry. If a journal exists, the
    /// next start removes the entry.
    pub(super) fn remove_for_good(mut self) -> Result<(), ToolError> {
        // A power failure may undo a deletion.
        let done = |journal: &mut RollbackJournal| journal.write_done(Durability::System).is_ok();
        let is_done = self.journal.as_mut().is_none_or(done);
        self.name.remove(&self.dir).map_err(|error| {
            if let (true, Some(journal)) = (is_done, &mut self.journal) {
                journal.keep_for_replay();
            }
            let message = format!(
                "{} is gone, but its content could not all be removed and is in {}: {error}",
                self.name.entry.path.given(),
                path_text(&self.name.path())
            );
            ToolError::recoverable(ErrorCode::Io, message)
        })
    }
}
