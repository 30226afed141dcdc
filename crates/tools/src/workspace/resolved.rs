//! The one way from a path to a place in the roots: by its text first, then past its links.
//!
//! It opens nothing.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use acp_types::location::normalise;
use acp_types::text;

use super::{Workspace, shown};
use crate::error::{Code, ToolError};
use crate::limits::PATH_BYTES;

/// A place beneath one of the roots, by its text. Whether anything is there is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub(super) given: String,
    pub(super) path: PathBuf,
    pub(super) root: usize,
    pub(super) beneath: PathBuf,
}

impl Resolved {
    /// Returns the path as the model gave it.
    #[must_use]
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Returns the absolute, normalised path, in the words of the client's roots.
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
            root: self.root,
            beneath: self.beneath.join(name),
        }
    }

    /// Returns the directory that it is in; a root is in none.
    pub(crate) fn parent(&self) -> Option<Self> {
        Some(Self {
            given: self.given.clone(),
            path: self.path.parent()?.to_owned(),
            root: self.root,
            beneath: self.beneath.parent()?.to_owned(),
        })
    }
}

impl Workspace {
    /// Places a path that the session itself remembers.
    pub(crate) fn recall(&self, path: &Path) -> Result<Resolved, ToolError> {
        self.resolve(&path.to_string_lossy())
    }

    /// Places a path that the model gave, by its text alone.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for what is no path, `outside_roots` for what lies in no root.
    pub fn resolve(&self, given: &str) -> Result<Resolved, ToolError> {
        if given.is_empty() {
            return Err(ToolError::invalid("the path is empty; `.` is the working directory"));
        }
        if given.contains('\0') {
            return Err(ToolError::invalid("the path contains a NUL character"));
        }
        if given.len() > PATH_BYTES {
            let start = text::head(given, 80);
            let message = format!("the path {start}… is longer than {PATH_BYTES} bytes");
            return Err(ToolError::invalid(message));
        }
        self.place(given, &normalise(&self.cwd.join(given))).ok_or_else(|| {
            let mut roots = String::new();
            for root in self.roots() {
                // Writing to a String cannot fail.
                let _ = write!(roots, " {}", shown(root));
            }
            let message =
                format!("{given} is outside of the workspace. Use a path inside of:{roots}");
            ToolError::report(Code::OutsideRoots, message)
        })
    }

    /// Follows every link on the way, the last one too. What does not exist stays as it is.
    ///
    /// The answer names the file that a write would change; a rule about names has to look at it.
    /// Another process may make it wrong at once, so it must not decide whether a file is inside
    /// the roots: opening it does.
    ///
    /// # Errors
    ///
    /// `outside_roots` if a link leads out, `not_a_directory`, `not_permitted`, `io`.
    pub fn settle(&self, at: &Resolved) -> Result<Resolved, ToolError> {
        let whole = self.roots[at.root].real.join(&at.beneath);
        for existing in whole.ancestors() {
            match existing.canonicalize() {
                Ok(mut real) => {
                    if let Ok(rest) = whole.strip_prefix(existing)
                        && !rest.as_os_str().is_empty()
                    {
                        real.push(rest);
                    }
                    let outside = || self.explain(at, &io::ErrorKind::CrossesDevices.into());
                    return self.place(&at.given, &real).ok_or_else(outside);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.explain(at, &error)),
            }
        }
        Err(self.explain(at, &io::ErrorKind::NotFound.into()))
    }

    pub(crate) fn real(&self, at: &Resolved) -> PathBuf {
        self.roots[at.root].real.join(&at.beneath)
    }

    /// Finds the root of an absolute, normalised path. Links in the way to the root may be spelt
    /// out or not.
    pub(super) fn place(&self, given: &str, path: &Path) -> Option<Resolved> {
        self.roots.iter().enumerate().find_map(|(index, root)| {
            let beneath =
                path.strip_prefix(&root.path).or_else(|_| path.strip_prefix(&root.real)).ok()?;
            Some(Resolved {
                given: given.to_owned(),
                path: normalise(&root.path.join(beneath)),
                root: index,
                beneath: beneath.to_owned(),
            })
        })
    }
}
