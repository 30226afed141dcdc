//! Walks the files in a directory and its subdirectories. Omits files that `.gitignore` excludes.
//!
//! Directories and ignore files are opened like every other file of the workspace, so no link is
//! followed and no call blocks. The walker of the `ignore` crate is not used, because it opens
//! ignore files by path and would block on a FIFO with the name `.gitignore`. Entries are sorted by
//! name, so two walks of the same tree return the same results.
//!
//! The files `.ignore`, `.gitignore` and `.git/info/exclude` apply even outside of a repository.
//! The ignore files of parent directories apply too, up to the top directory of the repository. In
//! a repository inside of another one, only the `.ignore` files of the outer repository apply. The
//! user's global ignore file is not read. Hidden files are included, but `.git` is always omitted.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use callboard_sandbox::is_placeholder_at;
use callboard_text::path_text;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::error::ToolError;
use crate::files::system::{Dir, DirectoryEntry, FileKind, PinnedDirectory as Pinned};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::limits::{
    MAX_DIRECTORY_ENTRIES, MAX_IGNORE_FILE_BYTES, MAX_IGNORE_FILE_LINES, MAX_SEARCH_THREADS,
    MAX_SEARCH_TIME, MAX_WALK_DEPTH,
};

/// A function that returns whether the search should stop. Several threads call it regularly.
pub type IsCancelled<'a> = dyn Fn() -> bool + Sync + 'a;

/// The reason why a listing or search stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EarlyStop {
    /// The call was cancelled.
    Cancelled,
    /// The maximum number of results was found.
    LimitReached,
    /// The time limit was reached.
    TimedOut,
}

/// The time limit of a listing or search, and the check for its cancellation.
#[derive(Clone, Copy)]
pub(crate) struct SearchBudget<'a> {
    deadline: Instant,
    cancel: &'a IsCancelled<'a>,
}

/// The order in which a walk returns the entries of one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkOrder {
    ByName,
    DirectoriesFirst,
}

/// Whether a walk includes files that ignore rules exclude.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoredFiles {
    Skip,
    Include,
}

impl IgnoredFiles {
    /// Returns [`Self::Include`] if `is_shown`, otherwise [`Self::Skip`].
    pub(crate) fn include_if(is_shown: bool) -> Self {
        if is_shown { Self::Include } else { Self::Skip }
    }
}

/// An entry that a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WalkEntry {
    /// The path of the entry, relative to the top directory of the walk.
    pub(crate) path: PathBuf,
    pub(crate) kind: FileKind,
}

/// A depth-first walk of a directory. Each directory is returned before its entries.
pub(crate) struct Walk<'a> {
    top: WorkspacePath,
    /// The real path of the top directory, in which all links are resolved.
    real: PathBuf,
    /// The open directories, from the top directory to the current one, each with its remaining
    /// entries.
    levels: Vec<OpenDirectory>,
    /// The ignore rules of the parent directories.
    parent_rules: Vec<DirectoryIgnoreRules>,
    ignored: IgnoredFiles,
    /// Whether directories with a name in [`GENERATED_FOLDERS`] are omitted.
    omits_generated: bool,
    order: WalkOrder,
    depth: usize,
    budget: SearchBudget<'a>,
    /// The directory that contains the entry that was returned last.
    current: Option<Arc<Dir>>,
    stop: Option<EarlyStop>,
    unreadable: usize,
    truncated_directories: usize,
}

struct OpenDirectory {
    path: PathBuf,
    dir: Arc<Dir>,
    entries: std::vec::IntoIter<DirectoryEntry>,
    rules: DirectoryIgnoreRules,
}

/// The ignore rules of one directory.
struct DirectoryIgnoreRules {
    /// The rules of `.git/info/exclude` and `.gitignore`. Rules of the latter override those of the
    /// former.
    git: Gitignore,
    /// The rules of `.ignore`, which override those of `git`.
    dot_ignore: Gitignore,
    /// Whether the directory is the top directory of a repository.
    is_repository: bool,
}

/// The names of folders whose content tools generate.
const GENERATED_FOLDERS: &[&str] = &[
    ".cache",
    ".git",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
    "venv",
];

/// Returns whether a folder with this name has content that tools generate.
pub(crate) fn is_generated_folder(name: &OsStr) -> bool {
    GENERATED_FOLDERS.iter().any(|generated| name == *generated)
}

/// Number of entries that are read from a directory between two checks of the budget.
const ENTRIES_PER_BUDGET_CHECK: u32 = 256;

impl<'a> SearchBudget<'a> {
    pub(crate) fn new(cancel: &'a IsCancelled<'a>) -> Self {
        Self { deadline: Instant::now() + MAX_SEARCH_TIME, cancel }
    }

    /// Limits the remaining time to at most `time`.
    pub(crate) fn with_time_limit(self, time: Duration) -> Self {
        Self { deadline: self.deadline.min(Instant::now() + time), ..self }
    }

    pub(crate) fn early_stop(&self) -> Option<EarlyStop> {
        if (self.cancel)() {
            Some(EarlyStop::Cancelled)
        } else {
            (Instant::now() >= self.deadline).then_some(EarlyStop::TimedOut)
        }
    }
}

