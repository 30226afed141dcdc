//! Tests for results that are added in any order: the page, the progress reports, and the results
//! that are kept in memory.

use super::{FileSearchResult, PageRange, ResultPage, UnpagedFileMatches};
use crate::files::walk::EarlyStop;
use crate::limits::{
    MAX_GATHERED_MATCHES_BYTES, MAX_MATCH_LOCATIONS, MAX_MATCHES_TEXT_BYTES, PROGRESS_INTERVAL,
};
use crate::search::grep::{FileMatches, MatchLine, Matches};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use std::path::PathBuf;
use std::time::Instant;

const ALL: PageRange = PageRange { offset: 0, limit: 250, context: 0 };

/// Returns the result of a file that has `matches` matches of `bytes` bytes each.
fn file(place: usize, matches: usize, bytes: usize) -> FileSearchResult {
    if matches == 0 {
        return FileSearchResult::default();
    }
    let line = |number| MatchLine { number, text: "x".repeat(bytes), is_match: true };
    let lines = (1..=matches as u64).map(line).collect();
    let file =
        FileMatches { path: PathBuf::from(format!("/{place:04}")), lines, partial_reason: None };
    let found = UnpagedFileMatches { file, matches, bytes: matches * bytes, is_truncated: false };
    FileSearchResult { found: Some(Box::new(found)), ..FileSearchResult::default() }
}

fn page(part: PageRange) -> (ResultPage, Instant) {
    let now = Instant::now();
    (ResultPage::new(part, now), now)
}

#[test]
fn the_first_matches_are_reported_when_all_earlier_files_have_ended() {
    let (mut page, now) = page(ALL);
    for place in 1..=MAX_MATCH_LOCATIONS {
        page.add_file_result(place, file(place, 1, 1));
        assert_eq!(page.progress_update_if_due(now), None, "file 0 may have matches still");
    }
    page.add_file_result(0, file(0, 1, 1));
    let news = page.progress_update_if_due(now).unwrap();
    assert_eq!((news.files_searched, news.match_count), (21, 21));
    let first: Vec<_> = news.locations.unwrap().iter().map(|at| at.path().to_owned()).collect();
    assert_eq!(first.len(), MAX_MATCH_LOCATIONS);
    assert!(first[0].ends_with("0000") && first.is_sorted(), "{first:?}");
    page.add_file_result(21, file(21, 1, 1));
    assert_eq!(page.progress_update_if_due(now), None, "the first places stay");
    let news = page.progress_update_if_due(now + PROGRESS_INTERVAL).unwrap();
    assert_eq!((news.files_searched, news.match_count, news.locations), (22, 22, None));
    assert_eq!(page.progress_update_if_due(now + PROGRESS_INTERVAL), None);
}

#[test]
fn waiting_results_are_bounded() {
    let with_offset = PageRange { offset: 9_000, limit: 2_000, ..ALL };
    for (part, matches, bytes, most) in [
        (ALL, 10, 10, 10 * (ALL.match_limit() + 10)),
        (ALL, 1, 500, MAX_MATCHES_TEXT_BYTES + 500),
        (with_offset, 10, 10, 10 * (with_offset.match_limit() + 10)),
        (with_offset, 4, 10_000, MAX_GATHERED_MATCHES_BYTES + 40_000),
    ] {
        let (mut page, _) = page(part);
        let mut handed_out = 0;
        for place in 1..2_000 {
            if !page.has_enough_matches() {
                handed_out = place;
            }
            page.add_file_result(place, file(place, matches, bytes));
        }
        let kept: usize = page.waiting.values().flatten().map(|found| found.bytes).sum();
        assert_eq!(kept, page.waiting_bytes);
        assert!(kept <= most, "{kept} bytes are kept of {part:?}");
        assert!(handed_out < 1_999, "no file is begun any more that cannot be shown");
        page.add_file_result(0, FileSearchResult::default());
        assert!(page.waiting.is_empty());
        let matches = page.into_matches();
        assert!(matches.truncated, "{part:?}");
    }
}

#[test]
fn a_stop_counts_where_it_left_something_out_of_the_page() {
    let stopped =
        || FileSearchResult { stop: Some(EarlyStop::TimedOut), ..FileSearchResult::default() };
    for (place, expected) in
        [(0, Some(EarlyStop::TimedOut)), (1, Some(EarlyStop::TimedOut)), (3, None)]
    {
        let (mut page, _) = page(PageRange { limit: 2, ..ALL });
        for at in (0..4).rev() {
            page.add_file_result(at, if at == place { stopped() } else { file(at, 2, 1) });
        }
        let matches = page.into_matches();
        assert_eq!((matches.count, matches.truncated, matches.stop), (2, true, expected));
    }
    let (mut page, _) = page(ALL);
    page.add_file_result(0, stopped());
    assert_eq!(page.into_matches().stop, Some(EarlyStop::TimedOut));
}

#[test]
fn a_file_of_which_not_all_was_gathered_is_the_last_one() {
    let (mut page, _) = page(PageRange { offset: 5, ..ALL });
    let mut cut = file(0, 7, 1);
    cut.found.as_mut().unwrap().is_truncated = true;
    page.add_file_result(0, cut);
    page.add_file_result(1, file(1, 7, 1));
    let matches = page.into_matches();
    assert_eq!((matches.skipped_matches, matches.count, matches.truncated), (5, 2, true));
    assert_eq!(matches.next_offset(), Some(7));
}

fn shown(part: PageRange, files: &[(usize, usize)], order: &[usize]) -> Matches {
    let (mut page, _) = page(part);
    for &place in order {
        let (matches, bytes) = files[place];
        page.add_file_result(place, file(place, matches, bytes));
    }
    page.into_matches()
}

proptest! {
    #[test]
    fn the_page_is_the_same_in_whichever_order_files_end(
        (files, order) in prop::collection::vec((0_usize..9, 1_usize..20_000), 1..40)
            .prop_flat_map(|files| {
                let order: Vec<_> = (0..files.len()).collect();
                (Just(files), Just(order).prop_shuffle())
            }),
        offset in 0_usize..60,
        limit in 1_usize..60,
    ) {
        let part = PageRange { offset, limit, context: 0 };
        let in_order: Vec<_> = (0..files.len()).collect();
        prop_assert_eq!(shown(part, &files, &order), shown(part, &files, &in_order));
    }
}
