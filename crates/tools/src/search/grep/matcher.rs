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

use crate::files::walk::SearchBudget;
use crate::limits::BYTES_PER_SEARCH_CANCEL_CHECK;

/// A matcher with a budget.
pub(super) struct BudgetedMatcher<'a> {
    matcher: RegexMatcher,
    budget: SearchBudget<'a>,
    /// How many bytes were looked through since the budget was asked.
    bytes_since_check: Cell<usize>,
    #[cfg(test)]
    find_calls: Cell<u32>,
}

/// The budget is used up.
#[derive(Debug)]
pub(super) struct BudgetExhausted;

impl<'a> BudgetedMatcher<'a> {
    pub(super) fn new(matcher: RegexMatcher, budget: SearchBudget<'a>) -> Self {
        Self {
            matcher,
            budget,
            bytes_since_check: Cell::new(0),
            #[cfg(test)]
            find_calls: Cell::new(0),
        }
    }

    /// Returns how often a match over several lines was looked for.
    #[cfg(test)]
    pub(super) fn find_calls(&self) -> u32 {
        self.find_calls.get()
    }

    /// Counts bytes that are looked through. Asking takes as long as looking through some hundred,
    /// so it is done now and then.
    fn charge_bytes(&self, bytes: usize) -> Result<(), BudgetExhausted> {
        let looked = self.bytes_since_check.get() + bytes;
        let is_time = looked >= BYTES_PER_SEARCH_CANCEL_CHECK;
        self.bytes_since_check.set(if is_time { 0 } else { looked });
        if is_time && self.budget.early_stop().is_some() { Err(BudgetExhausted) } else { Ok(()) }
    }
}

impl Matcher for BudgetedMatcher<'_> {
    type Captures = NoCaptures;
    type Error = BudgetExhausted;

    /// Used for matches over several lines, each of which may be looked for through all that is left.
    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, BudgetExhausted> {
        #[cfg(test)]
        self.find_calls.set(self.find_calls.get() + 1);
        self.charge_bytes(text.len() - at)?;
        self.matcher.find_at(text, at).map_err(BudgetExhausted::from)
    }

    fn new_captures(&self) -> Result<NoCaptures, BudgetExhausted> {
        Ok(NoCaptures::new())
    }

    /// Used for single lines.
    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, BudgetExhausted> {
        self.charge_bytes(text.len() - at)?;
        self.matcher.shortest_match_at(text, at).map_err(BudgetExhausted::from)
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.matcher.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.matcher.line_terminator()
    }

    /// Used for many lines of an expression that matches no line's end, so that a piece of whole
    /// lines has the matches that these lines have in the text.
    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, BudgetExhausted> {
        let mut start = 0;
        loop {
            let end = chunk_end(text, start);
            let found = self.matcher.find_candidate_line(&text[start..end])?;
            let found = found.map(|found| shift_match(found, start));
            let passed = found.map_or(end, match_offset);
            self.charge_bytes(passed - start)?;
            // What matches behind the last line may not be a match where the next line follows.
            if end == text.len() || passed < end {
                return Ok(found);
            }
            start = end;
        }
    }
}

/// Returns where the piece ends that begins at `start`: behind a line, or at the end of the text.
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

impl From<grep_matcher::NoError> for BudgetExhausted {
    fn from(_: grep_matcher::NoError) -> Self {
        Self
    }
}

impl fmt::Display for BudgetExhausted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the search was stopped")
    }
}

#[cfg(test)]
mod tests;
