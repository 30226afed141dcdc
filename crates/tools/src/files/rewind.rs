//! Restores the files to their state before a prompt: undoes every change of the prompt and of all
//! later prompts, the newest change first.
//!
//! The plan forecasts the result without changing a file. For this purpose, it maps each affected
//! path to its *place*. The place is the path at which the future content of the affected path is
//! stored now, e.g. the path of a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use acp_types::{FileChange, Operation, diff};

use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::DecodedText;
use crate::files::state::undo_entry::{FileOperation, UndoEntry};
use crate::files::system::read_to_cap;
use crate::files::undo::{self, UndoPlan};
use crate::files::workspace::Workspace;
use crate::limits::{MAX_DIFF_TIME, MAX_REWIND_PATHS, MAX_WHOLE_FILE_BYTES};
use crate::note::Note;

/// The changes since a prompt, ready to be undone.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (cwd, state) = (directory.path().join("cwd"), directory.path().join("state"));
/// # std::fs::create_dir(&cwd)?;
/// use acp_tools::Workspace;
/// use acp_tools::files::{rewind::RewindPlan, write};
///
/// let workspace = Workspace::new(cwd.clone(), Vec::new())?.with_state_folder(&state);
/// for (prompt, name) in [(1, "first"), (2, "second")] {
///     workspace.begin_prompt(prompt);
///     let at = workspace.resolve(name)?;
///     write::atomic_write(&workspace, &at, b"text", &write::PreImage::Missing)?;
/// }
/// RewindPlan::before_prompt(&workspace, 2)?.run(&workspace)?;
/// assert!(cwd.join("first").exists() && !cwd.join("second").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RewindPlan {
    prompt: u32,
    /// The numbers of the undo entries, the newest first.
    entries: Vec<u64>,
    /// The paths that the undone calls changed.
    paths: BTreeSet<PathBuf>,
    changes: Vec<FileChange>,
    kept: Vec<KeptFile>,
    /// Whether the rewind keeps files that it removes or replaces.
    keeps_replaced_files: bool,
    fingerprint: Vec<u8>,
}

/// A file that stays as it is, although a call changed it since the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The reason, as a clause for the end of a sentence about the file.
    pub reason: Note,
}

impl KeptFile {
    /// Creates a file whose earlier content is not stored.
    #[must_use]
    pub fn without_backup(path: &Path) -> Self {
        Self { path: path.to_owned(), reason: Note::new(undo::REASON_NOT_KEPT) }
    }

    /// Returns a sentence that names the file and the reason.
    #[must_use]
    pub fn note(&self, workspace: &Workspace) -> Note {
        let note = Note::new("stays").with_text("path", workspace.display(&self.path));
        note.with_notes("why", [self.reason.clone()], "")
    }
}

impl RewindPlan {
    /// Forecasts the changes of restoring the files to their state before a prompt. Changes no
    /// file. A file that another program has changed in the meantime will not be restored, and
    /// [`Self::kept()`] contains it. This method may block.
    ///
    /// # Errors
    ///
    /// `not_permitted`, `io` if a file cannot be inspected.
    pub fn before_prompt(workspace: &Workspace, prompt: u32) -> Result<Self, ToolError> {
        workspace.snapshot_store().wait_for_late_recordings();
        let entries = workspace.undo_store().entries_since_prompt(prompt);
        let mut forecast = Forecast::new(workspace);
        for (_, entry) in &entries {
            forecast.undo(entry)?;
        }
        let mut fingerprint = prompt.to_le_bytes().to_vec();
        let of_commands = entries.iter().filter(|(_, entry)| entry.is_of_command);
        let replaced: Vec<_> = of_commands
            .flat_map(|(_, entry)| &entry.operations)
            .filter(|operation| {
                matches!(
                    operation,
                    FileOperation::Created { .. }
                        | FileOperation::CreatedLink { .. }
                        | FileOperation::Replaced { .. }
                )
            })
            .map(|operation| operation.affected_path().to_owned())
            .collect();
        let operations = entries.iter().flat_map(|(_, entry)| &entry.operations);
        let mut paths: BTreeSet<_> =
            operations.map(|operation| operation.affected_path().to_owned()).collect();
        let entries: Vec<_> = entries.into_iter().map(|(number, _)| number).collect();
        entries.iter().for_each(|number| fingerprint.extend(number.to_le_bytes()));
        for path in workspace.undo_store().lost_paths_since_prompt(prompt) {
            forecast.kept.push(KeptFile::without_backup(&path));
            paths.insert(path);
        }
        let changes = forecast.changes(&mut fingerprint)?;
        let mut kept = forecast.kept;
        kept.sort_by(|a, b| a.path.cmp(&b.path));
        kept.dedup();
        for KeptFile { path, reason } in &kept {
            let reason = reason.to_string();
            let text = [path.as_os_str().as_encoded_bytes(), b"\0", reason.as_bytes()].concat();
            fingerprint.extend(ContentHash::of_bytes(&text).as_bytes());
        }
        let fingerprint = ContentHash::of_bytes(&fingerprint).as_bytes().to_vec();
        let is_kept = |path: &PathBuf| kept.iter().any(|kept| kept.path == *path);
        let keeps_replaced_files = !replaced.iter().all(is_kept);
        Ok(Self { prompt, entries, paths, changes, kept, keeps_replaced_files, fingerprint })
    }

