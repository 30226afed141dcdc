//! Reads an image, or an excerpt of a text file of any size.

mod image;
mod line_reader;

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Cursor, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use callboard_process::binary_kind;
use callboard_text::{group_thousands, grouped_count_with_noun};

use crate::error::{ErrorCode, PathSuggestions, ToolError};
use crate::files::content_hash::{ContentHash, HashingReader};
use crate::files::encoding::DecodedText;
use crate::files::system::read_all_if_within_limit;
use crate::files::walk::{IgnoredFiles, IsCancelled, SearchBudget, Walk, WalkOrder};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::limits::{
    DEFAULT_READ_LINES, MAX_IMAGE_BYTES, MAX_LINE_READ_FILE_BYTES, MAX_SAME_NAME_SEARCH_TIME,
    MAX_SIMILAR_NAMES, MAX_WHOLE_FILE_BYTES, SNIFF_BYTES,
};

use self::line_reader::{ExcerptBuilder, LineReader, trim_partial_character};

pub(crate) use self::image::ImageFile;

/// The content that was read from a file.
#[derive(Debug)]
pub(crate) enum FileContent {
    /// Some lines of a text.
    Text(FileExcerpt),
    /// A whole image.
    Image(ImageFile),
}

/// An excerpt of a text file: some consecutive lines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileExcerpt {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The lines without carriage returns. Long lines are truncated.
    pub text: String,
    /// The lines with line numbers, in the format of `cat -n`.
    pub numbered: String,
    /// The number of the first line, counted from 1. 0 if the file is empty.
    pub first_line: u32,
    /// The number of the last line. 0 if the file is empty.
    pub last_line: u32,
    /// The number of lines in the file. `None` if the file is so large that its lines are not
    /// counted.
    pub total_lines: Option<u32>,
    /// The reason why the excerpt ends before the end of the file. `None` if the excerpt reaches
    /// the end.
    pub truncated_by: Option<TruncatedBy>,
    /// Additional notes. Each note is one sentence.
    pub notes: Vec<String>,
    /// The size of the file in bytes.
    pub file_bytes: u64,
}

/// The reason why an excerpt ends before the end of its file.
///
/// After [`Self::LineLimit`] and [`Self::ByteLimit`], the next excerpt should begin at
/// [`FileExcerpt::next_offset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TruncatedBy {
    /// The excerpt has the requested number of lines, or the default number.
    LineLimit,
    /// The excerpt has reached its size limit of 256 KiB.
    ByteLimit,
    /// The rest of the file lies after the first 4 GiB and cannot be read.
    FileSizeLimit,
}

impl FileExcerpt {
    /// Returns the offset of the next excerpt, if there are more lines to read.
    #[must_use]
    pub fn next_offset(&self) -> Option<u32> {
        matches!(self.truncated_by, Some(TruncatedBy::LineLimit | TruncatedBy::ByteLimit))
            .then(|| self.last_line.saturating_add(1))
    }

