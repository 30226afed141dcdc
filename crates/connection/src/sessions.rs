//! The open sessions of a connection, by id.

use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_lifecycle::Session;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ClientCapabilities, CloseSessionRequest,
    CloseSessionResponse, ContentBlock, Implementation, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, SessionCapabilities,
    SessionCloseCapabilities, SessionId, StopReason,
};
use agent_client_protocol::v1::{self, ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, HandleConnectionClose, HandleDispatchFrom, Handled, Result, RunWithConnectionTo,
    on_receive_notification, on_receive_request,
};
use futures::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lock::lock;
use crate::prompts::Turn;
use crate::{ClientSession, ClientSessionBuilder, errors};

/// The open sessions of a connection, by id. Cheap to clone; all clones share one table of
/// sessions.
///
/// A request for an unknown session is answered with the error `-32002`. The `data.reason` of this
/// error is `unknown_session`.
#[derive(Debug, Clone, Default)]
pub struct ClientSessions(Arc<Mutex<OpenSessions>>);

#[derive(Debug, Default)]
struct OpenSessions {
    client: ClientCapabilities,
    open: HashMap<SessionId, ClientSession>,
    /// Number of sessions that were opened by [`ClientSessions::open_and_respond`].
    count: u64,
    /// Tasks that will answer `session/close`.
    closing: Vec<JoinHandle<()>>,
    /// Whether [`ClientSessions::close_all`] was called.
    is_closed: bool,
}

