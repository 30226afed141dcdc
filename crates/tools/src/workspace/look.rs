//! Looking at a place before anything is permitted: where its links lead, and what is there.
//!
//! It reads nothing of what a file holds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_text::path_text;

use super::failure::not_a_file;
use super::resolved::{Seen, spelt_out};
use super::{Resolved, Root, Workspace};
use crate::error::{Code, ToolError};
use crate::sys::fs::{Kind, look};

impl Workspace {
    /// Places a path that the model gave and finds out where it leads, so that what is shown before
    /// it is permitted is what is used afterwards, or nothing.
    ///
    /// It may lie outside of the roots; then [`Resolved::path`] is the real path, the directory is
    /// pinned, and whoever uses the place has to ask first. Nothing leads through the links of
    /// `/proc` by which processes show what they have open, nor to what is there.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for what is no path; `not_found` for a link to what does not exist;
    /// `not_a_regular_file` for what is no directory either; `not_a_directory`, `not_permitted`,
    /// `io`; `outside_roots` for what is not even asked about.
    pub fn look(&self, given: &str) -> Result<Resolved, ToolError> {
        let path = self.absolute(given)?;
        self.look_at(given, path)
    }

    /// Looks at a place that the session itself remembers.
    pub(crate) fn recall(&self, path: &Path) -> Result<Resolved, ToolError> {
        self.look_at(&path_text(path), path.to_owned())
    }

    /// Places a name that the session itself remembers, without following a link that it may be.
    pub(crate) fn named(&self, path: &Path) -> Result<Resolved, ToolError> {
        self.place(&path_text(path), path).map_or_else(|| self.recall(path), Ok)
    }

    fn look_at(&self, given: &str, named: PathBuf) -> Result<Resolved, ToolError> {
        let explain = |error: io::Error| self.explain_given(given, &error);
        let placed = self.place(given, &named);
        let whole = placed.as_ref().map_or_else(|| named.clone(), |at| self.real(at));
        let real = spelt_out(&whole).map_err(explain)?;
        if let Some(there) = self.place(given, &real) {
            if placed.is_none() && look(&whole).is_err_and(|error| crosses(&error)) {
                // By a link of a process, even if it leads inside at the moment.
                return Err(self.outside_roots(given));
            }
            let seen = self.seen(&there, named)?;
            // In the words of the model, if that is inside as well.
            let at = placed.unwrap_or(there);
            return Ok(Resolved { seen: Some(seen), ..at });
        }
        let at = self.look_outside(given, &whole, &real)?;
        let seen = self.seen(&at, named)?;
        Ok(Resolved { seen: Some(seen), ..at })
    }

    /// Pins what a call may reach outside of the roots: a directory, or the one that a file is in.
    fn look_outside(&self, given: &str, whole: &Path, real: &Path) -> Result<Resolved, ToolError> {
        let kind = match look(whole) {
            Ok(metadata) => Some(Kind::from(metadata.file_type())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if crosses(&error) => return Err(self.outside_roots(given)),
            Err(error) => return Err(self.explain_given(given, &error)),
        };
        if matches!(kind, Some(Kind::Link | Kind::Special)) {
            return Err(not_a_file(given));
        }
        let base = match kind {
            Some(Kind::Directory) => Some(real),
            _ => real.ancestors().skip(1).find(|above| above.is_dir()),
        };
        let base = base.ok_or_else(|| self.outside_roots(given))?;
        let root = Root::pin_real(base).map_err(|error| self.explain_given(given, &error))?;
        if root.pinned.is_of_processes() {
            return Err(self.outside_roots(given));
        }
        let beneath = real.strip_prefix(base).unwrap_or(Path::new(""));
        Ok(Resolved::beneath_root(given, Arc::new(root), beneath))
    }

    /// Notes what is at a real place.
    pub(super) fn seen(&self, real: &Resolved, named: PathBuf) -> Result<Seen, ToolError> {
        let seen = Seen { named, real: real.path.clone(), parent: None, itself: None };
        let explain = |error: io::Error| self.explain(real, &error);
        let pinned = &real.root.pinned;
        let Some((parent, name)) = real.beneath.parent().zip(real.beneath.file_name()) else {
            let itself = pinned.dir_straight(Path::new("")).and_then(|dir| dir.itself());
            return Ok(Seen { itself: Some(itself.map_err(explain)?), ..seen });
        };
        let dir = match pinned.dir_straight(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(seen),
            other => other.map_err(explain)?,
        };
        let itself = match dir.kind(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Ok(Kind::Link) => {
                let given = &real.given;
                let message = format!("{given} is a link to a file that does not exist");
                return Err(ToolError::report(Code::NotFound, message));
            }
            Ok(Kind::Special) => return Err(not_a_file(&real.given)),
            other => {
                other.map_err(explain)?;
                Some(dir.identity(name).map_err(explain)?)
            }
        };
        Ok(Seen { parent: Some(dir.itself().map_err(explain)?), itself, ..seen })
    }
}

/// Whether a way was refused because it leads through a link of `/proc`.
fn crosses(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::CrossesDevices
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
