//! Projection to draft ACP v2. The documents are shaped like it, so little is lost.
//!
//! The draft changes; so may this module, in a minor release.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use callboard_text::utf8_path;
use serde_json::Value;

use super::{EndedCalls, Message, REQUEST_PERMISSION, SESSION_UPDATE, maybe_undefined};
use crate::limits::MAX_STREAMED_UPDATE_BYTES;
use crate::meta::DEFAULT_KEY;
use crate::schema::MaybeUndefined;
use crate::schema::v2::{
    PlanUpdate, PlanUpdateContent, RequestPermissionRequest, RequestPermissionSubject, SessionId,
    SessionUpdate, TerminalExitStatus, TerminalOutputChunk, TerminalSize, TerminalUpdate,
    ToolCallContent, ToolCallContentChunk, ToolCallUpdate, UpdateSessionNotification,
};
use crate::terminal::terminal_omission_line;
use crate::{
    Content, ContentPatch, MessageChunk, PermissionOption, Plan, SessionState, TerminalId,
    TerminalOutput, TerminalPatch, ToolCallId, ToolCallPatch, ToolCallReport, json,
};

mod encode;
mod session_state;

pub use session_state::config_options;

/// Bytes of output in one chunk, so that a line stays under 60 KiB with base64's third more.
const MAX_OUTPUT_CHUNK_BYTES: usize = 40 * 1024;

/// What one connection has been told of one session's calls and terminals.
#[derive(Debug)]
pub struct V2Projection {
    meta_key: String,
    calls: HashMap<ToolCallId, SentCall>,
    ended: EndedCalls,
}

/// One open call: what the client holds of it, and what it was not told yet.
#[derive(Debug)]
struct SentCall {
    call: ToolCallUpdate,
    /// What is too large for a streamed update and goes with the next report that is not one:
    /// content, raw input, raw output.
    deferred: ToolCallUpdate,
    /// Items that are added behind what is held.
    deferred_items: Vec<ToolCallContent>,
    /// Bytes of what streamed updates have repeated.
    streamed_bytes: usize,
}

impl SentCall {
    fn new(id: &ToolCallId) -> Self {
        let none = ToolCallUpdate::new(id.0.clone());
        Self { call: none.clone(), deferred: none, deferred_items: Vec::new(), streamed_bytes: 0 }
    }

    /// Finds what changes of the large fields, beside what is held of the others already.
    fn defer_large_fields(&mut self, patch: &ToolCallPatch, content: Option<Vec<ToolCallContent>>) {
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

    /// Moves what is held into an update, as far as a streamed one has room for it, and returns
    /// the items that are told beside it.
    fn flush_deferred(
        &mut self,
        update: &mut ToolCallUpdate,
        is_streamed: bool,
    ) -> Vec<ToolCallContent> {
        move_large_fields(&mut self.deferred, update);
        let line = if is_streamed { json::serialized_len(update) } else { 0 };
        let mut large = ToolCallUpdate::new(self.call.tool_call_id.clone());
        move_large_fields(update, &mut large);
        let size = || json::serialized_len(&large);
        if is_streamed && !super::may_stream(line, size, &mut self.streamed_bytes) {
            self.deferred = large;
        } else {
            move_large_fields(&mut large.clone(), &mut self.call);
            move_large_fields(&mut large, update);
        }
        // Order is kept: behind what is held, everything is.
        let fits = |item: &ToolCallContent| json::serialized_len(item) <= MAX_STREAMED_UPDATE_BYTES;
        let told = match is_streamed {
            false => self.deferred_items.len(),
            true if !self.deferred.content.is_undefined() => 0,
            true => self.deferred_items.iter().take_while(|item| fits(item)).count(),
        };
        let told: Vec<_> = self.deferred_items.drain(..told).collect();
        self.append_content(&told);
        told
    }

    /// Lets the client hold more items.
    fn append_content(&mut self, items: &[ToolCallContent]) {
        match &mut self.call.content {
            MaybeUndefined::Value(content) => content.extend_from_slice(items),
            content if !items.is_empty() => *content = MaybeUndefined::Value(items.to_vec()),
            _ => {}
        }
    }
}

/// Moves the large fields that are set.
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

/// Holds a new value, or nothing if the client holds that value already.
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
    /// Makes the state of a connection that has been told nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key of `_meta` under which goes what the protocol has no place for; `callboard`
    /// otherwise.
    #[must_use]
    pub fn with_meta_key(mut self, key: impl Into<String>) -> Self {
        self.meta_key = key.into();
        self
    }

