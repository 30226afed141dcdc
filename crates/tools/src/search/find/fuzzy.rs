//! Fuzzy matching of paths: a path matches if it contains some letters in a given order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::path::Path;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::FoundPath;
use crate::error::{ErrorCode, ToolError};
use crate::limits::MAX_FUZZY_PATTERN_BYTES;

/// Scores how well a path matches some letters.
pub(super) struct FuzzyMatcher {
    pattern: Pattern,
    matcher: Matcher,
    letters: Vec<char>,
}

impl FuzzyMatcher {
    /// Parses a pattern. For each word of the pattern, a path must contain its letters in the same
    /// order. The words may match in any order.
    pub(super) fn parse(pattern: &str) -> Result<Self, ToolError> {
        if pattern.len() > MAX_FUZZY_PATTERN_BYTES || pattern.trim().is_empty() {
            let message = format!("a fuzzy pattern has 1 to {MAX_FUZZY_PATTERN_BYTES} bytes");
            return Err(ToolError::recoverable(ErrorCode::BadPattern, message));
        }
        let (case, normal) = (CaseMatching::Smart, Normalization::Smart);
        Ok(Self {
            pattern: Pattern::new(pattern, case, normal, AtomKind::Fuzzy),
            matcher: Matcher::new(Config::DEFAULT.match_paths()),
            letters: Vec::new(),
        })
    }

    /// Returns the score of a path, or `None` if the path does not match. A higher score is better.
    pub(super) fn score(&mut self, path: &Path) -> Option<u32> {
        let path = path.to_string_lossy();
        self.pattern.score(Utf32Str::new(&path, &mut self.letters), &mut self.matcher)
    }
}

/// The best matches that were found so far, up to a maximum number.
pub(super) struct BestMatches {
    limit: usize,
    worst_first: BinaryHeap<RankedPath>,
}

impl BestMatches {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self { limit, worst_first: BinaryHeap::new() }
    }

    pub(super) fn add(&mut self, score: u32, found: FoundPath) {
        self.worst_first.push(RankedPath { score: Reverse(score), found });
        if self.worst_first.len() > self.limit {
            self.worst_first.pop();
        }
    }

    /// Returns the matches, beginning with the best. Matches with the same score are ordered by
    /// name.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = FoundPath> {
        self.worst_first.into_sorted_vec().into_iter().map(|ranked| ranked.found)
    }
}

#[derive(PartialEq, Eq)]
struct RankedPath {
    score: Reverse<u32>,
    found: FoundPath,
}

impl Ord for RankedPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.cmp(&other.score).then_with(|| self.found.path.cmp(&other.found.path))
    }
}

impl PartialOrd for RankedPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
