//! The prompts of a session that are not answered, and their turns.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use acp_lifecycle::{CancellationToken, SessionHandle};
use acp_types::{CallEndReason, TurnId};
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptResponse, StopReason};
use agent_client_protocol::{RequestCancellation, Result};
use tokio::sync::Notify;

use crate::lock::lock;
use crate::pending_responses::{PendingResponseId, PendingResponses, ResponseSlot};

/// The turn of a prompt, for your loop.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Turn {
    /// Its name, by which its calls are announced. No two turns of a session have the same.
    pub id: TurnId,
    /// Says that it is to end: the client cancelled it, the session closes, or it is answered.
    pub cancel: CancellationToken,
    /// By which it sends what it has to say, and makes its calls.
    pub session: SessionHandle,
}

/// A prompt that is not answered. The answer goes out behind everything of its turn.
///
/// Dropped without an end, also by a panic, it ends as [`Reason::Dropped`], and is answered
/// `cancelled`. So it is where the session is closed first.
#[must_use = "dropping it answers the prompt"]
pub struct OpenPrompt {
    turn: Turn,
    request_cancellation: RequestCancellation,
    slot: ResponseSlot<PromptResponse>,
    reason: CallEndReason,
    turns: Arc<OpenTurns>,
}

impl OpenPrompt {
    pub(crate) fn new(
        session: SessionHandle,
        answers: &PendingResponses,
        turns: Arc<OpenTurns>,
        responder: Responder<PromptResponse>,
    ) -> Self {
        let (id, cancel) = turns.begin();
        let turn = Turn { id, cancel, session };
        let request_cancellation = responder.cancellation();
        let id = PendingResponseId::Turn(turn.id.clone());
        let slot = answers.register(id, responder, Ok(cancelled_response()));
        Self { turn, request_cancellation, slot, reason: CallEndReason::Dropped, turns }
    }

    /// Returns its turn.
    #[must_use]
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Returns what says that the client sent `$/cancel_request` for the prompt. It does not cancel the
    /// turn by itself: a prompt that waits may be answered in another way.
    ///
    /// (<https://agentclientprotocol.com/protocol/cancellation>)
    #[must_use]
    pub fn request_cancellation(&self) -> &RequestCancellation {
        &self.request_cancellation
    }

    /// Ends what is open of the turn, for this reason, and answers.
    pub fn end(mut self, answer: Result<PromptResponse>, reason: CallEndReason) {
        *lock(&self.slot) = Some(answer);
        self.reason = reason;
    }
}

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        lock(&self.slot).get_or_insert_with(|| Ok(cancelled_response()));
        self.turn.session.end_turn(&self.turn.id, self.reason);
        // Nothing of this turn runs on behind its answer.
        self.turn.cancel.cancel();
        self.turns.end(&self.turn.id);
    }
}

impl fmt::Debug for OpenPrompt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenPrompt").field("turn", &self.turn).finish_non_exhaustive()
    }
}

pub(crate) fn cancelled_response() -> PromptResponse {
    PromptResponse::new(StopReason::Cancelled)
}

/// The turns of a session whose prompts are not answered.
#[derive(Default)]
pub(crate) struct OpenTurns {
    turns: Mutex<TurnRegistry>,
    /// Notified whenever one ends.
    ended: Notify,
}

#[derive(Default)]
struct TurnRegistry {
    cancel_tokens: HashMap<TurnId, CancellationToken>,
    /// Prompts taken so far, which name their turns.
    turn_count: u64,
    /// Whether a turn is cancelled before it begins.
    is_closed: bool,
}

impl OpenTurns {
    fn begin(&self) -> (TurnId, CancellationToken) {
        let mut turns = lock(&self.turns);
        turns.turn_count += 1;
        let id = TurnId::from(format!("t{}", turns.turn_count));
        let cancel = CancellationToken::new();
        if turns.is_closed {
            cancel.cancel();
        }
        turns.cancel_tokens.insert(id.clone(), cancel.clone());
        (id, cancel)
    }

    fn end(&self, turn: &TurnId) {
        lock(&self.turns).cancel_tokens.remove(turn);
        self.ended.notify_waiters();
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.turns).cancel_tokens.len()
    }

    /// Returns the names of the turns.
    pub(crate) fn ids(&self) -> Vec<TurnId> {
        lock(&self.turns).cancel_tokens.keys().cloned().collect()
    }

    pub(crate) fn cancel_all(&self) {
        lock(&self.turns).cancel_tokens.values().for_each(CancellationToken::cancel);
    }

    /// Cancels every turn, and each that begins later.
    pub(crate) fn close(&self) {
        lock(&self.turns).is_closed = true;
        self.cancel_all();
    }

    /// Waits until every prompt is answered.
    pub(crate) async fn wait_until_all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.count() == 0 {
                return;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OpenTurns;

    #[test]
    fn a_turn_that_begins_behind_the_close_is_cancelled() {
        let turns = OpenTurns::default();
        let (first, cancel) = turns.begin();
        assert!(!cancel.is_cancelled());
        turns.close();
        let (second, late) = turns.begin();
        assert!(cancel.is_cancelled() && late.is_cancelled());
        assert_ne!(first, second);
    }
}
