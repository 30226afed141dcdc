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
use crate::message::Message;
use crate::page::{Owner, Page, Palette};
use crate::table::Totals;
use crate::words::{Catalogue, Words};
use crate::{limits, safe, table};

/// The cards of one session: what was told so far and what of that was printed.
///
/// Each message returns the text to print now, possibly none. It is safe to write to a terminal: it
/// holds no control characters of the agent, and no escape sequences but colours and, on a terminal,
/// `\r`. Memory is bounded: little is kept of a call after its end.
#[derive(Debug)]
pub struct Cards {
    page: Page,
    message: Message,
    calls: Vec<Card>,
    /// The calls before them.
    earlier: Totals,
    plan: u64,
    /// The commands in the background, by their ids.
    background: BTreeMap<String, String>,
    /// Which call failed first, and why.
    failure: Option<String>,
}

impl Cards {
    /// Starts without colours. Paths below `cwd` are shown relative to it; lines that may be cut
    /// have at most `width` characters.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>, width: usize) -> Self {
        Self {
            page: Page::new(cwd.into(), width),
            message: Message::default(),
            calls: Vec::new(),
            earlier: Totals::default(),
            plan: hash_of(&[]),
            background: BTreeMap::new(),
            failure: None,
        }
    }

    /// Adds colours, as SGR sequences. Strip them where they are not wanted, e.g. with `anstream`.
    #[must_use]
    pub fn coloured(mut self) -> Self {
        self.page.palette = Palette::coloured();
        self
    }

    /// Writes its own words in the language of a catalogue, and what that lacks in English.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: Arc<dyn Catalogue>) -> Self {
        self.page.words = Words::of(catalogue);
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
    pub fn on_terminal(mut self) -> Self {
        self.page.on_terminal();
        self.message.lay_out();
        self
    }

    /// Sets the columns of what is printed from now on.
    pub fn set_width(&mut self, width: usize) {
        self.page.width = width;
    }

    /// Takes a `session/update`, which had `bytes` on the wire; returns the text to print now.
    pub fn update(&mut self, update: &SessionUpdate, bytes: usize) -> String {
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
                let at = self.place(id).filter(|at| !self.calls[*at].is_ended);
                let at = at.unwrap_or_else(|| self.add(id));
                let update = ToolCallUpdate::from(call.clone());
                self.update_call(at, &update, bytes);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.message.end(&mut self.page);
                let id = &update.tool_call_id;
                let at = self.place(id).unwrap_or_else(|| self.add(id));
                self.update_call(at, update, bytes);
            }
            SessionUpdate::Plan(plan) => self.show_plan(plan),
            _ => {}
        }
        self.page.take()
    }

    /// Takes a `session/request_permission`, which had `bytes` on the wire; returns the text to
    /// print before the user is asked: everything that is decided on, none of it cut, and the
    /// options by their number from 1.
    pub fn permission(&mut self, request: &RequestPermissionRequest, bytes: usize) -> String {
        let text = self.decided(request, bytes);
        card::print_options(&request.options, &mut self.page);
        text + &self.page.take()
    }

    /// Takes a `session/request_permission` that nobody is asked about: the same text as
    /// [`Cards::permission`] returns, without the options.
    pub fn decided(&mut self, request: &RequestPermissionRequest, bytes: usize) -> String {
        self.message.end(&mut self.page);
        let id = &request.tool_call.tool_call_id;
        let at = self.place(id).unwrap_or_else(|| self.add(id));
        self.calls[at].ask(request, bytes, &mut self.page);
        self.page.take()
    }

    /// Returns the line end that is missing, before something else is printed.
    pub fn end_line(&mut self) -> String {
        self.message.end(&mut self.page);
        self.page.fresh();
        self.page.take()
    }

    /// Returns a table of all calls with their messages, bytes and milliseconds.
    #[must_use]
    pub fn table(&self) -> String {
        table::table(&self.calls, self.earlier, self.page.width)
    }

    /// Returns which call failed first, and why, in one line.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the commands that run in the background, as far as their calls told, with their ids.
    pub fn background(&self) -> impl Iterator<Item = String> {
        self.background.iter().map(|(id, command)| format!("`{command}` ({id})"))
    }

    fn update_call(&mut self, at: usize, update: &ToolCallUpdate, bytes: usize) {
        self.calls[at].learn(update, bytes, &self.page);
        self.announce();
        self.calls[at].show(update, &mut self.page);
        self.note(at);
        self.announce();
    }

    /// Prints the head of a call that is open alone. Of several, each one's comes with its output or
    /// its end, because it would be needed there again.
    fn announce(&mut self) {
        let mut open = self.calls.iter_mut().filter(|card| !card.is_ended);
        if let (Some(only), None) = (open.next(), open.next()) {
            only.announce(&mut self.page);
        }
    }

    /// Notes what outlives a call.
    fn note(&mut self, at: usize) {
        let card = &mut self.calls[at];
        if let Some(failure) = card.failure.take() {
            self.failure.get_or_insert(failure);
        }
        match card.background.take() {
            Some((id, Some(command))) if self.background.len() < limits::BACKGROUND => {
                self.background.insert(id, command);
            }
            Some((id, None)) => drop(self.background.remove(&id)),
            _ => {}
        }
    }

    /// Returns where the latest call of this id is.
    fn place(&self, id: &ToolCallId) -> Option<usize> {
        self.calls.iter().rposition(|card| card.id == *id)
    }

    fn add(&mut self, id: &ToolCallId) -> usize {
        if self.calls.len() == limits::CALLS {
            self.earlier.add(&self.calls.remove(0));
        }
        self.calls.push(Card::new(id.clone(), self.page.words.say("tool-call")));
        self.calls.len() - 1
    }

    fn show_plan(&mut self, plan: &Plan) {
        let lines: Vec<_> = plan
            .entries
            .iter()
            .map(|entry| {
                let mark = match entry.status {
                    PlanEntryStatus::Completed => "[x]",
                    PlanEntryStatus::InProgress => "[~]",
                    _ => "[ ]",
                };
                let line = format!("  {mark} {}", safe::exact(&entry.content));
                safe::cut(&line, self.page.width)
            })
            .collect();
        let hash = hash_of(&lines);
        if hash == self.plan {
            return;
        }
        self.plan = hash;
        self.message.end(&mut self.page);
        self.page.blank();
        let head = self.page.words.say(if lines.is_empty() { "plan-empty" } else { "plan" });
        self.page.write(self.page.palette.bold, &head);
        self.page.write(Style::new(), "\n");
        lines.iter().for_each(|line| self.page.line(line));
        self.page.owner = Owner::Plan;
    }
}

fn hash_of(lines: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    hasher.finish()
}
