//! Encodes the items of a session's outbox as updates of ACP v1.

use acp_lifecycle::OutboxItem;
use acp_types::wire::v1::{TerminalDisplay, V1Projection, WireUpdate};
use agent_client_protocol::v1::schema::ClientCapabilities;

use crate::update_support::UpdateSupport;

/// Encodes what a session sends as updates for one client. The first update of a call, and what was
/// sent of its terminals, are remembered, so each connection has its own encoder.
///
/// A [`ClientSession`](crate::ClientSession) has one. Another one is needed only to write the updates
/// of a stored session somewhere else, e.g. into a file.
#[derive(Debug)]
pub struct UpdateEncoder {
    pub(crate) projection: V1Projection,
    support: UpdateSupport,
    display: TerminalDisplay,
}

impl UpdateEncoder {
    /// Creates the encoder for a client with these capabilities.
    #[must_use]
    pub fn new(capabilities: &ClientCapabilities) -> Self {
        let display = TerminalDisplay::from_capabilities(capabilities);
        Self {
            projection: V1Projection::new(display),
            support: UpdateSupport::from_capabilities(capabilities),
            display,
        }
    }

    /// Sets the key of `_meta` for data that the protocol has no field for. The default is
    /// `callboard`.
    #[must_use]
    pub fn with_meta_key(mut self, key: impl AsRef<str>) -> Self {
        self.projection = self.projection.with_meta_key(key);
        self
    }

    /// Returns whether the client shows terminals, for
    /// [`Session::set_shows_terminals`](acp_lifecycle::Session::set_shows_terminals).
    #[must_use]
    pub fn shows_terminals(&self) -> bool {
        self.display == TerminalDisplay::MetaEvents
    }

    /// Encodes an item. It may have no update, e.g. if the client already has all of it.
    ///
    /// # Errors
    ///
    /// Returns an item that is no update: a request to the client, or a response.
    pub fn encode(&mut self, item: OutboxItem) -> Result<Vec<WireUpdate>, Box<OutboxItem>> {
        let projection = &mut self.projection;
        Ok(match item {
            OutboxItem::ToolCall(id, patch) => projection.updates_for_call_patch(&id, patch),
            OutboxItem::Terminal(id, patch) => projection.updates_for_terminal_patch(&id, &patch),
            OutboxItem::Chunk(chunk) => vec![projection.update_for_chunk(&chunk)],
            OutboxItem::Prompt(part) => vec![projection.prompt_block(&part)],
            OutboxItem::Plan(plan) => vec![projection.update_for_plan(&plan)],
            OutboxItem::State(state) => vec![self.support.supported_update(&state, projection)],
            other => return Err(Box::new(other)),
        })
    }
}
