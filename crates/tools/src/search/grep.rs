//! Searches the contents of files for a regular expression. The search runs in this process.
//!
//! One walk returns the files in the order of their names, and several threads search these files.
//! The results of the threads are put into the order of the names again. If there are more matches
//! than the page can show, no further file is searched. The page therefore always shows the first
//! matches in the order of the names, regardless of which thread is faster. Each file is opened
//! relative to the directory in which the walk found it. Links are not followed.

mod file_queue;
mod file_search;
mod matcher;
mod query;
mod result_page;
mod result_text;

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use acp_types::Location;

use crate::error::ToolError;
use crate::files::walk::{
    EarlyStop, IgnoredFiles, IsCancelled, SearchBudget, Walk, WalkOrder, search_thread_count,
};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::limits::MAX_MATCH_CONTEXT_LINES;
use crate::lock::lock;

use self::file_queue::FileQueue;
use self::file_search::FileSearchParameters;
use self::query::FileFilter;
use self::result_page::{FileSearchResult, PageRange, ResultPage};

pub use self::query::GrepQuery;

/// The result of a content search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Matches {
    /// The files that have matches, in the order of their names.
    pub files: Vec<FileMatches>,
    /// Number of matching lines in this result.
    pub count: usize,
    /// Number of matching lines before this page, which were skipped as requested.
    pub skipped_matches: usize,
    /// Whether there are more matches after this page.
    pub truncated: bool,
    /// The reason why the search stopped before its end. `None` if the search is complete, or if it
    /// stopped because the page is full.
    pub stop: Option<EarlyStop>,
    /// Numbers of files that were not searched. If there are more matches after this page, two
    /// equal searches may return different numbers.
    pub unsearched: UnsearchedCounts,
}

/// The matches in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMatches {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The matching lines, and the context lines around them.
    pub lines: Vec<MatchLine>,
    /// The reason why only a part of the file was searched. `None` if the whole file was searched,
    /// and for the last file of the page.
    pub partial_reason: Option<PartialFileSearchReason>,
}

/// The reason why only a part of a file was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartialFileSearchReason {
    /// The file has more matches than the query allows per file.
    MatchLimit,
    /// The rest of the file contains a NUL byte, so it is treated as binary.
    Binary,
    /// The next line of the file is longer than 4 MiB, so it cannot be searched.
    LongLine,
}

/// One line of a file that has matches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchLine {
    /// The line number, counted from 1.
    pub number: u64,
    /// The text of the line. If the line is long, this is only the part around the match.
    pub text: String,
    /// Whether the line matches. All other lines are context lines.
    pub is_match: bool,
}

/// Numbers of files and directories that were not searched, or of which only a part was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UnsearchedCounts {
    /// Number of files with a NUL byte and without a match before it.
    pub binary: usize,
    /// Number of files that a multi-line search skipped, because they are larger than 8 MiB.
    pub large: usize,
    /// Number of files whose search ended at a line longer than 4 MiB.
    pub long_lines: usize,
    /// Number of files or directories that could not be read.
    pub unreadable: usize,
    /// Number of directories in which only the first 500,000 entries were read.
    pub truncated_directories: usize,
}

/// The progress of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchProgress {
    /// Number of files that were searched so far.
    pub(crate) files_searched: usize,
    /// Number of files that were found so far. `None` if it is unknown.
    pub(crate) files_found: Option<usize>,
    /// Number of matching lines on the page so far.
    pub(crate) match_count: usize,
    /// The locations of the first matches, in the order of the file names. `None` if they have not
    /// changed. A location that was already reported is never removed.
    pub(crate) locations: Option<Vec<Location>>,
}

/// A callback that receives the progress of a search. Several threads call it, but never at the
/// same time.
pub(crate) type OnSearchProgress<'a> = dyn Fn(SearchProgress) + Sync + 'a;

/// Returns whether the matches in a file are left out. Several threads call it at the same time.
pub(crate) type IsExcluded<'a> = dyn Fn(&Path) -> bool + Sync + 'a;

