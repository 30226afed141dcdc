//! The directories that the tools may use, and the one way from a path to a file in them.
//!
//! It knows nothing of permissions, protected names or what is done with a file.
//!
//! A path is first placed by its text alone: made absolute against `cwd`, `.` and `..` resolved,
//! and compared with the roots component by component. It is then opened beneath the descriptor
//! of its root, which is pinned once, so neither a link nor a rename leads out. A link to another
//! place inside the roots works, absolute ones too.

mod entry;
mod readable;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod walk;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use acp_lifecycle::{Effect, Effects, is_protected};
use acp_types::location::normalise;
use acp_types::text;
use similar::get_close_matches;

use crate::error::{Code, ToolError};
use crate::limits::{NAMES_COMPARED, PATH_BYTES, SIMILAR_NAMES};
use crate::outputs::Outputs;
use crate::stamp::Stamps;
use crate::sys::fs::{Dir, Kind, Root as Pinned, links};
use crate::undo::Undo;
use crate::write::replay;

pub(crate) use entry::Entry;
pub(crate) use walk::{Budget, Order, Walk, threads};
pub use walk::{Cancel, Stop};

/// Names less alike than this are no help.
const LIKE_ENOUGH: f32 = 0.6;

/// The directories that the tools of one session may use.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # std::fs::write(directory.path().join("notes.txt"), "hello")?;
/// # let cwd = directory.path();
/// use acp_tools::workspace::Workspace;
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
    roots: Vec<Root>,
    durability: Durability,
    stamps: Stamps,
    undo: Undo,
    outputs: Outputs,
    journal: Option<PathBuf>,
    /// The user's state folder, where both are.
    state: Option<PathBuf>,
}

/// When a file counts as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When the disk has it: it outlives a failure of the power.
    #[default]
    Disk,
    /// When the system has it: it outlives the process.
    System,
}

