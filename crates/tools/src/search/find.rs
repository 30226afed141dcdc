//! Finds files and directories by their names.

mod fuzzy;

use std::iter::from_fn;
use std::path::{Path, PathBuf};

use acp_types::Location;

use crate::error::ToolError;
use crate::files::system::FileKind;
use crate::files::walk::{EarlyStop, IgnoredFiles, IsCancelled, SearchBudget, Walk, WalkOrder};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::limits::{MAX_ENTRIES_GATHERED, MAX_ENTRIES_SHOWN, MAX_MATCH_LOCATIONS};
use crate::progress::ProgressThrottle;
use crate::search::grep::{OnSearchProgress, SearchProgress};
use crate::search::{EntryPage, SearchGlob};

use self::fuzzy::{BestMatches, FuzzyMatcher};

/// The parameters of a search for file names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameQuery {
    /// The glob. For [`NamePatternKind::Fuzzy`], the letters to find in this order.
    pub pattern: String,
    /// The kind of the pattern.
    pub pattern_kind: NamePatternKind,
    /// The directory to search. `None` means `cwd`.
    pub path: Option<String>,
    /// Whether to include paths that `.gitignore` and similar files exclude.
    pub include_ignored: bool,
    /// Maximum number of paths to show. The default is 1,000, which is also the maximum.
    pub max_results: Option<u32>,
    /// Number of paths to skip before the first path that is shown. The maximum is 20,000.
    pub offset: u32,
}

/// The kind of a pattern for file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamePatternKind {
    /// A glob. Without a slash, it matches file names in any directory. With a slash, it matches
    /// paths relative to the searched directory. In a glob with a slash, `*` matches within one
    /// path component, and `**` matches any number of components.
    Glob,
    /// Letters that must occur in a path in this order. A lower-case letter also matches its
    /// upper-case letter. The best match comes first.
    Fuzzy,
}

impl NameQuery {
    /// Creates a search for a glob in `cwd` and its subdirectories.
    #[must_use]
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            pattern_kind: NamePatternKind::Glob,
            path: None,
            include_ignored: false,
            max_results: None,
            offset: 0,
        }
    }
}

/// The result of a search for file names. For a glob, the paths are ordered by name. For a fuzzy
/// pattern, the best match comes first.
pub type FoundPaths = EntryPage<FoundPath>;

/// A path that a search for file names found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundPath {
    /// The path relative to the searched directory.
    pub path: PathBuf,
    /// Whether the path is a directory.
    pub is_directory: bool,
}

/// Finds the paths in a directory and its subdirectories that match a pattern.
///
/// Hidden files are included, except `.git`. Ignored files are only included on request. After 20
/// s, the search stops. The result is then partial, and reports the timeout.
///
/// # Errors
///
/// The errors of [`Workspace::resolve`]; `bad_pattern`; `invalid_arguments` if the offset is too
/// large; `not_found`, `not_a_directory`, `not_permitted`.
pub fn find(
    workspace: &Workspace,
    query: &NameQuery,
    cancel: &IsCancelled<'_>,
) -> Result<FoundPaths, ToolError> {
    let at = workspace.resolve(query.path.as_deref().unwrap_or("."))?;
    find_at(workspace, query, &at, cancel, &|_| {})
}

/// Finds paths in the same way as [`find`]. The inspected path `at` replaces the path of the query.
/// Reports the progress every [`PROGRESS_INTERVAL`](crate::limits::PROGRESS_INTERVAL). For a glob,
/// the locations of the first matches are reported as soon as they are found.
pub(crate) fn find_at(
    workspace: &Workspace,
    query: &NameQuery,
    at: &WorkspacePath,
    cancel: &IsCancelled<'_>,
    watch: &OnSearchProgress<'_>,
) -> Result<FoundPaths, ToolError> {
    let offset = query.offset as usize;
    if offset > MAX_ENTRIES_GATHERED {
        let message =
            format!("offset is at most {MAX_ENTRIES_GATHERED}; narrow the pattern instead");
        return Err(ToolError::invalid_arguments(message));
    }
    let limit = query
        .max_results
        .map_or(MAX_ENTRIES_SHOWN, |most| most as usize)
        .clamp(1, MAX_ENTRIES_SHOWN);
    let mut pattern = match query.pattern_kind {
        NamePatternKind::Glob => NameMatcher::Glob(SearchGlob::parse(&query.pattern)?),
        NamePatternKind::Fuzzy => NameMatcher::Fuzzy(FuzzyMatcher::parse(&query.pattern)?),
    };
    let ignored = IgnoredFiles::include_if(query.include_ignored);
    let budget = SearchBudget::new(cancel);
    let walk = Walk::new(workspace, at, usize::MAX, WalkOrder::ByName, ignored, budget)?;
    let (top, pace) = (at.path(), ProgressThrottle::begin());
    let mut look = PathSearch {
        walk,
        root_path: top,
        on_progress: watch,
        entries_seen: 0,
        match_count: 0,
        throttle: pace,
    };
    let (passed, entries) = match &mut pattern {
        NameMatcher::Glob(glob) => look.collect_page_in_order(glob, offset, limit),
        NameMatcher::Fuzzy(fuzzy) => look.collect_best(fuzzy, offset, limit),
    };
    let left_out = look.match_count - passed - entries.len();
    let is_enough = matches!(pattern, NameMatcher::Glob(_)) && left_out == MAX_ENTRIES_GATHERED;
    Ok(EntryPage {
        path: at.path().to_owned(),
        entries,
        skipped_entries: passed,
        omitted_entries: left_out,
        stop: look.walk.early_stop().or(is_enough.then_some(EarlyStop::LimitReached)),
        unreadable: look.walk.unreadable_directory_count(),
        truncated_directories: look.walk.truncated_directory_count(),
    })
}

