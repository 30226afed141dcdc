//! Reads a window of lines of a text file, however large the file or its lines are, or an image.
//!
//! It knows nothing of unsaved buffers of the client.

mod image;
mod page;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Cursor, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use callboard_process::binary_kind;
use callboard_text::{grouped, grouped_count};

use crate::error::{Code, Suggested, ToolError};
use crate::files::encoding::Text;
use crate::files::stamp::{Stamp, Stamping};
use crate::files::system::read_capped;
use crate::files::walk::{Budget, Cancel, Ignored, Order, Walk};
use crate::files::workspace::{Resolved, Workspace};
use crate::limits::{
    ELSEWHERE_TIME, FILE_BYTES, IMAGE_BYTES, LINES_BYTES, SIMILAR_NAMES, SNIFF_BYTES, WINDOW_LINES,
};

use self::page::{Lines, Page, whole_characters};

pub(crate) use self::image::Image;

/// What a file was read as.
#[derive(Debug)]
pub(crate) enum Reading {
    /// Some of its lines.
    Text(Window),
    /// All of it.
    Image(Image),
}

/// Some lines of a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    /// How many lines the file has, unless it is so large that they were not counted.
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
    /// It has 256 KiB.
    Bytes,
    /// The rest of the file is beyond 4 GiB and cannot be read at all.
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
                grouped(LINES_BYTES)
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

/// Reads a file that was looked at as what it is: an image (PNG, JPEG, GIF or WebP) whole, the lines
/// of a text as [`read_window`] does. `too_large` is an image of more than [`IMAGE_BYTES`].
pub(crate) fn read_at(
    workspace: &Workspace,
    at: &Resolved,
    offset: Option<i64>,
    limit: Option<u32>,
    cancel: &Cancel<'_>,
) -> Result<Reading, ToolError> {
    let (request, mut file) = Request::open(workspace, at, (offset, limit), cancel)?;
    if let Some(image) = request.image(&mut file)? {
        return Ok(Reading::Image(image));
    }
    request.window_of(file).map(Reading::Text)
}

/// Reads lines of a text file: `limit` lines from line `offset`, counted from 1, or the last
/// `-offset` lines. A zero means the beginning.
///
/// # Errors
///
/// As [`Workspace::resolve`] and [`Workspace::open_read`]; `binary_file`; `invalid_arguments` for
/// an offset beyond the end or a limit of zero; `too_large` for lines beyond 4 GiB.
pub fn read_window(
    workspace: &Workspace,
    path: &str,
    offset: Option<i64>,
    limit: Option<u32>,
) -> Result<Window, ToolError> {
    let at = workspace.resolve(path)?;
    let (request, file) = Request::open(workspace, &at, (offset, limit), &|| false)?;
    request.window_of(file)
}

/// Shows lines of the text that the client holds of a file, as [`read_window`] does of the disk's.
///
/// # Errors
///
/// `invalid_arguments` as [`read_window`].
pub(crate) fn held_window(
    workspace: &Workspace,
    at: &Resolved,
    text: &str,
    offset: Option<i64>,
    limit: Option<u32>,
) -> Result<Window, ToolError> {
    let (offset, limit) = (offset.unwrap_or(1), limit.unwrap_or(WINDOW_LINES));
    if limit == 0 {
        return Err(ToolError::invalid("limit has to be at least 1"));
    }
    let bytes = text.len() as u64;
    let request = Request { workspace, at, offset, limit, bytes, cancel: &|| false };
    request.page(Cursor::new(text), true).map_err(|error| match error {
        Trouble::Io(error) => workspace.explain(at, &error),
        Trouble::Tool(error) => error,
    })
}

struct Request<'a> {
    workspace: &'a Workspace,
    at: &'a Resolved,
    offset: i64,
    limit: u32,
    bytes: u64,
    cancel: &'a Cancel<'a>,
}

enum Trouble {
    Io(io::Error),
    Tool(ToolError),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        if error.kind() != io::ErrorKind::Interrupted {
            return Self::Io(error);
        }
        let message = "cancelled before the lines were found";
        Self::Tool(ToolError::report(Code::Cancelled, message))
    }
}