    /// Returns how many patches were dropped, because they came after the final status of their call
    /// or were of a call that was never announced. A board makes none of either.
    #[must_use]
    pub fn dropped_patches(&self) -> u64 {
        self.ended.dropped_patches
    }

    /// Projects a patch of a call: a `tool_call_update` with what changed, and a
    /// `tool_call_content_chunk` for each item that is added. A final status forgets the call.
    ///
    /// The first patch of a call has a title. One that has none, and one after a final status (of the
    /// newest 4,096 calls that ended), sends nothing and is [counted](Self::dropped).
    pub fn tool_call(&mut self, id: &ToolCallId, patch: &ToolCallPatch) -> Vec<SessionUpdate> {
        let is_first = !self.calls.contains_key(id);
        if !self.ended.admits_patch(id, patch, !is_first) {
            return Vec::new();
        }
        let is_final = patch.status.is_some_and(crate::Status::is_final);
        let sent = self.calls.entry(id.clone()).or_insert_with(|| SentCall::new(id));
        let holds = &mut sent.call;
        let mut update = ToolCallUpdate::new(id.0.clone());
        update.name = set_if_changed(patch.name.clone(), &mut holds.name);
        update.title = set_if_changed(patch.title.clone(), &mut holds.title);
        update.kind = set_if_changed(patch.kind.map(encode::kind), &mut holds.kind);
        update.status = set_if_changed(patch.status.map(encode::status), &mut holds.status);
        let locations =
            patch.locations.as_ref().map(|all| all.iter().map(encode::location).collect());
        update.locations = set_if_changed(locations, &mut holds.locations);
        let capabilities = patch.capabilities.map(encode::capabilities);
        update.capabilities = set_if_changed(capabilities, &mut holds.capabilities);
        let meta = patch.meta.as_ref().map(|meta| meta.to_meta(&self.meta_key));
        update.meta = set_if_changed(meta, &mut holds.meta);

        let content = match &patch.content {
            ContentPatch::Keep => None,
            ContentPatch::Append(items) if !is_first => {
                sent.deferred_items.extend(content_items(items, &self.meta_key));
                None
            }
            ContentPatch::Append(items) | ContentPatch::Set(items) => {
                Some(content_items(items, &self.meta_key).collect())
            }
        };
        sent.defer_large_fields(patch, content);
        let items = sent.flush_deferred(&mut update, !is_first && !is_final);
        let mut updates = Vec::new();
        if !items.is_empty() && !update.content.is_undefined() {
            // Content that replaces goes before what is added to it.
            let mut replaced = ToolCallUpdate::new(id.0.clone());
            move_if_defined(&mut update.content, &mut replaced.content);
            updates.push(SessionUpdate::ToolCallUpdate(replaced));
        }
        let chunks = items.into_iter().map(|item| ToolCallContentChunk::new(id.0.clone(), item));
        updates.extend(chunks.map(SessionUpdate::ToolCallContentChunk));
        // Content that a call ends with goes before its end.
        if is_first || update != ToolCallUpdate::new(id.0.clone()) {
            updates.push(SessionUpdate::ToolCallUpdate(update));
        }
        if is_final {
            self.calls.remove(id);
            self.ended.insert(id.clone());
        }
        updates
    }

    /// Projects a plan by its id. An empty one is sent too.
    #[must_use]
    pub fn plan(&self, id: &str, plan: &Plan) -> SessionUpdate {
        let entries =
            plan.entries.iter().map(|entry| encode::plan_entry(entry, &self.meta_key)).collect();
        SessionUpdate::PlanUpdate(PlanUpdate::new(PlanUpdateContent::items(id, entries)))
    }

    /// Projects a piece of a message.
    #[must_use]
    pub fn chunk(&self, chunk: &MessageChunk) -> SessionUpdate {
        encode::chunk(chunk)
    }

    /// Projects what a session tells beside its messages, calls and plan. Nothing is told of a mode,
    /// which is an option here.
    #[must_use]
    pub fn state(&self, state: &SessionState) -> Option<SessionUpdate> {
        session_state::session_update(state, &self.meta_key)
    }

