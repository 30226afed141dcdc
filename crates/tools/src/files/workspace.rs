//! The directories that tools may use, and the resolution of paths inside them.
//!
//! A path is first resolved by its text alone: the path is made absolute with `cwd`, and `.` and
//! `..` are removed. Then the path is compared with the roots component by component. The path is
//! then opened beneath the descriptor of its root. This descriptor is opened once, so no link or
//! rename can make the path escape from the root. Links to other places inside the roots work,
//! including absolute links.
//!
//! The path of a tool call is inspected ([`Workspace::resolve_and_follow_links`]) before the call
//! is permitted. The [`WorkspacePath`] records the target of its links, and the id of the target
//! directory. If the target or the id differs later, the path is refused. Only an inspected path
//! may be outside of the roots.

mod errors;
pub(crate) mod git;
pub(crate) mod guard;
mod inspect;
pub(crate) mod open;
mod resolve;
mod temporary;
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

use acp_lifecycle::{AskExceptReadsPolicy, Effect, Effects, Rules, Verdict};
use callboard_text::{normalise, path_text};

use crate::background::BackgroundCommands;
use crate::error::ToolError;
use crate::files::Durability;
use crate::files::content_hash::{HashingReader, KnownHashes};
use crate::files::state::journal::recover_unlocked_journals;
use crate::files::state::late_writes::LateWrite;
use crate::files::state::outputs::OutputStore;
use crate::files::state::session_folder::session_folder_name;
use crate::files::state::snapshots::SnapshotStore;
use crate::files::state::undo_store::UndoStore;
use crate::files::state::{JOURNAL_FOLDER, OUTPUT_FOLDER, StateFolder, UNDO_FOLDER};
use crate::files::system::{Dir, PinnedDirectory as Pinned};
use crate::limits::MAX_CHANGES_NAMED;
use crate::lock::lock;
use crate::note::Note;

use errors::{explain_path_error, not_found_failure, root_removed_error};
use temporary::TemporaryFolder;
pub(in crate::files) use workspace_path::WorkspaceRoot;
pub use workspace_path::{WorkspaceError, WorkspacePath};

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
    /// The real paths of files that cannot be replaced, so they are written in place.
    in_place_only: Mutex<HashSet<PathBuf>>,
    /// Paths of the agent itself whose changes always need permission, e.g. the user's state
    /// folder.
    guarded_paths: Vec<PathBuf>,
    /// The last snapshot of the project folders.
    snapshots: SnapshotStore,
    /// The folder for temporary files of sandboxed commands.
    temporary: OnceLock<TemporaryFolder>,
}