    /// Returns the path of each file that a call changed since the prompt.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// Returns the changes that the rewind would cause, sorted by path.
    #[must_use]
    pub fn changes(&self) -> &[FileChange] {
        &self.changes
    }

    /// Returns the files that stay as they are.
    #[must_use]
    pub fn kept(&self) -> &[KeptFile] {
        &self.kept
    }

    /// Returns a hash of the current and the future contents of the files, for comparison with the
    /// preview.
    #[must_use]
    pub fn fingerprint(&self) -> &[u8] {
        &self.fingerprint
    }

    /// Returns the folder in which the rewind keeps the files that it removes or replaces, if it keeps
    /// some. These are the files that a command changed, because another program may have changed them
    /// too.
    #[must_use]
    pub fn folder_of_replaced_files(&self, workspace: &Workspace) -> Option<PathBuf> {
        workspace.undo_store().session_folder().filter(|_| self.keeps_replaced_files)
    }

    /// Undoes the changes. Each call is undone completely or not at all.
    ///
    /// # Errors
    ///
    /// `changed_since_preview` if a file was changed since the preview. `not_permitted` or `io` if
    /// a file cannot be changed; calls that this method has already undone stay undone.
    pub fn run(self, workspace: &Workspace) -> Result<(), ToolError> {
        if Self::before_prompt(workspace, self.prompt)?.fingerprint != self.fingerprint {
            return Err(changed_meanwhile());
        }
        self.undo_entries(workspace)?;
        workspace.undo_store().record_rewind(self.prompt);
        Ok(())
    }

    fn undo_entries(&self, workspace: &Workspace) -> Result<(), ToolError> {
        for number in &self.entries {
            let plan = UndoPlan::for_last_change(workspace)?;
            let is_kept = |path: &Path| self.kept.iter().any(|kept| kept.path == path);
            // Another program may change a file after the comparison of the fingerprints.
            if plan.number() != *number || !plan.skipped().all(|skipped| is_kept(&skipped.path)) {
                return Err(changed_meanwhile());
            }
            plan.run(workspace)?;
        }
        Ok(())
    }
}

fn changed_meanwhile() -> ToolError {
    let message = "A file was changed meanwhile. Preview the change again.";
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

/// The state that some files will have after the rewind.
struct Forecast<'a> {
    workspace: &'a Workspace,
    /// The place of each path: the current path of its future content. The value is `None` if the
    /// path will not exist. If the map does not contain a path, the nearest parent in the map
    /// determines its place.
    places: BTreeMap<PathBuf, Option<PathBuf>>,
    /// The files whose mode changes.
    changed_modes: BTreeSet<PathBuf>,
    kept: Vec<KeptFile>,
}

impl<'a> Forecast<'a> {
    fn new(workspace: &'a Workspace) -> Self {
        let (places, changed_modes) = (BTreeMap::new(), BTreeSet::new());
        Self { workspace, places, changed_modes, kept: Vec::new() }
    }

    /// Forecasts the undo of an entry in the order of [`UndoPlan::run`].
    fn undo(&mut self, entry: &UndoEntry) -> Result<(), ToolError> {
        for operation in entry.operations.iter().rev() {
            match self.find_obstacle(operation)? {
                None => self.undo_operation(operation),
                Some(reason) => {
                    let path = operation.affected_path().to_owned();
                    self.kept.push(KeptFile { path, reason: Note::new(reason) });
                }
            }
        }
        Ok(())
    }

