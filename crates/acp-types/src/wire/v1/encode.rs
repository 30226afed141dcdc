//! Encodes the types of this crate as types of ACP v1.

use std::path::Path;

use callboard_text::{path_text, quote_path_unless_utf8};
use serde_json::json;

use super::WireUpdate;
use crate::json::{escaped_string_len, serialized_len};
use crate::limits::{MAX_FILE_CHANGE_BYTES, MAX_WHOLE_FILE_DIFF_BYTES};
use crate::schema::v1::{
    self, ContentBlock, Diff, SessionUpdate, TextContent, ToolCallContent, ToolCallStatus,
};
use crate::{
    Content, FileChange, FileChangeOperation, MessageChunk, Plan, PlanEntry, PlanPriority,
    PlanStatus, ReplayedPromptBlock, Role, Status, TerminalId, diff,
};

/// Returns the v1 status of a call. A cancelled call is `failed`, and a paused call is
/// `in_progress`.
#[must_use]
pub fn encode_status(status: Status) -> ToolCallStatus {
    match status {
        Status::Pending => ToolCallStatus::Pending,
        Status::InProgress | Status::Paused => ToolCallStatus::InProgress,
        Status::Completed => ToolCallStatus::Completed,
        Status::Failed | Status::Cancelled => ToolCallStatus::Failed,
    }
}

pub(super) fn encode_message_chunk(chunk: &MessageChunk) -> SessionUpdate {
    let text = v1::ContentChunk::new(ContentBlock::from(chunk.text.as_str()));
    let text = text.message_id(v1::MessageId::new(&*chunk.message));
    match chunk.role {
        Role::Agent => SessionUpdate::AgentMessageChunk(text),
        Role::Thought => SessionUpdate::AgentThoughtChunk(text),
        Role::User => SessionUpdate::UserMessageChunk(text),
    }
}

pub(super) fn encode_replayed_prompt_block(part: &ReplayedPromptBlock) -> SessionUpdate {
    let chunk = v1::ContentChunk::new(part.block.clone());
    SessionUpdate::UserMessageChunk(chunk.message_id(v1::MessageId::new(&*part.message)))
}

/// Encodes a plan. A cancelled step is encoded as completed, with a note in its text.
pub(super) fn encode_plan(plan: &Plan, meta_key: &str) -> WireUpdate {
    let entries = plan.entries.iter().map(|entry| encode_plan_entry(entry, meta_key)).collect();
    SessionUpdate::Plan(v1::Plan::new(entries)).into()
}

fn encode_plan_entry(entry: &PlanEntry, meta_key: &str) -> v1::PlanEntry {
    let priority = match entry.priority {
        PlanPriority::High => v1::PlanEntryPriority::High,
        PlanPriority::Medium => v1::PlanEntryPriority::Medium,
        PlanPriority::Low => v1::PlanEntryPriority::Low,
    };
    let (status, content) = match entry.status {
        PlanStatus::Pending => (v1::PlanEntryStatus::Pending, entry.content.clone()),
        PlanStatus::InProgress => (v1::PlanEntryStatus::InProgress, entry.content.clone()),
        PlanStatus::Completed => (v1::PlanEntryStatus::Completed, entry.content.clone()),
        PlanStatus::Cancelled => {
            (v1::PlanEntryStatus::Completed, format!("{} (cancelled)", entry.content))
        }
    };
    let mut encoded = v1::PlanEntry::new(content, priority, status);
    encoded.meta = crate::wire::plan_entry_meta(entry, meta_key);
    encoded
}

/// Encodes content items for v1. A change may become several items.
///
/// `shown` encodes a terminal, or returns `None` if no part of the terminal is known yet.
pub(super) fn encode_content_items(
    content: &[Content],
    meta_key: &str,
    shown: impl Fn(&TerminalId) -> Option<ToolCallContent>,
) -> Vec<ToolCallContent> {
    let mut items = Vec::with_capacity(content.len());
    for item in content {
        match item {
            Content::Block(block) => items.push(ToolCallContent::from(block.clone())),
            Content::Change(change) => items.extend(encode_file_change(change, meta_key)),
            Content::Terminal(id) => items.extend(shown(id)),
        }
    }
    items
}

/// Shortens file changes that are too large for a message.
pub(super) fn shorten_changes(content: &mut [Content]) {
    for item in content {
        if let Content::Change(change) = item
            && let Some(short) = diff::shorten_change(change, MAX_FILE_CHANGE_BYTES)
        {
            *change = short;
        }
    }
}

/// Returns the number of bytes that an item takes as JSON. The length of a text item is computed
/// without serialising the item.
pub(super) fn item_json_len(item: &ToolCallContent) -> usize {
    match item {
        ToolCallContent::Content(v1::Content {
            content: ContentBlock::Text(TextContent { text, annotations: None, meta: None, .. }),
            meta: None,
            ..
        }) => {
            r#"{"type":"content","content":{"type":"text","text":""}}"#.len()
                + escaped_string_len(text)
        }
        other => serialized_len(other),
    }
}