    /// Projects a patch of a terminal: a `terminal_update` for what it is and how it ended, a
    /// `terminal_output_chunk` for each piece of output.
    #[must_use]
    pub fn terminal(&self, id: &TerminalId, patch: &TerminalPatch) -> Vec<SessionUpdate> {
        let mut opening = TerminalUpdate::new(id.0.clone());
        opening.command = maybe_undefined(patch.command.clone());
        opening.cwd =
            maybe_undefined(patch.cwd.as_deref().map(|cwd| utf8_path(cwd).into_owned().into()));
        opening.size =
            maybe_undefined(patch.size.map(|size| TerminalSize::new(size.cols, size.rows)));
        let mut closing = TerminalUpdate::new(id.0.clone());
        closing.exit_status = maybe_undefined(patch.exit.as_ref().map(exit_status));
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

    /// Makes a permission request about a call: its whole document as the client is to hold it,
    /// and the call's own title.
    pub fn permission_request(
        &mut self,
        session: SessionId,
        id: &ToolCallId,
        options: Vec<PermissionOption>,
    ) -> Option<RequestPermissionRequest> {
        let sent = self.calls.get_mut(id)?;
        let mut held = std::mem::replace(&mut sent.deferred, ToolCallUpdate::new(id.0.clone()));
        move_large_fields(&mut held, &mut sent.call);
        let items = std::mem::take(&mut sent.deferred_items);
        sent.append_content(&items);
        let call = sent.call.clone();
        let title = call.title.value().cloned().unwrap_or_default();
        let subject = RequestPermissionSubject::from(call);
        let options = options.into_iter().map(session_state::permission_option).collect();
        Some(RequestPermissionRequest::new(session, title, options).subject(subject))
    }
}

fn content_items(items: &[Content], meta_key: &str) -> impl Iterator<Item = ToolCallContent> {
    items.iter().map(move |item| encode::content(item, meta_key))
}

/// Returns the parameters of the notification that carries an update.
#[must_use]
pub fn update_notification(
    update: SessionUpdate,
    session_id: impl Into<SessionId>,
) -> UpdateSessionNotification {
    UpdateSessionNotification::new(session_id, update)
}

impl Message for UpdateSessionNotification {
    fn method(&self) -> &'static str {
        SESSION_UPDATE
    }

    fn params(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

impl Message for RequestPermissionRequest {
    fn method(&self) -> &'static str {
        REQUEST_PERMISSION
    }

    fn params(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// Writes a whole document in the wire's form.
#[must_use]
pub fn tool_call(report: &ToolCallReport, meta_key: &str) -> ToolCallUpdate {
    let content = report.content.iter().map(|item| encode::content(item, meta_key));
    let mut call = ToolCallUpdate::new(report.id.0.clone())
        .name(report.name.clone())
        .title(report.title.clone())
        .kind(encode::kind(report.kind))
        .status(encode::status(report.status))
        .content(content.collect::<Vec<_>>())
        .locations(report.locations.iter().map(encode::location).collect::<Vec<_>>())
        .capabilities(encode::capabilities(report.capabilities))
        .meta(report.meta.to_meta(meta_key));
    call.raw_input = maybe_undefined(report.raw_input.clone());
    call.raw_output = maybe_undefined(report.raw_output.clone());
    call
}

fn exit_status(exit: &crate::TerminalExit) -> TerminalExitStatus {
    TerminalExitStatus::new().exit_code(exit.code.map(i64::from)).signal(exit.signal.clone())
}

/// Cuts output into pieces that fit a message, with a line in the place of what is left out.
fn output_chunks(output: &TerminalOutput) -> Vec<Vec<u8>> {
    let gap = match output.omitted_bytes() {
        0 => Vec::new(),
        bytes => terminal_omission_line(bytes).into_bytes(),
    };
    [output.head(), &gap, output.tail()]
        .into_iter()
        .flat_map(|part| part.chunks(MAX_OUTPUT_CHUNK_BYTES))
        .map(<[u8]>::to_vec)
        .collect()
}

/// Puts `value` into `field` and returns it, unless it is there already.
fn set_if_changed<T: PartialEq + Clone>(
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
