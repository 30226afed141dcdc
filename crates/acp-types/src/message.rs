//! Messages of a session, a piece at a time.

use serde::{Deserialize, Serialize};

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageChunk {
    /// Whose message it is.
    pub role: Role,
    /// The message it belongs to; the same for all pieces of one message.
    pub message: String,
    /// The text that is added.
    pub text: String,
}

/// Whose message a chunk belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// What the agent says.
    Agent,
    /// What the agent thinks.
    Thought,
    /// What the user said, when a session is replayed.
    User,
}
