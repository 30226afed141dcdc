//! The directories that tools may use, and the resolution of paths inside them.
//!
//! A path is first resolved by its text alone: it is made absolute against `cwd`, `.` and `..` are
//! removed, and it is compared with the roots component by component. It is then opened beneath the
//! descriptor of its root, which is pinned once, so that no link or rename can escape. Links to
//! other places inside the roots work, including absolute ones.
//!
//! The path of a tool call is inspected ([`Workspace::resolve_and_follow_links`]) before the call is permitted. The
//! [`WorkspacePath`] records the target of its links and the id of that directory. If they differ
//! later, the path is refused. Only an inspected path may be outside of the roots.

mod errors;
mod git;
pub(crate) mod guard;
mod inspect;
pub(crate) mod open;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod workspace_path;

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use acp_lifecycle::{Effect, Effects};
use callboard_text::{normalise, path_text};

use crate::background::BackgroundCommands;
use crate::error::ToolError;
use crate::files::Durability;
use crate::files::content_hash::KnownHashes;
use crate::files::state::journal::recover_unlocked_journals;
use crate::files::state::late_writes::LateWrite;
use crate::files::state::outputs::OutputStore;
use crate::files::state::undo_store::UndoStore;
use crate::files::state::{JOURNAL_FOLDER, OUTPUT_FOLDER, StateFolder, UNDO_FOLDER};
use crate::files::system::{Dir, PinnedDirectory as Pinned};
use crate::lock::lock;

use errors::{
    changed_error, explain_path_error, not_found_failure, outside_roots_error, root_removed_error,
};
pub use workspace_path::{WorkspaceError, WorkspacePath};
use workspace_path::{WorkspaceRoot, canonicalize_existing};

/// The directories that the tools of one session may use.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # std::fs::write(directory.path().join("notes.txt"), "hello")?;
/// # let cwd = directory.path();
/// use acp_tools::Workspace;
///
/// let workspace = Workspace::new(cwd.to_owned(), Vec::new())?;
/// let notes = workspace.resolve("./notes.txt")?;
/// assert_eq!(workspace.display(notes.path()), "notes.txt");
/// assert!(workspace.open_read(&notes).is_ok());
/// assert!(workspace.resolve("../secret").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Workspace {
    cwd: PathBuf,
    roots: Vec<Arc<WorkspaceRoot>>,
    durability: Durability,
    known_hashes: KnownHashes,
    undo_store: UndoStore,
    outputs: OutputStore<Self>,
    background: BackgroundCommands,
    state: StateFolder,
    journal_folder: Option<PathBuf>,
    /// Whether the journals of earlier processes were replayed.
    recovery_done: OnceLock<()>,
    /// The real paths of files that can only be written in place.
    in_place_only: Mutex<HashSet<PathBuf>>,
    /// Paths of the agent itself whose changes always need permission, e.g. the user's state
    /// folder.
    guarded_paths: Vec<PathBuf>,
}

impl Workspace {
    /// Pins `cwd` and the `additional` roots.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`] if one of them is relative, missing or not a directory.
    pub fn new(cwd: PathBuf, additional: Vec<PathBuf>) -> Result<Self, WorkspaceError> {
        let mut roots = Vec::with_capacity(1 + additional.len());
        for path in [cwd].into_iter().chain(additional) {
            roots.push(Arc::new(WorkspaceRoot::pin(path)?));
        }
        Ok(Self {
            cwd: roots[0].path.clone(),
            roots,
            durability: Durability::default(),
            known_hashes: KnownHashes::default(),
            undo_store: UndoStore::default(),
            outputs: OutputStore::default(),
            background: BackgroundCommands::default(),
            state: StateFolder::default(),
            journal_folder: None,
            recovery_done: OnceLock::new(),
            in_place_only: Mutex::default(),
            guarded_paths: Vec::new(),
        })
    }

