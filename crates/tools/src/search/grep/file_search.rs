//! Searches one file for the matches of a query.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem;
use std::path::PathBuf;
use std::rc::Rc;

use grep_matcher::{LineTerminator, Match, Matcher as _};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::matcher::InterruptibleMatcher;
use super::result_page::{FileSearchResult, PageRange, UnpagedFileMatches};
use super::result_text::excerpt_around;
use super::{
    FileMatches, GrepQuery, IsExcluded, MatchLine, PartialFileSearchReason, UnsearchedCounts,
};
use crate::error::ToolError;
use crate::files::walk::{EarlyStop, SearchBudget};
use crate::limits::{
    MAX_BUFFERED_SEARCH_FILE_BYTES, MAX_MATCH_LINE_BYTES, MAX_MULTILINE_FILE_BYTES,
    MAX_SEARCHED_LINE_BYTES,
};

/// The parameters of a search that are the same for each file.
pub(super) struct FileSearchParameters<'a> {
    matcher: RegexMatcher,
    pub(super) budget: SearchBudget<'a>,
    multiline: bool,
    range: PageRange,
    max_matches_per_file: usize,
    is_excluded: &'a IsExcluded<'a>,
}

impl<'a> FileSearchParameters<'a> {
    pub(super) fn new(
        query: &GrepQuery,
        budget: SearchBudget<'a>,
        part: PageRange,
        is_excluded: &'a IsExcluded<'a>,
    ) -> Result<Self, ToolError> {
        Ok(Self {
            matcher: query.matcher()?,
            budget,
            multiline: query.multiline,
            range: part,
            max_matches_per_file: query
                .max_per_file
                .map_or(usize::MAX, |most| most.max(1) as usize),
            is_excluded,
        })
    }

    /// Creates a searcher for one thread.
    pub(super) fn create_file_searcher(&self) -> FileSearcher<'_> {
        // Each thread has a clone of the matcher. Threads that share one matcher would wait for
        // each other.
        let matcher = InterruptibleMatcher::new(self.matcher.clone(), self.budget);
        let matcher = Rc::new(matcher);
        FileSearcher { spec: self, matcher, searcher: self.searcher(), buffer: Vec::new() }
    }

    fn searcher(&self) -> Searcher {
        let heap = if self.multiline { MAX_MULTILINE_FILE_BYTES } else { MAX_SEARCHED_LINE_BYTES };
        SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .before_context(self.range.context)
            .after_context(self.range.context)
            .multi_line(self.multiline)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(heap))
            .build()
    }

    /// Removes context lines that belong to a match that was omitted.
    fn trim_trailing_context(&self, lines: &mut Vec<MatchLine>) {
        let last = lines.iter().rfind(|line| line.is_match).map_or(0, |line| line.number);
        lines.retain(|line| line.number <= last + self.range.context as u64);
    }
}

/// Searches files, one after the other.
pub(super) struct FileSearcher<'a> {
    spec: &'a FileSearchParameters<'a>,
    matcher: Rc<InterruptibleMatcher<'a>>,
    searcher: Searcher,
    /// The buffer for small files, which are read as a whole.
    buffer: Vec<u8>,
}

