//! Records the changes since a snapshot as one change that can be undone.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use acp_types::{FileChange, FileChangeOperation, diff};

use super::{NoSnapshot, Snapshot, creation_time, repository_states, scan};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::DecodedText;
use crate::files::entry_fingerprint::EntryFingerprint;
use crate::files::state::snapshots::{EntryContent, SnapshotEntries, SnapshotEntry};
use crate::files::state::undo_entry::{
    Backup, FileOperation, ModeChange, UndoEntry, UnrecordedCause,
};
use crate::files::system::{
    Dir, EntryMetadata, FileId, FileKind, FileVisibility, link_count, read_all_if_within_limit,
};
use crate::files::workspace::Workspace;
use crate::limits::{
    MAX_DIFF_TIME, MAX_RECORDED_BYTES, MAX_RECORDED_CHANGES, MAX_SNAPSHOT_FILE_BYTES,
};

/// The changes since a snapshot, after they were recorded.
#[derive(Debug, Default)]
pub(crate) struct RecordedChanges {
    pub(crate) operations: Vec<FileOperation>,
    /// The changed paths that an undo cannot restore.
    pub(crate) unrecorded: Vec<PathBuf>,
    /// Whether nothing is recorded, because too many paths have changed.
    pub(crate) has_too_many: bool,
    /// Whether the branch, the commit or the stash of a repository has changed.
    pub(crate) has_other_commit: bool,
}

/// An entry of a snapshot, with its path.
type Entry<'a> = (&'a PathBuf, &'a SnapshotEntry);

/// A comparison of the project folders with a snapshot.
struct Comparison<'a> {
    snapshot: &'a Snapshot,
    workspace: &'a Workspace,
    may_record: &'a dyn Fn(&Path) -> bool,
    now: SnapshotEntries,
    /// The ids of the entries that the snapshot contains completely, computed at the first use.
    known_ids: OnceCell<HashSet<FileId>>,
    /// The ids of the files with several names whose change is recorded.
    recorded_ids: HashSet<FileId>,
    /// The last changes that other calls have made since the snapshot.
    changed_by_others: HashMap<&'a Path, &'a FileOperation>,
    /// The entries of the snapshot by their parents, after the first removal of a directory.
    children: OnceCell<HashMap<Option<&'a Path>, Vec<Entry<'a>>>>,
    /// Number of bytes that may still be recorded.
    room: u64,
    removals: Vec<FileOperation>,
    additions: Vec<FileOperation>,
    files: Vec<FileOperation>,
    unrecorded: Vec<PathBuf>,
}

impl Snapshot {
    /// Compares the project folders with the snapshot, and records the changes. Paths for which
    /// `may_record` returns false are not recorded. Blocks.
    pub(crate) fn record_changes(
        &self,
        workspace: &Workspace,
        may_record: &dyn Fn(&Path) -> bool,
    ) -> Result<RecordedChanges, NoSnapshot> {
        let unrecorded_roots = |cause| {
            let unrecorded =
                |root: &Path| FileOperation::Unrecorded { folder: root.to_owned(), cause };
            workspace.roots().map(unrecorded).collect()
        };
        let undo_store = workspace.undo_store();
        let mut now = SnapshotEntries::with_capacity(self.entries.len());
        let scanned = scan(workspace, self.time_limit, &|| false, &mut |path, dir, metadata| {
            let entry = SnapshotEntry::read_without_copying(dir, &path, metadata);
            now.insert(path, entry);
        });
        if let Err(why) = scanned {
            // An undo must not silently take back an earlier change instead. One entry is enough
            // for several commands.
            let unknown: Vec<_> = unrecorded_roots(UnrecordedCause::UnreadFolders);
            if undo_store.last().is_none_or(|(_, last)| last.operations != unknown) {
                undo_store.push(UndoEntry::of_command(unknown));
            }
            return Err(why);
        }
        // The newest entry is the first.
        let others = undo_store.entries_after(self.undo_entries);
        let others = others.iter().rev().flat_map(|entry| &entry.operations);
        // Changes that could not be found are no reason to ignore the rest of a project folder.
        let is_found =
            |operation: &&FileOperation| !matches!(operation, FileOperation::Unrecorded { .. });
        let changed = others
            .filter(is_found)
            .flat_map(|operation| operation.paths().map(move |path| (path, operation)));
        let changed_by_others = changed.collect();
        let mut comparison = Comparison {
            snapshot: self,
            workspace,
            may_record,
            now,
            known_ids: OnceCell::new(),
            recorded_ids: HashSet::new(),
            changed_by_others,
            children: OnceCell::new(),
            room: MAX_RECORDED_BYTES,
            removals: Vec::new(),
            additions: Vec::new(),
            files: Vec::new(),
            unrecorded: Vec::new(),
        };
        let has_too_many = !comparison.compare_all();
        let Comparison { removals, additions, files, mut unrecorded, .. } = comparison;
        let mut operations = [removals, additions, files].concat();
        if has_too_many {
            let backups = operations.iter().filter_map(FileOperation::backup);
            backups.for_each(|backup| undo_store.remove_backup(backup));
            operations = unrecorded_roots(UnrecordedCause::TooManyChanges);
            unrecorded = Vec::new();
        }
        undo_store.push(UndoEntry::of_command(operations.clone()));
        let has_other_commit = repository_states(workspace) != self.repositories;
        Ok(RecordedChanges { operations, unrecorded, has_too_many, has_other_commit })
    }
}

