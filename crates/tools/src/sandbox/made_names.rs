//! Names that a command made or changed and that a project does not protect, although other programs
//! may run or obey them: executable files, and names that begin with a dot.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Instant, UNIX_EPOCH};

use ignore::{DirEntry, WalkBuilder};
use rustix::time::{ClockId, clock_gettime};

use crate::limits::{MADE_NAMES_DEADLINE, MAX_MADE_NAMES};

/// Folders whose content tools generate. What a command makes in them is not listed.
const GENERATED_FOLDERS: &[&str] = &[
    ".cache",
    ".git",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
    "venv",
];

/// A time of the clock by which the system records changes of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChangeTime {
    seconds: i64,
    nanoseconds: i64,
}

/// The names that a command made or changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MadeNames {
    pub(crate) names: Vec<PathBuf>,
    /// Whether there may be more.
    pub(crate) is_cut: bool,
}

impl MadeNames {
    /// Searches for names in project folders that were made or changed after a time. The number of
    /// names and the time are limited.
    pub(super) fn find(roots: &[PathBuf], since: ChangeTime) -> Self {
        let mut found = Self::default();
        let deadline = Instant::now() + MADE_NAMES_DEADLINE;
        let Some((first, others)) = roots.split_first() else { return found };
        let mut walk = WalkBuilder::new(first);
        for root in others {
            walk.add(root);
        }
        walk.standard_filters(false).filter_entry(|entry| {
            let folder = entry.path().parent().and_then(Path::file_name);
            entry.depth() < 2 || !folder.is_some_and(is_generated)
        });
        for entry in walk.build().flatten() {
            if found.names.len() >= MAX_MADE_NAMES || Instant::now() > deadline {
                found.is_cut = true;
                break;
            }
            if entry.depth() > 0 && is_listed(&entry, since) {
                found.names.push(entry.into_path());
            }
        }
        found.names.sort();
        found
    }
}

fn is_generated(name: &OsStr) -> bool {
    GENERATED_FOLDERS.iter().any(|folder| name == *folder)
}

/// Returns whether a file is one that other programs may run or obey, and was changed after a time.
/// Git obeys a new repository.
fn is_listed(entry: &DirEntry, since: ChangeTime) -> bool {
    let Ok(metadata) = entry.metadata() else { return false };
    if ChangeTime::of(&metadata) <= since {
        return false;
    }
    if metadata.is_dir() {
        return entry.file_name() == ".git" && ChangeTime::of_creation(&metadata) > since;
    }
    // A socket may be a placeholder of another command.
    if !metadata.is_file() && !metadata.is_symlink() {
        return false;
    }
    // The parts of the path in the project folder.
    let parts = entry.path().components().rev().take(entry.depth());
    let mut parts = parts.map(|part| part.as_os_str().as_encoded_bytes());
    let is_executable = metadata.is_file() && metadata.mode() & 0o111 != 0;
    is_executable || parts.any(|part| part.starts_with(b"."))
}

impl ChangeTime {
    /// Returns the time now. No earlier change has a later time, but one in the next milliseconds
    /// may have an earlier one: the system may record changes by a coarse clock.
    pub(super) fn now() -> Self {
        Self::of_clock(ClockId::Realtime)
    }

    fn of_clock(clock: ClockId) -> Self {
        let now = clock_gettime(clock);
        Self { seconds: now.tv_sec, nanoseconds: now.tv_nsec }
    }

    fn of(metadata: &Metadata) -> Self {
        Self { seconds: metadata.ctime(), nanoseconds: metadata.ctime_nsec() }
    }

    /// Returns the time at which a file was made, or last changed if the first is unknown.
    fn of_creation(metadata: &Metadata) -> Self {
        let since_epoch = metadata.created().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        since_epoch.map_or_else(
            || Self::of(metadata),
            |it| Self {
                seconds: it.as_secs().cast_signed(),
                nanoseconds: it.subsec_nanos().into(),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the time, after the coarse clock has advanced further.
    fn time_before_now() -> ChangeTime {
        let before = ChangeTime::now();
        while ChangeTime::of_clock(ClockId::RealtimeCoarse) <= before {}
        before
    }

    fn write(root: &Path, name: &str, mode: u32) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn new_and_changed_names_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "old.sh", 0o755);
        write(root, "made-executable", 0o644);
        write(root, ".old", 0o644);
        write(root, ".changed", 0o644);
        write(root, ".git/HEAD", 0o644);
        let since = time_before_now();
        let made = [
            "made-executable",
            "run.sh",
            "src/tool",
            ".hidden/config",
            ".changed",
            "target/debug/tool",
            "node_modules/.bin/tool",
            ".venv/bin/python",
            "packages/a/node_modules/b.js",
            ".git/hooks/x",
            "inner/.git/HEAD",
        ];
        for name in made {
            write(root, name, 0o755);
        }
        write(root, "plain.txt", 0o644);
        let found = MadeNames::find(&[root.to_owned()], since);
        let expected =
            [".changed", ".hidden/config", "inner/.git", "made-executable", "run.sh", "src/tool"];
        assert_eq!(found.names, expected.map(|name| root.join(name)));
        assert!(!found.is_cut);
    }

    #[test]
    fn number_of_names_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let since = time_before_now();
        (0..=MAX_MADE_NAMES).for_each(|number| write(folder.path(), &format!(".{number}"), 0o644));
        let found = MadeNames::find(&[folder.path().to_owned()], since);
        assert_eq!((found.names.len(), found.is_cut), (MAX_MADE_NAMES, true));
    }
}
