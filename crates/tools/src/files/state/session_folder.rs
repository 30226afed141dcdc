//! The folders of sessions in the user's state folder, and their common size limit.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::files::state::{JOURNAL_FOLDER, OUTPUT_FOLDER, UNDO_FOLDER, create_private_folder};
use crate::limits::{
    MAX_COUNTED_DEPTH, MAX_COUNTED_FILES, MAX_OPEN_TRIES, MAX_OUTPUT_AGE, MAX_STATE_BYTES,
    MAX_UNDO_AGE,
};
use crate::lock::lock;

/// A lock that prevents the removal of a folder. The lock has no effect if the system cannot lock
/// folders.
#[derive(Debug)]
pub(crate) struct FolderRemovalLock {
    _locked: Option<File>,
}

/// The state folders that this process has swept.
static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Prevents the background sweep of a state folder, because the sweep also sets the modes that a
/// test may have changed.
#[cfg(test)]
pub(crate) fn prevent_background_sweep(state: &Path) {
    lock(&SWEPT).insert(state.to_owned());
}

/// Opens or creates the folder of a session. Only the owner can access the folder. If no name is
/// given, a new folder is created.
///
/// The first call for a state folder also spawns a thread that [sweeps](sweep) the state folder.
pub(crate) fn open_or_create_session_folder(
    folder: &Path,
    session: Option<&str>,
) -> io::Result<(PathBuf, FolderRemovalLock)> {
    create_private_folder(folder)?;
    restrict_to_owner(folder);
    let is_new = |state: &PathBuf| lock(&SWEPT).insert(state.clone());
    if let Some(state) = folder.parent().map(Path::to_owned).filter(is_new) {
        restrict_to_owner(&state);
        let sweeping = thread::Builder::new().name("state".into());
        // If the thread cannot be spawned, the next process sweeps the folder.
        drop(sweeping.spawn(move || {
            restrict_state_to_owner(&state);
            sweep(&state, MAX_STATE_BYTES);
        }));
    }
    create_locked(folder, session)
}

/// Returns the name of a session's folders in the state folder. The name depends on the session and
/// on its project folders, because undo data refers to files in these project folders.
pub(crate) fn session_folder_name<'a>(
    session: &str,
    roots: impl Iterator<Item = &'a Path>,
) -> String {
    let mut hasher = Sha256::new();
    for root in roots {
        let bytes = root.as_os_str().as_encoded_bytes();
        hasher.update(bytes.len().to_le_bytes());
        hasher.update(bytes);
    }
    let hash = hasher.finalize();
    let hash = hash.iter().take(8).fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    format!("{session}{AFTER_SESSION_ID}{hash}")
}

