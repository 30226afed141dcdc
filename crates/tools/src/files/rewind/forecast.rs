//! Forecasts the result of a rewind without changing a file.
//!
//! Maps each affected path to its *place*. The place is the path at which the future content of the
//! affected path is stored now, e.g. the path of a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use acp_types::{FileChange, FileChangeOperation, diff};

use super::KeptFile;
use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::DecodedText;
use crate::files::state::undo_entry::{FileOperation, ModeChange, MovedEntry, UndoEntry};
use crate::files::system::{HasFileId as _, mode_bits, read_all_if_within_limit};
use crate::files::undo;
use crate::files::workspace::Workspace;
use crate::limits::{MAX_DIFF_TIME, MAX_REWIND_PATHS, MAX_WHOLE_FILE_BYTES};
use crate::note::Note;

/// The state that some files will have after the rewind.
pub(super) struct Forecast<'a> {
    workspace: &'a Workspace,
    /// The place of each path: the current path of its future content. The value is `None` if the
    /// path will not exist. If the map does not contain a path, the nearest parent in the map
    /// determines its place.
    places: BTreeMap<PathBuf, Option<PathBuf>>,
    /// The changes of modes. An undo restores a mode only if no other program has changed it.
    changed_modes: BTreeMap<PathBuf, ModeChange>,
    pub(super) kept: Vec<KeptFile>,
    /// The recorded paths of the operations that cannot be undone.
    pub(super) skipped: BTreeSet<PathBuf>,
    /// Whether an undo keeps content that it removes or replaces.
    pub(super) keeps_replaced_files: bool,
}

impl<'a> Forecast<'a> {
    pub(super) fn new(workspace: &'a Workspace) -> Self {
        Self {
            workspace,
            places: BTreeMap::new(),
            changed_modes: BTreeMap::new(),
            kept: Vec::new(),
            skipped: BTreeSet::new(),
            keeps_replaced_files: false,
        }
    }

    /// Forecasts the undo of an entry in the order of `UndoPlan::run`.
    pub(super) fn undo(&mut self, entry: &UndoEntry) -> Result<(), ToolError> {
        for operation in entry.operations.iter().rev() {
            match self.find_obstacle(operation)? {
                None => {
                    self.keeps_replaced_files |=
                        entry.is_of_command && operation.has_left_file_or_link();
                    self.undo_operation(operation);
                }
                Some(reason) => {
                    let path = operation.affected_path();
                    self.skipped.insert(path.to_owned());
                    self.kept.push(KeptFile::new(path, Note::new(reason)));
                }
            }
        }
        Ok(())
    }

    fn undo_operation(&mut self, operation: &FileOperation) {
        let store = self.workspace.undo_store();
        match operation {
            FileOperation::Created { path, .. } | FileOperation::CreatedLink { path, .. } => {
                self.set_content_source(self.resolve_links_in_parents(path), None);
            }
            FileOperation::Replaced { path, backup, modes, .. } => {
                let path = self.followed_path(path);
                if let Some(reverted) = modes.and_then(ModeChange::reverted) {
                    self.revert_mode(&path, reverted);
                }
                self.set_content_source(path, store.backup_path(backup));
            }
            FileOperation::Deleted { path, backup } => {
                self.set_content_source(
                    self.resolve_links_in_parents(path),
                    store.backup_path(backup),
                );
            }
            FileOperation::Moved { from, to, .. } => {
                self.move_back(
                    &self.resolve_links_in_parents(to),
                    self.resolve_links_in_parents(from),
                );
            }
            FileOperation::CreatedDirectory(path) => {
                let real = self.resolve_links_in_parents(path);
                if self.is_empty_directory(&real) {
                    // Do not use `set_content_source`, which would remove the entries of the paths
                    // in this directory. Each of these paths is a change to report.
                    self.places.insert(real, None);
                } else if self.exists(&real) {
                    let reason = Note::new(undo::REASON_NOT_EMPTY);
                    self.kept.push(KeptFile::new(path, reason));
                }
            }
            FileOperation::Unrecoverable { .. } | FileOperation::Unrecorded { .. } => {}
        }
    }

