//! Client requests whose responses are sent in order with the session's updates.
//!
//! Each request is answered exactly once. A response is sent after all updates that were created
//! before it. After the session has sent its last item, a response is sent at once.

use std::fmt;
use std::sync::{Arc, Mutex};

use acp_lifecycle::{AgentResponseId, ClientUnreachable, SessionHandle};
use acp_types::TurnId;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::{JsonRpcResponse, Result};

use crate::errors;
use crate::lock::lock;

/// The unanswered requests of one session.
#[derive(Clone, Default)]
pub(crate) struct PendingResponses(Arc<Mutex<ResponseQueue>>);

#[derive(Default)]
struct ResponseQueue {
    /// The requests in the order of arrival.
    requests: Vec<(PendingResponseId, Box<dyn PendingResponse>)>,
    /// Number of requests, other than prompts, so far. The number is used as the id of the next
    /// request.
    response_count: u64,
    /// Whether the session's sink was dropped. Responses are then no longer ordered with updates.
    is_closed: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PendingResponseId {
    Turn(TurnId),
    Response(AgentResponseId),
}

/// The slot for a response.
pub(crate) type ResponseSlot<T> = Arc<Mutex<Option<Result<T>>>>;

/// A request of any type that waits for its response.
trait PendingResponse: Send {
    fn is_ready_to_send(&self) -> bool;

    fn send_answer_or_fallback_if_none(self: Box<Self>) -> Result<()>;
}

struct PendingResponder<T: JsonRpcResponse> {
    responder: Responder<T>,
    slot: ResponseSlot<T>,
    /// The response that is sent if the session ends before the request is answered.
    fallback: Result<T>,
}

impl<T: JsonRpcResponse> PendingResponse for PendingResponder<T> {
    fn is_ready_to_send(&self) -> bool {
        lock(&self.slot).is_some()
    }

    fn send_answer_or_fallback_if_none(self: Box<Self>) -> Result<()> {
        let answer = lock(&self.slot).take();
        self.responder.respond_with_result(answer.unwrap_or(self.fallback))
    }
}

impl PendingResponses {
    /// Registers a request, and returns the slot for its response.
    pub(crate) fn register<T: JsonRpcResponse>(
        &self,
        id: PendingResponseId,
        responder: Responder<T>,
        cut_off: Result<T>,
    ) -> ResponseSlot<T> {
        let slot = ResponseSlot::default();
        let mut unanswered = lock(&self.0);
        if unanswered.is_closed {
            drop(unanswered);
            // Ignore the error, because the connection may be closed too.
            drop(responder.respond_with_error(errors::session_closing_error()));
        } else {
            let request = PendingResponder { responder, slot: slot.clone(), fallback: cut_off };
            unanswered.requests.push((id, Box::new(request)));
        }
        slot
    }

    fn next_response_id(&self) -> AgentResponseId {
        let mut unanswered = lock(&self.0);
        unanswered.response_count += 1;
        AgentResponseId::new(unanswered.response_count)
    }

    /// Sends the response to a request if the response is available. If the response is not
    /// available, the request is kept, and this method must be called for the request again.
    pub(crate) fn send_response_if_available(
        &self,
        id: &PendingResponseId,
    ) -> std::result::Result<(), ClientUnreachable> {
        let waiting = {
            let mut unanswered = lock(&self.0);
            let is_due = |(other, waiting): &(PendingResponseId, Box<dyn PendingResponse>)| {
                other == id && waiting.is_ready_to_send()
            };
            let at = unanswered.requests.iter().position(is_due);
            at.map(|at| unanswered.requests.remove(at).1)
        };
        waiting.map_or(Ok(()), PendingResponse::send_answer_or_fallback_if_none).map_err(|error| {
            tracing::debug!(code = ?error.code, "a response could not be sent");
            ClientUnreachable
        })
    }

    /// Answers every waiting request now, and every later request as soon as it is registered.
    pub(crate) fn respond_all_and_close(&self) {
        let requests = {
            let mut unanswered = lock(&self.0);
            unanswered.is_closed = true;
            std::mem::take(&mut unanswered.requests)
        };
        for (_, waiting) in requests {
            drop(waiting.send_answer_or_fallback_if_none());
        }
    }
}

/// A request of the client other than a prompt. The response is sent after all items that were sent
/// before [`respond`](Self::respond) was called.
///
/// A request that is dropped without a response, e.g. by a panic, is answered with an error. If the
/// session closes first, the request is answered with a different error.
#[must_use = "dropping it answers by an error"]
pub struct OpenRequest<T: JsonRpcResponse> {
    handle: SessionHandle,
    id: AgentResponseId,
    slot: ResponseSlot<T>,
}

impl<T: JsonRpcResponse> OpenRequest<T> {
    pub(crate) fn new(
        handle: SessionHandle,
        answers: &PendingResponses,
        responder: Responder<T>,
    ) -> Self {
        let id = answers.next_response_id();
        let cut_off = Err(errors::session_closing_error());
        let slot = answers.register(PendingResponseId::Response(id), responder, cut_off);
        Self { handle, id, slot }
    }

    /// Sends the response after all items that were sent before this call.
    pub fn respond(self, answer: Result<T>) {
        *lock(&self.slot) = Some(answer);
    }
}

impl<T: JsonRpcResponse> Drop for OpenRequest<T> {
    fn drop(&mut self) {
        lock(&self.slot).get_or_insert_with(|| Err(errors::panicked_error()));
        self.handle.update(|session, now| session.enqueue_agent_response(self.id, now));
    }
}

impl<T: JsonRpcResponse> fmt::Debug for OpenRequest<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenRequest").field("id", &self.id).finish_non_exhaustive()
    }
}