impl<'a> Comparison<'a> {
    /// Compares all entries. Returns false if there are too many changes.
    fn compare_all(&mut self) -> bool {
        let snapshot = self.snapshot;
        self.collect_overlapping_changes();
        let is_changed = |(path, before): &(&PathBuf, &SnapshotEntry)| {
            !self.now.get(*path).is_some_and(|now| before.is_surely_same(now))
        };
        let mut changed: Vec<_> = snapshot.entries.iter().filter(is_changed).collect();
        // The content of a directory follows the directory.
        changed.sort_unstable_by_key(|(path, _)| *path);
        let mut removed: Option<&Path> = None;
        for (path, before) in changed {
            if removed.is_some_and(|removed| path.starts_with(removed))
                || self.is_changed_by_other_call(path)
            {
                continue;
            }
            // An entry can be missing in the walk only because it is ignored now.
            let now = self.now.get(path).map_or_else(|| self.read_entry(path), |it| Ok(it.clone()));
            match now {
                Ok(now) if before.is_surely_same(&now) => {}
                Ok(now) if now.metadata.kind == before.metadata.kind => {
                    self.compare_entry(path, before, &now);
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    removed = Some(path);
                    self.record_unrecoverable(path);
                }
                _ => {
                    removed = Some(path);
                    self.record_removal(path, before);
                }
            }
            if self.change_count() > MAX_RECORDED_CHANGES {
                return false;
            }
        }
        self.record_all_additions()
    }

    /// Returns whether another call has changed the path, or has moved or removed a directory above
    /// it.
    fn is_changed_by_other_call(&self, path: &Path) -> bool {
        let is_of_other = |above: &Path| {
            let is_changed = |operation: &&FileOperation| {
                above == path || !matches!(operation, FileOperation::CreatedDirectory(_))
            };
            self.changed_by_others.get(above).is_some_and(is_changed)
        };
        !self.changed_by_others.is_empty() && path.ancestors().any(is_of_other)
    }

    /// Names the files that the command has changed after another call had changed them. They
    /// cannot be recorded, because the content between both changes is not known.
    fn collect_overlapping_changes(&mut self) {
        let is_changed = |(path, operation): &(&&Path, &&FileOperation)| match operation {
            FileOperation::Created { hash_after, .. }
            | FileOperation::Replaced { hash_after, .. }
            | FileOperation::CreatedLink { hash_after, .. } => {
                let name = path.file_name().unwrap_or_default();
                let found =
                    self.open_parent(path).and_then(|dir| EntryFingerprint::compute(&dir, name));
                !found.is_ok_and(|found| found.hash == *hash_after)
            }
            FileOperation::Moved { from, to, .. } if to == **path => {
                let file = |entry: &SnapshotEntry| {
                    let EntryMetadata { kind, file_id, bytes, modified, .. } = entry.metadata;
                    (kind == FileKind::File).then_some((file_id, bytes, modified))
                };
                let before = self.snapshot.entries.get(from).and_then(file);
                before.is_some() && self.now.get(**path).and_then(file) != before
            }
            FileOperation::Deleted { .. } | FileOperation::Moved { .. } => {
                self.now.contains_key(**path)
            }
            FileOperation::CreatedDirectory(_) => path.symlink_metadata().is_err(),
            FileOperation::Unrecoverable { .. } | FileOperation::Unrecorded { .. } => false,
        };
        let changed = self.changed_by_others.iter().filter(is_changed);
        let changed: Vec<_> = changed.map(|(path, _)| (*path).to_owned()).collect();
        self.unrecorded.extend(changed);
        self.unrecorded.sort();
    }