    fn revert_mode(&mut self, path: &Path, reverted: ModeChange) {
        let earlier = self.changed_modes.get(path);
        let current = self.current_path_for_mode_revert(path);
        let now = || fs::metadata(current).ok().map(|found| mode_bits(&found));
        let before = earlier.map_or_else(now, |earlier| earlier.before);
        let last = earlier.map(|earlier| earlier.after).or(before);
        if last == reverted.before {
            let change = ModeChange { before, after: reverted.after };
            self.changed_modes.insert(path.to_owned(), change);
        }
    }

    /// Returns the change of a file's mode that the rewind would cause.
    pub(super) fn mode_change(&self, path: &Path) -> Option<ModeChange> {
        let change = self.changed_modes.get(path).copied();
        change.filter(|modes| modes.before != Some(modes.after))
    }

    /// Returns the reason if an operation cannot be undone. The reason is the key of a message.
    fn find_obstacle(&self, operation: &FileOperation) -> Result<Option<&'static str>, ToolError> {
        let is_forecast = match operation {
            FileOperation::Moved { from, to, .. } => {
                self.is_forecast(&self.resolve_links_in_parents(from))
                    || self.is_forecast(&self.resolve_links_in_parents(to))
            }
            FileOperation::Replaced { path, .. } => self.is_forecast(&self.followed_path(path)),
            other => self.is_forecast(&self.resolve_links_in_parents(other.affected_path())),
        };
        if !is_forecast {
            return undo::find_obstacle(self.workspace, operation);
        }
        let store = self.workspace.undo_store();
        if operation.backup().is_some_and(|backup| store.existing_backup_path(backup).is_none()) {
            return Ok(Some(undo::REASON_NOT_KEPT));
        }
        Ok(match operation {
            FileOperation::CreatedDirectory(_) => None,
            FileOperation::Unrecoverable { .. } => Some(undo::REASON_NOT_KEPT),
            FileOperation::Unrecorded { cause, .. } => Some(undo::unrecorded_reason(*cause)),
            FileOperation::Created { path, hash_after } => {
                self.find_difference(&self.resolve_links_in_parents(path), *hash_after)
            }
            FileOperation::CreatedLink { path, hash_after } => {
                self.find_difference_of_link(&self.resolve_links_in_parents(path), *hash_after)
            }
            FileOperation::Replaced { path, hash_after, .. } => {
                self.find_difference(&self.followed_path(path), *hash_after)
            }
            FileOperation::Deleted { path, .. } => self.find_obstacle_at_name(
                &self.resolve_links_in_parents(path),
                undo::REASON_NAME_TAKEN,
            ),
            FileOperation::Moved { from, to, moved } => {
                match self.exists(&self.resolve_links_in_parents(to)) {
                    false => Some(undo::REASON_GONE),
                    true => self
                        .find_difference_of_moved(&self.resolve_links_in_parents(to), *moved)
                        .or_else(|| {
                            self.find_obstacle_at_name(
                                &self.resolve_links_in_parents(from),
                                undo::REASON_FORMER_NAME_TAKEN,
                            )
                        }),
                }
            }
        })
    }

    fn find_difference(&self, path: &Path, expected: ContentHash) -> Option<&'static str> {
        let Some(place) = self.content_source(path) else { return Some(undo::REASON_GONE) };
        match place.symlink_metadata() {
            Err(_) => Some(undo::REASON_GONE),
            Ok(found) if !found.is_file() => Some(undo::REASON_CHANGED),
            Ok(_) => match read_bounded(&place) {
                Ok(bytes) if ContentHash::of_bytes(&bytes) == expected => None,
                _ => Some(undo::REASON_CHANGED),
            },
        }
    }

    fn find_difference_of_moved(
        &self,
        path: &Path,
        moved: Option<MovedEntry>,
    ) -> Option<&'static str> {
        let found = self.content_source(path)?.symlink_metadata().ok()?;
        let is_readable = found.len() <= MAX_WHOLE_FILE_BYTES;
        match moved? {
            // The hash of a large file is not the hash of its bytes.
            MovedEntry::File(hash) if is_readable || !found.is_file() => {
                self.find_difference(path, hash)
            }
            MovedEntry::File(_) => None,
            MovedEntry::Link(hash) => self.find_difference_of_link(path, hash),
            MovedEntry::Directory(number) => {
                let is_same = found.is_dir() && found.file_id().is_ok_and(|(_, id)| id == number);
                (!is_same).then_some(undo::REASON_CHANGED)
            }
        }
    }

    fn find_difference_of_link(&self, path: &Path, expected: ContentHash) -> Option<&'static str> {
        let place = self.content_source(path).filter(|place| exists(place));
        let Some(place) = place else { return Some(undo::REASON_GONE) };
        let target = fs::read_link(place);
        let is_same = target.is_ok_and(|target| {
            ContentHash::of_bytes(target.as_os_str().as_encoded_bytes()) == expected
        });
        (!is_same).then_some(undo::REASON_CHANGED)
    }

    fn find_obstacle_at_name(&self, path: &Path, taken: &'static str) -> Option<&'static str> {
        let is_file = |above: &Path| {
            let place = self.content_source(above);
            place.is_some_and(|place| place.symlink_metadata().is_ok_and(|found| !found.is_dir()))
        };
        match self.exists(path) {
            true => Some(taken),
            false => path.ancestors().skip(1).any(is_file).then_some(undo::REASON_FOLDER_TAKEN),
        }
    }

    /// Resolves the links in the parent folders of a path, so that each file has only one name. The
    /// last component is not followed. A folder that will be restored is not followed either, even
    /// if it is a link now.
    fn resolve_links_in_parents(&self, path: &Path) -> PathBuf {
        let mut above = path.ancestors().skip(1);
        let real = above.find_map(|above| {
            let real = fs::canonicalize(above).ok()?;
            Some(real.join(path.strip_prefix(above).ok()?))
        });
        if real.as_deref().is_none_or(|real| real == path) {
            return path.to_owned();
        }
        let mut real = PathBuf::new();
        let mut parts = path.iter().peekable();
        while let Some(part) = parts.next() {
            real.push(part);
            if self.places.contains_key(&real) {
                break;
            }
            if parts.peek().is_some() {
                real = fs::canonicalize(&real).unwrap_or(real);
            }
        }
        real.extend(parts);
        real
    }

    /// Returns the path that a write would change. If the file is a link, this is the path of the
    /// link's target.
    fn followed_path(&self, path: &Path) -> PathBuf {
        let real = self.resolve_links_in_parents(path);
        if self.is_forecast(&real) { real } else { fs::canonicalize(&real).unwrap_or(real) }
    }

    fn content_source(&self, path: &Path) -> Option<PathBuf> {
        let mut above = path.ancestors();
        let found = above.find_map(|above| Some((above, self.places.get(above)?)));
        let Some((above, place)) = found else { return Some(path.to_owned()) };
        let beneath = path.strip_prefix(above).unwrap_or(Path::new(""));
        let place = place.as_ref()?;
        Some(join_unless_empty(place, beneath))
    }

    /// Returns whether the map has an entry for the path, for one of its parents, or for a path
    /// beneath it.
    fn is_forecast(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.places.contains_key(above))
            || self.content_sources_beneath(path).next().is_some()
    }

    fn content_sources_beneath<'b>(
        &'b self,
        path: &'b Path,
    ) -> impl Iterator<Item = (&'b PathBuf, &'b Option<PathBuf>)> {
        // Paths are compared component by component, so the paths beneath a path directly follow it
        // in the map.
        let after = (std::ops::Bound::Excluded(path), std::ops::Bound::Unbounded);
        self.places.range::<Path, _>(after).take_while(move |(other, _)| other.starts_with(path))
    }

    fn exists(&self, path: &Path) -> bool {
        self.content_source(path).is_some_and(|place| exists(&place))
            // If a file in a folder will be restored, the folder will exist too.
            || self.content_sources_beneath(path).any(|(_, place)| place.as_deref().is_some_and(exists))
    }

    fn is_empty_directory(&self, path: &Path) -> bool {
        let Some(place) = self.content_source(path) else { return false };
        if !is_directory(&place) {
            return false;
        }
        let names = fs::read_dir(place).into_iter().flatten().flatten();
        let mut names = names.map(|entry| path.join(entry.file_name()));
        !names.any(|child| self.exists(&child))
            && !self.content_sources_beneath(path).any(|(child, _)| self.exists(child))
    }

    fn set_content_source(&mut self, path: PathBuf, place: Option<PathBuf>) {
        let beneath: Vec<_> =
            self.content_sources_beneath(&path).map(|(other, _)| other.clone()).collect();
        for other in beneath {
            self.places.remove(&other);
        }
        self.places.insert(path, place);
    }

    fn move_back(&mut self, to: &Path, from: PathBuf) {
        let place = self.content_source(to);
        let beneath: Vec<_> = self
            .content_sources_beneath(to)
            .filter_map(|(path, place)| {
                Some((path.strip_prefix(to).ok()?.to_owned(), place.clone()))
            })
            .collect();
        self.set_content_source(to.to_owned(), None);
        self.set_content_source(from.clone(), place);
        for (path, place) in beneath {
            self.places.insert(from.join(path), place);
        }
        let moved_path = |path: &Path| Some(join_unless_empty(&from, path.strip_prefix(to).ok()?));
        for kept in &mut self.kept {
            if let Some(path) = moved_path(&kept.path) {
                kept.path = path;
            }
        }
        let modes = std::mem::take(&mut self.changed_modes).into_iter();
        self.changed_modes =
            modes.map(|(path, modes)| (moved_path(&path).unwrap_or(path), modes)).collect();
    }

    /// Returns the current path of a file that the rewind moves, alone or with its folder. Returns
    /// `None` if the path of the file stays the same, or if no file is moved.
    pub(super) fn current_path_if_moved(&self, path: &Path) -> Option<PathBuf> {
        let place = self.content_source(path).filter(|place| place != path && exists(place))?;
        (!self.is_backup(&place)).then_some(place)
    }

    /// Returns the current path of the entry that a moved folder would bring to `path` if `path`
    /// had no place that differs. So the rewind removes this entry, or moves it elsewhere.
    fn displaced_path_in_moved_folder(&self, path: &Path) -> Option<PathBuf> {
        let mut folders = path.ancestors().skip(1);
        let (folder, place) = folders.find_map(|it| Some((it, self.places.get(it)?)))?;
        let place = place.as_ref().filter(|place| !self.is_backup(place))?;
        let found = place.join(path.strip_prefix(folder).ok()?);
        (found != path && self.content_source(path).as_ref() != Some(&found)).then_some(found)
    }

    /// Returns the current path of a file that the rewind changes and moves with its folder.
    fn path_before_move_and_change(&self, path: &Path) -> Option<PathBuf> {
        let from = self.displaced_path_in_moved_folder(path)?;
        let is_file = |at: &Path| at.symlink_metadata().is_ok_and(|found| !found.is_dir());
        let is_restored = |place: PathBuf| is_file(&place) && self.exists(&place) && !exists(path);
        let is_replaced = is_file(&from) && !self.exists(&from) && !self.is_moved_away(&from);
        (is_replaced && self.content_source(path).is_some_and(is_restored)).then_some(from)
    }

    /// Returns the current path of the file whose mode an undo at `path` reverts.
    fn current_path_for_mode_revert(&self, path: &Path) -> PathBuf {
        let place = self.content_source(path).filter(|place| !self.is_backup(place));
        place
            .or_else(|| self.displaced_path_in_moved_folder(path))
            .unwrap_or_else(|| path.to_owned())
    }

    fn is_backup(&self, place: &Path) -> bool {
        let folder = self.workspace.undo_store().session_folder_if_created();
        folder.is_some_and(|folder| place.starts_with(folder))
    }

    /// If `path` is a directory that will be replaced or removed, adds all paths in it. Stops when
    /// `paths` exceeds the limit.
    fn add_paths_in_replaced_directory(&self, path: &Path, paths: &mut BTreeSet<PathBuf>) {
        let place = self.content_source(path).filter(|place| exists(place));
        let is_replaced = place.as_deref().is_none_or(|place| place != path);
        if !is_directory(path) || !is_replaced || self.is_moved_away(path) {
            return;
        }
        let folders = [Some(path), place.as_deref()].into_iter().flatten();
        let entries =
            folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        let names: BTreeSet<_> = entries.map(|entry| entry.file_name()).collect();
        for name in names {
            let child = path.join(name);
            if paths.len() <= MAX_REWIND_PATHS && paths.insert(child.clone()) {
                self.add_paths_in_replaced_directory(&child, paths);
            }
        }
    }

    /// Returns whether the content of a path will be moved to a new path that does not exist yet.
    fn is_moved_away(&self, path: &Path) -> bool {
        let mut places = self.places.iter();
        places.any(|(other, place)| place.as_deref() == Some(path) && !exists(other))
            && !self.exists(path)
    }

    /// Returns the differences between the current and the future contents of the files. Adds the
    /// hashes of both contents to the fingerprint.
    pub(super) fn collect_changes_and_fingerprint(
        &self,
        fingerprint: &mut Vec<u8>,
    ) -> Result<Vec<FileChange>, ToolError> {
        let (mut changes, deadline) = (Vec::new(), Instant::now() + MAX_DIFF_TIME);
        let changed_and_moved: BTreeMap<_, _> = self
            .places
            .keys()
            .filter_map(|path| Some((path, self.path_before_move_and_change(path)?)))
            .collect();
        let changed_before_move: BTreeSet<_> = changed_and_moved.values().collect();
        for path in &self.affected_paths()? {
            let place = self.content_source(path);
            let from = changed_and_moved.get(path);
            let now = ComparableContent::read(from.unwrap_or(path));
            let then = place.as_deref().map_or(ComparableContent::Missing, ComparableContent::read);
            let change = match from {
                Some(from) => {
                    let operation = FileChangeOperation::Move { from: from.clone() };
                    self.content_change(path, operation, (&now, &then), deadline)
                }
                // The change of this file is reported for its new path.
                None if changed_before_move.contains(path) => None,
                None => self.change(path, place.as_deref(), (&now, &then), deadline),
            };
            if let Some(change) = change {
                let name = ContentHash::of_bytes(path.as_os_str().as_encoded_bytes());
                let hashes = [name, now.hash(), then.hash()];
                hashes.iter().for_each(|hash| fingerprint.extend(hash.as_bytes()));
                changes.push(change);
            }
        }
        Ok(changes)
    }

    /// Returns the paths whose content may change.
    fn affected_paths(&self) -> Result<BTreeSet<PathBuf>, ToolError> {
        let replaced =
            self.places.keys().filter_map(|path| self.displaced_path_in_moved_folder(path));
        let mut paths: BTreeSet<_> = self.places.keys().cloned().chain(replaced).collect();
        for path in paths.clone() {
            self.add_paths_in_replaced_directory(&path, &mut paths);
        }
        if paths.len() > MAX_REWIND_PATHS {
            let message =
                format!("More than {MAX_REWIND_PATHS} paths would change. Undo single calls.");
            return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
        }
        Ok(paths)
    }

    /// Returns the change of a path from its current to its future content.
    fn change(
        &self,
        path: &Path,
        place: Option<&Path>,
        contents: (&ComparableContent, &ComparableContent),
        deadline: Instant,
    ) -> Option<FileChange> {
        let change = |operation| self.content_change(path, operation, contents, deadline);
        match contents {
            (ComparableContent::Missing, ComparableContent::Missing) => None,
            (ComparableContent::Missing, _) => match place {
                Some(from) if !self.exists(from) => {
                    Some(FileChange::new(FileChangeOperation::Move { from: from.to_owned() }, path))
                }
                _ => change(FileChangeOperation::Add),
            },
            // A moved path is reported as a change of its new path. A restored file in a removed
            // directory keeps the directory.
            (_, ComparableContent::Missing) if self.is_moved_away(path) || self.exists(path) => {
                None
            }
            (_, ComparableContent::Missing) => change(FileChangeOperation::Delete),
            _ => change(FileChangeOperation::Modify),
        }
    }

    /// Returns the change of a content. Returns `None` if the content and the mode stay the same.
    fn content_change(
        &self,
        path: &Path,
        operation: FileChangeOperation,
        (now, then): (&ComparableContent, &ComparableContent),
        deadline: Instant,
    ) -> Option<FileChange> {
        if now == then {
            // The texts are left out, because clients show two equal texts as a change.
            return self.mode_change(path).map(|_| FileChange::new(operation, path));
        }
        Some(match (now.text(), then.text()) {
            (Some(now), Some(then)) => diff::diff_texts(path, operation, &now, &then, deadline),
            _ => FileChange::new(operation, path),
        })
    }
}

