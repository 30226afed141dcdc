//! Sabotage patches, which are stored in `xtask/sabotage`. Each patch breaks one promise with a
//! realistic mistake, and must make at least one test fail. The file name of a patch begins with
//! the promise, and the text of the patch names the tests to run.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, json};

use super::run::RowRun;
use crate::cargo::parse_failed_tests;
use crate::process::{self, TaskError, capture_stdout};
use crate::ui::Ui;
use crate::workspace::Workspace;

const FOLDER: &str = "xtask/sabotage";
/// Prefix of a line above the patch. The rest of the line contains the arguments of `cargo test`.
const TESTS: &str = "Tests: ";

struct Patch {
    name: String,
    path: PathBuf,
    /// Arguments of `cargo test` that select the tests.
    tests: String,
}

/// Applies each patch alone to a copy of the sources, and returns the number of patches with which
/// all tests pass.
pub(super) fn count_unnoticed_patches(run: &mut RowRun<'_>, ui: &Ui<'_>) -> Result<f64, TaskError> {
    let workspace = run.workspace;
    let patches = read_patches(&workspace.root)?;
    run.n = patches.len() as u32;
    let copy = workspace.target.join("sabotage");
    mirror_git_listed_files(&workspace.root, &copy)?;
    for tests in patches.iter().map(|patch| &patch.tests).collect::<BTreeSet<_>>() {
        ui.print_remark_to_stderr(format_args!("sabotage: unharmed, {tests} must be green"));
        process::run_expecting_success(test_command(workspace, &copy, tests).stdout(io::stderr()))?;
    }
    let (mut missed, mut by) = (0.0, Map::new());
    for patch in &patches {
        let caught = run_tests_with_patch(workspace, &copy, patch)?;
        let shown = if caught.is_empty() { "NOT caught".to_owned() } else { caught.join(", ") };
        ui.print_remark_to_stderr(format_args!("sabotage: {}: {shown}", patch.name));
        missed += f64::from(u8::from(caught.is_empty()));
        by.insert(patch.name.clone(), json!(caught));
    }
    run.extra_figures.insert("caught_by".to_owned(), by.into());
    Ok(missed)
}

/// Returns the names of the tests that fail when a patch is applied.
fn run_tests_with_patch(
    workspace: &Workspace,
    copy: &Path,
    patch: &Patch,
) -> Result<Vec<String>, TaskError> {
    process::run_expecting_success(git_apply_command(copy).arg(&patch.path))?;
    // A failed build is an error of the row, because it does not show whether the tests detect the
    // broken promise.
    let built =
        process::run_expecting_success(test_command(workspace, copy, &patch.tests).arg("--no-run"));
    let tested = built.and_then(|()| {
        let mut command = test_command(workspace, copy, &patch.tests);
        process::run_and_copy_output(&mut under_timeout(command.arg("--no-fail-fast")))
    });
    process::run_expecting_success(git_apply_command(copy).arg("--reverse").arg(&patch.path))?;
    let (status, printed) = tested?;
    let mut names = parse_failed_tests(&printed);
    if status.code() == Some(EXIT_CODE_TIMEOUT) {
        names.push("a test that never ends".to_owned());
    }
    Ok(names)
}

/// Runs a command under the program `timeout`, because a broken promise may block a test forever. A
/// blocked test counts as failed.
fn under_timeout(command: &Command) -> Command {
    let mut bounded = Command::new("timeout");
    bounded.arg(SECONDS).arg(command.get_program()).args(command.get_args());
    bounded.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        bounded.current_dir(folder);
    }
    bounded
}

/// Time limit in seconds for the tests of one patch on a busy machine.
const SECONDS: &str = "240";
/// Exit code of `timeout` if the command did not end before the time limit.
const EXIT_CODE_TIMEOUT: i32 = 124;

/// Lists the patches that no longer apply to the sources, each with a reason.
pub(crate) fn find_stale_patches(root: &Path) -> Vec<(String, String)> {
    let patches = match read_patches(root) {
        Ok(patches) => patches,
        Err(stop) => {
            return vec![(FOLDER.to_owned(), stop.message().unwrap_or_default().to_owned())];
        }
    };
    let stale = patches.iter().filter(|patch| {
        let mut git = git_apply_command(root);
        git.arg("--check").arg(&patch.path);
        process::run_expecting_success(&mut git).is_err()
    });
    let why = "does not apply any more; make it anew";
    stale.map(|patch| (format!("{FOLDER}/{}.patch", patch.name), why.to_owned())).collect()
}