impl ClientSessions {
    /// Returns the SDK's builder of an agent that handles `session/cancel`, `session/close` and the
    /// end of the connection for these sessions. `grace` is the time that turns have to end. The
    /// builder also reads the client's capabilities from `initialize`, but your handler must answer
    /// `initialize`.
    ///
    /// To handle one of these methods yourself, begin with `Agent.v1()` instead, and call
    /// [`set_client_capabilities`](Self::set_client_capabilities), [`cancel`](Self::cancel),
    /// [`close_and_respond`](Self::close_and_respond) and [`close_all`](Self::close_all).
    pub fn agent_builder_with_cancel_close(
        &self,
        grace: Duration,
    ) -> v1::Builder<
        Agent,
        impl HandleDispatchFrom<Client> + use<>,
        impl RunWithConnectionTo<Client> + use<>,
        impl HandleConnectionClose<Client> + use<>,
    > {
        let [init, cancelled, closed, ended] = [(); 4].map(|()| self.clone());
        Agent
            .v1()
            .on_receive_request(
                async move |request: InitializeRequest, responder, _| {
                    init.set_client_capabilities(request.client_capabilities.clone());
                    Ok(Handled::No { message: (request, responder), retry: false })
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |notification: CancelNotification, _| {
                    cancelled.cancel(&notification.session_id);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: CloseSessionRequest, responder, _| {
                    closed.close_and_respond(&request.session_id, responder, grace)
                },
                on_receive_request!(),
            )
            .on_close(async move |_| {
                ended.close_all(grace).await;
                Ok(())
            })
    }

    /// Returns the SDK's builder of a whole agent. In addition to the methods that
    /// [`agent_builder_with_cancel_close`](Self::agent_builder_with_cancel_close) handles, the
    /// builder answers `initialize` with `info`. It answers `session/new` in the same way as
    /// [`open_and_respond`](Self::open_and_respond). It runs `run_turn` for each prompt, in the
    /// same way as [`queue_prompt_turn`](Self::queue_prompt_turn).
    ///
    /// `set_up` sets the properties of each new session, e.g. the counters of its transport.
    pub fn prompt_agent_builder<S, T, R>(
        &self,
        info: Implementation,
        grace: Duration,
        set_up: S,
        run_turn: T,
    ) -> v1::Builder<
        Agent,
        impl HandleDispatchFrom<Client> + use<S, T, R>,
        impl RunWithConnectionTo<Client> + use<S, T, R>,
        impl HandleConnectionClose<Client> + use<S, T, R>,
    >
    where
        S: Fn(ClientSessionBuilder) -> ClientSessionBuilder + Send + Sync + 'static,
        T: Fn(Vec<ContentBlock>, Turn) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<StopReason>> + Send + 'static,
    {
        let (new, prompted) = (self.clone(), self.clone());
        self.agent_builder_with_cancel_close(grace)
            .on_receive_request(
                async move |request: InitializeRequest, responder, _| {
                    let response = InitializeResponse::new(request.protocol_version);
                    let response = response.agent_capabilities(Self::agent_capabilities());
                    responder.respond(response.agent_info(info.clone()))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: NewSessionRequest, responder, client| {
                    new.open_and_respond(request, responder, client, &set_up)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: PromptRequest, responder, _| {
                    let (id, run_turn) = (request.session_id, run_turn.clone());
                    let turn = move |turn| run_turn(request.prompt, turn);
                    prompted.queue_prompt_turn(&id, responder, turn)
                },
                on_receive_request!(),
            )
    }

    /// Sets the client's capabilities, which the `initialize` request contains.
    pub fn set_client_capabilities(&self, capabilities: ClientCapabilities) {
        lock(&self.0).client = capabilities;
    }

    /// Returns the capabilities for the response to `initialize`, if the agent uses
    /// [`agent_builder_with_cancel_close`](Self::agent_builder_with_cancel_close). The capabilities
    /// contain `session/close`. Without this capability, clients do not close their sessions.
    #[must_use]
    pub fn agent_capabilities() -> AgentCapabilities {
        let can = SessionCapabilities::new().close(SessionCloseCapabilities::new());
        AgentCapabilities::new().session_capabilities(can)
    }

    /// Opens a session for `session/new`, and responds. `set_up` sets the properties of the
    /// session. The id of the session is unique on this connection. If the `cwd` of the request is
    /// not absolute, the request is refused.
    ///
    /// To choose the id, or to restore a stored session, use
    /// [`session_builder`](Self::session_builder).
    ///
    /// # Errors
    ///
    /// Returns an error if the response cannot be sent, because the connection is closed.
    pub fn open_and_respond(
        &self,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        client: ConnectionTo<Client>,
        set_up: impl FnOnce(ClientSessionBuilder) -> ClientSessionBuilder,
    ) -> Result<()> {
        if !request.cwd.is_absolute() {
            return responder.respond_with_error(errors::relative_cwd_error());
        }
        let number = {
            let mut sessions = lock(&self.0);
            sessions.count += 1;
            sessions.count
        };
        let id = SessionId::new(format!("session{number}"));
        let session = self.session_builder(id.clone(), Session::new(request.cwd), client);
        // The client may send its first prompt as soon as it receives the response.
        self.insert(set_up(session).open());
        responder.respond(NewSessionResponse::new(id))
    }

    /// Creates the builder of a session for the client of this connection: see
    /// [`ClientSession::builder`]. Open the session, and then add the session with
    /// [`insert`](Self::insert).
    pub fn session_builder(
        &self,
        id: impl Into<SessionId>,
        session: Session,
        client: ConnectionTo<Client>,
    ) -> ClientSessionBuilder {
        let capabilities = lock(&self.0).client.clone();
        ClientSession::builder(id, session, &capabilities, client)
    }

    /// Adds an open session, e.g. for `session/new`. An existing session with the same id is
    /// replaced and ends. After [`close_all`](Self::close_all), the session ends at once.
    pub fn insert(&self, session: ClientSession) {
        let mut sessions = lock(&self.0);
        let ended = match sessions.is_closed {
            true => Some(session),
            false => sessions.open.insert(session.id().clone(), session),
        };
        // Release the lock first, because a session ends its turns on drop.
        drop(sessions);
        drop(ended);
    }

    /// Returns an open session.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no session with this id. The caller should send the error as
    /// the response to the request.
    pub fn find_open_session(&self, id: &SessionId) -> Result<ClientSession> {
        lock(&self.0).open.get(id).cloned().ok_or_else(errors::unknown_session_error)
    }

    /// Queues the turn of a prompt in its session: see [`ClientSession::queue_prompt_turn`].
    ///
    /// # Errors
    ///
    /// Returns an error if the prompt is refused and the refusal cannot be sent, because the
    /// connection is closed.
    pub fn queue_prompt_turn<R>(
        &self,
        id: &SessionId,
        responder: Responder<PromptResponse>,
        turn: impl FnOnce(Turn) -> R + Send + 'static,
    ) -> Result<()>
    where
        R: Future<Output = Result<StopReason>> + Send + 'static,
    {
        match self.find_open_session(id) {
            Ok(session) => session.queue_prompt_turn(responder, turn),
            Err(error) => responder.respond_with_error(error),
        }
    }

    /// Cancels the turns of a session, as `session/cancel` requires. Does nothing if the session is
    /// not open.
    pub fn cancel(&self, id: &SessionId) {
        if let Ok(session) = self.find_open_session(id) {
            session.cancel();
        }
    }

    /// Removes a session, closes it within `deadline`, and then responds to the `session/close`
    /// request.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no session with this id and the error response cannot be sent,
    /// because the connection is closed.
    ///
    /// # Panics
    ///
    /// Panics if it is called outside a tokio runtime.
    pub fn close_and_respond(
        &self,
        id: &SessionId,
        responder: Responder<CloseSessionResponse>,
        deadline: Duration,
    ) -> Result<()> {
        let mut sessions = lock(&self.0);
        let Some(session) = sessions.open.remove(id) else {
            drop(sessions);
            return responder.respond_with_error(errors::unknown_session_error());
        };
        sessions.closing.retain(|closing| !closing.is_finished());
        sessions.closing.push(tokio::spawn(async move {
            session.close(deadline).await;
            // Ignore the error, because the connection may be closed by now.
            drop(responder.respond(CloseSessionResponse::new()));
        }));
        Ok(())
    }

    /// Removes and closes every session within `deadline`. Call this method in `on_close` of the
    /// connection's builder. The builder waits for `on_close`.
    pub async fn close_all(&self, deadline: Duration) {
        let (open, closing) = {
            let mut sessions = lock(&self.0);
            sessions.is_closed = true;
            (take(&mut sessions.open), take(&mut sessions.closing))
        };
        let open = join_all(open.values().map(|session| session.close(deadline)));
        // Limit the wait, because a close that began earlier may have a later deadline.
        let closing = timeout(deadline, join_all(closing));
        let (_, in_time) = futures::join!(open, closing);
        drop(in_time);
    }
}
