//! The items that a session sends outside of its calls: messages, plans and parts of its state.

use std::time::Instant;

use acp_types::{MessageChunk, Plan, SessionStatePart, json};

use super::Session;
use crate::board::Timestamp;
use crate::limits::MAX_MESSAGE_CHUNK_BYTES;
use crate::outbox::{FirstReportTiming, OutboxItem};
use crate::sanitize::Redactor;

impl Session {
    /// Sends a chunk of a message.
    ///
    /// If the end of the chunk may be the beginning of a secret, that end is held back. The
    /// held-back text is sent with the next chunk, or before the next item that must follow the
    /// message.
    pub fn send_message_chunk(&mut self, mut chunk: MessageChunk, now: Timestamp) {
        let (before, text) = self.message_stream.redact_chunk(&chunk, self.board.secrets());
        self.enqueue_chunk_in_pieces(before, now.monotonic);
        chunk.text = text;
        self.enqueue_chunk_in_pieces(Some(chunk), now.monotonic);
    }

    /// Enqueues text in chunks of limited size.
    pub(super) fn enqueue_chunk_in_pieces(&mut self, chunk: Option<MessageChunk>, at: Instant) {
        for piece in chunk.into_iter().flat_map(message_pieces) {
            let (item, not_first) = (OutboxItem::Chunk(piece), FirstReportTiming::NotFirst);
            self.outbox.enqueue_or_merge(item, not_first, at);
        }
    }

    /// Sends a plan, which may be empty.
    pub fn send_plan(&mut self, mut plan: Plan, now: Timestamp) {
        Redactor::new(self.secrets()).redact_plan(&mut plan);
        self.enqueue_after_messages(OutboxItem::Plan(plan), FirstReportTiming::NotFirst, now);
    }

    /// Sends a part of the session's state. If several parts of the same kind wait, only the newest
    /// part is sent.
    pub fn send_state_part(&mut self, mut state: SessionStatePart, now: Timestamp) {
        if Redactor::new(self.secrets()).redact_state(&mut state) {
            self.enqueue_after_messages(OutboxItem::State(state), FirstReportTiming::NotFirst, now);
        }
    }

    /// Enqueues an item that must follow all earlier message text.
    pub(super) fn enqueue_after_messages(
        &mut self,
        item: OutboxItem,
        is_first: FirstReportTiming,
        now: Timestamp,
    ) {
        self.enqueue_after_messages_at(item, is_first, now.monotonic);
    }

    pub(super) fn enqueue_after_messages_at(
        &mut self,
        item: OutboxItem,
        is_first: FirstReportTiming,
        at: Instant,
    ) {
        let before = self.message_stream.release_held_back_text();
        self.enqueue_chunk_in_pieces(before, at);
        self.outbox.enqueue_or_merge(item, is_first, at);
    }
}

/// Splits a chunk into chunks of limited size. A model may send text of any length at once.
pub(super) fn message_pieces(chunk: MessageChunk) -> impl Iterator<Item = MessageChunk> {
    let MessageChunk { role, message, text, .. } = chunk;
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece =
            json::prefix_within_escaped_len(&text[at..], MAX_MESSAGE_CHUNK_BYTES).to_owned();
        at += piece.len();
        (!piece.is_empty()).then(|| MessageChunk::new(role, message.clone(), piece))
    })
}
