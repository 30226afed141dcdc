//! The names of files that make other programs do something: hooks, settings of editors and agents,
//! what a shell runs.

use std::path::Path;

use acp_types::text::is_invisible;

/// Returns whether a path leads to, or through, something that makes other programs run something
/// or trust something, so that changing it is more than an edit. Whether it exists does not matter,
/// and neither do case and what some file systems pass over in names. Give it the real path beneath
/// a root: where the root lies is not in question.
#[must_use]
pub fn is_protected(path: &Path) -> bool {
    is_one_protected("", path)
}

/// Returns the same of a path beneath a root; false of any other. Where the root lies is not in
/// question, but what is in it may have its meaning from the root's own name, as `workflows` in
/// `.github`.
#[must_use]
pub fn is_protected_beneath(root: &Path, path: &Path) -> bool {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    path.strip_prefix(root).is_ok_and(|beneath| is_one_protected(&name, beneath))
}

fn is_one_protected(folder: &str, path: &Path) -> bool {
    let mut above = folded(folder);
    path.iter().any(|name| {
        let name = folded(&name.to_string_lossy());
        let is_one = is_protected_in(&above, &name);
        above = name;
        is_one
    })
}

/// Returns a name as the least strict file systems compare it: without case, without characters
/// that are not shown, without dots and spaces at its end and a stream of the file behind a colon.
fn folded(name: &str) -> String {
    let shown = name.chars().filter(|letter| !is_invisible(*letter));
    // Both ways, for letters such as the sign for Kelvin.
    let folded: String = shown.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    let (folded, _) = folded.split_once(':').unwrap_or((&folded, ""));
    folded.trim_end_matches(['.', ' ']).to_owned()
}

fn is_protected_in(folder: &str, name: &str) -> bool {
    NAMES.contains(&name)
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || ENDS.iter().any(|end| name.ends_with(end))
        || WITHIN.contains(&(folder, name))
}

const WITHIN: &[(&str, &str)] = &[
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".circleci", "config.yml"),
    (".circleci", "config.yaml"),
    (".config", "autostart"),
    (".config", "callboard"),
    (".config", "fish"),
    (".config", "git"),
    (".config", "helix"),
    (".config", "mise"),
    (".config", "nvim"),
    (".config", "systemd"),
    (".config", "zed"),
    (".forgejo", "workflows"),
    (".gitea", "workflows"),
    (".github", "actions"),
    (".github", "workflows"),
];

