//! Shortens a session so that providers still accept its messages. The shortened session begins
//! with a prompt or a note of the agent. The results of a reply still come directly after the
//! reply, and the newest prompt is complete.

use std::sync::Arc;

use callboard_models::{ChatMessage, ModelToolCall, ToolResult};
use callboard_text::{head, tail};
use serde::Deserialize;

use super::budget::{estimated_bytes, total_estimated_bytes};
use crate::limits::{KEPT_NEWEST_RESULTS, MIN_CLEARED_RESULT_BYTES, MIN_TRUNCATED_RESULT_BYTES};

/// Replaces older results by a note, beginning with the oldest, until the messages have at most
/// `goal` bytes. The newest [`KEPT_NEWEST_RESULTS`] results and short results are not changed.
/// Returns the number of replaced results.
pub(super) fn clear_older_results(messages: &mut [Arc<ChatMessage>], goal: u64) -> usize {
    let all: usize = messages.iter().map(|message| tool_results(message).len()).sum();
    let (mut older, mut cleared) = (all.saturating_sub(KEPT_NEWEST_RESULTS), 0);
    let mut now = total_estimated_bytes(messages);
    for message in messages {
        let count = tool_results(message).len().min(older);
        older -= count;
        let is_long = |result: &ToolResult| {
            result.text.len() > MIN_CLEARED_RESULT_BYTES || !result.parts.is_empty()
        };
        if now <= goal || !tool_results(message)[..count].iter().any(is_long) {
            continue;
        }
        now -= estimated_bytes(message);
        if let ChatMessage::ToolResults(results) = Arc::make_mut(message) {
            for result in results.iter_mut().take(count).filter(|result| is_long(result)) {
                CLEARED_RESULT_NOTE.clone_into(&mut result.text);
                result.parts.clear();
                cleared += 1;
            }
        }
        now += estimated_bytes(message);
    }
    cleared
}

fn tool_results(message: &ChatMessage) -> &[ToolResult] {
    match message {
        ChatMessage::ToolResults(results) => results,
        _ => &[],
    }
}

/// The messages of a session, divided into messages that are kept and messages that are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HistorySplit {
    /// Index of the newest prompt, if it is before the tail. This prompt is kept in addition to the
    /// tail.
    prompt: Option<usize>,
    /// Index of the first message of the tail. All messages from this index on are kept.
    tail: usize,
}

impl HistorySplit {
    /// Returns the messages that are replaced, in their order.
    pub(super) fn old_messages(self, messages: &[Arc<ChatMessage>]) -> Vec<&ChatMessage> {
        let is_old = |index: &usize| Some(*index) != self.prompt;
        (0..self.tail).filter(is_old).map(|index| &*messages[index]).collect()
    }

    /// Returns the newest prompt if it is before the tail.
    pub(super) fn kept_prompt(self, messages: &[Arc<ChatMessage>]) -> Option<&ChatMessage> {
        Some(&messages[self.prompt?])
    }

    /// Returns the messages with the old messages replaced by one text.
    pub(super) fn replace_old_messages(
        self,
        messages: &[Arc<ChatMessage>],
        replacement: String,
    ) -> Vec<Arc<ChatMessage>> {
        let replacement = Arc::new(ChatMessage::Context(replacement));
        let prompt = self.prompt.map(|index| messages[index].clone());
        let tail = messages[self.tail..].iter().cloned();
        std::iter::once(replacement).chain(prompt).chain(tail).collect()
    }
}

