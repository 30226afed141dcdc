//! The projection to messages of ACP v1, with or without the `_meta.terminal_*` convention.
//!
//! A [`V1Projection`] records the state that was sent on one connection for one session. The
//! projection stores the wire form of every open call, and compares each patch with it. Therefore
//! an unchanged array is never sent again, no field is cleared by accident, and no update is empty.

use std::path::PathBuf;

use callboard_text::{
    head, path_text, push_char_escaping_invisible, quote_path_unless_utf8, wrap_in_code_fence,
};
use foldhash::HashMap;
use serde_json::{Map, Value, json};

use crate::limits::{
    MAX_OUTPUT_CHUNK_BYTES, MAX_RUNNING_COMMAND_BYTES, MAX_RUNNING_OUTPUT_BYTES,
    RUNNING_OUTPUT_OVERHEAD_BYTES,
};
use crate::meta::{DEFAULT_KEY, truncate_meta_key};
use crate::schema::v1::{
    ClientCapabilities, RequestPermissionRequest, SessionId, SessionUpdate, Terminal, ToolCall,
    ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use crate::terminal::{omission_line, omission_line_with_style_reset};
use crate::{
    CallMeta, Content, Location, MessageChunk, PermissionOption, Plan, ReplayedPromptBlock,
    SessionStatePart, Status, TerminalExit, TerminalId, TerminalOutput, TerminalPatch,
    TerminalReport, ToolCallId, ToolCallPatch, ToolCallReport, json,
};

mod call;
mod encode;
mod plain_text;
mod session_state;
mod update;
mod utf8;

use super::EndedCalls;
use call::{SentCall, TerminalContext};
pub use encode::encode_status;
pub use session_state::{encode_config_options, encode_modes};
pub use update::{SessionUpdateParams, WireUpdate};
use utf8::Utf8Decoder;

/// The form in which terminals are sent on a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TerminalDisplay {
    /// Shows a terminal as text content of the call, with limited size. Each change replaces the
    /// text.
    ///
    /// A terminal that the client runs itself is always sent as a terminal, with the id that the
    /// client assigned.
    #[default]
    Text,
    /// If the first report of the call contains the terminal, shows a display-only terminal.
    /// Otherwise, shows text. Uses the convention of `_meta.terminal_info`, `terminal_output` and
    /// `terminal_exit`, for clients that advertise `clientCapabilities._meta.terminal_output`
    /// (<https://github.com/zed-industries/zed/pull/39419>).
    MetaEvents,
}

impl TerminalDisplay {
    /// Returns the display that a client supports, according to the `_meta` of its capabilities.
    #[must_use]
    pub fn from_capabilities(client: &ClientCapabilities) -> Self {
        let shows = client.meta.as_ref().and_then(|meta| meta.get("terminal_output"));
        match shows.and_then(Value::as_bool) {
            Some(true) => Self::MetaEvents,
            _ => Self::Text,
        }
    }
}

/// The calls and terminals of one session, in the state that was sent on one connection.
#[derive(Debug)]
pub struct V1Projection {
    display: TerminalDisplay,
    meta_key: String,
    calls: HashMap<ToolCallId, SentCall>,
    terminals: HashMap<TerminalId, SentTerminal>,
    ended: EndedCalls,
}

/// A terminal: its document, and a record of the events that were sent for it.
#[derive(Debug)]
struct SentTerminal {
    report: TerminalReport,
    announced: bool,
    /// The directory that was sent most recently.
    sent_cwd: Option<PathBuf>,
    /// Whether output or an exit was sent. After that, `terminal_info` is not sent again.
    has_started: bool,
    exit_sent: bool,
    pending: TerminalOutput,
    carry: Utf8Decoder,
}

impl V1Projection {
    /// Creates the projection of a new connection.
    #[must_use]
    pub fn new(display: TerminalDisplay) -> Self {
        Self {
            display,
            meta_key: DEFAULT_KEY.to_owned(),
            calls: HashMap::default(),
            terminals: HashMap::default(),
            ended: EndedCalls::default(),
        }
    }

