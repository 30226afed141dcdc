//! Names in a project folder whose files other programs execute or trust without a question.

use std::path::Path;

use callboard_sandbox::MissingName::{self, File, Folder, Unprotected};
use callboard_sandbox::ReadOnlyName;

/// Returns the protected names of a project folder.
pub(super) fn in_project_folder(root: &Path) -> impl Iterator<Item = ReadOnlyName> {
    PROTECTED_NAMES.iter().map(|(name, missing)| ReadOnlyName::new(root.join(name), *missing))
}

/// Files and folders directly in a project folder, with the kind of a missing one.
const PROTECTED_NAMES: &[(&str, MissingName)] = &[
    // Instructions and configuration of agents.
    ("AGENTS.md", File),
    ("AGENTS.override.md", File),
    ("CLAUDE.md", File),
    ("CLAUDE.local.md", File),
    ("GEMINI.md", File),
    ("opencode.json", File),
    (".agents", Folder),
    (".aider.conf.yml", File),
    (".callboard", Folder),
    (".claude", Folder),
    (".clinerules", Folder),
    (".codex", Folder),
    (".continue", Folder),
    (".cursor", Folder),
    (".cursorrules", File),
    (".gemini", Folder),
    (".github/agents", Folder),
    (".github/copilot-instructions.md", File),
    (".github/instructions", Folder),
    (".github/prompts", Folder),
    (".junie", Folder),
    (".kiro", Folder),
    (".mcp.json", File),
    (".opencode", Folder),
    (".roo", Folder),
    (".windsurf", Folder),
    (".windsurfrules", File),
    // Editors: tasks, launch configurations, and code that runs when a folder is opened.
    (".devcontainer", Folder),
    (".devcontainer.json", File),
    (".dir-locals.el", File),
    (".exrc", File),
    (".fleet", Folder),
    (".idea", Folder),
    (".nvim.lua", File),
    (".nvimrc", File),
    (".vscode", Folder),
    (".zed", Folder),
    // Programs that run when a shell enters the folder.
    (".envrc", File),
    (".mise.toml", File),
    ("mise.toml", File),
    // Hooks.
    (".githooks", Folder),
    (".husky", Folder),
    (".lefthook", Folder),
    (".pre-commit-config.yaml", File),
    ("lefthook.yml", File),
    // Continuous integration.
    (".buildkite", Folder),
    (".circleci", Folder),
    (".cirrus.yml", File),
    (".drone.yml", File),
    (".forgejo/workflows", Folder),
    (".gitea/workflows", Folder),
    (".github/actions", Folder),
    (".github/workflows", Folder),
    (".gitlab-ci.yml", File),
    (".travis.yml", File),
    (".woodpecker", Folder),
    (".woodpecker.yml", File),
    ("Jenkinsfile", File),
    ("azure-pipelines.yml", File),
    ("bitbucket-pipelines.yml", File),
    // The configuration of package managers names programs and registries.
    // An empty `config` would take the place of `config.toml`.
    (".cargo/config", Unprotected),
    (".cargo/config.toml", File),
    (".npmrc", File),
    (".yarnrc.yml", File),
    // Git.
    (".gitmodules", Unprotected),
];

/// Names in a folder of git's own that decide which programs git runs.
pub(super) const IN_GIT_FOLDER: &[(&str, MissingName)] = &[
    ("config", File),
    ("config.worktree", File),
    ("hooks", Folder),
    ("info/attributes", File),
    // An empty file would change where git looks for the repository.
    ("commondir", Unprotected),
    ("gitdir", Unprotected),
];
