//! The one way from a path to a place: by its text first, then past its links, and what is looked at
//! before anything is permitted: where the links lead, and what is there.
//!
//! It reads nothing of what a file holds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_text::{head, normalise, parse_path, path_text};

use super::Workspace;
use super::failure::{changed, explain_given, not_a_file, outside_roots};
use super::place::{Resolved, Root, Seen, spelt_out};
use crate::error::{Code, ToolError};
use crate::files::system::{Kind, look};
use crate::limits::PATH_BYTES;

impl Workspace {
    /// Places a path that the model gave, by its text alone. A name in it may be quoted as
    /// [`path_text`] quotes names that text cannot hold.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for what is no path, `outside_roots` for what lies in no root.
    pub fn resolve(&self, given: &str) -> Result<Resolved, ToolError> {
        let path = self.absolute(given)?;
        self.place(given, &path).ok_or_else(|| outside_roots(self, given))
    }

    /// Places a path that did not come as text.
    ///
    /// # Errors
    ///
    /// As [`Workspace::resolve`].
    pub fn resolve_path(&self, path: &Path) -> Result<Resolved, ToolError> {
        self.resolve(&path_text(path))
    }

    /// Makes a path that the model gave absolute and normalises it, by its text alone.
    pub(super) fn absolute(&self, given: &str) -> Result<PathBuf, ToolError> {
        if given.is_empty() {
            return Err(ToolError::invalid("the path is empty; `.` is the working directory"));
        }
        if given.contains('\0') {
            return Err(ToolError::invalid("the path contains a NUL character"));
        }
        let path = parse_path(given);
        if path.as_os_str().len() > PATH_BYTES {
            let start = head(given, 80);
            let message = format!("the path {start}… is longer than {PATH_BYTES} bytes");
            return Err(ToolError::invalid(message));
        }
        Ok(normalise(&self.cwd.join(path)))
    }

    /// Follows every link on the way, the last one too. What does not exist stays as it is.
    ///
    /// The answer names the file that a write would change; a rule about names has to look at it.
    /// Another process may make it wrong at once, so it must not decide whether a file is inside
    /// the roots: opening it does. A place that was looked at has to be where it was then.
    ///
    /// # Errors
    ///
    /// `outside_roots` if a link leads out, `not_a_directory`, `not_permitted`, `io`;
    /// `changed_since_preview` if the place was looked at and is another one now.
    pub fn settle(&self, at: &Resolved) -> Result<Resolved, ToolError> {
        if at.seen.is_some() && self.is_outside(at) {
            // Which link led there does not matter any more: the directory is pinned.
            return Ok(at.clone());
        }
        let real = spelt_out(&self.real(at)).map_err(|error| self.explain(at, &error))?;
        let beneath_own_root = || Some((at.root.clone(), real.strip_prefix(&at.root.real).ok()?));
        let placed = self.place(&at.given, &real).or_else(|| {
            let (root, beneath) = beneath_own_root()?;
            Some(Resolved::beneath_root(&at.given, root, beneath))
        });
        match (placed, &at.seen) {
            (Some(place), None) => Ok(place),
            (Some(place), Some(seen)) if place.path == seen.real => {
                Ok(Resolved { seen: Some(seen.clone()), ..place })
            }
            (_, Some(_)) => Err(changed(at)),
            (None, None) => Err(self.explain(at, &io::ErrorKind::CrossesDevices.into())),
        }
    }

    pub(crate) fn real(&self, at: &Resolved) -> PathBuf {
        at.root.real.join(&at.beneath)
    }

    /// Whether a place lies in no root of the session.
    pub(crate) fn is_outside(&self, at: &Resolved) -> bool {
        !self.roots.iter().any(|root| Arc::ptr_eq(root, &at.root))
    }

    /// Finds the root of an absolute, normalised path. Links in the way to the root may be spelt
    /// out or not.
    pub(super) fn place(&self, given: &str, path: &Path) -> Option<Resolved> {
        self.roots.iter().find_map(|root| {
            let beneath =
                path.strip_prefix(&root.path).or_else(|_| path.strip_prefix(&root.real)).ok()?;
            Some(Resolved::beneath_root(given, root.clone(), beneath))
        })
    }

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
        let explain = |error: io::Error| explain_given(given, &error);
        let placed = self.place(given, &named);
        let whole = placed.as_ref().map_or_else(|| named.clone(), |at| self.real(at));
        let real = spelt_out(&whole).map_err(explain)?;
        if let Some(there) = self.place(given, &real) {
            if placed.is_none() && look(&whole).is_err_and(|error| crosses(&error)) {
                // By a link of a process, even if it leads inside at the moment.
                return Err(outside_roots(self, given));
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
            Err(error) if crosses(&error) => return Err(outside_roots(self, given)),
            Err(error) => return Err(explain_given(given, &error)),
        };
        if matches!(kind, Some(Kind::Link | Kind::Special)) {
            return Err(not_a_file(given));
        }
        let base = match kind {
            Some(Kind::Directory) => Some(real),
            _ => real.ancestors().skip(1).find(|above| above.is_dir()),
        };
        let base = base.ok_or_else(|| outside_roots(self, given))?;
        let root = Root::pin_real(base).map_err(|error| explain_given(given, &error))?;
        if root.pinned.is_of_processes() {
            return Err(outside_roots(self, given));
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
