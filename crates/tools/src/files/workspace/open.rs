//! Opens paths inside their project folders, finds directory entries, and creates missing
//! directories.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::Workspace;
use super::errors::{is_a_directory_error, not_a_file_error, target_changed_error};
use super::inspect::record_file_ids;
use super::workspace_path::WorkspacePath;
use crate::error::{ErrorCode, ToolError};
use crate::files::system::{Dir, FileKind, HasFileId, PinnedDirectory as Pinned};

/// The path of a directory entry of any kind.
#[derive(Debug, Clone)]
pub(crate) struct EntryPath {
    /// The directory that contains the entry, after its inspection.
    pub(crate) parent: WorkspacePath,
    pub(crate) name: OsString,
    /// The path of the entry. Only its last component may be a link.
    pub(crate) path: WorkspacePath,
}

impl EntryPath {
    /// Finds the directory that contains an entry after all links to the directory are followed. If
    /// the entry itself is a link, it is not followed.
    ///
    /// # Errors
    ///
    /// The errors of [`Workspace::canonicalize`]; `invalid_arguments` for a project folder, or for
    /// a directory that contains a project folder.
    pub(crate) fn resolve_without_following(
        workspace: &Workspace,
        at: &WorkspacePath,
    ) -> Result<Self, ToolError> {
        let (Some(parent), Some(name)) = (at.parent(), at.path_in_root.file_name()) else {
            return Err(ToolError::invalid_arguments(format!("{} is a project folder", at.given)));
        };
        let real = workspace.canonicalize(&parent)?;
        let there = real.child(name);
        let seen = Some(record_file_ids(workspace, &real, parent.path.clone())?);
        let parent = WorkspacePath { inspected: seen, ..parent };
        let path = workspace.path_beneath_real_root(&there);
        let mut roots = workspace.roots.iter().map(|root| &root.real_path);
        if let Some(root) = roots.find(|root| root.starts_with(&path)) {
            let relation = if *root == path { "is" } else { "contains" };
            let message = format!("{} {relation} a project folder", at.given);
            return Err(ToolError::invalid_arguments(message));
        }
        Ok(Self { parent, name: name.to_owned(), path: there })
    }
}

/// Opens a path inside its project folder.
///
/// If a link leads out of this project folder, the path is resolved again, because the link may
/// lead to another project folder. Opening the resolved path is confined in the same way. An
/// inspected path is opened at its recorded target, and no links are followed.
pub(super) fn open_confined<T>(
    workspace: &Workspace,
    at: &WorkspacePath,
    open: fn(&Pinned, &Path) -> io::Result<T>,
    straight: fn(&Pinned, &Path) -> io::Result<T>,
) -> Result<T, ToolError> {
    let is_crossed = |error: &io::Error| error.kind() == io::ErrorKind::CrossesDevices;
    let opened = if at.inspected.is_some() {
        let real = workspace.canonicalize(at)?;
        match straight(&real.root.pinned, &real.path_in_root) {
            Err(error) if is_crossed(&error) => return Err(target_changed_error(at)),
            other => other,
        }
    } else {
        match open(&at.root.pinned, &at.path_in_root) {
            Err(error) if is_crossed(&error) => {
                let real = workspace.canonicalize(at)?;
                open(&real.root.pinned, &real.path_in_root)
            }
            other => other,
        }
    };
    opened.map_err(|error| workspace.explain_io_error(at, &error))
}

/// Rejects a file whose id differs from the recorded id. Accepts any file if the path was not
/// inspected.
pub(crate) fn require_inspected_file_id(
    workspace: &Workspace,
    at: &WorkspacePath,
    now: &impl HasFileId,
) -> Result<(), ToolError> {
    let Some(seen) = at.inspected.as_ref().and_then(|seen| seen.file_id) else { return Ok(()) };
    match now.file_id() {
        Ok(now) if now == seen => Ok(()),
        Ok(_) => Err(target_changed_error(at)),
        Err(error) => Err(workspace.explain_io_error(at, &error)),
    }
}

/// Rejects a directory if the path now leads to another directory than when `before` was opened.
pub(crate) fn require_same_directory(
    workspace: &Workspace,
    at: &WorkspacePath,
    before: &Dir,
) -> Result<(), ToolError> {
    let now = workspace.open_dir(at)?;
    match (before.own_id(), now.own_id()) {
        (Ok(before), Ok(now)) if before == now => Ok(()),
        _ => Err(target_changed_error(at)),
    }
}

