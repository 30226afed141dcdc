//! Projection to ACP v1, with or without the `_meta.terminal_*` convention.
//!
//! [`Sent`] is what one connection has been told of one session. It holds the wire's own form of
//! every open call, so that an array that did not change is never sent again, nothing is cleared
//! by accident, and no update is empty.

use std::path::PathBuf;

use callboard_text::{fenced, path_text, push_visible, tail, utf8_path};
use foldhash::HashMap;
use serde_json::{Map, Value, json};

use crate::limits::{CHUNK_BYTES, RUNNING_TEXT};
use crate::meta::DEFAULT_KEY;
use crate::schema::v1::{
    ClientCapabilities, RequestPermissionRequest, SessionId, SessionUpdate, Terminal, ToolCall,
    ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use crate::terminal::{gap_line, terminal_gap};
use crate::{
    CallMeta, Chunk, Content, Exit, Location, Output, PermissionOption, Plan, SessionState, Status,
    TerminalId, TerminalPatch, TerminalReport, ToolCallId, ToolCallPatch, ToolCallReport, json,
};

mod call;
mod encode;
mod plain;
mod state;
mod update;
mod utf8;

use super::Ended;
use call::{SentCall, Shows};
pub use encode::status;
pub use state::{config_options, modes};
pub use update::{Notification, Update};
use utf8::Utf8Carry;

/// How this connection shows a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Surface {
    /// As text content of the call, bounded and replaced.
    ///
    /// A terminal that the client runs itself is shown as one on every surface, by the client's id.
    #[default]
    Text,
    /// As a display-only terminal, where the call's first report shows it; as text otherwise. By the convention of `_meta.terminal_info`, `terminal_output`
    /// and `terminal_exit`, for clients that advertise `clientCapabilities._meta.terminal_output`
    /// (<https://github.com/zed-industries/zed/pull/39419>).
    Meta,
}

impl Surface {
    /// Returns how a client shows terminals, which it says in its capabilities' `_meta`.
    #[must_use]
    pub fn of(client: &ClientCapabilities) -> Self {
        let shows = client.meta.as_ref().and_then(|meta| meta.get("terminal_output"));
        match shows.and_then(Value::as_bool) {
            Some(true) => Self::Meta,
            _ => Self::Text,
        }
    }
}

/// What one connection has been told of one session's calls and terminals.
#[derive(Debug)]
pub struct Sent {
    surface: Surface,
    meta_key: String,
    calls: HashMap<ToolCallId, SentCall>,
    terminals: HashMap<TerminalId, SentTerminal>,
    ended: Ended,
}

/// One terminal: its document, and what the client was told of it by events.
#[derive(Debug)]
struct SentTerminal {
    report: TerminalReport,
    announced: bool,
    /// The directory that the client was told.
    told_cwd: Option<PathBuf>,
    /// Whether output or an exit was sent: then it is not opened anew.
    begun: bool,
    exit_sent: bool,
    pending: Output,
    carry: Utf8Carry,
}

impl Sent {
    /// Makes the state of a connection that has been told nothing.
    #[must_use]
    pub fn new(surface: Surface) -> Self {
        Self {
            surface,
            meta_key: DEFAULT_KEY.to_owned(),
            calls: HashMap::default(),
            terminals: HashMap::default(),
            ended: Ended::default(),
        }
    }

    /// Sets the key of `_meta` under which goes what the protocol has no place for; `callboard`
    /// otherwise.
    #[must_use]
    pub fn with_meta_key(mut self, key: impl Into<String>) -> Self {
        self.meta_key = key.into();
        self
    }

    /// Returns the key of `_meta`, where the client's answers may hold something for the agent, too.
    #[must_use]
    pub fn meta_key(&self) -> &str {
        &self.meta_key
    }

