//! Stored sessions of an agent on the Agent Client Protocol (ACP): what they hold, how they are
//! written while turns run, and how they are given back.
//!
//! This crate is *only* the storing. What a record means, and how it is shown, is up to the agent:
//! for documents and patches use `acp-types`, for the order in which things are sent `acp-lifecycle`.
#![doc = include_str!("../README.md")]

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod holder;
pub mod limits;
mod load;
mod memory;
mod record;
mod retention;
mod search;
mod session;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod time;
mod writer;

pub use error::SessionStoreError;
pub use holder::SessionHolder;
pub use load::SessionLoadProgress;
pub use memory::MemorySessionStore;
pub use record::{
    AttachmentId, RecordForm, RecordStream, SessionChange, SessionRecord, StoredRecord,
};
pub use retention::{PruneOutcome, PruneReport, RetentionPolicy};
pub use search::{SearchHit, SessionSearch};
pub use session::{
    NewSession, SessionFilter, SessionFolder, SessionPage, SessionSummary, StoredParts,
    StoredPrompt,
};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteSessionStore;
pub use store::{OpenSession, SessionStore};
pub use writer::{PendingCommit, SessionRecorder, StoreWriter};
