//! Tests for the lines that are collected from multi-line matches, and for the number of match
//! attempts.

use super::{FileSearchParameters, FileSearchResult};
use crate::files::walk::{EarlyStop, SearchBudget};
use crate::limits::MAX_MATCH_LINE_BYTES;
use crate::search::grep::GrepQuery;
use crate::search::grep::result_page::PageRange;
use pretty_assertions::assert_eq;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Searches a text with a multi-line pattern. Returns the result, and the number of match attempts.
fn search(
    text: &str,
    pattern: &str,
    budget: SearchBudget<'_>,
    part: PageRange,
) -> (FileSearchResult, u32) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    let query = GrepQuery { multiline: true, ..GrepQuery::new(pattern) };
    let look = FileSearchParameters::new(&query, budget, part, &|_| false).unwrap();
    let mut worker = look.create_file_searcher();
    (
        worker.search_file(Ok::<File, _>(file), || PathBuf::from("/file")),
        worker.matcher.find_call_count(),
    )
}

#[test]
fn no_more_lines_are_kept_of_a_match_than_are_worth_it() {
    let part = PageRange { offset: 3, limit: 6, context: 0 };
    let (searched, _) =
        search(&"\n".repeat(50_000), "(?s)\\n.*", SearchBudget::new(&|| false), part);
    let found = searched.found.unwrap();
    assert_eq!((found.file.lines.len(), found.matches, found.is_truncated), (10, 10, true));
}

#[test]
fn a_match_of_many_long_lines_is_searched_once() {
    let text = format!("a{}c\n", ("b".repeat(699) + "\n").repeat(400));
    let part = PageRange { offset: 0, limit: 300, context: 0 };
    let (searched, finds) = search(&text, "(?s)a.*c", SearchBudget::new(&|| false), part);
    let found = searched.found.unwrap();
    assert_eq!(found.matches, part.match_limit());
    assert!(
        found
            .file
            .lines
            .iter()
            .all(|line| line.text.len() == MAX_MATCH_LINE_BYTES + '…'.len_utf8())
    );
    assert!(finds < 5, "a match was looked for {finds} times");
}

#[test]
fn each_long_line_is_shown_around_its_own_match() {
    let line = |number| format!("{}x{number}{}\n", "b".repeat(900), "c".repeat(900));
    let part = PageRange { offset: 0, limit: 300, context: 0 };
    let text: String = (0..9).map(line).collect();
    let (searched, _) = search(&text, "x\\d\\w*\\n", SearchBudget::new(&|| false), part);
    let lines = searched.found.unwrap().file.lines;
    assert_eq!(lines.len(), 9);
    let shown = |(at, line): (usize, &str)| line.contains(&format!("x{at}c"));
    assert!(lines.iter().map(|line| line.text.as_str()).enumerate().all(shown), "{lines:?}");
}

/// The search merges adjacent matches before it reports them. Each match attempt scans the rest of
/// the file.
#[test]
fn a_search_over_several_lines_stops_between_its_matches() {
    let asked = AtomicUsize::new(0);
    let cancel = || asked.fetch_add(1, Ordering::Relaxed) > 2;
    let part = PageRange { offset: 0, limit: 300, context: 0 };
    let (searched, finds) =
        search(&"x\n".repeat(2_000), "(?s)x.*y|x\\n", SearchBudget::new(&cancel), part);
    assert!(searched.found.is_none());
    assert_eq!(searched.stop, Some(EarlyStop::Cancelled));
    assert!(finds < 100, "{finds} matches were looked for");
}
