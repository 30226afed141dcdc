//! Handlers of ACP requests for stored sessions: list, load, resume, fork, delete and rewind.

use std::sync::Arc;
use std::time::SystemTime;

use acp_connection::OpenRequest;
use acp_store::{NewSession, SessionCwdPaths, SessionFilter, SessionStoreError, SessionSummary};
use acp_types::wire::v1;
use agent_client_protocol::v1::schema::{
    DeleteSessionRequest, DeleteSessionResponse, ForkSessionRequest, ForkSessionResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, McpServer,
    Meta, ResumeSessionRequest, ResumeSessionResponse, SessionConfigOption, SessionId, SessionInfo,
    SessionModeState,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error, JsonRpcResponse, Result};
use callboard_text::{escape_invisible, quote_path_unless_utf8, rfc3339_utc};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::CodingAgent;
use super::connection::{
    Connection, InitialSessionState, PreparedSession, check_session_limit,
    unquote_path_unless_exists,
};
use crate::lock::lock;
use crate::options::{OptionSelection, parse_thought_level};
use crate::permission_mode::{PermissionMode, RestoredModeLimit};
use crate::rewind::{RewindSessionRequest, RewindSessionResponse};
use crate::session::Session;
use crate::session_archive::SessionArchive;
use crate::stored_sessions::{
    OpenedStore, RestoredSession, SessionRecording, StoredSettings, new_session_id, read_messages,
    replay,
};
use crate::turn::{History, RestoredMessages};
use crate::{errors, limits};

/// A request for a stored session.
pub(super) struct RestoreRequest {
    id: SessionId,
    /// The session to copy, if the request asks for a copy. `id` is then the id of the copy.
    copied_from: Option<ForkSource>,
    cwd: std::path::PathBuf,
    additional_directories: Vec<std::path::PathBuf>,
    mcp_servers: Vec<McpServer>,
    /// Whether the client receives the stored updates of the session again.
    is_replayed: bool,
}

/// The session that a request copies.
struct ForkSource {
    id: SessionId,
    /// The number of prompts to copy, as the client sent it; `None` copies all.
    prompts: Option<Value>,
}

impl RestoreRequest {
    /// Returns the request to restore a new copy of a session. `meta_key` is the key of our data in
    /// `_meta`.
    pub(super) fn for_fork(request: ForkSessionRequest, meta_key: &str) -> Self {
        let ForkSessionRequest {
            session_id, cwd, additional_directories, mcp_servers, meta, ..
        } = request;
        let prompts = meta.and_then(|mut meta| meta.remove(meta_key)?.get("prompt").cloned());
        let copied_from = Some(ForkSource { id: session_id, prompts });
        let id = new_session_id();
        Self { id, copied_from, cwd, additional_directories, mcp_servers, is_replayed: false }
    }
}

impl From<LoadSessionRequest> for RestoreRequest {
    fn from(request: LoadSessionRequest) -> Self {
        let LoadSessionRequest { session_id, cwd, additional_directories, mcp_servers, .. } =
            request;
        Self {
            id: session_id,
            copied_from: None,
            cwd,
            additional_directories,
            mcp_servers,
            is_replayed: true,
        }
    }
}

impl From<ResumeSessionRequest> for RestoreRequest {
    fn from(request: ResumeSessionRequest) -> Self {
        let ResumeSessionRequest { session_id, cwd, additional_directories, mcp_servers, .. } =
            request;
        Self {
            id: session_id,
            copied_from: None,
            cwd,
            additional_directories,
            mcp_servers,
            is_replayed: false,
        }
    }
}

/// The response to a request for a stored session.
pub(super) trait RestoreResponse: JsonRpcResponse {
    /// Creates the response from the id, the modes, the options and further data of the session.
    fn from_modes_and_options(
        id: SessionId,
        modes: Option<SessionModeState>,
        options: Vec<SessionConfigOption>,
        meta: Meta,
    ) -> Self;
}

