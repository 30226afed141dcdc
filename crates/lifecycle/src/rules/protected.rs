//! The names of files that make other programs do something: hooks, settings of editors and agents,
//! what a shell runs.

use std::path::Path;

/// Returns whether a path leads to, or through, something that makes other programs run something
/// or trust something, so that changing it is more than an edit. Whether it exists does not matter,
/// and neither do case and what some file systems pass over in names. Give it the real path beneath
/// a root: where the root lies is not in question.
#[must_use]
pub fn is_protected(path: &Path) -> bool {
    let mut above = String::new();
    path.iter().any(|name| {
        let name = folded(&name.to_string_lossy());
        let is_one = is_protected_in(&above, &name);
        above = name;
        is_one
    })
}

/// Returns a name as the least strict file systems compare it: without case, without characters
/// that are not shown, without dots and spaces at its end.
fn folded(name: &str) -> String {
    let hidden = |letter: char| {
        matches!(letter,
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let shown = name.chars().filter(|letter| !hidden(*letter));
    // Both ways, for letters such as the sign for Kelvin.
    let folded: String = shown.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    folded.trim_end_matches(['.', ' ']).to_owned()
}

fn is_protected_in(folder: &str, name: &str) -> bool {
    NAMES.contains(&name)
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || name.ends_with(".code-workspace")
        || WITHIN.contains(&(folder, name))
}

const WITHIN: &[(&str, &str)] = &[
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".circleci", "config.yml"),
    (".config", "callboard"),
    (".config", "fish"),
    (".config", "git"),
    (".config", "systemd"),
    (".github", "actions"),
    (".github", "workflows"),
];

const NAMES: &[&str] = &[
    // What git runs, and where it looks for what it runs.
    ".git",
    ".gitattributes",
    ".gitconfig",
    ".gitmodules",
    ".hg",
    ".husky",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    // Editors and agents.
    ".agents",
    ".claude",
    ".claude.json",
    ".codex",
    ".continue",
    ".cursor",
    ".cursorrules",
    ".devcontainer",
    ".devcontainer.json",
    ".emacs",
    ".exrc",
    ".gemini",
    ".idea",
    ".kimi",
    ".mcp.json",
    ".nvim.lua",
    ".nvimrc",
    ".opencode",
    ".vimrc",
    ".vscode",
    ".windsurf",
    ".zed",
    // Tools and shells.
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".envrc",
    ".inputrc",
    ".npmrc",
    ".profile",
    ".pypirc",
    ".ripgreprc",
    ".ssh",
    ".tmux.conf",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

const BEGINNINGS: &[&str] = &[".gitlab-ci", ".lefthook", ".pnpmfile.", ".yarnrc", "rust-toolchain"];

#[cfg(test)]
mod tests {
    use super::{BEGINNINGS, NAMES, WITHIN, is_protected};
    use std::path::Path;

    #[test]
    fn what_makes_other_programs_run_something_is_protected_however_it_is_written() {
        let within = WITHIN.iter().map(|(folder, name)| format!("{folder}/{name}"));
        let beginnings = BEGINNINGS.iter().map(|beginning| format!("{beginning}x"));
        let names = NAMES.iter().map(|name| (*name).to_owned());
        for name in names.chain(within).chain(beginnings).chain(["x.code-workspace".to_owned()]) {
            let last = name.rsplit_once('/').map_or(0, |(folder, _)| folder.len() + 1);
            let hidden = format!("{}\u{200d}{}", &name[..last + 1], &name[last + 1..]);
            for written in
                [name.clone(), name.to_uppercase(), hidden, format!("{name}."), format!("{name} ")]
            {
                for path in [written.clone(), format!("a/b/{written}"), format!("{written}/x/y")] {
                    assert!(is_protected(Path::new(&path)), "{path:?}");
                }
            }
        }
    }

    #[test]
    fn other_names_are_not_protected() {
        for path in [
            "",
            "src/main.rs",
            ".gitignore",
            "git/config",
            ".github/dependabot.yml",
            "workflows/ci.yml",
            "config.toml",
            ".cargo/audit.toml",
            ".config/other",
            "x.vscode",
            "my.git",
            ".env.example",
        ] {
            assert!(!is_protected(Path::new(path)), "{path}");
        }
    }
}
