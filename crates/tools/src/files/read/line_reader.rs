//! A reader of lines that uses a limited amount of memory, and the builder of an excerpt.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader};

use callboard_text::grouped_count_with_noun;
use memchr::{memchr, memchr_iter};

use super::TruncatedBy;
use crate::files::walk::IsCancelled;
use crate::limits::{
    LINE_READ_BUFFER_BYTES, MAX_LINE_READ_FILE_BYTES, MAX_READ_LINE_CHARS, MAX_READ_TEXT_BYTES,
};

/// Collects the lines of an excerpt.
#[derive(Default)]
pub(super) struct ExcerptBuilder {
    pub(super) text: String,
    pub(super) numbered: String,
    pub(super) lines: u32,
    pub(super) truncated_by: Option<TruncatedBy>,
    pub(super) truncated_lines: u32,
    pub(super) crlf_lines: u32,
    pub(super) has_bom: bool,
    pub(super) is_lossy: bool,
}

impl ExcerptBuilder {
    /// Adds a line. `bytes` is the beginning of the line, and `length` is the total length of the
    /// line in bytes.
    pub(super) fn add(&mut self, number: u64, bytes: &[u8], length: usize) {
        let bytes = if length > bytes.len() { trim_partial_character(bytes) } else { bytes };
        let mut hidden = length - bytes.len();
        let (mut line, is_lossy) = decode_lossy(bytes);
        let has_bom = number == 1 && line.starts_with('\u{feff}');
        if has_bom {
            line.drain(..'\u{feff}'.len_utf8());
        }
        let has_cr = hidden == 0 && line.ends_with('\r');
        if has_cr {
            line.pop();
        }
        if let Some((end, _)) = line.char_indices().nth(MAX_READ_LINE_CHARS) {
            hidden += line.len() - end;
            line.truncate(end);
        }
        if hidden > 0 {
            let _ = write!(
                line,
                "… [{}]",
                grouped_count_with_noun(hidden as u64, "more byte", "more bytes")
            );
        }
        if self.text.len() + line.len() > MAX_READ_TEXT_BYTES {
            self.truncated_by = Some(TruncatedBy::ByteLimit);
            return;
        }
        let _ = writeln!(self.numbered, "{number:>6}\t{line}");
        self.text.push_str(&line);
        self.text.push('\n');
        self.is_lossy |= is_lossy;
        self.has_bom |= has_bom;
        self.crlf_lines += u32::from(has_cr);
        self.truncated_lines += u32::from(hidden > 0);
        self.lines += 1;
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.truncated_lines > 0 {
            notes.push(format!("long lines are cut to {MAX_READ_LINE_CHARS} characters"));
        }
        if self.is_lossy {
            notes.push("bytes that are not UTF-8 are shown as \u{fffd}".into());
        }
        if self.has_bom {
            notes.push("the file begins with a byte order mark, which edits keep".into());
        }
        if self.crlf_lines > 0 {
            let which = if self.crlf_lines == self.lines { "lines" } else { "some lines" };
            notes.push(format!("{which} end with CRLF, which edits keep"));
        }
        notes
    }
}

/// Reads lines. Of each line, buffers only the part that an excerpt may show.
pub(super) struct LineReader<'a, R> {
    pub(super) input: BufReader<io::Take<R>>,
    /// The number of lines that were read or skipped, plus the number of lines before the beginning
    /// of the input.
    pub(super) count: u64,
    /// The beginning of the line that was read last.
    line: Vec<u8>,
    checkpoints: Vec<LineCheckpoint>,
    cancel: &'a IsCancelled<'a>,
}

/// A position in the part of the input that was skipped. Often, the position is in the middle of a
/// line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineCheckpoint {
    /// The number of lines that end before this position.
    pub(super) lines: u64,
    /// The number of bytes before this position.
    pub(super) bytes: u64,
}

impl<'a, R: io::Read> LineReader<'a, R> {
    /// Maximum number of bytes that are buffered per line, enough for [`MAX_READ_LINE_CHARS`]
    /// characters of 4 bytes each.
    const LINE_PREFIX_BYTES: usize = MAX_READ_LINE_CHARS * 4;

