//! The events of one model reply, and the reasons why a reply ends.

use std::{iter, time::Duration};

use serde::Deserialize;

use crate::request::{ModelToolCall, ProviderReplay};

/// An event of a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More text for the user.
    Text(String),
    /// More of the model's thinking.
    Thought(String),
    /// Start of a call. The arguments are sent in later events. The calls of one reply are
    /// parallel.
    CallStart {
        /// The model's id for the call, unique within the reply. Some models reuse ids in later
        /// replies.
        id: String,
        /// Name of the tool. The model may name a tool that does not exist.
        name: String,
    },
    /// The next part of a call's arguments. All fragments together should be JSON. A call without
    /// fragments has the arguments `{}`.
    CallArguments {
        /// Id of the call.
        id: String,
        /// Next fragment. A fragment never ends inside a character.
        fragment: String,
    },
    /// End of a call's arguments.
    CallEnd {
        /// Id of the call.
        id: String,
    },
    /// Data that must be sent back in the next request, as part of [`ChatMessage::Assistant`]. A
    /// reply has at most one such event.
    ///
    /// [`ChatMessage::Assistant`]: super::ChatMessage::Assistant
    Replay(ProviderReplay),
    /// Tokens that the reply has used so far; the last such event has the final counts.
    Usage(TokenUsage),
    /// The reply is complete. No event follows this one.
    Stop(ModelStopReason),
    /// The reply was interrupted. No event follows this one, and open calls stay incomplete.
    Error(ModelError),
}

impl ModelEvent {
    /// Returns the events of a call as a model streams them: the start, the fragments of the
    /// arguments, and the end. A fragment has at most `bytes` bytes, but at least one character. To
    /// complete a [`ReplyStream`](crate::ReplyStream), append the events of further calls, if any,
    /// and then [`ModelEvent::Stop`].
    ///
    /// ```
    /// use callboard_models::{ModelEvent, ModelToolCall};
    ///
    /// let call = ModelToolCall::new("c1", "read_file", r#"{"path": "notes"}"#);
    /// assert_eq!(ModelEvent::call_events(call, 8).count(), 1 + 3 + 1);
    /// ```
    pub fn call_events(call: ModelToolCall, bytes: usize) -> impl Iterator<Item = Self> + Send {
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

/// Token counts of one reply. A count that the provider does not report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenUsage {
    /// Number of tokens of the request, including tokens that were read from a cache or written to
    /// it.
    pub input_tokens: Option<u64>,
    /// Number of tokens of the reply, including thinking.
    pub output_tokens: Option<u64>,
    /// Number of tokens of the request that the provider read from a cache.
    pub cached_tokens: Option<u64>,
    /// Number of tokens of the request that the provider wrote to a cache.
    pub cache_written_tokens: Option<u64>,
    /// Number of tokens of the reply that were spent on thinking.
    pub thought_tokens: Option<u64>,
    /// Cost of the reply in millionths of a US dollar, if the cost is known.
    pub cost_micros: Option<u64>,
}

/// The reason why a reply ended. The JSON names are ACP's stop reasons, plus `tool_calls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelStopReason {
    /// The model finished its reply.
    EndTurn,
    /// The reply reached its maximum length.
    MaxTokens,
    /// The turn reached the model's maximum number of requests.
    MaxTurnRequests,
    /// The model, or a filter of its provider, refuses to continue.
    Refusal,
    /// The model waits for the results of its calls.
    ToolCalls,
}

/// An error that interrupted a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", status.map(|status| format!(" (status {status})")).unwrap_or_default())]
#[non_exhaustive]
pub struct ModelError {
    /// Kind of the error. The caller should react according to the kind.
    pub kind: ModelErrorKind,
    /// Message for the user.
    pub message: String,
    /// HTTP status, if the error has one.
    pub status: Option<u16>,
    /// Time that the provider asks the client to wait before a retry.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// Creates an error without a status and without a retry time.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after: None }
    }

    /// Sets the HTTP status, if there is one.
    #[must_use]
    pub fn with_status(self, status: impl Into<Option<u16>>) -> Self {
        Self { status: status.into(), ..self }
    }

    /// Sets the time that the provider asks the client to wait, if there is one.
    #[must_use]
    pub fn with_retry_after(self, retry_after: impl Into<Option<Duration>>) -> Self {
        Self { retry_after: retry_after.into(), ..self }
    }
}

/// The kind of error that interrupted a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The provider is overloaded, the provider failed, or the connection failed. A retry may
    /// succeed.
    Transient,
    /// No data arrived within the timeout. A retry may succeed, but it may wait for the same time
    /// again.
    IdleTimeout,
    /// The key is missing, invalid or lacks a permission. The user must log in.
    Auth,
    /// The request exceeds the model's context window. The caller should compact the session.
    ContextTooLong,
    /// No server listens at a local address. A retry succeeds after the server has been started.
    Unreachable,
    /// The provider refuses the content of the request, or the content cannot be encoded. A request
    /// without a part of this content, such as an image, may succeed.
    InvalidRequest,
    /// Any other error. A retry would fail in the same way.
    #[default]
    Other,
}

impl ModelErrorKind {
    /// Returns the kind for an HTTP status, for providers that give no details.
    #[must_use]
    pub fn from_status(status: u16) -> Self {
        match status {
            400 | 415 | 422 => Self::InvalidRequest,
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
    fn a_status_determines_the_kind_of_error() {
        for (status, fault) in [
            (400, ModelErrorKind::InvalidRequest),
            (402, ModelErrorKind::Other),
            (401, ModelErrorKind::Auth),
            (404, ModelErrorKind::Other),
            (413, ModelErrorKind::ContextTooLong),
            (415, ModelErrorKind::InvalidRequest),
            (422, ModelErrorKind::InvalidRequest),
            (429, ModelErrorKind::Transient),
            (503, ModelErrorKind::Transient),
            (529, ModelErrorKind::Transient),
        ] {
            assert_eq!(ModelErrorKind::from_status(status), fault, "{status}");
        }
    }

    #[test]
    fn fragments_end_between_characters_and_join_to_the_whole_text() {
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
    fn a_call_without_arguments_has_only_a_start_and_an_end() {
        let call = ModelToolCall { id: "a".into(), name: "undo".into(), arguments: String::new() };
        let events: Vec<_> = ModelEvent::call_events(call, 1).collect();
        let start = ModelEvent::CallStart { id: "a".into(), name: "undo".into() };
        assert_eq!(events, [start, ModelEvent::CallEnd { id: "a".into() }]);
    }
}
