//! The search of one file. It knows nothing of other files and of pages.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::page::Searched;
use super::preview::preview;
use super::{FileEnd, FileMatches, MatchLine, Query, Skipped};
use crate::limits::{
    GATHERED_BYTES, MATCH_BYTES, MATCHES_BYTES, MULTILINE_BYTES, SEARCHED_LINE_BYTES,
};
use crate::workspace::Budget;

/// What to look for in each file, and how much of it.
pub(super) struct Look<'a> {
    pub(super) matcher: RegexMatcher,
    pub(super) budget: Budget<'a>,
    multiline: bool,
    context: usize,
    /// Matches that are worth finding in one file: those before the page, those on it, and one
    /// that tells that there are more.
    most: usize,
    per_file: usize,
    bytes: usize,
}

impl<'a> Look<'a> {
    pub(super) fn new(
        query: &Query,
        budget: Budget<'a>,
        (offset, limit, context): (usize, usize, u32),
    ) -> Result<Self, crate::ToolError> {
        Ok(Self {
            matcher: query.matcher()?,
            budget,
            multiline: query.multiline,
            context: context as usize,
            most: offset + limit + 1,
            per_file: query.max_per_file.map_or(usize::MAX, |most| most.max(1) as usize),
            bytes: if offset == 0 { MATCHES_BYTES } else { GATHERED_BYTES },
        })
    }

    pub(super) fn searcher(&self) -> Searcher {
        let heap = if self.multiline { MULTILINE_BYTES } else { SEARCHED_LINE_BYTES };
        SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .before_context(self.context)
            .after_context(self.context)
            .multi_line(self.multiline)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(heap))
            .build()
    }

    /// Searches an open file. `path` is asked for only if there is a match.
    pub(super) fn file(
        &self,
        searcher: &mut Searcher,
        file: io::Result<File>,
        path: impl FnOnce() -> PathBuf,
    ) -> Searched {
        let mut skipped = Skipped::default();
        let regular = file.and_then(|file| Ok((file.metadata()?.is_file(), file)));
        let Ok((true, file)) = regular else {
            skipped.unreadable = 1;
            return Searched { found: None, skipped };
        };
        let mut sink = Collector { look: self, lines: Vec::new(), found: 0, bytes: 0, end: None };
        let mut input = Stoppable { input: file, budget: self.budget, large_reads: 0 };
        let result = searcher.search_reader(&self.matcher, &mut input, &mut sink);
        if input.large_reads > 1 {
            *searcher = self.searcher();
        }
        match result {
            Ok(()) => {}
            Err(_) if self.budget.stop().is_some() => {}
            // The system's errors have a number; the searcher's own is the length.
            Err(error) if error.raw_os_error().is_some() => skipped.unreadable = 1,
            Err(_) if searcher.multi_line_with_matcher(&self.matcher) => skipped.large = 1,
            Err(_) => {
                skipped.long_lines = 1;
                sink.end = Some(FileEnd::LongLine);
            }
        }
        let Collector { mut lines, found, end, .. } = sink;
        if found > 0 {
            if end == Some(FileEnd::PerFile) {
                self.trim(&mut lines);
            }
            return Searched { found: Some(FileMatches { path: path(), lines, end }), skipped };
        }
        skipped.binary = usize::from(end == Some(FileEnd::Binary));
        Searched { found: None, skipped }
    }

    /// Takes away what is context only of a match that is left out.
    fn trim(&self, lines: &mut Vec<MatchLine>) {
        let last = lines.iter().rfind(|line| line.is_match).map_or(0, |line| line.number);
        lines.retain(|line| line.number <= last + self.context as u64);
    }
}

/// A file that ends with an error when the search has to stop.
struct Stoppable<'a> {
    input: File,
    budget: Budget<'a>,
    /// How many reads could fill as much as a searcher's buffer has at first. After the first of
    /// them a part of it is taken, unless it has grown for a long line. A buffer that has grown
    /// stays large and tells binary files differently, so it must not meet another file.
    large_reads: usize,
}

/// Bytes of the buffer that a searcher begins with.
const BUFFER_BYTES: usize = 64 * 1024;

impl io::Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.budget.stop() {
            Some(_) => Err(io::ErrorKind::TimedOut.into()),
            None => {
                self.large_reads += usize::from(buffer.len() >= BUFFER_BYTES);
                self.input.read(buffer)
            }
        }
    }
}

/// Takes the matches of one file.
struct Collector<'a> {
    look: &'a Look<'a>,
    lines: Vec<MatchLine>,
    found: usize,
    bytes: usize,
    end: Option<FileEnd>,
}

impl Collector<'_> {
    fn push(&mut self, number: u64, text: String, is_match: bool) {
        self.bytes += text.len();
        self.found += usize::from(is_match);
        self.lines.push(MatchLine { number, text, is_match });
    }

    fn wants_more(&self) -> bool {
        self.found < self.look.most && self.bytes <= self.look.bytes
    }

    /// Finds what a line of a match is shown around; short lines are shown whole.
    fn found_in(&self, block: &[u8], line: Range<usize>) -> Range<usize> {
        if line.len() <= MATCH_BYTES {
            return 0..0;
        }
        let found = self.look.matcher.find_at(block, line.start).ok().flatten();
        let found = found.filter(|found| found.start() < line.end);
        found.map_or(0..0, |found| {
            found.start() - line.start..found.end().min(line.end) - line.start
        })
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, block: &SinkMatch<'_>) -> io::Result<bool> {
        if self.found >= self.look.per_file {
            self.end = Some(FileEnd::PerFile);
            return Ok(false);
        }
        let (mut number, mut at) = (block.line_number().unwrap_or(0), 0);
        for line in block.lines() {
            let found = self.found_in(block.bytes(), at..at + line.len());
            self.push(number, preview(line, found, MATCH_BYTES), true);
            number += 1;
            at += line.len();
        }
        Ok(self.wants_more() && self.look.budget.stop().is_none())
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        let text = preview(line.bytes(), 0..0, MATCH_BYTES);
        self.push(line.line_number().unwrap_or(0), text, false);
        Ok(self.wants_more())
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.end = Some(FileEnd::Binary);
        Ok(false)
    }
}
