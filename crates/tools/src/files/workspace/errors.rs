//! Converts I/O errors to tool errors, which may suggest similar file names.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use callboard_sandbox::is_placeholder_at;
use callboard_text::{path_text, unquote_path};
use similar::get_close_matches;

use super::Workspace;
use super::workspace_path::WorkspacePath;
use crate::error::{ErrorCode, PathSuggestions, ToolError, ToolFailure};
use crate::files::system::Dir;
use crate::limits::{MAX_NAMES_COMPARED, MAX_SIMILAR_NAMES};

/// Converts an I/O error for a path that could not be resolved in the workspace. `path` is the
/// absolute path.
pub(super) fn explain_path_error(
    workspace: &Workspace,
    given: &str,
    path: &Path,
    error: &io::Error,
) -> ToolError {
    let (code, message) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorCode::NotFound, format!("{given} does not exist")),
        io::ErrorKind::NotADirectory => {
            let is_file = |path: &&Path| path.metadata().is_ok_and(|found| !found.is_dir());
            let message = match path.ancestors().find(is_file) {
                Some(file) if file != path => {
                    let file = workspace.display(file);
                    format!("{given} cannot exist, because {file} is not a directory")
                }
                _ => format!("{given} is not a directory"),
            };
            (ErrorCode::NotADirectory, message)
        }
        io::ErrorKind::IsADirectory => return is_a_directory_error(given),
        io::ErrorKind::CrossesDevices => (
            ErrorCode::OutsideRoots,
            format!("{given} is outside of the project folders: a link leaves it or forms a loop"),
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => (
            ErrorCode::NotPermitted,
            format!("the file system does not permit it: {given}: {error}"),
        ),
        io::ErrorKind::FileTooLarge => (
            ErrorCode::Io,
            format!("{given} would be larger than this process may write (ulimit -f): {error}"),
        ),
        _ => (ErrorCode::Io, format!("{given}: {error}")),
    };
    ToolError::recoverable(code, message)
}

/// Creates the error for a path outside of the project folders.
pub(super) fn outside_roots_error(workspace: &Workspace, given: &str) -> ToolError {
    let mut roots = String::new();
    for root in workspace.roots() {
        // Writing to a String cannot fail.
        let _ = write!(roots, " {}", path_text(root));
    }
    let message =
        format!("{given} is outside of the project folders. Use a path inside of:{roots}");
    ToolError::recoverable(ErrorCode::OutsideRoots, message)
}

pub(super) fn not_found_failure(at: &WorkspacePath) -> ToolFailure {
    let given = &at.given;
    let report =
        |message| ToolFailure { code: ErrorCode::NotFound, message, suggestions: Vec::new() };
    let Some((parent, name)) = at.path_in_root.parent().zip(at.path_in_root.file_name()) else {
        return report(format!("{given} does not exist"));
    };
    let Ok(dir) = at.root.pinned.open_dir(parent) else {
        return report(format!(
            "{given} does not exist, nor does its directory. Find the right path with \
             find_path or list_directory"
        ));
    };
    let similar = similar_names(&dir, &name.to_string_lossy());
    if similar.is_empty() {
        return report(format!("{given} does not exist, and no file there has a similar name"));
    }
    let path = unquote_path(given);
    let named = |name: &OsString| {
        let shown = path_text(&path.with_file_name(name)).into_owned();
        (at.path.with_file_name(name), shown)
    };
    let files = similar.iter().map(named).collect();
    let suggested = vec![PathSuggestions { label: "Similar", files }];
    ToolFailure { suggestions: suggested, ..report(format!("{given} does not exist")) }
}

/// Creates the error for a project folder that was removed during the session.
pub(super) fn root_removed_error(root: &Path) -> ToolError {
    let message = format!(
        "the folder {} is gone: it was deleted after the session began, and a new folder with the \
         same name is not used. Ask the user to begin a new session in an existing folder",
        path_text(root)
    );
    ToolError::recoverable(ErrorCode::NotFound, message)
}

/// Creates the error for a path whose target has changed since the preview.
pub(super) fn target_changed_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} has changed since the preview: it is another file now, or a link to another place. \
         Nothing was changed. Check it again",
        at.given
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

pub(super) fn is_a_directory_error(given: &str) -> ToolError {
    let message = format!("{given} is a directory. List its files with list_directory");
    ToolError::recoverable(ErrorCode::IsADirectory, message)
}

pub(super) fn not_a_file_error(given: &str, path: &Path) -> ToolError {
    let message = if is_placeholder_at(path) {
        format!(
            "{given} does not exist, but a command is running whose sandbox protects this name. It \
             can be created when the command has ended"
        )
    } else {
        format!("{given} is a FIFO, socket or device, not a regular file")
    };
    ToolError::recoverable(ErrorCode::NotARegularFile, message)
}

/// Returns the names in a directory that are similar to `wanted`. Ignores upper and lower case.
fn similar_names(dir: &Dir, wanted: &str) -> Vec<OsString> {
    let Ok((entries, _)) = dir.entries(MAX_NAMES_COMPARED) else { return Vec::new() };
    let lower: Vec<_> =
        entries.iter().map(|entry| entry.name.to_string_lossy().to_lowercase()).collect();
    let compared: Vec<_> = lower.iter().map(String::as_str).collect();
    get_close_matches(
        wanted.to_lowercase().as_str(),
        &compared,
        MAX_SIMILAR_NAMES,
        MIN_NAME_SIMILARITY,
    )
    .into_iter()
    .filter_map(|close| {
        let at = lower.iter().position(|name| name == close)?;
        Some(entries[at].name.clone())
    })
    .collect()
}

/// Minimum similarity of a suggested name, from 0 to 1.
const MIN_NAME_SIMILARITY: f32 = 0.6;
