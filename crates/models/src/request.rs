//! What a model is told: the session so far, the tools, the limits.
//!
//! Knows no provider's form of it.

use std::{num::NonZeroU32, sync::Arc};

use serde_json::Value;

/// Everything a model is told for one reply. What a session tells again each time is shared, so
/// that a request costs no more than its new messages.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// How many requests the session made of this model before this one, answered or not, so that
    /// an attempt after an error counts too. Starts at 0 when a session takes a model up.
    pub index: usize,
    /// Instructions that stand before all messages.
    pub system: Arc<str>,
    /// The session so far, oldest first.
    pub messages: Arc<Vec<Arc<ChatMessage>>>,
    /// The tools the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// The longest reply, in tokens; `None` leaves it to the model.
    pub max_tokens: Option<NonZeroU32>,
    /// How much the model is to think; `None` leaves it to the model.
    pub effort: Option<Effort>,
    /// The JSON Schema that the text of the reply is to have, where the provider can hold a model
    /// to one.
    pub response_schema: Option<Arc<Value>>,
}

/// How much a model thinks before it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Effort {
    /// Not at all.
    Off,
    /// A little.
    Low,
    /// As much as most work needs.
    Medium,
    /// As much as it can.
    High,
}

/// One entry of the session, as the model is told it. Exhaustive, because no model and no history may
/// overlook a kind of entry.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatMessage {
    /// A prompt of the user.
    User(Vec<ContentPart>),
    /// What the agent tells beside the prompts: instructions of the workspace, a summary of what
    /// was left out, files that changed. Models without such a role hear it as the user's.
    Context(String),
    /// A reply of the model, also one that was cut short.
    Assistant {
        /// What was said.
        text: String,
        /// What was thought.
        thought: String,
        /// What was called.
        calls: Vec<ModelToolCall>,
        /// What the provider wants to be told again, if the same model is asked again.
        replay: Option<ProviderReplay>,
    },
    /// What the calls of the reply before it came to.
    ToolResults(Vec<ToolResult>),
}

impl ChatMessage {
    /// Makes a prompt of a text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![ContentPart::Text(text.into())])
    }
}

/// A call of a tool, as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelToolCall {
    /// The model's id for the call. Some models repeat theirs.
    pub id: String,
    /// The tool's name, whether or not there is such a tool.
    pub name: String,
    /// The arguments: JSON text, if the model wrote it well.
    pub arguments: String,
}

/// One piece of a prompt. Exhaustive, as [`Message`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPart {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Its media type, such as `image/png`.
        media_type: String,
        /// Its bytes, in base64.
        data: String,
    },
    /// A recording.
    Audio {
        /// Its media type, such as `audio/wav`.
        media_type: String,
        /// Its bytes, in base64.
        data: String,
    },
}

impl ContentPart {
    /// Returns the bytes of its text, or of its base64.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Image { data, .. } | Self::Audio { data, .. } => data.len(),
        }
    }
}

/// What a provider gave with a reply to be told again with the next request: thought signatures,
/// ids of items. Nobody but the adapter that made it reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderReplay {
    /// Names the model that gave it and where that answers; no other one is told it.
    pub origin: Arc<str>,
    /// The items, in the adapter's form.
    pub items: Value,
}

/// What one call came to.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The id the model gave the call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What the model is to read.
    pub text: String,
    /// What it is to see beside that: images.
    pub parts: Vec<ContentPart>,
    /// True if the call failed, was rejected or was cancelled.
    pub is_error: bool,
}

impl ToolResult {
    /// Leaves out what it shows beside its text, if it shows anything, and says so with a note.
    pub fn replace_parts_with_note(&mut self, note: &str) {
        if !self.parts.is_empty() {
            self.parts.clear();
            self.text.push('\n');
            self.text.push_str(note);
        }
    }
}

/// A tool, as it is offered to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name calls use.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
}
