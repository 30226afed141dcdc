//! Detects files outside of `.git` that determine which commands git runs: the files of bare
//! repositories, and the files that the git configuration of the repository names.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use callboard_text::normalise;

use crate::limits::MAX_GIT_CONFIG_BYTES;

/// Returns whether a file is in a folder that git treats as a repository. Also returns `true` if
/// creating this file would make the folder a repository.
///
/// Git recognises such a folder by its entries `HEAD`, `objects` and `refs`. The configuration in
/// the folder determines which commands git runs.
pub(super) fn is_in_git_directory(root: &Path, beneath: &Path) -> bool {
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
    let is_split = |letter: char| letter.is_whitespace() || "\"';|&!".contains(letter);
    let words = config_values(&config)
        .flat_map(|text| text.split(is_split).chain([text.trim_matches('"')]));
    // In the configuration, a path of a hook is relative to the project folder. A path of an
    // include is relative to the file that includes it.
    let places = words
        .filter(|word| !word.is_empty())
        .flat_map(|word| [root, &folder].map(|base| normalise(&base.join(word))));
    places.into_iter().any(|at| at != root && at.starts_with(root) && path.starts_with(at))
}

/// Returns the values that a configuration sets.
fn config_values(config: &str) -> impl Iterator<Item = &str> {
    let lines = config.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
    lines.filter_map(|line| line.split_once('=')).map(|(_, value)| value.trim())
}

/// Returns the git configuration of a project folder, and the folder that contains the
/// configuration.
fn read_config(root: &Path) -> Option<(PathBuf, String)> {
    let git = root.join(".git");
    let folder = match read_small_text_file(&git) {
        // In a worktree or submodule, `.git` is a file that contains the path of the repository
        // folder.
        Some(text) => normalise(&root.join(text.strip_prefix("gitdir:")?.trim())),
        None => git,
    };
    let common = read_small_text_file(&folder.join("commondir"));
    let common: PathBuf =
        common.map_or(folder.clone(), |text| normalise(&folder.join(text.trim())));
    let of_tree = read_small_text_file(&folder.join("config.worktree")).unwrap_or_default();
    let config = read_small_text_file(&common.join("config"))? + "\n" + &of_tree;
    Some((common, config))
}

/// Reads a text file up to a size limit.
fn read_small_text_file(path: &Path) -> Option<String> {
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
            let is_one = |path: &str| is_in_git_directory(root, Path::new(path));
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
    fn files_that_the_configuration_names_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let config = "[core]\n\thooksPath = tools/hooks\n\tbare = false\n; path = not\n[filter \"x\"]\n\
                      \tclean = \"sh scripts/clean.sh %f\"\n[include]\n\tpath = ../more.inc\n";
        write(root, ".git/config", config);
        for (path, is_one) in [
            ("tools/hooks/pre-commit", true),
            ("tools/hooks", true),
            ("tools/other", false),
            ("more.inc", true),
            ("scripts/clean.sh", true),
            ("scripts/x", false),
            ("false", true),
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