impl RestoreResponse for ForkSessionResponse {
    fn from_modes_and_options(
        id: SessionId,
        modes: Option<SessionModeState>,
        options: Vec<SessionConfigOption>,
        meta: Meta,
    ) -> Self {
        Self::new(id).modes(modes).config_options(options).meta(meta)
    }
}

impl RestoreResponse for LoadSessionResponse {
    fn from_modes_and_options(
        _: SessionId,
        modes: Option<SessionModeState>,
        options: Vec<SessionConfigOption>,
        meta: Meta,
    ) -> Self {
        Self::new().modes(modes).config_options(options).meta(meta)
    }
}

impl RestoreResponse for ResumeSessionResponse {
    fn from_modes_and_options(
        _: SessionId,
        modes: Option<SessionModeState>,
        options: Vec<SessionConfigOption>,
        meta: Meta,
    ) -> Self {
        Self::new().modes(modes).config_options(options).meta(meta)
    }
}

impl Connection {
    /// Lists stored sessions, the newest update first.
    pub(super) async fn list_sessions(
        self: Arc<Self>,
        request: ListSessionsRequest,
        responder: Responder<ListSessionsResponse>,
    ) {
        let ListSessionsRequest { cwd, cursor, .. } = request;
        let mut filter = SessionFilter::default();
        filter.cwd = cwd.map(unquote_path_unless_exists);
        filter.cursor = cursor;
        let listed = async {
            let opened = self.opened_store().await?;
            let page = opened.run(move |store| store.list(&filter)).await;
            page.map_err(|error| errors::session_store_error(&error))
        };
        let answer = listed.await.map(|page| {
            let sessions = page.sessions.into_iter().map(session_info).collect();
            ListSessionsResponse::new(sessions).next_cursor(page.next)
        });
        // The client may have disconnected.
        drop(responder.respond_with_result(answer));
    }

    /// Deletes a stored session. If the session is open on this connection, the session is closed
    /// first. ACP requires that the deletion of a session that is not stored succeeds:
    /// <https://agentclientprotocol.com/protocol/v1/session-delete>.
    pub(super) async fn delete_session(
        self: Arc<Self>,
        request: DeleteSessionRequest,
        responder: Responder<DeleteSessionResponse>,
    ) {
        let id = request.session_id;
        if self.agent.stored.is_none() {
            return drop(responder.respond_with_error(errors::sessions_not_stored_error()));
        }
        if let Some(session) = self.take_session(&id) {
            session.close(limits::CLOSE_DEADLINE).await;
        }
        let deleted = async {
            let opened = self.opened_store().await?;
            let archive = SessionArchive::new(opened.store.clone());
            let archive = match self.agent.state.clone() {
                Some(state) => archive.with_state_folder(state),
                None => archive,
            };
            match opened.run(move |_| archive.delete(&id)).await {
                Err(SessionStoreError::UnknownSession(_)) => Ok(()),
                deleted => deleted.map_err(|error| errors::session_store_error(&error)),
            }
        };
        let answer = deleted.await.map(|()| DeleteSessionResponse::new());
        drop(responder.respond_with_result(answer));
    }

    /// Restores a session in a separate task, because its folders may be on a network and its
    /// client may read slowly.
    pub(super) fn spawn_restore<T: RestoreResponse>(
        self: &Arc<Self>,
        request: RestoreRequest,
        responder: Responder<T>,
        client: ConnectionTo<Client>,
    ) -> Result<()> {
        let Some(opening) = self.try_acquire_opening_permit() else {
            return responder.respond_with_error(errors::too_many_opening_error());
        };
        let connection = self.clone();
        drop(tokio::spawn(async move {
            connection.restore(request, responder, client).await;
            drop(opening);
        }));
        Ok(())
    }