/// Returns the path that a link contains. Does not access the target of the link.
pub(crate) fn read_link(at: &WorkspacePath) -> Option<PathBuf> {
    let dir = at.root.pinned.open_dir(at.path_in_root.parent()?).ok()?;
    Some(dir.read_link(at.path_in_root.file_name()?).ok()?.into())
}

/// Opens a directory. If the directory does not exist, opens the nearest parent directory that
/// exists.
pub(crate) fn nearest_dir(workspace: &Workspace, at: &WorkspacePath) -> Result<Dir, ToolError> {
    let mut at = at.clone();
    loop {
        match (workspace.open_dir(&at), at.parent()) {
            (Err(error), Some(parent)) if error.code() == Some(ErrorCode::NotFound) => at = parent,
            (dir, _) => return dir,
        }
    }
}

/// Opens a directory, and creates missing directories on its path. The path must not contain links.
/// Returns the created directories, beginning with the outermost.
pub(crate) fn create_dirs(
    workspace: &Workspace,
    at: &WorkspacePath,
) -> Result<(Dir, Vec<WorkspacePath>), ToolError> {
    let real = workspace.canonicalize(at)?;
    let root = &real.root.pinned;
    let explain = |error: io::Error| match error.kind() {
        io::ErrorKind::CrossesDevices => target_changed_error(at),
        _ => workspace.explain_io_error(at, &error),
    };
    let mut path = WorkspacePath::new_in_root(&at.given, real.root.clone(), Path::new(""));
    let (first, mut made) = (root.open_dir_without_links(Path::new("")), Vec::new());
    let dir = real.path_in_root.iter().try_fold(first.map_err(explain)?, |dir, name| {
        path = path.child(name);
        let next = match root.open_dir_without_links(&path.path_in_root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let result = dir.create_dir(name);
                if result.is_ok() {
                    made.push(path.clone());
                    workspace.durability().sync_directory(&dir).map_err(explain)?;
                }
                // Another program may have created the directory in the meantime.
                root.open_dir_without_links(&path.path_in_root)
                    .or_else(|error| result.and(Err(error)))
            }
            other => other,
        };
        next.map_err(explain)
    });
    let dir = dir.and_then(|dir| require_inspected_file_id(workspace, at, &dir).map(|()| dir));
    Ok((dir.inspect_err(|_| remove_empty_dirs(&made))?, made))
}

/// Removes those of the created directories that are empty.
pub(crate) fn remove_empty_dirs(made: &[WorkspacePath]) {
    made.iter().rev().for_each(|at| drop(remove_empty_dir(at)));
}

/// Removes a directory if it is empty.
pub(crate) fn remove_empty_dir(at: &WorkspacePath) -> io::Result<()> {
    let (dir, name) = open_parent_without_links(at)?;
    dir.remove_dir(name)
}

/// Creates a directory with this mode.
pub(crate) fn create_dir_with_mode(at: &WorkspacePath, mode: Option<u32>) -> io::Result<()> {
    let (dir, name) = open_parent_without_links(at)?;
    dir.create_dir(name)?;
    mode.map_or(Ok(()), |mode| dir.set_entry_mode(name, mode))
}

/// Opens the directory of a path. Returns the directory and the name of the entry in it.
pub(crate) fn open_parent_without_links(at: &WorkspacePath) -> io::Result<(Dir, &OsStr)> {
    let parent = at.path_in_root.parent().zip(at.path_in_root.file_name());
    let (parent, name) = parent.ok_or(io::ErrorKind::IsADirectory)?;
    Ok((at.root.pinned.open_dir_without_links(parent)?, name))
}

/// Rejects all entries except regular files, because reading another kind of entry could block or
/// have side effects.
pub(crate) fn require_regular_file(
    at: &WorkspacePath,
    metadata: &Metadata,
) -> Result<(), ToolError> {
    match FileKind::from(metadata.file_type()) {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(is_a_directory_error(&at.given)),
        FileKind::Link | FileKind::Special => Err(not_a_file_error(&at.given, at.path())),
    }
}
