//! Detects files outside of `.git` that determine which commands git runs: the files of bare
//! repositories, and the files that the git configuration of the repository names.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use callboard_text::normalise;

use crate::limits::{MAX_GIT_CONFIG_BYTES, MAX_GIT_CONFIGS, MAX_GIT_FOLDERS, MAX_GIT_NAMED_PATHS};

/// Returns whether a file is in a folder that git treats as a repository. Also returns `true` if
/// creating this file would make the folder a repository.
///
/// Git recognises such a folder by its entries `HEAD`, `objects` and `refs`. The configuration in
/// the folder determines which commands git runs.
pub(super) fn is_in_bare_repository(root: &Path, beneath: &Path) -> bool {
    let mut folder = root.to_owned();
    beneath.iter().any(|name| {
        let is_there = |part: &&&str| {
            name.eq_ignore_ascii_case(part) || folder.join(part).symlink_metadata().is_ok()
        };
        let is_one = REPOSITORY_MARKERS.iter().filter(is_there).count() == REPOSITORY_MARKERS.len()
            || name.eq_ignore_ascii_case("commondir");
        folder.push(name);
        is_one
    })
}

/// The entries by which git recognises a repository.
const REPOSITORY_MARKERS: &[&str] = &["HEAD", "objects", "refs"];

/// Returns whether the git configuration of a project folder names a file, or a folder that
/// contains the file. The configuration can name files of hooks, filters and includes.
pub(super) fn is_named_in_config(root: &Path, beneath: &Path) -> bool {
    let path = root.join(beneath);
    let Some((folder, config)) = read_config(root) else { return false };
    let entries = config_entries(&config).filter(may_name_file);
    let words = entries.flat_map(|(_, value)| words_of_value(value));
    // In the configuration, a path of a hook is relative to the project folder. A path of an
    // include is relative to the file that includes it.
    let places = words
        .filter(|word| !word.is_empty())
        .flat_map(|word| [root, &folder].map(|base| normalise(&base.join(word))));
    places.into_iter().any(|at| at != root && at.starts_with(root) && path.starts_with(at))
}

/// A path in a project folder that the configuration of a repository names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamedPath {
    /// The folder of the hooks. It may be missing.
    Hooks(PathBuf),
    /// A file that the configuration includes. It may be missing.
    Include(PathBuf),
    /// An existing file. Either a value in the configuration contains its path, or it is the `.git`
    /// file of a submodule.
    File(PathBuf),
}

/// Returns the paths in a project folder that are named in the configuration of its repositories,
/// or in a file that this configuration includes.
pub(crate) fn paths_named_in_config(root: &Path) -> Vec<NamedPath> {
    let (mut named, mut visited, mut configs) = (Vec::new(), HashSet::new(), Vec::new());
    for folder in git_dirs_with_submodules(root) {
        let config = folder.join("config");
        let text = read_text_up_to_limit(&config).unwrap_or_default();
        let worktree = config_entries(&text).find(|(key, _)| key.eq_ignore_ascii_case("worktree"));
        let worktree = match worktree {
            Some((_, worktree)) => {
                let worktree = normalise(&folder.join(worktree));
                named.push(NamedPath::File(worktree.join(".git")));
                worktree
            }
            None => root.to_owned(),
        };
        configs.extend([folder.join("config.worktree"), config].map(|it| (it, worktree.clone())));
    }
    while let Some((config, worktree)) = configs.pop() {
        let is_full = visited.len() >= MAX_GIT_CONFIGS || named.len() >= MAX_GIT_NAMED_PATHS;
        if is_full || !visited.insert(config.clone()) {
            continue;
        }
        let text = read_text_up_to_limit(&config).unwrap_or_default();
        for (key, value) in config_entries(&text).filter(may_name_file) {
            match &*key.to_ascii_lowercase() {
                "hookspath" => named.push(NamedPath::Hooks(normalise(&worktree.join(value)))),
                "path" => {
                    let included = normalise(&config.with_file_name(value));
                    named.push(NamedPath::Include(included.clone()));
                    configs.push((included, worktree.clone()));
                }
                _ => {
                    let files = words_of_value(value).map(|word| normalise(&worktree.join(word)));
                    named.extend(files.filter(|path| path.is_file()).map(NamedPath::File));
                }
            }
        }
    }
    named.retain(|path| {
        let (NamedPath::Hooks(path) | NamedPath::Include(path) | NamedPath::File(path)) = path;
        path != root && path.starts_with(root)
    });
    named
}

