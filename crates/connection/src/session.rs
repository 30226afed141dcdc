//! One session: its prompts, its cancellation and close, and the task that sends its items.

use std::fmt;
use std::future::pending;
use std::mem::replace;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{CancellationToken, OutboxItem, Session, SessionHandle, drive_session};
use acp_transport::TransportCounters;
use acp_types::CallEndReason;
use acp_types::meta::DEFAULT_KEY;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, PromptResponse, SessionId, StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, JsonRpcResponse, Result};
use futures::FutureExt as _;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;

use crate::lock::lock;
use crate::paced_connection::PacedConnection;
use crate::pending_responses::{OpenRequest, PendingResponses};
use crate::prompts::{OpenPrompt, OpenTurns, Turn, cancelled_response};
use crate::requests::ClientRequestSender;
use crate::sink::{ClientSink, DeliveryHook, PermissionAnswerHook};
use crate::{errors, limits};

/// An open session of a client. Cheap to clone.
///
/// The session sends items of its [`handle`](Self::handle), requests of its
/// [`request_sender`](Self::request_sender) and its responses in one order. If a request's
/// responder is passed to the session, the request is answered exactly once.
///
/// When the last clone is dropped or the connection is closed, turns are cancelled and dropped. A
/// turn should therefore keep its [`Turn::session`], not a clone of the `ClientSession`.
#[derive(Clone)]
pub struct ClientSession(Arc<SessionOwner>);

/// The state that all clones of a session share. The session's tasks hold no reference to this
/// state, so they do not keep the session alive.
struct SessionOwner {
    state: Arc<SessionTaskState>,
    requests: ClientRequestSender,
}

/// The settings of a session that is not open yet. [`ClientSession::builder`] creates the builder.
#[must_use = "it does nothing until it is opened"]
pub struct ClientSessionBuilder {
    id: SessionId,
    handle: SessionHandle,
    capabilities: ClientCapabilities,
    client: ConnectionTo<Client>,
    counters: Option<Arc<TransportCounters>>,
    meta_key: String,
    waiting_prompts: usize,
    after_answer: Option<PermissionAnswerHook>,
    before_delivery: Option<DeliveryHook>,
    turn_count: u64,
}

impl ClientSessionBuilder {
    /// Returns the handle of the future session.
    #[must_use]
    pub fn session_handle(&self) -> &SessionHandle {
        &self.handle
    }

    /// Sets the transport's counters, so that the session sends no faster than the transport
    /// writes. Without the counters, messages for a client that reads slowly fill the memory of the
    /// process.
    pub fn with_transport_counters(
        self,
        counters: impl Into<Option<Arc<TransportCounters>>>,
    ) -> Self {
        Self { counters: counters.into(), ..self }
    }

    /// Sets the key of metadata in `_meta`. The default is `callboard`. A key of more than 64 bytes
    /// is truncated.
    pub fn with_meta_key(self, key: impl Into<String>) -> Self {
        Self { meta_key: key.into(), ..self }
    }

    /// Sets how many prompts may wait for earlier turns. The default is 8, and the maximum is 64. A
    /// further prompt is answered as busy. If the number is zero, each prompt is refused while a
    /// turn runs. The setting applies to [`ClientSession::queue_prompt_turn`], not to
    /// [`ClientSession::open_prompt`].
    pub fn with_max_waiting_prompts(self, prompts: usize) -> Self {
        Self { waiting_prompts: prompts.min(limits::WAITING_PROMPTS_BOUND), ..self }
    }