/// Returns whether a session with this name has a folder.
pub(crate) fn has_session_folder(folder: &Path, session: &str) -> bool {
    let path = folder.join(format!("{SESSION}{session}"));
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn create_locked(folder: &Path, session: Option<&str>) -> io::Result<(PathBuf, FolderRemovalLock)> {
    create_private_folder(folder)?;
    for _ in 0..MAX_OPEN_TRIES {
        let made = match session {
            Some(session) => {
                let path = folder.join(format!("{SESSION}{session}"));
                create_private_folder(&path)?;
                path
            }
            None => {
                let mut builder = tempfile::Builder::new();
                builder.prefix(SESSION);
                #[cfg(unix)]
                builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
                builder.tempdir_in(folder)?.keep()
            }
        };
        let locked = File::open(&made).ok().filter(|folder| folder.lock_shared().is_ok());
        // Another process may have removed the folder before this process locked it.
        if made.exists() {
            return Ok((made, FolderRemovalLock { _locked: locked }));
        }
    }
    Err(io::Error::other("another process removes the folder again and again"))
}

/// An entry in the state folder.
struct StoredItem {
    path: PathBuf,
    modified: SystemTime,
    is_session: bool,
    is_old: bool,
    bytes: u64,
    /// Whether the entry has more bytes than were counted, because it contains too many files.
    is_undercounted: bool,
}

/// Removes expired entries, then removes folders of finished sessions until the total is at most
/// `bound` bytes.
///
/// Sessions with too many files to count are removed first, then the oldest sessions. Folders of
/// open sessions are never removed, even if another process has opened the session. Returns the
/// remaining total in bytes.
pub(crate) fn sweep(state: &Path, bound: u64) -> u64 {
    sweep_with_file_limit(state, bound, MAX_COUNTED_FILES)
}

fn sweep_with_file_limit(state: &Path, bound: u64, files: u64) -> u64 {
    let mut stored: Vec<_> = [
        (UNDO_FOLDER, MAX_UNDO_AGE),
        (OUTPUT_FOLDER, MAX_OUTPUT_AGE),
        (JOURNAL_FOLDER, MAX_UNDO_AGE),
    ]
    .into_iter()
    .flat_map(|(name, age)| measure_entries(&state.join(name), age, files))
    .collect();
    stored.sort_by_key(|stored| (!stored.is_undercounted, stored.modified));
    let mut total = stored.iter().map(|stored| stored.bytes).sum();
    for one in stored {
        let is_surplus = one.is_session && total > bound;
        if (one.is_old || is_surplus) && remove_if_unlocked(&one.path, one.is_old) {
            total -= one.bytes;
        }
    }
    total
}

/// Sweeps the state folder of an open session. Returns the number of bytes by which the total still
/// exceeds the limit.
pub(crate) fn sweep_and_count_surplus_bytes(session: &Path) -> u64 {
    let state = session.ancestors().nth(2);
    state.map_or(0, |state| sweep(state, MAX_STATE_BYTES).saturating_sub(MAX_STATE_BYTES))
}

/// Lists the folders with the undo data and with the outputs of all sessions. Returns the time of
/// the last change and the size in bytes of each folder.
#[must_use]
pub fn session_folder_times_and_sizes(state: &Path) -> Vec<(SystemTime, u64)> {
    list_session_folders(state).map(|stored| (stored.modified, stored.bytes)).collect()
}

/// Removes undo data and outputs of sessions if their last change was before `oldest`. Folders that
/// a process has open are not removed. Returns the number of removed bytes.
pub fn remove_session_files_before(state: &Path, oldest: SystemTime) -> u64 {
    let old = list_session_folders(state).filter(|stored| stored.modified < oldest);
    old.filter(|stored| remove_if_unlocked(&stored.path, false)).map(|stored| stored.bytes).sum()
}

/// Removes the undo data and the outputs of a session for all of its project folders. Folders that
/// a process has open are not removed.
pub fn remove_files_of_session(state: &Path, session: &str) {
    let beginning = format!("{SESSION}{session}{AFTER_SESSION_ID}");
    let folders = [UNDO_FOLDER, OUTPUT_FOLDER].map(|name| state.join(name));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    for path in paths.filter(|path| has_file_name_prefix(path, &beginning)) {
        remove_if_unlocked(&path, false);
    }
}

fn list_session_folders(state: &Path) -> impl Iterator<Item = StoredItem> {
    let folders = [UNDO_FOLDER, OUTPUT_FOLDER].map(|name| state.join(name));
    let stored = folders.map(|folder| measure_entries(&folder, Duration::MAX, MAX_COUNTED_FILES));
    stored.into_iter().flatten().filter(|stored| stored.is_session)
}

fn measure_entries(folder: &Path, age: Duration, files: u64) -> Vec<StoredItem> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter_map(|entry| {
        let (path, metadata) = (entry.path(), entry.metadata().ok()?);
        let modified = metadata.modified().ok()?;
        let is_session = metadata.is_dir() && has_file_name_prefix(&path, SESSION);
        let is_old = SystemTime::now().duration_since(modified).is_ok_and(|since| since > age);
        let mut left = files;
        let bytes = tree_bytes(&path, &metadata, &mut left, 0);
        Some(StoredItem { path, modified, is_session, is_old, bytes, is_undercounted: left == 0 })
    });
    entries.collect()
}

