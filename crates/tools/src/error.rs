//! Errors of tools: failures for the model, and errors that end the turn.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a tool call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The failure is sent to the model and the turn continues.
    #[error(transparent)]
    Recoverable(#[from] ToolFailure),
    /// The model cannot do anything about it: the turn ends.
    #[error("{0}")]
    Fatal(#[source] Box<dyn StdError + Send + Sync>),
}

/// A failure as the model receives it: a code for machines, and a sentence that says what to do
/// next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    /// The kind of failure.
    pub code: ErrorCode,
    /// The text for the model. Paths are written as the model gave them.
    pub message: String,
    /// Other files that the call may have meant. A name is information about a file, so names that
    /// the call may not read are removed before the text is sent.
    pub(crate) suggestions: Vec<PathSuggestions>,
}

/// Files that a call may have meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathSuggestions {
    /// The sentence in front of the names, up to the colon. It says what the files have in common
    /// with the requested one.
    pub(crate) label: &'static str,
    /// Each file with the text that names it.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl ToolFailure {
    /// Removes suggested files whose names may not be read.
    pub(crate) fn retain_suggestions(&mut self, may_read: impl Fn(&Path) -> bool) {
        self.suggestions.iter_mut().for_each(|some| some.files.retain(|(path, _)| may_read(path)));
    }
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        for PathSuggestions { label: why, files } in
            self.suggestions.iter().filter(|some| !some.files.is_empty())
        {
            let names: Vec<_> = files.iter().map(|(_, name)| name.as_str()).collect();
            write!(formatter, ". {why}: {}", names.join(", "))?;
        }
        Ok(())
    }
}

impl StdError for ToolFailure {}

/// The kind of a failure. Stable across versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// Several places match where one was expected. Select one of them, or include more surrounding
    /// text.
    AmbiguousMatch,
    /// A glob or regular expression does not compile or is too large. Correct it.
    BadPattern,
    /// The file is not a text file. Another tool may be able to read it.
    BinaryFile,
    /// Cancelled by the user or by a newer call. Ask before trying again.
    Cancelled,
    /// The file differs from the preview, and nothing was done. The call is previewed again, and
    /// permission is requested again if its effect would differ. Only then the model is asked to
    /// read the file again.
    ChangedSincePreview,
    /// The file has changed since the session read it. Read it again.
    ChangedSinceRead,
    /// The command ran and did not end with exit code 0. Its output says why.
    CommandFailed,
    /// The arguments are invalid or contradict each other. Correct them.
    InvalidArguments,
    /// A system error without a more specific code.
    Io,
    /// The path is a directory, but a file was expected.
    IsADirectory,
    /// The text to be replaced is not in the file. Read it again.
    NoMatch,
    /// The path is not a directory, but a directory was expected.
    NotADirectory,
    /// The path is a FIFO, device or socket, but a file was expected.
    NotARegularFile,
    /// There is no such file or directory. Search for the right name.
    NotFound,
    /// The file system or a rule forbids it. Do not try again in the same way.
    NotPermitted,
    /// The path, or a link in it, points outside of the project folders. Stay inside of them.
    OutsideRoots,
    /// The time limit was exceeded. Request less, or a longer limit.
    TimedOut,
    /// The file or the argument exceeds the limit of the tool. Request a part.
    TooLarge,
    /// The limit of background commands is reached. Stop one, or wait for it.
    TooMany,
    /// The text contains a character that the encoding of the file does not have. Use another one.
    Unencodable,
    /// The client has unsaved changes and does not accept others. The user has to save them.
    UnsavedChanges,
    /// The bytes are not text in any supported encoding, so an edit would damage them.
    UnknownEncoding,
}

impl ToolError {
    /// Creates an error that is sent to the model.
    #[must_use]
    pub fn recoverable(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Recoverable(ToolFailure { code, message: message.into(), suggestions: Vec::new() })
    }

    /// Creates an error that ends the turn.
    pub fn fatal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Fatal(source.into())
    }

    /// Creates the error for invalid or contradictory arguments.
    #[must_use]
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::recoverable(ErrorCode::InvalidArguments, message)
    }

    /// Returns the code of a recoverable error.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Recoverable(report) => Some(report.code),
            Self::Fatal(_) => None,
        }
    }
}

impl ErrorCode {
    /// Returns the code as text for machines.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AmbiguousMatch => "ambiguous_match",
            Self::BadPattern => "bad_pattern",
            Self::BinaryFile => "binary_file",
            Self::Cancelled => "cancelled",
            Self::ChangedSincePreview => "changed_since_preview",
            Self::ChangedSinceRead => "changed_since_read",
            Self::CommandFailed => "command_failed",
            Self::InvalidArguments => "invalid_arguments",
            Self::Io => "io",
            Self::IsADirectory => "is_a_directory",
            Self::NoMatch => "no_match",
            Self::NotADirectory => "not_a_directory",
            Self::NotARegularFile => "not_a_regular_file",
            Self::NotFound => "not_found",
            Self::NotPermitted => "not_permitted",
            Self::OutsideRoots => "outside_roots",
            Self::TimedOut => "timed_out",
            Self::TooLarge => "too_large",
            Self::TooMany => "too_many",
            Self::Unencodable => "unencodable",
            Self::UnsavedChanges => "unsaved_changes",
            Self::UnknownEncoding => "unknown_encoding",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
