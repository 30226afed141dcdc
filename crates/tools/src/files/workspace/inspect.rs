//! Resolves and inspects a path before permission for a call is requested. The inspection records
//! where the links of the path lead, and which file is there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_text::{head, normalise, unquote_path};

use super::Workspace;
use super::errors::{explain_path_error, not_a_file_error, outside_roots_error};
use super::workspace_path::{InspectedPath, WorkspacePath, WorkspaceRoot, canonicalize_existing};
use crate::error::{ErrorCode, ToolError};
use crate::files::system::{FileKind, path_metadata_following_links};
use crate::limits::MAX_PATH_BYTES;

/// Makes a path from the model absolute, and normalises it. Does not access the disk.
pub(super) fn absolute_path(cwd: &Path, given: &str) -> Result<PathBuf, ToolError> {
    if given.is_empty() {
        return Err(ToolError::invalid_arguments(
            "the path is empty; `.` is the working directory",
        ));
    }
    if given.contains('\0') {
        return Err(ToolError::invalid_arguments("the path contains a NUL character"));
    }
    let path = unquote_path(given);
    if path.as_os_str().len() > MAX_PATH_BYTES {
        let start = head(given, 80);
        let message = format!("the path {start}… is longer than {MAX_PATH_BYTES} bytes");
        return Err(ToolError::invalid_arguments(message));
    }
    Ok(normalise(&cwd.join(path)))
}

/// Follows the links of a path, and records the id of the file that they lead to.
pub(super) fn follow_links_and_record_file(
    workspace: &Workspace,
    given: &str,
    named: PathBuf,
) -> Result<WorkspacePath, ToolError> {
    let explain = |error: io::Error| explain_path_error(workspace, given, &named, &error);
    let placed = workspace.locate_in_roots(given, &named);
    let whole =
        placed.as_ref().map_or_else(|| named.clone(), |at| workspace.path_beneath_real_root(at));
    let real = canonicalize_existing(&whole).map_err(explain)?;
    if let Some(there) = workspace.locate_in_roots(given, &real) {
        if placed.is_none()
            && path_metadata_following_links(&whole)
                .is_err_and(|error| is_proc_link_refusal(&error))
        {
            // Reject links to files that a process has open, even if the link currently leads to a
            // file inside the project folders.
            return Err(outside_roots_error(workspace, given));
        }
        let seen = record_file_ids(workspace, &there, named)?;
        // Keep the path that the model named if it is also inside the project folders.
        let at = placed.unwrap_or(there);
        return Ok(WorkspacePath { inspected: Some(seen), ..at });
    }
    let at = pin_directory_outside_roots(workspace, given, &whole, &real)?;
    let seen = record_file_ids(workspace, &at, named)?;
    Ok(WorkspacePath { inspected: Some(seen), ..at })
}

/// Pins the directory outside of the project folders that a call may access. If the call accesses a
/// file there, pins the directory that contains the file.
fn pin_directory_outside_roots(
    workspace: &Workspace,
    given: &str,
    whole: &Path,
    real: &Path,
) -> Result<WorkspacePath, ToolError> {
    let kind = match path_metadata_following_links(whole) {
        Ok(metadata) => Some(FileKind::from(metadata.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if is_proc_link_refusal(&error) => {
            return Err(outside_roots_error(workspace, given));
        }
        Err(error) => return Err(explain_path_error(workspace, given, whole, &error)),
    };
    if matches!(kind, Some(FileKind::Link | FileKind::Special)) {
        return Err(not_a_file_error(given, whole));
    }
    let base = match kind {
        Some(FileKind::Directory) => Some(real),
        _ => real.ancestors().skip(1).find(|above| above.is_dir()),
    };
    let base = base.ok_or_else(|| outside_roots_error(workspace, given))?;
    let root = WorkspaceRoot::pin_at_real_path(base)
        .map_err(|error| explain_path_error(workspace, given, base, &error))?;
    if root.pinned.is_procfs() {
        return Err(outside_roots_error(workspace, given));
    }
    let beneath = real.strip_prefix(base).unwrap_or(Path::new(""));
    Ok(WorkspacePath::new_in_root(given, Arc::new(root), beneath))
}

/// Records the id of the file at a real path, and the id of the directory that contains it.
pub(super) fn record_file_ids(
    workspace: &Workspace,
    real: &WorkspacePath,
    named: PathBuf,
) -> Result<InspectedPath, ToolError> {
    let seen = InspectedPath {
        named_path: named,
        real_path: real.path.clone(),
        parent_id: None,
        file_id: None,
    };
    let explain = |error: io::Error| workspace.explain_io_error(real, &error);
    let pinned = &real.root.pinned;
    let Some((parent, name)) = real.path_in_root.parent().zip(real.path_in_root.file_name()) else {
        let itself = pinned.open_dir_without_links(Path::new("")).and_then(|dir| dir.own_id());
        return Ok(InspectedPath { file_id: Some(itself.map_err(explain)?), ..seen });
    };
    let dir = match pinned.open_dir_without_links(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(seen),
        other => other.map_err(explain)?,
    };
    let itself = match dir.entry_kind(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Ok(FileKind::Link) => {
            let given = &real.given;
            let message = format!("{given} is a link to a file that does not exist");
            return Err(ToolError::recoverable(ErrorCode::NotFound, message));
        }
        Ok(FileKind::Special) => return Err(not_a_file_error(&real.given, real.path())),
        other => {
            other.map_err(explain)?;
            Some(dir.entry_id(name).map_err(explain)?)
        }
    };
    Ok(InspectedPath { parent_id: Some(dir.own_id().map_err(explain)?), file_id: itself, ..seen })
}

/// Returns whether a path was rejected because of a link in `/proc`.
fn is_proc_link_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::CrossesDevices
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
