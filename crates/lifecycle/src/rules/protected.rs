//! File names that other programs execute or read as configuration: hidden files, build scripts and
//! manifests, agent instructions, generated trees.

mod names;

use std::iter;
use std::path::Path;

use callboard_text::is_invisible;

use names::{
    BUILD_OUTPUT_FOLDERS, EXECUTED_FILE_NAMES, EXECUTED_FILE_PREFIXES, EXECUTED_FILE_SUFFIXES,
    PROTECTED_FOLDER_SUFFIXES, PROTECTED_FOLDERS, PROTECTED_IN_FOLDER,
};

/// Returns whether a path is protected. A file or folder is protected if other programs may run or
/// trust its content. Everything in a protected folder is protected too. A change of a protected
/// file may therefore have effects beyond the file itself.
///
/// The file need not exist. The check ignores letter case, and ignores characters that some file
/// systems ignore in names. `path` must be the resolved path relative to a root, i.e. to a project
/// folder, because the location of the root is not checked. The caller must also check properties
/// that only the file system shows: executable files, and files that git's configuration names.
#[must_use]
pub fn is_protected(path: &Path) -> bool {
    is_protected_in_folder_named("", path)
}

/// Returns whether a path inside a root is protected, with the rules of [`is_protected`]. Returns
/// false for any path outside the root. The location of the root is not checked. The name of the
/// root is only considered for files directly in the root, e.g. for `workflows` if the root is
/// `.github`.
#[must_use]
pub fn is_protected_in_root(root: &Path, path: &Path) -> bool {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    path.strip_prefix(root).is_ok_and(|beneath| is_protected_in_folder_named(&name, beneath))
}

/// Returns whether agents follow a file as instructions, because of its name.
#[must_use]
pub fn is_agent_instruction_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| fold_file_name(&name.to_string_lossy()));
    name.is_some_and(|name| is_agent_instruction_name(&name))
}

/// Returns examples of names of files that agents follow as instructions, in lowercase. A pattern
/// that begins with the name of an agent matches one of them.
pub fn agent_instruction_names() -> impl Iterator<Item = String> {
    AGENT_INSTRUCTION_STEMS.iter().map(|stem| format!("{stem}.md"))
}

/// Returns whether other programs execute a file inside a root because of its name, or read the
/// file as configuration. All [protected](is_protected_in_root) paths are included. Further
/// examples are build scripts and manifests, scripts that start on a click, and settings in the
/// root itself.
#[must_use]
pub fn is_executed_or_config_path(root: &Path, path: &Path) -> bool {
    let Ok(beneath) = path.strip_prefix(root) else { return false };
    let name = beneath.file_name().map(|name| fold_file_name(&name.to_string_lossy()));
    let is_first = beneath.iter().count() == 1;
    let first = beneath.iter().next().map(|name| fold_file_name(&name.to_string_lossy()));
    let is_built =
        |first: String| BUILD_OUTPUT_FOLDERS.contains(&&*first) || first.starts_with("cmake-build");
    is_protected_in_root(root, path)
        || name.is_some_and(|name| is_executed_or_config_name(&name, is_first))
        || !is_first && first.is_some_and(is_built)
}

fn is_protected_in_folder_named(folder: &str, path: &Path) -> bool {
    let names: Vec<_> = path.iter().map(|name| fold_file_name(&name.to_string_lossy())).collect();
    let above = iter::once(fold_file_name(folder)).chain(names.iter().cloned());
    let leads_through = above.zip(&names).any(|(above, name)| is_protected_tree(&above, name));
    leads_through || names.last().is_some_and(|name| is_agent_instruction_name(name))
}

/// Folds a name, so that two names become equal if any common file system treats them as the same
/// name. The result is in lowercase, without invisible characters, without trailing dots and
/// spaces, and without a colon and the stream name after it.
fn fold_file_name(name: &str) -> String {
    let shown = name.chars().filter(|letter| !is_invisible(*letter));
    // Convert in both directions, because letters such as the Kelvin sign change only in one
    // direction.
    let folded: String = shown.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    let (folded, _) = folded.split_once(':').unwrap_or((&folded, ""));
    folded.trim_end_matches(['.', ' ']).to_owned()
}

/// Returns whether a file or folder with this name is protected. The content of a protected folder
/// is protected too. `folder` is the name of the parent folder.
fn is_protected_tree(folder: &str, name: &str) -> bool {
    is_dotfile_except_harmless(name)
        || PROTECTED_FOLDERS.contains(&name)
        || PROTECTED_FOLDER_SUFFIXES.iter().any(|end| name.ends_with(end))
        || PROTECTED_IN_FOLDER.contains(&(folder, name))
}