impl Durability {
    /// Waits until a file is written.
    pub(crate) fn of(self, file: &File) -> io::Result<()> {
        match self {
            Self::Disk => file.sync_data(),
            Self::System => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Root {
    /// As the client named it.
    path: PathBuf,
    /// Without links.
    real: PathBuf,
    pinned: Pinned,
}

/// Why a workspace cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The path is relative. The client has to send absolute ones.
    #[error("a root has to be an absolute path, not {}", path.display())]
    NotAbsolute {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The directory cannot be opened, or is none.
    #[error("cannot use {} as a root: {source}", path.display())]
    Unusable {
        /// The path as it was given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A place beneath one of the roots, by its text. Whether anything is there is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    given: String,
    path: PathBuf,
    root: usize,
    beneath: PathBuf,
}

impl Resolved {
    /// Returns the path as the model gave it.
    #[must_use]
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Returns the absolute, normalised path, in the words of the client's roots.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path relative to its root; empty for the root itself.
    #[must_use]
    pub fn beneath(&self) -> &Path {
        &self.beneath
    }
}

impl Resolved {
    /// Returns a name in this directory.
    pub(crate) fn child(&self, name: &OsStr) -> Self {
        Self {
            given: self.given.clone(),
            path: self.path.join(name),
            root: self.root,
            beneath: self.beneath.join(name),
        }
    }

    /// Returns the directory that it is in; a root is in none.
    pub(crate) fn parent(&self) -> Option<Self> {
        Some(Self {
            given: self.given.clone(),
            path: self.path.parent()?.to_owned(),
            root: self.root,
            beneath: self.beneath.parent()?.to_owned(),
        })
    }
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
            roots.push(Root::pin(path)?);
        }
        Ok(Self {
            cwd: roots[0].path.clone(),
            roots,
            durability: Durability::default(),
            stamps: Stamps::default(),
            undo: Undo::default(),
            outputs: Outputs::default(),
            journal: None,
            state: None,
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
    /// `undo` is removed then; what another process left unfinished is put in order now. Whole
    /// outputs of commands go to `output`, and what is older than 7 days there goes with the first.
    #[must_use]
    pub fn keeping(self, folder: &Path) -> Self {
        let journal = folder.join("journal");
        replay(&journal);
        let (undo, state) = (Undo::within(folder.join("undo")), Some(folder.to_owned()));
        let outputs = Outputs::within(folder.join("output"));
        Self { undo, outputs, journal: Some(journal), state, ..self }
    }

    pub(crate) fn journal(&self) -> Option<&Path> {
        self.journal.as_deref()
    }

    /// What is kept of what was changed.
    pub(crate) fn undo(&self) -> &Undo {
        &self.undo
    }

    /// What the files held when the session last saw them.
    pub(crate) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
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
    pub fn is_kernel_fenced(&self) -> bool {
        self.roots.iter().all(|root| root.pinned.is_kernel_fenced())
    }

    /// Returns the path for people: relative inside `cwd`, absolute elsewhere, with control
    /// characters escaped.
    #[must_use]
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(beneath) if beneath.as_os_str().is_empty() => ".".to_owned(),
            Ok(beneath) => shown(beneath),
            Err(_) => shown(path),
        }
    }

    /// Places a path that the session itself remembers.
    pub(crate) fn recall(&self, path: &Path) -> Result<Resolved, ToolError> {
        self.resolve(&path.to_string_lossy())
    }

    /// Places a path that the model gave, by its text alone.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for what is no path, `outside_roots` for what lies in no root.
    pub fn resolve(&self, given: &str) -> Result<Resolved, ToolError> {
        if given.is_empty() {
            return Err(ToolError::invalid("the path is empty; `.` is the working directory"));
        }
        if given.contains('\0') {
            return Err(ToolError::invalid("the path contains a NUL character"));
        }
        if given.len() > PATH_BYTES {
            let start = text::head(given, 80);
            let message = format!("the path {start}… is longer than {PATH_BYTES} bytes");
            return Err(ToolError::invalid(message));
        }
        self.place(given, &normalise(&self.cwd.join(given))).ok_or_else(|| {
            let mut roots = String::new();
            for root in self.roots() {
                // Writing to a String cannot fail.
                let _ = write!(roots, " {}", shown(root));
            }
            let message =
                format!("{given} is outside of the workspace. Use a path inside of:{roots}");
            ToolError::report(Code::OutsideRoots, message)
        })
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    ///
    /// `not_found` with similar names, `is_a_directory`, `not_a_regular_file`, `outside_roots` if
    /// a link leads out, `not_permitted`, `io`.
    pub fn open_read(&self, at: &Resolved) -> Result<File, ToolError> {
        let file = self.fenced(at, Pinned::open)?;
        let metadata = file.metadata().map_err(|error| self.explain(at, &error))?;
        require_file(at, &metadata)?;
        Ok(file)
    }

    /// Opens a regular file by its absolute path, if it is there and inside the roots: for what is
    /// looked for often and mostly missing. Unlike [`Self::open_read`] it says nothing of why not.
    #[must_use]
    pub fn look_for(&self, path: &Path) -> Option<File> {
        let at = self.place("", &normalise(path))?;
        let open = |at: &Resolved| self.roots[at.root].pinned.open(&at.beneath);
        let file = match open(&at) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                open(&self.settle(&at).ok()?).ok()?
            }
            opened => opened.ok()?,
        };
        file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
    }

    /// Asks what is there, links followed.
    ///
    /// # Errors
    ///
    /// `not_found`, `outside_roots` if a link leads out, `not_permitted`, `io`.
    pub fn metadata(&self, at: &Resolved) -> Result<Metadata, ToolError> {
        self.fenced(at, Pinned::metadata)
    }

    /// Follows every link on the way, the last one too. What does not exist stays as it is.
    ///
    /// The answer names the file that a write would change; a rule about names has to look at it.
    /// Another process may make it wrong at once, so it must not decide whether a file is inside
    /// the roots: opening it does.
    ///
    /// # Errors
    ///
    /// `outside_roots` if a link leads out, `not_a_directory`, `not_permitted`, `io`.
    pub fn settle(&self, at: &Resolved) -> Result<Resolved, ToolError> {
        let whole = self.roots[at.root].real.join(&at.beneath);
        for existing in whole.ancestors() {
            match existing.canonicalize() {
                Ok(mut real) => {
                    if let Ok(rest) = whole.strip_prefix(existing)
                        && !rest.as_os_str().is_empty()
                    {
                        real.push(rest);
                    }
                    let outside = || self.explain(at, &io::ErrorKind::CrossesDevices.into());
                    return self.place(&at.given, &real).ok_or_else(outside);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.explain(at, &error)),
            }
        }
        Err(self.explain(at, &io::ErrorKind::NotFound.into()))
    }

    pub(crate) fn real(&self, at: &Resolved) -> PathBuf {
        self.roots[at.root].real.join(&at.beneath)
    }

    /// Whether a change of a file is always asked about. It looks at the real place.
    ///
    /// What is kept, and the rules and keys that lie beside it, are as protected as any name.
    pub(crate) fn is_guarded(&self, real: &Resolved) -> bool {
        let path = self.real(real);
        let is_of = |root: &Root| path.strip_prefix(&root.real).is_ok_and(is_protected);
        let is_state =
            |folder: &PathBuf| path.starts_with(folder) || path.starts_with(without_links(folder));
        self.roots.iter().any(is_of) || self.state.as_ref().is_some_and(is_state)
    }

    /// Returns what looking at a place does: an effect on the path that was named and, where links
    /// lead elsewhere, on the real one, which rules may speak of.
    pub(crate) fn looked_at(&self, at: &Resolved, effect: fn(PathBuf) -> Effect) -> Effects {
        let real = self.settle(at).ok().map(|real| real.path().to_owned());
        let real = real.filter(|real| real != at.path());
        [at.path().to_owned()].into_iter().chain(real).map(effect).collect()
    }

    /// Whether a file has further names, which a change of it changes too, wherever they are.
    pub(crate) fn is_shared(&self, real: &Resolved) -> bool {
        let metadata = self
            .open_read(real)
            .and_then(|file| file.metadata().map_err(|error| self.explain(real, &error)));
        metadata.is_ok_and(|metadata| metadata.is_file() && links(&metadata) > 1)
    }

    /// Reads what a link holds, without following it.
    pub(crate) fn read_link(&self, at: &Resolved) -> Option<PathBuf> {
        let dir = self.roots[at.root].pinned.dir(at.beneath.parent()?).ok()?;
        Some(dir.read_link(at.beneath.file_name()?).ok()?.into())
    }

    pub(crate) fn open_dir(&self, at: &Resolved) -> Result<Dir, ToolError> {
        self.fenced(at, Pinned::dir)
    }

    /// Opens beneath the root. Where a link leads out of this root it is looked up by path, which
    /// may be in a root after all; that place is then opened in the same fenced way.
    fn fenced<T>(
        &self,
        at: &Resolved,
        open: impl Fn(&Pinned, &Path) -> io::Result<T>,
    ) -> Result<T, ToolError> {
        match open(&self.roots[at.root].pinned, &at.beneath) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let real = self.settle(at)?;
                open(&self.roots[real.root].pinned, &real.beneath)
            }
            other => other,
        }
        .map_err(|error| self.explain(at, &error))
    }