enum NameMatcher {
    Glob(SearchGlob),
    Fuzzy(FuzzyMatcher),
}

/// A walk that counts the entries it returns, and reports the progress.
struct PathSearch<'a> {
    walk: Walk<'a>,
    /// The top directory of the walk, in the form that the session displays.
    root_path: &'a Path,
    on_progress: &'a OnSearchProgress<'a>,
    /// Number of entries that the walk has returned so far. The field `match_count` is the number
    /// of matches among them.
    entries_seen: usize,
    match_count: usize,
    throttle: ProgressThrottle,
}

impl PathSearch<'_> {
    /// Collects the matches of the page in the order of the walk. Counts the matches after the
    /// page, up to a limit.
    fn collect_page_in_order(
        &mut self,
        glob: &SearchGlob,
        offset: usize,
        limit: usize,
    ) -> (usize, Vec<FoundPath>) {
        let next = |look: &mut Self| look.next_match(|path| glob.matches(path).then_some(()));
        let passed = from_fn(|| next(self)).take(offset).count();
        let mut entries = Vec::new();
        while entries.len() < limit
            && let Some((_, found)) = next(self)
        {
            entries.push(found);
            if entries.len() <= MAX_MATCH_LOCATIONS {
                let first = locations(self.root_path, &entries).collect();
                self.report_progress(Some(first));
            }
        }
        from_fn(|| next(self)).take(MAX_ENTRIES_GATHERED).for_each(drop);
        (passed, entries)
    }

    fn report_progress(&self, locations: Option<Vec<Location>>) {
        (self.on_progress)(SearchProgress {
            files_searched: self.entries_seen,
            files_found: None,
            match_count: self.match_count,
            locations,
        });
    }

    /// Searches all entries, and keeps the best matches.
    fn collect_best(
        &mut self,
        fuzzy: &mut FuzzyMatcher,
        offset: usize,
        limit: usize,
    ) -> (usize, Vec<FoundPath>) {
        let mut best = BestMatches::with_limit(offset + limit);
        while let Some((score, found)) = self.next_match(|path| fuzzy.score(path)) {
            best.add(score, found);
        }
        (offset.min(self.match_count), best.into_sorted().skip(offset).collect())
    }

    /// Returns the next match, with the value that `matches` returned for it.
    fn next_match<T>(
        &mut self,
        mut matches: impl FnMut(&Path) -> Option<T>,
    ) -> Option<(T, FoundPath)> {
        loop {
            let found = self.walk.next()?;
            self.entries_seen += 1;
            if self.throttle.restart_if_due_now() {
                self.report_progress(None);
            }
            if let Some(what) = matches(&found.path) {
                self.match_count += 1;
                let is_directory = found.kind == FileKind::Directory;
                return Some((what, FoundPath { path: found.path, is_directory }));
            }
        }
    }
}

impl FoundPaths {
    /// Returns the offset of the next page, or `None` if this is the last page.
    #[must_use]
    pub fn next_offset(&self) -> Option<usize> {
        let next = self.skipped_entries + self.entries.len();
        (self.omitted_entries > 0 && next <= MAX_ENTRIES_GATHERED).then_some(next)
    }

    /// Returns the paths as text, one path per line. A path inside `cwd` is relative to `cwd`.
    #[must_use]
    pub fn to_text(&self, workspace: &Workspace) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&workspace.display(&self.absolute(entry)));
            text.push_str(if entry.is_directory { "/\n" } else { "\n" });
        }
        if self.entries.is_empty() {
            text.push_str(&match self.skipped_entries {
                0 => "[no name matches]\n".to_owned(),
                passed => format!("[no more matches: there are {passed}]\n"),
            });
        }
        text + &self.omission_footer(self.next_offset())
    }

    /// Returns the first paths as locations, for the client.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        locations(&self.path, &self.entries)
    }

    /// Returns the absolute path of an entry.
    #[must_use]
    pub(crate) fn absolute(&self, entry: &FoundPath) -> PathBuf {
        self.path.join(&entry.path)
    }
}

fn locations(top: &Path, entries: &[FoundPath]) -> impl Iterator<Item = Location> {
    let first = entries.iter().take(MAX_MATCH_LOCATIONS);
    first.filter_map(|entry| Location::try_new(top.join(&entry.path)).ok())
}

#[cfg(test)]
mod tests;
