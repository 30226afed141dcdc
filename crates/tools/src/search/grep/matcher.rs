//! A regular-expression matcher that checks a budget, so that a search can be stopped.
//!
//! A search in lines processes chunks of whole lines, and checks the budget between two chunks. A
//! multi-line search has no chunks, so the budget is checked before each match attempt. The sink
//! cannot check the budget instead: adjacent matches are merged before the sink receives them, so
//! it may receive the first match only at the end of the file.
//!
//! A single match attempt cannot be stopped. An attempt covers one line of at most
//! [`MAX_SEARCHED_LINE_BYTES`](crate::limits::MAX_SEARCHED_LINE_BYTES). In a multi-line search, an
//! attempt covers one file of at most
//! [`MAX_MULTILINE_FILE_BYTES`](crate::limits::MAX_MULTILINE_FILE_BYTES). Most expressions need
//! some milliseconds for this, because they search hundreds of megabytes per second. An expression
//! that can match in very many ways, such as `(.?){1000}\d`, may need half a second for a file of
//! maximum size.

use std::cell::Cell;
use std::fmt;

use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use grep_regex::RegexMatcher;

use crate::files::walk::SearchBudget;
use crate::limits::BYTES_PER_SEARCH_CANCEL_CHECK;

/// A matcher that checks a budget.
pub(super) struct InterruptibleMatcher<'a> {
    matcher: RegexMatcher,
    budget: SearchBudget<'a>,
    /// Number of bytes that were searched since the last check of the budget.
    bytes_since_check: Cell<usize>,
    #[cfg(test)]
    find_calls: Cell<u32>,
}

/// The error that stops a search because its budget is exhausted.
#[derive(Debug)]
pub(super) struct SearchInterrupted;

impl<'a> InterruptibleMatcher<'a> {
    pub(super) fn new(matcher: RegexMatcher, budget: SearchBudget<'a>) -> Self {
        Self {
            matcher,
            budget,
            bytes_since_check: Cell::new(0),
            #[cfg(test)]
            find_calls: Cell::new(0),
        }
    }

    /// Returns the number of match attempts in a multi-line search.
    #[cfg(test)]
    pub(super) fn find_call_count(&self) -> u32 {
        self.find_calls.get()
    }

    /// Counts bytes that were searched, and checks the budget at intervals. More frequent checks
    /// would be too slow, because one check takes as long as searching some hundred bytes.
    fn count_bytes_and_check_stop(&self, bytes: usize) -> Result<(), SearchInterrupted> {
        let searched = self.bytes_since_check.get() + bytes;
        let is_time = searched >= BYTES_PER_SEARCH_CANCEL_CHECK;
        self.bytes_since_check.set(if is_time { 0 } else { searched });
        if is_time && self.budget.early_stop().is_some() { Err(SearchInterrupted) } else { Ok(()) }
    }
}

impl Matcher for InterruptibleMatcher<'_> {
    type Captures = NoCaptures;
    type Error = SearchInterrupted;

    /// Finds a match in a multi-line search. One match attempt may scan the rest of the text.
    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, SearchInterrupted> {
        #[cfg(test)]
        self.find_calls.set(self.find_calls.get() + 1);
        self.count_bytes_and_check_stop(text.len() - at)?;
        self.matcher.find_at(text, at).map_err(SearchInterrupted::from)
    }

    fn new_captures(&self) -> Result<NoCaptures, SearchInterrupted> {
        Ok(NoCaptures::new())
    }

    /// Finds a match in a single line.
    fn shortest_match_at(
        &self,
        text: &[u8],
        at: usize,
    ) -> Result<Option<usize>, SearchInterrupted> {
        self.count_bytes_and_check_stop(text.len() - at)?;
        self.matcher.shortest_match_at(text, at).map_err(SearchInterrupted::from)
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.matcher.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.matcher.line_terminator()
    }

    /// Searches many lines at once, in chunks of whole lines. Must only be used for expressions
    /// whose matches contain no line end. Such an expression has the same matches in a chunk as in
    /// the whole text.
    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, SearchInterrupted> {
        let mut start = 0;
        loop {
            let end = chunk_end(text, start);
            let found = self.matcher.find_candidate_line(&text[start..end])?;
            let found = found.map(|found| shift_match(found, start));
            let passed = found.map_or(end, match_offset);
            self.count_bytes_and_check_stop(passed - start)?;
            // A match at the end of the chunk, e.g. of `^$`, may exist only because the chunk ends
            // there. Such a match counts only at the end of the text.
            if end == text.len() || passed < end {
                return Ok(found);
            }
            start = end;
        }
    }
}

/// Returns the end of the chunk that begins at `start`. A chunk ends at the end of a line or of the
/// text.
fn chunk_end(text: &[u8], start: usize) -> usize {
    let Some(rest) = text.get(start + BYTES_PER_SEARCH_CANCEL_CHECK - 1..) else {
        return text.len();
    };
    memchr::memchr(b'\n', rest).map_or(text.len(), |at| start + BYTES_PER_SEARCH_CANCEL_CHECK + at)
}

fn match_offset(found: LineMatchKind) -> usize {
    let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = found;
    at
}

fn shift_match(found: LineMatchKind, by: usize) -> LineMatchKind {
    match found {
        LineMatchKind::Confirmed(at) => LineMatchKind::Confirmed(at + by),
        LineMatchKind::Candidate(at) => LineMatchKind::Candidate(at + by),
    }
}

impl From<grep_matcher::NoError> for SearchInterrupted {
    fn from(_: grep_matcher::NoError) -> Self {
        Self
    }
}

impl fmt::Display for SearchInterrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the search was stopped")
    }
}

#[cfg(test)]
mod tests;
