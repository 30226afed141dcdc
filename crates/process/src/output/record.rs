//! Records the output of a command: its size, its beginning, its end and, for a long output, a
//! file.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::Mutex;

use callboard_text::{grouped_count_with_noun, path_text};

use super::binary;
use super::text::{HeadTail, OutputExcerpt};
use crate::limits::{
    MAX_KEPT_OUTPUT_BYTES, MAX_MODEL_OUTPUT_BYTES, MAX_REPEATED_LINE_BYTES, SNIFF_BYTES,
};
use crate::lock::lock;

/// The recorded output of a command. The thread that reads the command's output also writes the
/// file. The task that shows the output therefore never waits for the disk.
///
/// The first and the last 512 KiB of the output are kept in memory. The file is created when the
/// output exceeds [`MAX_MODEL_OUTPUT_BYTES`]; shorter outputs are sent to the model in full.
pub struct Recording {
    state: Mutex<State>,
}

struct State {
    head_tail: HeadTail,
    /// Maximum number of output bytes in the file.
    max_file_bytes: u64,
    storage: OutputStorage,
}

type OpenFileFn = Box<dyn FnOnce() -> io::Result<Option<(File, PathBuf)>> + Send>;

/// Location of the complete output.
enum OutputStorage {
    /// In memory. The function opens the file when the output exceeds `MAX_MODEL_OUTPUT_BYTES`.
    Memory(OpenFileFn),
    /// In a file; writing stops at the first error.
    File { file: File, path: PathBuf, trouble: Option<io::Error> },
    /// Not stored: there is no folder for output files, or the file could not be created.
    Unavailable(Option<io::Error>),
}

/// The complete output of a command.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedOutput {
    /// Number of output bytes.
    pub bytes: u64,
    /// Number of line ends (`\n`).
    pub lines: u64,
    /// The beginning and the end of the output as text.
    pub excerpt: OutputExcerpt,
    /// Kind of the output, if the output is binary.
    pub binary: Option<String>,
    /// The file with the complete output, if the output was long.
    pub file: Option<RecordedFile>,
    /// Reason why there is no file, or why the file is incomplete.
    pub file_error: Option<String>,
}

/// The file to which the output of a command was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedFile {
    /// Absolute path.
    pub path: PathBuf,
    /// Number of output bytes in the file, counted from the start.
    pub bytes: u64,
}

/// Position up to which an output was reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedOutputPosition {
    /// Offset of the first byte after the last reported line end. An unfinished line is reported
    /// again when more of the line arrives. Text that is written in pieces (a progress bar, a
    /// character) is therefore reported as a whole.
    bytes: u64,
    lines: u64,
    /// Number of bytes recorded at the last report.
    total_bytes: u64,
}

/// The part of an output that was not reported yet.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NewOutput {
    /// Number of new bytes.
    pub bytes: u64,
    /// The beginning and the end of the new bytes as text. A short line that was unfinished at the
    /// last report is repeated from its start.
    pub excerpt: OutputExcerpt,
    /// Kind of the output, if the output is binary.
    pub binary: Option<String>,
    /// The file with the complete output, if the output is long.
    pub file: Option<RecordedFile>,
}

impl Recording {
    /// Creates a recording. `open` creates the file on demand and returns it with its path; it
    /// returns `None` if there is no folder for output files. The file receives the first `room`
    /// bytes. If the output is longer, the last line of the file gives the number of remaining
    /// bytes.
    pub fn new(
        room: u64,
        open: impl FnOnce() -> io::Result<Option<(File, PathBuf)>> + Send + 'static,
    ) -> Self {
        let kept = HeadTail::new(MAX_KEPT_OUTPUT_BYTES);
        Self {
            state: Mutex::new(State {
                head_tail: kept,
                max_file_bytes: room,
                storage: OutputStorage::Memory(Box::new(open)),
            }),
        }
    }

    /// Appends the next output bytes. This method blocks on disk writes.
    pub fn push(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        state.write_to_file(bytes);
        state.head_tail.push(bytes);
    }

    /// Closes the file and returns the recorded output.
    pub fn finish(&self) -> RecordedOutput {
        let mut state = lock(&self.state);
        let place = std::mem::replace(&mut state.storage, OutputStorage::Unavailable(None));
        let (file, trouble) = place.finish(state.head_tail.total_bytes(), state.max_file_bytes);
        RecordedOutput::from_head_tail(
            &state.head_tail,
            file,
            trouble.map(|error| error.to_string()),
        )
    }

    /// Returns the output recorded so far. The recording continues.
    pub fn snapshot(&self) -> RecordedOutput {
        let (kept, (file, trouble)) = {
            let state = &mut *lock(&self.state);
            (state.head_tail.clone(), state.storage.file_and_write_error())
        };
        RecordedOutput::from_head_tail(&kept, file, trouble)
    }

    /// Returns the output after the position `mark`, and advances `mark`.
    pub fn take_new(&self, mark: &mut ReportedOutputPosition) -> NewOutput {
        let (part, binary, file, seen, lines) = {
            let State { head_tail: kept, storage: place, .. } = &mut *lock(&self.state);
            let part = kept.without_first_bytes(mark.bytes, mark.lines);
            (
                part,
                sniff_binary(kept),
                place.file_and_write_error().0,
                kept.total_bytes(),
                kept.total_line_ends(),
            )
        };
        // The lock is released here, so that writers do not wait while the text is rendered.
        let excerpt = part.excerpt(MAX_MODEL_OUTPUT_BYTES);
        let fresh = NewOutput { bytes: seen - mark.total_bytes, excerpt, binary, file };
        let open =
            Some(part.unfinished_line_bytes()).filter(|bytes| *bytes <= MAX_REPEATED_LINE_BYTES);
        *mark =
            ReportedOutputPosition { bytes: seen - open.unwrap_or(0), lines, total_bytes: seen };
        fresh
    }
}

