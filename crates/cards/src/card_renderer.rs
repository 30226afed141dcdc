//! Renders the messages of one session as cards.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;

use acp_types::meta::truncate_meta_key;
use acp_types::schema::v1::{
    Plan, PlanEntryStatus, RequestPermissionRequest, SessionUpdate, ToolCallId, ToolCallUpdate,
};
use anstyle::Style;

use crate::card::{self, Card};
use crate::content::block_text_or_placeholder;
use crate::message::MessagePrinter;
use crate::page::{Page, Palette, TextOwner};
use crate::table::CallTotals;
use crate::ui_text::{Catalogue, UiText};
use crate::{limits, sanitise, table};

/// Renders the messages of one session as cards.
///
/// Each method returns the text to print now, which may be empty. The text is safe to write to a
/// terminal: it contains no control characters from the agent. Its only escape sequences are
/// colours. On a terminal, the text may also contain `\r`. Memory is bounded: most of a call's
/// state is discarded when the call ends.
#[derive(Debug)]
pub struct CardRenderer {
    page: Page,
    message: MessagePrinter,
    calls: Vec<Card>,
    /// Totals of the calls that were evicted from `calls`.
    evicted_totals: CallTotals,
    plan_hash: u64,
    /// Running background commands by their ids.
    background: BTreeMap<String, String>,
    /// Title and failure reason of the first call that failed.
    failure: Option<String>,
}

