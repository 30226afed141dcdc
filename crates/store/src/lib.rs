//! Stores sessions of an agent that uses the Agent Client Protocol (ACP). Sessions are recorded
//! while turns run, and can be loaded later.
//!
//! This crate contains *only* the storage. The agent defines the meaning and the display of each
//! record. For documents and patches, use `acp-types`. For the order of updates, use
//! `acp-lifecycle`.
#![doc = include_str!("../README.md")]

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod holder;
pub mod implement;
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
pub use retention::{PruneCompletion, PruneReport, RetentionPolicy};
pub use search::{SearchHit, SessionSearch};
pub use session::{
    NewSession, PromptSummary, SessionCwdPaths, SessionFilter, SessionPage, SessionSummary,
    StoredParts,
};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteSessionStore;
pub use store::{OpenSession, SessionStore};
pub use writer::{CommitFuture, SessionRecorder, StoreWriter};
