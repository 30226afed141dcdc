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
    NewSession, PromptSummary, SessionFilter, SessionPage, SessionSummary, StoredParts,
};

/// A store of sessions. Several processes may use one store at the same time.
///
/// Every method may block on a disk or a lock, so call it on a thread that may block. Methods that
/// need the time take it as an argument; no method reads a clock. The module `conformance` (behind
/// a feature) checks each rule that these docs state.
///
/// Lists and searches return only sessions that have a prompt. Damaged records are skipped and
/// counted; they are never returned as complete records.
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

    /// Opens a session for changes. A session can be open only once over all processes. It is open
    /// until the returned session is dropped or the process dies.
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

    /// Lists sessions, ordered by the time of their last update, newest first. Sessions that were
    /// updated in the same millisecond are ordered by id, the larger id first.
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
    ) -> Result<Vec<PromptSummary>, SessionStoreError>;

    /// Returns all parts of a session.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession).
    fn parts(&self, session: &SessionId) -> Result<StoredParts, SessionStoreError>;

    /// Begins to load one stream of a session. The session need not be open. Records without a
    /// short form are always returned in their whole form. Of the records with a short form, the
    /// newest are returned in their whole form, up to a total of `budget` bytes. All older ones are
    /// returned in their short form. Later writes are not part of the load.
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

    /// Returns the next records of a load, oldest first. Returns no records at the end of the load.
    /// [`RecordPage`](crate::implement::RecordPage) defines the length of a page.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession) if the session was removed
    /// during the load.
    fn load_next_records(
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
    /// in a file that the user may open. The file exists until the session is removed, or until the
    /// last record with the attachment is removed.
    fn attachment_file(&self, session: &SessionId, attachment: AttachmentId) -> Option<PathBuf> {
        let _ = (session, attachment);
        None
    }

    /// Stores a copy of a session, and opens the copy. The original need not be open. The copy has
    /// the title, the parts and the first `keep` prompts of the original. If `keep` is `None`, all
    /// prompts are copied. `from` becomes the parent of the copy.
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

    /// Removes a session with all of its data. When this method returns, the removal survives a
    /// power failure.
    ///
    /// If the store cannot overwrite all removed text at once, e.g. because another process reads
    /// it, the removal succeeds nevertheless. Later calls of [`sync`](Self::sync) overwrite the
    /// text, or return the error that prevents the overwriting.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownSession`](SessionStoreError::UnknownSession) or
    /// [`Held`](SessionStoreError::Held). After an error of the disk, the session may be removed in
    /// part; it is no longer listed then, and [`prune`](Self::prune) removes the rest.
    fn delete(&self, session: &SessionId) -> Result<(), SessionStoreError>;

    /// Searches the texts of records. The hits of the session that was stored last come first.
    /// Within a session, the newest record comes first. A search without words has no hits.
    ///
    /// # Errors
    ///
    /// Returns errors of the store itself.
    fn search(&self, search: &SessionSearch) -> Result<Vec<SearchHit>, SessionStoreError>;

    /// Removes sessions that exceed the limits of age or size, the oldest update first. Also
    /// removes the remains of sessions that were not stored completely. One call removes at most
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

    /// Syncs all earlier writes to the disk, so that they survive a power failure. The call may
    /// wait for a disk, but writes do not wait for the call. [`StoreWriter`](crate::StoreWriter)
    /// calls this method.
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

    /// Makes changes in the given order. Either all changes are made, or none of them. After this
    /// method has returned, the changes are not lost if this process exits, crashes or is killed.
    ///
    /// A change of records sets the session's update time to `now`, unless `now` is earlier than
    /// the current update time.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`](SessionStoreError::Invalid) if a record comes before the first prompt,
    /// or if a record to fold has no subject. Returns
    /// [`UnknownPrompt`](SessionStoreError::UnknownPrompt) if a truncation keeps more prompts than
    /// the session has. Returns [`TooLarge`](SessionStoreError::TooLarge) if a limit is exceeded.
    fn write(
        &mut self,
        changes: &[SessionChange],
        now: SystemTime,
    ) -> Result<(), SessionStoreError>;
}
