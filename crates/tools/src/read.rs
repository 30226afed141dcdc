//! Reads a window of lines of a text file, however large the file or its lines are.
//!
//! It knows nothing of unsaved buffers of the client.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Cursor, Read as _, Seek as _};
use std::path::PathBuf;

use infer::MatcherType;

use crate::encoding::Text;
use crate::error::{Code, ToolError};
use crate::limits::{FILE_BYTES, LINE_CHARS, SNIFF_BYTES, WINDOW_BYTES, WINDOW_LINES};
use crate::stamp::{Stamp, Stamping};
use crate::workspace::{Resolved, Workspace};

/// Some lines of a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The lines as they are, without carriage returns; long ones are cut.
    pub text: String,
    /// The lines with their numbers, as `cat -n` shows them.
    pub numbered: String,
    /// The number of the first line, from 1; 0 if the file is empty.
    pub first_line: u32,
    /// The number of the last line; 0 if the file is empty.
    pub last_line: u32,
    /// How many lines the file has, unless it is too large to count them.
    pub total_lines: Option<u32>,
    /// Why the window ends before the file does, if so.
    pub cut: Option<Cut>,
    /// What else there is to know, one sentence each.
    pub notes: Vec<String>,
    /// How many bytes the file has.
    pub bytes: u64,
}

/// Why a window ends before its file does. The line after its last one is the next to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// It has as many lines as were asked for, or as are shown without asking.
    Lines,
    /// It has [`WINDOW_BYTES`].
    Bytes,
    /// The rest of the file is beyond [`FILE_BYTES`] and cannot be read at all.
    File,
}

impl Window {
    /// Returns the offset to go on with, if there is more to read.
    #[must_use]
    pub fn next_offset(&self) -> Option<u32> {
        matches!(self.cut, Some(Cut::Lines | Cut::Bytes)).then(|| self.last_line.saturating_add(1))
    }

    /// Returns the numbered lines with all there is to know about them.
    #[must_use]
    pub fn for_model(&self) -> String {
        let mut text = self.numbered.clone();
        let (first, last) = (self.first_line, self.last_line);
        let total = self.total_lines.map_or("more".to_owned(), |total| grouped(total.into()));
        // Writing to a String cannot fail.
        let _ = match (self.cut, self.next_offset()) {
            (_, Some(next)) => {
                writeln!(text, "[lines {first}-{last} of {total}; go on with offset {next}]")
            }
            (Some(_), None) => writeln!(
                text,
                "[lines {first}-{last}; the rest is beyond {} bytes and can only be searched with \
                 grep or read in a terminal]",
                grouped(FILE_BYTES)
            ),
            (None, None) if first > 1 => writeln!(text, "[lines {first}-{last} of {total}]"),
            (None, None) => Ok(()),
        };
        for note in &self.notes {
            let _ = writeln!(text, "[{note}]");
        }
        text
    }
}

/// Reads lines of a text file: `limit` lines from line `offset`, counted from 1, or the last
/// `-offset` lines. A zero means the beginning.
///
/// # Errors
///
/// As [`Workspace::resolve`] and [`Workspace::open_read`]; `binary_file`; `invalid_arguments` for
/// an offset beyond the end or a limit of zero; `too_large` for lines beyond [`FILE_BYTES`].
pub fn read_window(
    workspace: &Workspace,
    path: &str,
    offset: Option<i64>,
    limit: Option<u32>,
) -> Result<Window, ToolError> {
    let at = workspace.resolve(path)?;
    let file = workspace.open_read(&at)?;
    let limit = limit.unwrap_or(WINDOW_LINES);
    if limit == 0 {
        return Err(ToolError::invalid("limit has to be at least 1"));
    }
    let bytes = file.metadata().map_err(|error| workspace.explain(&at, &error))?.len();
    let request = Request { workspace, at: &at, offset: offset.unwrap_or(1), limit, bytes };
    request.read(file).map_err(|error| match error {
        Trouble::Io(error) => workspace.explain(&at, &error),
        Trouble::Tool(error) => error,
    })
}

