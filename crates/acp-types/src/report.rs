//! The document of a tool call: everything a client may know of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallMeta, Content, Location, Status, ToolCallId, ToolKind};

/// What a client may know of a tool call, shaped like draft v2
/// (<https://agentclientprotocol.com/protocol/v2/tool-calls>), which can say everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallReport {
    /// Its id, unique in the session.
    pub id: ToolCallId,
    /// The tool's name, as the model calls it.
    pub name: String,
    /// A sentence for people, arguments included.
    pub title: String,
    /// The category, by which clients choose an icon and some decide on permission.
    pub kind: ToolKind,
    /// Where it is in its life.
    pub status: Status,
    /// What it shows.
    pub content: Vec<Content>,
    /// The files it works on.
    pub locations: Vec<Location>,
    /// The arguments.
    pub raw_input: Option<Value>,
    /// The result.
    pub raw_output: Option<Value>,
    /// What it tells beside the protocol's own fields.
    pub meta: CallMeta,
    /// What a client may ask of it. Draft v2 only.
    pub capabilities: CallCapabilities,
}

/// What a client may ask of a call while it is not final.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCapabilities {
    /// It can be cancelled alone, by `tool_call/cancel`.
    pub cancel: bool,
}

impl ToolCallReport {
    /// Makes the document of a call of which nothing is known yet.
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
