//! The directories that the tools may use, and the one way from a path to a file in them.
//!
//! It knows nothing of permissions, protected names or what is done with a file.
//!
//! A path is first placed by its text alone: made absolute against `cwd`, `.` and `..` resolved,
//! and compared with the roots component by component. It is then opened beneath the descriptor
//! of its root, which is pinned once, so neither a link nor a rename leads out. A link to another
//! place inside the roots works, absolute ones too.
//!
//! What a call is going to use is looked at ([`Workspace::look`]) before it is permitted. The place
//! remembers where its links led and which directory that was; if the way leads elsewhere later,
//! it is refused. Only a place that was looked at may lie outside of the roots.

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
use crate::files::state::journal::replay;
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
    /// Whether the journals are in order that others left.
    recovery_done: OnceLock<()>,
    /// The real places of files that turned out to be written in place only.
    in_place_only: Mutex<HashSet<PathBuf>>,
    /// Places of the agent's own whose change is always asked about: the user's state folder, where
    /// both are, and others.
    guarded_paths: Vec<PathBuf>,
}

impl Workspace {
    /// Pins `cwd` and the `additional` roots.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`] if one of them is relative, missing or no directory.
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

    /// Sets when a file counts as written.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Keeps what is written, moved and deleted, so that it can be undone, in `undo` beneath a
    /// folder, and in `journal` what a killed process would leave unfinished. The folder should be
    /// that of the user's state, and is made with the first change. What is older than 30 days in
    /// `undo` is removed then; what another process left unfinished is put in order by
    /// [`Workspace::recover`]. Whole outputs go to `output`, and what is older than 7 days there goes
    /// with the first. All of it has at most 2 GiB. Where the
    /// folder cannot be written, nothing is kept, and previews say so.
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

    /// Has each change of a file or folder asked about, and of what is in it, wherever it lies: that
    /// of the agent's own configuration, for example, whatever its name.
    #[must_use]
    pub fn with_guarded_path(mut self, path: &Path) -> Self {
        self.guarded_paths.push(path.to_owned());
        self
    }

    /// Puts in order what killed processes left unfinished: files that they were about to write
    /// are the old ones again. The first call does it, which may take as long as reading them
    /// does, and others wait for it. Every change does it before; tools do it before they look at
    /// anything.
    pub fn recover(&self) {
        if let Some(journal) = &self.journal_folder {
            self.recovery_done.get_or_init(|| replay(journal));
        }
    }

    /// Whether there is nothing left to be put in order.
    pub(crate) fn is_recovered(&self) -> bool {
        self.journal_folder.is_none() || self.recovery_done.get().is_some()
    }

    /// Notes that a file can only be written in place.
    pub(crate) fn record_in_place_only(&self, real: &Path) {
        let mut files = lock(&self.in_place_only);
        files.insert(real.to_owned());
    }

    /// Whether that was noted of a file.
    pub(crate) fn is_in_place_only(&self, real: &Path) -> bool {
        lock(&self.in_place_only).contains(real)
    }

    /// Where changes note what they are about to do, once nothing is left there by others.
    pub(crate) fn journal_folder(&self) -> Option<&Path> {
        self.recover();
        self.journal_folder.as_deref()
    }

    /// Where what is kept lies.
    pub(crate) fn state_folder(&self) -> &StateFolder {
        &self.state
    }

    /// What is kept of what was changed.
    pub(crate) fn undo_store(&self) -> &UndoStore {
        &self.undo_store
    }

    /// The files with the whole outputs of the session's commands.
    pub(crate) fn outputs(&self) -> &OutputStore<Self> {
        &self.outputs
    }

    /// Returns the workspace that a path is to be read in: another one for an output of this
    /// session, which nothing that writes gets to see.
    #[must_use]
    pub(crate) fn workspace_for_reading(self: &Arc<Self>, given: &str) -> Arc<Self> {
        Arc::clone(self.outputs.reader_for(given).unwrap_or(self))
    }

    /// What the files held when the session last saw them.
    pub(crate) fn known_hashes(&self) -> &KnownHashes {
        &self.known_hashes
    }