    fn undo_operation(&mut self, operation: &FileOperation) {
        let store = self.workspace.undo_store();
        match operation {
            FileOperation::Created { path, .. } | FileOperation::CreatedLink { path, .. } => {
                self.set_place(self.real_path(path), None);
            }
            FileOperation::Replaced { path, backup, modes, .. } => {
                let path = self.followed_path(path);
                if modes.is_some_and(|modes| modes.before != Some(modes.after)) {
                    self.changed_modes.insert(path.clone());
                }
                self.set_place(path, store.backup_path(backup));
            }
            FileOperation::Deleted { path, backup } => {
                self.set_place(self.real_path(path), store.backup_path(backup));
            }
            FileOperation::Moved { from, to } => {
                self.move_back(&self.real_path(to), self.real_path(from));
            }
            FileOperation::CreatedDirectory(path) => {
                if self.is_empty_directory(&self.real_path(path)) {
                    // Do not use `set_place`, which would remove the entries of the paths in this
                    // directory. Each of these paths is a change to report.
                    self.places.insert(self.real_path(path), None);
                }
            }
            FileOperation::Unrecoverable { .. } => {}
        }
    }

    /// Returns the reason if an operation cannot be undone. The reason is the key of a message.
    fn find_obstacle(&self, operation: &FileOperation) -> Result<Option<&'static str>, ToolError> {
        let is_forecast = match operation {
            FileOperation::Moved { from, to } => {
                self.is_forecast(&self.real_path(from)) || self.is_forecast(&self.real_path(to))
            }
            FileOperation::Replaced { path, .. } => self.is_forecast(&self.followed_path(path)),
            other => self.is_forecast(&self.real_path(other.affected_path())),
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
            FileOperation::Created { path, hash_after } => {
                self.find_difference(&self.real_path(path), *hash_after)
            }
            FileOperation::CreatedLink { path, hash_after } => {
                self.find_difference_of_link(&self.real_path(path), *hash_after)
            }
            FileOperation::Replaced { path, hash_after, .. } => {
                self.find_difference(&self.followed_path(path), *hash_after)
            }
            FileOperation::Deleted { path, .. } => {
                self.find_obstacle_at_name(&self.real_path(path), undo::REASON_NAME_TAKEN)
            }
            FileOperation::Moved { from, to } => match self.exists(&self.real_path(to)) {
                false => Some(undo::REASON_GONE),
                true => self
                    .find_obstacle_at_name(&self.real_path(from), undo::REASON_FORMER_NAME_TAKEN),
            },
        })
    }

    fn find_difference(&self, path: &Path, expected: ContentHash) -> Option<&'static str> {
        let Some(place) = self.place(path) else { return Some(undo::REASON_GONE) };
        match place.symlink_metadata() {
            Err(_) => Some(undo::REASON_GONE),
            Ok(found) if !found.is_file() => Some(undo::REASON_CHANGED),
            Ok(_) => match read_bounded(&place) {
                Ok(bytes) if ContentHash::of_bytes(&bytes) == expected => None,
                _ => Some(undo::REASON_CHANGED),
            },
        }
    }

    fn find_difference_of_link(&self, path: &Path, expected: ContentHash) -> Option<&'static str> {
        let place = self.place(path).filter(|place| exists(place));
        let Some(place) = place else { return Some(undo::REASON_GONE) };
        let target = fs::read_link(place);
        let is_same = target.is_ok_and(|target| {
            ContentHash::of_bytes(target.as_os_str().as_encoded_bytes()) == expected
        });
        (!is_same).then_some(undo::REASON_CHANGED)
    }

    fn find_obstacle_at_name(&self, path: &Path, taken: &'static str) -> Option<&'static str> {
        let is_file = |above: &Path| {
            let place = self.place(above);
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
    fn real_path(&self, path: &Path) -> PathBuf {
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
        let real = self.real_path(path);
        if self.is_forecast(&real) { real } else { fs::canonicalize(&real).unwrap_or(real) }
    }

    fn place(&self, path: &Path) -> Option<PathBuf> {
        let mut above = path.ancestors();
        let found = above.find_map(|above| Some((above, self.places.get(above)?)));
        let Some((above, place)) = found else { return Some(path.to_owned()) };
        let beneath = path.strip_prefix(above).unwrap_or(Path::new(""));
        let place = place.as_ref()?;
        Some(if beneath.as_os_str().is_empty() { place.clone() } else { place.join(beneath) })
    }

    /// Returns whether the map has an entry for the path, for one of its parents, or for a path
    /// beneath it.
    fn is_forecast(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.places.contains_key(above))
            || self.places_beneath(path).next().is_some()
    }

    fn places_beneath<'b>(
        &'b self,
        path: &'b Path,
    ) -> impl Iterator<Item = (&'b PathBuf, &'b Option<PathBuf>)> {
        // Paths are compared component by component, so the paths beneath a path directly follow it
        // in the map.
        let after = (std::ops::Bound::Excluded(path), std::ops::Bound::Unbounded);
        self.places.range::<Path, _>(after).take_while(move |(other, _)| other.starts_with(path))
    }

    fn exists(&self, path: &Path) -> bool {
        self.place(path).is_some_and(|place| exists(&place))
            // If a file in a folder will be restored, the folder will exist too.
            || self.places_beneath(path).any(|(_, place)| place.as_deref().is_some_and(exists))
    }

    fn is_empty_directory(&self, path: &Path) -> bool {
        let Some(place) = self.place(path) else { return false };
        if !is_directory(&place) {
            return false;
        }
        let names = fs::read_dir(place).into_iter().flatten().flatten();
        let mut names = names.map(|entry| path.join(entry.file_name()));
        !names.any(|child| self.exists(&child))
            && !self.places_beneath(path).any(|(child, _)| self.exists(child))
    }

    fn set_place(&mut self, path: PathBuf, place: Option<PathBuf>) {
        let beneath: Vec<_> = self.places_beneath(&path).map(|(other, _)| other.clone()).collect();
        for other in beneath {
            self.places.remove(&other);
        }
        self.places.insert(path, place);
    }

    fn move_back(&mut self, to: &Path, from: PathBuf) {
        let place = self.place(to);
        let beneath: Vec<_> = self
            .places_beneath(to)
            .filter_map(|(path, place)| {
                Some((path.strip_prefix(to).ok()?.to_owned(), place.clone()))
            })
            .collect();
        self.set_place(to.to_owned(), None);
        self.set_place(from.clone(), place);
        for (path, place) in beneath {
            self.places.insert(from.join(path), place);
        }
    }

    /// If `path` is a directory that will be replaced or removed, adds all paths in it. Stops when
    /// `paths` exceeds the limit.
    fn add_paths_in(&self, path: &Path, paths: &mut BTreeSet<PathBuf>) {
        let place = self.place(path).filter(|place| exists(place));
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
                self.add_paths_in(&child, paths);
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
    fn changes(&self, fingerprint: &mut Vec<u8>) -> Result<Vec<FileChange>, ToolError> {
        let (mut changes, deadline) = (Vec::new(), Instant::now() + MAX_DIFF_TIME);
        let change = |path: &Path, operation, now: &Content, then: &Content| {
            change(path, operation, (now, then), deadline)
        };
        let mut paths: BTreeSet<_> = self.places.keys().cloned().collect();
        self.places.keys().for_each(|path| self.add_paths_in(path, &mut paths));
        if paths.len() > MAX_REWIND_PATHS {
            let message =
                format!("More than {MAX_REWIND_PATHS} paths would change. Undo single calls.");
            return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
        }
        for path in &paths {
            let place = self.place(path);
            let (now, then) = (Content::read(path), place.as_deref().map(Content::read));
            let then = then.unwrap_or(Content::Missing);
            let before = changes.len();
            match (&now, &then) {
                (Content::Missing, Content::Missing) => {}
                (Content::Missing, _) => match place {
                    Some(from) if !self.exists(&from) => {
                        changes.push(FileChange::new(Operation::Move { from }, path));
                    }
                    _ => changes.push(change(path, Operation::Add, &now, &then)),
                },
                // A moved path is reported as a change of its new path. A removed directory is
                // reported as changes of the files in it.
                (_, Content::Missing) if self.is_moved_away(path) || is_directory(path) => {}
                (_, Content::Missing) => changes.push(change(path, Operation::Delete, &now, &then)),
                (now, then) if now == then && !self.changed_modes.contains(path) => {}
                _ => changes.push(change(path, Operation::Modify, &now, &then)),
            }
            if changes.len() > before {
                let name = ContentHash::of_bytes(path.as_os_str().as_encoded_bytes());
                let hashes = [name, now.hash(), then.hash()];
                hashes.iter().for_each(|hash| fingerprint.extend(hash.as_bytes()));
            }
        }
        Ok(changes)
    }
}

/// The content of a path in the form in which contents are compared and shown.
#[derive(PartialEq)]
enum Content {
    Missing,
    Bytes(Vec<u8>),
    Directory,
    /// A link with its target.
    Link(PathBuf),
    /// A file that is too large or cannot be read. The value is its size.
    Unread(u64),
}

impl Content {
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

fn change(
    path: &Path,
    operation: Operation,
    (now, then): (&Content, &Content),
    deadline: Instant,
) -> FileChange {
    match (now.text(), then.text()) {
        (Some(now), Some(then)) => diff::diff_texts(path, operation, &now, &then, deadline),
        _ => FileChange::new(operation, path),
    }
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
    let bytes = read_to_cap(&fs::File::open(place)?, MAX_WHOLE_FILE_BYTES)?;
    bytes.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write::{PreImage, atomic_write};

    fn write(workspace: &Workspace, name: &str) {
        let at = workspace.resolve(name).unwrap();
        atomic_write(workspace, &at, b"text", &PreImage::Missing).unwrap();
    }

    #[test]
    fn a_file_that_is_changed_while_others_are_undone_is_not_reported_as_restored() {
        let (cwd, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workspace = Workspace::new(cwd.path().to_owned(), Vec::new()).unwrap();
        let workspace = workspace.with_state_folder(state.path());
        workspace.begin_prompt(1);
        for name in ["first", "second"] {
            write(&workspace, name);
        }
        let plan = RewindPlan::before_prompt(&workspace, 1).unwrap();
        fs::write(cwd.path().join("first"), "by another program").unwrap();
        let ToolError::Recoverable(failure) = plan.undo_entries(&workspace).unwrap_err() else {
            panic!("the turn must go on");
        };
        assert_eq!(failure.code, ErrorCode::ChangedSincePreview);
        // The next plan reports that the file is kept.
        let plan = RewindPlan::before_prompt(&workspace, 1).unwrap();
        let kept: Vec<_> = plan.kept().iter().map(|kept| kept.path.file_name().unwrap()).collect();
        assert_eq!(kept, ["first"]);
        plan.run(&workspace).unwrap();
        assert!(!cwd.path().join("second").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_loop_of_links_in_place_of_a_changed_folder_keeps_no_other_file_from_its_undo() {
        let (cwd, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(cwd.path().join("folder")).unwrap();
        fs::write(cwd.path().join("folder/old"), "before").unwrap();
        let workspace = Workspace::new(cwd.path().to_owned(), Vec::new()).unwrap();
        let workspace = workspace.with_state_folder(state.path());
        workspace.begin_prompt(1);
        write(&workspace, "new");
        let at = workspace.resolve("folder/old").unwrap();
        let before = PreImage::Bytes(b"before".to_vec());
        atomic_write(&workspace, &at, b"after", &before).unwrap();
        fs::remove_dir_all(cwd.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("folder/old", cwd.path().join("folder")).unwrap();
        RewindPlan::before_prompt(&workspace, 1).unwrap().run(&workspace).unwrap();
        assert!(!cwd.path().join("new").exists());
    }

    #[test]
    fn a_file_that_an_undo_kept_is_kept_by_each_rewind_before_its_change() {
        let (cwd, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workspace = Workspace::new(cwd.path().to_owned(), Vec::new()).unwrap();
        let workspace = workspace.with_state_folder(state.path());
        workspace.begin_prompt(2);
        write(&workspace, "file");
        fs::write(cwd.path().join("file"), "by another program").unwrap();
        workspace.begin_prompt(5);
        UndoPlan::for_last_change(&workspace).unwrap().run(&workspace).unwrap();
        let kept = |prompt| RewindPlan::before_prompt(&workspace, prompt).unwrap().kept().len();
        assert_eq!([1, 2, 3, 4, 5].map(kept), [1, 1, 0, 0, 0]);
        RewindPlan::before_prompt(&workspace, 2).unwrap().run(&workspace).unwrap();
        assert_eq!([1, 2].map(kept), [1, 0]);
    }
}
