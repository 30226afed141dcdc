//! Something that goes for good, on its way: out of the way first, where nobody finds it by its
//! name, compared there, then removed or put back.
//!
//! It knows nothing of what is kept of it. A journal says where it lies, should the process be
//! killed.

use callboard_text::path_text;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use super::{changed_error, name_taken_error};
use crate::error::{ErrorCode, ToolError};
use crate::files::snapshot::EntrySnapshot;
use crate::files::state::journal::{Journal, remove_tree, unique_temporary_name};
use crate::files::system::{Dir, FileKind};
use crate::files::workspace::Workspace;
use crate::files::workspace::open::EntryPath;

/// Something out of the way.
#[derive(Debug)]
pub(super) struct Quarantined<'a> {
    dir: &'a Dir,
    entry: &'a EntryPath,
    kind: FileKind,
    name: OsString,
    journal: Option<Journal>,
}

impl<'a> Quarantined<'a> {
    /// Takes something out of the way, if it is what was seen.
    pub(super) fn quarantine(
        workspace: &Workspace,
        dir: &'a Dir,
        entry: &'a EntryPath,
        seen: &EntrySnapshot,
    ) -> Result<Self, ToolError> {
        let explain = |error: io::Error| workspace.explain_io_error(&entry.path, &error);
        let name = unique_temporary_name();
        let folder = workspace.journal_folder();
        let place = workspace.real_path(&entry.path);
        let parent = place.parent().unwrap_or(&place);
        let begin = |folder| Journal::begin_quarantine(folder, parent, &entry.name, &name);
        // What is lost for good anyway needs none; one that is copied is in order with its copy.
        let journal = folder.map(begin).and_then(Result::ok);
        dir.rename(&entry.name, &name).map_err(explain)?;
        let aside = Self { dir, entry, kind: seen.kind, name, journal };
        // Whoever changes a directory now has it open already.
        if EntrySnapshot::take(dir, &aside.name).is_ok_and(|now| now == *seen) {
            return Ok(aside);
        }
        aside.restore()?;
        Err(changed_error(&entry.path))
    }

    /// Returns its name while it is out of the way.
    pub(super) fn quarantine_name(&self) -> &OsStr {
        &self.name
    }

    /// Gives it its name back.
    pub(super) fn restore(mut self) -> Result<(), ToolError> {
        let back = self.dir.rename(&self.name, &self.entry.name);
        back.map_err(|_taken| {
            if let Some(journal) = &mut self.journal {
                journal.keep_for_replay();
            }
            name_taken_error(&self.entry.path, &path_text(&self.quarantine_path()))
        })
    }

    /// Removes it for good. What cannot be removed now is removed at the next start, where there is
    /// a journal; the error says where it lies.
    pub(super) fn remove_for_good(mut self) -> Result<(), ToolError> {
        let is_done = self.journal.as_mut().is_none_or(|journal| journal.write_done().is_ok());
        let removed = match self.kind {
            FileKind::Directory => remove_tree(self.dir, &self.name),
            FileKind::File | FileKind::Link | FileKind::Special => self.dir.remove(&self.name),
        };
        removed.map_err(|error| {
            if let (true, Some(journal)) = (is_done, &mut self.journal) {
                journal.keep_for_replay();
            }
            let beside = self.quarantine_path();
            let given = self.entry.path.given();
            let message = format!(
                "{given} is gone, but what was there could not all be removed and lies in {}: \
                 {error}",
                path_text(&beside)
            );
            ToolError::recoverable(ErrorCode::Io, message)
        })
    }

    /// Returns where it lies.
    fn quarantine_path(&self) -> PathBuf {
        self.entry.path.path().with_file_name(&self.name)
    }
}
