//! The cards of one session: what is printed of each message.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;

use acp_types::schema::v1::{
    Plan, PlanEntryStatus, RequestPermissionRequest, SessionUpdate, ToolCallId, ToolCallUpdate,
};
use anstyle::Style;

use crate::card::{self, Card};
use crate::content::block_text;
use crate::message::MessagePrinter;
use crate::page::{Page, Palette, TextOwner};
use crate::table::CallTotals;
use crate::ui_text::{Catalogue, UiText};
use crate::{limits, sanitise, table};

/// The cards of one session: what was told so far and what of that was printed.
///
/// Each message returns the text to print now, possibly none. It is safe to write to a terminal: it
/// holds no control characters of the agent, and no escape sequences but colours and, on a terminal,
/// `\r`. Memory is bounded: little is kept of a call after its end.
#[derive(Debug)]
pub struct CardRenderer {
    page: Page,
    message: MessagePrinter,
    calls: Vec<Card>,
    /// The calls before them.
    evicted_totals: CallTotals,
    plan_hash: u64,
    /// The commands in the background, by their ids.
    background: BTreeMap<String, String>,
    /// Which call failed first, and why.
    failure: Option<String>,
}

impl CardRenderer {
    /// Starts without colours. Paths below `cwd` are shown relative to it; lines that may be cut
    /// have at most `width` characters.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>, width: usize) -> Self {
        Self {
            page: Page::new(cwd.into(), width),
            message: MessagePrinter::default(),
            calls: Vec::new(),
            evicted_totals: CallTotals::default(),
            plan_hash: hash_lines(&[]),
            background: BTreeMap::new(),
            failure: None,
        }
    }

    /// Adds colours, as SGR sequences. Strip them where they are not wanted, e.g. with `anstream`.
    #[must_use]
    pub fn with_colours(mut self) -> Self {
        self.page.palette = Palette::with_colours();
        self
    }

    /// Writes its own words in the language of a catalogue, and what that lacks in English.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: Arc<dyn Catalogue>) -> Self {
        self.page.words = UiText::from_catalogue(catalogue);
        self
    }

    /// Reads how long a call took, why it ended and where a change is under this key of `_meta`;
    /// `callboard` otherwise.
    #[must_use]
    pub fn with_meta_key(mut self, key: impl Into<String>) -> Self {
        self.page.meta_key = key.into();
        self
    }

    /// Prints for a terminal: the Markdown of messages is laid out, and a line of a command's output
    /// that starts over is drawn over itself, with `\r`. Elsewhere messages are printed as they are,
    /// and such a line once, when it has ended.
    #[must_use]
    pub fn for_terminal(mut self) -> Self {
        self.page.enable_redraw();
        self.message.enable_markdown();
        self
    }

    /// Sets the columns of what is printed from now on.
    pub fn set_width(&mut self, width: usize) {
        self.page.width = width;
    }

    /// Takes a `session/update`, which had `bytes` on the wire; returns the text to print now.
    pub fn render_update(&mut self, update: &SessionUpdate, bytes: usize) -> String {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                let text = block_text(&chunk.content, &self.page.words);
                self.message.push(chunk.message_id.as_ref(), &text, &mut self.page);
            }
            SessionUpdate::AgentThoughtChunk(chunk) => {
                let text = block_text(&chunk.content, &self.page.words);
                self.message.push_thought(chunk.message_id.as_ref(), &text, &mut self.page);
            }
            SessionUpdate::ToolCall(call) => {
                self.message.end(&mut self.page);
                // An agent may use the id of a call again that has ended.
                let id = &call.tool_call_id;
                let at = self.index_of(id).filter(|at| !self.calls[*at].is_ended);
                let at = at.unwrap_or_else(|| self.add_card(id));
                let update = ToolCallUpdate::from(call.clone());
                self.update_call(at, &update, bytes);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.message.end(&mut self.page);
                let id = &update.tool_call_id;
                let at = self.index_of(id).unwrap_or_else(|| self.add_card(id));
                self.update_call(at, update, bytes);
            }
            SessionUpdate::Plan(plan) => self.print_plan(plan),
            _ => {}
        }
        self.page.take_text()
    }

    /// Takes a `session/request_permission`, which had `bytes` on the wire; returns the text to
    /// print before the user is asked: everything that is decided on, none of it cut, and the
    /// options by their number from 1.
    pub fn render_permission_request(
        &mut self,
        request: &RequestPermissionRequest,
        bytes: usize,
    ) -> String {
        let text = self.render_decided_request(request, bytes);
        card::print_options(&request.options, &mut self.page);
        text + &self.page.take_text()
    }

    /// Takes a `session/request_permission` that nobody is asked about: the same text as
    /// [`Cards::permission`] returns, without the options.
    pub fn render_decided_request(
        &mut self,
        request: &RequestPermissionRequest,
        bytes: usize,
    ) -> String {
        self.message.end(&mut self.page);
        let id = &request.tool_call.tool_call_id;
        let at = self.index_of(id).unwrap_or_else(|| self.add_card(id));
        self.calls[at].print_permission_request(request, bytes, &mut self.page);
        self.page.take_text()
    }

    /// Returns the line end that is missing, before something else is printed.
    pub fn take_line_end(&mut self) -> String {
        self.message.end(&mut self.page);
        self.page.end_open_line();
        self.page.take_text()
    }

    /// Returns a table of all calls with their messages, bytes and milliseconds.
    #[must_use]
    pub fn render_table(&self) -> String {
        table::render_table(&self.calls, self.evicted_totals, self.page.width)
    }

    /// Returns which call failed first, and why, in one line.
    #[must_use]
    pub fn first_failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the commands that run in the background, as far as their calls told, with their ids.
    pub fn background_commands(&self) -> impl Iterator<Item = String> {
        self.background.iter().map(|(id, command)| format!("`{command}` ({id})"))
    }

    fn update_call(&mut self, at: usize, update: &ToolCallUpdate, bytes: usize) {
        self.calls[at].apply_update(update, bytes, &self.page);
        self.print_open_head();
        self.calls[at].print_update(update, &mut self.page);
        self.record_background_and_failure(at);
        self.print_open_head();
    }

    /// Prints the head of a call that is open alone. Of several, each one's comes with its output or
    /// its end, because it would be needed there again.
    fn print_open_head(&mut self) {
        let mut open = self.calls.iter_mut().filter(|card| !card.is_ended);
        if let (Some(only), None) = (open.next(), open.next()) {
            only.print_head_if_due(&mut self.page);
        }
    }

    /// Notes what outlives a call.
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

    /// Returns where the latest call of this id is.
    fn index_of(&self, id: &ToolCallId) -> Option<usize> {
        self.calls.iter().rposition(|card| card.id == *id)
    }

    fn add_card(&mut self, id: &ToolCallId) -> usize {
        if self.calls.len() == limits::MAX_CALLS {
            self.evicted_totals.add(&self.calls.remove(0));
        }
        self.calls.push(Card::new(id.clone(), self.page.words.text("tool-call")));
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
        let hash = hash_lines(&lines);
        if hash == self.plan_hash {
            return;
        }
        self.plan_hash = hash;
        self.message.end(&mut self.page);
        self.page.ensure_blank_line();
        let head = self.page.words.text(if lines.is_empty() { "plan-empty" } else { "plan" });
        self.page.write(self.page.palette.bold, &head);
        self.page.write(Style::new(), "\n");
        lines.iter().for_each(|line| self.page.write_line(line));
        self.page.owner = TextOwner::Plan;
    }
}

fn hash_lines(lines: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    hasher.finish()
}