    /// Sets the point at which a write counts as complete.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Keeps backups, journals and complete outputs in a folder, usually the user's state folder.
    ///
    /// - `undo` holds backups of files that were written, moved or deleted. They expire after 30
    ///   days.
    /// - `journal` holds the journals of running calls. [`Workspace::recover_unfinished_writes`] replays those of
    ///   killed processes.
    /// - `output` holds complete outputs. They expire after 7 days.
    ///
    /// The folders are created on first use, which also removes expired content. The total size is
    /// at most 2 GiB. If the folder cannot be written, nothing is kept, and previews say so.
    #[must_use]
    pub fn with_state_folder(self, folder: &Path) -> Self {
        let (state, journal) = (StateFolder::new(folder), Some(folder.join(JOURNAL_FOLDER)));
        let undo = UndoStore::in_folder(folder.join(UNDO_FOLDER));
        let outputs = OutputStore::in_folder(folder.join(OUTPUT_FOLDER), |folder| {
            Self::new(folder, Vec::new()).map_err(io::Error::other)
        });
        Self { undo_store: undo, outputs, state, journal_folder: journal, ..self }
            .with_guarded_path(folder)
    }

    /// Requires permission for each change of a file or folder and its content, wherever it is.
    ///
    /// An example is the configuration of the agent itself, whatever its name.
    #[must_use]
    pub fn with_guarded_path(mut self, path: &Path) -> Self {
        self.guarded_paths.push(path.to_owned());
        self
    }

    /// Reverts the files that killed processes left unfinished.
    ///
    /// The first call replays the journals, which may take as long as reading the files; concurrent
    /// calls wait for it. Every change calls this first, and so does every tool before it accesses
    /// files.
    pub fn recover_unfinished_writes(&self) {
        if let Some(journal) = &self.journal_folder {
            self.recovery_done.get_or_init(|| recover_unlocked_journals(journal));
        }
    }

    /// Returns whether there are no journals to replay.
    pub(crate) fn is_recovered(&self) -> bool {
        self.journal_folder.is_none() || self.recovery_done.get().is_some()
    }

    /// Records that a file can only be written in place.
    pub(crate) fn record_in_place_only(&self, real: &Path) {
        let mut files = lock(&self.in_place_only);
        files.insert(real.to_owned());
    }

    /// Returns whether a file is recorded as writable in place only.
    pub(crate) fn is_in_place_only(&self, real: &Path) -> bool {
        lock(&self.in_place_only).contains(real)
    }

    /// Returns the folder of journals, after [`Self::recover_unfinished_writes`].
    pub(crate) fn journal_folder(&self) -> Option<&Path> {
        self.recover_unfinished_writes();
        self.journal_folder.as_deref()
    }

    /// Returns the state folder.
    pub(crate) fn state_folder(&self) -> &StateFolder {
        &self.state
    }

    /// Returns the store of backups.
    pub(crate) fn undo_store(&self) -> &UndoStore {
        &self.undo_store
    }

    /// Returns the store of complete outputs.
    pub(crate) fn outputs(&self) -> &OutputStore<Self> {
        &self.outputs
    }

    /// Returns the workspace in which a path is read: a separate one for an output of this session,
    /// which tools that write cannot access.
    #[must_use]
    pub(crate) fn workspace_for_reading(self: &Arc<Self>, given: &str) -> Arc<Self> {
        Arc::clone(self.outputs.reader_for(given).unwrap_or(self))
    }

    /// Returns the content hashes of files that the session has read or written.
    pub(crate) fn known_hashes(&self) -> &KnownHashes {
        &self.known_hashes
    }

    /// Returns the writes of other programs to files that this session had replaced, each once.
    ///
    /// Such programs had the file open, so their writes are in the backup. They are detected only
    /// if the old file was moved into the store, which requires the same file system. For files
    /// that are written in place, e.g. those with several hard links, the result lists those that
    /// had different content right after the write.
    #[must_use]
    pub fn take_late_writes(&self) -> Vec<LateWrite> {
        self.detect_late_writes();
        self.undo_store().take_late_writes()
    }

    /// Detects the writes that [`Self::take_late_writes`] returns, without returning them.
    pub(crate) fn detect_late_writes(&self) {
        self.undo_store().detect_late_writes();
    }

    /// Appends notes about the writes that [`Self::take_late_writes`] returns.
    pub(crate) fn append_late_writes(&self, text: &mut String) {
        for late in self.take_late_writes() {
            text.push('\n');
            text.push_str(&late.note(self.display(&late.path)).to_string());
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns the background commands of the session. They are terminated when the workspace is
    /// dropped.
    #[must_use]
    pub fn background_commands(&self) -> &BackgroundCommands {
        &self.background
    }

    /// Returns the directory against which relative paths are resolved.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns all roots, `cwd` first.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Returns whether the kernel confines every path to the roots.
    ///
    /// If it does not, a process that replaces a directory by a link at exactly the right moment
    /// can make a tool read or write outside of the roots. The client should warn the user.
    #[must_use]
    pub fn has_kernel_confinement(&self) -> bool {
        self.roots.iter().all(|root| root.pinned.has_kernel_confinement())
    }

    /// Formats a path as [`path_text`] does, relative inside `cwd` and absolute elsewhere.
    ///
    /// [`Workspace::resolve`] parses the result.
    #[must_use]
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(beneath) if beneath.as_os_str().is_empty() => ".".to_owned(),
            Ok(beneath) => path_text(beneath).into_owned(),
            Err(_) => path_text(path).into_owned(),
        }
    }

