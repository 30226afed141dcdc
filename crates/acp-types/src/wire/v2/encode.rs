//! Encodes the types of this crate as types of draft ACP v2.

use callboard_text::quote_path_unless_utf8;

use crate::schema::v2::{
    ContentBlock, ContentChunk, Diff, DiffChange, DiffFileType, PlanEntry, PlanEntryPriority,
    PlanEntryStatus, SessionUpdate, Terminal, ToolCallCancelCapabilities, ToolCallCapabilities,
    ToolCallContent, ToolCallLocation, ToolCallStatus, ToolKind,
};
use crate::{
    CallCapabilities, Content, FileChange, FileChangeOperation, Location, MessageChunk,
    PlanPriority, PlanStatus, Role, Status,
};

pub(super) fn encode_status(status: Status) -> ToolCallStatus {
    match status {
        Status::Pending => ToolCallStatus::Pending,
        Status::InProgress => ToolCallStatus::InProgress,
        Status::Paused => ToolCallStatus::Paused,
        Status::Completed => ToolCallStatus::Completed,
        Status::Failed => ToolCallStatus::Failed,
        Status::Cancelled => ToolCallStatus::Cancelled,
    }
}

pub(super) fn encode_kind(kind: crate::ToolKind) -> ToolKind {
    match kind {
        crate::ToolKind::Read => ToolKind::Read,
        crate::ToolKind::Edit => ToolKind::Edit,
        crate::ToolKind::Delete => ToolKind::Delete,
        crate::ToolKind::Move => ToolKind::Move,
        crate::ToolKind::Search => ToolKind::Search,
        crate::ToolKind::Execute => ToolKind::Execute,
        crate::ToolKind::Think => ToolKind::Think,
        crate::ToolKind::Fetch => ToolKind::Fetch,
        crate::ToolKind::SwitchMode => ToolKind::SwitchMode,
        _ => ToolKind::Other,
    }
}

pub(super) fn encode_location(location: &Location) -> ToolCallLocation {
    ToolCallLocation::new(quote_path_unless_utf8(location.path()))
        .line(location.line().map(u32::from))
}

pub(super) fn encode_capabilities(capabilities: CallCapabilities) -> ToolCallCapabilities {
    ToolCallCapabilities::new().cancel(capabilities.cancel.then(ToolCallCancelCapabilities::new))
}

pub(super) fn encode_content(item: &Content, meta_key: &str) -> ToolCallContent {
    match item {
        Content::Block(block) => ToolCallContent::from(encode_content_block(block)),
        Content::Terminal(id) => Terminal::new(id.0.clone()).into(),
        Content::Change(change) => encode_diff(change, meta_key).into(),
    }
}

/// Converts a content block from v1 to draft v2. Both versions encode blocks in the same way. A
/// block that draft v2 does not define becomes a text with the JSON of the block.
fn encode_content_block(block: &crate::ContentBlock) -> ContentBlock {
    let value = serde_json::to_value(block).unwrap_or_default();
    let text = value.to_string();
    serde_json::from_value(value).unwrap_or_else(|_| ContentBlock::from(text))
}

fn encode_diff(change: &FileChange, meta_key: &str) -> Diff {
    let path = quote_path_unless_utf8(&change.path).into_owned();
    let operation = match &change.operation {
        FileChangeOperation::Add => DiffChange::add(path),
        FileChangeOperation::Modify => DiffChange::modify(path),
        FileChangeOperation::Delete => DiffChange::delete(path),
        FileChangeOperation::Move { from } => {
            DiffChange::move_file(quote_path_unless_utf8(from), path)
        }
        FileChangeOperation::Copy { from } => DiffChange::copy(quote_path_unless_utf8(from), path),
    };
    let short = crate::diff::shorten_change(change, crate::limits::MAX_FILE_CHANGE_BYTES);
    let change = short.as_ref().unwrap_or(change);
    let has_hunks = !change.hunks.is_empty() || change.unlisted != (0, 0);
    let has_text = change.old_text.is_some() || change.new_text.is_some() || has_hunks;
    if !has_text {
        return Diff::new(vec![operation]);
    }
    let operation = operation.file_type(DiffFileType::Text);
    let mut diff = Diff::patch(change.git_patch(), vec![operation]);
    let (added, removed) = change.unlisted;
    if (added, removed) != (0, 0) {
        let note = serde_json::json!({ "linesLeftOut": { "added": added, "removed": removed } });
        diff.meta = Some(serde_json::Map::from_iter([(meta_key.to_owned(), note)]));
    }
    diff
}

pub(super) fn encode_message_chunk(chunk: &MessageChunk) -> SessionUpdate {
    let text = ContentChunk::new(ContentBlock::from(chunk.text.as_str()), &*chunk.message);
    match chunk.role {
        Role::Agent => SessionUpdate::AgentMessageChunk(text),
        Role::Thought => SessionUpdate::AgentThoughtChunk(text),
        Role::User => SessionUpdate::UserMessageChunk(text),
    }
}

pub(super) fn encode_plan_entry(entry: &crate::PlanEntry, meta_key: &str) -> PlanEntry {
    let priority = match entry.priority {
        PlanPriority::High => PlanEntryPriority::High,
        PlanPriority::Medium => PlanEntryPriority::Medium,
        PlanPriority::Low => PlanEntryPriority::Low,
    };
    let status = match entry.status {
        PlanStatus::Pending => PlanEntryStatus::Pending,
        PlanStatus::InProgress => PlanEntryStatus::InProgress,
        PlanStatus::Completed => PlanEntryStatus::Completed,
        PlanStatus::Cancelled => PlanEntryStatus::Cancelled,
    };
    let mut encoded = PlanEntry::new(entry.content.clone(), priority, status);
    encoded.meta = crate::wire::plan_entry_meta(entry, meta_key);
    encoded
}