impl<'a> Walk<'a> {
    /// Starts a walk at a directory. The walk visits `depth` levels. A directory that is nested
    /// deeper than [`MAX_WALK_DEPTH`] levels counts as unreadable.
    pub(crate) fn new(
        workspace: &Workspace,
        at: &WorkspacePath,
        depth: usize,
        order: WalkOrder,
        ignored: IgnoredFiles,
        budget: SearchBudget<'a>,
    ) -> Result<Self, ToolError> {
        let top = workspace.canonicalize(at)?;
        // If the top directory does not exist, fail instead of returning no entries.
        drop(workspace.open_dir(&top)?);
        let above = match ignored {
            IgnoredFiles::Skip => parent_ignore_rules(&top),
            IgnoredFiles::Include => Vec::new(),
        };
        let mut walk = Self {
            real: top.root.real_path.join(&top.path_in_root),
            top,
            levels: Vec::new(),
            parent_rules: above,
            ignored,
            omits_generated: false,
            order,
            depth,
            budget,
            current: None,
            stop: None,
            unreadable: 0,
            truncated_directories: 0,
        };
        walk.descend(PathBuf::new());
        Ok(walk)
    }

    /// Omits all directories with a name in [`GENERATED_FOLDERS`]. The top directory is never
    /// omitted.
    pub(crate) fn without_generated_folders(self) -> Self {
        Self { omits_generated: true, ..self }
    }

    /// Returns the absolute path of an entry, given its path relative to the top directory.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        self.top.path.join(path)
    }

    /// Returns the workspace path of an entry, given its path relative to the top directory.
    pub(crate) fn workspace_path(&self, path: &Path) -> WorkspacePath {
        WorkspacePath {
            given: path_text(path).into_owned(),
            path: self.absolute(path),
            root: self.top.root.clone(),
            path_in_root: self.top.path_in_root.join(path),
            inspected: None,
        }
    }

    /// Returns the open directory that contains the entry that was returned last.
    pub(crate) fn current_directory(&self) -> Option<Arc<Dir>> {
        self.current.clone()
    }

    pub(crate) fn early_stop(&self) -> Option<EarlyStop> {
        self.stop
    }

    /// Returns the number of directories that could not be read or were nested too deeply.
    pub(crate) fn unreadable_directory_count(&self) -> usize {
        self.unreadable
    }

    /// Returns the number of directories that have more than [`MAX_DIRECTORY_ENTRIES`] entries.
    pub(crate) fn truncated_directory_count(&self) -> usize {
        self.truncated_directories
    }

    fn descend(&mut self, path: PathBuf) {
        match self.open_and_list_directory(path) {
            Ok((level, more)) => {
                // A timeout or a cancellation also stops the listing before its end. In this case,
                // it is unknown whether the directory exceeds the limit.
                self.truncated_directories +=
                    usize::from(more && self.budget.early_stop().is_none());
                self.levels.push(level);
            }
            Err(_) => self.unreadable += 1,
        }
    }

    fn open_and_list_directory(&self, path: PathBuf) -> io::Result<(OpenDirectory, bool)> {
        let root = &self.top.root;
        let beneath = self.top.path_in_root.join(&path);
        let dir = root.pinned.open_dir(&beneath)?;
        // Reading entries from a slow disk may take long, so the budget is checked while they are
        // read.
        let (mut asked, budget) = (0_u32, self.budget);
        let (mut entries, more) = dir.entries_while(MAX_DIRECTORY_ENTRIES, || {
            asked = asked.wrapping_add(1);
            !asked.is_multiple_of(ENTRIES_PER_BUDGET_CHECK) || budget.early_stop().is_none()
        })?;
        match self.order {
            WalkOrder::ByName => entries.sort_unstable_by(|one, other| one.name.cmp(&other.name)),
            WalkOrder::DirectoriesFirst => entries.sort_unstable_by(|one, other| {
                let key = |entry: &DirectoryEntry| entry.kind != FileKind::Directory;
                key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
            }),
        }
        let rules = match self.ignored {
            IgnoredFiles::Skip => {
                // A sandbox occupies a missing `.git` with a special file.
                let is_git = |entry: &DirectoryEntry| {
                    entry.name == ".git" && entry.kind != FileKind::Special
                };
                let real = self.real.join(&path);
                let is_repository = entries.iter().any(is_git) || more && has_git(&real);
                read_ignore_rules(&root.pinned, &beneath, (&real, is_repository), |name| {
                    more || entries.iter().any(|entry| entry.name == name)
                })
            }
            IgnoredFiles::Include => DirectoryIgnoreRules::empty(),
        };
        Ok((OpenDirectory { path, dir: Arc::new(dir), entries: entries.into_iter(), rules }, more))
    }

    /// Returns whether the ignore rules exclude a file. If the rules of several directories match,
    /// the rules of the directory nearest to the file apply. The rules of git that are above the
    /// repository of the file do not apply.
    fn is_ignored(&self, path: &Path, kind: FileKind) -> bool {
        let levels = self.levels.iter().rev().map(|level| &level.rules);
        let rules = levels.chain(&self.parent_rules);
        if rules.clone().all(DirectoryIgnoreRules::is_empty) {
            return false;
        }
        let (absolute, is_directory) = (self.real.join(path), kind == FileKind::Directory);
        let mut is_above_repository = false;
        for rules in rules {
            let mut matched = rules.dot_ignore.matched(&absolute, is_directory);
            if matched.is_none() && !is_above_repository {
                matched = rules.git.matched(&absolute, is_directory);
            }
            if !matched.is_none() {
                return matched.is_ignore();
            }
            is_above_repository |= rules.is_repository;
        }
        false
    }
}