    /// Sets the key in `_meta` for data that has no field in the protocol. The default is
    /// `callboard`. A key of more than 64 bytes is [truncated](truncate_meta_key).
    #[must_use]
    pub fn with_meta_key(mut self, key: impl AsRef<str>) -> Self {
        truncate_meta_key(key.as_ref()).clone_into(&mut self.meta_key);
        self
    }

    /// Returns the key in `_meta`. A client may use the same key in its responses, for data to the
    /// agent.
    #[must_use]
    pub fn meta_key(&self) -> &str {
        &self.meta_key
    }

    /// Returns the number of dropped patches. A patch is dropped if its call already has a final
    /// status, or if its call was never announced. The `CallBoard` of `acp-lifecycle` creates no
    /// such patches.
    #[must_use]
    pub fn dropped_patch_count(&self) -> u64 {
        self.ended.dropped_patches
    }

    /// Converts a patch of a call to messages. The first patch becomes a `tool_call`. A later patch
    /// becomes a `tool_call_update` with the changes, if there are any. A final status removes the
    /// call from the projection. A borrowed patch is cloned.
    ///
    /// The first patch of a call must have a title; otherwise the patch is dropped. A patch after
    /// the final status of its call is dropped too, if the call is one of the 4,096 most recently
    /// finished calls. Dropped patches are [counted](Self::dropped_patch_count).
    pub fn updates_for_call_patch(
        &mut self,
        id: &ToolCallId,
        patch: impl Into<ToolCallPatch>,
    ) -> Vec<WireUpdate> {
        let patch = patch.into();
        if !self.ended.admit_or_count_patch(id, &patch, self.calls.contains_key(id)) {
            return Vec::new();
        }
        let is_final = patch.status.is_some_and(Status::is_final);
        let update = self.record_patch_and_build_update(id, patch);
        let Some(sent) = self.calls.get_mut(id) else {
            return Vec::new();
        };
        let mut updates = Vec::with_capacity(1);
        if sent.announced {
            if !is_empty_update(&update) {
                updates.push(SessionUpdate::ToolCallUpdate(update).into());
            }
        } else {
            sent.announced = true;
            let mut call = sent.merge_deferred_into_full_call(&self.meta_key);
            let shown = sent.shown_terminal_ids().next().cloned();
            if self.display == TerminalDisplay::MetaEvents
                && let Some(terminal) = shown
            {
                let info = self.announce_terminal_in_meta(&terminal);
                let meta = call.meta.take().unwrap_or_default();
                call.meta = Some(meta.into_iter().chain(info).collect());
            }
            updates.push(SessionUpdate::ToolCall(call).into());
            updates.extend(self.take_unsent_terminal_events(id));
        }
        if is_final {
            self.forget_call(id);
            self.ended.insert(id.clone());
        }
        updates
    }

    /// Converts a plan to an update. An empty plan is sent too. A cancelled step is sent as
    /// completed, with a note in its text.
    #[must_use]
    pub fn update_for_plan(&self, plan: &Plan) -> WireUpdate {
        encode::encode_plan(plan, &self.meta_key)
    }

    /// Converts a chunk of a message to an update.
    #[must_use]
    pub fn update_for_chunk(&self, chunk: &MessageChunk) -> WireUpdate {
        encode::encode_message_chunk(chunk).into()
    }

    /// Converts a part of a prompt to an update, for a replayed session.
    #[must_use]
    pub fn update_for_replayed_prompt_block(&self, part: &ReplayedPromptBlock) -> WireUpdate {
        encode::encode_replayed_prompt_block(part).into()
    }

    /// Converts a part of the session's state to an update.
    ///
    /// Send a compaction only to clients that advertise support for it.
    #[must_use]
    pub fn update_for_state(&self, state: &SessionStatePart) -> WireUpdate {
        session_state::encode_session_state(state, &self.meta_key).into()
    }