/// Adds up the sizes of the files in a folder, and decrements `left` for each file. Stops when
/// `left` is zero.
fn tree_bytes(path: &Path, metadata: &fs::Metadata, left: &mut u64, depth: usize) -> u64 {
    *left = if depth > MAX_COUNTED_DEPTH { 0 } else { left.saturating_sub(1) };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.fold(0, |bytes, entry| match entry.metadata() {
        Ok(metadata) if *left > 0 => bytes + tree_bytes(&entry.path(), &metadata, left, depth + 1),
        _ => bytes,
    })
}

/// Removes an entry that is not locked, and holds the lock of the entry during the removal.
fn remove_if_unlocked(path: &Path, is_old: bool) -> bool {
    let Ok(held) = File::open(path) else { return false };
    let is_free = match held.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        // On a system without locks, only old entries are removed.
        Err(TryLockError::Error(_)) => is_old,
    };
    let removed = is_free.then(|| match fs::remove_file(path) {
        Err(_) => fs::remove_dir_all(path),
        removed => removed,
    });
    removed.is_some_and(|removed| removed.is_ok())
}

/// Restricts the folders of sessions to their owner, so that other users cannot access the files in
/// them. The modes of these files are not changed, because a restored file gets the mode of its
/// backup.
fn restrict_state_to_owner(state: &Path) {
    let folders = [UNDO_FOLDER, OUTPUT_FOLDER, JOURNAL_FOLDER].map(|name| state.join(name));
    for folder in folders.iter().map(PathBuf::as_path).chain([state]) {
        restrict_to_owner(folder);
    }
    for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
        restrict_to_owner(&entry.path());
    }
}

/// Restricts a file or folder of this user to its owner. Does not change a file with several hard
/// links.
#[cfg(unix)]
pub(crate) fn restrict_to_owner(path: &Path) {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let Ok(found) = fs::symlink_metadata(path) else { return };
    let mode = match (found.is_dir(), found.is_file() && found.nlink() == 1) {
        (true, _) => 0o700,
        (_, true) => 0o600,
        _ => return,
    };
    if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o7777 != mode {
        drop(fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    }
}

#[cfg(not(unix))]
pub(crate) fn restrict_to_owner(_: &Path) {}

fn has_file_name_prefix(path: &Path, beginning: &str) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(beginning.as_bytes()))
}

const SESSION: &str = "session-";

