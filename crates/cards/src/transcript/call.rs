//! The state of a call after all of its updates.

use std::path::PathBuf;

use acp_types::schema::v1::{Meta, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolKind};
use acp_types::{CallEndReason, CallMeta, TerminalOutput};
use callboard_text::{format_duration, head};
use serde_json::Value;

use super::parts::{Part, Parts};
use crate::content::split_fence_language_and_body;
use crate::limits::{
    MAX_CALL_TERMINALS, MAX_INPUT_BYTES, MAX_LOCATIONS, MAX_TITLE_BYTES, PART_OVERHEAD_BYTES,
};
use crate::{raw_input, sanitise};

/// The title of a call for which the agent sends no title.
const UNTITLED: &str = "Tool call";

/// The state of a call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: ToolCallId,
    /// The unescaped title. `None` until the call has a title or a name.
    title: Option<String>,
    pub(super) kind: ToolKind,
    status: ToolCallStatus,
    pub(super) content: Parts,
    pub(super) locations: Vec<Location>,
    pub(super) input: Option<RawText>,
    pub(super) output: Option<RawText>,
    /// Command line from the raw input.
    command: Option<String>,
    meta: CallMeta,
    terminals: Vec<Terminal>,
}

/// A location in a file.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) path: PathBuf,
    pub(super) line: Option<u32>,
}

/// Raw input or output as indented JSON, truncated.
#[derive(Debug)]
pub(super) struct RawText {
    pub(super) text: String,
    pub(super) omitted_bytes: u64,
}

/// A display-only terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    id: String,
    pub(super) output: TerminalOutput,
    exit_code: Option<i64>,
    signal: Option<String>,
}

/// The state of a call as it is shown to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallState {
    Pending,
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl CallState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the character for the state.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Pending => "○",
            Self::Running => "●",
            Self::Completed => "✓",
            Self::Failed => "✗",
            Self::Cancelled => "⊘",
        }
    }
}

impl Call {
    pub(super) fn new(id: ToolCallId) -> Self {
        Self {
            id,
            title: None,
            kind: ToolKind::default(),
            status: ToolCallStatus::default(),
            content: Parts::default(),
            locations: Vec::new(),
            input: None,
            output: None,
            command: None,
            meta: CallMeta::default(),
            terminals: Vec::new(),
        }
    }

    /// Applies an update. Updates of an ended call are applied too.
    pub(super) fn apply_update(&mut self, update: &ToolCallUpdate, meta_key: &str) {
        let fields = &update.fields;
        let named = |title: &&String| !title.trim().is_empty();
        let name = fields.name.as_ref().filter(|_| self.title.is_none());
        if let Some(title) = fields.title.as_ref().filter(named).or(name.filter(named)) {
            self.title = Some(head(title, MAX_TITLE_BYTES).to_owned());
        }
        self.kind = fields.kind.unwrap_or(self.kind);
        self.status = fields.status.unwrap_or(self.status);
        if let Some(content) = &fields.content {
            self.content = Parts::from_call_content(content, meta_key);
        }
        if let Some(locations) = &fields.locations {
            let places = locations.iter().take(MAX_LOCATIONS);
            let places =
                places.map(|place| Location { path: place.path.clone(), line: place.line });
            self.locations = places.collect();
        }
        if let Some(input) = &fields.raw_input {
            self.command = raw_input::command_text(input)
                .map(|command| head(&command, MAX_TITLE_BYTES).to_owned());
            self.input = RawText::new(input);
        }
        if let Some(output) = &fields.raw_output {
            self.output = RawText::new(output);
        }
        if let Some(meta) = &update.meta {
            self.apply_meta(meta, meta_key);
        }
    }

    fn apply_meta(&mut self, meta: &Meta, meta_key: &str) {
        let own = meta.get(meta_key).map(|own| serde_json::from_value::<CallMeta>(own.clone()));
        if let Some(Ok(own)) = own {
            let mut kept = CallMeta::default();
            kept.started_at = own.started_at;
            kept.duration_ms = own.duration_ms;
            kept.reason = own.reason;
            kept.may_have_acted = own.may_have_acted;
            kept.exit_code = own.exit_code;
            kept.signal = own.signal.map(|signal| head(&signal, MAX_TITLE_BYTES).to_owned());
            self.meta = kept;
        }
        for (key, value) in meta {
            let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
            if !key.starts_with("terminal_") {
                continue;
            }
            let Some(terminal) = self.terminal_entry(text("terminal_id")) else { continue };
            match key.as_str() {
                "terminal_output" => terminal.output.append_bytes(text("data").as_bytes()),
                "terminal_exit" => {
                    terminal.exit_code = value.get("exit_code").and_then(Value::as_i64);
                    let signal = value.get("signal").and_then(Value::as_str);
                    terminal.signal = signal.map(|it| head(it, MAX_TITLE_BYTES).to_owned());
                }
                _ => {}
            }
        }
    }

    fn terminal_entry(&mut self, id: &str) -> Option<&mut Terminal> {
        let known = self.terminals.iter().position(|terminal| terminal.id == id);
        let at = known.or_else(|| {
            (self.terminals.len() < MAX_CALL_TERMINALS).then(|| {
                let output = TerminalOutput::default();
                let id = head(id, MAX_TITLE_BYTES).to_owned();
                self.terminals.push(Terminal { id, output, exit_code: None, signal: None });
                self.terminals.len() - 1
            })
        })?;
        self.terminals.get_mut(at)
    }