impl State {
    /// Writes bytes to the file, up to the file's size limit. Call this method before the bytes are
    /// added to `head_tail`.
    fn write_to_file(&mut self, bytes: &[u8]) {
        let total = self.head_tail.total_bytes();
        if total + bytes.len() as u64 <= MAX_MODEL_OUTPUT_BYTES as u64 {
            return;
        }
        self.storage = match std::mem::replace(&mut self.storage, OutputStorage::Unavailable(None))
        {
            // All earlier output bytes are still in memory, so the file gets them now.
            OutputStorage::Memory(open) => OutputStorage::open_file_or_unavailable(open)
                .append(self.head_tail.head(), self.max_file_bytes),
            place => place,
        }
        .append(bytes, self.max_file_bytes.saturating_sub(total));
    }
}

impl OutputStorage {
    fn open_file_or_unavailable(open: OpenFileFn) -> Self {
        match open() {
            Ok(Some((file, path))) => Self::File { file, path, trouble: None },
            Ok(None) => Self::Unavailable(None),
            Err(error) => Self::Unavailable(Some(error)),
        }
    }

    /// Appends at most `room` bytes, unless an earlier write failed.
    fn append(mut self, bytes: &[u8], room: u64) -> Self {
        if let Self::File { file, trouble: trouble @ None, .. } = &mut self {
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            *trouble = file.write_all(&bytes[..bytes.len().min(room)]).err();
        }
        self
    }

    /// Closes the file. If the output exceeds the limit, the last line of the file gives the number
    /// of bytes beyond the limit.
    fn finish(self, total: u64, room: u64) -> (Option<RecordedFile>, Option<io::Error>) {
        match self {
            Self::Memory(_) => (None, None),
            Self::Unavailable(trouble) => (None, trouble),
            Self::File { mut file, path, mut trouble } => {
                // All writes except the last one were complete.
                let bytes = file.stream_position().unwrap_or(0);
                if trouble.is_none() && total > room {
                    trouble =
                        file.write_all(truncated_file_last_line(total - room).as_bytes()).err();
                }
                (Some(RecordedFile { path, bytes }), trouble)
            }
        }
    }

    /// Returns the file in its current state, and the write error if there was one.
    fn file_and_write_error(&mut self) -> (Option<RecordedFile>, Option<String>) {
        let (file, trouble) = match self {
            Self::Memory(_) => (None, None),
            Self::Unavailable(trouble) => (None, trouble.as_ref()),
            Self::File { file, path, trouble } => {
                let bytes = file.stream_position().unwrap_or(0);
                (Some(RecordedFile { path: path.clone(), bytes }), trouble.as_ref())
            }
        };
        (file, trouble.map(ToString::to_string))
    }
}

/// Returns the last line of a truncated file. The line gives the number of omitted bytes.
fn truncated_file_last_line(bytes: u64) -> String {
    let what = if bytes == 1 { "byte has" } else { "bytes have" };
    format!("\n[... {bytes} {what} no room here]\n")
}

impl RecordedOutput {
    fn from_head_tail(
        kept: &HeadTail,
        file: Option<RecordedFile>,
        file_error: Option<String>,
    ) -> Self {
        Self {
            bytes: kept.total_bytes(),
            lines: kept.total_line_ends(),
            excerpt: kept.excerpt(MAX_MODEL_OUTPUT_BYTES),
            binary: sniff_binary(kept),
            file,
            file_error,
        }
    }

    /// Formats the output for a model: its kind, the path of its file, and its text.
    #[must_use]
    pub fn for_model(&self) -> String {
        let mut told = String::new();
        let bytes = grouped_count_with_noun(self.bytes, "byte", "bytes");
        let lines = grouped_count_with_noun(self.lines, "line", "lines");
        // Writing to a String cannot fail.
        let _ = match &self.binary {
            Some(kind) => writeln!(told, "[binary output: {bytes}, {kind}]"),
            None => Ok(()),
        };
        let _ = match &self.file {
            None => Ok(()),
            Some(RecordedFile { path, bytes: in_file }) => {
                let what = if *in_file >= self.bytes {
                    format!("the whole output, {bytes} in {lines},")
                } else {
                    let in_file = grouped_count_with_noun(*in_file, "byte", "bytes");
                    format!("the first {in_file} of the output of {bytes}")
                };
                let path = path_text(path);
                writeln!(told, "[{what} can be read with read_file, by lines: {path}]")
            }
        };
        if let Some(trouble) = &self.file_error {
            let _ = writeln!(told, "[the output could not be kept in a file: {trouble}]");
        }
        if self.excerpt.hidden_chars > 0 {
            let _ = writeln!(told, "[{}]", hidden_chars_note(self.excerpt.hidden_chars));
        }
        if self.binary.is_none() {
            told.push_str(&self.excerpt.text);
        }
        told
    }
}

/// Formats a note about removed characters, i.e. those that hide or reorder other characters.
pub fn hidden_chars_note(count: u64) -> String {
    match count {
        1 => "1 character that hides or reorders others is left out".to_owned(),
        count => format!("{count} characters that hide or reorder others are left out"),
    }
}

/// Returns the kind of an output, if the output is binary.
fn sniff_binary(kept: &HeadTail) -> Option<String> {
    binary::describe_binary(&kept.head()[..kept.head().len().min(SNIFF_BYTES)])
}

impl fmt::Debug for Recording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recording").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