    async fn restore<T: RestoreResponse>(
        self: Arc<Self>,
        request: RestoreRequest,
        responder: Responder<T>,
        client: ConnectionTo<Client>,
    ) {
        let RestoreRequest {
            id,
            copied_from,
            cwd,
            additional_directories,
            mcp_servers,
            is_replayed,
        } = request;
        let is_fork = copied_from.is_some();
        let opened = async {
            if self.find_session(&id).is_some() {
                return Err(errors::already_open_on_connection_error());
            }
            check_session_limit(&lock(&self.sessions))?;
            let opened = self.opened_store().await?;
            let prepared =
                self.prepare_session(&id, cwd, additional_directories, mcp_servers).await?;
            if let Some(from) = copied_from {
                self.store_copy(&opened, from, &id, prepared.folder.clone()).await?;
            }
            let restored = open_stored_session(&opened, &id, prepared.folder.clone()).await?;
            Ok((opened, prepared, restored))
        };
        let (opened, prepared, restored) = match opened.await {
            Ok(opened) => opened,
            // The client may have disconnected.
            Err(error) => return drop(responder.respond_with_error(error)),
        };
        let (sender, messages) = oneshot::channel();
        // The messages of the model are read while the client receives the stored updates. The read
        // starts after the first stored updates are available, because an earlier start would delay
        // these updates.
        let has_begun = CancellationToken::new();
        let read = async {
            if is_replayed {
                has_begun.cancelled().await;
            }
            send_stored_messages_to_session(&opened, &id, sender).await
        };
        let (start, mut notices) =
            self.prepare_initial_state(&opened, &id, (&prepared, restored), messages).await;
        if is_fork {
            match read.await {
                Ok(damaged) => notices.extend(damage_notice(damaged)),
                Err(error) => {
                    return drop(responder.respond_with_error(errors::session_store_error(&error)));
                }
            }
            return self.answer_and_start_fork(prepared, (start, notices), responder, client);
        }
        let session = self.start_session(prepared, start, client);
        let answer = session.client().open_request(responder);
        let handle = session.client().handle().clone();
        let replayed = async {
            if is_replayed { replay(&opened, &id, &handle, &has_begun).await } else { Ok(0) }
        };
        let unread = tokio::select! {
            unread = async { tokio::try_join!(replayed, read) } => unread,
            () = session.wait_closed() => return,
        };
        let unread = match unread {
            Ok((unread, damaged)) => unread + damaged,
            Err(error) => {
                session.close(limits::CLOSE_DEADLINE).await;
                return answer.respond(Err(errors::session_store_error(&error)));
            }
        };
        session.add_notices(notices.into_iter().chain(damage_notice(unread)));
        tokio::select! {
            () = handle.wait_drained() => {}
            () = session.wait_closed() => return,
        }
        if let Some(recording) = session.recording() {
            recording.set_paused_for_replay(false);
        }
        self.insert_and_answer_restored(id, &session, answer).await;
    }

    /// Answers the request that has restored a session.
    async fn insert_and_answer_restored<T: RestoreResponse>(
        &self,
        id: SessionId,
        session: &Arc<Session>,
        answer: OpenRequest<T>,
    ) {
        let choices = session.options().inspect_selection(|selection| {
            response_with_choices(&id, selection, &self.agent.meta_key)
        });
        // The session is inserted before the client can read the answer.
        match self.insert_restored(id, session.clone()) {
            Ok(()) => {
                answer.respond(Ok(choices));
                // Some clients drop updates of a session that they do not know yet.
                session.options().send_commands();
            }
            Err(error) => {
                session.close(limits::CLOSE_DEADLINE).await;
                answer.respond(Err(error));
            }
        }
    }

    /// Starts a forked session after the response was sent, because the client learns the id of the
    /// session from the response.
    fn answer_and_start_fork<T: RestoreResponse>(
        &self,
        prepared: PreparedSession,
        (start, notices): (InitialSessionState, Vec<String>),
        responder: Responder<T>,
        client: ConnectionTo<Client>,
    ) {
        // The lock is held until the session is inserted, because the client may use the session as
        // soon as it receives the answer.
        let mut sessions = lock(&self.sessions);
        let answer = check_session_limit(&sessions)
            .map(|()| response_with_choices(&start.id, &start.selection, &self.agent.meta_key));
        let is_refused = answer.is_err();
        if responder.respond_with_result(answer).is_err() || is_refused {
            return;
        }
        let id = start.id.clone();
        let session = self.start_session(prepared, start, client);
        session.options().send_commands();
        session.add_notices(notices);
        if let Some(recording) = session.recording() {
            recording.set_paused_for_replay(false);
        }
        sessions.insert(id, session);
    }

