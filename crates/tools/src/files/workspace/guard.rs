//! What of a place there is to know before anybody permits something: whether it is guarded, where
//! it leads, whether it has further names.
//!
//! It knows nothing of rules.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_lifecycle::{Effect, Effects, is_protected, is_protected_beneath};

use super::Workspace;
use super::git;
use super::workspace_path::{WorkspacePath, WorkspaceRoot, canonicalize_existing};
use crate::files::system::link_count;

/// Whether a change of a file is always asked about. It looks at the real place.
///
/// What is kept, and the rules and keys that lie beside it, are as protected as any name.
pub(crate) fn is_guarded(workspace: &Workspace, real: &WorkspacePath) -> bool {
    let path = workspace.real_path(real);
    if workspace.is_outside(real) {
        return is_guarded_outside(workspace, &path);
    }
    let is_of = |root: &Arc<WorkspaceRoot>| {
        is_protected_beneath(&root.real_path, &path)
            || path.strip_prefix(&root.real_path).is_ok_and(|beneath| {
                git::is_in_repository(&root.real_path, beneath)
                    || git::is_named_in_config(&root.real_path, beneath)
            })
    };
    workspace.roots.iter().any(is_of) || is_own_state(workspace, &path)
}

/// Whether a change of a file is more than one of text: the file is run, or will be as soon as it
/// may be.
pub(crate) fn is_executable_change(
    workspace: &Workspace,
    real: &WorkspacePath,
    new: &[u8],
) -> bool {
    new.starts_with(b"#!")
        || workspace.open_read(real).is_ok_and(|file| crate::files::system::is_executable(&file))
}

/// Where no root says what is meant to be worked on, the whole path counts.
fn is_guarded_outside(workspace: &Workspace, path: &Path) -> bool {
    is_protected(path) || is_own_state(workspace, path)
}

/// Whether a path lies where rules, keys and what is kept for undo are stored.
pub(crate) fn is_own_state(workspace: &Workspace, path: &Path) -> bool {
    let is_in = |folder: &PathBuf| {
        let real = canonicalize_existing(folder);
        path.starts_with(folder) || real.is_ok_and(|real| path.starts_with(real))
    };
    workspace.guarded_paths.iter().any(is_in)
}

/// Marks what of a call's effects lies outside of the roots, by their real paths: that is asked
/// about, and each time if a change of it would be.
pub(crate) fn mark_outside_effects(workspace: &Workspace, effects: Effects) -> Effects {
    let effects = effects.with_outside_paths(|path| workspace.locate("", path).is_none());
    let is_guarded = effects.outside_paths().any(|path| is_guarded_outside(workspace, path));
    if is_guarded { effects.always_ask() } else { effects }
}

/// Returns what looking at a place does: an effect on the path that was named, if that is in the
/// roots, and, where links lead elsewhere, on the real one, which rules may speak of.
pub(crate) fn path_effects(
    workspace: &Workspace,
    at: &WorkspacePath,
    effect: fn(PathBuf) -> Effect,
) -> Effects {
    let named = at.inspected.as_ref().map_or(&at.path, |seen| &seen.named_path);
    let named = workspace.locate("", named).map(|placed| placed.path);
    let real = workspace.canonicalize(at).ok().map(|real| real.path);
    let real = real.filter(|real| named.as_ref() != Some(real));
    named.into_iter().chain(real).map(effect).collect()
}

/// Whether a file has further names, which a change of it changes too, wherever they are.
pub(crate) fn has_other_hard_links(workspace: &Workspace, real: &WorkspacePath) -> bool {
    let metadata = workspace
        .open_read(real)
        .and_then(|file| file.metadata().map_err(|error| workspace.explain_io_error(real, &error)));
    metadata.is_ok_and(|metadata| metadata.is_file() && link_count(&metadata) > 1)
}
