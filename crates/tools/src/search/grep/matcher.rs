//! A regular expression whose search can be stopped. It knows nothing of files.
//!
//! Lines are looked through in pieces of some, with a question between two pieces. Matches over
//! several lines have no such places: the budget is asked before each of them is looked for. Those
//! that follow each other are joined before anybody hears of them, so that it could not be asked by
//! whoever takes them.
//!
//! What cannot be stopped is one look of the expression: through one line, which has at most
//! [`SEARCHED_LINE_BYTES`](crate::limits::SEARCHED_LINE_BYTES), and for a match over several lines
//! through one file, which has at most [`MULTILINE_BYTES`](crate::limits::MULTILINE_BYTES). For most
//! expressions these are some milliseconds, because they look through hundreds of megabytes a second.
//! One with very many ways to match, such as `(.?){1000}\d`, may need half a second for such a file.

use std::cell::Cell;
use std::fmt;

use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use grep_regex::RegexMatcher;

use crate::files::walk::Budget;
use crate::limits::SEARCHED_PIECE_BYTES;

/// A matcher with a budget.
pub(super) struct StoppableMatcher<'a> {
    matcher: RegexMatcher,
    budget: Budget<'a>,
    /// How many bytes were looked through since the budget was asked.
    looked: Cell<usize>,
    #[cfg(test)]
    finds: Cell<u32>,
}

/// The budget is used up.
#[derive(Debug)]
pub(super) struct Stopped;

impl<'a> StoppableMatcher<'a> {
    pub(super) fn new(matcher: RegexMatcher, budget: Budget<'a>) -> Self {
        Self {
            matcher,
            budget,
            looked: Cell::new(0),
            #[cfg(test)]
            finds: Cell::new(0),
        }
    }

    /// Returns how often a match over several lines was looked for.
    #[cfg(test)]
    pub(super) fn finds(&self) -> u32 {
        self.finds.get()
    }

    /// Counts bytes that are looked through. Asking takes as long as looking through some hundred,
    /// so it is done now and then.
    fn looks_through(&self, bytes: usize) -> Result<(), Stopped> {
        let looked = self.looked.get() + bytes;
        let is_time = looked >= SEARCHED_PIECE_BYTES;
        self.looked.set(if is_time { 0 } else { looked });
        if is_time && self.budget.stop().is_some() { Err(Stopped) } else { Ok(()) }
    }
}

impl Matcher for StoppableMatcher<'_> {
    type Captures = NoCaptures;
    type Error = Stopped;

    /// Used for matches over several lines, each of which may be looked for through all that is left.
    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, Stopped> {
        #[cfg(test)]
        self.finds.set(self.finds.get() + 1);
        self.looks_through(text.len() - at)?;
        self.matcher.find_at(text, at).map_err(Stopped::from)
    }

    fn new_captures(&self) -> Result<NoCaptures, Stopped> {
        Ok(NoCaptures::new())
    }

    /// Used for single lines.
    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, Stopped> {
        self.looks_through(text.len() - at)?;
        self.matcher.shortest_match_at(text, at).map_err(Stopped::from)
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.matcher.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.matcher.line_terminator()
    }

    /// Used for many lines of an expression that matches no line's end, so that a piece of whole
    /// lines has the matches that these lines have in the text.
    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        let mut start = 0;
        loop {
            let end = piece_end(text, start);
            let found = self.matcher.find_candidate_line(&text[start..end])?;
            let found = found.map(|found| moved(found, start));
            let passed = found.map_or(end, offset);
            self.looks_through(passed - start)?;
            // What matches behind the last line may not be a match where the next line follows.
            if end == text.len() || passed < end {
                return Ok(found);
            }
            start = end;
        }
    }
}

/// Returns where the piece ends that begins at `start`: behind a line, or at the end of the text.
fn piece_end(text: &[u8], start: usize) -> usize {
    let Some(rest) = text.get(start + SEARCHED_PIECE_BYTES - 1..) else { return text.len() };
    memchr::memchr(b'\n', rest).map_or(text.len(), |at| start + SEARCHED_PIECE_BYTES + at)
}

fn offset(found: LineMatchKind) -> usize {
    let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = found;
    at
}

fn moved(found: LineMatchKind, by: usize) -> LineMatchKind {
    match found {
        LineMatchKind::Confirmed(at) => LineMatchKind::Confirmed(at + by),
        LineMatchKind::Candidate(at) => LineMatchKind::Candidate(at + by),
    }
}

impl From<grep_matcher::NoError> for Stopped {
    fn from(_: grep_matcher::NoError) -> Self {
        Self
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the search was stopped")
    }
}

#[cfg(test)]
mod tests;
