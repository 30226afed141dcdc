//! The matches of all files, brought into the order of the names as they come, and the page of
//! them that is shown. It knows nothing of threads and files.
//!
//! Files end in any order. Each waits until all before it have ended, so what is on the page never
//! changes any more: it can be shown at once, and the search can stop when the page is full.

use std::collections::BTreeMap;
use std::time::Instant;

use acp_types::Location;

use super::{FileMatches, Matches, Seen, Skipped};
use crate::limits::{MATCH_LOCATIONS, MATCHES_BYTES, PROGRESS_INTERVAL};

/// What one file came to.
#[derive(Debug, Default)]
pub(super) struct Searched {
    pub(super) found: Option<FileMatches>,
    pub(super) skipped: Skipped,
}

/// The page, and the files that wait for others before them.
pub(super) struct Page {
    offset: usize,
    limit: usize,
    context: u64,
    matches: Matches,
    bytes: usize,
    /// The place of the file that comes next.
    next: usize,
    waiting: BTreeMap<usize, Searched>,
    files: usize,
    told: Told,
}

/// What was told of the search, and when.
struct Told {
    locations: usize,
    at: Instant,
}

impl Page {
    pub(super) fn new(offset: usize, limit: usize, context: u32) -> Self {
        Self {
            offset,
            limit,
            context: context.into(),
            matches: Matches::default(),
            bytes: 0,
            next: 0,
            waiting: BTreeMap::new(),
            files: 0,
            told: Told { locations: 0, at: Instant::now() },
        }
    }

    /// Adds the file at a place of the order; each place has exactly one.
    pub(super) fn add(&mut self, place: usize, searched: Searched) {
        self.files += 1;
        self.waiting.insert(place, searched);
        while let Some(Searched { found, skipped }) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.matches.skipped.add(skipped);
            if let Some(file) = found
                && !self.is_full()
            {
                self.append(file);
            }
        }
    }

    /// Returns whether nothing that comes can change the page.
    pub(super) fn is_full(&self) -> bool {
        self.matches.truncated
    }

    /// Returns what is worth telling: the first matches when there are new ones, and now and then
    /// how far the search is.
    pub(super) fn news(&mut self) -> Option<Seen> {
        let shown = self.matches.count.min(MATCH_LOCATIONS);
        let locations: Option<Vec<Location>> =
            (shown > self.told.locations).then(|| self.matches.locations().collect());
        if locations.is_none() && self.told.at.elapsed() < PROGRESS_INTERVAL {
            return None;
        }
        self.told = Told { locations: shown, at: Instant::now() };
        Some(Seen { files: self.files, matches: self.matches.count, locations })
    }

    pub(super) fn into_matches(self) -> Matches {
        self.matches
    }

    fn append(&mut self, mut file: FileMatches) {
        self.pass_over(&mut file);
        let mut last_match = 0;
        let (limit, matches) = (self.limit, &mut self.matches);
        let kept = file.lines.iter().take_while(|line| {
            self.bytes += line.text.len();
            if self.bytes > MATCHES_BYTES || (line.is_match && matches.count == limit) {
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
            // What was context of a match that is left out goes with it.
            file.lines.retain(|line| line.number <= last_match + self.context);
            file.end = None;
        }
        if file.lines.iter().any(|line| line.is_match) {
            self.matches.files.push(file);
        }
    }

    /// Takes away what was on the pages before.
    fn pass_over(&mut self, file: &mut FileMatches) {
        let left = self.offset - self.matches.passed;
        let mut matching = file.lines.iter().filter(|line| line.is_match);
        let passed = matching.by_ref().take(left).map(|line| line.number);
        let (count, last) = passed.fold((0, 0), |(count, _), number| (count + 1, number));
        if count == 0 {
            return;
        }
        self.matches.passed += count;
        let first = matching.next().map_or(u64::MAX, |line| line.number);
        let near = first.saturating_sub(self.context);
        file.lines.retain(|line| line.number > last && line.number >= near);
    }
}

impl Skipped {
    fn add(&mut self, more: Self) {
        self.binary += more.binary;
        self.large += more.large;
        self.long_lines += more.long_lines;
        self.unreadable += more.unreadable;
    }
}
