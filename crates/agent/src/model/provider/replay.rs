//! What a provider gave with a reply and is told again with it: signed thoughts, ids of items.
//!
//! A reply is kept in the model library's form, beside what was heard of it. It is told again only
//! to the model that gave it, and only with the very calls that it made.

use std::sync::Arc;

use rig_core::{
    completion::CompletionResponse,
    message::{AssistantContent, AssistantMessage, CallId, Message, StopReason},
};

use crate::model::{Call, Replay};

/// Names the call in a place of its reply.
pub(super) fn call_id(place: usize) -> String {
    format!("call_{}", place + 1)
}

/// Keeps a reply that came to its end.
pub(super) fn of(reply: &CompletionResponse, model: &Arc<str>) -> Option<Replay> {
    let Message::Assistant(turn) = reply.message()? else { return None };
    if turn.stop.as_ref().is_some_and(StopReason::is_failure) {
        return None;
    }
    let items = serde_json::to_value(turn).ok()?;
    Some(Replay { model: model.clone(), items })
}

/// Finds the reply again, with the ids that the provider gave to its calls, in order.
pub(super) fn again(
    replay: &Replay,
    model: &str,
    calls: &[Call],
) -> Option<(AssistantMessage, Vec<CallId>)> {
    if &*replay.model != model {
        return None;
    }
    let turn: AssistantMessage = serde::Deserialize::deserialize(&replay.items).ok()?;
    let same = turn.tool_calls().map(|call| call.function.name.as_str());
    if !same.eq(calls.iter().map(|call| call.name.as_str())) {
        return None;
    }
    let ids = turn.tool_calls().map(|call| call.id.clone()).collect();
    let is_empty = turn.content.iter().all(AssistantContent::is_blank);
    (!is_empty).then_some((turn, ids))
}
