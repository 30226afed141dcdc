//! The two traits: a store of sessions, and a session of it that is open.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;

use crate::error::SessionStoreError;
use crate::load::SessionLoadProgress;
use crate::record::{AttachmentId, RecordStream, SessionChange, StoredRecord};
use crate::retention::{PruneReport, RetentionPolicy};
use crate::search::{SearchHit, SessionSearch};
use crate::session::{
    NewSession, SessionFilter, SessionPage, SessionSummary, StoredParts, StoredPrompt,
};

/// Where sessions are stored. Several processes may use one store at once.
///
/// Every method may block on a disk or a lock: call it on a thread that may. It takes the time as
/// an argument and reads no clock for it. `conformance` (a feature) checks each rule that is stated
/// here.
///
/// A session is listed and found once it has a prompt. Damaged records are skipped and
/// counted, never returned as if they were whole.
pub trait SessionStore: Debug + Send + Sync {
    /// Stores a session with its first prompt, and opens it: `first` begins with
    /// [`SessionChange::Prompt`].
    ///
    /// # Errors
    ///
    /// [`SessionExists`](SessionStoreError::SessionExists); those of [`OpenSession::write`].
    fn create(
        &self,
        session: &NewSession,
        first: &[SessionChange],
        now: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError>;

    /// Opens a session, so that it can be changed. One process at a time can, and once: until the
    /// returned session is dropped or the process dies.
    ///
    /// # Errors
    ///
    /// [`UnknownSession`](SessionStoreError::UnknownSession), [`Held`](SessionStoreError::Held).
    fn open(&self, session: &SessionId) -> Result<Box<dyn OpenSession>, SessionStoreError>;

    /// Returns the metadata of a session.
    ///
    /// # Errors
    ///
    /// [`UnknownSession`](SessionStoreError::UnknownSession).
    fn summary(&self, session: &SessionId) -> Result<SessionSummary, SessionStoreError>;

    /// Lists sessions, that with the newest update first, and the larger id of two that were updated
    /// in the same millisecond.
    ///
    /// # Errors
    ///
    /// [`Invalid`](SessionStoreError::Invalid) if the cursor is none.
    fn list(&self, filter: &SessionFilter) -> Result<SessionPage, SessionStoreError>;

    /// Lists the prompts of a session behind number `after`, oldest first, and at most
    /// [`MAX_PAGE_PROMPTS`](crate::limits::MAX_PAGE_PROMPTS).
    ///
    /// # Errors
    ///
    /// [`UnknownSession`](SessionStoreError::UnknownSession).
    fn prompts(
        &self,
        session: &SessionId,
        after: u32,
    ) -> Result<Vec<StoredPrompt>, SessionStoreError>;

    /// Returns all parts of a session.
    ///
    /// # Errors
    ///
    /// [`UnknownSession`](SessionStoreError::UnknownSession).
    fn parts(&self, session: &SessionId) -> Result<StoredParts, SessionStoreError>;

    /// Begins to load one stream of a session, which need not be open. Records that have no short
    /// form are given whole; of the others as many of the newest as have at most `budget` bytes, and
    /// the rest in their short form. Later writes are not part of it.
    ///
    /// # Errors
    ///
    /// [`UnknownSession`](SessionStoreError::UnknownSession).
    fn begin_load(
        &self,
        session: &SessionId,
        stream: RecordStream,
        budget: u64,
    ) -> Result<SessionLoadProgress, SessionStoreError>;

    /// Returns the next records of a load, oldest first; none when it is at its end. A page has at
    /// most [`MAX_PAGE_RECORDS`](crate::limits::MAX_PAGE_RECORDS) and ends with the record that
    /// exceeds [`PAGE_BYTES`](crate::limits::PAGE_BYTES).
    ///
    /// # Errors
    ///
    /// [`UnknownSession`](SessionStoreError::UnknownSession) if it was removed meanwhile.
    fn next_page(
        &self,
        load: &mut SessionLoadProgress,
    ) -> Result<Vec<StoredRecord>, SessionStoreError>;

    /// Returns an attachment of a session.
    ///
    /// # Errors
    ///
    /// [`UnknownAttachment`](SessionStoreError::UnknownAttachment).
    fn attachment(
        &self,
        session: &SessionId,
        attachment: AttachmentId,
    ) -> Result<Vec<u8>, SessionStoreError>;

    /// Returns the file that an attachment lies in, if this store keeps it in one that the user may
    /// open. It stays until the session or the last record that names it is removed.
    fn attachment_file(&self, session: &SessionId, attachment: AttachmentId) -> Option<PathBuf> {
        let _ = (session, attachment);
        None
    }

    /// Stores a copy of a session, which need not be open, and opens it: its title, its parts and
    /// its first `keep` prompts, or all. `from` becomes its parent.
    ///
    /// # Errors
    ///
    /// [`UnknownSession`](SessionStoreError::UnknownSession),
    /// [`SessionExists`](SessionStoreError::SessionExists);
    /// [`UnknownPrompt`](SessionStoreError::UnknownPrompt) if it has fewer prompts, or `keep` is 0.
    fn fork(
        &self,
        from: &SessionId,
        into: &NewSession,
        keep: Option<u32>,
        now: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError>;

    /// Removes a session with all that belongs to it.
    ///
    /// # Errors
    ///
    /// [`UnknownSession`](SessionStoreError::UnknownSession), [`Held`](SessionStoreError::Held).
    fn delete(&self, session: &SessionId) -> Result<(), SessionStoreError>;

    /// Finds texts of records. The session that was stored last comes first, and in it the newest
    /// record. A search without words finds nothing.
    ///
    /// # Errors
    ///
    /// Those of the store itself.
    fn search(&self, search: &SessionSearch) -> Result<Vec<SearchHit>, SessionStoreError>;

    /// Removes sessions that are too old or too many, oldest update first, and the remains of
    /// sessions that were never whole. At most [`MAX_PRUNED`](crate::limits::MAX_PRUNED) sessions go
    /// at once, and none that is open.
    ///
    /// # Errors
    ///
    /// Those of the store itself.
    fn prune(
        &self,
        retention: &RetentionPolicy,
        now: SystemTime,
    ) -> Result<PruneReport, SessionStoreError>;

    /// Lets everything that was written so far survive a power failure, too. It may wait for a disk,
    /// and does not make writes wait for that. [`StoreWriter`](crate::StoreWriter) calls it.
    ///
    /// # Errors
    ///
    /// Those of the store itself; then it is called again later.
    fn sync(&self) -> Result<(), SessionStoreError>;
}

/// A session that is open for changes. It is closed when it is dropped.
pub trait OpenSession: Debug + Send {
    /// Returns its id.
    fn id(&self) -> &SessionId;

    /// Makes changes, in their order: all of them or none. When it returns, they survive the end of
    /// this process, however it ends.
    ///
    /// A change of records moves the time of its update to `now`, but never back.
    ///
    /// # Errors
    ///
    /// [`Invalid`](SessionStoreError::Invalid) if a record comes before the first prompt, or a
    /// folded one is about nothing; [`UnknownPrompt`](SessionStoreError::UnknownPrompt) if more
    /// prompts are to be kept than there are; [`TooLarge`](SessionStoreError::TooLarge).
    fn write(
        &mut self,
        changes: &[SessionChange],
        now: SystemTime,
    ) -> Result<(), SessionStoreError>;
}
