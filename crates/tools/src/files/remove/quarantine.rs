//! Moves an entry to a temporary name, and compares it there with its fingerprint. The entry is then
//! removed permanently, or moved back.
//!
//! The journal records the temporary name. If the process is killed, the next start finds the entry
//! by this record.

use callboard_text::path_text;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use super::{changed_error, name_taken_error};
use crate::error::{ErrorCode, ToolError};
use crate::files::entry_fingerprint::EntryFingerprint;
use crate::files::state::journal::{Journal, remove_tree, unique_temporary_name};
use crate::files::system::{Dir, FileKind};
use crate::files::workspace::Workspace;
use crate::files::workspace::open::EntryPath;

/// An entry that has been moved to a temporary name.
#[derive(Debug)]
pub(super) struct Quarantined<'a> {
    dir: &'a Dir,
    entry: &'a EntryPath,
    kind: FileKind,
    name: OsString,
    journal: Option<Journal>,
}

impl<'a> Quarantined<'a> {
    /// Moves an entry to a temporary name. If the entry does not match the fingerprint, moves it back
    /// and fails.
    pub(super) fn quarantine(
        workspace: &Workspace,
        dir: &'a Dir,
        entry: &'a EntryPath,
        seen: &EntryFingerprint,
    ) -> Result<Self, ToolError> {
        let explain = |error: io::Error| workspace.explain_io_error(&entry.path, &error);
        let name = unique_temporary_name();
        let folder = workspace.journal_folder();
        let place = workspace.real_path(&entry.path);
        let parent = place.parent().unwrap_or(&place);
        let begin = |folder| Journal::begin_quarantine(folder, parent, &entry.name, &name);
        // If the journal cannot be created, the call continues, because a crash cannot lose a
        // backup: either the entry gets no backup, or its backup exists before the entry is
        // removed.
        let journal = folder.map(begin).and_then(Result::ok);
        dir.rename_to_unused(&entry.name, &name).map_err(explain)?;
        let aside = Self { dir, entry, kind: seen.kind, name, journal };
        // From now on, the entry can only be changed by programs that already have the directory
        // open.
        if EntryFingerprint::compute(dir, &aside.name).is_ok_and(|now| now == *seen) {
            return Ok(aside);
        }
        aside.restore()?;
        Err(changed_error(&entry.path))
    }

    /// Returns the temporary name.
    pub(super) fn quarantine_name(&self) -> &OsStr {
        &self.name
    }

    /// Moves the entry back to its original name.
    pub(super) fn restore(mut self) -> Result<(), ToolError> {
        let back = self.dir.rename_to_unused(&self.name, &self.entry.name);
        back.map_err(|_taken| {
            if let Some(journal) = &mut self.journal {
                journal.keep_for_replay();
            }
            name_taken_error(&self.entry.path, &path_text(&self.quarantine_path()))
        })
    }

    /// Removes the entry permanently.
    ///
    /// If the removal fails, the error contains the path of the entry. If a journal exists, the
    /// next start removes the entry.
    pub(super) fn remove_for_good(mut self) -> Result<(), ToolError> {
        let is_done = self.journal.as_mut().is_none_or(|journal| journal.write_done().is_ok());
        let removed = match self.kind {
            FileKind::Directory => remove_tree(self.dir, &self.name),
            FileKind::File | FileKind::Link | FileKind::Special => self.dir.remove_file(&self.name),
        };
        removed.map_err(|error| {
            if let (true, Some(journal)) = (is_done, &mut self.journal) {
                journal.keep_for_replay();
            }
            let beside = self.quarantine_path();
            let given = self.entry.path.given();
            let message = format!(
                "{given} is gone, but its content could not all be removed and is in {}: \
                 {error}",
                path_text(&beside)
            );
            ToolError::recoverable(ErrorCode::Io, message)
        })
    }

    /// Returns the path of the entry at its temporary name.
    fn quarantine_path(&self) -> PathBuf {
        self.entry.path.path().with_file_name(&self.name)
    }
}
