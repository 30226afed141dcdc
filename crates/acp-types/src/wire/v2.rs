//! The projection to messages of draft ACP v2. The documents of this crate have the shape of draft
//! v2, so the messages contain almost all of their data.
//!
//! The draft still changes, and this module may change with the draft in a minor release.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use callboard_text::quote_path_unless_utf8;
use serde_json::Value;

use super::{ClientMessage, EndedCalls, REQUEST_PERMISSION, SESSION_UPDATE, maybe_undefined};
use crate::limits::MAX_STREAMED_UPDATE_BYTES;
use crate::meta::{DEFAULT_KEY, truncate_meta_key};
use crate::schema::MaybeUndefined;
use crate::schema::v2::{
    PlanUpdate, PlanUpdateContent, RequestPermissionRequest, RequestPermissionSubject, SessionId,
    SessionUpdate, TerminalExitStatus, TerminalOutputChunk, TerminalSize, TerminalUpdate,
    ToolCallContent, ToolCallContentChunk, ToolCallUpdate, UpdateSessionNotification,
};
use crate::terminal::omission_line_with_style_reset;
use crate::{
    Content, ContentPatch, MessageChunk, PermissionOption, Plan, SessionStatePart, TerminalId,
    TerminalOutput, TerminalPatch, ToolCallId, ToolCallPatch, ToolCallReport, json,
};

mod encode;
mod session_state;

pub use session_state::encode_config_options;

/// Maximum number of bytes of output per chunk. Base64 adds a third, so a line stays below 60 KiB.
const MAX_OUTPUT_CHUNK_BYTES: usize = 40 * 1024;

/// The calls of one session, in the state that was sent on one connection.
#[derive(Debug)]
pub struct V2Projection {
    meta_key: String,
    calls: HashMap<ToolCallId, SentCall>,
    ended: EndedCalls,
}

/// An open call: the state that the client holds, and the changes that were not sent yet.
#[derive(Debug)]
struct SentCall {
    call: ToolCallUpdate,
    /// Fields that are too large for a streamed update: content, raw input, raw output. Deferred
    /// fields are sent with the next report that is not streamed.
    deferred: ToolCallUpdate,
    /// Items to append after the deferred content.
    deferred_items: Vec<ToolCallContent>,
    /// Number of bytes of large fields that were sent in streamed updates so far.
    streamed_bytes: usize,
}

impl SentCall {
    fn new(id: &ToolCallId) -> Self {
        let none = ToolCallUpdate::new(id.0.clone());
        Self { call: none.clone(), deferred: none, deferred_items: Vec::new(), streamed_bytes: 0 }
    }

    /// Adds changes of the large fields to the deferred fields.
    fn defer_changed_large_fields(
        &mut self,
        patch: &ToolCallPatch,
        content: Option<Vec<ToolCallContent>>,
    ) {
        if content.is_some() {
            self.deferred_items.clear();
        }
        defer_if_changed(&mut self.deferred.content, content, &self.call.content);
        defer_if_changed(
            &mut self.deferred.raw_input,
            patch.raw_input.clone(),
            &self.call.raw_input,
        );
        defer_if_changed(
            &mut self.deferred.raw_output,
            patch.raw_output.clone(),
            &self.call.raw_output,
        );
    }

    /// Moves the deferred fields into an update. If the update is streamed, the fields are moved
    /// only if they fit. Returns the items that must be appended by separate messages.
    fn attach_deferred_fields_that_fit(
        &mut self,
        update: &mut ToolCallUpdate,
        is_streamed: bool,
    ) -> Vec<ToolCallContent> {
        move_large_fields(&mut self.deferred, update);
        let line = if is_streamed { json::serialized_len(update) } else { 0 };
        let mut large = ToolCallUpdate::new(self.call.tool_call_id.clone());
        move_large_fields(update, &mut large);
        let size = || json::serialized_len(&large);
        // The content contains no terminal as text.
        let streamed = &mut self.streamed_bytes;
        if is_streamed && !super::may_stream_and_count_large_fields(line, size, 0, streamed) {
            self.deferred = large;
        } else {
            move_large_fields(&mut large.clone(), &mut self.call);
            move_large_fields(&mut large, update);
        }
        // To keep the order, all items after a deferred item are deferred too.
        let fits = |item: &ToolCallContent| json::serialized_len(item) <= MAX_STREAMED_UPDATE_BYTES;
        let count = match is_streamed {
            false => self.deferred_items.len(),
            true if !self.deferred.content.is_undefined() => 0,
            true => self.deferred_items.iter().take_while(|item| fits(item)).count(),
        };
        let items: Vec<_> = self.deferred_items.drain(..count).collect();
        self.record_appended_content(&items);
        items
    }

