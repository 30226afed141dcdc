//! The prompts of a session that are not answered, and their turns.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use acp_lifecycle::{CancellationToken, SessionHandle};
use acp_types::{Reason, TurnId};
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptResponse, StopReason};
use agent_client_protocol::{RequestCancellation, Result};
use tokio::sync::Notify;

use crate::answers::{AnswerId, Answers, Slot};
use crate::lock::lock;

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
    withdrawn: RequestCancellation,
    slot: Slot<PromptResponse>,
    reason: Reason,
    turns: Arc<OpenTurns>,
}

impl OpenPrompt {
    pub(crate) fn new(
        session: SessionHandle,
        answers: &Answers,
        turns: Arc<OpenTurns>,
        responder: Responder<PromptResponse>,
    ) -> Self {
        let (id, cancel) = turns.begin();
        let turn = Turn { id, cancel, session };
        let withdrawn = responder.cancellation();
        let id = AnswerId::Turn(turn.id.clone());
        let slot = answers.keep(id, responder, Ok(cancelled()));
        Self { turn, withdrawn, slot, reason: Reason::Dropped, turns }
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
    pub fn withdrawn(&self) -> &RequestCancellation {
        &self.withdrawn
    }

    /// Ends what is open of the turn, for this reason, and answers.
    pub fn end(mut self, answer: Result<PromptResponse>, reason: Reason) {
        *lock(&self.slot) = Some(answer);
        self.reason = reason;
    }
}

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        lock(&self.slot).get_or_insert_with(|| Ok(cancelled()));
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

pub(crate) fn cancelled() -> PromptResponse {
    PromptResponse::new(StopReason::Cancelled)
}

/// The turns of a session whose prompts are not answered.
#[derive(Default)]
pub(crate) struct OpenTurns {
    turns: Mutex<Turns>,
    /// Notified whenever one ends.
    ended: Notify,
}

#[derive(Default)]
struct Turns {
    open: HashMap<TurnId, CancellationToken>,
    /// Prompts taken so far, which name their turns.
    count: u64,
    /// Whether a turn is cancelled before it begins.
    is_closed: bool,
}

impl OpenTurns {
    fn begin(&self) -> (TurnId, CancellationToken) {
        let mut turns = lock(&self.turns);
        turns.count += 1;
        let id = TurnId::from(format!("t{}", turns.count));
        let cancel = CancellationToken::new();
        if turns.is_closed {
            cancel.cancel();
        }
        turns.open.insert(id.clone(), cancel.clone());
        (id, cancel)
    }

    fn end(&self, turn: &TurnId) {
        lock(&self.turns).open.remove(turn);
        self.ended.notify_waiters();
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.turns).open.len()
    }

    /// Returns the names of the turns.
    pub(crate) fn names(&self) -> Vec<TurnId> {
        lock(&self.turns).open.keys().cloned().collect()
    }

    pub(crate) fn cancel(&self) {
        lock(&self.turns).open.values().for_each(CancellationToken::cancel);
    }

    /// Cancels every turn, and each that begins later.
    pub(crate) fn close(&self) {
        lock(&self.turns).is_closed = true;
        self.cancel();
    }

    /// Waits until every prompt is answered.
    pub(crate) async fn all_ended(&self) {
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
