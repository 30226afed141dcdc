//! What is opened in the roots, and what may not be: files, directories, names in them, and the
//! directories that are made on the way to one.
//!
//! It knows nothing of what is done with them.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use callboard_text::normalise;

use super::Workspace;
use super::failure::{changed, explain_given, gone, is_a_directory, missing, not_a_file};
use super::place::Resolved;
use crate::error::ToolError;
use crate::files::system::{Dir, Identified, Kind, Root as Pinned};

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
    /// Opens a regular file for reading.
    ///
    /// # Errors
    ///
    /// `not_found` with similar names, `is_a_directory`, `not_a_regular_file`, `outside_roots` if
    /// a link leads out, `not_permitted`, `io`; `changed_since_preview` if the place was looked at
    /// and is another one now.
    pub fn open_read(&self, at: &Resolved) -> Result<File, ToolError> {
        let file = self.fenced(at, Pinned::open, Pinned::open_straight)?;
        let metadata = file.metadata().map_err(|error| self.explain(at, &error))?;
        require_file(at, &metadata)?;
        if self.is_outside(at) {
            self.require_same(at, &metadata)?;
        }
        Ok(file)
    }

    /// Opens a regular file by its absolute path, if it is there and inside the roots: for what is
    /// looked for often and mostly missing. Unlike [`Self::open_read`] it says nothing of why not.
    #[must_use]
    pub fn look_for(&self, path: &Path) -> Option<File> {
        let at = self.place("", &normalise(path))?;
        let open = |at: &Resolved| at.root.pinned.open(&at.beneath);
        let file = match open(&at) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                open(&self.settle(&at).ok()?).ok()?
            }
            opened => opened.ok()?,
        };
        file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
    }

    /// Asks what is there, links followed.
    ///
    /// # Errors
    ///
    /// `not_found`, `outside_roots` if a link leads out, `not_permitted`, `io`;
    /// `changed_since_preview` if the place was looked at and is another one now.
    pub fn metadata(&self, at: &Resolved) -> Result<Metadata, ToolError> {
        self.fenced(at, Pinned::metadata, Pinned::metadata_straight)
    }

    /// Reads what a link holds, without following it.
    pub(crate) fn read_link(&self, at: &Resolved) -> Option<PathBuf> {
        let dir = at.root.pinned.dir(at.beneath.parent()?).ok()?;
        Some(dir.read_link(at.beneath.file_name()?).ok()?.into())
    }

    /// Opens a directory; if it was looked at, the same one.
    pub(crate) fn open_dir(&self, at: &Resolved) -> Result<Dir, ToolError> {
        let dir = self.fenced(at, Pinned::dir, Pinned::dir_straight)?;
        if dir.is_removed() {
            // It would look like an empty one.
            return Err(self.explain(at, &io::ErrorKind::NotFound.into()));
        }
        self.require_same(at, &dir)?;
        Ok(dir)
    }

    /// Refuses another folder than the one that was opened at a place before.
    pub(crate) fn require_folder(&self, at: &Resolved, before: &Dir) -> Result<(), ToolError> {
        let now = self.open_dir(at)?;
        match (before.itself(), now.itself()) {
            (Ok(before), Ok(now)) if before == now => Ok(()),
            _ => Err(changed(at)),
        }
    }

    /// Refuses something else than what was there when the place was looked at, if it was.
    pub(crate) fn require_same(
        &self,
        at: &Resolved,
        now: &impl Identified,
    ) -> Result<(), ToolError> {
        let Some(seen) = at.seen.as_ref().and_then(|seen| seen.itself) else { return Ok(()) };
        match now.identity() {
            Ok(now) if now == seen => Ok(()),
            Ok(_) => Err(changed(at)),
            Err(error) => Err(self.explain(at, &error)),
        }
    }

    /// Opens beneath the root. Where a link leads out of this root it is looked up by path, which
    /// may be in a root after all; that place is then opened in the same fenced way. What was
    /// looked at is opened where it was then, and no link leads there any more.
    fn fenced<T>(
        &self,
        at: &Resolved,
        open: fn(&Pinned, &Path) -> io::Result<T>,
        straight: fn(&Pinned, &Path) -> io::Result<T>,
    ) -> Result<T, ToolError> {
        let is_crossed = |error: &io::Error| error.kind() == io::ErrorKind::CrossesDevices;
        let opened = if at.seen.is_some() {
            let real = self.settle(at)?;
            match straight(&real.root.pinned, &real.beneath) {
                Err(error) if is_crossed(&error) => return Err(changed(at)),
                other => other,
            }
        } else {
            match open(&at.root.pinned, &at.beneath) {
                Err(error) if is_crossed(&error) => {
                    let real = self.settle(at)?;
                    open(&real.root.pinned, &real.beneath)
                }
                other => other,
            }
        };
        opened.map_err(|error| self.explain(at, &error))
    }

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

    /// Says what the system's answer means for the model.
    pub(crate) fn explain(&self, at: &Resolved, error: &io::Error) -> ToolError {
        if error.kind() == io::ErrorKind::NotFound && at.root.pinned.is_removed() {
            return gone(&at.root.path);
        }
        // What else there is outside of the roots is nobody's business.
        if error.kind() == io::ErrorKind::NotFound && !self.is_outside(at) {
            return missing(at).into();
        }
        explain_given(&at.given, error)
    }
}

/// Refuses everything but regular files, which alone can be read without surprises.
pub(crate) fn require_file(at: &Resolved, metadata: &Metadata) -> Result<(), ToolError> {
    match Kind::from(metadata.file_type()) {
        Kind::File => Ok(()),
        Kind::Directory => Err(is_a_directory(&at.given)),
        Kind::Link | Kind::Special => Err(not_a_file(&at.given)),
    }
}