struct Request<'a> {
    workspace: &'a Workspace,
    at: &'a Resolved,
    offset: i64,
    limit: u32,
    bytes: u64,
}

enum Trouble {
    Io(io::Error),
    Tool(ToolError),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Request<'_> {
    fn read(&self, mut file: File) -> Result<Window, Trouble> {
        let mut start = Vec::new();
        file.by_ref().take(SNIFF_BYTES as u64).read_to_end(&mut start)?;
        if let Some(text) = self.decode(&start, &mut file)? {
            self.note(Some(Stamp::of(text.bytes())));
            let mut window = self.page(Cursor::new(text.as_str()), false)?;
            let encoding = text.encoding().unwrap_or_default();
            window.notes.push(format!("the file is {encoding}, which edits keep"));
            return Ok(window);
        }
        if let Some(kind) = binary_kind(&start) {
            let (given, bytes) = (self.at.given(), grouped(self.bytes));
            let message = format!("{given} is a binary file ({kind}, {bytes} bytes)");
            return Err(Trouble::Tool(ToolError::report(Code::BinaryFile, message)));
        }
        self.page(file, self.bytes <= FILE_BYTES)
    }

    /// Decodes a file that is text, but not in UTF-8, if it is small enough to be edited.
    fn decode(&self, start: &[u8], file: &mut File) -> io::Result<Option<Text>> {
        let is_utf8 = std::str::from_utf8(whole_characters(start)).is_ok();
        let is_wide = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
        let is_text = is_wide || binary_kind(start).is_none();
        if is_utf8 || !is_text || self.bytes > FILE_BYTES {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.rewind()?;
        file.take(FILE_BYTES).read_to_end(&mut bytes)?;
        // What cannot be decoded is shown as far as it can be, or said to be no text.
        Ok(Text::decode(self.at.given(), bytes).ok().filter(|text| text.encoding().is_some()))
    }

    /// Reads the lines of text in UTF-8.
    fn page(
        &self,
        mut file: impl io::Read + io::Seek,
        is_stamped: bool,
    ) -> Result<Window, Trouble> {
        let first = match u64::try_from(self.offset) {
            Ok(line) => line.max(1),
            Err(_) => self.tail_start(&mut file)?,
        };
        file.rewind()?;
        // What is too large cannot be edited, so nobody asks whether it changed.
        let file = if is_stamped { Stamping::new(file) } else { Stamping::without(file) };
        let mut lines = Lines::new(file);
        let skipped = lines.skip(first - 1)?;
        let mut page = Page::default();
        let mut counted = skipped;
        while page.lines < self.limit && page.cut.is_none() {
            let Some(length) = lines.next()? else { break };
            counted += 1;
            page.add(counted, &lines.line, length);
        }
        counted += lines.skip(u64::MAX)?;
        self.note(lines.input.get_ref().get_ref().stamp());
        let whole = !lines.is_cut(self.bytes);
        if page.lines == 0 && (first > 1 || !whole) {
            return Err(Trouble::Tool(self.beyond_end(counted, whole)));
        }
        Ok(self.window(first, page, counted, whole))
    }

    /// Remembers what the file holds, as far as it was read.
    fn note(&self, stamp: Option<Stamp>) {
        if let (Some(stamp), Ok(real)) = (stamp, self.workspace.settle(self.at)) {
            self.workspace.stamps().note(real.path(), stamp);
        }
    }

    /// Finds the line where the last lines begin.
    fn tail_start(&self, file: &mut (impl io::Read + io::Seek)) -> Result<u64, Trouble> {
        file.rewind()?;
        let mut lines = Lines::new(file);
        let total = lines.skip(u64::MAX)?;
        if lines.is_cut(self.bytes) {
            return Err(Trouble::Tool(self.too_large()));
        }
        Ok(total.saturating_sub(self.offset.unsigned_abs()) + 1)
    }

    fn window(&self, first: u64, page: Page, counted: u64, whole: bool) -> Window {
        let lines = u64::from(page.lines);
        let last = first - 1 + lines;
        let mut notes = page.notes();
        if self.bytes == 0 {
            notes.push("the file is empty".to_owned());
        }
        Window {
            path: self.at.path().to_owned(),
            first_line: if lines == 0 { 0 } else { line_number(first) },
            last_line: line_number(last),
            total_lines: whole.then(|| line_number(counted)),
            cut: if last < counted {
                Some(page.cut.unwrap_or(Cut::Lines))
            } else {
                (!whole).then_some(Cut::File)
            },
            notes,
            bytes: self.bytes,
            text: page.text,
            numbered: page.numbered,
        }
    }

    fn beyond_end(&self, counted: u64, whole: bool) -> ToolError {
        if !whole {
            return self.too_large();
        }
        ToolError::invalid(format!(
            "offset {} is beyond the end: {} has {} lines",
            self.offset,
            self.at.given(),
            grouped(counted)
        ))
    }

    fn too_large(&self) -> ToolError {
        let message = format!(
            "{} has {} bytes, and only the lines of the first {} can be read. Search it with grep",
            self.at.given(),
            grouped(self.bytes),
            grouped(FILE_BYTES)
        );
        ToolError::report(Code::TooLarge, message)
    }
}

/// The lines of a window as they come in.
#[derive(Default)]
struct Page {
    text: String,
    numbered: String,
    lines: u32,
    cut: Option<Cut>,
    cut_lines: u32,
    crlf_lines: u32,
    has_bom: bool,
    is_lossy: bool,
}

impl Page {
    /// Adds a line of which `bytes` is the beginning, and which has `length` bytes in all.
    fn add(&mut self, number: u64, bytes: &[u8], length: usize) {
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

    fn notes(&self) -> Vec<String> {
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
struct Lines<R> {
    input: BufReader<io::Take<R>>,
    /// The beginning of the last line that was read.
    line: Vec<u8>,
}

impl<R: io::Read> Lines<R> {
    /// Enough for the longest characters.
    const KEPT: usize = LINE_CHARS * 4;

    fn new(input: R) -> Self {
        Self { input: BufReader::new(input.take(FILE_BYTES)), line: Vec::new() }
    }

    /// Reads a line and returns how long it is without its end.
    fn next(&mut self) -> io::Result<Option<usize>> {
        self.line.clear();
        self.read(Self::KEPT)
    }

    /// Passes over at most `count` lines and returns over how many.
    fn skip(&mut self, count: u64) -> io::Result<u64> {
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
    fn is_cut(&self, file_bytes: u64) -> bool {
        self.input.get_ref().limit() == 0 && file_bytes > FILE_BYTES
    }
}

/// Leaves out a last character that was cut in two.
fn whole_characters(bytes: &[u8]) -> &[u8] {
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

fn line_number(line: u64) -> u32 {
    // A file of at most 64 MiB has fewer lines than that.
    u32::try_from(line).unwrap_or(u32::MAX)
}

/// Names what a file holds by its first bytes if that is not text in UTF-8 or the like.
pub(crate) fn binary_kind(start: &[u8]) -> Option<String> {
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return Some("UTF-16 text".to_owned());
    }
    if !start.contains(&0) && !start.starts_with(b"%PDF-") {
        return None;
    }
    let Some(kind) = infer::get(start) else { return Some("unknown kind".to_owned()) };
    let noun = match kind.matcher_type() {
        MatcherType::App => "program",
        MatcherType::Archive => "archive",
        MatcherType::Audio => "audio",
        MatcherType::Book => "book",
        MatcherType::Doc | MatcherType::Text => "document",
        MatcherType::Font => "font",
        MatcherType::Image => "image",
        MatcherType::Video => "video",
        MatcherType::Custom => "data",
    };
    Some(format!("{} {noun}", kind.extension().to_uppercase()))
}

/// Writes a number with commas between the thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::{Cut, Window, grouped, read_window};
    use crate::error::{Code, ToolError};
    use crate::limits::{FILE_BYTES, LINE_CHARS, WINDOW_BYTES, WINDOW_LINES};
    use crate::workspace::testing::tree;
    use pretty_assertions::assert_eq;

    fn read(
        text: impl AsRef<[u8]>,
        offset: Option<i64>,
        limit: Option<u32>,
    ) -> Result<Window, ToolError> {
        let tree = tree(&[]);
        tree.write("file", text);
        read_window(&tree.workspace, "file", offset, limit)
    }

    fn whole(text: impl AsRef<[u8]>) -> Window {
        read(text, None, None).unwrap()
    }

    #[test]
    fn a_window_has_the_lines_that_were_asked_for() {
        for (offset, limit, expected, lines) in [
            (None, None, "a\nb\nc\nd\n", 1..=4),
            (Some(1), Some(4), "a\nb\nc\nd\n", 1..=4),
            (Some(0), Some(1), "a\n", 1..=1),
            (Some(2), Some(2), "b\nc\n", 2..=3),
            (Some(4), Some(9), "d\n", 4..=4),
            (Some(-1), None, "d\n", 4..=4),
            (Some(-3), Some(2), "b\nc\n", 2..=3),
            (Some(-9), None, "a\nb\nc\nd\n", 1..=4),
            (Some(i64::MIN), None, "a\nb\nc\nd\n", 1..=4),
        ] {
            // The last line may or may not have an end.
            for text in ["a\nb\nc\nd\n", "a\nb\nc\nd"] {
                let window = read(text, offset, limit).unwrap();
                assert_eq!(window.text, expected, "{offset:?} {limit:?}");
                assert_eq!(window.first_line..=window.last_line, lines, "{offset:?} {limit:?}");
                assert_eq!(window.total_lines, Some(4));
                let is_cut = (*lines.end() < 4).then_some(Cut::Lines);
                assert_eq!(window.cut, is_cut);
                assert_eq!(window.next_offset(), is_cut.map(|_| lines.end() + 1));
            }
        }
    }

    #[test]
    fn the_model_sees_numbers_and_how_to_go_on() {
        let window = read("a\nb\nc\nd\n", Some(2), Some(2)).unwrap();
        assert_eq!(
            window.for_model(),
            "     2\tb\n     3\tc\n[lines 2-3 of 4; go on with offset 4]\n"
        );
        assert_eq!(whole("a\n").for_model(), "     1\ta\n");
        assert_eq!(whole("").for_model(), "[the file is empty]\n");
        assert_eq!((whole("").first_line, whole("").total_lines), (0, Some(0)));
    }

    #[test]
    fn an_offset_beyond_the_end_is_answered_with_the_number_of_lines() {
        for offset in [3, i64::MAX] {
            let error = read("a\nb\n", Some(offset), None).unwrap_err();
            assert_eq!(error.code(), Some(Code::InvalidArguments));
            assert!(error.to_string().contains("has 2 lines"), "{error}");
        }
        assert!(read("a", None, Some(0)).is_err());
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let window = whole(format!("{}\nend\n", "ä".repeat(LINE_CHARS + 3)));
        assert_eq!(window.text, format!("{}… [6 more bytes]\nend\n", "ä".repeat(LINE_CHARS)));
        assert_eq!(window.notes, ["long lines are cut to 2000 characters"]);
        let window = whole("€".repeat(3_000_000));
        assert_eq!(window.text, format!("{}… [8,994,000 more bytes]\n", "€".repeat(LINE_CHARS)));
        assert_eq!(whole("x".repeat(LINE_CHARS)).notes, [""; 0]);
    }

    #[test]
    fn a_window_is_bounded_in_lines_and_bytes() {
        let window = whole("x\n".repeat(5_000));
        assert_eq!((window.last_line, window.total_lines), (WINDOW_LINES, Some(5_000)));
        assert_eq!(window.cut, Some(Cut::Lines));
        let window = whole(format!("{}\n", "x".repeat(1_000)).repeat(1_000));
        assert!(window.text.len() <= WINDOW_BYTES && window.text.len() > WINDOW_BYTES - 1_002);
        assert_eq!((window.cut, window.total_lines), (Some(Cut::Bytes), Some(1_000)));
        assert_eq!(window.next_offset(), Some(window.text.lines().count() as u32 + 1));
    }

    #[test]
    fn files_without_text_are_named_not_shown() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01";
        let mut large = vec![b'x'; 8_000];
        large.push(0);
        for (bytes, expected) in [
            (&png[..], "binary file (PNG image, 20 bytes)"),
            (b"\xff\xfea\0b", "(UTF-16 text, 5 bytes)"),
            (b"%PDF-1.7\n", "(PDF archive, 9 bytes)"),
            (b"a\0b", "(unknown kind, 3 bytes)"),
            (&large, "(unknown kind, 8,001 bytes)"),
        ] {
            let error = read(bytes, None, None).unwrap_err();
            assert_eq!(error.code(), Some(Code::BinaryFile));
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn odd_text_is_shown_with_a_note() {
        let window = whole(b"\xc3\xa4\xffb\n");
        assert_eq!(window.text, "ä\u{fffd}b\n");
        assert!(window.notes[0].contains("not UTF-8"));
        let window = whole("\u{feff}a\r\nb\n");
        assert_eq!(window.text, "a\nb\n");
        assert!(window.notes[0].contains("byte order mark"), "{:?}", window.notes);
        assert!(window.notes[1].starts_with("some lines end with CRLF"), "{:?}", window.notes);
        assert!(whole("a\r\nb\r\n").notes[0].starts_with("lines end with CRLF"));
    }

    #[test]
    fn a_file_without_end_is_read_to_the_bound() {
        let tree = tree(&[]);
        let line = "x".repeat(1023) + "\n";
        tree.write("large", line.repeat((FILE_BYTES / 1024) as usize + 1));
        let read = |offset| read_window(&tree.workspace, "large", Some(offset), Some(2));
        let last = (FILE_BYTES / 1024) as i64;
        assert_eq!(read(1).unwrap().total_lines, None);
        let window = read(last).unwrap();
        assert_eq!((window.cut, window.next_offset()), (Some(Cut::File), None));
        assert!(window.for_model().contains("67,108,864 bytes"), "{}", window.for_model());
        for beyond in [last + 1, -1] {
            assert_eq!(read(beyond).unwrap_err().code(), Some(Code::TooLarge));
        }
    }

    #[test]
    fn numbers_have_commas() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn other_encodings_are_decoded_and_named() {
        let tree = tree(&[]);
        tree.write("utf16", b"\xff\xfea\0\n\0\xe4\0\n\0");
        tree.write(
            "latin",
            b"Die Gr\xf6\xdfe der Stra\xdfe\r\nf\xe4llt \xfcber die H\xe4user.\r\n",
        );
        for (path, offset, text, note) in [
            ("utf16", None, "a\nä\n", "the file is UTF-16LE, which edits keep"),
            ("utf16", Some(-1), "ä\n", "the file is UTF-16LE, which edits keep"),
            (
                "latin",
                Some(2),
                "fällt über die Häuser.\n",
                "the file is windows-1252 (guessed), which edits keep",
            ),
        ] {
            let window = read_window(&tree.workspace, path, offset, None).unwrap();
            assert_eq!(window.text, text, "{path}");
            assert_eq!(window.total_lines, Some(2));
            assert!(window.notes.iter().any(|other| other == note), "{:?}", window.notes);
        }
    }
}
