//! Searches the contents of files for a regular expression, in this process.
//!
//! It knows nothing of ripgrep's command line or its configuration files.
//!
//! Several threads take files from one walk in the order of their names. Once enough matches
//! are found no further file is begun, and those that were begun are finished; so the first
//! matches in that order are always shown, whichever thread was faster. Every file is opened
//! beneath its root; links are not followed.

mod preview;
mod text;

use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use crate::error::{Code, ToolError};
use crate::find::PathGlob;
use crate::limits::{
    FILE_BYTES, MATCH_BYTES, MATCH_CONTEXT, MATCHES, MATCHES_BYTES, MATCHES_MAX, PATTERN_BYTES,
    REGEX_BYTES, REGEX_CACHE_BYTES, SEARCHED_LINE_BYTES,
};
use crate::sys::fs::Kind;
use crate::workspace::{Budget, Cancel, Order, Resolved, Stop, Walk, Workspace, threads};

use self::preview::preview;

/// What to search for, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// A regular expression that matches inside of one line.
    pub pattern: String,
    /// The file or directory to search, `cwd` if none.
    pub path: Option<String>,
    /// Which files to search, as in [`find`](crate::find::find).
    pub glob: Option<String>,
    /// Whether upper and lower case differ.
    pub case_sensitive: bool,
    /// How many lines to show before and after each match; at most [`MATCH_CONTEXT`].
    pub context: u32,
    /// How many matching lines to show; [`MATCHES`] if not given, at most [`MATCHES_MAX`].
    pub max_results: Option<u32>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matches {
    /// The files with matches, in the order of the names.
    pub files: Vec<FileMatches>,
    /// How many matching lines are shown.
    pub count: usize,
    /// Whether there are more matches than are shown.
    pub truncated: bool,
    /// Why it did not look at everything, if not because of too many matches.
    pub stop: Option<Stop>,
    /// What was not searched. Where matches are left out this may differ between equal searches.
    pub skipped: Skipped,
}

/// What one file holds of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMatches {
    /// The absolute path.
    pub path: PathBuf,
    /// The matching lines and those around them.
    pub lines: Vec<MatchLine>,
}

/// One line of a file with matches.
#[derive(Debug, Clone, PartialEq, Eq)]
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
pub struct Skipped {
    /// They hold a NUL byte.
    pub binary: usize,
    /// They have more than [`FILE_BYTES`].
    pub large: usize,
    /// They have a line of more than [`SEARCHED_LINE_BYTES`], which is where it ended.
    pub long_lines: usize,
    /// They could not be read.
    pub unreadable: usize,
}

impl Query {
    /// Makes a search for a regular expression in all files beneath `cwd`, case-sensitive.
    #[must_use]
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            path: None,
            glob: None,
            case_sensitive: true,
            context: 0,
            max_results: None,
        }
    }

    fn matcher(&self) -> Result<RegexMatcher, ToolError> {
        if self.pattern.len() > PATTERN_BYTES {
            return Err(ToolError::report(Code::BadPattern, "the pattern is too long"));
        }
        RegexMatcherBuilder::new()
            .case_insensitive(!self.case_sensitive)
            .multi_line(true)
            .unicode(true)
            .octal(false)
            .crlf(true)
            .size_limit(REGEX_BYTES)
            .dfa_size_limit(REGEX_CACHE_BYTES)
            .build(&self.pattern)
            .map_err(|error| {
                let text = error.to_string();
                let reason = text.lines().rev().find(|line| !line.trim().is_empty());
                let reason = reason.unwrap_or(&text).trim_start_matches("error: ");
                let message = format!("the regular expression does not work: {reason}");
                ToolError::report(Code::BadPattern, message)
            })
    }
}

/// Searches the contents of a file, or of all files beneath a directory.
///
/// # Errors
///
/// As [`Workspace::resolve`]; `bad_pattern`; `not_found`, `not_a_regular_file`, `not_permitted`.
pub fn search(
    workspace: &Workspace,
    query: &Query,
    cancel: &Cancel<'_>,
) -> Result<Matches, ToolError> {
    let at = workspace.resolve(query.path.as_deref().unwrap_or("."))?;
    search_at(workspace, query, &at, cancel)
}

/// The same at a place that was looked at, whatever path the query has.
pub(crate) fn search_at(
    workspace: &Workspace,
    query: &Query,
    at: &Resolved,
    cancel: &Cancel<'_>,
) -> Result<Matches, ToolError> {
    let matcher = query.matcher()?;
    let glob = query.glob.as_deref().map(PathGlob::parse).transpose()?;
    let budget = Budget::new(cancel);
    let run = Run {
        workspace,
        matcher,
        budget,
        context: query.context.min(MATCH_CONTEXT),
        limit: query.max_results.unwrap_or(MATCHES).clamp(1, MATCHES_MAX) as usize,
        found: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
    };
    if workspace.metadata(at)?.is_dir() {
        let walk = Walk::new(workspace, at, usize::MAX, Order::ByName, budget)?;
        Ok(run.all(walk, glob.as_ref()))
    } else {
        drop(workspace.open_read(at)?);
        let mut share = Share::default();
        run.file(&mut run.searcher(), 0, at, &mut share);
        Ok(run.gathered(share, budget.stop()))
    }
}

/// One search, shared by its threads.
struct Run<'a> {
    workspace: &'a Workspace,
    matcher: RegexMatcher,
    budget: Budget<'a>,
    context: u32,
    limit: usize,
    /// The matches of all threads so far.
    found: AtomicUsize,
    /// The bytes of their text.
    bytes: AtomicUsize,
}