impl DirectoryIgnoreRules {
    fn empty() -> Self {
        Self { git: Gitignore::empty(), dot_ignore: Gitignore::empty(), is_repository: false }
    }

    fn is_empty(&self) -> bool {
        self.git.is_empty() && self.dot_ignore.is_empty()
    }
}

impl Iterator for Walk<'_> {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        loop {
            if self.stop.is_none() {
                self.stop = self.budget.early_stop();
            }
            if self.stop.is_some() {
                return None;
            }
            let level = self.levels.last_mut()?;
            let Some(DirectoryEntry { name, kind }) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let path = level.path.join(&name);
            if name == ".git"
                || self.omits_generated && kind == FileKind::Directory && is_generated_folder(&name)
                || self.is_ignored(&path, kind)
                // While a command runs, its sandbox occupies protected names that are missing.
                || kind == FileKind::Special && is_placeholder_at(&self.real.join(&path))
            {
                continue;
            }
            self.current = self.levels.last().map(|level| level.dir.clone());
            if kind == FileKind::Directory && self.levels.len() < self.depth {
                match self.levels.len() < MAX_WALK_DEPTH {
                    true => self.descend(path.clone()),
                    false => self.unreadable += 1,
                }
            }
            return Some(WalkEntry { path, kind });
        }
    }
}

impl fmt::Debug for Walk<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Walk").field("top", &self.top).finish_non_exhaustive()
    }
}

/// Returns the number of threads that one search uses.
pub(crate) fn search_thread_count() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_SEARCH_THREADS)
}

/// Returns the ignore rules of the parent directories, beginning with the nearest directory. The
/// rules of directories inside the project folder come first. The rules of directories above the
/// project folder follow, up to the top directory of its repository.
fn parent_ignore_rules(top: &WorkspacePath) -> Vec<DirectoryIgnoreRules> {
    let root = &top.root;
    let inside = top.path_in_root.ancestors().skip(1).map(|dir| {
        let real = root.real_path.join(dir);
        read_ignore_rules(&root.pinned, dir, (&real, has_git(&real)), |_| true)
    });
    let mut all: Vec<_> = inside.collect();
    if let Some(repository) = root.real_path.ancestors().find(|dir| has_git(dir)) {
        let outside =
            root.real_path.ancestors().skip(1).take_while(|dir| dir.starts_with(repository));
        all.extend(outside.filter_map(|dir| {
            let pinned = Pinned::pin(dir).ok()?;
            let is_repository = dir == repository;
            Some(read_ignore_rules(&pinned, Path::new(""), (dir, is_repository), |_| true))
        }));
    }
    all
}

/// Returns whether a directory is the top directory of a repository.
fn has_git(dir: &Path) -> bool {
    fs::metadata(dir.join(".git")).is_ok_and(|git| git.is_dir() || git.is_file())
}

/// Reads the ignore rules of the directory with the path `real`. `is_repository` states whether it
/// is the top directory of a repository.
///
/// The function `has` returns whether the directory may contain a name. Most directories have no
/// ignore files, so trying to open each possible file would take most of the time of a walk.
fn read_ignore_rules(
    root: &Pinned,
    beneath: &Path,
    (real, is_repository): (&Path, bool),
    has: impl Fn(&str) -> bool,
) -> DirectoryIgnoreRules {
    let read = |files: &[(&str, &str)]| {
        let mut there = files.iter().filter(|(name, _)| has(name)).peekable();
        if there.peek().is_none() {
            return Gitignore::empty();
        }
        let mut builder = GitignoreBuilder::new(real);
        for (_, name) in there {
            let Ok(file) = root.open_file(&beneath.join(name)) else { continue };
            let lines = BufReader::new(file.take(MAX_IGNORE_FILE_BYTES)).split(b'\n');
            for line in lines.take(MAX_IGNORE_FILE_LINES).map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                // Skip a pattern that is invalid.
                drop(builder.add_line(None, line.trim_start_matches('\u{feff}')));
            }
        }
        builder.build().unwrap_or_else(|_| Gitignore::empty())
    };
    let git = [(".git", ".git/info/exclude"), (".gitignore", ".gitignore")];
    DirectoryIgnoreRules {
        git: read(&git),
        dot_ignore: read(&[(".ignore", ".ignore")]),
        is_repository,
    }
}