    /// Returns how many patches were dropped, because they came after the final status of their call
    /// or were of a call that was never announced. A board makes none of either.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.ended.dropped
    }

    /// Projects a patch of a call: `tool_call` the first time, then `tool_call_update` with what
    /// changed, or nothing. A final status forgets the call. A patch that is only lent is cloned.
    ///
    /// The first patch of a call has a title. One that has none, and one after a final status (of the
    /// newest 4,096 calls that ended), sends nothing and is [counted](Self::dropped).
    pub fn tool_call(&mut self, id: &ToolCallId, patch: impl Into<ToolCallPatch>) -> Vec<Update> {
        let patch = patch.into();
        if !self.ended.admits(id, &patch, self.calls.contains_key(id)) {
            return Vec::new();
        }
        let is_final = patch.status.is_some_and(Status::is_final);
        let update = self.apply(id, patch);
        let Some(sent) = self.calls.get_mut(id) else {
            return Vec::new();
        };
        let mut updates = Vec::with_capacity(1);
        if sent.told {
            if !is_empty(&update) {
                updates.push(SessionUpdate::ToolCallUpdate(update).into());
            }
        } else {
            sent.told = true;
            let mut call = sent.whole(&self.meta_key);
            let shown = sent.terminals().next().cloned();
            if self.surface == Surface::Meta
                && let Some(terminal) = shown
            {
                let info = self.terminal_info(&terminal);
                let meta = call.meta.take().unwrap_or_default();
                call.meta = Some(meta.into_iter().chain(info).collect());
            }
            updates.push(SessionUpdate::ToolCall(call).into());
            updates.extend(self.terminal_events(id));
        }
        if is_final {
            self.forget(id);
            self.ended.insert(id.clone());
        }
        updates
    }

    /// Projects a plan. An empty one is sent too; a cancelled step is completed and says so.
    #[must_use]
    pub fn plan(&self, plan: &Plan) -> Update {
        encode::plan(plan, &self.meta_key)
    }

    /// Projects a piece of a message.
    #[must_use]
    pub fn chunk(&self, chunk: &Chunk) -> Update {
        encode::chunk(chunk).into()
    }

    /// Projects the state of a session.
    ///
    /// A compaction is for clients that say that they show one.
    #[must_use]
    pub fn state(&self, state: &SessionState) -> Update {
        state::update(state, &self.meta_key).into()
    }

    /// Projects a patch of a terminal, to the call that shows it. A terminal that no open call
    /// shows is kept until one does.
    pub fn terminal(&mut self, id: &TerminalId, patch: &TerminalPatch) -> Vec<Update> {
        let terminal = self.terminal_entry(id);
        terminal.pending.append(&patch.output);
        patch.clone().apply(&mut terminal.report);
        let Some(call) = self.shown_by(id) else {
            return Vec::new();
        };
        let announced = self.terminals.get(id).is_some_and(|terminal| terminal.announced);
        // By events, only what it is called at the client changes how it is shown.
        let mut updates = match announced && patch.client_id.is_none() {
            true => Vec::new(),
            false => self.tool_call(&call, ToolCallPatch::new()),
        };
        updates.extend(self.terminal_events(&call));
        updates
    }

    /// Makes a permission request about a call: its whole document as the client is to hold it,
    /// in the words of the call and no other. It counts as told.
    pub fn permission(
        &mut self,
        session: SessionId,
        id: &ToolCallId,
        options: Vec<PermissionOption>,
    ) -> Option<RequestPermissionRequest> {
        let sent = self.calls.get_mut(id)?;
        sent.told = true;
        // The metadata of the call rides along; events never do.
        let mut call = sent.whole(&self.meta_key);
        let meta = call.meta.take();
        let update = ToolCallUpdate::from(call).meta(meta);
        let options = options.into_iter().map(state::permission_option).collect();
        Some(RequestPermissionRequest::new(session, update, options))
    }

    /// Changes what the client is to hold and returns what it must be told for that.
    fn apply(&mut self, id: &ToolCallId, patch: ToolCallPatch) -> ToolCallUpdate {
        let sent = self.calls.entry(id.clone()).or_insert_with(|| SentCall::new(id));
        let is_final = patch.status.is_some_and(Status::is_final);
        let ending = (patch.status == Some(Status::Cancelled))
            .then(|| patch.meta.as_deref().unwrap_or(&CallMeta::default()).ending());
        // What is set anew is held back no more.
        sent.held.raw_input = sent.held.raw_input.take().filter(|_| patch.raw_input.is_none());
        sent.held.raw_output = sent.held.raw_output.take().filter(|_| patch.raw_output.is_none());
        let holds = &sent.call;
        let now = patch.status.map_or(holds.status, status);
        let mut fields = ToolCallUpdateFields::new();
        fields.name = patch.name.filter(|name| holds.name.as_ref() != Some(name));
        fields.title = patch.title.filter(|title| *title != holds.title);
        fields.kind = patch.kind.filter(|kind| *kind != holds.kind);
        fields.status = patch.status.map(status).filter(|status| *status != holds.status);
        fields.raw_input = patch.raw_input.filter(|input| holds.raw_input.as_ref() != Some(input));
        fields.raw_output =
            patch.raw_output.filter(|output| holds.raw_output.as_ref() != Some(output));
        let locations = patch.locations.map(|all| all.iter().map(location).collect::<Vec<_>>());
        fields.locations = locations.filter(|locations| *locations != holds.locations);
        let mut update = ToolCallUpdate::new(id.clone(), fields);
        // Nothing is not told, unless there was something before: then it must be taken back.
        let news = patch.meta.filter(|meta| match &sent.meta {
            Some(told) => told != meta,
            None => !meta.is_empty(),
        });
        if let Some(meta) = news {
            if sent.told {
                update.meta = Some(meta.to_meta(&self.meta_key));
            }
            sent.meta = Some(meta);
        }
        let shows = Shows { surface: self.surface, key: &self.meta_key, of: &self.terminals };
        update.fields.content = sent.content(patch.content, ending, now, &shows);
        sent.tell(&mut update, is_final, &self.meta_key);
        update
    }

    fn terminal_entry(&mut self, id: &TerminalId) -> &mut SentTerminal {
        self.terminals.entry(id.clone()).or_insert_with(|| SentTerminal {
            report: TerminalReport::new(id.clone()),
            announced: false,
            told_cwd: None,
            begun: false,
            exit_sent: false,
            pending: Output::default(),
            carry: Utf8Carry::default(),
        })
    }

    fn shown_by(&self, id: &TerminalId) -> Option<ToolCallId> {
        let shows = |sent: &&SentCall| sent.told && sent.terminals().any(|shown| shown == id);
        self.calls.values().find(shows).map(|sent| sent.call.tool_call_id.clone())
    }

    fn forget(&mut self, id: &ToolCallId) {
        if let Some(sent) = self.calls.remove(id) {
            for terminal in sent.terminals() {
                self.terminals.remove(terminal);
            }
        }
    }

    /// Returns the `terminal_info` event that opens a display-only terminal.
    fn terminal_info(&mut self, id: &TerminalId) -> Map<String, Value> {
        let terminal = self.terminal_entry(id);
        terminal.announced = true;
        Map::from_iter([("terminal_info".to_owned(), terminal.info())])
    }

    /// Returns the events that the client has not been sent, for one call: where it runs after all,
    /// output, exit.
    fn terminal_events(&mut self, call: &ToolCallId) -> Vec<Update> {
        let Some(sent) = self.calls.get(call) else {
            return Vec::new();
        };
        let mut updates = Vec::new();
        for id in sent.terminals() {
            if let Some(terminal) = self.terminals.get_mut(id)
                && terminal.announced
            {
                let mut event = |name: &str, value: Value| {
                    let meta = Map::from_iter([(name.to_owned(), value)]);
                    let update = ToolCallUpdate::new(call.clone(), ToolCallUpdateFields::new());
                    updates.push(SessionUpdate::ToolCallUpdate(update.meta(meta)).into());
                };
                if terminal.has_moved() {
                    event("terminal_info", terminal.info());
                }
                for data in terminal.take_output() {
                    event("terminal_output", json!({ "terminal_id": id, "data": data }));
                }
                if let Some(exit) = terminal.take_exit() {
                    let Exit { code, signal } = exit;
                    let value = json!({ "terminal_id": id, "exit_code": code, "signal": signal });
                    event("terminal_exit", value);
                }
            }
        }
        updates
    }
}

