//! A regular expression whose search can be stopped between two matches. It knows nothing of files.
//!
//! Matches over several lines that follow each other are joined before anybody hears of them. In a
//! file of many short ones, and with a pattern that looks far ahead for each, that takes minutes.

use std::cell::Cell;
use std::fmt;

use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use grep_regex::RegexMatcher;

use crate::workspace::Budget;

/// A matcher with a budget. Only what finds matches over several lines asks for it: all else goes
/// line by line, and whoever takes the lines can stop.
pub(super) struct StoppableMatcher<'a> {
    matcher: RegexMatcher,
    budget: Budget<'a>,
    finds: Cell<u32>,
}

/// The budget is used up.
#[derive(Debug)]
pub(super) struct Stopped;

impl<'a> StoppableMatcher<'a> {
    pub(super) fn new(matcher: RegexMatcher, budget: Budget<'a>) -> Self {
        Self { matcher, budget, finds: Cell::new(0) }
    }

    /// Returns how often a match was looked for.
    #[cfg(test)]
    pub(super) fn finds(&self) -> u32 {
        self.finds.get()
    }

    /// Asking takes as long as finding a short match, so it is done now and then.
    fn is_stopped(&self) -> bool {
        self.finds.set(self.finds.get().wrapping_add(1));
        self.finds.get().is_multiple_of(FINDS) && self.budget.stop().is_some()
    }
}

/// How many matches are looked for before the budget is asked again. One may take some
/// milliseconds: it looks through at most [`MULTILINE_BYTES`](crate::limits::MULTILINE_BYTES).
const FINDS: u32 = 8;

impl Matcher for StoppableMatcher<'_> {
    type Captures = NoCaptures;
    type Error = Stopped;

    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, Stopped> {
        if self.is_stopped() {
            return Err(Stopped);
        }
        self.matcher.find_at(text, at).map_err(Stopped::from)
    }

    fn new_captures(&self) -> Result<NoCaptures, Stopped> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, Stopped> {
        self.matcher.shortest_match_at(text, at).map_err(Stopped::from)
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.matcher.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.matcher.line_terminator()
    }

    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, Stopped> {
        self.matcher.find_candidate_line(text).map_err(Stopped::from)
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
