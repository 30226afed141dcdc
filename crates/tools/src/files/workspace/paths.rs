//! From a path to a place: made absolute by its text, then looked at before anything is permitted:
//! where the links lead, and what is there.
//!
//! It reads nothing of what a file holds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_text::{head, normalise, parse_path};

use super::Workspace;
use super::failure::{explain_given, not_a_file, outside_roots};
use super::place::{Resolved, Root, Seen, spelt_out};
use crate::error::{Code, ToolError};
use crate::files::system::{Kind, look};
use crate::limits::PATH_BYTES;

/// Makes a path that the model gave absolute and normalises it, by its text alone.
pub(super) fn absolute(cwd: &Path, given: &str) -> Result<PathBuf, ToolError> {
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
    Ok(normalise(&cwd.join(path)))
}

/// Finds out where a path leads, and what is there.
pub(super) fn look_at(
    workspace: &Workspace,
    given: &str,
    named: PathBuf,
) -> Result<Resolved, ToolError> {
    let explain = |error: io::Error| explain_given(given, &error);
    let placed = workspace.place(given, &named);
    let whole = placed.as_ref().map_or_else(|| named.clone(), |at| workspace.real(at));
    let real = spelt_out(&whole).map_err(explain)?;
    if let Some(there) = workspace.place(given, &real) {
        if placed.is_none() && look(&whole).is_err_and(|error| crosses(&error)) {
            // By a link of a process, even if it leads inside at the moment.
            return Err(outside_roots(workspace, given));
        }
        let seen = seen(workspace, &there, named)?;
        // In the words of the model, if that is inside as well.
        let at = placed.unwrap_or(there);
        return Ok(Resolved { seen: Some(seen), ..at });
    }
    let at = look_outside(workspace, given, &whole, &real)?;
    let seen = seen(workspace, &at, named)?;
    Ok(Resolved { seen: Some(seen), ..at })
}

/// Pins what a call may reach outside of the roots: a directory, or the one that a file is in.
fn look_outside(
    workspace: &Workspace,
    given: &str,
    whole: &Path,
    real: &Path,
) -> Result<Resolved, ToolError> {
    let kind = match look(whole) {
        Ok(metadata) => Some(Kind::from(metadata.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if crosses(&error) => return Err(outside_roots(workspace, given)),
        Err(error) => return Err(explain_given(given, &error)),
    };
    if matches!(kind, Some(Kind::Link | Kind::Special)) {
        return Err(not_a_file(given));
    }
    let base = match kind {
        Some(Kind::Directory) => Some(real),
        _ => real.ancestors().skip(1).find(|above| above.is_dir()),
    };
    let base = base.ok_or_else(|| outside_roots(workspace, given))?;
    let root = Root::pin_real(base).map_err(|error| explain_given(given, &error))?;
    if root.pinned.is_of_processes() {
        return Err(outside_roots(workspace, given));
    }
    let beneath = real.strip_prefix(base).unwrap_or(Path::new(""));
    Ok(Resolved::beneath_root(given, Arc::new(root), beneath))
}

/// Notes what is at a real place.
pub(super) fn seen(
    workspace: &Workspace,
    real: &Resolved,
    named: PathBuf,
) -> Result<Seen, ToolError> {
    let seen = Seen { named, real: real.path.clone(), parent: None, itself: None };
    let explain = |error: io::Error| workspace.explain(real, &error);
    let pinned = &real.root.pinned;
    let Some((parent, name)) = real.beneath.parent().zip(real.beneath.file_name()) else {
        let itself = pinned.dir_straight(Path::new("")).and_then(|dir| dir.itself());
        return Ok(Seen { itself: Some(itself.map_err(explain)?), ..seen });
    };
    let dir = match pinned.dir_straight(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(seen),
        other => other.map_err(explain)?,
    };
    let itself = match dir.kind(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Ok(Kind::Link) => {
            let given = &real.given;
            let message = format!("{given} is a link to a file that does not exist");
            return Err(ToolError::report(Code::NotFound, message));
        }
        Ok(Kind::Special) => return Err(not_a_file(&real.given)),
        other => {
            other.map_err(explain)?;
            Some(dir.identity(name).map_err(explain)?)
        }
    };
    Ok(Seen { parent: Some(dir.itself().map_err(explain)?), itself, ..seen })
}

/// Whether a way was refused because it leads through a link of `/proc`.
fn crosses(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::CrossesDevices
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