    /// Appends items to the content that the client holds.
    fn record_appended_content(&mut self, items: &[ToolCallContent]) {
        match &mut self.call.content {
            MaybeUndefined::Value(content) => content.extend_from_slice(items),
            content if !items.is_empty() => *content = MaybeUndefined::Value(items.to_vec()),
            _ => {}
        }
    }
}

/// Moves each large field that is set in `from` to `to`.
fn move_large_fields(from: &mut ToolCallUpdate, to: &mut ToolCallUpdate) {
    move_if_defined(&mut from.content, &mut to.content);
    move_if_defined(&mut from.raw_input, &mut to.raw_input);
    move_if_defined(&mut from.raw_output, &mut to.raw_output);
}

fn move_if_defined<T>(from: &mut MaybeUndefined<T>, to: &mut MaybeUndefined<T>) {
    if !from.is_undefined() {
        *to = std::mem::replace(from, MaybeUndefined::Undefined);
    }
}

/// Defers a new value, or clears the deferred value if the client already holds the new value.
fn defer_if_changed<T: PartialEq>(
    held: &mut MaybeUndefined<T>,
    value: Option<T>,
    holds: &MaybeUndefined<T>,
) {
    if let value @ MaybeUndefined::Value(_) = maybe_undefined(value) {
        *held = if value == *holds { MaybeUndefined::Undefined } else { value };
    }
}

impl Default for V2Projection {
    fn default() -> Self {
        Self {
            meta_key: DEFAULT_KEY.to_owned(),
            calls: HashMap::new(),
            ended: EndedCalls::default(),
        }
    }
}

impl V2Projection {
    /// Creates the projection of a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key in `_meta` for data that has no field in the protocol. The default is
    /// `callboard`. A key of more than 64 bytes is [truncated](truncate_meta_key).
    #[must_use]
    pub fn with_meta_key(mut self, key: impl AsRef<str>) -> Self {
        truncate_meta_key(key.as_ref()).clone_into(&mut self.meta_key);
        self
    }

    /// Returns the number of dropped patches. A patch is dropped if its call already has a final
    /// status, or if its call was never announced. The `CallBoard` of `acp-lifecycle` creates no
    /// such patches.
    #[must_use]
    pub fn dropped_patch_count(&self) -> u64 {
        self.ended.dropped_patches
    }