/// Returns a `git apply` command that runs in a folder. The command ignores a git repository above
/// the folder.
fn git_apply_command(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("apply").current_dir(folder);
    if let Some(above) = folder.parent() {
        git.env("GIT_CEILING_DIRECTORIES", above);
    }
    git
}

fn test_command(workspace: &Workspace, copy: &Path, tests: &str) -> Command {
    let mut command = workspace.cargo_command("test --all-features");
    command.args(tests.split_whitespace()).current_dir(copy);
    // The copy needs a separate target folder. Otherwise, cargo would later use builds of the copy
    // for the real sources.
    command.env("CARGO_TARGET_DIR", workspace.target.join("sabotage-build"));
    command.env("RUST_BACKTRACE", "0");
    // proptest must not save the random case in which a test failed because of a patch.
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    command
}

/// Reads the patches, sorted by their file names.
fn read_patches(root: &Path) -> Result<Vec<Patch>, TaskError> {
    let folder = root.join(FOLDER);
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    paths.sort();
    paths.into_iter().map(read_patch).collect()
}

fn read_patch(path: PathBuf) -> Result<Patch, TaskError> {
    let text = fs::read_to_string(&path).map_err(|error| path_error(&path, error))?;
    let tests = text.lines().find_map(|line| line.strip_prefix(TESTS));
    let tests = tests.ok_or_else(|| path_error(&path, "it does not say which tests to run"))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Patch { name, tests: tests.to_owned(), path })
}

/// Copies every file that git lists from `root` to `copy`. Only files that differ are written, so
/// that cargo rebuilds little.
pub(super) fn mirror_git_listed_files(root: &Path, copy: &Path) -> Result<(), TaskError> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = capture_stdout(git.current_dir(root))?;
    for name in listed.split_terminator('\0') {
        let (from, to) = (root.join(name), copy.join(name));
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        let folder = to.parent().map(fs::create_dir_all).unwrap_or(Ok(()));
        folder.and_then(|()| fs::write(&to, bytes)).map_err(|error| path_error(&to, error))?;
    }
    remove_unlisted_files(copy, copy, &listed.split_terminator('\0').collect())
}

/// Removes the files of the copy that git does not list.
fn remove_unlisted_files(
    folder: &Path,
    copy: &Path,
    listed: &BTreeSet<&str>,
) -> Result<(), TaskError> {
    for entry in fs::read_dir(folder).map_err(|error| path_error(folder, error))?.flatten() {
        let path = entry.path();
        let name = path.strip_prefix(copy).unwrap_or(&path).to_string_lossy().into_owned();
        if path.is_dir() {
            remove_unlisted_files(&path, copy, listed)?;
        } else if !listed.contains(name.as_str()) {
            fs::remove_file(&path).map_err(|error| path_error(&path, error))?;
        }
    }
    Ok(())
}

fn path_error(path: &Path, why: impl std::fmt::Display) -> TaskError {
    TaskError::Failed(format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_that_no_longer_applies_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join(FOLDER)).unwrap();
        let patch = "G1\nTests: -p x\n\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n";
        fs::write(root.join(FOLDER).join("g1.patch"), patch).unwrap();
        fs::write(root.join("a.txt"), "old\n").unwrap();
        assert_eq!(find_stale_patches(root), []);
        fs::write(root.join("a.txt"), "other\n").unwrap();
        assert_eq!(find_stale_patches(root)[0].0, "xtask/sabotage/g1.patch");
        fs::write(root.join(FOLDER).join("g2.patch"), "nothing").unwrap();
        assert!(find_stale_patches(root)[0].1.contains("which tests"));
    }

    #[test]
    fn every_promise_has_a_patch() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let names: Vec<_> =
            read_patches(root).unwrap().into_iter().map(|patch| patch.name).collect();
        for promise in 1..=10 {
            let prefix = format!("g{promise}-");
            assert!(names.iter().any(|name| name.starts_with(&prefix)), "none for G{promise}");
        }
    }

    #[test]
    fn the_copy_has_exactly_the_files_that_git_lists() {
        let folder = tempfile::tempdir().unwrap();
        let (root, copy) = (folder.path().join("root"), folder.path().join("copy"));
        fs::create_dir_all(root.join("deep")).unwrap();
        fs::write(root.join("deep/a.txt"), "a").unwrap();
        capture_stdout(Command::new("git").args(["init", "--quiet"]).current_dir(&root)).unwrap();
        mirror_git_listed_files(&root, &copy).unwrap();
        fs::write(copy.join("deep/b.txt"), "b").unwrap();
        mirror_git_listed_files(&root, &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("deep/a.txt")).unwrap(), "a");
        assert!(!copy.join("deep/b.txt").exists());
    }
}