    /// Sets a hook that runs after each answer of the client to a permission request. The hook can,
    /// for example, save the result of [`Session::take_rule_changes`]. The session does not wait
    /// for the hook.
    pub fn with_permission_answer_hook<R>(
        self,
        then: impl Fn() -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = ()> + Send + 'static,
    {
        Self { after_answer: Some(Arc::new(move || then().boxed())), ..self }
    }

    /// Sets a hook that runs before each item is sent, in the order of the items. The hook can, for
    /// example, commit a record of the item. The session sends nothing until the hook has finished.
    pub fn with_before_delivery_hook<R>(
        self,
        mut then: impl FnMut(&OutboxItem) -> R + Send + 'static,
    ) -> Self
    where
        R: Future<Output = ()> + Send + 'static,
    {
        Self { before_delivery: Some(Box::new(move |item| then(item).boxed())), ..self }
    }

    /// Sets how many turns the session had in earlier processes, so that turn ids stay unique.
    pub fn with_earlier_turn_count(self, turn_count: u64) -> Self {
        Self { turn_count, ..self }
    }

    /// Opens the session. Spawns, in the current span, the task that sends the session's items.
    ///
    /// # Panics
    ///
    /// Panics if it is called outside a tokio runtime.
    #[must_use]
    pub fn open(self) -> ClientSession {
        let line = PacedConnection::new(self.client.clone(), self.counters);
        let requests = ClientRequestSender::new(self.handle.clone(), line);
        let ended = CancellationToken::new();
        ended.cancel();
        let state = Arc::new(SessionTaskState {
            id: self.id,
            capabilities: self.capabilities,
            waiting_prompts: self.waiting_prompts,
            handle: self.handle,
            answers: PendingResponses::default(),
            turns: Arc::new(OpenTurns::with_earlier_turn_count(self.turn_count)),
            last_turn_ended: Mutex::new(ended),
            closing: CancellationToken::new(),
            aborting: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        let sink = ClientSink::new(
            state.id.clone(),
            state.handle.clone(),
            state.answers.clone(),
            requests.clone(),
            &state.capabilities,
            self.meta_key,
            self.after_answer,
            self.before_delivery,
        );
        drop(tokio::spawn(state.clone().run_sender(sink, self.client).in_current_span()));
        ClientSession(Arc::new(SessionOwner { state, requests }))
    }
}

impl ClientSession {
    /// Opens a session with default settings, and spawns the task that sends its items. To change
    /// the settings, use [`builder`](Self::builder).
    ///
    /// # Panics
    ///
    /// Panics if it is called outside a tokio runtime.
    #[must_use]
    pub fn open(
        id: impl Into<SessionId>,
        session: Session,
        capabilities: &ClientCapabilities,
        client: ConnectionTo<Client>,
    ) -> Self {
        Self::builder(id, session, capabilities, client).open()
    }

    /// Creates the builder of a session for a client with these capabilities.
    pub fn builder(
        id: impl Into<SessionId>,
        session: Session,
        capabilities: &ClientCapabilities,
        client: ConnectionTo<Client>,
    ) -> ClientSessionBuilder {
        ClientSessionBuilder {
            id: id.into(),
            handle: SessionHandle::new(session, SystemTime::now),
            capabilities: capabilities.clone(),
            client,
            counters: None,
            meta_key: DEFAULT_KEY.to_owned(),
            waiting_prompts: limits::MAX_WAITING_PROMPTS,
            after_answer: None,
            before_delivery: None,
            turn_count: 0,
        }
    }

    /// Returns the session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.0.state.id
    }

    /// Returns the client's capabilities from its `initialize` request.
    #[must_use]
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.0.state.capabilities
    }

    /// Returns the handle that sends calls, messages and plans.
    #[must_use]
    pub fn handle(&self) -> &SessionHandle {
        &self.0.state.handle
    }

    /// Returns the sender of requests to the client: files, terminals, forms.
    #[must_use]
    pub fn request_sender(&self) -> &ClientRequestSender {
        &self.0.requests
    }

    /// Runs the turn of a prompt. Responds with the result of the turn, after all items that the
    /// turn sent.
    ///
    /// Turns run one after the other. By default, up to 8 prompts wait, and a further prompt is
    /// answered as busy. A turn that was cancelled by [`cancel`](Self::cancel), `$/cancel_request`
    /// or [`close`](Self::close) is answered with `cancelled`, regardless of its result. A turn
    /// that is cancelled while it waits is never run. A panic of a turn is answered with an error.
    /// A `$/cancel_request` for a waiting prompt is answered with an error at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the prompt is refused and the refusal cannot be sent, because the
    /// connection is closed.
    pub fn queue_prompt_turn<R>(
        &self,
        responder: Responder<PromptResponse>,
        turn: impl FnOnce(Turn) -> R + Send + 'static,
    ) -> Result<()>
    where
        R: Future<Output = Result<StopReason>> + Send + 'static,
    {
        let state = &self.0.state;
        if state.closing.is_cancelled() {
            return responder.respond_with_error(errors::session_closing_error());
        }
        let waiting = state.waiting_prompts;
        if state.turns.unanswered_count() > waiting {
            let what =
                format!("The limit of waiting prompts is {waiting}; wait for the turn to end");
            return responder.respond_with_error(errors::retry_later_error(&what));
        }
        let prompt = self.open_prompt(responder);
        let after = CancellationToken::new();
        let before = replace(&mut *lock(&state.last_turn_ended), after.clone());
        let run = state.clone().run_turn_and_respond(prompt, before, after, turn);
        drop(tokio::spawn(run.in_current_span()));
        Ok(())
    }

    /// Opens a prompt whose turn the caller runs. Use this method if turns must run in a different
    /// order than with [`queue_prompt_turn`](Self::queue_prompt_turn). This method is also useful
    /// if turns share state that only one turn may change at a time.
    pub fn open_prompt(&self, responder: Responder<PromptResponse>) -> OpenPrompt {
        let SessionTaskState { handle, answers, turns, .. } = &*self.0.state;
        OpenPrompt::new(handle.clone(), answers, turns.clone(), responder)
    }

    /// Opens a request, other than a prompt, whose response must be sent after earlier updates. An
    /// example is a change of the mode, because the change is also sent as an update.
    pub fn open_request<T: JsonRpcResponse>(&self, responder: Responder<T>) -> OpenRequest<T> {
        let SessionTaskState { handle, answers, .. } = &*self.0.state;
        OpenRequest::new(handle.clone(), answers, responder)
    }

    /// Cancels the running turn and every waiting prompt, as `session/cancel` requires.
    pub fn cancel(&self) {
        self.0.state.turns.cancel_all();
    }

    /// Cancels every turn, and waits until the ends of all turns are sent. Turns that still run
    /// after `deadline` are dropped. Dropping these turns takes at most 300 ms more. Later prompts
    /// are refused.
    ///
    /// Call this method in `on_close` of the connection's builder, because responses are not sent
    /// after `on_close`. The builder waits for `on_close`.
    pub async fn close(&self, deadline: Duration) {
        let state = &self.0.state;
        state.begin_close();
        if timeout(deadline, state.closed.cancelled()).await.is_err() {
            state.aborting.cancel();
            drop(timeout(limits::FINAL_FLUSH_TIMEOUT, state.closed.cancelled()).await);
        }
    }
}

impl Drop for SessionOwner {
    /// Aborts the session's turns when its last handle is dropped.
    fn drop(&mut self) {
        self.state.close_and_abort_turns();
    }
}

/// The state that the tasks of a session share.
struct SessionTaskState {
    id: SessionId,
    capabilities: ClientCapabilities,
    waiting_prompts: usize,
    handle: SessionHandle,
    answers: PendingResponses,
    turns: Arc<OpenTurns>,
    /// Cancelled when the newest turn and all earlier turns have ended.
    last_turn_ended: Mutex<CancellationToken>,
    /// Cancelled when no further prompt is accepted.
    closing: CancellationToken,
    /// Cancelled when running turns are aborted.
    aborting: CancellationToken,
    /// Cancelled when all items are sent.
    closed: CancellationToken,
}

impl SessionTaskState {
    /// Sends the session's items until the session is closed and all items are sent.
    async fn run_sender(self: Arc<Self>, sink: ClientSink, client: ConnectionTo<Client>) {
        let _closed = self.closed.clone().drop_guard();
        let stop = CancellationToken::new();
        let ending = async {
            tokio::select! {
                () = self.closing.cancelled() => {}
                _ = client.terminated() => self.close_and_abort_turns(),
            }
            let given_up = async {
                self.aborting.cancelled().await;
                sleep(limits::ABORTED_TURN_TIMEOUT).await;
            };
            tokio::select! {
                () = self.turns.wait_until_all_ended() => {}
                () = given_up => {}
            }
            // After `end_turn`, a turn that still runs cannot announce further calls.
            for turn in self.turns.ids() {
                self.handle.end_turn(&turn, CallEndReason::Shutdown);
            }
            self.handle.end_all_calls(CallEndReason::Shutdown);
            stop.cancel();
        };
        tokio::join!(drive_session(self.handle.clone(), sink, stop.clone()), ending);
    }