/// Returns whether programs execute a file because of its name, or read the file as configuration.
/// `is_first` states that the file is directly in a root.
fn is_executed_or_config_name(name: &str, is_first: bool) -> bool {
    EXECUTED_FILE_NAMES.contains(&name)
        || EXECUTED_FILE_PREFIXES.iter().any(|beginning| name.starts_with(beginning))
        || EXECUTED_FILE_SUFFIXES.iter().any(|end| name.len() > end.len() && name.ends_with(end))
        || is_build_script(name)
        || is_tool_config_file(name)
        || is_first && has_config_extension(name)
}

/// Returns whether a program may run or trust a dotfile. All dotfiles count as sensitive, except
/// the dotfiles in [`HARMLESS_DOTFILES`].
fn is_dotfile_except_harmless(name: &str) -> bool {
    let second = name.strip_prefix('.').and_then(|rest| rest.chars().next());
    second.is_some_and(|letter| letter != '.') && !HARMLESS_DOTFILES.contains(&name)
}

/// Dotfiles that are not protected. Such a dotfile only excludes files, keeps an empty folder in
/// version control, configures indentation, or is a template of a configuration file.
const HARMLESS_DOTFILES: &[&str] = &[
    ".dockerignore",
    ".editorconfig",
    ".empty",
    ".env.dist",
    ".env.example",
    ".env.sample",
    ".env.template",
    ".eslintignore",
    ".gitignore",
    ".gitkeep",
    ".ignore",
    ".keep",
    ".mailmap",
    ".nojekyll",
    ".npmignore",
    ".placeholder",
    ".prettierignore",
    ".rgignore",
    ".stylelintignore",
    ".well-known",
];

/// Returns whether a name is a build script without an extension, e.g. Makefile, Dockerfile or
/// Rakefile.
fn is_build_script(name: &str) -> bool {
    let (stem, end) = name.split_once('.').unwrap_or((name, ""));
    let is_bare = end.is_empty() && stem.len() > "file".len() && !NOT_BUILD_SCRIPTS.contains(&stem);
    let is_script = matches!(
        stem,
        "dockerfile" | "containerfile" | "makefile" | "gnumakefile" | "jenkinsfile" | "vagrantfile"
    );
    let is_task = matches!(
        stem,
        "cakefile"
            | "dangerfile"
            | "fabfile"
            | "gruntfile"
            | "gulpfile"
            | "jakefile"
            | "knexfile"
            | "noxfile"
            | "taskfile"
    );
    stem.ends_with("file") && is_bare || is_script && !SOURCE_EXTENSIONS.contains(&end) || is_task
}

/// Words that end in "file" but are not names of build scripts.
const NOT_BUILD_SCRIPTS: &[&str] =
    &["profile", "logfile", "pidfile", "lockfile", "testfile", "datafile"];

/// Extensions of source code. For example, `dockerfile.rs` is source code instead of a build
/// script.
const SOURCE_EXTENSIONS: &[&str] =
    &["c", "cpp", "cs", "go", "java", "js", "kt", "md", "py", "rb", "rs", "ts"];

/// Returns whether a name is a tool's configuration file that is a program or that names a program,
/// e.g. `vite.config.ts` or `karma.conf.js`.
fn is_tool_config_file(name: &str) -> bool {
    let mut parts = name.rsplit('.');
    let (end, middle, first) = (parts.next(), parts.next(), parts.next());
    let is_one = |middle| matches!(middle, "config" | "conf" | "setup" | "workspace" | "preset");
    let is_settings = |end| {
        matches!(
            end,
            "js" | "cjs"
                | "mjs"
                | "jsx"
                | "ts"
                | "cts"
                | "mts"
                | "json"
                | "toml"
                | "yaml"
                | "yml"
                | "py"
                | "lua"
                | "exs"
                | "mk"
        )
    };
    first.is_some() && middle.is_some_and(is_one) && end.is_some_and(is_settings)
}

/// Returns whether a name is an instruction file that agents follow, e.g. AGENTS.md or
/// CLAUDE.local.md.
fn is_agent_instruction_name(name: &str) -> bool {
    let (stem, end) = name.split_once('.').unwrap_or((name, ""));
    let is_text = end.ends_with("md") || end.ends_with("mdc");
    let is_one = AGENT_INSTRUCTION_STEMS.contains(&stem) || stem.ends_with("-instructions");
    let is_role = [".instructions.md", ".prompt.md", ".agent.md", ".chatmode.md"];
    is_text && is_one || is_role.iter().any(|end| name.ends_with(end))
}

