//! Names in directories, and directories that are made on the way to one.
//!
//! It knows nothing of what becomes of them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::{Resolved, Workspace};
use crate::error::ToolError;
use crate::sys::fs::Dir;

/// A name in a directory, whatever it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) parent: Resolved,
    pub(crate) name: OsString,
    /// Its place, without links but perhaps the last.
    pub(crate) at: Resolved,
}

impl Workspace {
    /// Finds a name in the directory that it really is in. The last link is not followed.
    ///
    /// # Errors
    ///
    /// As [`Workspace::settle`]; `invalid_arguments` for a root, which is in no directory of ours.
    pub(crate) fn entry(&self, at: &Resolved) -> Result<Entry, ToolError> {
        let (Some(parent), Some(name)) = (at.parent(), at.beneath.file_name()) else {
            return Err(ToolError::invalid(format!("{} is a root of the workspace", at.given)));
        };
        let parent = self.settle(&parent)?;
        let there = parent.child(name);
        let real = self.real(&there);
        if self.roots.iter().any(|root| root.real.starts_with(&real)) {
            return Err(ToolError::invalid(format!("{} holds a root of the workspace", at.given)));
        }
        Ok(Entry { parent, name: name.to_owned(), at: there })
    }

    /// Opens the directory, and makes what is missing on the way to it. Tells what it made, the
    /// outermost first.
    pub(crate) fn create_dirs(&self, at: &Resolved) -> Result<(Dir, Vec<Resolved>), ToolError> {
        let root = &self.roots[at.root].pinned;
        let explain = |error: io::Error| self.explain(at, &error);
        let mut dir = root.dir(Path::new("")).map_err(explain)?;
        let mut path = self.top(at);
        let mut made = Vec::new();
        for name in &at.beneath {
            path = path.child(name);
            let next = match root.dir(&path.beneath) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let result = dir.create_dir(name);
                    if result.is_ok() {
                        made.push(path.clone());
                    }
                    // Somebody else may have made it meanwhile.
                    root.dir(&path.beneath).or_else(|error| result.and(Err(error)))
                }
                other => other,
            };
            dir = next.map_err(explain)?;
        }
        Ok((dir, made))
    }

    /// Removes directories again that were made, if nothing is in them.
    pub(crate) fn remove_dirs(&self, made: &[Resolved]) {
        for at in made.iter().rev() {
            let Some((parent, name)) = at.parent().zip(at.beneath.file_name()) else { continue };
            if let Ok(dir) = self.open_dir(&parent) {
                // What is not empty stays.
                drop(dir.remove_dir(name));
            }
        }
    }

    fn top(&self, at: &Resolved) -> Resolved {
        let (path, root) = (self.roots[at.root].path.clone(), at.root);
        Resolved { given: at.given.clone(), path, root, beneath: PathBuf::new() }
    }
}