    /// Runs a turn after all earlier turns have ended, and answers its prompt.
    async fn run_turn_and_respond<R>(
        self: Arc<Self>,
        prompt: OpenPrompt,
        before: CancellationToken,
        after: CancellationToken,
        turn: impl FnOnce(Turn) -> R + Send,
    ) where
        R: Future<Output = Result<StopReason>> + Send,
    {
        let _after = after.drop_guard();
        let (withdrawn, cancel) =
            (prompt.request_cancelled_signal().clone(), prompt.turn().cancel.clone());
        tokio::select! {
            biased;
            () = before.cancelled() => {}
            () = withdrawn.cancelled() => {
                prompt.withdraw_and_respond();
                return before.cancelled().await;
            }
        }
        if withdrawn.is_cancelled() {
            cancel.cancel();
        }
        let life = async {
            let answer = match cancel.is_cancelled() {
                true => Ok(cancelled_response()),
                false => self.run_turn_unless_aborted(prompt.turn().clone(), turn).await,
            };
            let is_closing = self.closing.is_cancelled();
            prompt.end_turn_and_respond(
                answer,
                if is_closing { CallEndReason::Shutdown } else { CallEndReason::Turn },
            );
        };
        let pass_on = async {
            withdrawn.cancelled().await;
            cancel.cancel();
            pending::<()>().await;
        };
        tokio::select! {
            () = life => {}
            () = pass_on => {}
        }
    }

    async fn run_turn_unless_aborted<R>(
        &self,
        turn: Turn,
        run: impl FnOnce(Turn) -> R,
    ) -> Result<PromptResponse>
    where
        R: Future<Output = Result<StopReason>>,
    {
        let cancel = turn.cancel.clone();
        let running = AssertUnwindSafe(async { run(turn).await }).catch_unwind();
        let result = tokio::select! {
            result = running => result.unwrap_or_else(|_| Err(errors::panicked_error())),
            () = self.aborting.cancelled() => Ok(StopReason::Cancelled),
        };
        match cancel.is_cancelled() {
            true => Ok(cancelled_response()),
            false => result.map(PromptResponse::new),
        }
    }

    fn begin_close(&self) {
        self.closing.cancel();
        self.handle.update(|session, _| session.mark_closing());
        self.turns.close_and_cancel_all();
    }

    fn close_and_abort_turns(&self) {
        self.begin_close();
        self.aborting.cancel();
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientSession").field("id", self.id()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientSessionBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientSessionBuilder").field("id", &self.id).finish_non_exhaustive()
    }
}
