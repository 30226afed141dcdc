//! The names of files that make other programs do something: hooks, settings of editors and agents,
//! what a shell runs.

use std::path::Path;

/// Returns whether a path leads to, or through, something that makes other programs run something
/// or trust something, so that changing it is more than an edit. Whether it exists does not matter,
/// and neither does case. Give it the path beneath a root: where the root lies is not in question.
#[must_use]
pub fn is_protected(path: &Path) -> bool {
    let mut above = String::new();
    path.iter().any(|name| {
        let name = name.to_string_lossy().to_lowercase();
        let is_one = is_protected_in(&above, &name);
        above = name;
        is_one
    })
}

fn is_protected_in(folder: &str, name: &str) -> bool {
    NAMES.contains(&name)
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || name.ends_with(".code-workspace")
        || (folder == ".github" && name == "workflows")
        || (folder == ".cargo" && name.starts_with("config"))
}

const NAMES: &[&str] = &[
    // What git runs, and where it looks for what it runs.
    ".git",
    ".gitattributes",
    ".gitconfig",
    ".gitmodules",
    ".husky",
    ".pre-commit-config.yaml",
    // Editors and agents.
    ".agents",
    ".claude",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".gemini",
    ".idea",
    ".kimi",
    ".mcp.json",
    ".vscode",
    ".zed",
    // Tools and shells.
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".envrc",
    ".inputrc",
    ".npmrc",
    ".profile",
    ".ripgreprc",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

const BEGINNINGS: &[&str] = &[".pnpmfile.", ".yarnrc", "rust-toolchain"];

#[cfg(test)]
mod tests {
    use super::is_protected;
    use std::path::Path;

    #[test]
    fn what_makes_other_programs_run_something_is_protected_at_any_depth_and_in_any_case() {
        for path in [
            ".git",
            ".git/hooks/pre-commit",
            "vendor/lib/.GIT/config",
            ".gitmodules",
            ".vscode/tasks.json",
            "x.code-workspace",
            "a/.envrc",
            ".yarnrc.yml",
            "rust-toolchain.toml",
            ".github/workflows/ci.yml",
            ".Cargo/config.toml",
        ] {
            assert!(is_protected(Path::new(path)), "{path}");
        }
        for path in [
            "",
            "src/main.rs",
            ".gitignore",
            "git/config",
            ".github/dependabot.yml",
            "workflows/ci.yml",
            "config.toml",
            ".cargo/audit.toml",
        ] {
            assert!(!is_protected(Path::new(path)), "{path}");
        }
    }
}
