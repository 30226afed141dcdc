//! The two traits: a store of sessions, and an open session of a store.

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

/// A store of sessions. Several processes may use one store at once.
///
/// Every method may block on a disk or a lock, so call it on a thread that may block. Methods that
/// need the time take it as an argument; no method reads a clock. The module `conformance` (behind
/// a feature) checks each rule that these docs state.
///
/// A session is listed and found once it has a prompt. Damaged records are skipped and counted;
/// they are never returned as complete records.
pub trait SessionStore: Debug + Send + Sync {
    /// Stores a session with its first prompt, and opens the session. `first` must begin with
    /// [`SessionChange::Prompt`].
    ///
    /// # Errors
    ///
    /// Returns [`SessionExists`](SessionStoreError::SessionExists) and the errors of
    /// [`OpenSession::write`].
    fn create(
        &self,
        session: &NewSession,
        first: &[SessionChange],
        now: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError>;

    /// Opens a session, so that it can be changed. Only one process can have a session open, and
    /// only once, until the returned session is dropped or the process dies.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession) or
    /// [`Held`](SessionStoreError::Held).
    fn open(&self, session: &SessionId) -> Result<Box<dyn OpenSession>, SessionStoreError>;

    /// Returns the metadata of a session.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession).
    fn summary(&self, session: &SessionId) -> Result<SessionSummary, SessionStoreError>;

    /// Lists sessions, the newest update first. Sessions with an update in the same millisecond are
    /// ordered by id, the larger id first.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`](SessionStoreError::Invalid) if the cursor is not a cursor of a session
    /// list.
    fn list(&self, filter: &SessionFilter) -> Result<SessionPage, SessionStoreError>;

    /// Lists the prompts of a session after prompt number `after`, oldest first. At most
    /// [`MAX_PAGE_PROMPTS`](crate::limits::MAX_PAGE_PROMPTS) prompts are returned.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession).
    fn prompts(
        &self,
        session: &SessionId,
        after: u32,
    ) -> Result<Vec<StoredPrompt>, SessionStoreError>;

    /// Returns all parts of a session.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession).
    fn parts(&self, session: &SessionId) -> Result<StoredParts, SessionStoreError>;

    /// Begins to load one stream of a session; the session need not be open. Records without a
    /// short form are returned in their whole form. Of the other records, the newest ones are
    /// returned in their whole form, up to a total of `budget` bytes; older ones are returned in
    /// their short form. Later writes are not part of the load.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession).
    fn begin_load(
        &self,
        session: &SessionId,
        stream: RecordStream,
        budget: u64,
    ) -> Result<SessionLoadProgress, SessionStoreError>;

    /// Returns the next records of a load, oldest first; returns no records at the end of the load.
    /// A page is as long as a [`RecordPage`](crate::implement::RecordPage).
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession) if the session was removed
    /// during the load.
    fn next_page(
        &self,
        load: &mut SessionLoadProgress,
    ) -> Result<Vec<StoredRecord>, SessionStoreError>;

    /// Returns an attachment of a session.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownAttachment`](SessionStoreError::UnknownAttachment).
    fn attachment(
        &self,
        session: &SessionId,
        attachment: AttachmentId,
    ) -> Result<Vec<u8>, SessionStoreError>;

    /// Returns the path of the file that contains an attachment, if the store keeps the attachment
    /// in a file that the user may open. The file exists until the session, or the last record that
    /// names the attachment, is removed.
    fn attachment_file(&self, session: &SessionId, attachment: AttachmentId) -> Option<PathBuf> {
        let _ = (session, attachment);
        None
    }

    /// Stores a copy of a session and opens the copy; the original need not be open. The copy has
    /// the title, the parts and the first `keep` prompts of the original; `None` copies all
    /// prompts. `from` becomes the parent of the copy.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession) or
    /// [`SessionExists`](SessionStoreError::SessionExists). Returns
    /// [`UnknownPrompt`](SessionStoreError::UnknownPrompt) if `from` has fewer than `keep` prompts,
    /// or if `keep` is 0.
    fn fork(
        &self,
        from: &SessionId,
        into: &NewSession,
        keep: Option<u32>,
        now: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError>;

    /// Removes a session with all of its data.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession) or
    /// [`Held`](SessionStoreError::Held).
    fn delete(&self, session: &SessionId) -> Result<(), SessionStoreError>;

    /// Searches the texts of records. Hits are ordered by session, the last stored session first,
    /// and within a session by record, the newest first. A search without words has no hits.
    ///
    /// # Errors
    ///
    /// Returns errors of the store itself.
    fn search(&self, search: &SessionSearch) -> Result<Vec<SearchHit>, SessionStoreError>;

    /// Removes sessions that are too old or too many, the oldest update first, and the remains of
    /// sessions that were stored incompletely. One call removes at most
    /// [`MAX_PRUNED`](crate::limits::MAX_PRUNED) sessions, and never an open session.
    ///
    /// # Errors
    ///
    /// Returns errors of the store itself.
    fn prune(
        &self,
        retention: &RetentionPolicy,
        now: SystemTime,
    ) -> Result<PruneReport, SessionStoreError>;

    /// Syncs everything that was written so far to the disk, so that it survives a power failure.
    /// The call may wait for a disk, but writes do not wait for the call.
    /// [`StoreWriter`](crate::StoreWriter) calls this method.
    ///
    /// # Errors
    ///
    /// Returns errors of the store itself; the writer calls this method again after an error.
    fn sync(&self) -> Result<(), SessionStoreError>;
}

/// A session that is open for changes. The session is closed when this value is dropped.
pub trait OpenSession: Debug + Send {
    /// Returns the id of the session.
    fn id(&self) -> &SessionId;

    /// Makes changes in their order; either all changes are made or none. When this method returns,
    /// the changes survive every kind of end of this process.
    ///
    /// A change of records sets the session's update time to `now`, unless that time is earlier
    /// than the current one.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`](SessionStoreError::Invalid) if a record comes before the first prompt,
    /// or if a record to fold has no subject. Returns
    /// [`UnknownPrompt`](SessionStoreError::UnknownPrompt) if more prompts are to be kept than the
    /// session has, and [`TooLarge`](SessionStoreError::TooLarge) if a limit is exceeded.
    fn write(
        &mut self,
        changes: &[SessionChange],
        now: SystemTime,
    ) -> Result<(), SessionStoreError>;
}