    /// Resolves a path from the model by its text alone. Names may be quoted as [`path_text`] does
    /// for names that text cannot represent.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for an invalid path, `outside_roots` for a path outside of all roots.
    pub fn resolve(&self, given: &str) -> Result<WorkspacePath, ToolError> {
        let path = inspect::absolute_path(&self.cwd, given)?;
        self.locate_in_roots(given, &path).ok_or_else(|| outside_roots_error(self, given))
    }

    /// Resolves a path that was not given as text.
    ///
    /// # Errors
    ///
    /// As [`Workspace::resolve`].
    pub fn resolve_path(&self, path: &Path) -> Result<WorkspacePath, ToolError> {
        self.resolve(&path_text(path))
    }

    /// Resolves a path from the model and follows its links, so that the call uses exactly the file
    /// that the preview shows.
    ///
    /// The path may be outside of the roots. Then [`WorkspacePath::path`] is the real path, the
    /// directory is pinned, and the caller must request permission. Links of `/proc` that expose
    /// what processes have open are never followed, and nothing in `/proc` is accessible.
    ///
    /// # Errors
    ///
    /// - `invalid_arguments` for an invalid path.
    /// - `not_found` for a dangling link.
    /// - `not_a_regular_file` for a FIFO, socket or device.
    /// - `outside_roots` for a path that is refused without a permission request.
    /// - `not_a_directory`, `not_permitted`, `io`.
    pub fn resolve_and_follow_links(&self, given: &str) -> Result<WorkspacePath, ToolError> {
        inspect::follow_links_and_record_file(
            self,
            given,
            inspect::absolute_path(&self.cwd, given)?,
        )
    }

    /// Inspects a path that the session recorded.
    pub(crate) fn follow_links_of_recorded_path(
        &self,
        path: &Path,
    ) -> Result<WorkspacePath, ToolError> {
        inspect::follow_links_and_record_file(self, &path_text(path), path.to_owned())
    }

    /// Resolves a path that the session recorded, without following a link in the last component.
    pub(crate) fn locate_without_following(&self, path: &Path) -> Result<WorkspacePath, ToolError> {
        self.locate_in_roots(&path_text(path), path)
            .map_or_else(|| self.follow_links_of_recorded_path(path), Ok)
    }

    /// Follows all links of a path, including the last component. Missing components stay as they
    /// are.
    ///
    /// The result names the file that a write would change; rules about names must check this path.
    /// Another process can invalidate it at any time, so it must not decide whether a file is
    /// inside the roots: opening the file does. An inspected path must still have the same target.
    ///
    /// # Errors
    ///
    /// - `outside_roots` if a link leaves the roots.
    /// - `changed_since_preview` if the path was inspected and has another target now.
    /// - `not_a_directory`, `not_permitted`, `io`.
    pub fn canonicalize(&self, at: &WorkspacePath) -> Result<WorkspacePath, ToolError> {
        if at.inspected.is_some() && self.is_outside(at) {
            // The directory is pinned, so its links no longer matter.
            return Ok(at.clone());
        }
        let real = canonicalize_existing(&self.real_path(at))
            .map_err(|error| self.explain_io_error(at, &error))?;
        let beneath_own_root =
            || Some((at.root.clone(), real.strip_prefix(&at.root.real_path).ok()?));
        let placed = self.locate_in_roots(&at.given, &real).or_else(|| {
            let (root, beneath) = beneath_own_root()?;
            Some(WorkspacePath::in_root(&at.given, root, beneath))
        });
        match (placed, &at.inspected) {
            (Some(place), None) => Ok(place),
            (Some(place), Some(seen)) if place.path == seen.real_path => {
                Ok(WorkspacePath { inspected: Some(seen.clone()), ..place })
            }
            (_, Some(_)) => Err(changed_error(at)),
            (None, None) => Err(self.explain_io_error(at, &io::ErrorKind::CrossesDevices.into())),
        }
    }