    /// Finds the root of an absolute, normalised path. Links in the way to the root may be spelt
    /// out or not.
    fn place(&self, given: &str, path: &Path) -> Option<Resolved> {
        self.roots.iter().enumerate().find_map(|(index, root)| {
            let beneath =
                path.strip_prefix(&root.path).or_else(|_| path.strip_prefix(&root.real)).ok()?;
            Some(Resolved {
                given: given.to_owned(),
                path: normalise(&root.path.join(beneath)),
                root: index,
                beneath: beneath.to_owned(),
            })
        })
    }

    /// Says what the system's answer means for the model.
    pub(crate) fn explain(&self, at: &Resolved, error: &io::Error) -> ToolError {
        let given = &at.given;
        let (code, message) = match error.kind() {
            io::ErrorKind::NotFound => (Code::NotFound, self.missing(at)),
            io::ErrorKind::NotADirectory => (
                Code::NotADirectory,
                format!("{given} does not lead through directories only, or is no directory"),
            ),
            io::ErrorKind::IsADirectory => return is_a_directory(at),
            io::ErrorKind::CrossesDevices => (
                Code::OutsideRoots,
                format!("{given} is outside of the workspace: a link leads out, or in a circle"),
            ),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => (
                Code::NotPermitted,
                format!("the file system does not permit it: {given}: {error}"),
            ),
            _ => (Code::Io, format!("{given}: {error}")),
        };
        ToolError::report(code, message)
    }