    /// Returns what other programs wrote to files that this session had replaced in the meantime,
    /// each once: they had them open, and what they wrote is in the old ones. It is noticed where
    /// old files are moved to what is kept, so not where that is another file system. Of files that
    /// are written in place, those with several names for example, it returns the ones that held
    /// something else right after they were written.
    #[must_use]
    pub fn take_late_writes(&self) -> Vec<LateWrite> {
        self.detect_late_writes();
        self.undo_store().take_late_writes()
    }

    /// Looks for what [`Self::late_writes`] returns, and returns nothing of it.
    pub(crate) fn detect_late_writes(&self) {
        self.undo_store().detect_late_writes();
    }

    /// Says in a result what [`Self::late_writes`] returns.
    pub(crate) fn append_late_writes(&self, text: &mut String) {
        for late in self.take_late_writes() {
            text.push('\n');
            text.push_str(&late.note(self.display(&late.path)).to_string());
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns the commands of the session that run in the background. They are ended when the
    /// workspace is dropped.
    #[must_use]
    pub fn background(&self) -> &BackgroundCommands {
        &self.background
    }

    /// Returns the directory that relative paths are relative to.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns all roots, `cwd` first.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Returns whether the kernel itself keeps every path inside the roots.
    ///
    /// Where it does not, a process that swaps a directory for a link at just the right moment
    /// can make a tool read or write outside; the user should be told.
    #[must_use]
    pub fn has_kernel_confinement(&self) -> bool {
        self.roots.iter().all(|root| root.pinned.has_kernel_confinement())
    }

    /// Returns the path as [`path_text`] does, relative inside `cwd` and absolute elsewhere.
    /// [`Workspace::resolve`] reads it back.
    #[must_use]
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(beneath) if beneath.as_os_str().is_empty() => ".".to_owned(),
            Ok(beneath) => path_text(beneath).into_owned(),
            Err(_) => path_text(path).into_owned(),
        }
    }

    /// Places a path that the model gave, by its text alone. A name in it may be quoted as
    /// [`path_text`] quotes names that text cannot hold.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for what is no path, `outside_roots` for what lies in no root.
    pub fn resolve(&self, given: &str) -> Result<WorkspacePath, ToolError> {
        let path = inspect::absolute_path(&self.cwd, given)?;
        self.locate(given, &path).ok_or_else(|| outside_roots_error(self, given))
    }

    /// Places a path that did not come as text.
    ///
    /// # Errors
    ///
    /// As [`Workspace::resolve`].
    pub fn resolve_path(&self, path: &Path) -> Result<WorkspacePath, ToolError> {
        self.resolve(&path_text(path))
    }

    /// Places a path that the model gave and finds out where it leads, so that what is shown before
    /// it is permitted is what is used afterwards, or nothing.
    ///
    /// It may lie outside of the roots; then [`Resolved::path`] is the real path, the directory is
    /// pinned, and the caller has to ask first. Nothing leads through the links of
    /// `/proc` by which processes show what they have open, nor to what is there.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for what is no path; `not_found` for a link to what does not exist;
    /// `not_a_regular_file` for what is no directory either; `not_a_directory`, `not_permitted`,
    /// `io`; `outside_roots` for what is not even asked about.
    pub fn inspect(&self, given: &str) -> Result<WorkspacePath, ToolError> {
        inspect::inspect_path(self, given, inspect::absolute_path(&self.cwd, given)?)
    }

    /// Looks at a place that the session itself remembers.
    pub(crate) fn inspect_path(&self, path: &Path) -> Result<WorkspacePath, ToolError> {
        inspect::inspect_path(self, &path_text(path), path.to_owned())
    }

    /// Places a name that the session itself remembers, without following a link that it may be.
    pub(crate) fn locate_without_following(&self, path: &Path) -> Result<WorkspacePath, ToolError> {
        self.locate(&path_text(path), path).map_or_else(|| self.inspect_path(path), Ok)
    }

