//! What a model says: the steps of one reply, and how it ends.
//!
//! Knows no provider's form of it.

use std::{iter, time::Duration};

use serde::Deserialize;

use crate::request::{ModelToolCall, ProviderReplay};

/// One step of a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More text for the user.
    Text(String),
    /// More of what the model thinks.
    Thought(String),
    /// A call begins; its arguments follow. Calls of one reply are parallel.
    CallStart {
        /// The model's id for the call, unlike the others of this reply. Some models repeat theirs
        /// in later replies.
        id: String,
        /// The tool's name, whether or not there is such a tool.
        name: String,
    },
    /// More of a call's arguments. The fragments, joined, should be JSON; none at all means `{}`.
    CallArguments {
        /// The call.
        id: String,
        /// The next piece, never cut inside a character.
        fragment: String,
    },
    /// The arguments of a call are whole.
    CallEnd {
        /// The call.
        id: String,
    },
    /// What is to be told again with the next request: [`Message::Assistant`]. At most one a reply.
    ///
    /// [`Message::Assistant`]: super::Message::Assistant
    Replay(ProviderReplay),
    /// What the reply used so far; the last one counts.
    Usage(TokenUsage),
    /// The reply is whole. Nothing follows.
    Stop(ModelStopReason),
    /// The reply broke off. Nothing follows, and what came before it stays incomplete.
    Error(ModelError),
}

impl ModelEvent {
    /// Streams a call as a model does: its start, its arguments in fragments of at most `bytes` (or
    /// one character, where that is longer), its end. Its [`Reply`](crate::Reply) goes on behind them:
    /// further calls, then [`Event::Stop`].
    ///
    /// ```
    /// use callboard_models::{Call, Event};
    ///
    /// let arguments = r#"{"path": "notes"}"#.to_owned();
    /// let call = Call { id: "c1".into(), name: "read_file".into(), arguments };
    /// assert_eq!(Event::from_call(call, 8).count(), 1 + 3 + 1);
    /// ```
    pub fn from_call(call: ModelToolCall, bytes: usize) -> impl Iterator<Item = Self> + Send {
        let ModelToolCall { id, name, arguments } = call;
        let start = Self::CallStart { id: id.clone(), name };
        let end = Self::CallEnd { id: id.clone() };
        let pieces = split_fragments(arguments, bytes)
            .map(move |fragment| Self::CallArguments { id: id.clone(), fragment });
        iter::once(start).chain(pieces).chain(iter::once(end))
    }
}

fn split_fragments(text: String, bytes: usize) -> impl Iterator<Item = String> + Send {
    let mut at = 0;
    iter::from_fn(move || {
        let rest = &text[at..];
        let one_character = rest.ceil_char_boundary(1);
        let fragment = &rest[..rest.floor_char_boundary(bytes).max(one_character)];
        at += fragment.len();
        (!fragment.is_empty()).then(|| fragment.to_owned())
    })
}

/// Tokens of one reply, as far as the model counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the request, those read from a cache or written to it among them.
    pub input_tokens: Option<u64>,
    /// Tokens of the reply, thoughts among them.
    pub output_tokens: Option<u64>,
    /// Tokens of the request that a cache of the provider held.
    pub cached_tokens: Option<u64>,
    /// Tokens of the request that the provider put into a cache.
    pub cache_written_tokens: Option<u64>,
    /// Tokens of the reply that were thought.
    pub thought_tokens: Option<u64>,
    /// What the reply cost, in millionths of a US dollar, where that is known.
    pub cost_micros: Option<u64>,
}

/// Why a reply ended. In JSON the names are ACP's stop reasons, and `tool_calls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelStopReason {
    /// The model has said what it had to say.
    EndTurn,
    /// The reply reached its longest length.
    MaxTokens,
    /// The turn made as many requests as the model allows.
    MaxTurnRequests,
    /// The model, or a filter of its provider, declines to go on.
    Refusal,
    /// The model waits for the results of the calls it made.
    ToolCalls,
}

/// Why a reply broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", status.map(|status| format!(" (status {status})")).unwrap_or_default())]
pub struct ModelError {
    /// What kind of fault it is: it tells what is worth doing.
    pub kind: ModelErrorKind,
    /// What happened, for the user.
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// How long the provider asks to wait before another attempt.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// Makes an error of which nothing else is known.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after: None }
    }
}

/// What kind of fault broke a reply off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The provider is busy or failed, or the connection did: the same request may work later.
    Transient,
    /// Nothing came for as long as is waited for: the same request may work later, and may take
    /// that long again.
    IdleTimeout,
    /// The key is missing, wrong or may not do this: log in.
    Auth,
    /// The request is longer than the model takes: compact the session.
    ContextTooLong,
    /// No server listens at an address of this machine: another attempt helps once it is started.
    Unreachable,
    /// Anything else: the same request would fail again.
    #[default]
    Other,
}

impl ModelErrorKind {
    /// Tells the fault by an HTTP status, for a provider that says no more.
    #[must_use]
    pub fn from_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            413 => Self::ContextTooLong,
            408 | 409 | 425 | 429 | 500..=599 => Self::Transient,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ModelError, ModelErrorKind, ModelEvent, ModelToolCall, split_fragments};

    #[test]
    fn an_error_shows_its_status() {
        let error = |status| ModelError {
            kind: ModelErrorKind::Transient,
            message: "busy".into(),
            status,
            retry_after: None,
        };
        assert_eq!(error(Some(529)).to_string(), "busy (status 529)");
        assert_eq!(error(None).to_string(), "busy");
    }

    #[test]
    fn a_status_tells_what_is_worth_doing() {
        for (status, fault) in [
            (400, ModelErrorKind::Other),
            (401, ModelErrorKind::Auth),
            (404, ModelErrorKind::Other),
            (413, ModelErrorKind::ContextTooLong),
            (429, ModelErrorKind::Transient),
            (503, ModelErrorKind::Transient),
            (529, ModelErrorKind::Transient),
        ] {
            assert_eq!(ModelErrorKind::from_status(status), fault, "{status}");
        }
    }

    #[test]
    fn fragments_are_cut_between_characters_and_join_to_the_whole() {
        let cases: [(&str, usize, &[&str]); 7] = [
            ("", 4, &[]),
            ("abcdef", 4, &["abcd", "ef"]),
            ("abcd", 4, &["abcd"]),
            ("abc", usize::MAX, &["abc"]),
            ("aé€b", 2, &["a", "é", "€", "b"]),
            ("aé€b", 4, &["aé", "€b"]),
            ("🎭🎭", 1, &["🎭", "🎭"]),
        ];
        for (text, bytes, expected) in cases {
            let got: Vec<_> = split_fragments(text.to_owned(), bytes).collect();
            assert_eq!(got, expected, "{text} by {bytes}");
        }
    }

    #[test]
    fn a_call_without_arguments_has_a_start_and_an_end_only() {
        let call = ModelToolCall { id: "a".into(), name: "undo".into(), arguments: String::new() };
        let events: Vec<_> = ModelEvent::from_call(call, 1).collect();
        let start = ModelEvent::CallStart { id: "a".into(), name: "undo".into() };
        assert_eq!(events, [start, ModelEvent::CallEnd { id: "a".into() }]);
    }
}