/// Returns an excerpt of `content`: all texts, the first hunks of the file changes, and a note with
/// the number of omitted lines. The texts and hunks take at most `max` bytes of JSON, unless the
/// texts alone are longer. Returns `None` if there is no file change, or if an item is a terminal.
pub(super) fn encode_excerpt_of_file_changes(
    content: &[Content],
    meta_key: &str,
    max: usize,
) -> Option<Vec<ToolCallContent>> {
    let (mut has_change, mut room) = (false, max);
    for item in content {
        match item {
            Content::Block(block) => {
                room = room.saturating_sub(item_json_len(&block.clone().into()));
            }
            Content::Change(_) => has_change = true,
            Content::Terminal(_) => return None,
        }
    }
    let (mut items, mut omitted, mut lines) = (Vec::new(), Vec::new(), (0, 0));
    for item in content {
        match item {
            Content::Block(block) => items.push(block.clone().into()),
            Content::Change(change) => {
                let short = diff::shorten_change(change, room);
                let part = short.as_ref().unwrap_or(change);
                let encoded = encode_file_change(part, meta_key);
                let bytes: usize = encoded.iter().map(item_json_len).sum();
                let is_empty = part.hunks.is_empty() && part.unlisted != (0, 0);
                if is_empty || bytes > room {
                    let (added, removed) = part.line_counts();
                    lines = (lines.0 + added, lines.1 + removed);
                    omitted.push(&change.path);
                } else {
                    room -= bytes;
                    items.extend(encoded);
                }
            }
            Content::Terminal(_) => {}
        }
    }
    items.extend(match omitted[..] {
        [] => None,
        [path] => Some(omitted_lines_note(path, lines)),
        _ => {
            let (files, (added, removed)) = (omitted.len(), lines);
            let note = format!("{files} more files with +{added} −{removed} lines are not shown.");
            Some(note.into())
        }
    });
    has_change.then_some(items)
}

/// Encodes a change that is already [shortened](shorten_changes). A small change becomes a diff of
/// whole files, a large change becomes one diff per hunk, and a change without texts becomes a
/// sentence. A small move becomes two diffs.
fn encode_file_change(change: &FileChange, meta_key: &str) -> Vec<ToolCallContent> {
    if let FileChangeOperation::Move { from } = &change.operation
        && let Some(old) = &change.old_text
    {
        let gone = encode_whole_file_diff(change, from, Some(old.clone()), String::new(), meta_key);
        let come = encode_whole_file_diff(
            change,
            &change.path,
            None,
            change.new_text.clone().unwrap_or_default(),
            meta_key,
        );
        return vec![gone, come];
    }
    let whole = match (&change.operation, &change.old_text, &change.new_text) {
        (FileChangeOperation::Add | FileChangeOperation::Copy { .. }, _, Some(new)) => {
            Some((None, new.clone()))
        }
        (FileChangeOperation::Delete, Some(old), _) => Some((Some(old.clone()), String::new())),
        (FileChangeOperation::Modify, Some(old), Some(new)) => {
            Some((Some(old.clone()), new.clone()))
        }
        _ => None,
    };
    match whole {
        Some((old, new))
            if change.hunks.is_empty()
                || change.texts_or_hunks_byte_len() <= MAX_WHOLE_FILE_DIFF_BYTES =>
        {
            vec![encode_whole_file_diff(change, &change.path, old, new, meta_key)]
        }
        _ if change.hunks.is_empty() && change.unlisted == (0, 0) => {
            vec![describe_file_change(change)]
        }
        _ => encode_hunks_as_diffs(change, meta_key),
    }
}

fn encode_hunks_as_diffs(change: &FileChange, meta_key: &str) -> Vec<ToolCallContent> {
    // A diff has only one path, so the other path is shown before the diff.
    let from = matches!(
        change.operation,
        FileChangeOperation::Move { .. } | FileChangeOperation::Copy { .. }
    )
    .then(|| describe_file_change(change));
    let hunks = change.hunks.iter().map(|hunk| {
        let old = (change.operation != FileChangeOperation::Add).then(|| hunk.old_text());
        let mut item = Diff::new(quote_path_unless_utf8(&change.path), hunk.new_text());
        item.old_text = old;
        item.meta = Some(v1::Meta::from_iter([(
            meta_key.to_owned(),
            json!({
                "kind": change.operation.as_str(),
                "oldStart": hunk.old_start,
                "newStart": hunk.new_start,
            }),
        )]));
        ToolCallContent::Diff(item)
    });
    let mut items: Vec<_> = from.into_iter().chain(hunks).collect();
    if change.unlisted != (0, 0) {
        items.push(omitted_lines_note(&change.path, change.unlisted));
    }
    items
}

fn omitted_lines_note(path: &Path, (added, removed): (usize, usize)) -> ToolCallContent {
    let rest = if added + removed == 1 { "line is" } else { "lines are" };
    let path = path_text(path);
    ToolCallContent::from(format!("{path}: +{added} −{removed} more {rest} not shown."))
}

fn encode_whole_file_diff(
    change: &FileChange,
    path: &Path,
    old: Option<String>,
    new: String,
    meta_key: &str,
) -> ToolCallContent {
    let mut diff = Diff::new(quote_path_unless_utf8(path), new);
    diff.old_text = old;
    diff.meta = Some(v1::Meta::from_iter([(
        meta_key.to_owned(),
        json!({ "kind": change.operation.as_str() }),
    )]));
    ToolCallContent::Diff(diff)
}

fn describe_file_change(change: &FileChange) -> ToolCallContent {
    if let Some(sentence) = &change.sentence {
        return ToolCallContent::from(sentence.clone());
    }
    let path = path_text(&change.path);
    ToolCallContent::from(match &change.operation {
        FileChangeOperation::Add => format!("Adds {path}"),
        FileChangeOperation::Modify => format!("Changes {path}"),
        FileChangeOperation::Delete => format!("Deletes {path}"),
        FileChangeOperation::Move { from } => format!("Moves {} to {path}", path_text(from)),
        FileChangeOperation::Copy { from } => format!("Copies {} to {path}", path_text(from)),
    })
}
