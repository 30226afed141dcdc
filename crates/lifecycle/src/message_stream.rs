//! Redaction of streamed messages. Text that may be the beginning of a secret is held back.

use std::collections::VecDeque;

use acp_types::{MessageChunk, Role};

use crate::limits::MAX_REMEMBERED_MESSAGE_ENDS;
use crate::sanitize::{Secrets, StreamRedactor};

/// The redaction states of the most recent messages. The current message is the last element.
#[derive(Debug, Default)]
pub(crate) struct RecentMessageRedactors(VecDeque<MessageRedactor>);

#[derive(Debug)]
struct MessageRedactor {
    role: Role,
    message: String,
    text: StreamRedactor,
}

impl RecentMessageRedactors {
    /// Adds a piece, and returns the text that can be shown now. If the piece begins another
    /// message, also returns the held-back text of the previous message.
    pub(crate) fn redact_chunk(
        &mut self,
        piece: &MessageChunk,
        secrets: &Secrets,
    ) -> (Option<MessageChunk>, String) {
        let is_same = |speech: &MessageRedactor| {
            (speech.role, &speech.message) == (piece.role, &piece.message)
        };
        let mut before = None;
        if !self.0.back().is_some_and(is_same) {
            before = self.release_held_back_text();
            let (role, message) = (piece.role, piece.message.clone());
            let new = || MessageRedactor { role, message, text: StreamRedactor::default() };
            let at = self.0.iter().position(is_same);
            let speech = at.and_then(|at| self.0.remove(at)).unwrap_or_else(new);
            self.0.push_back(speech);
            if self.0.len() > MAX_REMEMBERED_MESSAGE_ENDS {
                self.0.pop_front();
            }
        }
        let shown = self.0.back_mut().map(|it| it.text.push(secrets, piece.text.as_bytes()));
        (before, lossy_text(&shown.unwrap_or_default()))
    }

    /// Returns the held-back text of the current message, because another item follows the message.
    pub(crate) fn release_held_back_text(&mut self) -> Option<MessageChunk> {
        let MessageRedactor { role, message, text: held } = self.0.back_mut()?;
        let text = lossy_text(&held.release_held_back());
        (!text.is_empty()).then(|| MessageChunk::new(*role, message.clone(), text))
    }
}

/// Converts bytes to text. Secrets are valid UTF-8, so splitting the bytes at secrets splits no
/// character.
fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
