//! Determines which permission a path needs. The permission depends on the real path, on other hard
//! links to the file, and on whether the path is guarded. A change of a guarded path always
//! requires permission.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_lifecycle::rules::is_agent_instruction_file;
use acp_lifecycle::{Effect, Effects, is_protected, is_protected_in_root};

use super::Workspace;
use super::git;
use super::workspace_path::{WorkspacePath, WorkspaceRoot, canonicalize_existing};
use crate::error::ToolError;
use crate::files::system::link_count;
use crate::note::Note;

/// Returns whether changing a file always requires permission. `real` must be the real path.
///
/// The backups, rules and keys in the state folder are guarded in the same way as protected names.
pub(crate) fn is_guarded(workspace: &Workspace, real: &WorkspacePath) -> bool {
    let path = workspace.path_beneath_real_root(real);
    if workspace.is_outside(real) {
        return is_guarded_outside(workspace, &path);
    }
    let is_protected = |root: &Arc<WorkspaceRoot>| is_protected_in_root(&root.real_path, &path);
    workspace.roots.iter().any(is_protected)
        || is_git_control_file(workspace, &path)
        || is_in_agent_folder(workspace, &path)
}

/// Returns whether a file belongs to a repository in a project folder, or whether the configuration
/// of such a repository names the file.
fn is_git_control_file(workspace: &Workspace, path: &Path) -> bool {
    workspace.roots.iter().any(|root| {
        path.strip_prefix(&root.real_path).is_ok_and(|beneath| {
            git::is_in_bare_repository(&root.real_path, beneath)
                || git::is_named_in_config(&root.real_path, beneath)
        })
    })
}

/// Returns whether a sandboxed command that names this file requires permission. This is the case
/// for files of repositories, for instructions of agents, and for the agent's own files. The
/// sandbox protects only some of these files. If a command changes one of the remaining files, the
/// result of the command does not report the change.
pub(crate) fn is_guarded_in_sandbox(workspace: &Workspace, real: &WorkspacePath) -> bool {
    let path = workspace.path_beneath_real_root(real);
    path.iter().any(|part| part.eq_ignore_ascii_case(".git"))
        || is_git_control_file(workspace, &path)
        || is_agent_instruction_file(&path)
        || is_in_agent_folder(workspace, &path)
}

/// Returns whether a change of a file also changes a program. Such files are executable files, and
/// scripts, because a script can be made executable later.
pub(crate) fn is_executable_change(
    workspace: &Workspace,
    real: &WorkspacePath,
    new: &[u8],
) -> bool {
    new.starts_with(b"#!")
        || workspace.open_read(real).is_ok_and(|file| crate::files::system::is_executable(&file))
}

/// Returns whether a path outside of the project folders is guarded. All components of the path are
/// checked.
fn is_guarded_outside(workspace: &Workspace, path: &Path) -> bool {
    is_protected(path) || is_in_agent_folder(workspace, path)
}

/// Returns whether a path is in a folder that belongs to the agent, e.g. the folder of its rules,
/// keys or backups.
pub(crate) fn is_in_agent_folder(workspace: &Workspace, path: &Path) -> bool {
    agent_folders(workspace).any(|folder| path.starts_with(folder))
}

/// Returns the folders that belong to the agent, with their real paths.
pub(crate) fn agent_folders(workspace: &Workspace) -> impl Iterator<Item = PathBuf> {
    let paths = |folder: &PathBuf| [Some(folder.clone()), canonicalize_existing(folder).ok()];
    workspace.guarded_paths.iter().flat_map(paths).flatten()
}

/// Marks those effects of a call whose real paths are outside of the project folders. Marked
/// effects require permission. If one of these paths is guarded, the call requires permission each
/// time.
pub(crate) fn mark_outside_effects(workspace: &Workspace, effects: Effects) -> Effects {
    let effects =
        effects.with_outside_path_marks(|path| workspace.locate_in_roots("", path).is_none());
    let is_guarded = effects.outside_paths().any(|path| is_guarded_outside(workspace, path));
    if is_guarded { effects.always_ask() } else { effects }
}

/// Returns the effects of accessing a path. The first effect is for the path that the call named,
/// if this path is inside the project folders. The second effect is for the real path, if links
/// lead to a different path. Permission rules may match either path.
pub(crate) fn path_effects(
    workspace: &Workspace,
    at: &WorkspacePath,
    effect: fn(PathBuf) -> Effect,
) -> Effects {
    let named = at.inspected.as_ref().map_or(&at.path, |seen| &seen.named_path);
    let named = workspace.locate_in_roots("", named).map(|placed| placed.path);
    let real = workspace.canonicalize(at).ok().map(|real| real.path);
    let real = real.filter(|real| named.as_ref() != Some(real));
    named.into_iter().chain(real).map(effect).collect()
}

/// Inspects a path that a call names. Also returns the effects of accessing it.
pub(crate) fn inspect_with_effects(
    workspace: &Workspace,
    given: &str,
    effect: fn(PathBuf) -> Effect,
) -> Result<(WorkspacePath, Effects), ToolError> {
    let at = workspace.resolve_and_follow_links(given)?;
    let effects = path_effects(workspace, &at, effect);
    Ok((at, effects))
}

/// Returns the reason why changing a file requires permission each time, as a part of a sentence.
/// `real` must be the real path.
pub(crate) fn ask_reason_for_change(workspace: &Workspace, real: &WorkspacePath) -> Option<Note> {
    let key = if is_guarded(workspace, real) {
        "risk-writes-protected"
    } else if has_other_hard_links(workspace, real) {
        "risk-writes-shared"
    } else {
        return None;
    };
    Some(Note::new(key).with_text("path", workspace.display(real.path())))
}

/// Returns the reason why removing or moving an entry requires permission each time, as a part of a
/// sentence. A directory may contain files that are guarded. Its contents are not inspected, so
/// each directory has a reason.
pub(crate) fn ask_reason_for_removal(
    workspace: &Workspace,
    real: &WorkspacePath,
    is_directory: bool,
) -> Option<Note> {
    let key = match is_guarded(workspace, real) {
        true => "risk-removes-protected",
        false if is_directory => "risk-removes-directory",
        false => return None,
    };
    Some(Note::new(key).with_text("path", workspace.display(real.path())))
}

/// Returns whether a file has other hard links. A change of the file also changes the content of
/// these links, which may be in any directory.
pub(crate) fn has_other_hard_links(workspace: &Workspace, real: &WorkspacePath) -> bool {
    let metadata = workspace
        .open_read(real)
        .and_then(|file| file.metadata().map_err(|error| workspace.explain_io_error(real, &error)));
    metadata.is_ok_and(|metadata| metadata.is_file() && link_count(&metadata) > 1)
}