const AGENT_INSTRUCTION_STEMS: &[&str] = &[
    "agent",
    "agents",
    "amp",
    "augment",
    "claude",
    "codex",
    "conventions",
    "copilot",
    "crush",
    "cursor",
    "gemini",
    "goose",
    "grok",
    "jules",
    "kimi",
    "opencode",
    "qwen",
    "replit",
    "skill",
    "warp",
    "windsurf",
];

/// Returns whether a name is a configuration file. Tools search the project folder for their
/// configuration files.
fn has_config_extension(name: &str) -> bool {
    const CONFIG_EXTENSIONS: &[&str] = &[
        ".cfg",
        ".conf",
        ".hcl",
        ".ini",
        ".json",
        ".json5",
        ".jsonc",
        ".kdl",
        ".plist",
        ".pkl",
        ".properties",
        ".toml",
        ".xml",
        ".yaml",
        ".yml",
    ];
    CONFIG_EXTENSIONS.iter().any(|end| name.len() > end.len() && name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::{
        EXECUTED_FILE_NAMES, EXECUTED_FILE_PREFIXES, EXECUTED_FILE_SUFFIXES, PROTECTED_FOLDERS,
        PROTECTED_IN_FOLDER, is_executed_or_config_path, is_protected, is_protected_in_root,
    };
    use std::path::Path;

    #[test]
    fn executed_and_trusted_names_are_protected_in_any_spelling() {
        let within = PROTECTED_IN_FOLDER.iter().map(|(folder, name)| format!("{folder}/{name}"));
        let trees =
            [".git", ".anything"].iter().chain(PROTECTED_FOLDERS).map(|name| (*name).to_owned());
        let trees: Vec<_> = trees.chain(within).collect();
        let beginnings = EXECUTED_FILE_PREFIXES.iter().map(|beginning| format!("{beginning}x"));
        let names = EXECUTED_FILE_NAMES.iter().map(|name| (*name).to_owned());
        let ends = EXECUTED_FILE_SUFFIXES.iter().map(|end| format!("x{end}"));
        for name in names.chain(trees.clone()).chain(beginnings).chain(ends) {
            let last = name.rsplit_once('/').map_or(0, |(folder, _)| folder.len() + 1);
            let hidden = format!("{}\u{200d}{}", &name[..last + 1], &name[last + 1..]);
            let stream = format!("{name}::$INDEX_ALLOCATION");
            let alike = name.replace('k', "\u{212a}").replace('s', "\u{17f}");
            let ignored = format!("{name}\u{ad}\u{fe0f}\u{e0100}");
            let [dot, space] = [format!("{name}."), format!("{name} ")];
            for written in
                [name.clone(), name.to_uppercase(), hidden, alike, ignored, stream, dot, space]
            {
                let obeyed = |path: &str| {
                    is_executed_or_config_path(Path::new("/p"), &Path::new("/p").join(path))
                };
                assert!(obeyed(&written) && obeyed(&format!("a/b/{written}")), "{written:?}");
                let beneath = format!("{written}/x/y");
                assert!(!trees.contains(&name) || is_protected(Path::new(&beneath)), "{beneath:?}");
            }
        }
    }

    #[test]
    fn the_name_of_a_root_matters_only_for_entries_directly_in_it() {
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
            let is_one = is_protected_in_root(Path::new(root), Path::new(path));
            assert_eq!(is_one, expected, "{path} in {root}");
        }
    }

    #[test]
    fn names_are_protected_by_their_kind() {
        for path in [
            "AGENTS.md",
            "docs/CLAUDE.local.md",
            ".github/copilot-instructions.md",
            "a/.anything-new",
            ".githooks/pre-commit",
            ".woodpecker.yaml",
            ".venv/bin/activate",
            "node_modules/.bin/x",
            "opencode.json",
            "web/opencode.jsonc",
            "Makefile",
            "sub/Rakefile",
            "Dockerfile.dev",
            "web/vite.config.mts",
            "karma.conf.js",
            "Gulpfile.js",
            "app.toml",
        ] {
            assert!(
                is_executed_or_config_path(Path::new("/p"), &Path::new("/p").join(path)),
                "{path}"
            );
        }
    }

    #[test]
    fn other_names_are_not_protected() {
        for path in [
            "",
            "src/main.rs",
            "src/.gitignore",
            "git/config",
            "workflows/ci.yml",
            "src/config.toml",
            "x.vscode",
            "my.git",
            ".env.example",
            "src/mise.rs",
            "lefthook/readme.md",
            "git~10",
            "src/profile.ts",
            "src/profile",
            "src/dockerfile.rs",
            "docs/agents/overview.md",
            "src/agent.rs",
            "src/config.ts",
            "assets/logo.svg",
            "LICENSE",
        ] {
            let path = Path::new("/p").join(path);
            assert!(!is_executed_or_config_path(Path::new("/p"), &path), "{path:?}");
        }
    }
}