    /// Creates a reader of lines. The first line of the input has the number `before + 1`.
    pub(super) fn new(input: R, before: u64, cancel: &'a IsCancelled<'a>) -> Self {
        let input =
            BufReader::with_capacity(LINE_READ_BUFFER_BYTES, input.take(MAX_LINE_READ_FILE_BYTES));
        Self { input, count: before, line: Vec::new(), checkpoints: Vec::new(), cancel }
    }

    /// Reads lines into a page until the page is full or the input ends.
    pub(super) fn read_lines_into_excerpt(
        &mut self,
        page: &mut ExcerptBuilder,
        limit: u32,
    ) -> io::Result<()> {
        while page.lines < limit && page.truncated_by.is_none() {
            let Some(length) = self.read_line()? else { break };
            page.add(self.count, &self.line, length);
        }
        Ok(())
    }

    /// Skips lines until [`Self::count`] reaches `count` or the input ends.
    pub(super) fn skip_until_count(&mut self, count: u64) -> io::Result<()> {
        let mut is_open = false;
        while self.count < count {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?.len(),
            };
            self.require_not_cancelled()?;
            let read = MAX_LINE_READ_FILE_BYTES - self.input.get_ref().limit();
            self.checkpoints.push(LineCheckpoint { lines: self.count, bytes: read - chunk as u64 });
            let chunk = self.input.buffer();
            let Some(last) = chunk.last() else {
                // The last line of a file may have no line end.
                self.count += u64::from(is_open);
                break;
            };
            let (left, ends) = (count - self.count, memchr_iter(b'\n', chunk).count() as u64);
            is_open = *last != b'\n';
            let used = match left <= ends {
                true => memchr_iter(b'\n', chunk).nth(left as usize - 1).map(|at| at + 1),
                false => None,
            };
            let used = used.unwrap_or(chunk.len());
            self.count += left.min(ends);
            self.input.consume(used);
        }
        Ok(())
    }

    /// Returns the last checkpoint before the start of a skipped line. The line number is counted
    /// from 1.
    pub(super) fn checkpoint_before(&self, line: u64) -> LineCheckpoint {
        let after = self.checkpoints.partition_point(|mark| mark.lines + 1 < line);
        after.checked_sub(1).map_or(LineCheckpoint::default(), |at| self.checkpoints[at])
    }

    /// Reads a line. Returns its length in bytes without the line end, or `None` at the end of the
    /// input.
    fn read_line(&mut self) -> io::Result<Option<usize>> {
        self.line.clear();
        let (mut length, mut is_any) = (0, false);
        loop {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if chunk.is_empty() && !is_any {
                return Ok(None);
            }
            is_any = true;
            let end = memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let kept = part.len().min(Self::LINE_PREFIX_BYTES.saturating_sub(self.line.len()));
            self.line.extend_from_slice(&part[..kept]);
            length += part.len();
            let (used, is_end) = (part.len() + usize::from(end.is_some()), chunk.is_empty());
            self.input.consume(used);
            self.require_not_cancelled()?;
            if end.is_some() || is_end {
                self.count += 1;
                return Ok(Some(length));
            }
        }
    }

    /// Returns whether the read limit was reached and a file of this size has more bytes.
    pub(super) fn is_file_beyond_read_limit(&self, file_bytes: u64) -> bool {
        self.input.get_ref().limit() == 0 && file_bytes > MAX_LINE_READ_FILE_BYTES
    }

    /// Returns whether the input has more lines within the read limit.
    pub(super) fn has_more(&mut self) -> io::Result<bool> {
        Ok(!self.input.fill_buf()?.is_empty())
    }

    /// Fails with [`io::ErrorKind::Interrupted`] if the call was cancelled.
    fn require_not_cancelled(&self) -> io::Result<()> {
        if (self.cancel)() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

/// Removes an incomplete UTF-8 character from the end of some bytes.
pub(super) fn trim_partial_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Decodes a line. Also returns whether invalid bytes were replaced by replacement characters.
fn decode_lossy(bytes: &[u8]) -> (String, bool) {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => (text.to_owned(), false),
        Cow::Owned(text) => (text, true),
    }
}
