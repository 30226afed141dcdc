//! Names in directories, and directories that are made on the way to one.
//!
//! It knows nothing of what becomes of them.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::failure::changed;
use super::{Resolved, Workspace};
use crate::error::ToolError;
use crate::sys::fs::Dir;

/// A name in a directory, whatever it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The directory, as it was looked at.
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
        let real = self.settle(&parent)?;
        let there = real.child(name);
        let seen = Some(self.seen(&real, parent.path.clone())?);
        let parent = Resolved { seen, ..parent };
        let path = self.real(&there);
        if self.roots.iter().any(|root| root.real.starts_with(&path)) {
            return Err(ToolError::invalid(format!("{} holds a root of the workspace", at.given)));
        }
        Ok(Entry { parent, name: name.to_owned(), at: there })
    }

    /// Opens the directory, and makes what is missing on the way to it, on which no link may be.
    /// Tells what it made, the outermost first.
    pub(crate) fn create_dirs(&self, at: &Resolved) -> Result<(Dir, Vec<Resolved>), ToolError> {
        let real = self.settle(at)?;
        let root = &real.root.pinned;
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::CrossesDevices => changed(at),
            _ => self.explain(at, &error),
        };
        let mut path = Resolved::beneath_root(&at.given, real.root.clone(), Path::new(""));
        let (first, mut made) = (root.dir_straight(Path::new("")), Vec::new());
        let dir = real.beneath.iter().try_fold(first.map_err(explain)?, |dir, name| {
            path = path.child(name);
            let next = match root.dir_straight(&path.beneath) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let result = dir.create_dir(name);
                    if result.is_ok() {
                        made.push(path.clone());
                        self.durability().of_names(&dir).map_err(explain)?;
                    }
                    // Somebody else may have made it meanwhile.
                    root.dir_straight(&path.beneath).or_else(|error| result.and(Err(error)))
                }
                other => other,
            };
            next.map_err(explain)
        });
        let dir = dir.and_then(|dir| self.require_same(at, &dir).map(|()| dir));
        Ok((dir.inspect_err(|_| self.remove_dirs(&made))?, made))
    }

    /// Removes directories again that were made, if nothing is in them.
    pub(crate) fn remove_dirs(&self, made: &[Resolved]) {
        for at in made.iter().rev() {
            let Some((parent, name)) = at.beneath.parent().zip(at.beneath.file_name()) else {
                continue;
            };
            if let Ok(dir) = at.root.pinned.dir_straight(parent) {
                // What is not empty stays.
                drop(dir.remove_dir(name));
            }
        }
    }
}
