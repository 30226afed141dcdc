//! Projection to draft ACP v2. The documents are shaped like it, so little is lost.
//!
//! The draft changes; so may this module, in a minor release.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::meta::DEFAULT_KEY;
use crate::schema::MaybeUndefined;
use crate::schema::v2::{
    PermissionOption, PlanUpdate, PlanUpdateContent, RequestPermissionRequest,
    RequestPermissionSubject, SessionId, SessionUpdate, TerminalExitStatus, TerminalOutputChunk,
    TerminalSize, TerminalUpdate, ToolCallContent, ToolCallContentChunk, ToolCallUpdate,
};
use crate::terminal::gap_line;
use crate::{
    Content, ContentPatch, Output, Plan, TerminalId, TerminalPatch, ToolCallId, ToolCallPatch,
    ToolCallReport,
};

mod encode;

/// Bytes of output in one chunk, so that a line stays under 60 KiB with base64's third more.
const CHUNK_BYTES: usize = 40 * 1024;

/// What one connection has been told of one session's calls and terminals.
#[derive(Debug)]
pub struct Sent {
    meta_key: String,
    calls: HashMap<ToolCallId, ToolCallUpdate>,
}

impl Default for Sent {
    fn default() -> Self {
        Self { meta_key: DEFAULT_KEY.to_owned(), calls: HashMap::new() }
    }
}

impl Sent {
    /// Makes the state of a connection that has been told nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key of `_meta` under which a call's metadata goes; `callboard` otherwise.
    #[must_use]
    pub fn with_meta_key(mut self, key: impl Into<String>) -> Self {
        self.meta_key = key.into();
        self
    }

    /// Projects a patch of a call: a `tool_call_update` with what changed, and a
    /// `tool_call_content_chunk` for each item that is added. A final status forgets the call.
    pub fn tool_call(&mut self, id: &ToolCallId, patch: &ToolCallPatch) -> Vec<SessionUpdate> {
        let is_first = !self.calls.contains_key(id);
        let is_final = patch.status.is_some_and(crate::Status::is_final);
        let sent =
            self.calls.entry(id.clone()).or_insert_with(|| ToolCallUpdate::new(id.0.clone()));
        let mut update = ToolCallUpdate::new(id.0.clone());
        update.name = changed(patch.name.clone(), &mut sent.name);
        update.title = changed(patch.title.clone(), &mut sent.title);
        update.kind = changed(patch.kind.map(encode::kind), &mut sent.kind);
        update.status = changed(patch.status.map(encode::status), &mut sent.status);
        update.raw_input = changed(patch.raw_input.clone(), &mut sent.raw_input);
        update.raw_output = changed(patch.raw_output.clone(), &mut sent.raw_output);
        let locations =
            patch.locations.as_ref().map(|all| all.iter().map(encode::location).collect());
        update.locations = changed(locations, &mut sent.locations);
        let capabilities = patch.capabilities.map(encode::capabilities);
        update.capabilities = changed(capabilities, &mut sent.capabilities);
        let meta = patch.meta.as_ref().map(|meta| meta.to_meta(&self.meta_key));
        update.meta = changed(meta, &mut sent.meta);

        let mut chunks = Vec::new();
        match &patch.content {
            ContentPatch::Keep => {}
            ContentPatch::Append(items) if !is_first => chunks.extend(self.content(items)),
            ContentPatch::Append(items) | ContentPatch::Set(items) => {
                let content = Some(self.content(items));
                if let Some(sent) = self.calls.get_mut(id) {
                    update.content = changed(content, &mut sent.content);
                }
            }
        }
        self.remember_chunks(id, &chunks);
        let mut updates: Vec<_> = chunks
            .into_iter()
            .map(|item| ToolCallContentChunk::new(id.0.clone(), item))
            .map(SessionUpdate::ToolCallContentChunk)
            .collect();
        // Content that a call ends with goes before its end.
        if is_first || update != ToolCallUpdate::new(id.0.clone()) {
            updates.push(SessionUpdate::ToolCallUpdate(update));
        }
        if is_final {
            self.calls.remove(id);
        }
        updates
    }

