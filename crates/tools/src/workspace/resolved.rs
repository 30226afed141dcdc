//! The one way from a path to a place in the roots: by its text first, then past its links.
//!
//! It opens nothing.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_text::{head, normalise};
use callboard_text::{parse_path, path_text};

use super::failure::changed;
use super::{Root, Workspace};
use crate::error::ToolError;
use crate::limits::PATH_BYTES;
use crate::sys::fs::Identity;

/// A place beneath one of the roots, by its text, or one that was looked at.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub(super) given: String,
    pub(super) path: PathBuf,
    pub(super) root: Arc<Root>,
    pub(super) beneath: PathBuf,
    pub(super) seen: Option<Seen>,
}

/// What was found when a place was looked at.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The path that was named, absolute.
    pub(super) named: PathBuf,
    /// Where its links led: the path of the real place.
    pub(super) real: PathBuf,
    /// The directory that it was in, if there was one.
    pub(super) parent: Option<Identity>,
    /// What was there, if anything.
    pub(super) itself: Option<Identity>,
}

impl Resolved {
    /// Returns the path as the model gave it.
    #[must_use]
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Returns the absolute, normalised path, in the words of the client's roots; outside of them
    /// the real one.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path relative to its root; empty for the root itself.
    #[must_use]
    pub fn beneath(&self) -> &Path {
        &self.beneath
    }
}

impl Resolved {
    /// Returns a name in this directory.
    pub(crate) fn child(&self, name: &OsStr) -> Self {
        Self {
            given: self.given.clone(),
            path: self.path.join(name),
            root: self.root.clone(),
            beneath: self.beneath.join(name),
            seen: None,
        }
    }

    /// Returns the directory that it is in; a root is in none. Of the real place that was looked at
    /// it is known which directory that was.
    pub(crate) fn parent(&self) -> Option<Self> {
        let path = self.path.parent()?.to_owned();
        let seen = self.seen.as_ref().filter(|seen| seen.real == self.path).map(|seen| {
            let (named, real) = (path.clone(), path.clone());
            Seen { named, real, parent: None, itself: seen.parent }
        });
        Some(Self {
            given: self.given.clone(),
            path,
            root: self.root.clone(),
            beneath: self.beneath.parent()?.to_owned(),
            seen,
        })
    }
}

impl Workspace {
    /// Places a path that the model gave, by its text alone. A name in it may be quoted as
    /// [`path_text`] quotes names that text cannot hold.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for what is no path, `outside_roots` for what lies in no root.
    pub fn resolve(&self, given: &str) -> Result<Resolved, ToolError> {
        let path = self.absolute(given)?;
        self.place(given, &path).ok_or_else(|| self.outside_roots(given))
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
}

impl Resolved {
    pub(super) fn beneath_root(given: &str, root: Arc<Root>, beneath: &Path) -> Self {
        Self {
            given: given.to_owned(),
            path: normalise(&root.path.join(beneath)),
            beneath: beneath.to_owned(),
            root,
            seen: None,
        }
    }
}

/// Spells out the links of a path as far as it exists.
pub(super) fn spelt_out(path: &Path) -> io::Result<PathBuf> {
    for existing in path.ancestors() {
        match existing.canonicalize() {
            Ok(mut real) => {
                if let Ok(rest) = path.strip_prefix(existing)
                    && !rest.as_os_str().is_empty()
                {
                    real.push(rest);
                }
                return Ok(real);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}
