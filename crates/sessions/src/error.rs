//! The errors of the subcommand.

use std::io;
use std::path::PathBuf;

use acp_store::SessionStoreError;
use callboard_runtime::SessionArchiveError;
use callboard_text::path_text;

/// The reason why the subcommand failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionsError {
    /// The session was not found, or the store failed.
    #[error(transparent)]
    Archive(#[from] SessionArchiveError),
    /// No session of this folder is stored.
    #[error(
        "there is no stored session of {}; `callboard sessions list --all` lists those of all \
         folders",
        path_text(.0)
    )]
    NoneOfFolder(PathBuf),
    /// The file could not be written.
    #[error("cannot write {}: {source}", path_text(.path))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The output could not be written, e.g. because the reader of a pipe has closed the pipe.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A deletion was not confirmed: no user could be asked, and `--yes` was not given.
    #[error("there is no terminal to ask at; `--yes` deletes the session without asking")]
    NotConfirmed,
}

impl SessionsError {
    /// Returns whether the id in the arguments matches no session, or several sessions. This is an
    /// error in the arguments and not a failure of the program.
    #[must_use]
    pub fn is_session_argument_error(&self) -> bool {
        match self {
            Self::Archive(error) => !matches!(error, SessionArchiveError::Store(_)),
            Self::NoneOfFolder(_) => true,
            _ => false,
        }
    }
}

impl From<SessionStoreError> for SessionsError {
    fn from(error: SessionStoreError) -> Self {
        Self::Archive(error.into())
    }
}
