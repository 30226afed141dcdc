//! Names of files in a project folder that other programs execute or trust without asking the user.

use std::path::Path;

use callboard_sandbox::MissingName::{self, Protected, Unprotected};
use callboard_sandbox::ReadOnlyPath;

/// Returns the protected names of a project folder.
pub(super) fn protected_names_for_root(root: &Path) -> impl Iterator<Item = ReadOnlyPath> {
    PROTECTED_NAMES.iter().map(|(name, missing)| ReadOnlyPath::new(root.join(name), *missing))
}

/// Files and folders directly in a project folder. The second value states whether the name is
/// protected even if no such file exists.
const PROTECTED_NAMES: &[(&str, MissingName)] = &[
    // Instructions and configuration of agents.
    ("AGENTS.md", Protected),
    ("AGENTS.override.md", Protected),
    ("CLAUDE.md", Protected),
    ("CLAUDE.local.md", Protected),
    ("GEMINI.md", Protected),
    ("opencode.json", Protected),
    (".agents", Protected),
    (".aider.conf.yml", Protected),
    (".callboard", Protected),
    (".claude", Protected),
    (".clinerules", Protected),
    (".codex", Protected),
    (".continue", Protected),
    (".cursor", Protected),
    (".cursorrules", Protected),
    (".gemini", Protected),
    (".github/agents", Protected),
    (".github/copilot-instructions.md", Protected),
    (".github/instructions", Protected),
    (".github/prompts", Protected),
    (".junie", Protected),
    (".kiro", Protected),
    (".mcp.json", Protected),
    (".opencode", Protected),
    (".roo", Protected),
    (".windsurf", Protected),
    (".windsurfrules", Protected),
    // Editors: tasks, launch configurations, and code that runs when a folder is opened.
    (".devcontainer", Protected),
    (".devcontainer.json", Protected),
    (".dir-locals.el", Protected),
    (".exrc", Protected),
    (".fleet", Protected),
    (".idea", Protected),
    (".nvim.lua", Protected),
    (".nvimrc", Protected),
    (".vscode", Protected),
    (".zed", Protected),
    // Programs that run when a shell enters the folder.
    (".envrc", Protected),
    (".mise.toml", Protected),
    ("mise.toml", Protected),
    // Hooks.
    (".githooks", Protected),
    (".husky", Protected),
    (".lefthook", Protected),
    (".pre-commit-config.yaml", Protected),
    ("lefthook.yml", Protected),
    // Continuous integration.
    (".buildkite", Protected),
    (".circleci", Protected),
    (".cirrus.yml", Protected),
    (".drone.yml", Protected),
    (".forgejo/workflows", Protected),
    (".gitea/workflows", Protected),
    (".github/actions", Protected),
    (".github/workflows", Protected),
    (".gitlab-ci.yml", Protected),
    (".travis.yml", Protected),
    (".woodpecker", Protected),
    (".woodpecker.yml", Protected),
    ("Jenkinsfile", Protected),
    ("azure-pipelines.yml", Protected),
    ("bitbucket-pipelines.yml", Protected),
    // The configuration of package managers names programs and registries. A missing
    // `.cargo/config` is not protected, because cargo would read an empty placeholder instead of
    // `config.toml`.
    (".cargo/config", Unprotected),
    (".cargo/config.toml", Protected),
    (".npmrc", Protected),
    (".yarnrc.yml", Protected),
    // Git.
    (".gitmodules", Unprotected),
];

/// Names of files in a repository folder of git that determine which programs git runs.
pub(super) const IN_GIT_FOLDER: &[(&str, MissingName)] = &[
    ("config", Protected),
    ("config.worktree", Protected),
    ("hooks", Protected),
    ("info/attributes", Protected),
    // These names are not protected if the files are missing, because git would search for the
    // repository at another path if an empty file existed.
    ("commondir", Unprotected),
    ("gitdir", Unprotected),
];
