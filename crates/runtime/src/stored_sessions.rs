//! Stored sessions: how a session is recorded, and how a later process restores it.
//!
//! When the first session needs a store, the store is opened concurrently with the session. If the
//! store cannot be opened, sessions stay in memory and the user is notified.

mod brief;
mod document;
mod known_files;
mod model_message;
mod permissions;
mod recording;
mod redaction;
mod restore;
mod settings;

use std::fmt;
use std::sync::Arc;

use acp_store::{SessionStore, SessionStoreError, StoreWriter};
use tokio::sync::Mutex;

pub(crate) use document::read_document;
pub(crate) use known_files::StoredKnownFiles;
pub(crate) use model_message::read_messages;
pub(crate) use permissions::StoredPermissions;
pub(crate) use recording::{
    RecordedMessages, RewoundSession, SESSION_ID_PREFIX, SessionRecording, new_session_id,
};
pub(crate) use restore::{RestoredSession, replay, replay_page};
pub(crate) use settings::StoredSettings;

/// Opens a store. This function may block.
type OpenStoreFn = dyn Fn() -> Result<Arc<dyn SessionStore>, SessionStoreError> + Send + Sync;

/// The store for the sessions of an agent. Clones share the same store.
#[derive(Clone)]
pub(crate) struct LazySessionStore(Arc<LazyStore>);

struct LazyStore {
    open: Box<OpenStoreFn>,
    opened: Mutex<Option<OpenedStore>>,
}

/// An open store and its writer.
#[derive(Debug, Clone)]
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) writer: StoreWriter,
}

impl LazySessionStore {
    pub(crate) fn new(
        open: impl Fn() -> Result<Arc<dyn SessionStore>, SessionStoreError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(LazyStore { open: Box::new(open), opened: Mutex::default() }))
    }

    /// Returns the store; the first call opens it. If opening failed, the next call tries again.
    pub(crate) async fn open_store_if_needed(&self) -> Result<OpenedStore, SessionStoreError> {
        let mut slot = self.0.opened.lock().await;
        if let Some(opened) = &*slot {
            return Ok(opened.clone());
        }
        let shared = self.0.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let store = (shared.open)()?;
            let writer = StoreWriter::start(store.clone());
            let writer = writer.map_err(|_no_thread| SessionStoreError::WriterEnded)?;
            Ok(OpenedStore { store, writer })
        });
        let opened = opening.await.unwrap_or(Err(SessionStoreError::WriterEnded))?;
        *slot = Some(opened.clone());
        Ok(opened)
    }
}

impl LazySessionStore {
    /// Syncs the store to the disk, if it is open. Also empties a long write-ahead log of the
    /// store, because the next process would have to read this log first.
    pub(crate) async fn sync(&self) {
        let opened = self.0.opened.lock().await.clone();
        let Some(opened) = opened else { return };
        if let Err(error) = opened.run(|store| store.sync()).await {
            tracing::warn!(%error, "the stored sessions are not synced to the disk");
        }
    }
}

impl OpenedStore {
    /// Runs `work` with the store on a thread that may block.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn SessionStore) -> Result<T, SessionStoreError> + Send + 'static,
    ) -> Result<T, SessionStoreError> {
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || work(&*store)).await;
        done.unwrap_or(Err(SessionStoreError::WriterEnded))
    }
}

impl fmt::Debug for LazySessionStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LazySessionStore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod replay_laws;
#[cfg(test)]
pub(crate) mod tests;
