//! Puts the matches of all files into the order of the file names, and selects the page to show.
//!
//! The searches of the files may end in any order. Each result waits until the searches of all
//! earlier files have ended, so the page only grows at its end. Therefore the page can be reported
//! at any time, and the search can stop when the page is full.

use std::collections::BTreeMap;
use std::time::Instant;

use acp_types::Location;

use super::{FileMatches, Matches, SearchProgress, UnsearchedCounts};
use crate::files::walk::EarlyStop;
use crate::limits::{MAX_GATHERED_MATCHES_BYTES, MAX_MATCH_LOCATIONS, MAX_MATCHES_TEXT_BYTES};
use crate::progress::ProgressThrottle;

/// The range of matches that a page shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageRange {
    pub(super) offset: usize,
    pub(super) limit: usize,
    /// Number of context lines on each side of a match.
    pub(super) context: usize,
}

impl PageRange {
    /// Returns the maximum number of matching lines that the search of one file needs to find: the
    /// lines before the page, the lines on the page, and one line after the page. The line after
    /// the page shows that there are more matches.
    pub(super) fn match_limit(self) -> usize {
        self.offset + self.limit + 1
    }

    /// Returns the maximum number of bytes of lines that the search of one file needs to keep.
    pub(super) fn kept_bytes_per_file(self) -> usize {
        if self.offset == 0 { MAX_MATCHES_TEXT_BYTES } else { MAX_GATHERED_MATCHES_BYTES }
    }
}

/// The result of searching one file.
#[derive(Debug, Default)]
pub(super) struct FileSearchResult {
    pub(super) found: Option<Box<UnpagedFileMatches>>,
    pub(super) skipped: UnsearchedCounts,
    /// The reason why the search of the file stopped before its end. `None` if the search reached
    /// its end.
    pub(super) stop: Option<EarlyStop>,
}

/// The matches that were found in one file.
#[derive(Debug)]
pub(super) struct UnpagedFileMatches {
    pub(super) file: FileMatches,
    /// Number of matching lines in the file.
    pub(super) matches: usize,
    /// Total number of bytes in the lines of the file.
    pub(super) bytes: usize,
    /// Whether matches were omitted, either in this file or in a later file.
    pub(super) is_truncated: bool,
}

/// The page, and the results that still wait for the results of earlier files.
pub(super) struct ResultPage {
    range: PageRange,
    matches: Matches,
    bytes: usize,
    /// The position of the file that is added to the page next.
    next_index: usize,
    waiting: BTreeMap<usize, Option<Box<UnpagedFileMatches>>>,
    /// Number of matches in the waiting results. The field `waiting_bytes` is the number of bytes
    /// in their lines.
    waiting_matches: usize,
    waiting_bytes: usize,
    /// The position of the last file that the page may show. `None` if it is not known yet.
    last_index: Option<usize>,
    /// The first position of a file whose search stopped before its end, and the reason.
    first_stop: Option<(usize, EarlyStop)>,
    files: usize,
    /// Number of locations that were already reported.
    reported_locations: usize,
    throttle: ProgressThrottle,
}

impl ResultPage {
    pub(super) fn new(range: PageRange, now: Instant) -> Self {
        Self {
            range,
            matches: Matches::default(),
            bytes: 0,
            next_index: 0,
            waiting: BTreeMap::new(),
            waiting_matches: 0,
            waiting_bytes: 0,
            last_index: None,
            first_stop: None,
            files: 0,
            reported_locations: 0,
            throttle: ProgressThrottle::begin_at(now),
        }
    }

    /// Adds the result of the file at a position. Must be called exactly once for each position.
    pub(super) fn add_file_result(&mut self, place: usize, searched: FileSearchResult) {
        let FileSearchResult { found, skipped, stop } = searched;
        self.files += 1;
        self.matches.unsearched.add_counts(skipped);
        let earliest = self.first_stop.map_or(usize::MAX, |(earliest, _)| earliest);
        if let Some(stop) = stop.filter(|_| place < earliest) {
            self.first_stop = Some((place, stop));
        }
        if self.last_index.is_some_and(|last| place > last) {
            return;
        }
        if let Some(found) = &found {
            self.waiting_matches += found.matches;
            self.waiting_bytes += found.bytes;
        }
        self.waiting.insert(place, found);
        while let Some(found) = self.waiting.remove(&self.next_index) {
            if let Some(found) = found {
                self.waiting_matches -= found.matches;
                self.waiting_bytes -= found.bytes;
                self.append_file_matches(*found);
            }
            if self.matches.truncated {
                self.end_page_at_file(self.next_index);
                return;
            }
            self.next_index += 1;
        }
        self.drop_unneeded_waiting_results();
    }

