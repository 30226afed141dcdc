//! Snapshots of the project folders. A snapshot is made before a command runs, so that the changes
//! of the command can be undone.
//!
//! The content of each file is copied once, into a file without a name. A later snapshot copies
//! only the files that have changed since. The folder `.git`, files that git ignores, and folders
//! whose content tools generate are not part of a snapshot.

mod record;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::collections::hash_map::Entry;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_sandbox::is_placeholder_at;

use crate::files::state::snapshots::{ContentCopies, SnapshotEntries, SnapshotEntry};
use crate::files::system::{Dir, EntryMetadata, FileKind, PinnedDirectory, file_clock_now};
use crate::files::walk::{EarlyStop, IgnoredFiles, IsCancelled, SearchBudget, Walk, WalkOrder};
use crate::files::workspace::git::git_dirs_with_submodules;
use crate::files::workspace::{Workspace, guard};
use crate::limits::{MAX_REPOSITORY_STATE_BYTES, MAX_SNAPSHOT_ENTRIES};

pub(crate) use self::record::RecordedChanges;

/// The state of the project folders before a command.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The time after the snapshot, in nanoseconds since the Unix epoch.
    taken: i128,
    /// The number of undo entries before the snapshot.
    undo_entries: u64,
    entries: Arc<SnapshotEntries>,
    copies: Arc<ContentCopies>,
    repositories: Vec<RepositoryState>,
    time_limit: Duration,
}

/// The reason why the changes of a command are not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSnapshot {
    /// The session keeps no backups, or the state folder cannot be used.
    NotKept,
    /// The project folders have too many entries. `is_repeated` states whether this was also the
    /// reason for an earlier command of the same prompt.
    TooLarge {
        is_repeated: bool,
    },
    /// Reading the project folders takes too long.
    TimedOut,
    Cancelled,
}

/// The files that change if the branch, the commit or the stash of a repository changes: their
/// contents, or their size if they are long.
type RepositoryState = (PathBuf, [Option<(u64, Vec<u8>)>; 3]);

impl Snapshot {
    /// Makes a snapshot of the project folders. Blocks. Neither this method nor
    /// [`record_changes`](Self::record_changes) reads an entry after the time limit.
    ///
    /// # Errors
    ///
    /// The copies that were made before a time limit or a cancellation are kept for the next
    /// snapshot.
    pub(crate) fn take(
        workspace: &Workspace,
        time_limit: Duration,
        is_cancelled: &IsCancelled<'_>,
    ) -> Result<Self, NoSnapshot> {
        let store = workspace.snapshot_store();
        store.wait_for_recordings(is_cancelled);
        let prompt = workspace.undo_store().prompt();
        if store.is_too_large_in_prompt(prompt) {
            return Err(NoSnapshot::TooLarge { is_repeated: true });
        }
        let take = || Self::take_without_retry(workspace, time_limit, is_cancelled);
        // The copies may have become full although many of them are outdated. The next attempt
        // starts with no copies then. If it takes too long, the first snapshot can still be used.
        let taken = match take() {
            Ok(snapshot) if store.is_restart_due() => take().or(Ok(snapshot)),
            taken => taken,
        };
        if let Err(NoSnapshot::TooLarge { .. }) = taken {
            store.set_too_large_in_prompt(prompt);
        }
        taken
    }

    fn take_without_retry(
        workspace: &Workspace,
        time_limit: Duration,
        is_cancelled: &IsCancelled<'_>,
    ) -> Result<Self, NoSnapshot> {
        let (store, undo_store) = (workspace.snapshot_store(), workspace.undo_store());
        let folder = undo_store.folder().ok_or(NoSnapshot::NotKept)?;
        let (earlier, copies) = store.last_or_new(folder).map_err(|error| {
            tracing::debug!(%error, "no files can be copied before a command");
            NoSnapshot::NotKept
        })?;
        let (started, undo_entries) = (file_clock_now(), undo_store.added_entry_count());
        let mut entries = SnapshotEntries::with_capacity(earlier.len());
        let scanned = scan(workspace, time_limit, is_cancelled, &mut |path, dir, metadata| {
            if let Entry::Vacant(place) = entries.entry(path) {
                let (path, earlier) = (place.key(), earlier.get(place.key()));
                let entry = SnapshotEntry::read_and_copy_content(
                    dir, path, metadata, earlier, &copies, started,
                );
                place.insert(entry);
            }
        });
        if scanned.is_err() {
            let unread = earlier.iter().filter(|(path, _)| !entries.contains_key(*path));
            let unread: Vec<_> =
                unread.map(|(path, entry)| (path.clone(), entry.clone())).collect();
            entries.extend(unread);
        }
        let entries = Arc::new(entries);
        store.set_last_if_copies_current(entries.clone(), &copies);
        scanned?;
        let repositories = repository_states(workspace);
        let taken = file_clock_now();
        Ok(Self { taken, undo_entries, entries, copies, repositories, time_limit })
    }
}

