//! The errors of a store, as a table for the caller.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use acp_types::schema::v1::SessionId;

use crate::holder::SessionHolder;

/// The reason why an operation of a store failed. The operation had no effect, unless the variant
/// states otherwise.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SessionStoreError {
    /// No session with this id is stored. Create a new session.
    #[error("session {0} is not stored")]
    UnknownSession(SessionId),
    /// A session with this id is already stored. Choose another id.
    #[error("session {0} is stored already")]
    SessionExists(SessionId),
    /// The session is open in this process or in another process. Close the session there, or fork
    /// it.
    #[error("session {session} is open in {}", HolderText(.holder.as_ref()))]
    Held {
        /// Id of the session.
        session: SessionId,
        /// The process that holds the session, if the lock file could be read.
        holder: Option<SessionHolder>,
    },
    /// The session has fewer prompts than requested. List the session's prompts again.
    #[error("session {session} has no prompt {prompt}")]
    UnknownPrompt {
        /// Id of the session.
        session: SessionId,
        /// Number of the requested prompt.
        prompt: u32,
    },
    /// The session has no intact attachment with this id. The attachment was removed, or it is
    /// damaged.
    #[error("an attachment of session {0} is missing or damaged")]
    UnknownAttachment(SessionId),
    /// An argument is not valid for the operation, which is a bug in the calling program.
    #[error("{0}")]
    Invalid(&'static str),
    /// A value exceeds its limit. Store a smaller value.
    #[error("{what} has {bytes} bytes, more than {max}")]
    TooLarge {
        /// Description of the value that is too large.
        what: &'static str,
        /// Size of the value in bytes.
        bytes: u64,
        /// Maximum size of the value in bytes.
        max: u64,
    },
    /// Other processes held the lock of the database for longer than the time limit of a write. Try
    /// the operation again.
    #[error("{} is being written by other processes", .0.display())]
    Busy(PathBuf),
    /// The disk or the quota is full. Free some space, then try again.
    #[error("there is no room left for {}", .path.display())]
    Full {
        /// The file that the store tried to write.
        path: PathBuf,
        /// The system's error.
        source: Cause,
    },
    /// The folder or a file in it cannot be read or written. Correct the owner and the mode of the
    /// file or folder.
    #[error("{} cannot be used: {source}", .path.display())]
    Unusable {
        /// Path of the folder or file.
        path: PathBuf,
        /// The system's error.
        source: Cause,
    },
    /// The database is damaged, or it is not a session database. Move the file away; the store then
    /// creates a new database.
    #[error("{} is damaged, or no database of sessions: {source}", .path.display())]
    Damaged {
        /// Path of the database.
        path: PathBuf,
        /// The detected fault.
        source: Cause,
    },
    /// A newer version of this program wrote the database; the store has not changed it. Update the
    /// program.
    #[error("{} has version {version}, and this program knows {known}", .path.display())]
    Newer {
        /// Path of the database.
        path: PathBuf,
        /// Version of the database.
        version: i64,
        /// The newest version that this program supports.
        known: i64,
    },
    /// The store failed in another way. Try the operation again.
    #[error("{} failed: {source}", .path.display())]
    Failed {
        /// Path of the database.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// The queued changes need more memory than the queue may use. No further changes of the
    /// session are recorded.
    #[error("more waits to be stored than fits into memory")]
    QueueFull,
    /// A commit took longer than the caller's time limit. The changes may still be committed later.
    /// No store returns this error; callers that limit their wait can use it.
    #[error("the disk takes too long")]
    TimedOut,
    /// The writer has ended, or the session was closed.
    #[error("the writer of sessions has ended")]
    WriterEnded,
}

/// The cause of a failure.
type Cause = Arc<dyn Error + Send + Sync>;

impl SessionStoreError {
    /// Returns whether the same operation may succeed later without a change of the program.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Busy(_)
                | Self::Full { .. }
                | Self::Unusable { .. }
                | Self::Failed { .. }
                | Self::TimedOut
        )
    }

    /// Creates the error for a failed file operation.
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

/// Describes the process that holds a session.
struct HolderText<'a>(Option<&'a SessionHolder>);

impl fmt::Display for HolderText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(SessionHolder { pid, host, .. }) => write!(formatter, "process {pid} on {host}"),
            None => formatter.write_str("another process"),
        }
    }
}

/// Returns an error if a text exceeds its maximum size.
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