/// Separates the id of a session from the rest of the folder's name. No id contains this character.
const AFTER_SESSION_ID: char = '.';

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    /// Creates a session folder with a number of bytes and an age.
    fn session(
        state: &Path,
        kind: &str,
        bytes: usize,
        age: Duration,
    ) -> (PathBuf, FolderRemovalLock) {
        let (path, held) = create_locked(&state.join(kind), None).unwrap();
        fs::write(path.join("1"), vec![0; bytes]).unwrap();
        File::open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
        (path, held)
    }

    #[test]
    fn an_old_folder_goes_once_nobody_holds_it() {
        let state = tempfile::tempdir().unwrap();
        let (path, held) = session(state.path(), UNDO_FOLDER, 1, 2 * MAX_UNDO_AGE);
        sweep(state.path(), u64::MAX);
        assert!(path.exists());
        drop(held);
        assert_eq!(sweep(state.path(), u64::MAX), 0);
        assert!(!path.exists());
    }

    #[test]
    fn one_bound_holds_for_all_sessions_and_takes_the_oldest_that_ended() {
        let state = tempfile::tempdir().unwrap();
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        let made = [
            session(state.path(), OUTPUT_FOLDER, 100, hours(5)),
            session(state.path(), UNDO_FOLDER, 100, hours(4)),
            session(state.path(), OUTPUT_FOLDER, 100, hours(3)),
            session(state.path(), UNDO_FOLDER, 100, hours(2)),
        ];
        let paths = made.each_ref().map(|(path, _)| path.clone());
        // The oldest session is still open.
        let [open, ended @ ..] = made;
        drop(ended);
        assert_eq!(sweep(state.path(), 400), 400);
        assert_eq!(sweep(state.path(), 250), 200);
        assert_eq!(paths.each_ref().map(|path| path.exists()), [true, false, false, true]);
        assert_eq!(sweep(state.path(), 0), 100);
        drop(open);
        assert_eq!(sweep(state.path(), 0), 0);
    }

    #[test]
    fn what_changed_last_before_a_time_goes_unless_it_is_open() {
        let state = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let days = |days: u64| Duration::from_secs(24 * 3600 * days);
        let made = [
            session(state.path(), UNDO_FOLDER, 10, days(4)),
            session(state.path(), UNDO_FOLDER, 20, days(3)),
            session(state.path(), OUTPUT_FOLDER, 30, days(3)),
            session(state.path(), OUTPUT_FOLDER, 40, days(1)),
        ];
        let paths = made.each_ref().map(|(path, _)| path.clone());
        let mut bytes = session_folder_times_and_sizes(state.path());
        bytes.sort_by_key(|(modified, bytes)| (*modified, *bytes));
        let ages = bytes.iter().map(|(modified, _)| now.duration_since(*modified).unwrap());
        assert!(ages.is_sorted_by(|older, newer| older >= newer));
        assert_eq!(bytes.iter().map(|(_, bytes)| bytes % 4096).sum::<u64>(), 100);
        let [open, ended @ ..] = made;
        drop(ended);
        let removed = remove_session_files_before(state.path(), now - days(2));
        assert_eq!(removed % 4096, 50);
        assert_eq!(paths.each_ref().map(|path| path.exists()), [true, false, false, true]);
        drop(open);
    }

    #[test]
    fn what_has_more_than_can_be_counted_goes_first() {
        let state = tempfile::tempdir().unwrap();
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        let (old, _) = session(state.path(), UNDO_FOLDER, 100, hours(5));
        let (large, _) = session(state.path(), UNDO_FOLDER, 100, hours(1));
        for file in 2..9 {
            fs::write(large.join(file.to_string()), [0; 100]).unwrap();
        }
        sweep_with_file_limit(state.path(), 250, 4);
        assert_eq!((old.exists(), large.exists()), (true, false));
    }

    #[test]
    fn what_was_never_put_in_order_goes_with_its_age_alone() {
        let state = tempfile::tempdir().unwrap();
        create_private_folder(&state.path().join(JOURNAL_FOLDER)).unwrap();
        let paths = ["call-1", "call-2"].map(|name| state.path().join(JOURNAL_FOLDER).join(name));
        paths.iter().for_each(|path| fs::write(path, "text").unwrap());
        let file = File::options().write(true).open(&paths[0]).unwrap();
        file.set_modified(SystemTime::now() - 2 * MAX_UNDO_AGE).unwrap();
        sweep(state.path(), 0);
        assert_eq!(paths.map(|path| path.exists()), [false, true]);
    }

    #[cfg(unix)]
    #[test]
    fn what_others_could_look_into_is_its_owners_alone() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let state = tempfile::tempdir().unwrap();
        let session = state.path().join(OUTPUT_FOLDER).join("session-1");
        fs::create_dir_all(&session).unwrap();
        let (backup, outside) = (session.join("1"), state.path().join("outside"));
        fs::create_dir(&backup).unwrap();
        fs::write(&outside, "").unwrap();
        symlink(&outside, state.path().join(OUTPUT_FOLDER).join("link")).unwrap();
        fs::hard_link(&outside, state.path().join(OUTPUT_FOLDER).join("linked")).unwrap();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let folders = [state.path(), &state.path().join(OUTPUT_FOLDER), &session];
        folders.iter().for_each(|folder| open(folder, 0o755));
        open(&backup, 0o755);
        open(&outside, 0o644);
        restrict_state_to_owner(state.path());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(folders.map(mode), [0o700; 3]);
        assert_eq!((mode(&backup), mode(&outside)), (0o755, 0o644));
    }
}