    /// Converts a patch of a call to a `tool_call_update` with the changes, and to a
    /// `tool_call_content_chunk` for each appended item. A final status removes the call from the
    /// projection.
    ///
    /// The first patch of a call must have a title; otherwise the patch is dropped. A patch after
    /// the final status of its call is dropped too, if the call is one of the 4,096 most recently
    /// finished calls. Dropped patches are [counted](Self::dropped_patch_count).
    pub fn updates_for_call_patch(
        &mut self,
        id: &ToolCallId,
        patch: &ToolCallPatch,
    ) -> Vec<SessionUpdate> {
        let is_first = !self.calls.contains_key(id);
        if !self.ended.admit_or_count_patch(id, patch, !is_first) {
            return Vec::new();
        }
        let is_final = patch.status.is_some_and(crate::Status::is_final);
        let sent = self.calls.entry(id.clone()).or_insert_with(|| SentCall::new(id));
        let holds = &mut sent.call;
        let mut update = ToolCallUpdate::new(id.0.clone());
        update.name = record_and_return_if_changed(patch.name.clone(), &mut holds.name);
        update.title = record_and_return_if_changed(patch.title.clone(), &mut holds.title);
        update.kind =
            record_and_return_if_changed(patch.kind.map(encode::encode_kind), &mut holds.kind);
        update.status = record_and_return_if_changed(
            patch.status.map(encode::encode_status),
            &mut holds.status,
        );
        let locations =
            patch.locations.as_ref().map(|all| all.iter().map(encode::encode_location).collect());
        update.locations = record_and_return_if_changed(locations, &mut holds.locations);
        let capabilities = patch.capabilities.map(encode::encode_capabilities);
        update.capabilities = record_and_return_if_changed(capabilities, &mut holds.capabilities);
        let meta = patch.meta.as_ref().map(|meta| meta.to_meta(&self.meta_key));
        update.meta = record_and_return_if_changed(meta, &mut holds.meta);

        let content = match &patch.content {
            ContentPatch::Keep => None,
            ContentPatch::Append(items) if !is_first => {
                sent.deferred_items.extend(encode_content_items(items, &self.meta_key));
                None
            }
            ContentPatch::Append(items) | ContentPatch::Set(items) => {
                Some(encode_content_items(items, &self.meta_key).collect())
            }
        };
        sent.defer_changed_large_fields(patch, content);
        let items = sent.attach_deferred_fields_that_fit(&mut update, !is_first && !is_final);
        let mut updates = Vec::new();
        if !items.is_empty() && !update.content.is_undefined() {
            // New content is sent before the items that are appended to it.
            let mut replaced = ToolCallUpdate::new(id.0.clone());
            move_if_defined(&mut update.content, &mut replaced.content);
            updates.push(SessionUpdate::ToolCallUpdate(replaced));
        }
        let chunks = items.into_iter().map(|item| ToolCallContentChunk::new(id.0.clone(), item));
        updates.extend(chunks.map(SessionUpdate::ToolCallContentChunk));
        // The final content of a call is sent before its final status.
        if is_first || update != ToolCallUpdate::new(id.0.clone()) {
            updates.push(SessionUpdate::ToolCallUpdate(update));
        }
        if is_final {
            self.calls.remove(id);
            self.ended.insert(id.clone());
        }
        updates
    }

    /// Converts a plan with its id to an update. An empty plan is sent too.
    #[must_use]
    pub fn update_for_plan(&self, id: &str, plan: &Plan) -> SessionUpdate {
        let entries = plan
            .entries
            .iter()
            .map(|entry| encode::encode_plan_entry(entry, &self.meta_key))
            .collect();
        SessionUpdate::PlanUpdate(PlanUpdate::new(PlanUpdateContent::items(id, entries)))
    }

    /// Converts a chunk of a message to an update.
    #[must_use]
    pub fn update_for_chunk(&self, chunk: &MessageChunk) -> SessionUpdate {
        encode::encode_message_chunk(chunk)
    }

    /// Converts a part of the session's state to an update. Returns `None` for a mode, which is an
    /// option in draft v2.
    #[must_use]
    pub fn update_for_state(&self, state: &SessionStatePart) -> Option<SessionUpdate> {
        session_state::encode_session_state(state, &self.meta_key)
    }

    /// Converts a patch of a terminal to messages: a `terminal_update` for its properties, a
    /// `terminal_output_chunk` for each piece of output, and a `terminal_update` for its exit.
    #[must_use]
    pub fn updates_for_terminal_patch(
        &self,
        id: &TerminalId,
        patch: &TerminalPatch,
    ) -> Vec<SessionUpdate> {
        let mut opening = TerminalUpdate::new(id.0.clone());
        opening.command = maybe_undefined(patch.command.clone());
        opening.cwd = maybe_undefined(
            patch.cwd.as_deref().map(|cwd| quote_path_unless_utf8(cwd).into_owned().into()),
        );
        opening.size =
            maybe_undefined(patch.size.map(|size| TerminalSize::new(size.cols, size.rows)));
        let mut closing = TerminalUpdate::new(id.0.clone());
        closing.exit_status = maybe_undefined(patch.exit.as_ref().map(encode_exit_status));
        let none = TerminalUpdate::new(id.0.clone());
        let updates = [opening, closing]
            .map(|update| (update != none).then_some(SessionUpdate::TerminalUpdate(update)));
        let [opening, closing] = updates;
        let output = output_chunks(&patch.output).into_iter().map(|bytes| {
            let chunk = TerminalOutputChunk::new(id.0.clone(), BASE64.encode(bytes));
            SessionUpdate::TerminalOutputChunk(chunk)
        });
        opening.into_iter().chain(output).chain(closing).collect()
    }