    /// Records all new entries. Returns false if there are too many changes.
    fn record_all_additions(&mut self) -> bool {
        let snapshot = self.snapshot;
        let is_new = |(path, now): &(PathBuf, SnapshotEntry)| {
            let before = snapshot.entries.get(path);
            before.is_none_or(|before| before.metadata.kind != now.metadata.kind)
        };
        let now = std::mem::take(&mut self.now);
        let mut new: Vec<_> = now.into_iter().filter(is_new).collect();
        new.sort_unstable_by(|(path, _), (other, _)| path.cmp(other));
        let mut unrecorded: Option<&Path> = None;
        for (path, now) in &new {
            if unrecorded.is_some_and(|folder| path.starts_with(folder))
                || self.is_changed_by_other_call(path)
            {
                continue;
            }
            if !self.record_addition(path, now).is_ok_and(|is_recorded| is_recorded) {
                self.unrecorded.push(path.clone());
                unrecorded = Some(path);
            }
            if self.change_count() > MAX_RECORDED_CHANGES {
                return false;
            }
        }
        true
    }

    fn change_count(&self) -> usize {
        self.removals.len() + self.additions.len() + self.files.len() + self.unrecorded.len()
    }

    /// Returns the directory that contains a path. Links in the path are not followed.
    fn open_parent(&self, path: &Path) -> io::Result<Dir> {
        let at = self.workspace.locate_without_following(path).map_err(io::Error::other)?;
        let parent = at.parent().ok_or(io::ErrorKind::InvalidInput)?;
        parent.root.pinned.open_dir_without_links(parent.path_in_root())
    }

    fn read_entry(&self, path: &Path) -> io::Result<SnapshotEntry> {
        let dir = self.open_parent(path)?;
        let metadata = dir.entry_metadata(path.file_name().unwrap_or_default())?;
        Ok(SnapshotEntry::read_without_copying(&dir, path, metadata))
    }

    /// Reads a changed file. Returns `None` if it is too large to be recorded.
    fn read_file(&mut self, dir: &Dir, path: &Path) -> io::Result<Option<(Vec<u8>, Metadata)>> {
        let file = dir.open_file(path.file_name().unwrap_or_default())?;
        let bytes = read_all_if_within_limit(&file, MAX_SNAPSHOT_FILE_BYTES.min(self.room))?;
        let Some(bytes) = bytes else { return Ok(None) };
        self.room -= bytes.len() as u64;
        Ok(Some((bytes, file.metadata()?)))
    }

    /// Reads the copy of a file. Returns `None` if there is no copy, or no room to record it.
    fn read_copy(&mut self, before: &SnapshotEntry) -> io::Result<Option<Vec<u8>>> {
        let EntryContent::File(Some(copy)) = &before.content else { return Ok(None) };
        let Some(room) = self.room.checked_sub(copy.bytes) else { return Ok(None) };
        self.room = room;
        self.snapshot.copies.read(copy).map(Some)
    }

    /// Returns whether the content of an entry is new, or known from the snapshot. An undo removes
    /// or replaces it, so it must not come from elsewhere.
    fn can_be_discarded_by_undo(&self, dir: &Dir, path: &Path, now: &EntryMetadata) -> bool {
        let known_ids = self.known_ids.get_or_init(|| {
            let is_complete = |entry: &&SnapshotEntry| {
                !matches!(entry.content, EntryContent::File(None) | EntryContent::Special)
            };
            let complete = self.snapshot.entries.values().filter(is_complete);
            complete.map(|entry| entry.metadata.file_id).collect()
        });
        let is_new =
            || creation_time(dir, path).is_some_and(|created| created >= self.snapshot.taken);
        known_ids.contains(&now.file_id) || is_new()
    }

    /// Compares an entry with an entry of the same kind.
    fn compare_entry(&mut self, path: &Path, before: &SnapshotEntry, now: &SnapshotEntry) {
        let recorded = match (&before.content, &now.content) {
            (EntryContent::Link(before_target), EntryContent::Link(target)) => {
                if before_target != target {
                    self.record_removal(path, before);
                    self.record_created_link(path, target);
                }
                return;
            }
            (EntryContent::File(copy), EntryContent::File(_)) => {
                if copy.is_none() && before.metadata == now.metadata {
                    return;
                }
                self.record_file_change(path, before, &now.metadata)
            }
            // The modes of directories cannot be restored.
            _ => Ok(before.metadata.mode == now.metadata.mode),
        };
        if !recorded.is_ok_and(|is_recorded| is_recorded) {
            self.record_unrecoverable(path);
        }
    }