/// The content of a path in the form in which contents are compared and shown.
#[derive(PartialEq)]
enum ComparableContent {
    Missing,
    Bytes(Vec<u8>),
    Directory,
    /// A link with its target.
    Link(PathBuf),
    /// A file that is too large or cannot be read. The value is its size.
    Unread(u64),
}

impl ComparableContent {
    fn read(place: &Path) -> Self {
        let Ok(found) = place.symlink_metadata() else { return Self::Missing };
        if found.is_dir() {
            return Self::Directory;
        }
        if found.is_symlink() {
            return Self::Link(fs::read_link(place).unwrap_or_default());
        }
        read_bounded(place).map_or(Self::Unread(found.len()), Self::Bytes)
    }

    fn text(&self) -> Option<String> {
        match self {
            Self::Missing => Some(String::new()),
            Self::Bytes(bytes) => {
                DecodedText::decode("", bytes.clone()).ok().map(DecodedText::into_string)
            }
            Self::Directory | Self::Link(_) | Self::Unread(_) => None,
        }
    }

    fn hash(&self) -> ContentHash {
        let (kind, bytes) = match self {
            Self::Missing => (0, [].as_slice()),
            Self::Bytes(bytes) => (1, &bytes[..]),
            Self::Directory => (2, [].as_slice()),
            Self::Link(target) => (3, target.as_os_str().as_encoded_bytes()),
            Self::Unread(bytes) => (4, &bytes.to_le_bytes()[..]),
        };
        ContentHash::of_bytes(&[&[kind], bytes].concat())
    }
}

/// Joins two paths. An empty second path does not add a separator.
fn join_unless_empty(folder: &Path, beneath: &Path) -> PathBuf {
    if beneath.as_os_str().is_empty() { folder.to_owned() } else { folder.join(beneath) }
}

fn exists(place: &Path) -> bool {
    place.symlink_metadata().is_ok()
}

fn is_directory(place: &Path) -> bool {
    place.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn read_bounded(place: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its other end.
    if !fs::metadata(place)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = read_all_if_within_limit(&fs::File::open(place)?, MAX_WHOLE_FILE_BYTES)?;
    bytes.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}