    /// Converts a patch of a terminal to updates of the call that shows the terminal. If no open
    /// call shows the terminal, the patch is buffered until a call shows it.
    pub fn updates_for_terminal_patch(
        &mut self,
        id: &TerminalId,
        patch: &TerminalPatch,
    ) -> Vec<WireUpdate> {
        let terminal = self.get_or_insert_terminal(id);
        terminal.pending.append_output(&patch.output);
        patch.clone().apply(&mut terminal.report);
        let Some(call) = self.find_call_showing_terminal(id) else {
            return Vec::new();
        };
        let announced = self.terminals.get(id).is_some_and(|terminal| terminal.announced);
        // For a terminal that is shown by events, only a new client id changes the content of the
        // call.
        let mut updates = match announced && patch.client_id.is_none() {
            true => Vec::new(),
            false => self.updates_for_call_patch(&call, ToolCallPatch::new()),
        };
        updates.extend(self.take_unsent_terminal_events(&call));
        updates
    }

    /// Creates a permission request that contains the whole call in its current state, and no
    /// additional text. The whole call then counts as sent. Returns `None` for an unknown call.
    pub fn permission_request_for_call(
        &mut self,
        session: SessionId,
        id: &ToolCallId,
        options: Vec<PermissionOption>,
    ) -> Option<RequestPermissionRequest> {
        let sent = self.calls.get_mut(id)?;
        sent.announced = true;
        // The request includes the call's metadata, but never terminal events.
        let mut call = sent.merge_deferred_into_full_call(&self.meta_key);
        let meta = call.meta.take();
        let update = ToolCallUpdate::from(call).meta(meta);
        let options = options.into_iter().map(session_state::encode_permission_option).collect();
        Some(RequestPermissionRequest::new(session, update, options))
    }

    /// Applies a patch to the recorded state of a call, and returns the update that must be sent.
    fn record_patch_and_build_update(
        &mut self,
        id: &ToolCallId,
        patch: ToolCallPatch,
    ) -> ToolCallUpdate {
        let sent = self.calls.entry(id.clone()).or_insert_with(|| SentCall::new(id));
        let is_final = patch.status.is_some_and(Status::is_final);
        let ending = (patch.status == Some(Status::Cancelled))
            .then(|| patch.meta.as_deref().unwrap_or(&CallMeta::default()).end_reason_text());
        // A new value replaces a deferred value.
        sent.deferred.raw_input =
            sent.deferred.raw_input.take().filter(|_| patch.raw_input.is_none());
        sent.deferred.raw_output =
            sent.deferred.raw_output.take().filter(|_| patch.raw_output.is_none());
        let holds = &sent.call;
        let now = patch.status.map_or(holds.status, encode_status);
        let mut fields = ToolCallUpdateFields::new();
        fields.name = patch.name.filter(|name| holds.name.as_ref() != Some(name));
        fields.title = patch.title.filter(|title| *title != holds.title);
        fields.kind = patch.kind.filter(|kind| *kind != holds.kind);
        fields.status = patch.status.map(encode_status).filter(|status| *status != holds.status);
        fields.raw_input = patch.raw_input.filter(|input| holds.raw_input.as_ref() != Some(input));
        fields.raw_output =
            patch.raw_output.filter(|output| holds.raw_output.as_ref() != Some(output));
        let locations =
            patch.locations.map(|all| all.iter().map(encode_location).collect::<Vec<_>>());
        fields.locations = locations.filter(|locations| *locations != holds.locations);
        let mut update = ToolCallUpdate::new(id.clone(), fields);
        // Empty metadata is only sent to replace earlier metadata.
        let news = patch.meta.filter(|meta| match &sent.meta {
            Some(previous) => previous != meta,
            None => !meta.is_empty(),
        });
        if let Some(meta) = news {
            if sent.announced {
                update.meta = Some(meta.to_meta(&self.meta_key));
            }
            sent.meta = Some(meta);
        }
        let shows = TerminalContext {
            display: self.display,
            meta_key: &self.meta_key,
            terminals: &self.terminals,
        };
        update.fields.content =
            sent.apply_and_encode_changed_content(patch.content, ending, now, &shows);
        sent.attach_or_defer_large_fields(&mut update, is_final, &self.meta_key);
        update
    }