    fn record_unrecoverable(&mut self, path: &Path) {
        self.removals.push(FileOperation::Unrecoverable { path: path.to_owned() });
        self.unrecorded.push(path.to_owned());
    }

    /// Records a change of a file. Returns whether the change is recorded, or the file is
    /// unchanged.
    fn record_file_change(
        &mut self,
        path: &Path,
        before: &SnapshotEntry,
        now: &EntryMetadata,
    ) -> io::Result<bool> {
        if !(self.may_record)(path) {
            return Ok(before.metadata == *now);
        }
        let (dir, room) = (self.open_parent(path)?, self.room);
        let Some(old) = self.read_copy(before)? else { return Ok(false) };
        let Some((bytes, metadata)) = self.read_file(&dir, path)? else { return Ok(false) };
        let is_replaced = before.metadata.file_id != now.file_id;
        // An undo writes to all names of a file that has several.
        let has_other_names = is_replaced && link_count(&metadata) > 1;
        if has_other_names || is_replaced && !self.can_be_discarded_by_undo(&dir, path, now) {
            return Ok(false);
        }
        let is_repeated = !is_replaced && !self.recorded_ids.insert(now.file_id);
        if is_repeated || old == bytes && before.metadata.mode == now.mode {
            // Nothing is recorded.
            self.room = room;
            return Ok(true);
        }
        let modes = ModeChange { before: Some(before.metadata.mode), after: now.mode };
        if (before.metadata.mode ^ now.mode) & 0o7000 != 0 {
            return Ok(false);
        }
        let backup = self.workspace.undo_store().write_backup(&old)?;
        let Some(backup) = backup else { return Ok(false) };
        self.files.push(FileOperation::Replaced {
            path: path.to_owned(),
            backup,
            hash_after: ContentHash::of_bytes(&bytes),
            modes: (before.metadata.mode != now.mode).then_some(modes),
        });
        Ok(true)
    }

    /// Records that an entry was removed, with all its content.
    fn record_removal(&mut self, path: &Path, before: &SnapshotEntry) {
        let mut lost = Vec::new();
        let store = self.workspace.undo_store();
        let built = store.build_backup_of_removed_entry(restored_mode(before), |dir, name| {
            self.build_copy(path, before, dir, name, &mut lost)
        });
        match built {
            Ok(Some(backup)) if lost.first().is_none_or(|lost| lost != path) => {
                self.removals.push(FileOperation::Deleted { path: path.to_owned(), backup });
                self.unrecorded.extend(lost);
            }
            _ => self.record_unrecoverable(path),
        }
    }

    /// Builds a copy of an entry at an unused name. Only its content gets the modes of the
    /// snapshot. Returns the number of bytes of its files. Adds the paths of the files without a
    /// copy to `lost`.
    fn build_copy(
        &mut self,
        path: &Path,
        entry: &SnapshotEntry,
        dir: &Dir,
        name: &OsStr,
        lost: &mut Vec<PathBuf>,
    ) -> io::Result<u64> {
        match &entry.content {
            EntryContent::Link(target) => dir.create_link(target, name).map(|()| 0),
            EntryContent::Directory => {
                dir.create_dir(name)?;
                let inner = dir.open_dir(name)?;
                let mut bytes = 0;
                for (child, entry) in self.children(path) {
                    let name = child.file_name().unwrap_or_default();
                    let lost_before = lost.len();
                    bytes += self.build_copy(child, entry, &inner, name, lost)?;
                    let is_lost = lost[lost_before..].first().is_some_and(|lost| lost == child);
                    if let Some(mode) = restored_mode(entry).filter(|_| !is_lost) {
                        inner.set_entry_mode(name, mode)?;
                    }
                }
                Ok(bytes)
            }
            EntryContent::File(_) | EntryContent::Special => {
                let content = match (self.may_record)(path) {
                    true => self.read_copy(entry)?,
                    false => None,
                };
                let Some(content) = content else {
                    lost.push(path.to_owned());
                    return Ok(0);
                };
                dir.create_new_file(name, FileVisibility::Owner)?.write_all(&content)?;
                Ok(content.len() as u64)
            }
        }
    }