    /// Creates a permission request for a call. The request contains the whole call as the client
    /// should hold it, and the title of the call. Returns `None` for an unknown call.
    pub fn permission_request_for_call(
        &mut self,
        session: SessionId,
        id: &ToolCallId,
        options: Vec<PermissionOption>,
    ) -> Option<RequestPermissionRequest> {
        let sent = self.calls.get_mut(id)?;
        let mut held = std::mem::replace(&mut sent.deferred, ToolCallUpdate::new(id.0.clone()));
        move_large_fields(&mut held, &mut sent.call);
        let items = std::mem::take(&mut sent.deferred_items);
        sent.record_appended_content(&items);
        let call = sent.call.clone();
        let title = call.title.value().cloned().unwrap_or_default();
        let subject = RequestPermissionSubject::from(call);
        let options = options.into_iter().map(session_state::encode_permission_option).collect();
        Some(RequestPermissionRequest::new(session, title, options).subject(subject))
    }
}

fn encode_content_items(
    items: &[Content],
    meta_key: &str,
) -> impl Iterator<Item = ToolCallContent> {
    items.iter().map(move |item| encode::encode_content(item, meta_key))
}

/// Returns the parameters of a notification with this update.
#[must_use]
pub fn update_notification(
    update: SessionUpdate,
    session_id: impl Into<SessionId>,
) -> UpdateSessionNotification {
    UpdateSessionNotification::new(session_id, update)
}

impl ClientMessage for UpdateSessionNotification {
    fn method(&self) -> &'static str {
        SESSION_UPDATE
    }

    fn params(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

impl ClientMessage for RequestPermissionRequest {
    fn method(&self) -> &'static str {
        REQUEST_PERMISSION
    }

    fn params(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// Converts a whole document to the call that a client should hold.
#[must_use]
pub fn tool_call_from_report(report: &ToolCallReport, meta_key: &str) -> ToolCallUpdate {
    let meta_key = truncate_meta_key(meta_key);
    let content = report.content.iter().map(|item| encode::encode_content(item, meta_key));
    let mut call = ToolCallUpdate::new(report.id.0.clone())
        .name(report.name.clone())
        .title(report.title.clone())
        .kind(encode::encode_kind(report.kind))
        .status(encode::encode_status(report.status))
        .content(content.collect::<Vec<_>>())
        .locations(report.locations.iter().map(encode::encode_location).collect::<Vec<_>>())
        .capabilities(encode::encode_capabilities(report.capabilities))
        .meta(report.meta.to_meta(meta_key));
    call.raw_input = maybe_undefined(report.raw_input.clone());
    call.raw_output = maybe_undefined(report.raw_output.clone());
    call
}

fn encode_exit_status(exit: &crate::TerminalExit) -> TerminalExitStatus {
    TerminalExitStatus::new().exit_code(exit.code.map(i64::from)).signal(exit.signal.clone())
}

/// Splits output into pieces that fit into a message, with a line in place of omitted bytes.
fn output_chunks(output: &TerminalOutput) -> Vec<Vec<u8>> {
    let gap = match output.omitted_bytes() {
        0 => Vec::new(),
        bytes => omission_line_with_style_reset(bytes).into_bytes(),
    };
    [output.head(), &gap, output.tail()]
        .into_iter()
        .flat_map(|part| part.chunks(MAX_OUTPUT_CHUNK_BYTES))
        .map(<[u8]>::to_vec)
        .collect()
}

/// Sets `field` to `value` and returns the value, or returns `Undefined` if nothing changes.
fn record_and_return_if_changed<T: PartialEq + Clone>(
    value: Option<T>,
    field: &mut MaybeUndefined<T>,
) -> MaybeUndefined<T> {
    let value = maybe_undefined(value);
    if value.is_undefined() || value == *field {
        return MaybeUndefined::Undefined;
    }
    field.clone_from(&value);
    value
}