    /// Projects a patch of a terminal: a `terminal_update` for what it is and how it ended, a
    /// `terminal_output_chunk` for each piece of output.
    #[must_use]
    pub fn terminal(&self, id: &TerminalId, patch: &TerminalPatch) -> Vec<SessionUpdate> {
        let mut opening = TerminalUpdate::new(id.0.clone());
        opening.command = maybe(patch.command.clone());
        opening.cwd = maybe(patch.cwd.clone().map(Into::into));
        opening.size = maybe(patch.size.map(|size| TerminalSize::new(size.cols, size.rows)));
        let mut closing = TerminalUpdate::new(id.0.clone());
        closing.exit_status = maybe(patch.exit.as_ref().map(exit_status));
        let none = TerminalUpdate::new(id.0.clone());
        let updates = [opening, closing]
            .map(|update| (update != none).then_some(SessionUpdate::TerminalUpdate(update)));
        let [opening, closing] = updates;
        let output = chunks(&patch.output).into_iter().map(|bytes| {
            let chunk = TerminalOutputChunk::new(id.0.clone(), BASE64.encode(bytes));
            SessionUpdate::TerminalOutputChunk(chunk)
        });
        opening.into_iter().chain(output).chain(closing).collect()
    }

    /// Makes a permission request about a call: its whole document as the client is to hold it,
    /// and the call's own title.
    #[must_use]
    pub fn permission(
        &self,
        session: SessionId,
        id: &ToolCallId,
        options: Vec<PermissionOption>,
    ) -> Option<RequestPermissionRequest> {
        let call = self.calls.get(id)?.clone();
        let title = call.title.value().cloned().unwrap_or_default();
        let subject = RequestPermissionSubject::from(call);
        Some(RequestPermissionRequest::new(session, title, options).subject(subject))
    }

    fn content(&self, items: &[Content]) -> Vec<ToolCallContent> {
        items.iter().map(|item| encode::content(item, &self.meta_key)).collect()
    }

    fn remember_chunks(&mut self, id: &ToolCallId, chunks: &[ToolCallContent]) {
        if chunks.is_empty() {
            return;
        }
        if let Some(sent) = self.calls.get_mut(id) {
            match &mut sent.content {
                MaybeUndefined::Value(content) => content.extend_from_slice(chunks),
                content => *content = MaybeUndefined::Value(chunks.to_vec()),
            }
        }
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
    call.raw_input = maybe(report.raw_input.clone());
    call.raw_output = maybe(report.raw_output.clone());
    call
}

/// Projects a plan. An empty one is sent too.
#[must_use]
pub fn plan(id: &str, plan: &Plan, meta_key: &str) -> SessionUpdate {
    let entries = plan.entries.iter().map(|entry| encode::plan_entry(entry, meta_key)).collect();
    SessionUpdate::PlanUpdate(PlanUpdate::new(PlanUpdateContent::items(id, entries)))
}

fn exit_status(exit: &crate::Exit) -> TerminalExitStatus {
    TerminalExitStatus::new().exit_code(exit.code.map(i64::from)).signal(exit.signal.clone())
}

/// Cuts output into pieces that fit a message, with a line in the place of what is left out.
fn chunks(output: &Output) -> Vec<Vec<u8>> {
    let gap = match output.left_out() {
        0 => Vec::new(),
        bytes => gap_line(bytes).into_bytes(),
    };
    [output.head(), &gap, output.tail()]
        .into_iter()
        .flat_map(|part| part.chunks(CHUNK_BYTES))
        .map(<[u8]>::to_vec)
        .collect()
}

/// Puts `value` into `field` and returns it, unless it is there already.
fn changed<T: PartialEq + Clone>(
    value: Option<T>,
    field: &mut MaybeUndefined<T>,
) -> MaybeUndefined<T> {
    let value = maybe(value);
    if value.is_undefined() || value == *field {
        return MaybeUndefined::Undefined;
    }
    field.clone_from(&value);
    value
}

fn maybe<T>(value: Option<T>) -> MaybeUndefined<T> {
    value.map_or(MaybeUndefined::Undefined, MaybeUndefined::Value)
}
