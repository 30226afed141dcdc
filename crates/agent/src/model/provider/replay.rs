//! What a provider gave with a reply and is told again with it: signed thoughts, ids of items.
//!
//! It is told again only to the model that gave it, and only with the very calls that it was given
//! with. Of most replies, that is no more than the ids of the calls.

use std::sync::Arc;

use rig_core::{
    completion::CompletionResponse,
    message::{AssistantContent, AssistantMessage, CallId, Message, StopReason},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Call, Replay};

/// Names the call in a place of its reply.
pub(super) fn call_id(place: usize) -> String {
    format!("call_{}", place + 1)
}

/// What is kept of a reply.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    /// The ids of its calls, in order: all else was heard.
    Ids(Vec<CallId>),
    /// The reply as the provider gave it.
    Turn(AssistantMessage),
}

/// Keeps what is needed of a reply that came to its end.
pub(super) fn of(reply: &CompletionResponse, model: &Arc<str>) -> Option<Replay> {
    let Message::Assistant(mut turn) = reply.message()? else { return None };
    if turn.stop.as_ref().is_some_and(StopReason::is_failure) {
        return None;
    }
    for block in &mut turn.content {
        if native(block).is_some_and(is_plain) {
            *block = block.canonical();
        }
    }
    let is_heard = |block: &AssistantContent| match block {
        AssistantContent::Text(_) | AssistantContent::ToolCall(_) => native(block).is_none(),
        // Thoughts without a signature are told to nobody.
        AssistantContent::Reasoning(_) => native(block).is_none(),
        _ => false,
    };
    let kept = if turn.content.iter().all(is_heard) {
        let ids: Vec<_> = turn.tool_calls().map(|call| call.id.clone()).collect();
        if ids.is_empty() {
            return None;
        }
        Kept::Ids(ids)
    } else {
        Kept::Turn(turn)
    };
    Some(Replay { model: model.clone(), items: serde_json::to_value(kept).ok()? })
}

/// Finds what was kept of a reply with these calls.
pub(super) fn again(replay: &Replay, model: &str, calls: &[Call]) -> Option<Kept> {
    if &*replay.model != model {
        return None;
    }
    let kept = Kept::deserialize(&replay.items).ok()?;
    let is_same = match &kept {
        Kept::Ids(ids) => ids.len() == calls.len(),
        Kept::Turn(turn) => {
            let names = turn.tool_calls().map(|call| call.function.name.as_str());
            names.eq(calls.iter().map(|call| call.name.as_str()))
        }
    };
    is_same.then_some(kept)
}

/// The provider's own form of a block.
fn native(block: &AssistantContent) -> Option<&Value> {
    let native = match block {
        AssistantContent::Text(text) => &text.native,
        AssistantContent::ToolCall(call) => &call.native,
        AssistantContent::Reasoning(reasoning) => &reasoning.native,
        AssistantContent::Image(image) => &image.native,
        _ => return None,
    };
    native.as_ref().map(|native| &native.item)
}

/// Keys that say no more than was heard, in the calls and texts of all dialects.
const HEARD: [&str; 11] = [
    "type",
    "index",
    "id",
    "name",
    "arguments",
    "args",
    "input",
    "text",
    "function",
    "functionCall",
    "citations",
];

/// Tells whether a block holds nothing but what was heard of it.
fn is_plain(item: &Value) -> bool {
    let Value::Object(item) = item else { return false };
    item.iter().all(|(key, value)| match (&**key, value) {
        ("function" | "functionCall", inner) => is_plain(inner),
        (_, Value::Null) => true,
        (key, _) => HEARD.contains(&key),
    })
}