/// What one thread found: files by their place in the order.
#[derive(Default)]
struct Share {
    files: Vec<(usize, FileMatches)>,
    skipped: Skipped,
}

impl Run<'_> {
    fn all(&self, walk: Walk<'_>, glob: Option<&PathGlob>) -> Matches {
        let files = Mutex::new((0, walk));
        let next = || {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            let (count, walk) = &mut *files;
            let found = walk.find(|found| {
                found.kind == Kind::File && glob.is_none_or(|glob| glob.matches(&found.path))
            })?;
            *count += 1;
            Some((*count, walk.place(&found.path)))
        };
        let shares = thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads()).map(|_| scope.spawn(|| self.work(&next))).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .fold(Share::default(), Share::with)
        });
        let (_, walk) = files.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut matches = self.gathered(shares, walk.stop());
        matches.skipped.unreadable += walk.unreadable();
        matches
    }

    fn work(&self, next: &dyn Fn() -> Option<(usize, Resolved)>) -> Share {
        let mut share = Share::default();
        let mut searcher = self.searcher();
        while !self.is_full()
            && let Some((index, at)) = next()
        {
            self.file(&mut searcher, index, &at, &mut share);
        }
        share
    }

    fn is_full(&self) -> bool {
        self.found.load(Ordering::Relaxed) > self.limit
            || self.bytes.load(Ordering::Relaxed) > MATCHES_BYTES
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .before_context(self.context as usize)
            .after_context(self.context as usize)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(SEARCHED_LINE_BYTES))
            .build()
    }

    fn file(&self, searcher: &mut Searcher, index: usize, at: &Resolved, share: &mut Share) {
        let skipped = &mut share.skipped;
        let Ok(file) = self.workspace.open_read(at) else {
            skipped.unreadable += 1;
            return;
        };
        if file.metadata().is_ok_and(|metadata| metadata.len() > FILE_BYTES) {
            skipped.large += 1;
            return;
        }
        let mut sink =
            Collector { run: self, lines: Vec::new(), found: 0, bytes: 0, binary: false };
        let input = Stoppable { input: io::Read::take(file, FILE_BYTES), budget: self.budget };
        match searcher.search_reader(&self.matcher, input, &mut sink) {
            Ok(()) => {}
            Err(_) if self.budget.stop().is_some() => {}
            // The system's errors have a number; the searcher's own is the line's length.
            Err(error) if error.raw_os_error().is_none() => skipped.long_lines += 1,
            Err(_) => skipped.unreadable += 1,
        }
        if sink.binary {
            skipped.binary += 1;
        } else if sink.found > 0 {
            self.found.fetch_add(sink.found, Ordering::Relaxed);
            self.bytes.fetch_add(sink.bytes, Ordering::Relaxed);
            share
                .files
                .push((index, FileMatches { path: at.path().to_owned(), lines: sink.lines }));
        }
    }

    /// Brings the files into their order, and leaves out what is too much.
    fn gathered(&self, share: Share, stop: Option<Stop>) -> Matches {
        let mut matches = Matches { stop, skipped: share.skipped, ..Matches::default() };
        let mut files = share.files;
        files.sort_unstable_by_key(|(index, _)| *index);
        let mut bytes = 0;
        for (_, mut file) in files {
            let mut last_match = 0;
            let kept = file.lines.iter().take_while(|line| {
                bytes += line.text.len();
                if bytes > MATCHES_BYTES || (line.is_match && matches.count == self.limit) {
                    matches.truncated = true;
                } else if line.is_match {
                    matches.count += 1;
                    last_match = line.number;
                }
                !matches.truncated
            });
            let kept = kept.count();
            if matches.truncated {
                file.lines.truncate(kept);
                // What was context of a match that is left out goes with it.
                file.lines.retain(|line| line.number <= last_match + u64::from(self.context));
            }
            if !file.lines.is_empty() {
                matches.files.push(file);
            }
            if matches.truncated {
                break;
            }
        }
        matches
    }
}

impl Share {
    fn with(mut self, other: Self) -> Self {
        self.files.extend(other.files);
        let (all, more) = (&mut self.skipped, other.skipped);
        all.binary += more.binary;
        all.large += more.large;
        all.long_lines += more.long_lines;
        all.unreadable += more.unreadable;
        self
    }
}

/// A file that ends with an error when the search has to stop.
struct Stoppable<'a, R> {
    input: R,
    budget: Budget<'a>,
}

impl<R: io::Read> io::Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.budget.stop() {
            Some(_) => Err(io::ErrorKind::TimedOut.into()),
            None => self.input.read(buffer),
        }
    }
}

/// Takes the matches of one file.
struct Collector<'a> {
    run: &'a Run<'a>,
    lines: Vec<MatchLine>,
    found: usize,
    bytes: usize,
    binary: bool,
}

impl Collector<'_> {
    fn push(&mut self, number: Option<u64>, text: String, is_match: bool) -> bool {
        self.bytes += text.len();
        self.found += usize::from(is_match);
        self.lines.push(MatchLine { number: number.unwrap_or(0), text, is_match });
        self.found <= self.run.limit && self.bytes <= MATCHES_BYTES
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        let found = self.run.matcher.find(line.bytes()).ok().flatten();
        let found = found.map_or(0..0, |found| found.start()..found.end());
        let text = preview(line.bytes(), found, MATCH_BYTES);
        Ok(self.push(line.line_number(), text, true))
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.push(line.line_number(), preview(line.bytes(), 0..0, MATCH_BYTES), false))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