    /// Stores a copy of a session, which may be open, under a new id.
    async fn store_copy(
        &self,
        opened: &OpenedStore,
        ForkSource { id: from, prompts }: ForkSource,
        into: &SessionId,
        folder: SessionCwdPaths,
    ) -> Result<(), Error> {
        let keep = prompts.map(|number| {
            let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
            number.filter(|number| *number > 0).ok_or_else(|| {
                errors::invalid_params_error("`prompt` is the number of a prompt, counted from 1")
            })
        });
        let keep = keep.transpose()?;
        if let Some(recording) = self.find_session(&from).and_then(|it| it.recording().cloned()) {
            let committed = recording.committed_store().await;
            committed.map_err(|error| errors::session_store_error(&error))?;
        }
        let new = NewSession::new(into.clone(), folder);
        let copied =
            opened.run(move |store| store.fork(&from, &new, keep, SystemTime::now()).map(drop));
        copied.await.map_err(|error| errors::session_store_error(&error))
    }

    /// Goes back to a prompt of an open session. A dry run only returns what would change.
    pub(super) async fn rewind_session(
        self: Arc<Self>,
        request: RewindSessionRequest,
        responder: Responder<RewindSessionResponse>,
    ) {
        let answer = match self.find_session(&request.session_id) {
            Some(session) => {
                let withdrawn = responder.cancellation();
                session.rewind_to_before_prompt(request.prompt, request.dry_run, &withdrawn).await
            }
            None => Err(errors::unknown_session_error()),
        };
        // The client may have disconnected.
        drop(responder.respond_with_result(answer));
    }

    /// Returns the initial state of a restored session, with the notices for its user.
    async fn prepare_initial_state(
        &self,
        opened: &OpenedStore,
        id: &SessionId,
        (prepared, restored): (&PreparedSession, RestoredSession),
        messages: oneshot::Receiver<RestoredMessages>,
    ) -> (InitialSessionState, Vec<String>) {
        let RestoredSession { session, settings, permissions, known_files, prompts, damaged } =
            restored;
        let mut notices: Vec<_> = damage_notice(damaged).into_iter().collect();
        let mut selection = self.initial_selection(&prepared.context.isolation);
        notices.extend(restore_choices(&mut selection, &settings, self.agent.restored_mode).await);
        let history =
            History::awaiting_restored_messages(messages, settings.usage, settings.is_titled);
        let turns = settings.turns;
        let stored = permissions.clone().ok().flatten();
        let recording = SessionRecording::resume(
            opened,
            session,
            (settings, prompts),
            stored,
            self.agent.secrets.clone(),
        );
        recording.set_paused_for_replay(true);
        let recording = Some(recording);
        let start = InitialSessionState {
            id: id.clone(),
            selection,
            history,
            recording,
            permissions,
            turns,
            prompts,
            known_files,
        };
        (start, notices)
    }

    /// Removes old sessions, if a removal is due.
    pub(super) fn prune_sessions_in_background(&self) {
        let CodingAgent { stored, retention, state, .. } = &self.agent;
        let (Some(stored), Some(retention), Some(state)) = (stored, *retention, state) else {
            return;
        };
        let (stored, state) = (stored.clone(), state.clone());
        drop(tokio::spawn(async move {
            // If the store cannot be opened, the session reports the error.
            if let Ok(opened) = stored.open_store_if_needed().await {
                let archive = SessionArchive::new(opened.store).with_state_folder(state);
                let prune = move || archive.prune_if_due(retention, SystemTime::now());
                drop(tokio::task::spawn_blocking(prune).await);
            }
        }));
    }

