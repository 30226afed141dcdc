//! The requests of the client that are answered in the order of what the session sends.
//!
//! Each is answered exactly once: in its turn, or at once when the session sends nothing more.

use std::fmt;
use std::sync::{Arc, Mutex};

use acp_lifecycle::{ResponseId, SessionHandle, Unreachable};
use acp_types::TurnId;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::{JsonRpcResponse, Result};

use crate::errors;
use crate::lock::lock;

/// The requests of one session that wait for their answers.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<Unanswered>>);

#[derive(Default)]
struct Unanswered {
    /// In the order in which they came.
    requests: Vec<(AnswerId, Box<dyn Waiting>)>,
    /// How many of them were no prompts, which names them.
    count: u64,
    /// Whether the session's sink is gone, so that nothing has a turn any more.
    is_over: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnswerId {
    Turn(TurnId),
    Response(ResponseId),
}

/// The place for an answer.
pub(crate) type Slot<T> = Arc<Mutex<Option<Result<T>>>>;

/// A request of any type that waits for its answer.
trait Waiting: Send {
    fn is_decided(&self) -> bool;

    fn answer(self: Box<Self>) -> Result<()>;
}

struct Request<T: JsonRpcResponse> {
    responder: Responder<T>,
    slot: Slot<T>,
    /// What is answered where the session ends first.
    cut_off: Result<T>,
}

impl<T: JsonRpcResponse> Waiting for Request<T> {
    fn is_decided(&self) -> bool {
        lock(&self.slot).is_some()
    }

    fn answer(self: Box<Self>) -> Result<()> {
        let answer = lock(&self.slot).take();
        self.responder.respond_with_result(answer.unwrap_or(self.cut_off))
    }
}

impl Answers {
    /// Notes who waits for an answer, and returns the place for it.
    pub(crate) fn keep<T: JsonRpcResponse>(
        &self,
        id: AnswerId,
        responder: Responder<T>,
        cut_off: Result<T>,
    ) -> Slot<T> {
        let slot = Slot::default();
        let mut unanswered = lock(&self.0);
        if unanswered.is_over {
            drop(unanswered);
            // The connection may be gone as well, and with it the client.
            drop(responder.respond_with_error(errors::session_closing()));
        } else {
            let request = Request { responder, slot: slot.clone(), cut_off };
            unanswered.requests.push((id, Box::new(request)));
        }
        slot
    }

    fn next_response(&self) -> ResponseId {
        let mut unanswered = lock(&self.0);
        unanswered.count += 1;
        ResponseId::new(unanswered.count)
    }

    /// Sends an answer whose turn has come, unless it is still to be decided: then it comes again.
    pub(crate) fn send(&self, id: &AnswerId) -> std::result::Result<(), Unreachable> {
        let waiting = {
            let mut unanswered = lock(&self.0);
            let is_due = |(other, waiting): &(AnswerId, Box<dyn Waiting>)| {
                other == id && waiting.is_decided()
            };
            let at = unanswered.requests.iter().position(is_due);
            at.map(|at| unanswered.requests.remove(at).1)
        };
        waiting.map_or(Ok(()), Waiting::answer).map_err(|error| {
            tracing::debug!(code = ?error.code, "an answer could not be sent");
            Unreachable
        })
    }

    /// Answers every request that waits, and each that comes later at once.
    pub(crate) fn end(&self) {
        let requests = {
            let mut unanswered = lock(&self.0);
            unanswered.is_over = true;
            std::mem::take(&mut unanswered.requests)
        };
        for (_, waiting) in requests {
            drop(waiting.answer());
        }
    }
}

/// A request of the client that is no prompt, and is answered behind what was sent before its
/// [`answer`](Self::answer).
///
/// Dropped without an answer, also by a panic, it is answered by an error; and by another one where
/// the session closes first.
#[must_use = "dropping it answers by an error"]
pub struct OpenRequest<T: JsonRpcResponse> {
    handle: SessionHandle,
    id: ResponseId,
    slot: Slot<T>,
}

impl<T: JsonRpcResponse> OpenRequest<T> {
    pub(crate) fn new(handle: SessionHandle, answers: &Answers, responder: Responder<T>) -> Self {
        let id = answers.next_response();
        let cut_off = Err(errors::session_closing());
        let slot = answers.keep(AnswerId::Response(id), responder, cut_off);
        Self { handle, id, slot }
    }

    /// Answers it, behind everything that was sent before.
    pub fn answer(self, answer: Result<T>) {
        *lock(&self.slot) = Some(answer);
    }
}

impl<T: JsonRpcResponse> Drop for OpenRequest<T> {
    fn drop(&mut self) {
        lock(&self.slot).get_or_insert_with(|| Err(errors::panicked()));
        self.handle.with(|session, now| session.respond(self.id, now));
    }
}

impl<T: JsonRpcResponse> fmt::Debug for OpenRequest<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenRequest").field("id", &self.id).finish_non_exhaustive()
    }
}
