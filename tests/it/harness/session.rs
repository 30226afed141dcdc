//! What a client holds of one session, as tests look at it.

use acp_types::schema::v1::{Diff, ToolCall, ToolCallContent};
use serde_json::Value;

pub(crate) use acp_conformance::{ObservedSession, call_text, content_text, shown_terminal_id};

/// The change that a call shows.
pub(crate) fn diff(content: &[ToolCallContent]) -> &Diff {
    let diff = content.iter().find_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff),
        _ => None,
    });
    diff.expect("the change itself")
}

/// What a call tells beside the protocol's own fields.
pub(crate) fn meta(call: &ToolCall) -> &Value {
    &call.meta.as_ref().expect("metadata")["callboard"]
}