const NAMES: &[&str] = &[
    // What git and other version control run, and where they look for what they run.
    ".git",
    ".gitattributes",
    ".gitconfig",
    ".gitmodules",
    ".hg",
    ".hgrc",
    ".husky",
    ".jj",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    ".pre-commit-hooks.yaml",
    ".svn",
    "git~1",
    // Editors and agents.
    ".agents",
    ".aider.conf.yml",
    ".amazonq",
    ".augment",
    ".claude",
    ".claude.json",
    ".clinerules",
    ".codex",
    ".continue",
    ".crush",
    ".cursor",
    ".cursorrules",
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals-2.el",
    ".dir-locals.el",
    ".emacs",
    ".emacs.d",
    ".exrc",
    ".factory",
    ".fleet",
    ".gemini",
    ".goosehints",
    ".helix",
    ".idea",
    ".junie",
    ".kilocode",
    ".kimi",
    ".kiro",
    ".mcp.json",
    ".nvim.lua",
    ".nvimrc",
    ".opencode",
    ".qwen",
    ".roo",
    ".trae",
    ".vim",
    ".vimrc",
    ".vs",
    ".vscode",
    ".windsurf",
    ".windsurfrules",
    ".zed",
    ".zencoder",
    // What continuous integration runs.
    ".buildkite",
    ".drone.yml",
    ".travis.yml",
    ".woodpecker",
    ".woodpecker.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
    // What tools run or take their settings from, wherever they are started.
    ".bazelrc",
    ".bundle",
    ".bunfig.toml",
    ".curlrc",
    ".envrc",
    ".gdbinit",
    ".inputrc",
    ".irbrc",
    ".lldbinit",
    ".mise",
    ".mise.local.toml",
    ".mise.toml",
    ".mvn",
    ".netrc",
    ".npmrc",
    ".pdbrc",
    ".pryrc",
    ".pypirc",
    ".pythonrc",
    ".ripgreprc",
    ".ssh",
    ".tmux.conf",
    ".tool-versions",
    ".wgetrc",
    "bunfig.toml",
    "mise.local.toml",
    "mise.toml",
    "sitecustomize.py",
    "usercustomize.py",
    // What shells and sessions start with.
    ".bash_aliases",
    ".bash_completion",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cshrc",
    ".kshrc",
    ".login",
    ".logout",
    ".mkshrc",
    ".pam_environment",
    ".profile",
    ".tcshrc",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

const BEGINNINGS: &[&str] = &[
    ".gitlab-ci",
    ".lefthook",
    ".pnpmfile.",
    ".yarnrc",
    "lefthook.",
    "lefthook-local.",
    "rust-toolchain",
];

const ENDS: &[&str] = &[".code-workspace", ".sublime-project", ".sublime-workspace"];

#[cfg(test)]
mod tests {
    use super::{BEGINNINGS, ENDS, NAMES, WITHIN, is_protected, is_protected_beneath};
    use std::path::Path;

    #[test]
    fn what_makes_other_programs_run_something_is_protected_however_it_is_written() {
        let within = WITHIN.iter().map(|(folder, name)| format!("{folder}/{name}"));
        let beginnings = BEGINNINGS.iter().map(|beginning| format!("{beginning}x"));
        let names = NAMES.iter().map(|name| (*name).to_owned());
        let ends = ENDS.iter().map(|end| format!("x{end}"));
        for name in names.chain(within).chain(beginnings).chain(ends) {
            let last = name.rsplit_once('/').map_or(0, |(folder, _)| folder.len() + 1);
            let hidden = format!("{}\u{200d}{}", &name[..last + 1], &name[last + 1..]);
            let stream = format!("{name}::$INDEX_ALLOCATION");
            let alike = name.replace('k', "\u{212a}").replace('s', "\u{17f}");
            let ignored = format!("{name}\u{ad}\u{fe0f}\u{e0100}");
            let [dot, space] = [format!("{name}."), format!("{name} ")];
            for written in
                [name.clone(), name.to_uppercase(), hidden, alike, ignored, stream, dot, space]
            {
                for path in [written.clone(), format!("a/b/{written}"), format!("{written}/x/y")] {
                    assert!(is_protected(Path::new(&path)), "{path:?}");
                }
            }
        }
    }

    #[test]
    fn a_root_gives_meaning_to_what_is_in_it_and_is_not_in_question_itself() {
        for (root, path, expected) in [
            ("/user/.config", "/user/.config/callboard/config.toml", true),
            ("/user/.CONFIG", "/user/.CONFIG/git/config", true),
            ("/user/.config", "/user/.config/other", false),
            ("/user/.cargo", "/user/.cargo/config.toml", true),
            ("/user/.cargo", "/user/.cargo/audit.toml", false),
            ("/repo/.github", "/repo/.github/workflows/ci.yml", true),
            ("/repo", "/repo/.github/workflows/ci.yml", true),
            ("/repo", "/repo/workflows/ci.yml", false),
            ("/.github/repo", "/.github/repo/workflows/ci.yml", false),
            ("/.vscode/repo", "/.vscode/repo/a", false),
            ("/", "/.git/config", true),
            ("/repo", "/other/.git/config", false),
        ] {
            let is_one = is_protected_beneath(Path::new(root), Path::new(path));
            assert_eq!(is_one, expected, "{path} in {root}");
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
            "mvn/pom.xml",
            "src/mise.rs",
            "lefthook/readme.md",
            "git~10",
        ] {
            assert!(!is_protected(Path::new(path)), "{path}");
        }
    }
}
