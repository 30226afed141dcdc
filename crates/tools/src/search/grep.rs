//! Searches the contents of files for a regular expression, in this process.
//!
//! It knows nothing of ripgrep's command line or its configuration files.
//!
//! Several threads take files from one walk in the order of their names, and what they find is put
//! into that order again. Once more is found than is shown no further file is begun. So the first
//! matches in that order are always shown, whichever thread was faster. Every file is opened in the
//! directory that it was found in, beneath its root; links are not followed.

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
    EarlyStop, IgnoredFiles, IsCancelled, SearchBudget, Walk, WalkOrder, threads,
};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::limits::MAX_MATCH_CONTEXT_LINES;
use crate::lock::lock;

use self::file_queue::FileQueue;
use self::file_search::FileSearch;
use self::query::FileFilter;
use self::result_page::{FileSearchResult, PageRange, ResultPage};

pub use self::query::GrepQuery;

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Matches {
    /// The files with matches, in the order of the names.
    pub files: Vec<FileMatches>,
    /// How many matching lines are shown.
    pub count: usize,
    /// How many matching lines were passed over before these, as was asked for.
    pub skipped_matches: usize,
    /// Whether there are more matches than are shown.
    pub truncated: bool,
    /// Why it did not look at everything, if not because of too many matches.
    pub stop: Option<EarlyStop>,
    /// What was not searched. Where matches are left out this may differ between equal searches.
    pub unsearched: UnsearchedCounts,
}

/// What one file holds of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMatches {
    /// The absolute path.
    pub path: PathBuf,
    /// The matching lines and those around them.
    pub lines: Vec<MatchLine>,
    /// Why the file was not searched to its end, if it was not and is not the last one shown.
    pub partial_reason: Option<PartialSearchReason>,
}

/// Why a file with matches was not searched to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartialSearchReason {
    /// It has more matches than were asked for of one file.
    MatchLimit,
    /// What follows holds a NUL byte.
    Binary,
    /// A line of more than 4 MiB follows.
    LongLine,
}

/// One line of a file with matches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchLine {
    /// Its number, from 1.
    pub number: u64,
    /// The line, or what of a long one is around the match.
    pub text: String,
    /// Whether it matches; else it is context.
    pub is_match: bool,
}

/// How many files and directories were not searched, or not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UnsearchedCounts {
    /// They hold a NUL byte, and no match before it.
    pub binary: usize,
    /// They have more than 8 MiB, too much to be searched over several lines.
    pub large: usize,
    /// They have a line of more than 4 MiB, which is where it ended.
    pub long_lines: usize,
    /// They could not be read.
    pub unreadable: usize,
    /// They are directories of more than 500,000 entries, which are looked at.
    pub truncated_directories: usize,
}

/// How far a search is, for those who watch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchProgress {
    /// How many files were searched.
    pub(crate) files_searched: usize,
    /// How many files to search were found so far, if that is known.
    pub(crate) files_found: Option<usize>,
    /// How many matching lines there are to show.
    pub(crate) match_count: usize,
    /// The first matches in the order of the names, if there are others than before. They stay.
    pub(crate) locations: Option<Vec<Location>>,
}

/// Told how far a search is, from several threads, one at a time.
pub(crate) type OnSearchProgress<'a> = dyn Fn(SearchProgress) + Sync + 'a;

/// Searches the contents of a file, or of all files beneath a directory.
///
/// It takes at most 20 s, then it returns what it has and says so.
///
/// # Errors
///
/// As [`Workspace::resolve`]; `bad_pattern`; `invalid_arguments` for a type of files that there is
/// not, or an offset that is too large; `not_found`, `not_a_regular_file`, `not_permitted`.
pub fn search(
    workspace: &Workspace,
    query: &GrepQuery,
    cancel: &IsCancelled<'_>,
) -> Result<Matches, ToolError> {
    let at = workspace.resolve(query.path.as_deref().unwrap_or("."))?;
    search_at(workspace, query, &at, cancel, &|_| {})
}

/// The same at a place that was looked at, whatever path the query has. It tells how far it is: the
/// first matches as soon as they are found, the rest every
/// [`PROGRESS_INTERVAL`](crate::limits::PROGRESS_INTERVAL).
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
    let look = FileSearch::new(query, budget, part)?;
    let filter = FileFilter::from_query(query)?;
    let mut page = ResultPage::new(part, Instant::now());
    if !workspace.metadata(at)?.is_dir() {
        let file = workspace.open_read(at)?;
        page.add(0, look.worker().search_file(Ok(file), || at.path().to_owned()));
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
    Ok(run.run())
}

/// One search of a directory, shared by its threads.
struct ParallelSearch<'a> {
    file_search: FileSearch<'a>,
    files: FileQueue<'a>,
    page: Mutex<ResultPage>,
    on_progress: &'a OnSearchProgress<'a>,
}

impl ParallelSearch<'_> {
    fn run(self) -> Matches {
        thread::scope(|scope| {
            // This thread is one of them.
            let others: Vec<_> =
                (1..threads()).map(|_| scope.spawn(|| self.run_worker())).collect();
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
        matches.unsearched.unreadable += walk.unreadable();
        matches.unsearched.truncated_directories += walk.truncated_directories();
        matches
    }

    fn run_worker(&self) {
        let mut worker = self.file_search.worker();
        while let Some(next) = self.files.next() {
            let path = || self.files.absolute(&next.path);
            let searched = worker.search_file(next.open(), path);
            self.add_result(next.index, searched);
        }
    }

    fn add_result(&self, place: usize, searched: FileSearchResult) {
        let mut page = lock(&self.page);
        page.add(place, searched);
        if page.is_enough() {
            self.files.close();
        }
        // Told under the lock, so that news never overtakes news.
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