impl SentTerminal {
    /// Returns whether it was opened with another directory than it turned out to have, which is
    /// known when the arguments of its call are whole.
    fn has_moved(&self) -> bool {
        !self.begun && self.report.cwd != self.told_cwd
    }

    fn info(&mut self) -> Value {
        self.told_cwd.clone_from(&self.report.cwd);
        let mut info = json!({ "terminal_id": self.report.id });
        if let Some(cwd) = &self.report.cwd {
            info["cwd"] = json!(utf8_path(cwd));
        }
        info
    }

    /// Returns the unsent output as text in pieces that fit a message.
    fn take_output(&mut self) -> Vec<String> {
        let pending = std::mem::take(&mut self.pending);
        let mut data = self.carry.decode(pending.head());
        if pending.left_out() > 0 {
            data.push_str(&self.carry.finish());
            data.push_str(&terminal_gap(pending.left_out()));
        }
        data.push_str(&self.carry.decode(pending.tail()));
        if self.report.exit.is_some() {
            data.push_str(&self.carry.finish());
        }
        let mut rest = data.as_str();
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let piece = json::string_head(rest, CHUNK_BYTES);
            pieces.push(piece.to_owned());
            rest = &rest[piece.len()..];
        }
        self.begun |= !pieces.is_empty();
        pieces
    }

    fn take_exit(&mut self) -> Option<Exit> {
        if self.exit_sent {
            return None;
        }
        let exit = self.report.exit.clone()?;
        (self.begun, self.exit_sent) = (true, true);
        Some(exit)
    }
}

