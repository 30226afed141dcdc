//! Golden messages: values of this crate, and the JSON that the protocol pages specify for them.
//!
//! The expected JSON is written by hand, independently of the projections.

#![cfg(feature = "v2")]
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail by a panic")]

mod call;
mod content;
mod deferred_updates;
mod permission;
mod plan;
mod session;
mod terminal;

use acp_types::wire::{self, v1::TerminalDisplay};
use acp_types::{TerminalId, TerminalReport, ToolCallId, ToolCallPatch, ToolCallReport, ToolKind};
use serde::Serialize;
use serde_json::Value;

const KEY: &str = "callboard";

fn json(message: &impl Serialize) -> Value {
    serde_json::to_value(message).expect("a message is JSON")
}

fn id() -> ToolCallId {
    "c".into()
}

fn announce() -> ToolCallPatch {
    ToolCallPatch::for_new_call("tool", "A title", ToolKind::Read)
}

/// Returns the document that results from applying a patch to an empty document.
fn report(patch: ToolCallPatch) -> ToolCallReport {
    let mut report = ToolCallReport::new(id());
    patch.apply(&mut report);
    report
}

/// Returns the v1 call that results from a patch, as JSON and with its terminals as text.
fn v1_document(patch: &ToolCallPatch, terminal: Option<&TerminalReport>) -> Value {
    let find = |_: &TerminalId| terminal;
    json(&wire::v1::tool_call_from_report(&report(patch.clone()), TerminalDisplay::Text, KEY, find))
}

fn v2_document(patch: &ToolCallPatch) -> Value {
    json(&wire::v2::tool_call_from_report(&report(patch.clone()), KEY))
}
