//! Errors of tools: failures that the model receives, and errors that end the turn.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why a tool call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The failure is sent to the model, and the turn continues.
    #[error(transparent)]
    Recoverable(#[from] ToolFailure),
    /// The model cannot correct the failure, so the turn ends.
    #[error("{0}")]
    Fatal(#[source] Box<dyn StdError + Send + Sync>),
}

/// A failure that is sent to the model. The code is for programs, and the message states what to do
/// next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    /// The kind of failure.
    pub code: ErrorCode,
    /// The text for the model. Paths have the form in which the model wrote them in the arguments.
    pub message: String,
    /// Other files that the model may have meant. A file name reveals information about a file.
    /// Therefore the names of files that the call may not read are removed before the text is sent.
    pub(crate) suggestions: Vec<PathSuggestions>,
}

/// A list of files that the model may have meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathSuggestions {
    /// The text before the file names, up to the colon. This text states what the files have in
    /// common with the requested file.
    pub(crate) label: &'static str,
    /// Each file, and its name as written in the message.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl ToolFailure {
    /// Removes the suggested files that `may_read` rejects.
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

/// The kind of a failure. The codes do not change between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// Several places match, but exactly one was expected. Select one place, or include more
    /// surrounding text.
    AmbiguousMatch,
    /// A glob or a regular expression is invalid or too large. Correct the pattern.
    BadPattern,
    /// The file is not a text file. Another tool may be able to read it.
    BinaryFile,
    /// The call was cancelled by the user or by a newer call. Ask the user before you try again.
    Cancelled,
    /// The file has changed since the preview, and nothing was done. The call is previewed again.
    /// If its effect would differ, permission is also requested again. If the call still fails, the
    /// model is asked to read the file again.
    ChangedSincePreview,
    /// The file has changed since the session read it. Read the file again.
    ChangedSinceRead,
    /// The command ran, but its exit code was not 0. Its output may contain the reason.
    CommandFailed,
    /// A web server has responded with an error status. The result may contain the text of the
    /// response.
    HttpStatus,
    /// The arguments are invalid or contradict each other. Correct the arguments.
    InvalidArguments,
    /// A system error without a more specific code.
    Io,
    /// The path is a directory, but a file was expected.
    IsADirectory,
    /// The text to be replaced does not occur in the file. Read the file again.
    NoMatch,
    /// The path is not a directory, but a directory was expected.
    NotADirectory,
    /// The path is a FIFO, device or socket, but a file was expected.
    NotARegularFile,
    /// The file or directory does not exist. Search for the right name.
    NotFound,
    /// The file system or a rule does not permit the operation. Do not try again in the same way.
    NotPermitted,
    /// The path, or a link in the path, points outside of the project folders. Use a path inside
    /// the project folders.
    OutsideRoots,
    /// A server failed, or answered with an error. Its message may contain the reason.
    ServerError,
    /// The time limit was exceeded. Request less work, or a longer time limit.
    TimedOut,
    /// The file or the argument exceeds the size limit of the tool. Request only a part of the
    /// content.
    TooLarge,
    /// The maximum number of background commands is reached. Stop a command, or wait until a
    /// command ends.
    TooMany,
    /// The text contains a character that the encoding of the file cannot represent. Use another
    /// character.
    Unencodable,
    /// The name of a host cannot be resolved, no connection to the host can be opened, or its
    /// response is invalid. Check the host, or try again later.
    Unreachable,
    /// The client has unsaved changes of the file, but does not accept a new text or could not
    /// decode the file. The user must save the changes.
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

    /// Returns the code of a recoverable error, and `None` for a fatal error.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Recoverable(report) => Some(report.code),
            Self::Fatal(_) => None,
        }
    }
}

impl ErrorCode {
    /// Returns the code as a text for programs.
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
            Self::HttpStatus => "http_status",
            Self::InvalidArguments => "invalid_arguments",
            Self::Io => "io",
            Self::IsADirectory => "is_a_directory",
            Self::NoMatch => "no_match",
            Self::NotADirectory => "not_a_directory",
            Self::NotARegularFile => "not_a_regular_file",
            Self::NotFound => "not_found",
            Self::NotPermitted => "not_permitted",
            Self::OutsideRoots => "outside_roots",
            Self::ServerError => "server_error",
            Self::TimedOut => "timed_out",
            Self::TooLarge => "too_large",
            Self::TooMany => "too_many",
            Self::Unencodable => "unencodable",
            Self::Unreachable => "unreachable",
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