    /// Returns whether no further file needs to be searched, because all files that the page may
    /// show, and all files before them, are already being searched.
    pub(super) fn has_enough_matches(&self) -> bool {
        self.last_index.is_some()
    }

    /// Returns a progress report if one is due. If there are new matches among the first ones, a
    /// report is due at once. Without new matches, a report is due at the next interval.
    pub(super) fn progress_update_if_due(&mut self, now: Instant) -> Option<SearchProgress> {
        let shown = self.matches.count.min(MAX_MATCH_LOCATIONS);
        let locations: Option<Vec<Location>> =
            (shown > self.reported_locations).then(|| self.matches.locations().collect());
        let is_due = self.throttle.restart_if_due(now);
        if locations.is_none() && !is_due {
            return None;
        }
        self.reported_locations = shown;
        Some(SearchProgress {
            files_searched: self.files,
            files_found: None,
            match_count: self.matches.count,
            locations,
        })
    }

    pub(super) fn into_matches(self) -> Matches {
        // A search that stopped after the last file of the page has no effect on the page.
        let matters = |place: &usize| self.last_index.is_none_or(|last| *place <= last);
        let stop = self.first_stop.filter(|(place, _)| matters(place)).map(|(_, stop)| stop);
        Matches { stop, ..self.matches }
    }

    /// Drops waiting results that the page cannot show, because the results before them contain
    /// enough matches. If these results were not dropped, a slow first file would keep the results
    /// of all other files in memory.
    fn drop_unneeded_waiting_results(&mut self) {
        let mut matches = self.matches.skipped_matches + self.matches.count;
        let mut bytes = self.bytes;
        let is_enough = |matches: usize, bytes: usize| {
            matches >= self.range.match_limit() || bytes > self.range.kept_bytes_per_file()
        };
        if !is_enough(matches + self.waiting_matches, bytes + self.waiting_bytes) {
            return;
        }
        let found = self.waiting.iter_mut().filter_map(|(at, found)| Some((*at, found.as_mut()?)));
        for (place, found) in found {
            matches += found.matches;
            bytes += found.bytes;
            if is_enough(matches, bytes) {
                found.is_truncated = true;
                return self.end_page_at_file(place);
            }
        }
    }

    /// Sets the position of the last file that the page may show. Drops the results after it.
    fn end_page_at_file(&mut self, place: usize) {
        self.last_index = Some(place);
        for found in self.waiting.split_off(&(place + 1)).into_values().flatten() {
            self.waiting_matches -= found.matches;
            self.waiting_bytes -= found.bytes;
        }
    }

    fn append_file_matches(&mut self, found: UnpagedFileMatches) {
        let UnpagedFileMatches { mut file, is_truncated: is_cut, .. } = found;
        self.skip_to_offset(&mut file);
        let mut last_match = 0;
        let (limit, matches) = (self.range.limit, &mut self.matches);
        let kept = file.lines.iter().take_while(|line| {
            self.bytes += line.text.len();
            if self.bytes > MAX_MATCHES_TEXT_BYTES || (line.is_match && matches.count == limit) {
                matches.truncated = true;
            } else if line.is_match {
                matches.count += 1;
                last_match = line.number;
            }
            !matches.truncated
        });
        let kept = kept.count();
        if self.matches.truncated {
            file.lines.truncate(kept);
            // Remove the context lines of the omitted matches too.
            file.lines.retain(|line| line.number <= last_match + self.range.context as u64);
            file.partial_reason = None;
        }
        self.matches.truncated |= is_cut;
        if file.lines.iter().any(|line| line.is_match) {
            self.matches.files.push(file);
        }
    }

    /// Removes the matches of a file that belong to earlier pages.
    fn skip_to_offset(&mut self, file: &mut FileMatches) {
        let left = self.range.offset - self.matches.skipped_matches;
        let mut matching = file.lines.iter().filter(|line| line.is_match);
        let passed = matching.by_ref().take(left).map(|line| line.number);
        let (count, last) = passed.fold((0, 0), |(count, _), number| (count + 1, number));
        if count == 0 {
            return;
        }
        self.matches.skipped_matches += count;
        let first = matching.next().map_or(u64::MAX, |line| line.number);
        let near = first.saturating_sub(self.range.context as u64);
        file.lines.retain(|line| line.number > last && line.number >= near);
    }
}

impl UnsearchedCounts {
    fn add_counts(&mut self, more: Self) {
        self.binary += more.binary;
        self.large += more.large;
        self.long_lines += more.long_lines;
        self.unreadable += more.unreadable;
        self.truncated_directories += more.truncated_directories;
    }
}

#[cfg(test)]
mod tests;
