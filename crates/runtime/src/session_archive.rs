//! Access to stored sessions without an agent: finds, lists, copies, deletes and replays sessions.

mod retention;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use acp_connection::UpdateEncoder;
use acp_lifecycle::{Secrets, Session, Timestamp};
use acp_store::{
    NewSession, RecordStream, SessionCwdPaths, SessionFilter, SessionPage, SessionStore,
    SessionStoreError, SessionSummary,
};
use acp_tools::files::remove_files_of_session;
use acp_types::wire::v1::SessionUpdateParams;
use agent_client_protocol::v1::schema::{ClientCapabilities, SessionId};

use crate::stored_sessions::{SESSION_ID_PREFIX, StoredSettings, new_session_id, replay_page};

pub use retention::{PrunableData, PrunedData, SessionRetention};

/// The stored sessions of a user, for a program that shows or exports them.
///
/// The methods that read a session do not open the session. They can therefore read sessions that
/// are open in another process, and sessions whose folder no longer exists. All methods block.
#[derive(Debug, Clone)]
pub struct SessionArchive {
    store: Arc<dyn SessionStore>,
    secrets: Secrets,
    state: Option<PathBuf>,
}

/// The reason why a session was not found or not read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SessionArchiveError {
    /// The store refused the operation, or the operation failed.
    #[error(transparent)]
    Store(#[from] SessionStoreError),
    /// No stored session has an id with this beginning. To see the ids, list the sessions.
    #[error("no stored session has an id that begins with `{0}`")]
    Unknown(String),
    /// The beginning of an id has less than 4 characters in addition to the prefix `sess_`.
    #[error("`{0}` is too short: give at least {MIN_BEGINNING_BYTES} characters after `sess_`")]
    TooShort(String),
    /// Several sessions have an id with this beginning. Pass a longer part of the id.
    #[error("`{beginning}` is the beginning of several ids: {}", .ids.join(", "))]
    Ambiguous {
        /// The beginning that was searched for.
        beginning: String,
        /// The first ids with this beginning, newest session first.
        ids: Vec<String>,
    },
}

impl SessionArchive {
    /// Creates the archive of the sessions of a store.
    #[must_use]
    pub fn new(store: Arc<dyn SessionStore>) -> Self {
        Self { store, secrets: Secrets::default(), state: None }
    }

    /// Redacts these secrets in replayed sessions. Secrets that were known when a session was
    /// recorded are already redacted in the store.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Sets the state folder, which contains undo data and outputs of sessions. These data are
    /// removed together with their session. Pass the folder of
    /// [`CodingAgent::with_state_folder`](crate::CodingAgent::with_state_folder).
    #[must_use]
    pub fn with_state_folder(self, folder: PathBuf) -> Self {
        Self { state: Some(folder), ..self }
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.store
    }