/// Searches the contents of a file, or of all files in a directory and its subdirectories.
///
/// After 20 s, the search stops. The result is then partial, and reports the timeout.
///
/// # Errors
///
/// The errors of [`Workspace::resolve`]; `bad_pattern`; `invalid_arguments` if the file type is
/// unknown or the offset is too large; `not_found`, `not_a_regular_file`, `not_permitted`.
pub fn search(
    workspace: &Workspace,
    query: &GrepQuery,
    cancel: &IsCancelled<'_>,
) -> Result<Matches, ToolError> {
    let at = workspace.resolve(query.path.as_deref().unwrap_or("."))?;
    search_at(workspace, query, &at, cancel, &|_| false, &|_| {})
}

/// Searches contents in the same way as [`search`]. The inspected path `at` replaces the path of
/// the query. Matches in files for which `is_excluded` returns true are neither counted nor
/// reported. Reports the locations of the first matches as soon as they are found. Reports the
/// progress every [`PROGRESS_INTERVAL`](crate::limits::PROGRESS_INTERVAL).
pub(crate) fn search_at(
    workspace: &Workspace,
    query: &GrepQuery,
    at: &WorkspacePath,
    cancel: &IsCancelled<'_>,
    is_excluded: &IsExcluded<'_>,
    watch: &OnSearchProgress<'_>,
) -> Result<Matches, ToolError> {
    let context = query.context.min(MAX_MATCH_CONTEXT_LINES) as usize;
    let part = PageRange { offset: query.checked_offset()?, limit: query.limit(), context };
    let budget = SearchBudget::new(cancel);
    let look = FileSearchParameters::new(query, budget, part, is_excluded)?;
    let filter = FileFilter::from_query(query)?;
    let mut page = ResultPage::new(part, Instant::now());
    if !workspace.metadata(at)?.is_dir() {
        let file = workspace.open_read(at)?;
        page.add_file_result(
            0,
            look.create_file_searcher().search_file(Ok(file), || at.path().to_owned()),
        );
        return Ok(page.into_matches());
    }
    let ignored = IgnoredFiles::include_if(query.include_ignored);
    let walk = Walk::new(workspace, at, usize::MAX, WalkOrder::ByName, ignored, budget)?;
    let run = ParallelSearch {
        file_search: look,
        files: FileQueue::new(walk, filter),
        page: Mutex::new(page),
        on_progress: watch,
    };
    Ok(run.run_on_threads())
}

/// One search of a directory. Several threads share this value.
struct ParallelSearch<'a> {
    file_search: FileSearchParameters<'a>,
    files: FileQueue<'a>,
    page: Mutex<ResultPage>,
    on_progress: &'a OnSearchProgress<'a>,
}

impl ParallelSearch<'_> {
    fn run_on_threads(self) -> Matches {
        thread::scope(|scope| {
            // The current thread also searches files, so one thread less is started.
            let others: Vec<_> =
                (1..search_thread_count()).map(|_| scope.spawn(|| self.run_worker())).collect();
            self.run_worker();
            for other in others {
                other.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
        let walk = self.files.into_walk();
        let page = self.page.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut matches = page.into_matches();
        if !matches.truncated {
            matches.stop = matches.stop.or_else(|| walk.early_stop());
        }
        matches.unsearched.unreadable += walk.unreadable_directory_count();
        matches.unsearched.truncated_directories += walk.truncated_directory_count();
        matches
    }

    fn run_worker(&self) {
        let mut worker = self.file_search.create_file_searcher();
        while let Some(next) = self.files.next() {
            let path = || self.files.absolute(&next.path);
            let searched = worker.search_file(next.open(), path);
            self.add_result(next.index, searched);
        }
    }

    fn add_result(&self, place: usize, searched: FileSearchResult) {
        let mut page = lock(&self.page);
        page.add_file_result(place, searched);
        if page.has_enough_matches() {
            self.files.close();
        }
        // Call this while the lock is held, so that the reports are in order.
        if let Some(seen) = page.progress_update_if_due(Instant::now()) {
            (self.on_progress)(SearchProgress {
                files_found: Some(self.files.found_count()),
                ..seen
            });
        }
    }
}

#[cfg(test)]
mod tests;
