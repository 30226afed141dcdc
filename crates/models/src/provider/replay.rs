//! Provider data of a reply that must be returned with the reply, e.g. signed thoughts and ids of
//! items.
//!
//! The data is sent back only with the same calls, and only to the same model at the same server.
//! For most replies, the data consists of the ids of the calls.

use std::sync::Arc;

use rig_core::{
    completion::CompletionResponse,
    message::{AssistantContent, AssistantMessage, CallId, Message, StopReason},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{ModelToolCall, ProviderReplay};

/// Returns the id of a call from the call's position in its reply.
pub(super) fn call_id_from_position(place: usize) -> String {
    format!("call_{}", place + 1)
}

/// Returns an identifier for a model at a server. Replay data is never sent to a model with another
/// identifier. The URL of the server may contain secrets, so the identifier contains only a hash of
/// the URL.
pub(super) fn replay_origin(model: &str, base_url: Option<&str>) -> Arc<str> {
    let Some(url) = base_url else { return model.into() };
    let hash = Sha256::digest(url.trim_end_matches('/'));
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{model} at {hash}").into()
}

/// The stored data of a reply.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredReply {
    /// Ids of the calls, in order. All other data of the reply is in the events.
    Ids(Vec<CallId>),
    /// The reply in the provider's form.
    Turn(AssistantMessage),
}

/// Returns the data to store with a complete reply.
pub(super) fn replay_from_reply(
    reply: &CompletionResponse,
    origin: &Arc<str>,
) -> Option<ProviderReplay> {
    let Message::Assistant(mut turn) = reply.message()? else { return None };
    if turn.stop.as_ref().is_some_and(StopReason::is_failure) {
        return None;
    }
    for block in &mut turn.content {
        if stored_native_form_of_block(block).is_some_and(has_only_streamed_keys) {
            *block = block.canonical();
        }
    }
    let is_heard = |block: &AssistantContent| match block {
        AssistantContent::Text(_) | AssistantContent::ToolCall(_) => {
            stored_native_form_of_block(block).is_none()
        }
        // Thoughts without a signature are never sent back.
        AssistantContent::Reasoning(_) => stored_native_form_of_block(block).is_none(),
        _ => false,
    };
    let kept = if turn.content.iter().all(is_heard) {
        let ids: Vec<_> = turn.tool_calls().map(|call| call.id.clone()).collect();
        if ids.is_empty() {
            return None;
        }
        StoredReply::Ids(ids)
    } else {
        StoredReply::Turn(turn)
    };
    Some(ProviderReplay { origin: origin.clone(), items: serde_json::to_value(kept).ok()? })
}

/// Restores the stored data of a reply. Returns `None` if the data does not match these calls.
pub(super) fn restore_stored_reply(
    replay: &ProviderReplay,
    origin: &str,
    calls: &[ModelToolCall],
) -> Option<StoredReply> {
    if &*replay.origin != origin {
        return None;
    }
    let kept = StoredReply::deserialize(&replay.items).ok()?;
    let is_same = match &kept {
        StoredReply::Ids(ids) => ids.len() == calls.len(),
        StoredReply::Turn(turn) => {
            let names = turn.tool_calls().map(|call| call.function.name.as_str());
            names.eq(calls.iter().map(|call| call.name.as_str()))
        }
    };
    is_same.then_some(kept)
}

/// Returns the provider's own form of a block.
fn stored_native_form_of_block(block: &AssistantContent) -> Option<&Value> {
    let native = match block {
        AssistantContent::Text(text) => &text.native,
        AssistantContent::ToolCall(call) => &call.native,
        AssistantContent::Reasoning(reasoning) => &reasoning.native,
        AssistantContent::Image(image) => &image.native,
        _ => return None,
    };
    native.as_ref().map(|native| &native.item)
}

/// JSON keys, in calls and texts of all dialects, whose values are also in the events.
const STREAMED_KEYS: [&str; 11] = [
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

/// Returns whether a block contains only data that is also in the events.
fn has_only_streamed_keys(item: &Value) -> bool {
    let Value::Object(item) = item else { return false };
    item.iter().all(|(key, value)| match (&**key, value) {
        ("function" | "functionCall", inner) => has_only_streamed_keys(inner),
        (_, Value::Null) => true,
        (key, _) => STREAMED_KEYS.contains(&key),
    })
}

#[cfg(test)]
mod tests {
    use super::replay_origin;

    #[test]
    fn models_of_the_same_name_at_different_servers_are_distinguished() {
        let of = |url: Option<&str>| replay_origin("openai/m", url);
        assert_eq!(&*of(None), "openai/m");
        assert_eq!(of(Some("https://a/v1")), of(Some("https://a/v1/")));
        assert_ne!(of(Some("https://a/v1")), of(Some("https://b/v1")));
        assert_ne!(of(Some("https://a/v1")), of(None));
        assert_ne!(of(Some("https://a/v1")), replay_origin("gemini/m", Some("https://a/v1")));
        assert!(!of(Some("https://name:word@a/v1")).contains("word"));
    }
}
