//! Searches the contents of files for a regular expression, in this process.
//!
//! Several threads receive files from one walk in the order of their names. The results of the
//! threads are put back into the order of the names. If there are more matches than can be shown,
//! no further file is searched. So the first matches in the order of the names are always shown,
//! whichever thread is faster. Each file is opened relative to the directory in which it was found,
//! beneath its root. Links are not followed.

mod file_queue;
mod file_search;
mod matcher;
mod query;
mod result_page;
mod result_text;

use std::panic::resume_unwind;
use std::path::PathBuf;
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
    /// The files with matches, in the order of their names.
    pub files: Vec<FileMatches>,
    /// Number of matching lines that are shown.
    pub count: usize,
    /// Number of requested matching lines that were skipped before this page.
    pub skipped_matches: usize,
    /// Whether there are more matches than are shown.
    pub truncated: bool,
    /// The reason why the search stopped early. `None` if it stopped because of too many matches,
    /// or is complete.
    pub stop: Option<EarlyStop>,
    /// Numbers of files that were not searched. If matches are omitted, these numbers may differ
    /// between equal searches.
    pub unsearched: UnsearchedCounts,
}

/// The matches of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMatches {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The matching lines and their context lines.
    pub lines: Vec<MatchLine>,
    /// The reason why the file was searched only in part. `None` if the file was searched
    /// completely, or is the last file that is shown.
    pub partial_reason: Option<PartialSearchReason>,
}

/// The reason why a file with matches was searched only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartialSearchReason {
    /// The file has more matches than requested per file.
    MatchLimit,
    /// The rest of the file contains a NUL byte.
    Binary,
    /// The next line of the file is longer than 4 MiB.
    LongLine,
}

/// One line of a file with matches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchLine {
    /// The line number, from 1.
    pub number: u64,
    /// The text of the line. For a long line, only the part around the match.
    pub text: String,
    /// Whether the line matches. A line that does not match is a context line.
    pub is_match: bool,
}

/// Numbers of files and directories that were not searched, or were searched only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UnsearchedCounts {
    /// Files that contain a NUL byte, and no match before this byte.
    pub binary: usize,
    /// Files larger than 8 MiB in a multi-line search.
    pub large: usize,
    /// Files that were searched only up to a line longer than 4 MiB.
    pub long_lines: usize,
    /// Files or directories that could not be read.
    pub unreadable: usize,
    /// Directories of which only the first 500,000 entries were read.
    pub truncated_directories: usize,
}

/// The progress of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchProgress {
    /// Number of files that were searched.
    pub(crate) files_searched: usize,
    /// Number of files found so far, if known.
    pub(crate) files_found: Option<usize>,
    /// Number of matching lines on the page.
    pub(crate) match_count: usize,
    /// The locations of the first matches in the order of the file names. `None` if the locations
    /// have not changed. Locations that were already reported are never removed.
    pub(crate) locations: Option<Vec<Location>>,
}

/// A callback for the progress of a search. Several threads call this function, one thread at a
/// time.
pub(crate) type OnSearchProgress<'a> = dyn Fn(SearchProgress) + Sync + 'a;

/// Searches the contents of a file, or of all files beneath a directory.
///
/// After 20 s the search stops and returns a partial result, which reports the timeout.
///
/// # Errors
///
/// The errors of [`Workspace::resolve`]; `bad_pattern`; `invalid_arguments` for an unknown file
/// type or an offset that is too large; `not_found`, `not_a_regular_file`, `not_permitted`.
pub fn search(
    workspace: &Workspace,
    query: &GrepQuery,
    cancel: &IsCancelled<'_>,
) -> Result<Matches, ToolError> {
    let at = workspace.resolve(query.path.as_deref().unwrap_or("."))?;
    search_at(workspace, query, &at, cancel, &|_| {})
}

/// Searches contents as [`search`] does. `at` is an inspected path, which replaces the path of the
/// query. Reports the locations of the first matches as soon as they are found. Reports the
/// progress every [`PROGRESS_INTERVAL`](crate::limits::PROGRESS_INTERVAL).
pub(crate) fn search_at(
    workspace: &Workspace,
    query: &GrepQuery,
    at: &WorkspacePath,
    cancel: &IsCancelled<'_>,
    watch: &OnSearchProgress<'_>,
) -> Result<Matches, ToolError> {
    let context = query.context.min(MAX_MATCH_CONTEXT_LINES) as usize;
    let part = PageRange { offset: query.offset()?, limit: query.limit(), context };
    let budget = SearchBudget::new(cancel);
    let look = FileSearchParameters::new(query, budget, part)?;
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

/// One search of a directory, which several threads share.
struct ParallelSearch<'a> {
    file_search: FileSearchParameters<'a>,
    files: FileQueue<'a>,
    page: Mutex<ResultPage>,
    on_progress: &'a OnSearchProgress<'a>,
}

impl ParallelSearch<'_> {
    fn run_on_threads(self) -> Matches {
        thread::scope(|scope| {
            // The current thread is one of the search threads.
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
        // Called while the lock is held, so that the reports stay in order.
        if let Some(seen) = page.progress_update(Instant::now()) {
            (self.on_progress)(SearchProgress {
                files_found: Some(self.files.found_count()),
                ..seen
            });
        }
    }
}

#[cfg(test)]
mod tests;