    /// Returns the entries that a directory contained at the time of the snapshot.
    fn children(&self, path: &Path) -> Vec<Entry<'a>> {
        let snapshot = self.snapshot;
        let children = self.children.get_or_init(|| {
            let mut children = HashMap::<_, Vec<_>>::new();
            for entry in &*snapshot.entries {
                children.entry(entry.0.parent()).or_default().push(entry);
            }
            children
        });
        children.get(&Some(path)).cloned().unwrap_or_default()
    }

    /// Records a new entry. Returns false if the entry is not recorded.
    fn record_addition(&mut self, path: &Path, now: &SnapshotEntry) -> io::Result<bool> {
        let dir = self.open_parent(path)?;
        if !(self.may_record)(path) || !self.can_be_discarded_by_undo(&dir, path, &now.metadata) {
            return Ok(false);
        }
        match &now.content {
            EntryContent::Directory => {
                self.additions.push(FileOperation::CreatedDirectory(path.to_owned()));
            }
            EntryContent::Link(target) => self.record_created_link(path, target),
            EntryContent::File(_) => {
                let Some((bytes, _)) = self.read_file(&dir, path)? else { return Ok(false) };
                let hash_after = ContentHash::of_bytes(&bytes);
                self.files.push(FileOperation::Created { path: path.to_owned(), hash_after });
            }
            EntryContent::Special => return Ok(false),
        }
        Ok(true)
    }

    fn record_created_link(&mut self, path: &Path, target: &OsStr) {
        let hash_after = ContentHash::of_bytes(target.as_encoded_bytes());
        self.additions.push(FileOperation::CreatedLink { path: path.to_owned(), hash_after });
    }
}

/// Returns the mode with which an entry is restored. A file may get another owner, so it loses its
/// special bits.
fn restored_mode(entry: &SnapshotEntry) -> Option<u32> {
    match entry.content {
        EntryContent::Link(_) => None,
        EntryContent::Directory => Some(entry.metadata.mode),
        EntryContent::File(_) | EntryContent::Special => Some(entry.metadata.mode & 0o777),
    }
}

impl RecordedChanges {
    /// Returns the paths of the recorded changes.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let is_recorded = |operation: &&FileOperation| {
            !matches!(
                operation,
                FileOperation::Unrecoverable { .. } | FileOperation::Unrecorded { .. }
            )
        };
        self.operations.iter().filter(is_recorded).map(FileOperation::affected_path)
    }

    /// Returns the changed contents in the form in which clients show them. `show` returns the text
    /// that may be shown of a file, if any. Blocks.
    pub(crate) fn file_changes(
        &self,
        workspace: &Workspace,
        show: impl Fn(&Path, String) -> Option<String>,
    ) -> impl Iterator<Item = FileChange> {
        let deadline = Instant::now() + MAX_DIFF_TIME;
        self.operations.iter().filter_map(move |recorded| {
            let path = recorded.affected_path();
            let (operation, backup) = match recorded {
                FileOperation::Created { .. } => (FileChangeOperation::Add, None),
                FileOperation::Replaced { backup, .. } => {
                    (FileChangeOperation::Modify, Some(backup))
                }
                FileOperation::Deleted { backup, .. } => {
                    (FileChangeOperation::Delete, Some(backup))
                }
                _ => return None,
            };
            let old = |backup: &Backup| {
                let place = workspace.undo_store().existing_backup_path(backup)?;
                let is_file = place.symlink_metadata().is_ok_and(|it| it.is_file());
                is_file.then(|| workspace.undo_store().read(backup).ok())?
            };
            let new = || {
                let file = workspace.open_read_if_exists(path)?;
                read_all_if_within_limit(&file, MAX_SNAPSHOT_FILE_BYTES).ok()?
            };
            let text = |bytes: Option<Vec<u8>>| {
                let text = DecodedText::decode("", bytes?).ok()?.into_string();
                show(path, text)
            };
            let (before, after) =
                (backup.map(old), (operation != FileChangeOperation::Delete).then(new));
            if before.is_some() && before == after {
                // Only the mode has changed.
                return None;
            }
            let text = |bytes: Option<_>| bytes.map_or(Some(String::new()), text);
            Some(match (text(before), text(after)) {
                (Some(before), Some(after)) => {
                    diff::diff_texts(path, operation, &before, &after, deadline)
                }
                _ => FileChange::new(operation, path),
            })
        })
    }
}
