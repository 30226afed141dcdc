//! Where a session's items become messages of ACP v1: the only place that sends for a session.

#![expect(clippy::disallowed_methods, reason = "this is where the outbox hands over")]

mod ask;
mod notification;
mod requests;
mod shows;
mod terminals;
mod texts;

use std::fmt;
use std::sync::{Arc, Mutex};

use acp_lifecycle::{Item, ResponseId, SessionHandle, Sink, Unreachable};
use acp_tools::{TerminalBackend, TextBackend};
use acp_transport::Counters;
use acp_types::TurnId;
use acp_types::wire::v1::{Sent, Surface, Update};
use agent_client_protocol::v1::schema::{
    ClientCapabilities, PromptResponse, SessionId, StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, JsonRpcResponse, Result};

use self::notification::UpdateNotification;
use self::requests::Requests;
use self::shows::Shows;
use self::terminals::ClientTerminals;
use self::texts::ClientTexts;
use crate::errors;
use crate::lock::lock;
use crate::permission::Keeper;

/// The client of one session.
pub(crate) struct Wire {
    session: SessionId,
    handle: SessionHandle,
    answers: Answers,
    requests: Requests,
    /// What the client holds of files, if it tells of that.
    texts: Option<ClientTexts>,
    /// Its terminals, if it runs commands.
    terminals: Option<ClientTerminals>,
    sent: Sent,
    shows: Shows,
    client: ConnectionTo<Client>,
    counters: Option<Arc<Counters>>,
    keeper: Option<Arc<Keeper>>,
}

impl Wire {
    pub(crate) fn new(
        session: SessionId,
        handle: SessionHandle,
        answers: Answers,
        capabilities: &ClientCapabilities,
        client: ConnectionTo<Client>,
        counters: Option<Arc<Counters>>,
        meta_key: &str,
    ) -> Self {
        let surface = Surface::of(capabilities);
        handle.with(|session, _| session.set_shows_terminals(surface == Surface::Meta));
        let sent = Sent::new(surface).with_meta_key(meta_key);
        let shows = Shows::of(capabilities);
        let requests = Requests::new(handle.clone(), client.clone(), counters.clone());
        let texts = ClientTexts::of(&capabilities.fs, &session, &requests);
        let terminals = ClientTerminals::of(capabilities, &session, &requests);
        Self {
            session,
            handle,
            answers,
            requests,
            texts,
            terminals,
            sent,
            shows,
            client,
            counters,
            keeper: None,
        }
    }

    /// Returns the texts of files that the client holds, if it tells of them.
    pub(crate) fn texts(&self) -> Option<Arc<dyn TextBackend>> {
        self.texts.clone().map(|texts| Arc::new(texts) as _)
    }

    /// Returns the terminals of the client, if it runs commands.
    pub(crate) fn terminals(&self) -> Option<Arc<dyn TerminalBackend>> {
        self.terminals.clone().map(|terminals| Arc::new(terminals) as _)
    }

    /// Lets what answers leave behind be saved.
    pub(crate) fn kept_by(mut self, keeper: Option<Arc<Keeper>>) -> Self {
        self.keeper = keeper;
        self
    }

    fn hand_over(&self) {
        if let Some(counters) = &self.counters {
            counters.hand_over();
        }
    }

    fn update(&self, update: Update) -> std::result::Result<(), Unreachable> {
        let notification = update.in_session(self.session.clone());
        self.client.send_notification(UpdateNotification(notification)).map_err(|error| {
            tracing::debug!(code = ?error.code, "an update could not be sent");
            Unreachable
        })?;
        self.hand_over();
        Ok(())
    }

    fn updates(&self, updates: Vec<Update>) -> std::result::Result<(), Unreachable> {
        updates.into_iter().try_for_each(|update| self.update(update))
    }
}

impl Sink for Wire {
    async fn ready(&mut self) {
        if let Some(counters) = &self.counters {
            counters.credit().await;
        }
    }

    fn deliver(&mut self, item: Item) -> std::result::Result<(), Unreachable> {
        match item {
            Item::ToolCall(id, patch) => {
                let updates = self.sent.tool_call(&id, patch);
                self.updates(updates)
            }
            Item::Terminal(id, patch) => {
                let updates = self.sent.terminal(&id, &patch);
                self.updates(updates)
            }
            Item::Chunk(chunk) => self.update(self.sent.chunk(&chunk)),
            Item::Plan(plan) => self.update(self.sent.plan(&plan)),
            Item::State(state) => self.update(self.shows.fit(&state, &self.sent)),
            Item::Permission(number) => self.ask(number),
            Item::Reason(number) => {
                self.ask_why(number);
                Ok(())
            }
            Item::Request(number) => {
                self.request(number);
                Ok(())
            }
            Item::Answer(turn) => self.answers.send(&AnswerId::Turn(turn)),
            Item::Response(id) => self.answers.send(&AnswerId::Other(id)),
            _ => Ok(()),
        }
    }
}

