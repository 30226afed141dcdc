//! A request to a model: the session so far, the tools and the limits.

use std::{num::NonZeroU32, sync::Arc};

use serde_json::Value;

/// A request for one reply. Parts that are equal in all requests of a session are shared, so the
/// cost of creating a request depends only on the new messages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelRequest {
    /// Number of earlier requests of the session to this model. Requests without a reply count too,
    /// e.g. requests that failed and were retried. The number restarts at 0 when a session switches
    /// to another model.
    pub index: usize,
    /// System instructions, which precede all messages.
    pub system: Arc<str>,
    /// Messages of the session, oldest first.
    pub messages: Arc<Vec<Arc<ChatMessage>>>,
    /// Tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// Maximum length of the reply in tokens; `None` for the model's default.
    pub max_tokens: Option<NonZeroU32>,
    /// Thinking effort; `None` for the model's default.
    pub effort: Option<Effort>,
    /// JSON Schema for the text of the reply. Providers that cannot restrict a model to a schema
    /// ignore this field.
    pub response_schema: Option<Arc<Value>>,
}

impl ModelRequest {
    /// Creates the request for a reply to these messages.
    #[must_use]
    pub fn new(messages: Arc<Vec<Arc<ChatMessage>>>) -> Self {
        Self { messages, ..Self::default() }
    }
}

/// The amount of thinking before a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Effort {
    /// No thinking.
    Off,
    /// Little thinking.
    Low,
    /// Enough thinking for most work.
    Medium,
    /// As much thinking as possible.
    High,
}

/// An entry of a session, as it is sent to the model. The enum is exhaustive, so that the compiler
/// finds all code that must handle a new kind of entry.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatMessage {
    /// A prompt of the user.
    User(Vec<ContentPart>),
    /// Text that the agent adds to the session: instructions of the project folder, a summary of
    /// removed messages, or a list of changed files. If a model has no role for such text, the text
    /// is sent as a user message.
    Context(String),
    /// A reply of the model, complete or interrupted.
    Assistant {
        /// Text for the user.
        text: String,
        /// Thinking of the model.
        thought: String,
        /// Tool calls.
        calls: Vec<ModelToolCall>,
        /// Data that must be returned to the provider if the same model is used again.
        replay: Option<ProviderReplay>,
    },
    /// Results of the calls in the previous reply.
    ToolResults(Vec<ToolResult>),
}

impl ChatMessage {
    /// Creates a prompt from a text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![ContentPart::Text(text.into())])
    }
}

/// A tool call, exactly as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelToolCall {
    /// The model's id for the call. Some models reuse ids.
    pub id: String,
    /// Name of the tool. The model may name a tool that does not exist.
    pub name: String,
    /// Arguments of the call. The arguments should be JSON, but the model may write any text.
    pub arguments: String,
}

impl ModelToolCall {
    /// Creates a tool call.
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into() }
    }
}

/// A part of a prompt. The enum is exhaustive for the same reason as [`ChatMessage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPart {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Media type, e.g. `image/png`.
        media_type: String,
        /// Data in base64.
        data: String,
    },
    /// An audio recording.
    Audio {
        /// Media type, e.g. `audio/wav`.
        media_type: String,
        /// Data in base64.
        data: String,
    },
}

impl ContentPart {
    /// Returns the size of the text, or of the base64 data, in bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Image { data, .. } | Self::Audio { data, .. } => data.len(),
        }
    }
}

/// Provider data of a reply that must be returned in the next request, e.g. signatures of thoughts
/// and ids of items. Only the adapter that created the data parses it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderReplay {
    /// Name of the model and the server that created the data. The data is sent to no other model
    /// or server.
    pub origin: Arc<str>,
    /// Items of the data, in the adapter's own form.
    pub items: Value,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The model's id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Text for the model.
    pub text: String,
    /// Additional content for the model: images.
    pub parts: Vec<ContentPart>,
    /// Whether the call failed, was rejected or was cancelled.
    pub is_error: bool,
}

impl ToolResult {
    /// Creates the result of a call that completed.
    #[must_use]
    pub fn new(
        call_id: impl Into<String>,
        name: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let (call_id, name, text) = (call_id.into(), name.into(), text.into());
        Self { call_id, name, text, parts: Vec::new(), is_error: false }
    }

    /// Creates the result of a call that failed, was rejected or was cancelled.
    #[must_use]
    pub fn error(call: &ModelToolCall, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::new(&call.id, &call.name, text) }
    }

    /// Removes the additional content, if there is any, and appends a note to the text instead.
    pub fn replace_parts_with_note(&mut self, note: &str) {
        if !self.parts.is_empty() {
            self.parts.clear();
            self.text.push('\n');
            self.text.push_str(note);
        }
    }
}

/// A tool that is offered to a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Name of the tool.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

impl ToolSpec {
    /// Creates the specification of a tool.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        Self { name: name.into(), description: description.into(), input_schema }
    }
}