    fn missing(&self, at: &Resolved) -> String {
        let given = &at.given;
        let Some((parent, name)) = at.beneath.parent().zip(at.beneath.file_name()) else {
            return format!("{given} does not exist");
        };
        let Ok(dir) = self.roots[at.root].pinned.dir(parent) else {
            return format!(
                "{given} does not exist, nor does its directory. Look for the right path with \
                 find_path or list_directory"
            );
        };
        let similar = similar_names(&dir, &name.to_string_lossy());
        if similar.is_empty() {
            return format!("{given} does not exist, and nothing beside it has a similar name");
        }
        let similar: Vec<_> =
            similar.iter().map(|name| shown(&Path::new(given).with_file_name(name))).collect();
        format!("{given} does not exist. Similar: {}", similar.join(", "))
    }
}

impl Root {
    fn pin(path: PathBuf) -> Result<Self, WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute { path });
        }
        let path = normalise(&path);
        match Pinned::pin(&path).and_then(|pinned| Ok((path.canonicalize()?, pinned))) {
            Ok((real, pinned)) => Ok(Self { path, real, pinned }),
            Err(source) => Err(WorkspaceError::Unusable { path, source }),
        }
    }
}

/// Refuses everything but regular files, which alone can be read without surprises.
pub(crate) fn require_file(at: &Resolved, metadata: &Metadata) -> Result<(), ToolError> {
    match Kind::from(metadata.file_type()) {
        Kind::File => Ok(()),
        Kind::Directory => Err(is_a_directory(at)),
        Kind::Link | Kind::Special => {
            let given = &at.given;
            let message = format!("{given} is a FIFO, socket or device, not a regular file");
            Err(ToolError::report(Code::NotARegularFile, message))
        }
    }
}

/// Spells out the links of a path as far as it exists.
fn without_links(path: &Path) -> PathBuf {
    let real = path.ancestors().find_map(|existing| {
        let rest = path.strip_prefix(existing).ok()?;
        Some(existing.canonicalize().ok()?.join(rest))
    });
    real.unwrap_or_else(|| path.to_owned())
}

fn is_a_directory(at: &Resolved) -> ToolError {
    let message = format!("{} is a directory. See its files with list_directory", at.given);
    ToolError::report(Code::IsADirectory, message)
}

/// Returns the names that differ from `wanted` by little, or only in case.
fn similar_names(dir: &Dir, wanted: &str) -> Vec<String> {
    let Ok((entries, _)) = dir.entries(NAMES_COMPARED) else { return Vec::new() };
    let names: Vec<_> = entries.iter().filter_map(|entry| entry.name.to_str()).collect();
    let lower: Vec<_> = names.iter().map(|name| name.to_lowercase()).collect();
    let compared: Vec<_> = lower.iter().map(String::as_str).collect();
    get_close_matches(wanted.to_lowercase().as_str(), &compared, SIMILAR_NAMES, LIKE_ENOUGH)
        .into_iter()
        .filter_map(|close| {
            let at = lower.iter().position(|name| name == close)?;
            Some(names[at].to_owned())
        })
        .collect()
}

/// Returns the path as text of one line, whatever its bytes are.
pub(crate) fn shown(path: &Path) -> String {
    let path = path.to_string_lossy();
    if !path.contains(char::is_control) {
        return path.into_owned();
    }
    path.chars()
        .flat_map(|letter| {
            let escaped = letter.is_control().then(|| letter.escape_default());
            let plain = (!letter.is_control()).then_some(letter);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}
