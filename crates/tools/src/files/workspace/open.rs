//! How places are opened beneath their roots, names in directories, and the directories that are made
//! on the way to one.
//!
//! It knows nothing of what is done with them.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::Workspace;
use super::failure::{changed, is_a_directory, not_a_file};
use super::paths::seen;
use super::place::Resolved;
use crate::error::{Code, ToolError};
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

impl Entry {
    /// Finds a name in the directory that it really is in. The last link is not followed.
    ///
    /// # Errors
    ///
    /// As [`Workspace::settle`]; `invalid_arguments` for a root, which is in no directory of ours.
    pub(crate) fn find(workspace: &Workspace, at: &Resolved) -> Result<Self, ToolError> {
        let (Some(parent), Some(name)) = (at.parent(), at.beneath.file_name()) else {
            return Err(ToolError::invalid(format!("{} is a root of the workspace", at.given)));
        };
        let real = workspace.settle(&parent)?;
        let there = real.child(name);
        let seen = Some(seen(workspace, &real, parent.path.clone())?);
        let parent = Resolved { seen, ..parent };
        let path = workspace.real(&there);
        if workspace.roots.iter().any(|root| root.real.starts_with(&path)) {
            return Err(ToolError::invalid(format!("{} holds a root of the workspace", at.given)));
        }
        Ok(Self { parent, name: name.to_owned(), at: there })
    }
}

/// Opens beneath the root. Where a link leads out of this root it is looked up by path, which
/// may be in a root after all; that place is then opened in the same fenced way. What was
/// looked at is opened where it was then, and no link leads there any more.
pub(super) fn fenced<T>(
    workspace: &Workspace,
    at: &Resolved,
    open: fn(&Pinned, &Path) -> io::Result<T>,
    straight: fn(&Pinned, &Path) -> io::Result<T>,
) -> Result<T, ToolError> {
    let is_crossed = |error: &io::Error| error.kind() == io::ErrorKind::CrossesDevices;
    let opened = if at.seen.is_some() {
        let real = workspace.settle(at)?;
        match straight(&real.root.pinned, &real.beneath) {
            Err(error) if is_crossed(&error) => return Err(changed(at)),
            other => other,
        }
    } else {
        match open(&at.root.pinned, &at.beneath) {
            Err(error) if is_crossed(&error) => {
                let real = workspace.settle(at)?;
                open(&real.root.pinned, &real.beneath)
            }
            other => other,
        }
    };
    opened.map_err(|error| workspace.explain(at, &error))
}

/// Refuses something else than what was there when the place was looked at, if it was.
pub(crate) fn require_same(
    workspace: &Workspace,
    at: &Resolved,
    now: &impl Identified,
) -> Result<(), ToolError> {
    let Some(seen) = at.seen.as_ref().and_then(|seen| seen.itself) else { return Ok(()) };
    match now.identity() {
        Ok(now) if now == seen => Ok(()),
        Ok(_) => Err(changed(at)),
        Err(error) => Err(workspace.explain(at, &error)),
    }
}

/// Refuses another folder than the one that was opened at a place before.
pub(crate) fn require_folder(
    workspace: &Workspace,
    at: &Resolved,
    before: &Dir,
) -> Result<(), ToolError> {
    let now = workspace.open_dir(at)?;
    match (before.itself(), now.itself()) {
        (Ok(before), Ok(now)) if before == now => Ok(()),
        _ => Err(changed(at)),
    }
}

/// Reads what a link holds, without following it.
pub(crate) fn read_link(at: &Resolved) -> Option<PathBuf> {
    let dir = at.root.pinned.dir(at.beneath.parent()?).ok()?;
    Some(dir.read_link(at.beneath.file_name()?).ok()?.into())
}

/// Opens a directory, or the nearest one above it that exists.
pub(crate) fn nearest_dir(workspace: &Workspace, at: &Resolved) -> Result<Dir, ToolError> {
    let mut at = at.clone();
    loop {
        match (workspace.open_dir(&at), at.parent()) {
            (Err(error), Some(parent)) if error.code() == Some(Code::NotFound) => at = parent,
            (dir, _) => return dir,
        }
    }
}

/// Opens the directory, and makes what is missing on the way to it, on which no link may be.
/// Returns what it made, the outermost first.
pub(crate) fn create_dirs(
    workspace: &Workspace,
    at: &Resolved,
) -> Result<(Dir, Vec<Resolved>), ToolError> {
    let real = workspace.settle(at)?;
    let root = &real.root.pinned;
    let explain = |error: io::Error| match error.kind() {
        io::ErrorKind::CrossesDevices => changed(at),
        _ => workspace.explain(at, &error),
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
                    workspace.durability().of_names(&dir).map_err(explain)?;
                }
                // Another program may have made it meanwhile.
                root.dir_straight(&path.beneath).or_else(|error| result.and(Err(error)))
            }
            other => other,
        };
        next.map_err(explain)
    });
    let dir = dir.and_then(|dir| require_same(workspace, at, &dir).map(|()| dir));
    Ok((dir.inspect_err(|_| remove_dirs(&made))?, made))
}

/// Removes directories again that were made, if nothing is in them.
pub(crate) fn remove_dirs(made: &[Resolved]) {
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

/// Refuses everything but regular files, which alone can be read without surprises.
pub(crate) fn require_file(at: &Resolved, metadata: &Metadata) -> Result<(), ToolError> {
    match Kind::from(metadata.file_type()) {
        Kind::File => Ok(()),
        Kind::Directory => Err(is_a_directory(&at.given)),
        Kind::Link | Kind::Special => Err(not_a_file(&at.given)),
    }
}