    fn get_or_insert_terminal(&mut self, id: &TerminalId) -> &mut SentTerminal {
        self.terminals.entry(id.clone()).or_insert_with(|| SentTerminal {
            report: TerminalReport::new(id.clone()),
            announced: false,
            sent_cwd: None,
            has_started: false,
            exit_sent: false,
            pending: TerminalOutput::default(),
            carry: Utf8Decoder::default(),
        })
    }

    fn find_call_showing_terminal(&self, id: &TerminalId) -> Option<ToolCallId> {
        let shows =
            |sent: &&SentCall| sent.announced && sent.shown_terminal_ids().any(|shown| shown == id);
        self.calls.values().find(shows).map(|sent| sent.call.tool_call_id.clone())
    }

    fn forget_call(&mut self, id: &ToolCallId) {
        if let Some(sent) = self.calls.remove(id) {
            for terminal in sent.shown_terminal_ids() {
                self.terminals.remove(terminal);
            }
            // The call may show its terminal no longer.
            self.terminals.remove(&TerminalId::new(id.0.clone()));
        }
    }

    /// Returns the `terminal_info` event that opens a display-only terminal.
    fn announce_terminal_in_meta(&mut self, id: &TerminalId) -> Map<String, Value> {
        let terminal = self.get_or_insert_terminal(id);
        terminal.announced = true;
        Map::from_iter([("terminal_info".to_owned(), terminal.terminal_info_event())])
    }

    /// Returns the unsent terminal events of a call: a changed directory, output, exit.
    fn take_unsent_terminal_events(&mut self, call: &ToolCallId) -> Vec<WireUpdate> {
        let Some(sent) = self.calls.get(call) else {
            return Vec::new();
        };
        let mut updates = Vec::new();
        for id in sent.shown_terminal_ids() {
            if let Some(terminal) = self.terminals.get_mut(id)
                && terminal.announced
            {
                let mut event = |name: &str, value: Value| {
                    let meta = Map::from_iter([(name.to_owned(), value)]);
                    let update = ToolCallUpdate::new(call.clone(), ToolCallUpdateFields::new());
                    updates.push(SessionUpdate::ToolCallUpdate(update.meta(meta)).into());
                };
                if terminal.has_new_cwd() {
                    event("terminal_info", terminal.terminal_info_event());
                }
                for data in terminal.take_unsent_output_text_chunks() {
                    event("terminal_output", json!({ "terminal_id": id, "data": data }));
                }
                if let Some(exit) = terminal.take_unsent_exit() {
                    let TerminalExit { code, signal } = exit;
                    let value = json!({ "terminal_id": id, "exit_code": code, "signal": signal });
                    event("terminal_exit", value);
                }
            }
        }
        updates
    }
}

impl SentTerminal {
    /// Returns whether the directory must be sent again, because it differs from the directory that
    /// was sent. The directory may change until the arguments of the call are complete.
    fn has_new_cwd(&self) -> bool {
        !self.has_started && self.report.cwd != self.sent_cwd
    }

    fn terminal_info_event(&mut self) -> Value {
        self.sent_cwd.clone_from(&self.report.cwd);
        let mut info = json!({ "terminal_id": self.report.id });
        if let Some(cwd) = &self.report.cwd {
            info["cwd"] = json!(quote_path_unless_utf8(cwd));
        }
        info
    }