    /// Redacts the secrets in a text of a session, e.g. in its title.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.secrets.redact(text).into_owned()
    }

    /// Lists the sessions of a folder, or of all folders if `cwd` is `None`. The session with the
    /// newest update comes first. Reads the list page by page. The iterator ends after the first
    /// error.
    pub fn sessions(
        &self,
        cwd: Option<&Path>,
    ) -> impl Iterator<Item = Result<SessionSummary, SessionStoreError>> + use<> {
        let cwd = cwd.map(Path::to_owned);
        PagedSessions {
            store: self.store.clone(),
            cwd,
            page: Vec::new().into_iter(),
            next: Some(None),
        }
    }

    /// Finds a session by its id, or by a beginning of the id that no other session's id has. The
    /// beginning must have at least 4 characters in addition to the prefix `sess_`, which may be
    /// omitted.
    ///
    /// # Errors
    ///
    /// Returns [`Unknown`](SessionArchiveError::Unknown) if no id has this beginning,
    /// [`Ambiguous`](SessionArchiveError::Ambiguous) if several ids have it, and
    /// [`TooShort`](SessionArchiveError::TooShort) for a short beginning. Also returns errors of
    /// the store.
    pub fn find_by_id_prefix(
        &self,
        beginning: &str,
    ) -> Result<SessionSummary, SessionArchiveError> {
        match self.store.summary(&SessionId::new(beginning)) {
            Err(SessionStoreError::UnknownSession(_)) => {}
            found => return Ok(found?),
        }
        let wanted = beginning.strip_prefix(SESSION_ID_PREFIX).unwrap_or(beginning);
        if wanted.len() < MIN_BEGINNING_BYTES {
            return Err(SessionArchiveError::TooShort(beginning.to_owned()));
        }
        let has_beginning = |session: &SessionSummary| {
            let id: &str = &session.id.0;
            id.strip_prefix(SESSION_ID_PREFIX).unwrap_or(id).starts_with(wanted)
        };
        let sessions = self.sessions(None);
        let found = sessions.filter(|session| session.as_ref().map_or(true, has_beginning));
        let mut found = found.take(MAX_NAMED_IDS).collect::<Result<Vec<_>, _>>()?;
        let beginning = beginning.to_owned();
        match (found.pop(), found.is_empty()) {
            (None, _) => Err(SessionArchiveError::Unknown(beginning)),
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                let ids = found.iter().chain([&last]).map(|session| session.id.to_string());
                Err(SessionArchiveError::Ambiguous { beginning, ids: ids.collect() })
            }
        }
    }

    /// Returns the name of the model that a session used last. Returns `None` if the name is not
    /// stored or cannot be read.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    pub fn model_name(&self, session: &SessionId) -> Result<Option<String>, SessionStoreError> {
        Ok(StoredSettings::read(&self.store.parts(session)?).model)
    }

    /// Stores a copy of a session that continues in the folder `cwd`, and returns its id.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    pub fn fork(
        &self,
        session: &SessionId,
        cwd: PathBuf,
        now: SystemTime,
    ) -> Result<SessionId, SessionStoreError> {
        let id = new_session_id();
        // If the folder does not exist, store the given path. The agent that opens the session
        // determines the canonical path later.
        let canonical = cwd.canonicalize().unwrap_or_else(|_gone| cwd.clone());
        let copy = NewSession::new(id.clone(), SessionCwdPaths { cwd, canonical });
        drop(self.store.fork(session, &copy, None, now)?);
        Ok(id)
    }

    /// Deletes a session and its undo data and outputs. No process may have the session open.
    ///
    /// # Errors
    ///
    /// Returns [`Held`](SessionStoreError::Held) if a process has the session open. Also returns
    /// other errors of the store.
    pub fn delete(&self, session: &SessionId) -> Result<(), SessionStoreError> {
        let deleted = self.store.delete(session);
        // Also remove the files of an unknown session, because an earlier deletion may have removed
        // the session but not its files.
        let is_gone = matches!(deleted, Ok(()) | Err(SessionStoreError::UnknownSession(_)));
        if let Some(state) = self.state.as_ref().filter(|_| is_gone) {
            remove_files_of_session(state, &session.0);
        }
        deleted
    }

    /// Calls `each` with each update that `session/load` would send to a client with these
    /// capabilities, until `each` returns `Break`. The number of bytes is not limited. Returns the
    /// number of records that were omitted because they could not be read.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    pub fn for_each_replayed_update(
        &self,
        session: &SessionSummary,
        capabilities: &ClientCapabilities,
        mut each: impl FnMut(SessionUpdateParams) -> ControlFlow<()>,
    ) -> Result<u64, SessionStoreError> {
        let folder = session.folder.as_ref().map(|folder| folder.cwd.clone());
        let mut encoder = UpdateEncoder::new(capabilities);
        let mut replayed = Session::new(folder.unwrap_or_default());
        replayed.set_secrets(self.secrets.clone());
        replayed.set_shows_terminals(encoder.shows_terminals());
        let mut load = self.store.begin_load(&session.id, RecordStream::Client, u64::MAX)?;
        let mut unread = 0;
        loop {
            let page = self.store.load_next_records(&mut load)?;
            if page.is_empty() {
                return Ok(load.damaged + unread);
            }
            let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::now() };
            unread += replay_page(&mut replayed, &page, now);
            while let Some(item) = replayed.poll(now.monotonic) {
                // A replay contains no requests and no responses.
                for update in encoder.encode(item).unwrap_or_default() {
                    if each(update.into_params(session.id.clone())).is_break() {
                        return Ok(load.damaged + unread);
                    }
                }
            }
        }
    }
}

/// The sessions of a list, which is read page by page.
struct PagedSessions {
    store: Arc<dyn SessionStore>,
    cwd: Option<PathBuf>,
    page: std::vec::IntoIter<SessionSummary>,
    /// The cursor of the next page, if there is one.
    next: Option<Option<String>>,
}

impl Iterator for PagedSessions {
    type Item = Result<SessionSummary, SessionStoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(session) = self.page.next() {
                return Some(Ok(session));
            }
            let cursor = self.next.take()?;
            let mut filter = SessionFilter::default();
            (filter.cwd, filter.cursor) = (self.cwd.clone(), cursor);
            match self.store.list(&filter) {
                Ok(SessionPage { sessions, next, .. }) => {
                    self.page = sessions.into_iter();
                    self.next = next.map(Some);
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Minimum length, in bytes, of the beginning of an id, without the prefix. With this minimum, an
/// empty variable in a script does not select a session.
const MIN_BEGINNING_BYTES: usize = 4;

/// Maximum number of ids that the error for an ambiguous beginning contains.
const MAX_NAMED_IDS: usize = 5;
