//! Why a store refuses or fails, as a table for the caller.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use acp_types::schema::v1::SessionId;

use crate::holder::SessionHolder;

/// Why a store did not do what it was asked. Nothing of the operation was done, unless the variant
/// states otherwise.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SessionStoreError {
    /// No session of that id is stored. Begin a new one.
    #[error("session {0} is not stored")]
    UnknownSession(SessionId),
    /// A session of that id is stored already. Choose another id.
    #[error("session {0} is stored already")]
    SessionExists(SessionId),
    /// The session is open, in this process or another one. Close it there, or fork it.
    #[error("session {session} is open in {}", HolderText(.holder.as_ref()))]
    Held {
        /// The session.
        session: SessionId,
        /// Its holder, if that could be read.
        holder: Option<SessionHolder>,
    },
    /// The session has fewer prompts. List its prompts again.
    #[error("session {session} has no prompt {prompt}")]
    UnknownPrompt {
        /// The session.
        session: SessionId,
        /// The number of the prompt that was asked for.
        prompt: u32,
    },
    /// The session has no intact attachment of that id: it was removed, or it is damaged.
    #[error("an attachment of session {0} is missing or damaged")]
    UnknownAttachment(SessionId),
    /// An argument is not valid for the operation: a mistake in the program.
    #[error("{0}")]
    Invalid(&'static str),
    /// Something is over its bound. Store less of it.
    #[error("{what} has {bytes} bytes, more than {max}")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// How many bytes it has.
        bytes: u64,
        /// How many it may have.
        max: u64,
    },
    /// Other processes held the lock for longer than a write waits. Try again.
    #[error("{} is being written by other processes", .0.display())]
    Busy(PathBuf),
    /// The disk or the quota is full. Make room, then try again.
    #[error("there is no room left for {}", .path.display())]
    Full {
        /// The file that was written.
        path: PathBuf,
        /// The error of the system.
        source: Cause,
    },
    /// The folder or a file in it cannot be read or written. See to its owner and mode.
    #[error("{} cannot be used: {source}", .path.display())]
    Unusable {
        /// The folder or file.
        path: PathBuf,
        /// The error of the system.
        source: Cause,
    },
    /// The database is damaged, or it is no database of sessions. Move it away to begin a new one.
    #[error("{} is damaged, or no database of sessions: {source}", .path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The fault that was found.
        source: Cause,
    },
    /// The database was written by a newer version of this program; nothing was written to it.
    /// Update the program.
    #[error("{} has version {version}, and this program knows {known}", .path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        version: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The store failed in another way. Try again.
    #[error("{} failed: {source}", .path.display())]
    Failed {
        /// The database.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// More waits to be written than memory is kept for. The session is not recorded any further.
    #[error("more waits to be stored than fits into memory")]
    QueueFull,
    /// The writer has ended, or the session was closed.
    #[error("the writer of sessions has ended")]
    WriterEnded,
}

/// The cause of a failure.
type Cause = Arc<dyn Error + Send + Sync>;

impl SessionStoreError {
    /// Returns whether the same may succeed later without any change of the program.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Busy(_) | Self::Full { .. } | Self::Unusable { .. } | Self::Failed { .. }
        )
    }

    /// Makes the error of a file operation.
    #[cfg(feature = "sqlite")]
    pub(crate) fn from_io(path: &std::path::Path, error: std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};

        let (path, kind) = (path.to_owned(), error.kind());
        match kind {
            StorageFull | QuotaExceeded => Self::Full { path, source: Arc::new(error) },
            _ => Self::Unusable { path, source: Arc::new(error) },
        }
    }
}

/// Displays the holder of a session.
struct HolderText<'a>(Option<&'a SessionHolder>);

impl fmt::Display for HolderText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(SessionHolder { pid, host, .. }) => write!(formatter, "process {pid} on {host}"),
            None => formatter.write_str("another process"),
        }
    }
}

/// Checks that a text is within its bound.
pub(crate) fn require_within_bytes(
    what: &'static str,
    text: Option<&str>,
    max: usize,
) -> Result<(), SessionStoreError> {
    match text {
        Some(text) if text.len() > max => Err(too_large_error(what, text.len() as u64, max as u64)),
        _ => Ok(()),
    }
}

pub(crate) fn too_large_error(what: &'static str, bytes: u64, max: u64) -> SessionStoreError {
    SessionStoreError::TooLarge { what, bytes, max }
}