/// Calls `visit` for each entry of the project folders, with its path, its directory and its
/// metadata. Omits generated folders, the folders of the agent itself, and the placeholders of
/// sandboxed commands.
fn scan(
    workspace: &Workspace,
    time_limit: Duration,
    is_cancelled: &IsCancelled<'_>,
    visit: &mut dyn FnMut(PathBuf, &Dir, EntryMetadata),
) -> Result<(), NoSnapshot> {
    let budget = SearchBudget::new(is_cancelled).with_time_limit(time_limit);
    let mut count = 0;
    for root in workspace.roots() {
        let walk = workspace.resolve_host_path(root).and_then(|at| {
            Walk::new(workspace, &at, usize::MAX, WalkOrder::ByName, IgnoredFiles::Skip, budget)
        });
        // A project folder may have been removed.
        let Ok(walk) = walk else { continue };
        let agent_folders = guard::agent_folders(workspace);
        let agent_folders: Vec<_> = agent_folders.filter(|it| it.starts_with(root)).collect();
        let mut walk = walk.without_generated_folders();
        while let Some(found) = walk.next() {
            let (Some(dir), path) = (walk.current_directory(), walk.absolute(&found.path)) else {
                continue;
            };
            if agent_folders.iter().any(|folder| path.starts_with(folder)) {
                continue;
            }
            count += 1;
            if count > MAX_SNAPSHOT_ENTRIES {
                return Err(NoSnapshot::TooLarge { is_repeated: false });
            }
            // An entry that was removed meanwhile is not part of the snapshot.
            if let Ok(metadata) = dir.entry_metadata(path.file_name().unwrap_or_default())
                && !(metadata.kind == FileKind::Special && is_placeholder_at(&path))
            {
                visit(path, &dir, metadata);
            }
        }
        match walk.early_stop() {
            None => {}
            Some(EarlyStop::Cancelled) => return Err(NoSnapshot::Cancelled),
            Some(_) => return Err(NoSnapshot::TimedOut),
        }
    }
    Ok(())
}

/// Returns the states of the repositories of the project folders, of their submodules and of their
/// worktrees.
fn repository_states(workspace: &Workspace) -> Vec<RepositoryState> {
    let state = |folder: PathBuf| {
        let pinned = PinnedDirectory::pin(&folder).ok();
        let files = ["HEAD", "logs/HEAD", "refs/stash"].map(|file| {
            // Opening a pipe does not wait for its other end.
            let file = pinned.as_ref()?.open_file(Path::new(file)).ok()?;
            let mut start = Vec::new();
            (&file).take(MAX_REPOSITORY_STATE_BYTES).read_to_end(&mut start).ok()?;
            Some((file.metadata().ok()?.len(), start))
        });
        (folder, files)
    };
    workspace.roots().flat_map(git_dirs_with_submodules).map(state).collect()
}

/// Returns the time at which an entry was created, in nanoseconds since the Unix epoch. Returns
/// `None` if the file system does not store this time.
fn creation_time(dir: &Dir, path: &Path) -> Option<i128> {
    let name = path.file_name()?;
    let created = dir.hold_open(name).and_then(|file| file.metadata()?.created()).ok()?;
    let since = created.duration_since(std::time::UNIX_EPOCH).ok()?;
    i128::try_from(since.as_nanos()).ok()
}