    /// Finds the root of an absolute, normalised path. The path to the root may contain links or
    /// not.
    fn locate_in_roots(&self, given: &str, path: &Path) -> Option<WorkspacePath> {
        self.roots.iter().find_map(|root| {
            let beneath = path
                .strip_prefix(&root.path)
                .or_else(|_| path.strip_prefix(&root.real_path))
                .ok()?;
            Some(WorkspacePath::in_root(given, root.clone(), beneath))
        })
    }

    pub(crate) fn real_path(&self, at: &WorkspacePath) -> PathBuf {
        at.root.real_path.join(&at.path_in_root)
    }

    /// Returns whether a path is in none of the session's roots.
    pub(crate) fn is_outside(&self, at: &WorkspacePath) -> bool {
        !self.roots.iter().any(|root| Arc::ptr_eq(root, &at.root))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    ///
    /// - `not_found` with similar names; `is_a_directory`, `not_a_regular_file`.
    /// - `outside_roots` if a link leaves the roots.
    /// - `changed_since_preview` if the path was inspected and has another target now.
    /// - `not_permitted`, `io`.
    pub fn open_read(&self, at: &WorkspacePath) -> Result<File, ToolError> {
        let file =
            open::open_confined(self, at, Pinned::open_file, Pinned::open_file_without_links)?;
        let metadata = file.metadata().map_err(|error| self.explain_io_error(at, &error))?;
        open::require_regular_file(at, &metadata)?;
        if self.is_outside(at) {
            open::require_inspected_file_id(self, at, &metadata)?;
        }
        Ok(file)
    }

    /// Opens a regular file by its absolute path, if it exists inside the roots.
    ///
    /// This is for files that are probed often and usually missing. Unlike [`Self::open_read`], it
    /// returns no reason.
    #[must_use]
    pub fn open_existing_file(&self, path: &Path) -> Option<File> {
        let at = self.locate_in_roots("", &normalise(path))?;
        let open = |at: &WorkspacePath| at.root.pinned.open_file(&at.path_in_root);
        let file = match open(&at) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                open(&self.canonicalize(&at).ok()?).ok()?
            }
            opened => opened.ok()?,
        };
        file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
    }

    /// Returns the metadata of a file, following links.
    ///
    /// # Errors
    ///
    /// - `not_found`.
    /// - `outside_roots` if a link leaves the roots.
    /// - `changed_since_preview` if the path was inspected and has another target now.
    /// - `not_permitted`, `io`.
    pub fn metadata(&self, at: &WorkspacePath) -> Result<Metadata, ToolError> {
        open::open_confined(self, at, Pinned::metadata, Pinned::metadata_without_links)
    }

    /// Opens a directory, and checks that it is the inspected one if it was inspected.
    pub(crate) fn open_dir(&self, at: &WorkspacePath) -> Result<Dir, ToolError> {
        let dir = open::open_confined(self, at, Pinned::open_dir, Pinned::open_dir_without_links)?;
        if dir.is_removed() {
            // A removed directory would appear empty.
            return Err(self.explain_io_error(at, &io::ErrorKind::NotFound.into()));
        }
        open::require_inspected_file_id(self, at, &dir)?;
        Ok(dir)
    }

    /// Translates an I/O error into a tool error.
    pub(crate) fn explain_io_error(&self, at: &WorkspacePath, error: &io::Error) -> ToolError {
        if error.kind() == io::ErrorKind::NotFound && at.root.pinned.is_removed() {
            return root_removed_error(&at.root.path);
        }
        // Similar names outside of the roots are never revealed.
        if error.kind() == io::ErrorKind::NotFound && !self.is_outside(at) {
            return not_found_failure(at).into();
        }
        explain_path_error(&at.given, error)
    }

    /// Returns the effects of reading a file, by its named and its real path, for rules about
    /// reading.
    ///
    /// Returns no effects for a file that cannot be resolved.
    #[must_use]
    pub fn read_effects(&self, path: &Path) -> Effects {
        let at = self.follow_links_of_recorded_path(path);
        let effects = at.map(|at| guard::path_effects(self, &at, Effect::Read));
        guard::mark_outside_effects(self, effects.unwrap_or_else(|_| Effects::empty()))
    }
}