    /// Returns the unsent output as text, in pieces that fit into a message.
    fn take_unsent_output_text_chunks(&mut self) -> Vec<String> {
        let pending = std::mem::take(&mut self.pending);
        let mut data = self.carry.decode(pending.head());
        if pending.omitted_bytes() > 0 {
            data.push_str(&self.carry.decode_remaining());
            data.push_str(&omission_line_with_style_reset(pending.omitted_bytes()));
        }
        data.push_str(&self.carry.decode(pending.tail()));
        if self.report.exit.is_some() {
            data.push_str(&self.carry.decode_remaining());
        }
        let mut rest = data.as_str();
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let piece = json::prefix_within_escaped_len(rest, MAX_OUTPUT_CHUNK_BYTES);
            pieces.push(piece.to_owned());
            rest = &rest[piece.len()..];
        }
        self.has_started |= !pieces.is_empty();
        pieces
    }

    fn take_unsent_exit(&mut self) -> Option<TerminalExit> {
        if self.exit_sent {
            return None;
        }
        let exit = self.report.exit.clone()?;
        (self.has_started, self.exit_sent) = (true, true);
        Some(exit)
    }
}

/// Reduces a document to the parts that v1 can represent. The function is total and idempotent.
///
/// | field | rule |
/// |---|---|
/// | status | `paused` is `in_progress`, `cancelled` is `failed` |
/// | content | for a cancelled call: an additional text with the reason and possible effects |
/// | file changes | if over 256 KiB of JSON: the first hunks and the number of omitted lines |
/// | capabilities | none |
/// | other fields | kept; the encoder converts paths with [`quote_path_unless_utf8`] |
#[must_use]
pub fn reduce_to_v1(mut report: ToolCallReport) -> ToolCallReport {
    match report.status {
        Status::Cancelled => {
            report.status = Status::Failed;
            report.content.push(Content::from_text(report.meta.end_reason_text()));
        }
        Status::Paused => report.status = Status::InProgress,
        _ => {}
    }
    encode::shorten_changes(&mut report.content);
    report.capabilities = crate::CallCapabilities::default();
    report
}

/// Converts a whole document to the call that a client should hold, with terminals in the form
/// `surface`. Use the result for a comparison with a client state. To create messages, use
/// [`V1Projection`], which returns [`WireUpdate`]s.
///
/// `terminal` returns the document of a terminal that the call shows.
#[must_use]
pub fn tool_call_from_report<'a>(
    report: &ToolCallReport,
    surface: TerminalDisplay,
    meta_key: &str,
    terminal: impl Fn(&TerminalId) -> Option<&'a TerminalReport>,
) -> ToolCall {
    let (report, meta_key) = (reduce_to_v1(report.clone()), truncate_meta_key(meta_key));
    let status = encode_status(report.status);
    let content = encode::encode_content_items(&report.content, meta_key, |id| {
        terminal_content(id, terminal(id), surface, status)
    });
    let mut call = ToolCall::new(report.id, report.title)
        .name(Some(report.name).filter(|name| !name.is_empty()))
        .kind(report.kind)
        .status(status)
        .content(content)
        .locations(report.locations.iter().map(encode_location).collect())
        .raw_input(report.raw_input)
        .raw_output(report.raw_output);
    call.meta = (!report.meta.is_empty()).then(|| report.meta.to_meta(meta_key));
    call
}

/// Returns the content item for a terminal. If the client runs the command, the item refers to the
/// client's terminal. Otherwise, the item has the form that `surface` defines.
fn terminal_content(
    id: &TerminalId,
    report: Option<&TerminalReport>,
    surface: TerminalDisplay,
    status: ToolCallStatus,
) -> Option<ToolCallContent> {
    let theirs = report.and_then(|report| report.client_id.as_ref());
    match theirs.or((surface == TerminalDisplay::MetaEvents).then_some(id)) {
        Some(id) => Some(ToolCallContent::Terminal(Terminal::new(id.clone()))),
        None => terminal_text_content(report, status),
    }
}

