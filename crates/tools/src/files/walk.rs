//! A walk through the files beneath a directory, without those that `.gitignore` hides.
//!
//! It knows nothing of what is looked for.
//!
//! Directories and ignore files are opened like every other file of the workspace: no link is
//! followed and nothing blocks, whatever a repository holds. (The walker of the `ignore` crate
//! opens ignore files by path and would wait for a FIFO called `.gitignore`.) The order is that of
//! the names, so equal trees give equal answers. `.ignore`, `.gitignore` and `.git/info/exclude`
//! are heeded, in the directories above up to the repository too, inside a repository or not; the
//! user's global ignore file is not. Hidden files are shown, `.git` never is.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use callboard_text::path_text;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::error::ToolError;
use crate::files::system::{Dir, DirectoryEntry, FileKind, PinnedDirectory as Pinned};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::limits::{
    MAX_DIRECTORY_ENTRIES, MAX_IGNORE_FILE_BYTES, MAX_IGNORE_FILE_LINES, MAX_SEARCH_THREADS,
    MAX_SEARCH_TIME, MAX_WALK_DEPTH,
};

/// Asked now and then, from several threads, whether to stop.
pub type IsCancelled<'a> = dyn Fn() -> bool + Sync + 'a;

/// Why a listing or search did not look at everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EarlyStop {
    /// It was told to.
    Cancelled,
    /// It had found as much as is counted.
    LimitReached,
    /// Its time was over.
    TimedOut,
}

/// How long a listing or search may go on.
#[derive(Clone, Copy)]
pub(crate) struct SearchBudget<'a> {
    deadline: Instant,
    cancel: &'a IsCancelled<'a>,
}

/// In which order a walk shows the entries of one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkOrder {
    ByName,
    DirectoriesFirst,
}

/// What a walk does with what `.gitignore` and the like name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoredFiles {
    Skip,
    Include,
}

impl IgnoredFiles {
    /// Returns what somebody asked for.
    pub(crate) fn include_if(is_shown: bool) -> Self {
        if is_shown { Self::Include } else { Self::Skip }
    }
}

/// Something a walk came across.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WalkEntry {
    /// Relative to the directory that is walked.
    pub(crate) path: PathBuf,
    pub(crate) kind: FileKind,
}

/// A walk beneath a directory, depth first, each directory before what is in it.
pub(crate) struct Walk<'a> {
    top: WorkspacePath,
    /// Where that really is.
    real: PathBuf,
    /// The directories on the way down, with what of them is still to be shown.
    levels: Vec<OpenDirectory>,
    /// The rules of the directories above.
    parent_rules: Vec<Gitignore>,
    ignored: IgnoredFiles,
    order: WalkOrder,
    depth: usize,
    budget: SearchBudget<'a>,
    stop: Option<EarlyStop>,
    unreadable: usize,
    truncated_directories: usize,
}

struct OpenDirectory {
    path: PathBuf,
    dir: Arc<Dir>,
    entries: std::vec::IntoIter<DirectoryEntry>,
    rules: Gitignore,
}

/// How many entries of a directory are read before the budget is asked again.
const ENTRIES_PER_BUDGET_CHECK: u32 = 256;

impl<'a> SearchBudget<'a> {
    pub(crate) fn new(cancel: &'a IsCancelled<'a>) -> Self {
        Self { deadline: Instant::now() + MAX_SEARCH_TIME, cancel }
    }

