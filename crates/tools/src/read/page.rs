//! Lines as they come in, and the page that is made of them. It knows nothing of files.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader};

use super::{Cut, grouped};
use crate::limits::{FILE_BYTES, LINE_CHARS, WINDOW_BYTES};

/// The lines of a window as they come in.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
    pub(super) numbered: String,
    pub(super) lines: u32,
    pub(super) cut: Option<Cut>,
    pub(super) cut_lines: u32,
    pub(super) crlf_lines: u32,
    pub(super) has_bom: bool,
    pub(super) is_lossy: bool,
}

impl Page {
    /// Adds a line of which `bytes` is the beginning, and which has `length` bytes in all.
    pub(super) fn add(&mut self, number: u64, bytes: &[u8], length: usize) {
        let bytes = if length > bytes.len() { whole_characters(bytes) } else { bytes };
        let mut hidden = length - bytes.len();
        let (mut line, is_lossy) = decoded(bytes);
        let has_bom = number == 1 && line.starts_with('\u{feff}');
        if has_bom {
            line.drain(..'\u{feff}'.len_utf8());
        }
        let has_cr = hidden == 0 && line.ends_with('\r');
        if has_cr {
            line.pop();
        }
        if let Some((end, _)) = line.char_indices().nth(LINE_CHARS) {
            hidden += line.len() - end;
            line.truncate(end);
        }
        if hidden > 0 {
            let _ = write!(line, "… [{} more bytes]", grouped(hidden as u64));
        }
        if self.text.len() + line.len() > WINDOW_BYTES {
            self.cut = Some(Cut::Bytes);
            return;
        }
        let _ = writeln!(self.numbered, "{number:>6}\t{line}");
        self.text.push_str(&line);
        self.text.push('\n');
        self.is_lossy |= is_lossy;
        self.has_bom |= has_bom;
        self.crlf_lines += u32::from(has_cr);
        self.cut_lines += u32::from(hidden > 0);
        self.lines += 1;
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.cut_lines > 0 {
            notes.push(format!("long lines are cut to {LINE_CHARS} characters"));
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

/// Reads lines, keeping no more of each than a window may show.
pub(super) struct Lines<R> {
    pub(super) input: BufReader<io::Take<R>>,
    /// The beginning of the last line that was read.
    pub(super) line: Vec<u8>,
}

impl<R: io::Read> Lines<R> {
    /// Enough for the longest characters.
    const KEPT: usize = LINE_CHARS * 4;

    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::new(input.take(FILE_BYTES)), line: Vec::new() }
    }

    /// Reads a line and returns how long it is without its end.
    pub(super) fn next(&mut self) -> io::Result<Option<usize>> {
        self.line.clear();
        self.read(Self::KEPT)
    }

    /// Passes over at most `count` lines and returns over how many.
    pub(super) fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut skipped = 0;
        while skipped < count && self.read(0)?.is_some() {
            skipped += 1;
        }
        Ok(skipped)
    }

    fn read(&mut self, keep: usize) -> io::Result<Option<usize>> {
        let mut length = 0;
        let mut read_any = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if chunk.is_empty() {
                return Ok(read_any.then_some(length));
            }
            read_any = true;
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let kept = part.len().min(keep.saturating_sub(self.line.len()));
            self.line.extend_from_slice(&part[..kept]);
            length += part.len();
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }

    /// Returns whether the file goes on where reading had to stop.
    pub(super) fn is_cut(&self, file_bytes: u64) -> bool {
        self.input.get_ref().limit() == 0 && file_bytes > FILE_BYTES
    }
}

/// Leaves out a last character that was cut in two.
pub(super) fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Decodes a line, and tells whether that lost something.
fn decoded(bytes: &[u8]) -> (String, bool) {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => (text.to_owned(), false),
        Cow::Owned(text) => (text, true),
    }
}