/// Returns a terminal as text. The text contains the command, as much output as a message may
/// contain, and the exit if the command failed. While the call is pending, the text also contains
/// the directory. While the call runs, the item takes at most [`MAX_RUNNING_OUTPUT_BYTES`]. Returns
/// `None` if no part of the terminal is known yet.
fn terminal_text_content(
    report: Option<&TerminalReport>,
    status: ToolCallStatus,
) -> Option<ToolCallContent> {
    let report = report?;
    let command = terminal_command_text(report, status);
    let output = String::from_utf8_lossy(&report.output.to_bytes_with_omission_line()).into_owned();
    let plain = plain_text::to_plain_text(&output);
    let ending = failed_exit_text(report);
    let with_output = |tail: &str| {
        let mut shown = command.clone();
        if tail.len() < plain.len() {
            let omitted = report.output.total_bytes().saturating_sub(tail.len() as u64);
            shown.push_str(&omission_line(omitted));
        }
        shown.push_str(tail);
        if let Some(ending) = &ending {
            if !shown.is_empty() && !shown.ends_with('\n') {
                shown.push('\n');
            }
            shown.push_str(ending);
        }
        (!shown.is_empty()).then(|| ToolCallContent::from(wrap_in_code_fence("console", &shown)))
    };
    if matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed) {
        return with_output(&plain);
    }
    let mut room = (MAX_RUNNING_OUTPUT_BYTES - RUNNING_OUTPUT_OVERHEAD_BYTES)
        .saturating_sub(json::escaped_string_len(&command));
    loop {
        let content = with_output(json::suffix_within_escaped_len(&plain, room));
        let len = content.as_ref().map_or(0, encode::item_json_len);
        // The fence may be long, because it is longer than every row of backticks in the text.
        if room == 0 || len <= MAX_RUNNING_OUTPUT_BYTES {
            return content;
        }
        room /= 2;
    }
}

/// Returns the line of a terminal that shows its command, or an empty text if the command is not
/// known. While the call is pending, there is also a line with the directory.
fn terminal_command_text(report: &TerminalReport, status: ToolCallStatus) -> String {
    let mut shown = String::new();
    let Some(command) = &report.command else { return shown };
    let part = match status {
        ToolCallStatus::InProgress => head(command, MAX_RUNNING_COMMAND_BYTES),
        _ => command,
    };
    shown.push_str("$ ");
    for letter in part.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            letter => push_char_escaping_invisible(&mut shown, letter),
        }
    }
    let mut is_whole = part.len() == command.len();
    if status == ToolCallStatus::InProgress {
        let fits = json::prefix_within_escaped_len(&shown, MAX_RUNNING_COMMAND_BYTES).len();
        is_whole &= fits == shown.len();
        shown.truncate(fits);
    }
    shown.push_str(if is_whole { "\n" } else { "…\n" });
    // The user must know the directory to decide on permission for the command.
    if let (ToolCallStatus::Pending, Some(cwd)) = (status, &report.cwd) {
        shown.push_str("[in ");
        let cwd = path_text(cwd);
        cwd.chars().for_each(|letter| push_char_escaping_invisible(&mut shown, letter));
        shown.push_str("]\n");
    }
    shown
}

fn failed_exit_text(report: &TerminalReport) -> Option<String> {
    match report.exit.as_ref()? {
        TerminalExit { signal: Some(signal), .. } => Some(format!("[ended by {signal}]")),
        TerminalExit { code: Some(code), .. } if *code != 0 => Some(format!("[exit code {code}]")),
        _ => None,
    }
}

fn encode_location(location: &Location) -> ToolCallLocation {
    ToolCallLocation::new(quote_path_unless_utf8(location.path()))
        .line(location.line().map(u32::from))
}

fn is_empty_update(update: &ToolCallUpdate) -> bool {
    update.meta.is_none() && update.fields == ToolCallUpdateFields::new()
}
