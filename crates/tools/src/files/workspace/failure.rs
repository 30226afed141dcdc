//! What the system's answers mean for the model, with names that are like a missing one.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use callboard_text::{parse_path, path_text};
use similar::get_close_matches;

use super::Workspace;
use super::place::Resolved;
use crate::error::{Code, Report, Suggested, ToolError};
use crate::files::system::Dir;
use crate::limits::{NAMES_COMPARED, SIMILAR_NAMES};

/// Says what the system's answer means for the model, of a path that has no place.
pub(super) fn explain_given(given: &str, error: &io::Error) -> ToolError {
    let (code, message) = match error.kind() {
        io::ErrorKind::NotFound => (Code::NotFound, format!("{given} does not exist")),
        io::ErrorKind::NotADirectory => (
            Code::NotADirectory,
            format!("{given} does not lead through directories only, or is no directory"),
        ),
        io::ErrorKind::IsADirectory => return is_a_directory(given),
        io::ErrorKind::CrossesDevices => (
            Code::OutsideRoots,
            format!("{given} is outside of the workspace: a link leads out, or in a circle"),
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (Code::NotPermitted, format!("the file system does not permit it: {given}: {error}"))
        }
        io::ErrorKind::FileTooLarge => (
            Code::Io,
            format!("{given} would be larger than this process may write (ulimit -f): {error}"),
        ),
        _ => (Code::Io, format!("{given}: {error}")),
    };
    ToolError::report(code, message)
}

/// Says that a path is refused because of where it lies.
pub(super) fn outside_roots(workspace: &Workspace, given: &str) -> ToolError {
    let mut roots = String::new();
    for root in workspace.roots() {
        // Writing to a String cannot fail.
        let _ = write!(roots, " {}", path_text(root));
    }
    let message = format!("{given} is outside of the workspace. Use a path inside of:{roots}");
    ToolError::report(Code::OutsideRoots, message)
}

pub(super) fn missing(at: &Resolved) -> Report {
    let given = &at.given;
    let report = |message| Report { code: Code::NotFound, message, suggested: Vec::new() };
    let Some((parent, name)) = at.beneath.parent().zip(at.beneath.file_name()) else {
        return report(format!("{given} does not exist"));
    };
    let Ok(dir) = at.root.pinned.dir(parent) else {
        return report(format!(
            "{given} does not exist, nor does its directory. Look for the right path with \
             find_path or list_directory"
        ));
    };
    let similar = similar_names(&dir, &name.to_string_lossy());
    if similar.is_empty() {
        return report(format!("{given} does not exist, and nothing beside it has a similar name"));
    }
    let path = parse_path(given);
    let named = |name: &OsString| {
        let shown = path_text(&path.with_file_name(name)).into_owned();
        (at.path.with_file_name(name), shown)
    };
    let files = similar.iter().map(named).collect();
    let suggested = vec![Suggested { why: "Similar", files }];
    Report { suggested, ..report(format!("{given} does not exist")) }
}

/// Says that a root was removed while the session is open.
pub(super) fn gone(root: &Path) -> ToolError {
    let message = format!(
        "the folder {} is gone: it was deleted after the session began, and a folder made again \
         under its name is another one. Ask the user to begin a new session in a folder that exists",
        path_text(root)
    );
    ToolError::report(Code::NotFound, message)
}

/// Says that a place is another one than when it was looked at.
pub(super) fn changed(at: &Resolved) -> ToolError {
    let message = format!(
        "{} has changed since it was shown: it leads to another place now, or is another file. \
         Nothing was done. Look at it again",
        at.given
    );
    ToolError::report(Code::ChangedSincePreview, message)
}

pub(super) fn is_a_directory(given: &str) -> ToolError {
    let message = format!("{given} is a directory. See its files with list_directory");
    ToolError::report(Code::IsADirectory, message)
}

pub(super) fn not_a_file(given: &str) -> ToolError {
    let message = format!("{given} is a FIFO, socket or device, not a regular file");
    ToolError::report(Code::NotARegularFile, message)
}

/// Returns the names that differ from `wanted` by little, or only in case.
fn similar_names(dir: &Dir, wanted: &str) -> Vec<OsString> {
    let Ok((entries, _)) = dir.entries(NAMES_COMPARED) else { return Vec::new() };
    let lower: Vec<_> =
        entries.iter().map(|entry| entry.name.to_string_lossy().to_lowercase()).collect();
    let compared: Vec<_> = lower.iter().map(String::as_str).collect();
    get_close_matches(wanted.to_lowercase().as_str(), &compared, SIMILAR_NAMES, LIKE_ENOUGH)
        .into_iter()
        .filter_map(|close| {
            let at = lower.iter().position(|name| name == close)?;
            Some(entries[at].name.clone())
        })
        .collect()
}

/// Names less alike than this are no help.
const LIKE_ENOUGH: f32 = 0.6;
