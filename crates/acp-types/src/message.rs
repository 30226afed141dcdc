//! Chunks of a session's messages.

use serde::{Deserialize, Serialize};

use crate::ContentBlock;

/// A chunk of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageChunk {
    /// The author of the message.
    pub role: Role,
    /// Id of the message. All chunks of one message have the same id.
    pub message: String,
    /// The text to append to the message.
    pub text: String,
}

impl MessageChunk {
    /// Creates a chunk of the message with this id.
    #[must_use]
    pub fn new(role: Role, message: impl Into<String>, text: impl Into<String>) -> Self {
        Self { role, message: message.into(), text: text.into() }
    }

    /// Creates a chunk of the agent's message with this id.
    #[must_use]
    pub fn from_agent(message: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Role::Agent, message, text)
    }
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The agent's reply.
    Agent,
    /// The agent's reasoning.
    Thought,
    /// The user's message, in a replayed session.
    User,
}

/// A part of a prompt that is sent to a client when a session is replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplayedPromptBlock {
    /// Id of the message. All parts of one prompt have the same id.
    pub message: String,
    /// Content of the part.
    pub block: ContentBlock,
}

impl ReplayedPromptBlock {
    /// Creates a part of the prompt with this message id.
    #[must_use]
    pub fn new(message: impl Into<String>, block: ContentBlock) -> Self {
        Self { message: message.into(), block }
    }
}