    pub(super) fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(UNTITLED)
    }

    /// Returns the state. ACP v1 has no status for a cancelled call; a cancelled call is a failed
    /// call whose content states the reason.
    pub(super) fn state(&self) -> CallState {
        match self.status {
            ToolCallStatus::Pending => CallState::Pending,
            ToolCallStatus::InProgress => CallState::Running,
            ToolCallStatus::Completed => CallState::Completed,
            _ if self.meta.reason.is_some() && self.is_reason_in_content() => CallState::Cancelled,
            _ => CallState::Failed,
        }
    }

    /// Returns the exit of the command, unless it succeeded.
    pub(super) fn exit_text_unless_success(&self) -> Option<String> {
        let terminal = self.terminals.last();
        let signal = self.meta.signal.as_deref();
        let signal = signal.or_else(|| terminal.and_then(|it| it.signal.as_deref()));
        let code = self.meta.exit_code.map(i64::from);
        let code = code.or_else(|| terminal.and_then(|it| it.exit_code));
        match (signal, code.filter(|code| *code != 0)) {
            (Some(signal), _) => Some(format!("ended by {}", sanitise::escape_line(signal))),
            (None, Some(code)) => Some(format!("exit code {code}")),
            (None, None) => None,
        }
    }

    /// Returns the reason of the end, unless the content already contains it, and the duration.
    pub(super) fn end_reason_and_duration(&self) -> impl Iterator<Item = String> {
        let reason = self.meta.reason.filter(|_| !self.is_reason_in_content());
        let reason = reason.map(|_| self.meta.end_reason_text());
        // A call that never ran shows no duration.
        let has_run = |millis: &u64| *millis > 0 || self.meta.started_at.is_some();
        let duration = self.meta.duration_ms.filter(has_run).map(format_duration);
        reason.into_iter().chain(duration)
    }

    fn is_reason_in_content(&self) -> bool {
        let reason = self.meta.reason.map(CallEndReason::description);
        let last = self.content.texts().last();
        last.zip(reason).is_some_and(|(text, reason)| text.trim().starts_with(reason))
    }

    /// Returns the terminals whose output is not shown by an item of the content.
    pub(super) fn unplaced_terminals(&self) -> impl Iterator<Item = &Terminal> {
        self.terminals.iter().filter(|terminal| {
            let is_placed = |part: &Part| matches!(part, Part::Terminal(id) if *id == terminal.id);
            !terminal.output.is_empty() && !self.content.iter().any(is_placed)
        })
    }

    /// Returns the terminal with this id, if it has output.
    pub(super) fn terminal_with_output(&self, id: &str) -> Option<&Terminal> {
        self.terminals.iter().find(|it| it.id == id && !it.output.is_empty())
    }

    /// Returns the command line, unless the title or the output already shows it.
    pub(super) fn unshown_command(&self) -> Option<&str> {
        let command = self.command.as_deref()?;
        let is_in_output = |text: &str| split_fence_language_and_body(text).1.starts_with("$ ");
        let is_shown = self.title().contains(&format!("`{command}`"))
            || self.content.texts().any(is_in_output);
        (!is_shown).then_some(command)
    }

    /// Returns whether the card is initially open. This is the case if the card shows a change or
    /// output, or if the call did not complete.
    pub(super) fn is_card_initially_open(&self) -> bool {
        let shows = |part: &Part| match part {
            Part::Change(_) | Part::Image { .. } => true,
            Part::Terminal(id) => self.terminal_with_output(id).is_some(),
            Part::Text(text) => split_fence_language_and_body(text).0 == "console",
            _ => false,
        };
        self.state() != CallState::Completed
            || self.content.iter().any(shows)
            || self.unplaced_terminals().next().is_some()
    }

    pub(super) fn byte_len(&self) -> usize {
        let raw = |raw: &Option<RawText>| raw.as_ref().map_or(0, |raw| raw.text.len());
        let places = self.locations.iter();
        let places = places.map(|it| it.path.as_os_str().len() + PART_OVERHEAD_BYTES);
        let terminals = self.terminals.iter().map(|terminal| {
            let output = &terminal.output;
            terminal.id.len() + output.head().len() + output.tail().len() + PART_OVERHEAD_BYTES
        });
        self.id.0.len()
            + self.title.as_ref().map_or(0, String::len)
            + self.command.as_ref().map_or(0, String::len)
            + self.content.byte_len()
            + raw(&self.input)
            + raw(&self.output)
            + places.sum::<usize>()
            + terminals.sum::<usize>()
    }

    /// Keeps the title, the state and the locations. Discards the rest and counts its bytes.
    pub(super) fn discard_content(&mut self) {
        let raw = [self.input.take(), self.output.take()].into_iter().flatten();
        let raw: u64 = raw.map(|raw| raw.text.len() as u64 + raw.omitted_bytes).sum();
        let outputs = self.terminals.drain(..).map(|terminal| terminal.output.total_bytes());
        let outputs: u64 = outputs.sum();
        self.content.discard_content(raw + outputs);
    }
}

impl RawText {
    fn new(value: &Value) -> Option<Self> {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            value => serde_json::to_string_pretty(value).unwrap_or_default(),
        };
        let kept = head(&text, MAX_INPUT_BYTES).to_owned();
        let omitted_bytes = (text.len() - kept.len()) as u64;
        (text != "{}").then_some(Self { text: kept, omitted_bytes })
    }
}