/// Returns the words of a value, and the whole value.
fn words_of_value(value: &str) -> impl Iterator<Item = &str> {
    let is_split = |letter: char| letter.is_whitespace() || "\"';|&!".contains(letter);
    value.split(is_split).chain([value])
}

/// Returns the folders in which git stores the repositories of a project folder: its own
/// repository, the repository that a worktree shares with the main worktree, and the repositories
/// of submodules and of other worktrees.
pub(crate) fn git_dirs_with_submodules(root: &Path) -> Vec<PathBuf> {
    let Some((folder, common)) = git_dir_and_common_dir(root) else { return Vec::new() };
    let mut folders = vec![folder, common];
    folders.dedup();
    folders.retain(|folder| folder.is_dir());
    let mut at = 0;
    while let Some(folder) = folders.get(at).cloned() {
        at += 1;
        // The name of a submodule may contain slashes.
        for parent in ["modules", "worktrees"] {
            let mut parents = vec![folder.join(parent)];
            while let Some(parent) = parents.pop() {
                for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                    if !is_folder || folders.len() + parents.len() >= MAX_GIT_FOLDERS {
                        continue;
                    }
                    match entry.path().join("HEAD").exists() {
                        true => folders.push(entry.path()),
                        false => parents.push(entry.path()),
                    }
                }
            }
        }
    }
    folders
}

/// Keys whose values are names, numbers or patterns of references, and never files or commands.
const KEYS_WITHOUT_FILES: &[&str] = &[
    "autocrlf",
    "bare",
    "defaultbranch",
    "email",
    "eol",
    "fetch",
    "filemode",
    "ignorecase",
    "logallrefupdates",
    "merge",
    "name",
    "precomposeunicode",
    "pushdefault",
    "pushremote",
    "rebase",
    "remote",
    "repositoryformatversion",
    "symlinks",
];

/// Returns whether an entry of a configuration can name a file or a command. A value that is one
/// word for a switch never does.
fn may_name_file((key, value): &(&str, &str)) -> bool {
    let is_switch = ["true", "false", "yes", "no", "on", "off"].contains(value);
    !is_switch && !KEYS_WITHOUT_FILES.iter().any(|other| key.eq_ignore_ascii_case(other))
}

/// Returns the keys and values of a configuration, without quotes and comments around them.
fn config_entries(config: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = config.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
    lines.filter_map(|line| line.split_once('=')).map(|(before, value)| {
        // A key may follow the name of its section in the same line.
        let key = before.rsplit(']').next().unwrap_or(before).trim();
        let value = value.trim();
        let value = match value.strip_prefix('"') {
            Some(quoted) => quoted.rsplit_once('"').map_or(quoted, |(quoted, _)| quoted),
            None => {
                let comment =
                    [" #", " ;", "\t#", "\t;"].iter().filter_map(|it| value.find(it)).min();
                &value[..comment.unwrap_or(value.len())]
            }
        };
        (key, value.trim_end())
    })
}

/// Returns the git configuration of a project folder, and the folder that contains the
/// configuration.
fn read_config(root: &Path) -> Option<(PathBuf, String)> {
    let (folder, common) = git_dir_and_common_dir(root)?;
    let of_tree = read_text_up_to_limit(&folder.join("config.worktree")).unwrap_or_default();
    let config = read_text_up_to_limit(&common.join("config"))? + "\n" + &of_tree;
    Some((common, config))
}

/// Returns the repository folder of a project folder. Also returns the repository folder that all
/// of its worktrees share. The two are equal if the project folder is not a linked worktree.
fn git_dir_and_common_dir(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let git = root.join(".git");
    let folder = match read_text_up_to_limit(&git) {
        // In a worktree or submodule, `.git` is a file that contains the path of the repository
        // folder.
        Some(text) => normalise(&root.join(text.strip_prefix("gitdir:")?.trim())),
        None => git,
    };
    let common = read_text_up_to_limit(&folder.join("commondir"));
    let common: PathBuf =
        common.map_or(folder.clone(), |text| normalise(&folder.join(text.trim())));
    Some((folder, common))
}

