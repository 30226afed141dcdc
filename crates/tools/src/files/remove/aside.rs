//! Something that goes for good, on its way: out of the way first, where nobody finds it by its
//! name, compared there, then removed or put back.
//!
//! It knows nothing of what is kept of it. A journal says where it lies, should the process be
//! killed.

use callboard_text::path_text;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use super::{changed, stranded};
use crate::error::{Code, ToolError};
use crate::files::snapshot::Seen;
use crate::files::state::journal::{Journal, remove_tree, unique};
use crate::files::system::{Dir, Kind};
use crate::files::workspace::Workspace;
use crate::files::workspace::open::Entry;

/// Something out of the way.
#[derive(Debug)]
pub(super) struct Aside<'a> {
    dir: &'a Dir,
    entry: &'a Entry,
    kind: Kind,
    name: OsString,
    journal: Option<Journal>,
}

impl<'a> Aside<'a> {
    /// Takes something out of the way, if it is what was seen.
    pub(super) fn take(
        workspace: &Workspace,
        dir: &'a Dir,
        entry: &'a Entry,
        seen: &Seen,
    ) -> Result<Self, ToolError> {
        let explain = |error: io::Error| workspace.explain(&entry.at, &error);
        let name = unique();
        let folder = workspace.journal();
        let place = workspace.real(&entry.at);
        let parent = place.parent().unwrap_or(&place);
        let begin = |folder| Journal::aside(folder, parent, &entry.name, &name);
        // What is lost for good anyway needs none; one that is copied is in order with its copy.
        let journal = folder.map(begin).and_then(Result::ok);
        dir.rename(&entry.name, &name).map_err(explain)?;
        let aside = Self { dir, entry, kind: seen.kind, name, journal };
        // Whoever changes a directory now has it open already.
        if Seen::of(dir, &aside.name).is_ok_and(|now| now == *seen) {
            return Ok(aside);
        }
        aside.put_back()?;
        Err(changed(&entry.at))
    }

    /// Returns its name while it is out of the way.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Gives it its name back.
    pub(super) fn put_back(mut self) -> Result<(), ToolError> {
        let back = self.dir.rename(&self.name, &self.entry.name);
        back.map_err(|_taken| {
            if let Some(journal) = &mut self.journal {
                journal.leave();
            }
            stranded(&self.entry.at, &path_text(&self.beside()))
        })
    }

    /// Removes it for good. What cannot be removed now is removed at the next start, where there is
    /// a journal; the error says where it lies.
    pub(super) fn remove(mut self) -> Result<(), ToolError> {
        let is_done = self.journal.as_mut().is_none_or(|journal| journal.done().is_ok());
        let removed = match self.kind {
            Kind::Directory => remove_tree(self.dir, &self.name),
            Kind::File | Kind::Link | Kind::Special => self.dir.remove(&self.name),
        };
        removed.map_err(|error| {
            if let (true, Some(journal)) = (is_done, &mut self.journal) {
                journal.leave();
            }
            let beside = self.beside();
            let given = self.entry.at.given();
            let message = format!(
                "{given} is gone, but what was there could not all be removed and lies in {}: \
                 {error}",
                path_text(&beside)
            );
            ToolError::report(Code::Io, message)
        })
    }

    /// Returns where it lies.
    fn beside(&self) -> PathBuf {
        self.entry.at.path().with_file_name(&self.name)
    }
}