    /// Leaves no more than this time from now on.
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
    /// Begins a walk at a directory, `depth` levels deep. What is beneath [`WALK_DEPTH`] of them
    /// counts as unreadable.
    pub(crate) fn new(
        workspace: &Workspace,
        at: &WorkspacePath,
        depth: usize,
        order: WalkOrder,
        ignored: IgnoredFiles,
        budget: SearchBudget<'a>,
    ) -> Result<Self, ToolError> {
        let top = workspace.canonicalize(at)?;
        // Whoever asks for a missing directory should hear of it.
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
            order,
            depth,
            budget,
            stop: None,
            unreadable: 0,
            truncated_directories: 0,
        };
        walk.descend(PathBuf::new());
        Ok(walk)
    }

    /// Returns the absolute path of something found.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        self.top.path.join(path)
    }

    /// Returns the place of something found.
    pub(crate) fn workspace_path(&self, path: &Path) -> WorkspacePath {
        WorkspacePath {
            given: path_text(path).into_owned(),
            path: self.absolute(path),
            root: self.top.root.clone(),
            path_in_root: self.top.path_in_root.join(path),
            inspected: None,
        }
    }

    /// Returns the open directory that a file is in which was found just now.
    pub(crate) fn current_directory(&self) -> Option<Arc<Dir>> {
        self.levels.last().map(|level| level.dir.clone())
    }

    pub(crate) fn early_stop(&self) -> Option<EarlyStop> {
        self.stop
    }

    /// Returns how many directories could not be read or are too deep.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Returns how many directories have more than [`DIRECTORY_ENTRIES`].
    pub(crate) fn truncated_directories(&self) -> usize {
        self.truncated_directories
    }

    fn descend(&mut self, path: PathBuf) {
        match self.open_directory(path) {
            Ok((level, more)) => {
                // Who had no time for more says that of all.
                self.truncated_directories +=
                    usize::from(more && self.budget.early_stop().is_none());
                self.levels.push(level);
            }
            Err(_) => self.unreadable += 1,
        }
    }

    fn open_directory(&self, path: PathBuf) -> io::Result<(OpenDirectory, bool)> {
        let root = &self.top.root;
        let beneath = self.top.path_in_root.join(&path);
        let dir = root.pinned.open_dir(&beneath)?;
        // Each may take as long as the disk takes.
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
                read_ignore_rules(&root.pinned, &beneath, &self.real.join(&path), |name| {
                    more || entries.iter().any(|entry| entry.name == name)
                })
            }
            IgnoredFiles::Include => Gitignore::empty(),
        };
        Ok((OpenDirectory { path, dir: Arc::new(dir), entries: entries.into_iter(), rules }, more))
    }

    /// The rule that is nearest to the file decides.
    fn is_ignored(&self, path: &Path, kind: FileKind) -> bool {
        let levels = self.levels.iter().rev().map(|level| &level.rules);
        let mut rules =
            levels.chain(&self.parent_rules).filter(|rules| !rules.is_empty()).peekable();
        if rules.peek().is_none() {
            return false;
        }
        let absolute = self.real.join(path);
        rules
            .map(|rules| rules.matched(&absolute, kind == FileKind::Directory))
            .find(|matched| !matched.is_none())
            .is_some_and(|matched| matched.is_ignore())
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
            if name == ".git" || self.is_ignored(&path, kind) {
                continue;
            }
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

/// Returns how many threads a search uses.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_SEARCH_THREADS)
}

/// Returns the rules of the directories above, the nearest first: those in the root, and those up
/// to the repository that the root is a part of.
fn parent_ignore_rules(top: &WorkspacePath) -> Vec<Gitignore> {
    let root = &top.root;
    let inside = top.path_in_root.ancestors().skip(1);
    let mut all: Vec<_> = inside
        .map(|dir| read_ignore_rules(&root.pinned, dir, &root.real_path.join(dir), |_| true))
        .collect();
    let is_repository = |dir: &&Path| dir.join(".git").exists();
    if let Some(repository) = root.real_path.ancestors().find(is_repository) {
        let outside =
            root.real_path.ancestors().skip(1).take_while(|dir| dir.starts_with(repository));
        all.extend(outside.filter_map(|dir| {
            let pinned = Pinned::pin(dir).ok()?;
            Some(read_ignore_rules(&pinned, Path::new(""), dir, |_| true))
        }));
    }
    all
}

/// Reads the rules of one directory; those of a later file overrule those of an earlier one.
///
/// `has` tells whether a name may be in the directory: most have none of these, and asking for
/// each of them takes longer than all else.
fn read_ignore_rules(
    root: &Pinned,
    beneath: &Path,
    real: &Path,
    has: impl Fn(&str) -> bool,
) -> Gitignore {
    let files =
        [(".git", ".git/info/exclude"), (".gitignore", ".gitignore"), (".ignore", ".ignore")];
    let mut there = files.into_iter().filter(|(name, _)| has(name)).peekable();
    if there.peek().is_none() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(real);
    for (_, name) in there {
        let Ok(file) = root.open(&beneath.join(name)) else { continue };
        let lines = BufReader::new(file.take(MAX_IGNORE_FILE_BYTES)).split(b'\n');
        for line in lines.take(MAX_IGNORE_FILE_LINES).map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            // A line that is no pattern hides nothing.
            drop(builder.add_line(None, line.trim_start_matches('\u{feff}')));
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