impl Drop for Wire {
    /// The driver has sent all there is to send.
    fn drop(&mut self) {
        self.requests.end();
        self.answers.end();
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Wire").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The requests of the client that are answered in the order of what the session sends: prompts,
/// and changes of its options.
///
/// Each is answered exactly once: in its turn, or at once when the session sends nothing more.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<Unanswered>>);

#[derive(Default)]
struct Unanswered {
    /// In the order in which they came.
    requests: Vec<(AnswerId, Pending)>,
    /// Whether the session's [`Wire`] is gone, so that nothing has a turn any more.
    is_over: bool,
}

/// The place for the answer to a request that is no prompt.
pub(crate) type AnswerSlot<T> = Arc<Mutex<Option<Result<T>>>>;

#[derive(Debug, PartialEq, Eq)]
enum AnswerId {
    Turn(TurnId),
    Other(ResponseId),
}

enum Pending {
    Turn(Box<(Responder<PromptResponse>, Option<Result<PromptResponse>>)>),
    Other(Box<dyn FnOnce() -> Result<()> + Send>),
}

impl Answers {
    /// Notes who waits for the answer of a turn.
    pub(crate) fn expect(&self, turn: &TurnId, responder: Responder<PromptResponse>) {
        self.add(AnswerId::Turn(turn.clone()), Pending::Turn(Box::new((responder, None))));
    }

    /// Notes who waits for an answer that is no turn's, and returns the place for it. Where it is
    /// empty when the session ends, the request is answered by an error.
    pub(crate) fn keep<T: JsonRpcResponse>(
        &self,
        id: ResponseId,
        responder: Responder<T>,
    ) -> AnswerSlot<T> {
        let slot = AnswerSlot::default();
        let kept = slot.clone();
        let send = move || {
            let answer = lock(&kept).take();
            responder.respond_with_result(answer.unwrap_or_else(|| Err(errors::session_closing())))
        };
        self.add(AnswerId::Other(id), Pending::Other(Box::new(send)));
        slot
    }

    /// Sets what the answer will be.
    pub(crate) fn set(&self, turn: &TurnId, answer: Result<PromptResponse>) {
        let mut unanswered = lock(&self.0);
        let pending = unanswered
            .requests
            .iter_mut()
            .find(|(id, _)| matches!(id, AnswerId::Turn(other) if other == turn));
        if let Some((_, Pending::Turn(pending))) = pending {
            pending.1 = Some(answer);
        }
    }

    fn add(&self, id: AnswerId, pending: Pending) {
        let mut unanswered = lock(&self.0);
        if !unanswered.is_over {
            unanswered.requests.push((id, pending));
            return;
        }
        drop(unanswered);
        // The connection may be gone as well, and with it whoever asked.
        drop(pending.answer());
    }

    fn send(&self, id: &AnswerId) -> std::result::Result<(), Unreachable> {
        let pending = {
            let mut unanswered = lock(&self.0);
            let at = unanswered.requests.iter().position(|(other, _)| other == id);
            at.map(|at| unanswered.requests.remove(at).1)
        };
        pending.map_or(Ok(()), Pending::answer).map_err(|error| {
            tracing::debug!(code = ?error.code, "an answer could not be sent");
            Unreachable
        })
    }

    /// Answers every request that waits, and each that comes later at once.
    fn end(&self) {
        let requests = {
            let mut unanswered = lock(&self.0);
            unanswered.is_over = true;
            std::mem::take(&mut unanswered.requests)
        };
        for (_, pending) in requests {
            drop(pending.answer());
        }
    }
}

impl Pending {
    /// A turn that has no answer yet was cut off.
    fn answer(self) -> Result<()> {
        match self {
            Self::Turn(turn) => match *turn {
                (responder, Some(answer)) => responder.respond_with_result(answer),
                (responder, None) => responder.respond(PromptResponse::new(StopReason::Cancelled)),
            },
            Self::Other(send) => send(),
        }
    }
}