    /// Follows every link on the way, the last one too. What does not exist stays as it is.
    ///
    /// The answer names the file that a write would change; a rule about names has to look at it.
    /// Another process may make it wrong at once, so it must not decide whether a file is inside
    /// the roots: opening it does. A place that was looked at has to be where it was then.
    ///
    /// # Errors
    ///
    /// `outside_roots` if a link leads out, `not_a_directory`, `not_permitted`, `io`;
    /// `changed_since_preview` if the place was looked at and is another one now.
    pub fn canonicalize(&self, at: &WorkspacePath) -> Result<WorkspacePath, ToolError> {
        if at.inspected.is_some() && self.is_outside(at) {
            // Which link led there does not matter any more: the directory is pinned.
            return Ok(at.clone());
        }
        let real = canonicalize_existing(&self.real_path(at))
            .map_err(|error| self.explain_io_error(at, &error))?;
        let beneath_own_root =
            || Some((at.root.clone(), real.strip_prefix(&at.root.real_path).ok()?));
        let placed = self.locate(&at.given, &real).or_else(|| {
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

    /// Finds the root of an absolute, normalised path. Links in the way to the root may be spelt
    /// out or not.
    fn locate(&self, given: &str, path: &Path) -> Option<WorkspacePath> {
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

    /// Whether a place lies in no root of the session.
    pub(crate) fn is_outside(&self, at: &WorkspacePath) -> bool {
        !self.roots.iter().any(|root| Arc::ptr_eq(root, &at.root))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    ///
    /// `not_found` with similar names, `is_a_directory`, `not_a_regular_file`, `outside_roots` if
    /// a link leads out, `not_permitted`, `io`; `changed_since_preview` if the place was looked at
    /// and is another one now.
    pub fn open_read(&self, at: &WorkspacePath) -> Result<File, ToolError> {
        let file = open::open_confined(self, at, Pinned::open, Pinned::open_without_links)?;
        let metadata = file.metadata().map_err(|error| self.explain_io_error(at, &error))?;
        open::require_file(at, &metadata)?;
        if self.is_outside(at) {
            open::require_same(self, at, &metadata)?;
        }
        Ok(file)
    }

    /// Opens a regular file by its absolute path, if it is there and inside the roots: for what is
    /// looked for often and mostly missing. Unlike [`Self::open_read`] it says nothing of why not.
    #[must_use]
    pub fn open_existing_file(&self, path: &Path) -> Option<File> {
        let at = self.locate("", &normalise(path))?;
        let open = |at: &WorkspacePath| at.root.pinned.open(&at.path_in_root);
        let file = match open(&at) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                open(&self.canonicalize(&at).ok()?).ok()?
            }
            opened => opened.ok()?,
        };
        file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
    }

    /// Asks what is there, links followed.
    ///
    /// # Errors
    ///
    /// `not_found`, `outside_roots` if a link leads out, `not_permitted`, `io`;
    /// `changed_since_preview` if the place was looked at and is another one now.
    pub fn metadata(&self, at: &WorkspacePath) -> Result<Metadata, ToolError> {
        open::open_confined(self, at, Pinned::metadata, Pinned::metadata_without_links)
    }

    /// Opens a directory; if it was looked at, the same one.
    pub(crate) fn open_dir(&self, at: &WorkspacePath) -> Result<Dir, ToolError> {
        let dir = open::open_confined(self, at, Pinned::open_dir, Pinned::open_dir_without_links)?;
        if dir.is_removed() {
            // It would look like an empty one.
            return Err(self.explain_io_error(at, &io::ErrorKind::NotFound.into()));
        }
        open::require_same(self, at, &dir)?;
        Ok(dir)
    }

    /// Says what the system's answer means for the model.
    pub(crate) fn explain_io_error(&self, at: &WorkspacePath, error: &io::Error) -> ToolError {
        if error.kind() == io::ErrorKind::NotFound && at.root.pinned.is_removed() {
            return root_removed_error(&at.root.path);
        }
        // What else there is outside of the roots is nobody's business.
        if error.kind() == io::ErrorKind::NotFound && !self.is_outside(at) {
            return not_found_failure(at).into();
        }
        explain_path_error(&at.given, error)
    }

    /// Returns what reading a file does, by the path that names it and by its real one: what rules
    /// about reading are asked with. Nothing of a file that has no place.
    #[must_use]
    pub fn read_effects(&self, path: &Path) -> Effects {
        let at = self.inspect_path(path);
        let effects = at.map(|at| guard::path_effects(self, &at, Effect::Read));
        guard::mark_outside_effects(self, effects.unwrap_or_else(|_| Effects::empty()))
    }
}