/// Reads a text file up to a size limit.
fn read_text_up_to_limit(path: &Path) -> Option<String> {
    let is_plain = path.components().all(|part| part != Component::ParentDir);
    if !is_plain || !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_GIT_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_file_that_completes_a_repository_is_found_whichever_it_is() {
        let files = ["sub/HEAD", "sub/objects/x", "sub/refs/x"];
        for last in 0..files.len() {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            write(root, "sub/config", "");
            let is_one = |path: &str| is_in_bare_repository(root, Path::new(path));
            assert!(!is_one(files[last]) && !is_one("sub/config"));
            for (at, file) in files.iter().enumerate() {
                if at != last {
                    assert!(!is_one(file), "{file}");
                    write(root, file, "");
                }
            }
            assert!(is_one(files[last]) && is_one(&files[last].to_lowercase()));
            assert!(!is_one("other/HEAD") && is_one("x/commondir"));
            write(root, files[last], "");
            assert!(is_one("sub/config") && is_one("sub/hooks/post-checkout"));
        }
    }

    #[test]
    fn repositories_of_submodules_and_worktrees_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(git_dirs_with_submodules(root).is_empty());
        for folder in ["", "modules/a", "modules/nested/name", "modules/a/modules/b", "worktrees/w"]
        {
            write(root, &format!(".git/{folder}/HEAD"), "");
        }
        let mut found = git_dirs_with_submodules(root);
        found.sort();
        let found: Vec<_> = found.iter().map(|path| path.strip_prefix(root).unwrap()).collect();
        let expected = [
            ".git",
            ".git/modules/a",
            ".git/modules/a/modules/b",
            ".git/modules/nested/name",
            ".git/worktrees/w",
        ];
        assert_eq!(found, expected.map(Path::new));
    }

    #[test]
    fn named_paths_are_hooks_includes_and_existing_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, ".git/HEAD", "");
        write(
            root,
            ".git/config",
            "[core] hooksPath = tools/hooks # ours\n[include]\npath = ../more.inc\npath = local.inc\n\
             [remote \"o\"]\nurl = src\nfetch = HEAD\n[filter \"x\"]\n\
             clean = sh scripts/clean.sh missing\n[include]\npath = config\n",
        );
        write(root, ".git/refs/heads/main", "");
        write(root, "more.inc", "[core]\n\thooksPath = \"other hooks\"\n");
        write(root, "scripts/clean.sh", "");
        write(root, "src/main.rs", "");
        // The repository of a submodule has its own configuration.
        write(root, ".git/modules/sub/HEAD", "");
        write(
            root,
            ".git/modules/sub/config",
            "[core]\nworktree = ../../../sub\nhooksPath = ./hooks\n",
        );
        let mut named = paths_named_in_config(root);
        named.sort_by_key(|path| format!("{path:?}"));
        assert_eq!(
            named,
            [
                NamedPath::File(root.join("scripts/clean.sh")),
                NamedPath::File(root.join("sub/.git")),
                NamedPath::Hooks(root.join("other hooks")),
                NamedPath::Hooks(root.join("sub/hooks")),
                NamedPath::Hooks(root.join("tools/hooks")),
                NamedPath::Include(root.join(".git/config")),
                NamedPath::Include(root.join(".git/local.inc")),
                NamedPath::Include(root.join("more.inc")),
            ]
        );
    }

    #[test]
    fn a_configuration_that_includes_endlessly_is_read_for_a_limited_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, ".git/HEAD", "");
        write(root, ".git/config", "[include]\npath = ../0.inc\n");
        for number in 0..2 * MAX_GIT_CONFIGS {
            let next = format!("[include]\npath = {}.inc\npath = 0.inc\n", number + 1);
            write(root, &format!("{number}.inc"), &next.repeat(4));
        }
        assert!(paths_named_in_config(root).len() <= 8 * MAX_GIT_CONFIGS);
    }

    #[test]
    fn files_that_the_configuration_names_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let config = "[core]\n\thooksPath = tools/hooks\n\tbare = 1\n\tfsmonitor = false\n\
                      [branch \"a\"]\n\tRemote = origin\n; path = not\n[filter \"x\"]\n\
                      \tclean = \"sh scripts/clean.sh %f\"\n[include]\n\tpath = ../more.inc\n";
        write(root, ".git/config", config);
        for (path, is_one) in [
            ("tools/hooks/pre-commit", true),
            ("tools/hooks", true),
            ("tools/other", false),
            ("more.inc", true),
            ("scripts/clean.sh", true),
            ("scripts/x", false),
            ("false", false),
            ("1", false),
            ("origin", false),
            ("%f", true),
            ("not", false),
            ("src/main.rs", false),
        ] {
            assert_eq!(is_named_in_config(root, Path::new(path)), is_one, "{path}");
        }
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), ".git", &format!("gitdir: {}/.git/worktrees/a\n", root.display()));
        write(root, ".git/worktrees/a/commondir", "../..\n");
        assert!(is_named_in_config(tree.path(), Path::new("tools/hooks/pre-commit")));
        assert!(!is_named_in_config(Path::new("/nowhere"), Path::new("a")));
    }
}
