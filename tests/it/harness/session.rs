//! Functions that read the client's view of a session.

use acp_types::schema::v1::{Diff, ToolCall, ToolCallContent};
use serde_json::Value;

pub(crate) use acp_conformance::{ObservedSession, call_text, content_text, shown_terminal_id};

/// Returns the first change of a file in the content of a call.
pub(crate) fn diff(content: &[ToolCallContent]) -> &Diff {
    let diff = content.iter().find_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff),
        _ => None,
    });
    diff.expect("the change itself")
}

/// Returns the metadata that callboard adds to a call in `_meta`.
pub(crate) fn meta(call: &ToolCall) -> &Value {
    &call.meta.as_ref().expect("metadata")["callboard"]
}
