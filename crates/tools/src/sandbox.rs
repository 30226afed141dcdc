//! The sandbox of a project's commands: which files a command may change and read.

mod caches;
mod command_lease;
mod connections;
pub(crate) mod denied_reads;
mod home_folder;
#[cfg(unix)]
mod made_names;
#[cfg(not(unix))]
#[path = "sandbox/made_names_portable.rs"]
mod made_names;
mod preview;
mod private_folder;
mod protected_copies;
mod protected_names;
mod proxied_network;
mod proxy;
mod server_lease;
mod session_sandbox;

use std::io;
use std::path::{Path, PathBuf};

use acp_lifecycle::Rules;
use callboard_sandbox::{MissingName, ReadOnlyPath, SandboxPolicy};

use self::caches::cache_variable_names;
use self::denied_reads::{denied_read_patterns, find_denied_paths};
use self::proxied_network::proxy_variable_names;
use crate::files::workspace::Workspace;
use crate::files::workspace::git::{self, NamedPath};

pub(crate) use command_lease::{SandboxFindings, SandboxLease};
pub(crate) use preview::{CommandChanges, PreviewLease, PreviewObstacle};
pub use server_lease::ServerSandboxLease;
pub use session_sandbox::{CommandIsolation, SessionSandbox};
pub(crate) use session_sandbox::{find_refusal, shows_missing_network, shows_refused_rename};

/// Returns the names of the variables that a sandbox may add to the environment of a command.
pub(crate) fn sandbox_variable_names() -> impl Iterator<Item = &'static str> {
    cache_variable_names().chain(proxy_variable_names()).chain([TMP_VARIABLE])
}

/// The variable with the path of the folder for temporary files.
const TMP_VARIABLE: &str = "TMPDIR";

/// When commands run on copies of the project folders first, so that the user sees their changes
/// before they are made. This needs a sandbox with namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreviewSetting {
    /// Never.
    Never,
    /// If the user selects it in the permission request.
    #[default]
    Offer,
    /// Before every command that runs in the sandbox and not in the background.
    Always,
}

/// Returns the sandbox policy for commands in a workspace.
///
/// - The project folders are writable, except names that other programs execute or trust, e.g.
///   `AGENTS.md`, `.vscode` and `.git/hooks`. The names are protected even if no such file exists.
/// - Keys, tokens and browser profiles in the home folder are masked, and so are the folders of the
///   agent itself ([`Workspace::with_state_folder`], [`Workspace::with_guarded_path`]). The outputs
///   of the session remain readable.
/// - Without namespaces, the whole home folder is hidden, except for toolchains and their caches,
///   which remain readable.
///
/// The function reads the git configuration of the project folders, so it may block.
#[must_use]
pub fn sandbox_policy(workspace: &Workspace, home: Option<&Path>) -> SandboxPolicy {
    let roots: Vec<PathBuf> = workspace.real_roots().map(Path::to_owned).collect();
    let mut policy = SandboxPolicy::from_writable_folders(roots.clone());
    for root in &roots {
        policy.read_only.extend(protected_names::protected_names_for_root(root));
        policy.read_only.extend(protected_git_names(root));
    }
    if let Some(home) = home {
        policy.masked.extend(home_folder::secret_paths(home));
        policy.readable.extend(home_folder::toolchain_paths(home));
        policy.home = Some(home.to_owned());
    }
    policy.masked.extend(workspace.guarded_paths().map(Path::to_owned));
    policy.readable.extend(workspace.outputs().session_folder_if_created().map(Path::to_owned));
    policy
}

/// Masks the existing files that rules deny reading.
///
/// # Errors
///
/// Returns an error if the searched folders contain more than 50,000 files and folders. Blocks.
pub fn mask_denied_files(policy: &mut SandboxPolicy, rules: &Rules) -> io::Result<()> {
    let denied = find_denied_paths(&denied_read_patterns(rules), &policy.writable)?;
    policy.masked.extend(denied);
    Ok(())
}

/// Removes the placeholders that killed commands left in the project folders. While a command runs,
/// a placeholder at a protected name prevents the creation of a file with this name. Blocks.
pub fn remove_placeholders(workspace: &Workspace) {
    callboard_sandbox::remove_unused_placeholders(&sandbox_policy(workspace, None));
}

/// Returns the names of files that determine which programs git runs. The files are in the
/// repositories of a project folder. Objects, references, the index and logs remain writable, so
/// that `git commit` works.
fn protected_git_names(root: &Path) -> Vec<ReadOnlyPath> {
    let folders = git::git_dirs_with_submodules(root);
    let in_folder = |folder: &PathBuf| {
        protected_names::IN_GIT_FOLDER
            .iter()
            .map(|(name, missing)| ReadOnlyPath::new(folder.join(name), *missing))
            .collect::<Vec<_>>()
    };
    let named = git::paths_named_in_config(root).into_iter().map(|path| match path {
        NamedPath::Hooks(path) => ReadOnlyPath::new(path, MissingName::Protected),
        NamedPath::Include(path) => ReadOnlyPath::new(path, MissingName::Protected),
        NamedPath::File(path) => ReadOnlyPath::new(path, MissingName::Unprotected),
    });
    // In a worktree or submodule, `.git` is a file with the path of the repository.
    let link = root.join(".git");
    let link = link.is_file().then(|| ReadOnlyPath::new(link, MissingName::Unprotected));
    folders.iter().flat_map(in_folder).chain(named).chain(link).collect()
}

#[cfg(test)]
mod tests;
