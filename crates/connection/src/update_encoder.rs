//! Encodes the items of a session's outbox as updates of ACP v1.

use acp_lifecycle::OutboxItem;
use acp_types::wire::v1::{TerminalDisplay, V1Projection, WireUpdate};
use agent_client_protocol::v1::schema::ClientCapabilities;

use crate::update_support::UpdateSupport;

/// Encodes the items of a session as updates for one client. The encoder remembers the first update
/// of each call, and the sent output of the call's terminals. Each connection therefore needs a
/// separate encoder.
///
/// A [`ClientSession`](crate::ClientSession) contains an encoder. Create another encoder only to
/// write the updates of a stored session to another destination, e.g. to a file.
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

    /// Sets the key in `_meta` under which the encoder sends data that has no field in the
    /// protocol. The default is `callboard`.
    #[must_use]
    pub fn with_meta_key(mut self, key: impl AsRef<str>) -> Self {
        self.projection = self.projection.with_meta_key(key);
        self
    }

    /// Returns whether the client shows terminals. Pass the result to
    /// [`Session::set_shows_terminals`](acp_lifecycle::Session::set_shows_terminals).
    #[must_use]
    pub fn shows_terminals(&self) -> bool {
        self.display == TerminalDisplay::MetaEvents
    }

    /// Encodes an item. The result may be empty, e.g. if the client already has all data of the
    /// item.
    ///
    /// # Errors
    ///
    /// Returns the item if it is not an update, i.e. if it is a request to the client or a
    /// response.
    pub fn encode(&mut self, item: OutboxItem) -> Result<Vec<WireUpdate>, Box<OutboxItem>> {
        let projection = &mut self.projection;
        Ok(match item {
            OutboxItem::ToolCall(id, patch) => projection.updates_for_call_patch(&id, patch),
            OutboxItem::Terminal(id, patch) => projection.updates_for_terminal_patch(&id, &patch),
            OutboxItem::Chunk(chunk) => vec![projection.update_for_chunk(&chunk)],
            OutboxItem::Prompt(part) => vec![projection.update_for_replayed_prompt_block(&part)],
            OutboxItem::Plan(plan) => vec![projection.update_for_plan(&plan)],
            OutboxItem::State(state) => vec![self.support.supported_update(&state, projection)],
            other => return Err(Box::new(other)),
        })
    }
}
