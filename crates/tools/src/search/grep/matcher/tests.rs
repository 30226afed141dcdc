//! Tests that a search in chunks finds the same matches as a search of the whole text. Other tests
//! check that the budget is checked between two chunks.

use super::InterruptibleMatcher;
use crate::files::walk::SearchBudget;
use crate::limits::BYTES_PER_SEARCH_CANCEL_CHECK;
use crate::search::grep::GrepQuery;
use grep_matcher::{LineTerminator, Matcher};
use grep_searcher::{SearcherBuilder, sinks};
use pretty_assertions::assert_eq;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the numbers of the matching lines, or `None` if the search was stopped.
fn lines(matcher: impl Matcher, text: &str, multiline: bool) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let sink = sinks::Bytes(|number, _| {
        numbers.push(number);
        Ok(true)
    });
    let mut searcher = SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .multi_line(multiline)
        .build();
    searcher.search_slice(matcher, text.as_bytes(), sink).ok().map(|()| numbers)
}

/// Runs a search whose budget is exhausted at its check number `asks`. Returns the matching lines,
/// and the number of checks.
fn asked(pattern: &str, text: &str, multiline: bool, asks: usize) -> (Option<Vec<u64>>, usize) {
    let asked = AtomicUsize::new(0);
    let cancel = || asked.fetch_add(1, Ordering::Relaxed) + 1 >= asks;
    let query = GrepQuery { multiline, ..GrepQuery::new(pattern) };
    let matcher = InterruptibleMatcher::new(query.matcher().unwrap(), SearchBudget::new(&cancel));
    let found = lines(&matcher, text, multiline);
    (found, asked.into_inner())
}

#[test]
fn pieces_have_the_matches_of_the_whole() {
    let end = "foo bar\r\nfoo\r\nb\n\n\nfoo\r\r\n\r\n a\rb\n\nno end";
    // No match of these expressions can contain a line end, so they are always searched in lines.
    let always = ["foo", r"\bbar\b", r"\w+ \w+", "a.b", "x?", "end", "q"];
    let by_lines =
        ["^$", "^", "$", "foo$", "^foo", "^a", r"\B", "o*$", r"\s", r"\s*$", r"\Afoo", "[^x]"];
    let cases = always.iter().flat_map(|it| [(*it, false), (*it, true)]);
    let cases = cases.chain(by_lines.map(|it| (it, false))).chain([("b?\r?", true), ("r\r", true)]);
    let cases: Vec<_> = cases.collect();
    let line = "x".repeat(1023) + "\n";
    let filler = line.repeat(BYTES_PER_SEARCH_CANCEL_CHECK / line.len());
    // In the first round, the first chunk ends before the first of these lines. In each further
    // round, the first chunk ends after one of these lines.
    let behind = end.match_indices('\n').map(|(at, _)| at + 1);
    for at in std::iter::once(0).chain(behind) {
        let text = filler[at..].to_owned() + end;
        for (pattern, multiline) in &cases {
            let query = GrepQuery { multiline: *multiline, ..GrepQuery::new(*pattern) };
            let whole = lines(query.matcher().unwrap(), &text, *multiline);
            let (found, _) = asked(pattern, &text, *multiline, usize::MAX);
            assert_eq!(found, whole, "{pattern:?} {at} {multiline}");
        }
    }
}

#[test]
fn a_search_without_a_match_can_be_stopped_after_each_piece() {
    let pieces = 16;
    let line = "all work and no play\n";
    let text = line.repeat(pieces * BYTES_PER_SEARCH_CANCEL_CHECK / line.len());
    for (pattern, multiline) in [
        ("needle", false),
        (r"\w{7}\d{9}", false),
        // For this expression, every line is a candidate until the line is checked.
        (r"\bwor\b", false),
        (r"\Aneedle", false),
        ("needle", true),
    ] {
        let (found, asks) = asked(pattern, &text, multiline, usize::MAX);
        assert_eq!(found, Some(vec![]), "{pattern}");
        assert!((pieces - 2..=2 * pieces + 1).contains(&asks), "{pattern}: {asks}");
        for most in [1, 5] {
            assert_eq!(asked(pattern, &text, multiline, most), (None, most), "{pattern}");
        }
    }
    // A multi-line search makes only one match attempt, which scans the whole text.
    assert_eq!(asked("(?s)needle.*", &text, true, usize::MAX), (Some(vec![]), 1));
    assert_eq!(asked("(?s)needle.*", &text, true, 1), (None, 1));
}