impl<'a> Request<'a> {
    fn open(
        workspace: &'a Workspace,
        at: &'a Resolved,
        (offset, limit): (Option<i64>, Option<u32>),
        cancel: &'a Cancel<'a>,
    ) -> Result<(Self, File), ToolError> {
        let file = workspace.open_read(at);
        let file = file.map_err(|error| told_elsewhere(error, workspace, at))?;
        let limit = limit.unwrap_or(WINDOW_LINES);
        if limit == 0 {
            return Err(ToolError::invalid("limit has to be at least 1"));
        }
        let bytes = file.metadata().map_err(|error| workspace.explain(at, &error))?.len();
        Ok((Self { workspace, at, offset: offset.unwrap_or(1), limit, bytes, cancel }, file))
    }

    fn window_of(&self, file: File) -> Result<Window, ToolError> {
        self.read(file).map_err(|error| match error {
            Trouble::Io(error) => self.workspace.explain(self.at, &error),
            Trouble::Tool(error) => error,
        })
    }

    /// Reads an image. Nothing, and the file as it was, if it is none.
    fn image(&self, file: &mut File) -> Result<Option<Image>, ToolError> {
        let explain = |error: io::Error| self.workspace.explain(self.at, &error);
        let start = beginning(file).map_err(explain)?;
        let Some(media_type) = image::media_type(&start) else {
            file.rewind().map_err(explain)?;
            return Ok(None);
        };
        let Some(bytes) = image::whole(file).map_err(explain)? else {
            let (given, most) = (self.at.given(), grouped(IMAGE_BYTES));
            let bytes = grouped_count(self.bytes, "byte", "bytes");
            let message = format!("{given} is {media_type} of {bytes}; shown are up to {most}");
            return Err(ToolError::report(Code::TooLarge, message));
        };
        self.note(Some(Stamp::of(&bytes)));
        Ok(Some(Image { media_type, bytes }))
    }

    fn read(&self, mut file: File) -> Result<Window, Trouble> {
        let start = beginning(&mut file)?;
        if let Some(text) = self.decode(&start, &mut file)? {
            self.note(Some(Stamp::of(text.bytes())));
            let mut window = self.page(Cursor::new(text.as_str()), false)?;
            let encoding = text.encoding().unwrap_or_default();
            window.notes.push(format!("the file is {encoding}, which edits keep"));
            return Ok(window);
        }
        if let Some(kind) = binary_kind(&start) {
            let (given, bytes) = (self.at.given(), grouped_count(self.bytes, "byte", "bytes"));
            let message = format!("{given} is a binary file ({kind}, {bytes})");
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
        file.rewind()?;
        // What cannot be decoded is shown as far as it can be, or said to be no text.
        let text = read_capped(file, FILE_BYTES)?
            .and_then(|bytes| Text::decode(self.at.given(), bytes).ok());
        Ok(text.filter(|text| text.encoding().is_some()))
    }

    /// Reads the lines of text in UTF-8.
    fn page(
        &self,
        mut file: impl io::Read + io::Seek,
        is_stamped: bool,
    ) -> Result<Window, Trouble> {
        let first = u64::try_from(self.offset);
        if first.is_err() && self.bytes > LINES_BYTES {
            return Err(Trouble::Tool(self.too_large()));
        }
        file.rewind()?;
        // What is too large cannot be edited, so nobody asks whether it changed.
        let input =
            if is_stamped { Stamping::new(&mut file) } else { Stamping::without(&mut file) };
        let mut lines = Lines::new(input, 0, self.cancel);
        let mut page = Page::default();
        if let Ok(first) = first {
            lines.skip_to(first.max(1) - 1)?;
            lines.fill(&mut page, self.limit)?;
        }
        // All lines of a large file are counted only for who asks for the last ones.
        if self.bytes <= FILE_BYTES || first.is_err() {
            lines.skip_to(u64::MAX)?;
        }
        self.note(lines.input.get_ref().get_ref().stamp());
        let has_more = lines.has_more()?;
        let (counted, whole) = (lines.count + u64::from(has_more), !lines.is_cut(self.bytes));
        let first = match first {
            Ok(first) => first.max(1),
            Err(_) => {
                let first = counted.saturating_sub(self.offset.unsigned_abs()) + 1;
                let mark = lines.mark_before(first);
                file.seek(SeekFrom::Start(mark.bytes))?;
                let mut lines = Lines::new(file, mark.lines, self.cancel);
                lines.skip_to(first - 1)?;
                lines.fill(&mut page, self.limit)?;
                first
            }
        };
        if page.lines == 0 && (first > 1 || !whole) {
            return Err(Trouble::Tool(self.beyond_end(counted, whole)));
        }
        let total = (whole && !has_more).then_some(counted);
        Ok(self.window(first, page, counted, total))
    }

    /// Remembers what the file holds, as far as it was read.
    fn note(&self, stamp: Option<Stamp>) {
        if let (Some(stamp), Ok(real)) = (stamp, self.workspace.settle(self.at)) {
            self.workspace.stamps().note(real.path(), stamp);
        }
    }

    fn window(&self, first: u64, page: Page, counted: u64, total: Option<u64>) -> Window {
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
            total_lines: total.map(line_number),
            cut: if last < counted {
                Some(page.cut.unwrap_or(Cut::Lines))
            } else {
                total.is_none().then_some(Cut::File)
            },
            notes,
            bytes: self.bytes,
            text: page.text,
            numbered: page.numbered,
        }
    }

