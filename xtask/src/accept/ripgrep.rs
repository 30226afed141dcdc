//! Builds the ripgrep program with the versions of the search crates that this workspace uses.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::process::{self, TaskError};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Crates that search in ripgrep and in this workspace. The comparison is only valid if both use
/// the same versions.
const SHARED: [&str; 5] = ["globset", "grep-regex", "grep-searcher", "ignore", "regex-automata"];

/// The manifest of a package that depends on ripgrep. Cargo fetches ripgrep for this package.
const FETCH: &str = "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
    [lib]\npath = \"lib.rs\"\n[dependencies]\nripgrep = \"15\"\n[workspace]\n";

/// Builds ripgrep, unless it has already been built with the versions of the workspace's lock file.
pub(super) fn build_ripgrep(workspace: &Workspace, ui: &Ui<'_>) -> Result<PathBuf, TaskError> {
    let folder = workspace.target.join("ripgrep");
    let (source, built) = (folder.join("source"), folder.join("build"));
    let lock = read_text_file(&workspace.root.join("Cargo.lock"))?;
    let program = built.join("release/rg");
    if !program.exists()
        || !SHARED.iter().all(|name| is_built_with_locked_version(&built, name, &lock))
    {
        fs::remove_dir_all(&folder)
            .or_else(ok_if_missing)
            .map_err(|error| path_error(&folder, &error))?;
        let fetched = fetch_source(workspace, &folder.join("fetch"))?;
        copy_folder(&fetched, &source).map_err(|error| path_error(&source, &error))?;
        let manifest = source.join("Cargo.toml");
        // The sources are in a folder of this workspace, but must not be a member of it.
        let stands_alone = read_text_file(&manifest)? + "\n[workspace]\n";
        write_text_file(&manifest, &stands_alone)?;
        // For shared dependencies, cargo uses the versions of this lock file. Cargo removes the
        // other entries.
        write_text_file(&source.join("Cargo.lock"), &lock)?;
        ui.print_remark_to_stderr(format_args!("cargo build --release, of ripgrep"));
        let mut build = workspace.cargo_command("build --release --manifest-path");
        process::run_expecting_success(build.arg(&manifest).arg("--target-dir").arg(&built))?;
    }
    let is_other = |name: &&str| !is_built_with_locked_version(&built, name, &lock);
    let other: Vec<_> = SHARED.into_iter().filter(is_other).collect();
    match other.is_empty() {
        true => Ok(program),
        false => Err(TaskError::Failed(format!(
            "{} was built with another version of {}",
            built.display(),
            other.join(", "),
        ))),
    }
}

/// Fetches and unpacks ripgrep with cargo, and returns its folder.
fn fetch_source(workspace: &Workspace, folder: &Path) -> Result<PathBuf, TaskError> {
    fs::create_dir_all(folder).map_err(|error| path_error(folder, &error))?;
    write_text_file(&folder.join("lib.rs"), "")?;
    let manifest = folder.join("Cargo.toml");
    write_text_file(&manifest, FETCH)?;
    // Cargo fetches a dependency even if it has no library.
    process::run_expecting_success(
        workspace.cargo_command("fetch --manifest-path").arg(&manifest),
    )?;
    let lock = read_text_file(&folder.join("Cargo.lock"))?;
    let version = locked_version(&lock, "ripgrep").unwrap_or_default();
    let registry = registry_source_folder();
    let sources = fs::read_dir(&registry).into_iter().flatten().flatten();
    sources
        .map(|source| source.path().join(format!("ripgrep-{version}")))
        .find(|source| source.is_dir())
        .ok_or_else(|| TaskError::Failed(format!("no ripgrep in {}", registry.display())))
}

/// Returns the folder in which cargo unpacks sources, with one subfolder per registry.
pub(super) fn registry_source_folder() -> PathBuf {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    home.unwrap_or_default().join("registry/src")
}

/// Returns whether the build artifacts name the version of the lock file.
fn is_built_with_locked_version(build: &Path, name: &str, lock: &str) -> bool {
    let Some(version) = locked_version(lock, name) else { return false };
    let file = format!("{}-", name.replace('-', "_"));
    let source = format!("/{name}-{version}/");
    let files = fs::read_dir(build.join("release/deps")).into_iter().flatten().flatten();
    files
        .filter(|entry| {
            let written = entry.file_name().to_string_lossy().into_owned();
            written.starts_with(&file) && written.ends_with(".d")
        })
        .any(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(&source)))
}

fn locked_version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, package) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    package.split_once('"').map(|(version, _)| version)
}

/// Copies a folder of plain files and folders.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &to)?,
            false => drop(fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

fn read_text_file(path: &Path) -> Result<String, TaskError> {
    fs::read_to_string(path).map_err(|error| path_error(path, &error))
}

pub(super) fn write_text_file(path: &Path, text: &str) -> Result<(), TaskError> {
    fs::write(path, text).map_err(|error| path_error(path, &error))
}

fn path_error(path: &Path, error: &io::Error) -> TaskError {
    TaskError::Failed(format!("{}: {error}", path.display()))
}

fn ok_if_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::locked_version;

    #[test]
    fn versions_are_read_from_the_lock_file() {
        let lock = "[[package]]\nname = \"ignore\"\nversion = \"0.4.34\"\nsource = \"x\"\n";
        assert_eq!(locked_version(lock, "ignore"), Some("0.4.34"));
        assert_eq!(locked_version(lock, "ignor"), None);
    }
}