impl FileSearcher<'_> {
    /// Searches an open file. The function `path` is only called if the file has a match.
    pub(super) fn search_file(
        &mut self,
        file: io::Result<File>,
        path: impl FnOnce() -> PathBuf,
    ) -> FileSearchResult {
        let mut skipped = UnsearchedCounts::default();
        let look = self.spec;
        if let Some(stop) = look.budget.early_stop() {
            return FileSearchResult { stop: Some(stop), ..FileSearchResult::default() };
        }
        let mut sink = MatchCollector::new(look, self.matcher.clone());
        let opened = file.and_then(|file| Ok((file.metadata()?, file)));
        // Since the walk, another kind of file may have replaced this file.
        let Some((metadata, file)) = opened.ok().filter(|(metadata, _)| metadata.is_file()) else {
            skipped.unreadable = 1;
            return FileSearchResult { skipped, ..FileSearchResult::default() };
        };
        match self.search(file, metadata.len(), &mut sink) {
            Ok(()) => {}
            Err(_) if sink.record_early_stop() => {}
            // An error of the operating system has an error code. The searcher has only one other
            // error, which reports that the size limit was exceeded.
            Err(error) if error.raw_os_error().is_some() => skipped.unreadable = 1,
            Err(_) if self.searcher.multi_line_with_matcher(&*self.matcher) => skipped.large = 1,
            Err(_) => {
                skipped.long_lines = 1;
                sink.end = Some(PartialFileSearchReason::LongLine);
            }
        }
        let MatchCollector { mut lines, found: matches, end, stop, is_cut, .. } = sink;
        if matches == 0 {
            skipped.binary = usize::from(end == Some(PartialFileSearchReason::Binary));
            return FileSearchResult { found: None, skipped, stop };
        }
        if end == Some(PartialFileSearchReason::MatchLimit) {
            look.trim_trailing_context(&mut lines);
        }
        let path = path();
        // This check is slow, so it is only made for files with a match.
        if (look.is_excluded)(&path) {
            return FileSearchResult { stop, ..FileSearchResult::default() };
        }
        let bytes = lines.iter().map(|line| line.text.len()).sum();
        let file = FileMatches { path, lines, partial_reason: end };
        let found =
            Some(Box::new(UnpagedFileMatches { file, matches, bytes, is_truncated: is_cut }));
        FileSearchResult { found, skipped, stop }
    }

    /// Searches a file. A small file is read as a whole, because that needs fewer system calls. A
    /// larger file is streamed.
    fn search(
        &mut self,
        mut file: File,
        bytes: u64,
        sink: &mut MatchCollector<'_>,
    ) -> io::Result<()> {
        if bytes > MAX_BUFFERED_SEARCH_FILE_BYTES {
            return self.search_stream(file, sink);
        }
        let read = self.read_whole_file_into_buffer(&mut file, bytes as usize)?;
        let text = &self.buffer[..read];
        if memchr::memchr(0, text).is_none() {
            return self.searcher.search_slice(&*self.matcher, text, sink);
        }
        // A small file that contains a NUL byte is also searched as a stream. In this way, binary
        // files of any size are detected by the same rule.
        let buffer = mem::take(&mut self.buffer);
        let result = self.search_stream(&buffer[..read], sink);
        self.buffer = buffer;
        result
    }

    fn read_whole_file_into_buffer(&mut self, file: &mut File, length: usize) -> io::Result<usize> {
        // Some system files have more bytes than their reported length.
        let length = if length == 0 { BUFFER_BYTES } else { length };
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let mut read = 0;
        while read < length {
            match file.read(&mut self.buffer[read..length]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn search_stream(
        &mut self,
        input: impl io::Read,
        sink: &mut MatchCollector<'_>,
    ) -> io::Result<()> {
        let mut input = InterruptibleReader { input, budget: self.spec.budget, large_reads: 0 };
        let result = self.searcher.search_reader(&*self.matcher, &mut input, sink);
        if input.large_reads > 1 {
            self.searcher = self.spec.searcher();
        }
        result
    }
}

/// A reader that fails as soon as the search must stop.
struct InterruptibleReader<'a, R> {
    input: R,
    budget: SearchBudget<'a>,
    /// Number of reads that could have filled the initial buffer of a searcher. A second read of
    /// this size is only possible after a part of the buffer was consumed, or after the buffer grew
    /// for a long line. A buffer that has grown stays large, and then binary files are detected in
    /// another way. Therefore a searcher whose buffer may have grown is not used for another file.
    large_reads: usize,
}

/// The initial size of a searcher's buffer.
const BUFFER_BYTES: usize = 64 * 1024;

impl<R: io::Read> io::Read for InterruptibleReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.budget.early_stop() {
            Some(_) => Err(io::ErrorKind::TimedOut.into()),
            None => {
                self.large_reads += usize::from(buffer.len() >= BUFFER_BYTES);
                self.input.read(buffer)
            }
        }
    }
}

/// Collects the matches of one file.
struct MatchCollector<'a> {
    spec: &'a FileSearchParameters<'a>,
    matcher: Rc<InterruptibleMatcher<'a>>,
    lines: Vec<MatchLine>,
    found: usize,
    bytes: usize,
    end: Option<PartialFileSearchReason>,
    stop: Option<EarlyStop>,
    is_cut: bool,
}

impl<'a> MatchCollector<'a> {
    fn new(spec: &'a FileSearchParameters<'a>, matcher: Rc<InterruptibleMatcher<'a>>) -> Self {
        Self {
            spec,
            matcher,
            lines: Vec::new(),
            found: 0,
            bytes: 0,
            end: None,
            stop: None,
            is_cut: false,
        }
    }

    fn push(&mut self, number: u64, text: String, is_match: bool) {
        self.bytes += text.len();
        self.found += usize::from(is_match);
        self.lines.push(MatchLine { number, text, is_match });
    }

    fn needs_more_lines_for_page(&mut self) -> bool {
        let part = self.spec.range;
        self.is_cut = self.found >= part.match_limit() || self.bytes > part.kept_bytes_per_file();
        !self.is_cut
    }

    fn record_early_stop(&mut self) -> bool {
        self.stop = self.spec.budget.early_stop();
        self.stop.is_some()
    }

    /// Returns whether the collector accepts one more matching line.
    fn takes_match(&mut self) -> bool {
        if self.found >= self.spec.max_matches_per_file {
            self.end = Some(PartialFileSearchReason::MatchLimit);
            return false;
        }
        self.needs_more_lines_for_page() && !self.record_early_stop()
    }
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    /// Adds the lines of matches that are adjacent. In a normal search this is one line, and in a
    /// multi-line search it may be several lines.
    fn matched(&mut self, _: &Searcher, block: &SinkMatch<'_>) -> io::Result<bool> {
        let (mut number, mut at) = (block.line_number().unwrap_or(0), 0);
        // If a line is long, only the part around its match is shown. The matches in a block are
        // only searched once.
        let mut found = Some(Match::zero(0));
        for line in block.lines() {
            if !self.takes_match() {
                return Ok(false);
            }
            let end = at + line.len();
            let mut around = 0..0;
            if line.len() > MAX_MATCH_LINE_BYTES {
                if found.is_some_and(|found| found.end() <= at) {
                    found = self.matcher.find_at(block.bytes(), at).ok().flatten();
                }
                if let Some(found) = found.filter(|found| found.start() < end) {
                    around = found.start().max(at) - at..found.end().min(end) - at;
                }
            }
            self.push(number, excerpt_around(line, around, MAX_MATCH_LINE_BYTES), true);
            number += 1;
            at = end;
        }
        Ok(self.needs_more_lines_for_page())
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        let text = excerpt_around(line.bytes(), 0..0, MAX_MATCH_LINE_BYTES);
        self.push(line.line_number().unwrap_or(0), text, false);
        Ok(self.needs_more_lines_for_page())
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.end = Some(PartialFileSearchReason::Binary);
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