impl CardRenderer {
    /// Creates a renderer without colours. Paths below `cwd` are shown relative to `cwd`. Lines
    /// that the renderer may truncate have at most `width` characters.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>, width: usize) -> Self {
        Self {
            page: Page::new(cwd.into(), width),
            message: MessagePrinter::default(),
            calls: Vec::new(),
            evicted_totals: CallTotals::default(),
            plan_hash: hash_plan_lines(&[]),
            background: BTreeMap::new(),
            failure: None,
        }
    }

    /// Adds colours as SGR sequences. To remove the colours later, use e.g. `anstream`.
    #[must_use]
    pub fn with_colours(mut self) -> Self {
        self.page.palette = Palette::coloured();
        self
    }

    /// Translates the renderer's own text with a catalogue. Missing entries stay in English.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: Arc<dyn Catalogue>) -> Self {
        self.page.words = UiText::from_catalogue(catalogue);
        self
    }

    /// Sets the key of `_meta` for durations, end reasons and line numbers of changes. The default
    /// is `callboard`. A key of more than 64 bytes is [truncated](truncate_meta_key) in the same
    /// way as Callboard's agent truncates its key.
    #[must_use]
    pub fn with_meta_key(mut self, key: impl AsRef<str>) -> Self {
        truncate_meta_key(key.as_ref()).clone_into(&mut self.page.meta_key);
        self
    }

    /// Renders for a terminal. Markdown in messages is formatted, and a line of output that a
    /// command overwrites (e.g. a progress bar) is redrawn with `\r`. Without this setting,
    /// messages are printed unchanged, and each line of output is printed once, when it is
    /// complete.
    #[must_use]
    pub fn with_markdown_and_line_redraw(mut self) -> Self {
        self.page.enable_redraw();
        self.message.enable_markdown();
        self
    }

    /// Sets the width for subsequent text, in columns.
    pub fn set_width(&mut self, width: usize) {
        self.page.width = width;
    }

    /// Renders a `session/update` of `bytes` bytes on the wire. Returns the text to print now.
    pub fn render_update(&mut self, update: &SessionUpdate, bytes: usize) -> String {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                let text = block_text_or_placeholder(&chunk.content, &self.page.words);
                self.message.print_chunk(chunk.message_id.as_ref(), &text, &mut self.page);
            }
            SessionUpdate::AgentThoughtChunk(chunk) => {
                let text = block_text_or_placeholder(&chunk.content, &self.page.words);
                self.message.print_thought_chunk(chunk.message_id.as_ref(), &text, &mut self.page);
            }
            SessionUpdate::ToolCall(call) => {
                self.message.print_remaining(&mut self.page);
                // An agent may reuse the id of a call that has finished.
                let id = &call.tool_call_id;
                let at = self.index_of(id).filter(|at| !self.calls[*at].is_ended);
                let at = at.unwrap_or_else(|| self.add_card(id));
                let update = ToolCallUpdate::from(call.clone());
                self.update_call(at, &update, bytes);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.message.print_remaining(&mut self.page);
                let id = &update.tool_call_id;
                let at = self.index_of(id).unwrap_or_else(|| self.add_card(id));
                self.update_call(at, update, bytes);
            }
            SessionUpdate::Plan(plan) => self.print_plan(plan),
            _ => {}
        }
        self.page.take_text()
    }

    /// Renders a `session/request_permission` of `bytes` bytes on the wire. Returns the text to
    /// print before the user decides. The text shows the whole call without truncation, and the
    /// options, numbered from 1.
    pub fn render_permission_request(
        &mut self,
        request: &RequestPermissionRequest,
        bytes: usize,
    ) -> String {
        let text = self.render_request_without_options(request, bytes);
        card::print_options(&request.options, &mut self.page);
        text + &self.page.take_text()
    }

    /// Renders a `session/request_permission` that is decided without asking the user. The text is
    /// that of [`render_permission_request`](Self::render_permission_request) without the options.
    pub fn render_request_without_options(
        &mut self,
        request: &RequestPermissionRequest,
        bytes: usize,
    ) -> String {
        self.message.print_remaining(&mut self.page);
        let id = &request.tool_call.tool_call_id;
        let at = self.index_of(id).unwrap_or_else(|| self.add_card(id));
        self.calls[at].print_permission_request(request, bytes, &mut self.page);
        self.page.take_text()
    }

    /// Completes the unfinished line. Print the returned text before any other text.
    pub fn finish_open_line(&mut self) -> String {
        self.message.print_remaining(&mut self.page);
        self.page.end_open_line();
        self.page.take_text()
    }

    /// Returns a table of all calls with their updates, bytes and milliseconds.
    #[must_use]
    pub fn render_call_table(&self) -> String {
        table::render_call_table(&self.calls, self.evicted_totals, self.page.width)
    }

    /// Returns the title and the failure reason of the first call that failed, in one line.
    #[must_use]
    pub fn first_failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the background commands that still run according to the calls, with their ids.
    pub fn background_commands(&self) -> impl Iterator<Item = String> {
        self.background.iter().map(|(id, command)| format!("`{command}` ({id})"))
    }

    fn update_call(&mut self, at: usize, update: &ToolCallUpdate, bytes: usize) {
        self.calls[at].apply_update(update, bytes, &self.page);
        self.print_title_of_only_open_call();
        self.calls[at].print_update(update, &mut self.page);
        self.record_background_and_failure(at);
        self.print_title_of_only_open_call();
    }

    /// Prints the title line of a call if no other call is open. If several calls are open, each
    /// title line is printed together with the output or the end of its call. If the line were
    /// printed earlier, it would have to be repeated before the output.
    fn print_title_of_only_open_call(&mut self) {
        let mut open = self.calls.iter_mut().filter(|card| !card.is_ended);
        if let (Some(only), None) = (open.next(), open.next()) {
            only.print_title_line_if_due(&mut self.page);
        }
    }

    /// Records the parts of a card that are needed after the end of its call: its background
    /// command and its failure.
    fn record_background_and_failure(&mut self, at: usize) {
        let card = &mut self.calls[at];
        if let Some(failure) = card.failure.take() {
            self.failure.get_or_insert(failure);
        }
        match card.background.take() {
            Some((id, Some(command)))
                if self.background.len() < limits::MAX_BACKGROUND_COMMANDS =>
            {
                self.background.insert(id, command);
            }
            Some((id, None)) => drop(self.background.remove(&id)),
            _ => {}
        }
    }

    /// Returns the index of the latest call with this id.
    fn index_of(&self, id: &ToolCallId) -> Option<usize> {
        self.calls.iter().rposition(|card| card.id == *id)
    }

    fn add_card(&mut self, id: &ToolCallId) -> usize {
        if self.calls.len() == limits::MAX_CALLS {
            self.evicted_totals.add_card(&self.calls.remove(0));
        }
        self.calls.push(Card::new(id.clone(), self.page.words.text_for_key("tool-call")));
        self.calls.len() - 1
    }

    fn print_plan(&mut self, plan: &Plan) {
        let lines: Vec<_> = plan
            .entries
            .iter()
            .map(|entry| {
                let mark = match entry.status {
                    PlanEntryStatus::Completed => "[x]",
                    PlanEntryStatus::InProgress => "[~]",
                    _ => "[ ]",
                };
                let line = format!("  {mark} {}", sanitise::escape_line(&entry.content));
                sanitise::truncate_line(&line, self.page.width)
            })
            .collect();
        let hash = hash_plan_lines(&lines);
        if hash == self.plan_hash {
            return;
        }
        self.plan_hash = hash;
        self.message.print_remaining(&mut self.page);
        self.page.ensure_blank_line();
        let head =
            self.page.words.text_for_key(if lines.is_empty() { "plan-empty" } else { "plan" });
        self.page.write_styled_text(self.page.palette.bold, &head);
        self.page.write_styled_text(Style::new(), "\n");
        lines.iter().for_each(|line| self.page.write_line(line));
        self.page.owner = TextOwner::Plan;
    }
}

fn hash_plan_lines(lines: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    hasher.finish()
}