impl Workspace {
    /// Pins `cwd` and the `additional` roots.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`] if one of these paths is relative, missing or not a directory.
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
            snapshots: SnapshotStore::default(),
            temporary: OnceLock::new(),
        })
    }

    /// Sets the point at which a write counts as complete.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Keeps backups, journals and complete outputs in a folder, usually the user's state folder.
    ///
    /// - `undo` holds backups of files that were written, moved or deleted. Backups expire after 30
    ///   days.
    /// - `journal` holds the journals of running calls. [`Workspace::recover_unfinished_writes`]
    ///   replays the journals of killed processes.
    /// - `output` holds complete outputs. Outputs expire after 7 days.
    ///
    /// The folders are created when they are first used, and expired content is removed at the same
    /// time. The total size is at most 2 GiB. If the folder cannot be written, nothing is kept, and
    /// previews report this.
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

    /// Keeps the undo data and the outputs in the state folder under the id of a session. The id
    /// must consist of ASCII letters, digits, `-` and `_`. Any other id has no effect. A later
    /// workspace with the same id and the same roots can undo the same changes and read the same
    /// outputs. Only one workspace at a time may use an id. Call this method after
    /// [`Self::with_state_folder`].
    #[must_use]
    pub fn with_session_id(self, id: &str) -> Self {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if id.is_empty() || !id.bytes().all(is_plain) {
            return self;
        }
        let name = session_folder_name(id, self.roots());
        let Self { undo_store, outputs, .. } = self;
        let undo_store = undo_store.with_session(name.clone());
        Self { undo_store, outputs: outputs.with_session(name), ..self }
    }

    /// Returns the first prompt for which earlier workspaces with the same session id and roots
    /// left undo data. This method may block.
    #[must_use]
    pub fn first_prompt_with_undo_data(&self) -> Option<u32> {
        self.undo_store.first_logged_prompt()
    }

    /// Sets the number of the prompt whose calls change files from now on, counted from 1 in the
    /// session. [`RewindPlan`](crate::files::rewind::RewindPlan) goes back to a prompt.
    pub fn set_prompt_number(&self, number: u32) {
        self.undo_store.set_prompt(number);
    }

    /// Requires permission for each change of a file or folder, including the content of a folder.
    /// The path may be inside or outside of the roots.
    ///
    /// For example, the agent can protect its own configuration file in this way.
    #[must_use]
    pub fn with_guarded_path(mut self, path: &Path) -> Self {
        self.guarded_paths.push(path.to_owned());
        self
    }

    /// Allows tools to use the folder `path` for temporary files of sandboxed commands. The
    /// commands see this folder at the path `visible`. Only the first call has an effect.
    pub(crate) fn set_temporary_folder(&self, path: &Path, visible: &Path) {
        let opened = path.canonicalize().and_then(|real| TemporaryFolder::open(&real, visible));
        match opened {
            Ok(folder) => drop(self.temporary.set(folder)),
            Err(error) => {
                tracing::warn!(%error, "tools cannot use the temporary files of commands");
            }
        }
    }

    /// Reverts the files that killed processes left unfinished.
    ///
    /// The first call replays the journals, which may take as long as reading the files. Concurrent
    /// calls wait for the first call. Every tool calls this method before it accesses files, and
    /// every change calls it before its first write.
    pub fn recover_unfinished_writes(&self) {
        if let Some(journal) = &self.journal_folder {
            self.recovery_done.get_or_init(|| recover_unlocked_journals(journal));
        }
    }

    /// Returns whether all journals have been replayed, or no journals are kept.
    pub(crate) fn is_recovered(&self) -> bool {
        self.journal_folder.is_none() || self.recovery_done.get().is_some()
    }

    /// Records that a file cannot be replaced and must be written in place.
    pub(crate) fn record_in_place_only(&self, real: &Path) {
        let mut files = lock(&self.in_place_only);
        files.insert(real.to_owned());
    }

    /// Returns whether a file is recorded as a file that must be written in place.
    pub(crate) fn is_in_place_only(&self, real: &Path) -> bool {
        lock(&self.in_place_only).contains(real)
    }

    /// Returns the folder of journals. First calls [`Self::recover_unfinished_writes`].
    pub(crate) fn journal_folder_after_recovery(&self) -> Option<&Path> {
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

    /// Returns the store of the last snapshot.
    pub(crate) fn snapshot_store(&self) -> &SnapshotStore {
        &self.snapshots
    }

    /// Returns the store of complete outputs.
    pub(crate) fn outputs(&self) -> &OutputStore<Self> {
        &self.outputs
    }

    /// Returns the workspace in which to read a path. For an output of this session, the result is
    /// a separate workspace, which tools that write cannot access.
    #[must_use]
    pub(crate) fn output_workspace_or_self(self: &Arc<Self>, given: &str) -> Arc<Self> {
        Arc::clone(self.outputs.reader_for(given).unwrap_or(self))
    }

    /// Returns the content hashes of files that the session has read or written.
    pub(crate) fn known_hashes(&self) -> &KnownHashes {
        &self.known_hashes
    }

    /// Returns the writes of other programs to files that this session had replaced. Each write is
    /// returned only once.
    ///
    /// Such a program had the old file open. The old file became the backup, so the backup contains
    /// the write. The write is detected only if the old file was moved into the store of backups,
    /// which requires that both are on the same file system. Some files are written in place, e.g.
    /// files with several hard links. The result contains such a file if it had different content
    /// right after the write.
    #[must_use]
    pub fn take_late_writes(&self) -> Vec<LateWrite> {
        self.detect_late_writes();
        self.undo_store().take_late_writes()
    }

    /// Detects the writes that [`Self::take_late_writes`] returns, but keeps them for a later call.
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

    /// Returns the background commands of the session. The commands are ended when the workspace is
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

    /// Returns all roots, and the folder for temporary files of sandboxed commands. A policy treats
    /// all of these folders in the same way.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.roots_and_temporary().map(|root| root.path.as_path())
    }

    /// Returns the real paths of all roots.
    pub(crate) fn real_roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.real_path.as_path())
    }

    /// Returns the paths of the agent itself whose changes always need permission.
    pub(crate) fn guarded_paths(&self) -> impl Iterator<Item = &Path> {
        self.guarded_paths.iter().map(PathBuf::as_path)
    }

    /// Returns whether the kernel confines every path to the roots.
    ///
    /// Without confinement by the kernel, a race is possible. A process that replaces a directory
    /// by a link at exactly the right moment can make a tool read or write outside of the roots. In
    /// this case the client should warn the user.
    #[must_use]
    pub fn has_kernel_confinement(&self) -> bool {
        self.roots.iter().all(|root| root.pinned.has_kernel_confinement())
    }

    /// Formats a path as [`path_text`] does. Paths inside `cwd` are relative, all other paths are
    /// absolute. A temporary file of a sandboxed command has the path at which the command sees the
    /// file.
    ///
    /// [`Workspace::resolve`] can parse the returned text.
    #[must_use]
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(beneath) if beneath.as_os_str().is_empty() => ".".to_owned(),
            Ok(beneath) => path_text(beneath).into_owned(),
            Err(_) => {
                let visible = self.temporary.get().and_then(|folder| folder.to_visible_path(path));
                path_text(visible.as_deref().unwrap_or(path)).into_owned()
            }
        }
    }

    /// Returns a sentence with the reason why an undo or a rewind does not change a file. For a
    /// project folder, the sentence is about the changes in it.
    pub(crate) fn not_reverted_note(&self, path: &Path, reason: Note) -> Note {
        let note = match self.roots().any(|root| root == path) {
            true => Note::new("stays-folder").with_text("path", path_text(path)),
            false => Note::new("stays").with_text("path", self.display(path)),
        };
        note.with_joined_notes("why", [reason], "")
    }

    /// Returns the first of some paths as text, with the number of the others. Returns `None` if
    /// there are no paths.
    pub(crate) fn display_first<'a>(
        &self,
        mut paths: impl Iterator<Item = &'a Path>,
    ) -> Option<String> {
        let named = paths.by_ref().take(MAX_CHANGES_NAMED);
        let mut names: Vec<_> = named.map(|path| self.display(path)).collect();
        if let more @ 1.. = paths.count() {
            names.push(format!("… (+{more})"));
        }
        (!names.is_empty()).then(|| names.join(", "))
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
    /// This method is for files that are probed often and are usually missing. Unlike
    /// [`Self::open_read`], this method returns no reason for a failure.
    #[must_use]
    pub fn open_read_if_exists(&self, path: &Path) -> Option<File> {
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

    /// Records that the session knows the current content of a file inside the roots, e.g. because
    /// an earlier process of this session read the file. Reads the whole file. A file that cannot
    /// be read stays unknown.
    pub fn mark_as_read(&self, path: &Path) {
        let real = self.locate_in_roots("", &normalise(path)).map(|at| self.canonicalize(&at));
        let Some(Ok(real)) = real else { return };
        let Some(file) = self.open_read_if_exists(real.path()) else { return };
        let mut reader = HashingReader::new(file);
        if io::copy(&mut reader, &mut io::sink()).is_ok()
            && let Some(hash) = reader.hash()
        {
            self.known_hashes.record(real.path(), hash);
        }
    }

    /// Returns the metadata of a file. Links are followed.
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

    /// Opens a directory. If the path was inspected, checks that the directory is the inspected
    /// directory.
    pub(crate) fn open_dir(&self, at: &WorkspacePath) -> Result<Dir, ToolError> {
        let dir = open::open_confined(self, at, Pinned::open_dir, Pinned::open_dir_without_links)?;
        if dir.is_removed() {
            // A removed directory would appear to be empty.
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
        explain_path_error(self, &at.given, &at.path, error)
    }

    /// Judges by a session's rules whether a file may be read that no call reads, e.g. to show a
    /// change of it. The permission mode does not apply, because modes decide only on calls of the
    /// model. Blocks while it accesses the file system.
    #[must_use]
    pub fn judge_read(&self, path: &Path, rules: &Rules) -> Verdict {
        rules.judge_call(&self.read_effects(path), &AskExceptReadsPolicy)
    }

    /// Returns the effects of reading a file: one effect for `path`, and one for the real path if
    /// links lead to a different path. Rules about reading may match either path.
    fn read_effects(&self, path: &Path) -> Effects {
        let at = self.follow_links_of_host_path(path);
        let effects = at.map(|at| guard::path_effects(self, &at, Effect::Read));
        let unresolved = |_| Effect::Read(path.to_owned()).into();
        guard::mark_outside_effects(self, effects.unwrap_or_else(unresolved))
    }
}