    async fn opened_store(&self) -> Result<OpenedStore> {
        let stored = self.agent.stored.as_ref().ok_or_else(errors::sessions_not_stored_error)?;
        let stored = stored.clone();
        // Opening the store may hang. A separate task continues the attempt, and each request waits
        // only for a limited time.
        let opening = tokio::spawn(async move { stored.open_store_if_needed().await });
        match tokio::time::timeout(limits::STORE_OPEN_TIMEOUT, opening).await {
            Ok(Ok(opened)) => opened.map_err(|error| errors::session_store_error(&error)),
            Ok(Err(_panic)) => Err(errors::internal_error("the store could not be opened")),
            Err(_) => Err(errors::retry_later_error("The disk takes too long; try again later")),
        }
    }
}

fn response_with_choices<T: RestoreResponse>(
    id: &SessionId,
    selection: &OptionSelection,
    meta_key: &str,
) -> T {
    let options = v1::encode_config_options(&selection.config_options(&selection.active_options()));
    let modes = selection.session_modes().as_ref().map(v1::encode_modes);
    T::from_modes_and_options(
        id.clone(),
        modes,
        options,
        selection.shown_sandbox().to_meta(meta_key),
    )
}

async fn open_stored_session(
    opened: &OpenedStore,
    id: &SessionId,
    folder: SessionCwdPaths,
) -> Result<RestoredSession, Error> {
    let id = id.clone();
    let restored =
        opened.run(move |store| RestoredSession::open(store, &id, folder, SystemTime::now())).await;
    restored.map_err(|error| errors::session_store_error(&error))
}

/// Reads the stored messages of a session's model, and sends them to the session. Returns the
/// number of messages that could not be read.
async fn send_stored_messages_to_session(
    opened: &OpenedStore,
    id: &SessionId,
    session: oneshot::Sender<RestoredMessages>,
) -> Result<u64, SessionStoreError> {
    let id = id.clone();
    let (messages, damaged) = opened.run(move |store| read_messages(store, &id)).await?;
    // The session may be closed.
    drop(session.send(messages));
    Ok(damaged)
}

/// Restores the choices of the stored session. By default, a mode that allows more than the mode
/// with which this process was started is not restored. Returns a notice for each choice that
/// cannot be restored.
async fn restore_choices(
    selection: &mut OptionSelection,
    settings: &StoredSettings,
    restored_mode: RestoredModeLimit,
) -> Vec<String> {
    let mut notices = Vec::new();
    let own_mode = selection.active_options().mode;
    let stored_mode = settings.mode.as_deref().and_then(PermissionMode::parse);
    if let (Some(own), Some(stored)) = (own_mode, stored_mode) {
        match restored_mode == RestoredModeLimit::AtMostInitial && stored.allows_more_than(own) {
            true => notices.push(format!(
                "The mode of this session was `{}`. It is `{}` now, because this process was \
                 started with that.",
                stored.id(),
                own.id()
            )),
            false => selection.set_mode(stored),
        }
    }
    if let Some(name) = settings.model.clone()
        && name != selection.active_options().model.name()
    {
        let (catalogue, wanted) = (selection.catalogue().clone(), name.clone());
        match tokio::task::spawn_blocking(move || catalogue.open_model(&wanted)).await {
            Ok(Ok(model)) => selection.set_model(model),
            _ => notices.push(format!(
                "The model of this session was {}, which cannot be opened. It is {} now.",
                escape_invisible(&name),
                escape_invisible(selection.active_options().model.name())
            )),
        }
    }
    if let Some(effort) = settings.thought_level.as_deref().and_then(parse_thought_level) {
        selection.set_effort(effort);
    }
    notices
}

fn damage_notice(records: u64) -> Option<String> {
    let what = match records {
        0 => return None,
        1 => "1 record of this session is damaged and was left out.".to_owned(),
        more => format!("{more} records of this session are damaged and were left out."),
    };
    Some(what)
}

fn session_info(summary: SessionSummary) -> SessionInfo {
    // The folder is missing only if its record is damaged. A session with a damaged record is
    // listed too.
    let cwd = summary.folder.map_or_else(|| "/".into(), |folder| folder.cwd);
    let cwd = quote_path_unless_utf8(&cwd).into_owned();
    SessionInfo::new(summary.id, cwd).title(summary.title).updated_at(rfc3339_utc(summary.updated))
}