/// What v1 can hold of a document, as a document again. Total and idempotent.
///
/// | field | rule |
/// |---|---|
/// | status | `paused` is `in_progress`, `cancelled` is `failed` |
/// | content | of a cancelled call: one text more, which says why, and whether it may have acted |
/// | changes of files | over 256 KiB of JSON, their first hunks and a count of the rest |
/// | capabilities | none |
/// | the rest | kept; JSON says paths as [`utf8_path`] does |
#[must_use]
pub fn lossy_v1(mut report: ToolCallReport) -> ToolCallReport {
    match report.status {
        Status::Cancelled => {
            report.status = Status::Failed;
            report.content.push(Content::text(report.meta.ending()));
        }
        Status::Paused => report.status = Status::InProgress,
        _ => {}
    }
    encode::shorten(&mut report.content, DEFAULT_KEY);
    report.capabilities = crate::Capabilities::default();
    report
}

/// Returns a whole document as a client is to hold it, terminals as `surface` shows them. It is for
/// comparison with an observer: what is sent is an [`Update`] of [`Sent`].
///
/// `terminal` finds the documents of the terminals that the call shows.
#[must_use]
pub fn tool_call<'a>(
    report: &ToolCallReport,
    surface: Surface,
    meta_key: &str,
    terminal: impl Fn(&TerminalId) -> Option<&'a TerminalReport>,
) -> ToolCall {
    let mut report = lossy_v1(report.clone());
    encode::shorten(&mut report.content, meta_key);
    let status = status(report.status);
    let content =
        encode::items(&report.content, meta_key, |id| shown(id, terminal(id), surface, status));
    let mut call = ToolCall::new(report.id, report.title)
        .name(Some(report.name).filter(|name| !name.is_empty()))
        .kind(report.kind)
        .status(status)
        .content(content)
        .locations(report.locations.iter().map(location).collect())
        .raw_input(report.raw_input)
        .raw_output(report.raw_output);
    call.meta = (!report.meta.is_empty()).then(|| report.meta.to_meta(meta_key));
    call
}

/// Shows a terminal: one that the client runs as what it is there, others as the
/// surface has it.
fn shown(
    id: &TerminalId,
    report: Option<&TerminalReport>,
    surface: Surface,
    status: ToolCallStatus,
) -> Option<ToolCallContent> {
    let theirs = report.and_then(|report| report.client_id.as_ref());
    match theirs.or((surface == Surface::Meta).then_some(id)) {
        Some(id) => Some(ToolCallContent::Terminal(Terminal::new(id.clone()))),
        None => terminal_text(report, status),
    }
}

/// Shows a terminal as text: its command and, until that runs, its directory, its output as far as a
/// message may hold it, and how it ended, unless it ended well. Nothing, while nothing is known of
/// it.
fn terminal_text(
    report: Option<&TerminalReport>,
    status: ToolCallStatus,
) -> Option<ToolCallContent> {
    let report = report?;
    let mut shown = String::new();
    if let Some(command) = &report.command {
        shown.push_str("$ ");
        for letter in command.chars() {
            match letter {
                '\n' | '\t' => shown.push(letter),
                letter => push_visible(&mut shown, letter),
            }
        }
        shown.push('\n');
    }
    // Who is asked about a command is to know where it would run.
    if let (ToolCallStatus::Pending, Some(cwd)) = (status, &report.cwd)
        && report.command.is_some()
    {
        shown.push_str("[in ");
        let cwd = path_text(cwd);
        cwd.chars().for_each(|letter| push_visible(&mut shown, letter));
        shown.push_str("]\n");
    }
    let output = String::from_utf8_lossy(&report.output.to_bytes()).into_owned();
    let plain = plain::plain(&output);
    let is_final = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
    let tail = if is_final { &plain } else { tail(&plain, RUNNING_TEXT) };
    if tail.len() < plain.len() {
        shown.push_str(&gap_line(report.output.total().saturating_sub(tail.len() as u64)));
    }
    shown.push_str(tail);
    if let Some(ending) = ending(report) {
        if !shown.is_empty() && !shown.ends_with('\n') {
            shown.push('\n');
        }
        shown.push_str(&ending);
    }
    (!shown.is_empty()).then(|| ToolCallContent::from(fenced("console", &shown)))
}

fn ending(report: &TerminalReport) -> Option<String> {
    match report.exit.as_ref()? {
        Exit { signal: Some(signal), .. } => Some(format!("[ended by {signal}]")),
        Exit { code: Some(code), .. } if *code != 0 => Some(format!("[exit code {code}]")),
        _ => None,
    }
}

fn location(location: &Location) -> ToolCallLocation {
    ToolCallLocation::new(utf8_path(location.path())).line(location.line().map(u32::from))
}

fn is_empty(update: &ToolCallUpdate) -> bool {
    update.meta.is_none() && update.fields == ToolCallUpdateFields::new()
}