    fn beyond_end(&self, lines: u64, whole: bool) -> ToolError {
        if !whole {
            return self.too_large();
        }
        ToolError::invalid(format!(
            "offset {} is beyond the end: {} has {}",
            self.offset,
            self.at.given(),
            grouped_count(lines, "line", "lines")
        ))
    }

    fn too_large(&self) -> ToolError {
        let message = format!(
            "{} has {} bytes, and only the lines of the first {} can be read. Search it with grep",
            self.at.given(),
            grouped(self.bytes),
            grouped(LINES_BYTES)
        );
        ToolError::report(Code::TooLarge, message)
    }
}

/// Reads what tells the kind of a file.
fn beginning(file: &mut File) -> io::Result<Vec<u8>> {
    // Without room for all of it, it would come in reads of 32 bytes, 64 and so on.
    let mut start = Vec::with_capacity(SNIFF_BYTES);
    file.take(SNIFF_BYTES as u64).read_to_end(&mut start)?;
    Ok(start)
}

fn line_number(line: u64) -> u32 {
    // Only a file of little but line ends has more than that.
    u32::try_from(line).unwrap_or(u32::MAX)
}

/// Adds to what a missing file is told with in which places its name is, if in any.
fn told_elsewhere(error: ToolError, workspace: &Workspace, at: &Resolved) -> ToolError {
    match error {
        ToolError::Report(mut report) if report.code == Code::NotFound => {
            let files = places(workspace, at);
            report.suggested.push(Suggested { why: "The same name is at", files });
            report.into()
        }
        other => other,
    }
}

/// Looks for the name in all roots, as far as time permits.
fn places(workspace: &Workspace, at: &Resolved) -> Vec<(PathBuf, String)> {
    let Some(name) = at.path().file_name().map(|name| name.to_string_lossy().to_lowercase()) else {
        return Vec::new();
    };
    let budget = Budget::new(&|| false).within(ELSEWHERE_TIME);
    let mut places = Vec::new();
    for root in workspace.roots() {
        let walk = workspace.resolve_path(root).and_then(|top| {
            Walk::new(workspace, &top, usize::MAX, Order::ByName, Ignored::LeftOut, budget)
        });
        let Ok(mut walk) = walk else { continue };
        while places.len() < SIMILAR_NAMES
            && let Some(found) = walk.next()
        {
            let is_same = found
                .path
                .file_name()
                .is_some_and(|found| found.to_string_lossy().to_lowercase() == name);
            if is_same {
                let path = walk.absolute(&found.path);
                let shown = workspace.display(&path);
                places.push((path, shown));
            }
        }
    }
    places
}

#[cfg(test)]
mod tests;