/// Keeps the newest prompt, and the longest tail of messages that fits into `room` bytes together
/// with this prompt. A reply is never separated from its results. If the results of the newest
/// reply do not fit, they are truncated.
pub(super) fn split_history(messages: &mut [Arc<ChatMessage>], room: u64) -> HistorySplit {
    let is_prompt = |message: &Arc<ChatMessage>| matches!(**message, ChatMessage::User(_));
    let newest = messages.iter().rposition(is_prompt);
    let mut room = room.saturating_sub(newest.map_or(0, |index| estimated_bytes(&messages[index])));
    truncate_newest_results(messages, room);
    let mut tail = messages.len();
    // The tail may begin at any message except results, because results must come after their
    // reply.
    let starts = |index: &usize| tool_results(&messages[*index]).is_empty();
    for start in (0..messages.len()).rev().filter(starts) {
        let is_counted = Some(start) == newest;
        let step = if is_counted { 0 } else { total_estimated_bytes(&messages[start..tail]) };
        if step > room {
            break;
        }
        (room, tail) = (room - step, start);
    }
    HistorySplit { prompt: newest.filter(|index| *index < tail), tail }
}

/// If the newest reply and its results exceed `room` bytes, removes the images of the results and
/// truncates their texts.
fn truncate_newest_results(messages: &mut [Arc<ChatMessage>], room: u64) {
    let newest = |messages: &[Arc<ChatMessage>]| {
        total_estimated_bytes(&messages[messages.len().saturating_sub(2)..])
    };
    let is_results = matches!(messages.last().map(|it| &**it), Some(ChatMessage::ToolResults(_)));
    // The history finds a prompt by its pointer, and `Arc::make_mut` may change the pointer. The
    // last message is therefore changed only if it contains results.
    if newest(messages) <= room || !is_results {
        return;
    }
    if let Some(ChatMessage::ToolResults(results)) = messages.last_mut().map(Arc::make_mut) {
        results.iter_mut().for_each(|result| result.replace_parts_with_note(HIDDEN_IMAGE_NOTE));
    }
    let step = newest(messages);
    let Some(ChatMessage::ToolResults(results)) = messages.last_mut().map(Arc::make_mut) else {
        return;
    };
    let texts: usize = results.iter().map(|result| result.text.len()).sum();
    let beside = step.saturating_sub(texts as u64);
    let share = room.saturating_sub(beside) / results.len().max(1) as u64;
    let share = usize::try_from(share).unwrap_or(usize::MAX).max(MIN_TRUNCATED_RESULT_BYTES);
    for result in results {
        result.text = cut_middle(&result.text, share);
    }
}

/// Removes the middle of a text that has more than `max` bytes.
pub(super) fn cut_middle(whole: &str, max: usize) -> String {
    if whole.len() <= max {
        return whole.to_owned();
    }
    let half = max.saturating_sub(LEFT_OUT_NOTE.len()) / 2;
    format!("{}{LEFT_OUT_NOTE}{}", head(whole, half), tail(whole, half))
}

/// Returns the newest plan that the model sent to the plan tool, with one line per step.
pub(super) fn latest_plan(messages: &[&ChatMessage], tool: &str) -> Option<String> {
    let calls = messages.iter().rev().flat_map(|message| match message {
        ChatMessage::Assistant { calls, .. } => calls.as_slice(),
        _ => &[],
    });
    let newest = calls.filter(|call| call.name == tool).find_map(parse_todos)?;
    let line = |todo: Todo| format!("- [{}] {}", todo.status, todo.content);
    Some(newest.into_iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn parse_todos(call: &ModelToolCall) -> Option<Vec<Todo>> {
    serde_json::from_str::<Todos>(&call.arguments).ok().map(|it| it.todos)
}

#[derive(Deserialize)]
struct Todos {
    todos: Vec<Todo>,
}

#[derive(Deserialize)]
struct Todo {
    content: String,
    #[serde(default = "pending_status")]
    status: String,
}

fn pending_status() -> String {
    "pending".to_owned()
}

/// Text that replaces a removed result.
const CLEARED_RESULT_NOTE: &str =
    "[This result was left out to make room. Call the tool again if you need it.]";
const HIDDEN_IMAGE_NOTE: &str = "[The image was left out to make room.]";
const LEFT_OUT_NOTE: &str = "\n[… left out to make room …]\n";

#[cfg(test)]
mod tests;
