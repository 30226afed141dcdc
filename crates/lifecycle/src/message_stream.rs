//! What is held back of messages, because a secret may begin with it.
//!
//! It knows nothing of what else is sent; the session says when something comes behind a message.

use std::collections::VecDeque;

use acp_types::{MessageChunk, Role};

use crate::limits::MAX_REMEMBERED_MESSAGE_ENDS;
use crate::sanitize::{Secrets, StreamRedactor};

/// The newest messages. The one that is being said is the last.
#[derive(Debug, Default)]
pub(crate) struct MessageStreams(VecDeque<MessageStream>);

#[derive(Debug)]
struct MessageStream {
    role: Role,
    message: String,
    text: StreamRedactor,
}

impl MessageStreams {
    /// Returns the end of the message before, if this piece belongs to another, and what can be
    /// shown of the piece.
    pub(crate) fn push(
        &mut self,
        piece: &MessageChunk,
        secrets: &Secrets,
    ) -> (Option<MessageChunk>, String) {
        let is_same =
            |speech: &MessageStream| (speech.role, &speech.message) == (piece.role, &piece.message);
        let mut before = None;
        if !self.0.back().is_some_and(is_same) {
            before = self.flush();
            let (role, message) = (piece.role, piece.message.clone());
            let new = || MessageStream { role, message, text: StreamRedactor::default() };
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

    /// Returns what is held back of the newest message, because something else comes behind it.
    pub(crate) fn flush(&mut self) -> Option<MessageChunk> {
        let MessageStream { role, message, text: held } = self.0.back_mut()?;
        let text = lossy_text(&held.flush());
        (!text.is_empty()).then(|| MessageChunk { role: *role, message: message.clone(), text })
    }
}

/// Secrets are texts, so what lies between them is text too.
fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
