//! The document of a tool call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallMeta, Content, Location, Status, ToolCallId, ToolKind};

/// Everything that a client can know about a tool call. The document has the shape of a call in
/// draft v2 (<https://agentclientprotocol.com/protocol/v2/tool-calls>), because draft v2 can
/// express all fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallReport {
    /// Id of the call, unique in the session.
    pub id: ToolCallId,
    /// Name of the tool, as the model calls it.
    pub name: String,
    /// Title for people, including the arguments.
    pub title: String,
    /// Category of the call. Clients use the category to choose an icon, and some clients use it to
    /// decide on permission.
    pub kind: ToolKind,
    /// Status of the call.
    pub status: Status,
    /// Content shown to people.
    pub content: Vec<Content>,
    /// Files that the call works on.
    pub locations: Vec<Location>,
    /// Arguments of the call.
    pub raw_input: Option<Value>,
    /// Result of the call.
    pub raw_output: Option<Value>,
    /// Metadata that the protocol has no fields for, e.g. the times of the call.
    pub meta: CallMeta,
    /// Operations that a client may request; used only in draft v2.
    pub capabilities: CallCapabilities,
}

/// Operations that a client may request for a call that has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallCapabilities {
    /// Whether the call can be cancelled alone, with `tool_call/cancel`.
    pub cancel: bool,
}

impl CallCapabilities {
    /// Allows the client to cancel the call alone.
    #[must_use]
    pub fn with_cancel(self) -> Self {
        Self { cancel: true }
    }
}

impl ToolCallReport {
    /// Creates an empty document.
    #[must_use]
    pub fn new(id: ToolCallId) -> Self {
        Self {
            id,
            name: String::new(),
            title: String::new(),
            kind: ToolKind::Other,
            status: Status::Pending,
            content: Vec::new(),
            locations: Vec::new(),
            raw_input: None,
            raw_output: None,
            meta: CallMeta::default(),
            capabilities: CallCapabilities::default(),
        }
    }
}
