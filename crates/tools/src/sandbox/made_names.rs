//! Finds the executable files and hidden files that a command made or changed in a project. Other
//! programs may run or obey such files, but the sandbox does not protect all of them.

use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Instant, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::files::walk::is_generated_folder;
use crate::limits::{MADE_NAMES_DEADLINE, MAX_MADE_NAMES};

/// A time of the clock that the system uses for the change times of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChangeTime {
    seconds: i64,
    nanoseconds: i64,
}

/// The names that a command made or changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedExecutableOrHiddenFiles {
    pub(crate) names: Vec<PathBuf>,
    /// Whether there may be more names, because the search was stopped.
    pub(crate) is_cut: bool,
}

impl ChangedExecutableOrHiddenFiles {
    /// Searches the project folders for names that were made or changed after `since`. The number
    /// of names and the duration of the search are limited.
    pub(super) fn find(roots: &[PathBuf], since: ChangeTime) -> Self {
        let (mut names, mut is_cut) = (Vec::new(), false);
        let deadline = Instant::now() + MADE_NAMES_DEADLINE;
        let mut folders: Vec<_> = roots.iter().map(|root| (root.clone(), false, since)).collect();
        while !is_cut && let Some((folder, is_hidden, since)) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                is_cut = names.len() >= MAX_MADE_NAMES || Instant::now() > deadline;
                if is_cut {
                    break;
                }
                let name = entry.file_name();
                let is_hidden = is_hidden || name.as_encoded_bytes().starts_with(b".");
                if is_changed_executable_or_hidden(&entry, is_hidden, since) {
                    names.push(entry.path());
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir())
                    && !is_generated_folder(&name)
                {
                    let may_be_moved =
                        entry.metadata().is_ok_and(|it| may_have_been_moved_since(&it, since));
                    let since = if may_be_moved { ChangeTime::EARLIEST } else { since };
                    folders.push((entry.path(), is_hidden, since));
                }
            }
        }
        names.sort();
        Self { names, is_cut }
    }
}

/// Returns whether an entry was made or changed after `since`, and is one that other programs may
/// run or obey. A new `.git` folder is such an entry, because git obeys it. `is_hidden` states
/// whether a component of the entry's path begins with a dot.
fn is_changed_executable_or_hidden(entry: &DirEntry, is_hidden: bool, since: ChangeTime) -> bool {
    let Ok(kind) = entry.file_type() else { return false };
    let has = |property: &dyn Fn(&Metadata) -> bool| entry.metadata().is_ok_and(|it| property(&it));
    if kind.is_dir() {
        return entry.file_name() == ".git" && has(&|it| ChangeTime::of_creation(it) > since);
    }
    // Sockets are not listed, because a socket may be a placeholder for a protected name.
    let may_be = kind.is_file() || kind.is_symlink() && is_hidden;
    may_be && has(&|it| ChangeTime::of(it) > since && (is_hidden || it.mode() & 0o111 != 0))
}

/// Returns whether a folder may have been moved to this path after `since`. After a move, all of
/// its content is new at this path. The function also returns `true` if the mode or the owner of
/// the folder changed. A move is not detected if the content of the folder has changed since the
/// move.
fn may_have_been_moved_since(folder: &Metadata, since: ChangeTime) -> bool {
    let content = ChangeTime { seconds: folder.mtime(), nanoseconds: folder.mtime_nsec() };
    ChangeTime::of(folder) > since && content <= since
}

impl ChangeTime {
    const EARLIEST: Self = Self { seconds: i64::MIN, nanoseconds: 0 };

    /// Returns the current time. The change time of a file that was changed before this call is not
    /// later. However, a change in the next milliseconds may get an earlier time, because the
    /// system may use a coarse clock for change times.
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

    /// Returns the time at which a file was created. If this time is unknown, returns the time of
    /// the last change.
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
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the current time, but waits before that until the coarse clock has passed this time.
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
        write(root, "target/old/tool", 0o755);
        write(root, "closed/tool", 0o755);
        let since = time_before_now();
        fs::rename(root.join("target/old"), root.join("moved")).unwrap();
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
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
        let found = ChangedExecutableOrHiddenFiles::find(&[root.to_owned()], since);
        let expected = [
            ".changed",
            ".hidden/config",
            "closed/tool",
            "inner/.git",
            "made-executable",
            "moved/tool",
            "run.sh",
            "src/tool",
        ];
        assert_eq!(found.names, expected.map(|name| root.join(name)));
        assert!(!found.is_cut);
    }

    #[test]
    fn number_of_names_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let since = time_before_now();
        (0..=MAX_MADE_NAMES).for_each(|number| write(folder.path(), &format!(".{number}"), 0o644));
        let found = ChangedExecutableOrHiddenFiles::find(&[folder.path().to_owned()], since);
        assert_eq!((found.names.len(), found.is_cut), (MAX_MADE_NAMES, true));
    }
}