    /// Returns the numbered lines, followed by all notes.
    #[must_use]
    pub fn for_model(&self) -> String {
        let mut text = self.numbered.clone();
        let (first, last) = (self.first_line, self.last_line);
        let total =
            self.total_lines.map_or("more".to_owned(), |total| group_thousands(total.into()));
        // Writing to a String cannot fail.
        let _ = match (self.truncated_by, self.next_offset()) {
            (_, Some(next)) => {
                writeln!(text, "[lines {first}-{last} of {total}; continue with offset {next}]")
            }
            (Some(_), None) => writeln!(
                text,
                "[lines {first}-{last}; the rest is beyond {} bytes and can only be searched with \
                 grep or read in a terminal]",
                group_thousands(MAX_LINE_READ_FILE_BYTES)
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

/// Reads a resolved file. An image (PNG, JPEG, GIF or WebP) is read completely. Lines of a text are
/// read in the same way as by [`read_excerpt`].
///
/// Fails with `too_large` if an image is larger than [`MAX_IMAGE_BYTES`].
pub(crate) fn read_text_or_image(
    workspace: &Workspace,
    at: &WorkspacePath,
    offset: Option<i64>,
    limit: Option<u32>,
    cancel: &IsCancelled<'_>,
) -> Result<(FileContent, Option<SeenContent>), ToolError> {
    let (request, mut file) = ReadRequest::open_file(workspace, at, (offset, limit), cancel)?;
    let start = request.read_prefix(&mut file)?;
    let content = match request.read_if_image(&mut file, &start)? {
        Some(image) => FileContent::Image(image),
        None => FileContent::Text(request.read_text_excerpt(file, &start)?),
    };
    Ok((content, request.seen.into_inner()))
}

/// The content of a file that was read completely, although perhaps only a part of it was returned.
#[derive(Debug)]
pub(crate) struct SeenContent {
    path: PathBuf,
    hash: ContentHash,
}

impl SeenContent {
    /// Records that the session has seen this content.
    pub(crate) fn record(&self, workspace: &Workspace) {
        workspace.known_hashes().record(&self.path, self.hash);
    }
}

/// Reads `limit` lines of a text file, beginning at line `offset`. Lines are counted from 1.
///
/// A negative `offset` reads the last `-offset` lines. An `offset` of zero means the beginning of
/// the file.
///
/// # Errors
///
/// - The errors of [`Workspace::resolve`] and [`Workspace::open_read`].
/// - `binary_file` if the file is not text.
/// - `invalid_arguments` for an `offset` after the end of the file, or a `limit` of zero.
/// - `too_large` for lines after the first 4 GiB.
pub fn read_excerpt(
    workspace: &Workspace,
    path: &str,
    offset: Option<i64>,
    limit: Option<u32>,
) -> Result<FileExcerpt, ToolError> {
    let at = workspace.resolve(path)?;
    let (request, mut file) = ReadRequest::open_file(workspace, &at, (offset, limit), &|| false)?;
    let start = request.read_prefix(&mut file)?;
    let excerpt = request.read_text_excerpt(file, &start)?;
    if let Some(seen) = request.seen.get() {
        seen.record(workspace);
    }
    Ok(excerpt)
}

/// Returns lines of the client's unsaved text of a file. The arguments have the same meaning as
/// those of [`read_excerpt`].
///
/// # Errors
///
/// `invalid_arguments` in the same cases as [`read_excerpt`].
pub(crate) fn unsaved_excerpt(
    workspace: &Workspace,
    at: &WorkspacePath,
    text: &str,
    offset: Option<i64>,
    limit: Option<u32>,
) -> Result<(FileExcerpt, Option<SeenContent>), ToolError> {
    let (offset, limit) = (offset.unwrap_or(1), limit.unwrap_or(DEFAULT_READ_LINES));
    if limit == 0 {
        return Err(ToolError::invalid_arguments("`limit` must be at least 1"));
    }
    let bytes = text.len() as u64;
    let request = ReadRequest::new(workspace, at, (offset, limit), bytes, &|| false);
    let excerpt = request.read_utf8_lines(Cursor::new(text), true);
    let excerpt = excerpt.map_err(|error| request.read_error_to_tool_error(error))?;
    Ok((excerpt, request.seen.into_inner()))
}

struct ReadRequest<'a> {
    workspace: &'a Workspace,
    at: &'a WorkspacePath,
    offset: i64,
    limit: u32,
    bytes: u64,
    cancel: &'a IsCancelled<'a>,
    seen: OnceCell<SeenContent>,
}

enum IoOrToolError {
    Io(io::Error),
    Tool(ToolError),
}

impl From<io::Error> for IoOrToolError {
    fn from(error: io::Error) -> Self {
        if error.kind() != io::ErrorKind::Interrupted {
            return Self::Io(error);
        }
        let message = "cancelled before the lines were found";
        Self::Tool(ToolError::recoverable(ErrorCode::Cancelled, message))
    }
}

impl<'a> ReadRequest<'a> {
    fn new(
        workspace: &'a Workspace,
        at: &'a WorkspacePath,
        (offset, limit): (i64, u32),
        bytes: u64,
        cancel: &'a IsCancelled<'a>,
    ) -> Self {
        Self { workspace, at, offset, limit, bytes, cancel, seen: OnceCell::new() }
    }

    fn open_file(
        workspace: &'a Workspace,
        at: &'a WorkspacePath,
        (offset, limit): (Option<i64>, Option<u32>),
        cancel: &'a IsCancelled<'a>,
    ) -> Result<(Self, File), ToolError> {
        let file = workspace.open_read(at);
        let file = file.map_err(|error| suggest_same_names(error, workspace, at))?;
        let limit = limit.unwrap_or(DEFAULT_READ_LINES);
        if limit == 0 {
            return Err(ToolError::invalid_arguments("`limit` must be at least 1"));
        }
        let bytes = file.metadata().map_err(|error| workspace.explain_io_error(at, &error))?.len();
        Ok((Self::new(workspace, at, (offset.unwrap_or(1), limit), bytes, cancel), file))
    }

    /// Reads the first bytes of a file, which are enough to detect the kind of the file.
    fn read_prefix(&self, file: &mut File) -> Result<Vec<u8>, ToolError> {
        // Without this capacity, `read_to_end` would start with short reads of 32 and 64 bytes.
        let mut start = Vec::with_capacity(SNIFF_BYTES);
        let read = file.take(SNIFF_BYTES as u64).read_to_end(&mut start);
        read.map_err(|error| self.workspace.explain_io_error(self.at, &error))?;
        Ok(start)
    }

    fn read_text_excerpt(&self, file: File, start: &[u8]) -> Result<FileExcerpt, ToolError> {
        self.read_text(file, start).map_err(|error| self.read_error_to_tool_error(error))
    }

    fn read_error_to_tool_error(&self, error: IoOrToolError) -> ToolError {
        match error {
            IoOrToolError::Io(error) => self.workspace.explain_io_error(self.at, &error),
            IoOrToolError::Tool(error) => error,
        }
    }

    /// Reads an image. Returns `None` if the file is not an image according to its first bytes.
    fn read_if_image(&self, file: &mut File, start: &[u8]) -> Result<Option<ImageFile>, ToolError> {
        let explain = |error: io::Error| self.workspace.explain_io_error(self.at, &error);
        let Some(media_type) = image::sniff_media_type(start) else { return Ok(None) };
        let Some(bytes) = image::read_capped_image(file).map_err(explain)? else {
            let (given, most) = (self.at.given(), group_thousands(MAX_IMAGE_BYTES));
            let bytes = grouped_count_with_noun(self.bytes, "byte", "bytes");
            let message = format!("{given} is {media_type} of {bytes}; the limit is {most} bytes");
            return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
        };
        self.set_seen(Some(ContentHash::of_bytes(&bytes)));
        Ok(Some(ImageFile { media_type, bytes }))
    }

    /// Reads lines of a text, whose first bytes are `start`.
    fn read_text(&self, mut file: File, start: &[u8]) -> Result<FileExcerpt, IoOrToolError> {
        let is_utf8 = std::str::from_utf8(trim_partial_character(start)).is_ok();
        let is_wide = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
        let is_text = is_utf8 || is_wide || binary_kind(start).is_none();
        if !is_utf8
            && is_text
            && let Some(excerpt) = self.read_non_utf8(&mut file)?
        {
            return Ok(excerpt);
        }
        if let Some(kind) = binary_kind(start) {
            let (given, bytes) =
                (self.at.given(), grouped_count_with_noun(self.bytes, "byte", "bytes"));
            let message = format!("{given} is a binary file ({kind}, {bytes})");
            return Err(IoOrToolError::Tool(ToolError::recoverable(
                ErrorCode::BinaryFile,
                message,
            )));
        }
        let excerpt = match start.len() as u64 == self.bytes && start.len() < SNIFF_BYTES {
            // The end of the file was reached.
            true => self.read_utf8_lines(Cursor::new(start), true)?,
            false => self.read_utf8_lines(&mut file, self.bytes <= MAX_WHOLE_FILE_BYTES)?,
        };
        // The first byte that is not UTF-8 may follow the bytes in `start`. Only then, the file is
        // read again. If no shown line has such a byte, its encoding does not change the excerpt.
        if is_utf8
            && excerpt.text.contains(char::REPLACEMENT_CHARACTER)
            && let Some(decoded) = self.read_non_utf8(&mut file)?
        {
            return Ok(decoded);
        }
        Ok(excerpt)
    }

    /// Reads lines of a text that is not UTF-8. Returns `None` if the file cannot be decoded, or if
    /// it is too large to be edited.
    fn read_non_utf8(&self, file: &mut File) -> Result<Option<FileExcerpt>, IoOrToolError> {
        if self.bytes > MAX_WHOLE_FILE_BYTES {
            return Ok(None);
        }
        file.rewind()?;
        // If decoding fails, the caller shows the file with replacement characters or rejects it as
        // binary.
        let text = read_all_if_within_limit(file, MAX_WHOLE_FILE_BYTES)?
            .and_then(|bytes| DecodedText::decode(self.at.given(), bytes).ok());
        let Some((text, encoding)) = text.and_then(|text| {
            let encoding = text.non_utf8_encoding_name()?;
            Some((text, encoding))
        }) else {
            return Ok(None);
        };
        self.set_seen(Some(ContentHash::of_bytes(text.original_bytes())));
        let mut excerpt = self.read_utf8_lines(Cursor::new(text.as_str()), false)?;
        excerpt.notes.push(format!("the file is {encoding}, which edits keep"));
        Ok(Some(excerpt))
    }

    /// Reads lines of a UTF-8 text.
    fn read_utf8_lines(
        &self,
        mut file: impl io::Read + io::Seek,
        is_stamped: bool,
    ) -> Result<FileExcerpt, IoOrToolError> {
        let first = u64::try_from(self.offset);
        if first.is_err() && self.bytes > MAX_LINE_READ_FILE_BYTES {
            return Err(IoOrToolError::Tool(self.too_large_error()));
        }
        file.rewind()?;
        // A file that is too large to be edited needs no hash.
        let input = if is_stamped {
            HashingReader::new(&mut file)
        } else {
            HashingReader::without_hash(&mut file)
        };
        let mut lines = LineReader::new(input, 0, self.cancel);
        let mut page = ExcerptBuilder::default();
        if let Ok(first) = first {
            lines.skip_until_count(first.max(1) - 1)?;
            lines.read_lines_into_excerpt(&mut page, self.limit)?;
        }
        // The lines of a large file are only counted if its last lines are requested.
        if self.bytes <= MAX_WHOLE_FILE_BYTES || first.is_err() {
            lines.skip_until_count(u64::MAX)?;
        }
        self.set_seen(lines.input.get_ref().get_ref().hash());
        let has_more = lines.has_more()?;
        let (counted, whole) =
            (lines.count + u64::from(has_more), !lines.is_file_beyond_read_limit(self.bytes));
        let first = match first {
            Ok(first) => first.max(1),
            Err(_) => {
                let first = counted.saturating_sub(self.offset.unsigned_abs()) + 1;
                let mark = lines.checkpoint_before(first);
                file.seek(SeekFrom::Start(mark.bytes))?;
                let mut lines = LineReader::new(file, mark.lines, self.cancel);
                lines.skip_until_count(first - 1)?;
                lines.read_lines_into_excerpt(&mut page, self.limit)?;
                first
            }
        };
        if page.lines == 0 && (first > 1 || !whole) {
            return Err(IoOrToolError::Tool(self.beyond_end_error(counted, whole)));
        }
        let total = (whole && !has_more).then_some(counted);
        Ok(self.build_excerpt(first, page, counted, total))
    }

    /// Keeps the content hash of the file if the whole file was read.
    fn set_seen(&self, hash: Option<ContentHash>) {
        if let (Some(hash), Ok(real)) = (hash, self.workspace.canonicalize(self.at)) {
            let path = real.path().to_owned();
            self.seen.get_or_init(|| SeenContent { path, hash });
        }
    }

    fn build_excerpt(
        &self,
        first: u64,
        page: ExcerptBuilder,
        counted: u64,
        total: Option<u64>,
    ) -> FileExcerpt {
        let lines = u64::from(page.lines);
        let last = first - 1 + lines;
        let mut notes = page.notes();
        if self.bytes == 0 {
            notes.push("the file is empty".to_owned());
        }
        FileExcerpt {
            path: self.at.path().to_owned(),
            first_line: if lines == 0 { 0 } else { line_number_to_u32(first) },
            last_line: line_number_to_u32(last),
            total_lines: total.map(line_number_to_u32),
            truncated_by: if last < counted {
                Some(page.truncated_by.unwrap_or(TruncatedBy::LineLimit))
            } else {
                total.is_none().then_some(TruncatedBy::FileSizeLimit)
            },
            notes,
            file_bytes: self.bytes,
            text: page.text,
            numbered: page.numbered,
        }
    }

    fn beyond_end_error(&self, lines: u64, whole: bool) -> ToolError {
        if !whole {
            return self.too_large_error();
        }
        ToolError::invalid_arguments(format!(
            "offset {} is beyond the end: {} has {}",
            self.offset,
            self.at.given(),
            grouped_count_with_noun(lines, "line", "lines")
        ))
    }

    fn too_large_error(&self) -> ToolError {
        let message = format!(
            "{} has {} bytes, and only the lines of the first {} can be read. Search it with grep",
            self.at.given(),
            group_thousands(self.bytes),
            group_thousands(MAX_LINE_READ_FILE_BYTES)
        );
        ToolError::recoverable(ErrorCode::TooLarge, message)
    }
}

fn line_number_to_u32(line: u64) -> u32 {
    // Only a file with more than 4,294,967,295 lines exceeds a `u32`. Almost all of its bytes would
    // have to be line ends.
    u32::try_from(line).unwrap_or(u32::MAX)
}

/// Adds the paths of files with the same name to a `not_found` error. Leaves other errors
/// unchanged.
fn suggest_same_names(error: ToolError, workspace: &Workspace, at: &WorkspacePath) -> ToolError {
    match error {
        ToolError::Recoverable(mut report) if report.code == ErrorCode::NotFound => {
            let files = find_same_names(workspace, at);
            report.suggestions.push(PathSuggestions { label: "The same name is at", files });
            report.into()
        }
        other => other,
    }
}

/// Searches all project folders for files with the same name. The search has a time limit.
fn find_same_names(workspace: &Workspace, at: &WorkspacePath) -> Vec<(PathBuf, String)> {
    let Some(name) = at.path().file_name().map(|name| name.to_string_lossy().to_lowercase()) else {
        return Vec::new();
    };
    let budget = SearchBudget::new(&|| false).with_time_limit(MAX_SAME_NAME_SEARCH_TIME);
    let mut places = Vec::new();
    for root in workspace.roots() {
        let walk = workspace.resolve_host_path(root).and_then(|top| {
            Walk::new(workspace, &top, usize::MAX, WalkOrder::ByName, IgnoredFiles::Skip, budget)
        });
        let Ok(mut walk) = walk else { continue };
        while places.len() < MAX_SIMILAR_NAMES
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
