//! Why a tool did not do what it was asked: something to tell the model, or the end of the turn.
//!
//! It knows nothing of how either is sent.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a tool did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The model is told and the turn goes on.
    #[error(transparent)]
    Recoverable(#[from] ToolFailure),
    /// Nothing the model does can help: the turn ends.
    #[error("{0}")]
    Fatal(#[source] Box<dyn StdError + Send + Sync>),
}

/// What the model is told: a code for machines and a sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    /// The kind of failure.
    pub code: ErrorCode,
    /// The text for the model. Paths are written as the model gave them.
    pub message: String,
    /// Other files that may have been meant. To name one is to read its name: those that may not
    /// be read are left out before the model is told.
    pub(crate) suggestions: Vec<PathSuggestions>,
}

/// Files that may have been meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathSuggestions {
    /// What they have in common with the one that was named: a sentence up to the colon.
    pub(crate) label: &'static str,
    /// Each with the text that names it.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl ToolFailure {
    /// Leaves out suggested files whose names may not be read.
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

/// The kind of a failure, stable across versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// Several places match where one was meant. Name the one, or more of its surroundings.
    AmbiguousMatch,
    /// A glob or regular expression that does not compile, or is too large. Correct it.
    BadPattern,
    /// The file holds no text. Another tool may read it.
    BinaryFile,
    /// The user or a newer call stopped it. Ask before another try.
    Cancelled,
    /// The file is not what the preview saw, and nothing was done. The call is previewed again, and
    /// asked about if it would do something else now; only then is the model told to read it again.
    ChangedSincePreview,
    /// The file is not what the session read. Read it again.
    ChangedSinceRead,
    /// The command ran and did not end with exit code 0. Its output says why.
    CommandFailed,
    /// The arguments contradict each other or themselves. Correct them.
    InvalidArguments,
    /// The system failed in a way that has no code of its own.
    Io,
    /// A directory where a file was meant.
    IsADirectory,
    /// The text to be replaced is not in the file. Read it again.
    NoMatch,
    /// Something else where a directory was meant.
    NotADirectory,
    /// A FIFO, device or socket where a file was meant.
    NotARegularFile,
    /// There is no such file or directory. Look for the right name.
    NotFound,
    /// The file system or a rule forbids it. Do not try again in the same way.
    NotPermitted,
    /// The path, or a link in it, leads out of the roots. Stay inside of them.
    OutsideRoots,
    /// It did not end in its time. Ask for less, or give it more time.
    TimedOut,
    /// The file or the argument is larger than the tool takes. Ask for a part.
    TooLarge,
    /// As many run in the background as may. Stop one, or wait for it.
    TooMany,
    /// The text has a character that the encoding of the file does not have. Use another.
    Unencodable,
    /// The client holds changes that are not saved and takes no others. The user has to save them.
    UnsavedChanges,
    /// The bytes are no text in any encoding that is known, so an edit would damage them.
    UnknownEncoding,
}

impl ToolError {
    /// Makes an error that the model is told.
    #[must_use]
    pub fn recoverable(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Recoverable(ToolFailure { code, message: message.into(), suggestions: Vec::new() })
    }

    /// Makes an error that ends the turn.
    pub fn fatal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Fatal(source.into())
    }

    /// Makes the error of arguments that contradict each other or themselves.
    #[must_use]
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::recoverable(ErrorCode::InvalidArguments, message)
    }

    /// Returns the code of what the model is told.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Recoverable(report) => Some(report.code),
            Self::Fatal(_) => None,
        }
    }
}

impl ErrorCode {
    /// Returns the word for machines.
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
