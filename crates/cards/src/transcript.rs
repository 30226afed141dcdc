//! Folds the updates of a session into a transcript, and writes it as HTML or Markdown.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use acp_types::meta::DEFAULT_KEY;
use acp_types::schema::MaybeUndefined;
use acp_types::schema::v1::{
    CompactionStatus, CompactionUpdate, ContentChunk, Plan, SessionUpdate, ToolCallId,
    ToolCallUpdate,
};

use crate::limits::{
    MAX_LIST_ITEMS, MAX_TITLE_BYTES, MAX_TRANSCRIPT_BYTES, MAX_TRANSCRIPT_LINE_CHARS,
};
use crate::output_line::{LineReader, OutputLine};
use crate::sanitise;

mod call;
mod entry;
mod html;
mod markdown;
mod parts;
mod safe_markdown;
mod session_facts;

use call::{Call, CallState};
use entry::{Author, Entry, Message, Notice, PlanStep};
use parts::{Part, Parts};
use session_facts::SessionFacts;

/// Maximum number of characters of a prompt's first line that become its heading.
const MAX_HEADING_CHARS: usize = 100;

/// A whole session, as a page of HTML or as Markdown.
///
/// All updates are folded before the output is written. A call is shown at the position of its
/// first update, with the state after its last update. Equal updates give equal output: the clock
/// is not read, and all times are in the updates or are arguments.
///
/// At most 16 MiB of a session are kept. Beyond this limit, the content of the oldest calls and
/// thoughts is discarded first, and the oldest messages afterwards. The newest part is always
/// complete, up to 256 KiB of text per message or call. If something is missing, the output shows
/// the number of missing bytes at that point.
///
/// ```
/// use acp_cards::Transcript;
/// use serde_json::json;
///
/// let mut transcript = Transcript::new("/project").with_date("2026-11-05 14:03");
/// for update in [
///     json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "Greet."}}),
///     json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Run `echo hi`"}),
///     json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "**Done.**"}}),
///     json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed"}),
/// ] {
///     transcript.add_update(&serde_json::from_value(update)?);
/// }
/// assert!(transcript.to_html().contains("<strong>Done.</strong>"));
/// assert!(transcript.to_markdown().contains("## 1. Greet.\n\n✓ **Run** `echo hi`\n\n**Done.**"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug)]
pub struct Transcript {
    cwd: PathBuf,
    title: Option<String>,
    date: Option<String>,
    meta_key: String,
    facts: SessionFacts,
    entries: VecDeque<Entry>,
    /// For each call, the index of its latest entry, counted from the first entry of the session.
    calls: HashMap<ToolCallId, usize>,
    /// Approximate size of all entries in bytes.
    bytes: usize,
    /// Number of entries whose content may have been discarded.
    discarded: usize,
    /// Number of entries that were removed from the beginning; the next field counts the prompts
    /// among them.
    removed: usize,
    removed_prompts: usize,
}

impl Transcript {
    /// Creates an empty transcript. Paths below `cwd` are shown relative to `cwd`.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            cwd: cwd.into(),
            title: None,
            date: None,
            meta_key: DEFAULT_KEY.to_owned(),
            facts: SessionFacts::default(),
            entries: VecDeque::new(),
            calls: HashMap::new(),
            bytes: 0,
            discarded: 0,
            removed: 0,
            removed_prompts: 0,
        }
    }

    /// Sets the title. The default is the title in the updates, or else the first prompt.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the date, in any format. The default is the time of the last change in the updates.
    #[must_use]
    pub fn with_date(mut self, date: impl Into<String>) -> Self {
        self.date = Some(date.into());
        self
    }

    /// Sets the key of `_meta` for durations, end reasons and line numbers of changes. The default
    /// is `callboard`.
    #[must_use]
    pub fn with_meta_key(mut self, key: impl Into<String>) -> Self {
        self.meta_key = key.into();
        self
    }

    /// Folds a `session/update`. Updates of kinds that a transcript does not show are ignored.
    pub fn add_update(&mut self, update: &SessionUpdate) {
        match update {
            SessionUpdate::UserMessageChunk(chunk) => self.add_chunk(Author::User, chunk),
            SessionUpdate::AgentMessageChunk(chunk) => self.add_chunk(Author::Agent, chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.add_chunk(Author::Thought, chunk),
            SessionUpdate::ToolCall(call) => {
                // An agent may reuse the id of a call that has ended.
                let id = &call.tool_call_id;
                let is_open = self.call_mut(id).is_some_and(|call| {
                    matches!(call.state(), CallState::Pending | CallState::Running)
                });
                if !is_open {
                    self.add_call(id);
                }
                self.update_call(&ToolCallUpdate::from(call.clone()));
            }
            SessionUpdate::ToolCallUpdate(update) => {
                if self.call_mut(&update.tool_call_id).is_none() {
                    self.add_call(&update.tool_call_id);
                }
                self.update_call(update);
            }
            SessionUpdate::Plan(plan) => self.set_plan_of_current_prompt(plan),
            SessionUpdate::Notice(notice) => {
                self.add_notice(&notice.title, notice.description.as_deref());
            }
            SessionUpdate::CompactionUpdate(compaction) => self.add_compaction(compaction),
            other => self.facts.apply_update(other),
        }
    }

    /// Returns the page as HTML. The page is one file without any reference to the network, and it
    /// runs no script except its own. If scripts are disabled, only the search and the theme button
    /// are missing.
    #[must_use]
    pub fn to_html(&self) -> String {
        write_to_string(|out| self.write_html(out))
    }

    /// Writes the page of [`to_html`](Self::to_html), one entry at a time.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer.
    pub fn write_html(&self, out: impl io::Write) -> io::Result<()> {
        html::write_page(self, out)
    }

    /// Returns the session as CommonMark with tables and task lists. The text contains no HTML and
    /// no images. All links are to the web or to mail addresses.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        write_to_string(|out| self.write_markdown(out))
    }

    /// Writes the text of [`to_markdown`](Self::to_markdown), one entry at a time.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer.
    pub fn write_markdown(&self, out: impl io::Write) -> io::Result<()> {
        markdown::write_document(self, out)
    }

    fn add_chunk(&mut self, author: Author, chunk: &ContentChunk) {
        let id = chunk.message_id.as_ref();
        let continues = matches!(self.entries.back(), Some(Entry::Message(last))
            if last.author == author && last.id.as_ref() == id);
        if !continues {
            let message = Message { author, id: id.cloned(), content: Parts::default() };
            self.push(Entry::Message(message));
        }
        let last = self.entries.len() - 1;
        self.change_entry_at(last, |entry| {
            if let Entry::Message(message) = entry {
                message.content.append_chunk(&chunk.content);
            }
        });
    }

    fn add_call(&mut self, id: &ToolCallId) {
        self.calls.insert(id.clone(), self.removed + self.entries.len());
        self.push(Entry::Call(Box::new(Call::new(id.clone()))));
    }

    fn update_call(&mut self, update: &ToolCallUpdate) {
        let Some(at) = self.index_of(&update.tool_call_id) else { return };
        let meta_key = self.meta_key.clone();
        self.change_entry_at(at, |entry| {
            if let Entry::Call(call) = entry {
                call.apply_update(update, &meta_key);
            }
        });
    }

    fn index_of(&self, id: &ToolCallId) -> Option<usize> {
        self.calls.get(id)?.checked_sub(self.removed)
    }

    fn call_mut(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        let at = self.index_of(id)?;
        match self.entries.get_mut(at) {
            Some(Entry::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// Replaces the plan of the current prompt. Adds a plan if there is none.
    fn set_plan_of_current_prompt(&mut self, plan: &Plan) {
        let steps = plan.entries.iter().take(MAX_LIST_ITEMS).map(|step| {
            let (text, _) =
                callboard_text::escape_invisible_truncated(&step.content, MAX_TITLE_BYTES);
            PlanStep { text, status: step.status.clone() }
        });
        let steps: Vec<_> = steps.collect();
        let mut of_prompt = self.entries.iter().enumerate().rev().take_while(|(_, entry)| {
            !matches!(entry, Entry::Message(message) if message.author == Author::User)
        });
        let found = of_prompt.find(|(_, entry)| matches!(entry, Entry::Plan(_)));
        match found.map(|(at, _)| at) {
            Some(at) => self.change_entry_at(at, |entry| *entry = Entry::Plan(steps)),
            None if steps.is_empty() => {}
            None => self.push(Entry::Plan(steps)),
        }
    }

    fn add_notice(&mut self, title: &str, description: Option<&str>) {
        let short = |text| callboard_text::escape_invisible_truncated(text, MAX_TITLE_BYTES).0;
        let description = description.map(short);
        self.push(Entry::Notice(Notice { title: short(title), description }));
    }

    fn add_compaction(&mut self, compaction: &CompactionUpdate) {
        match &compaction.status {
            CompactionStatus::Completed => {
                self.add_notice("Older messages were summarised.", None);
            }
            CompactionStatus::Failed => {
                let MaybeUndefined::Value(why) = &compaction.error else { return };
                self.add_notice("Older messages could not be summarised.", Some(why));
            }
            _ => {}
        }
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += entry.byte_len();
        self.entries.push_back(entry);
        self.discard_excess();
    }

    fn change_entry_at(&mut self, at: usize, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        self.bytes -= entry.byte_len();
        change(entry);
        self.bytes += entry.byte_len();
        // An update may have added content to an entry whose content was discarded.
        self.discarded = self.discarded.min(at);
        self.discard_excess();
    }

    /// Discards the content of entries, and after that whole entries, each time the oldest first.
    /// The last entry is never discarded.
    fn discard_excess(&mut self) {
        while self.bytes > MAX_TRANSCRIPT_BYTES && self.entries.len() > 1 {
            if self.discarded + 1 < self.entries.len() {
                let entry = &mut self.entries[self.discarded];
                self.bytes -= entry.byte_len();
                entry.discard_content();
                self.bytes += entry.byte_len();
                self.discarded += 1;
            } else if let Some(oldest) = self.entries.pop_front() {
                self.bytes -= oldest.byte_len();
                self.discarded -= 1;
                match oldest {
                    Entry::Call(call) if self.calls.get(&call.id) == Some(&self.removed) => {
                        self.calls.remove(&call.id);
                    }
                    Entry::Message(Message { author: Author::User, .. }) => {
                        self.removed_prompts += 1;
                    }
                    _ => {}
                }
                self.removed += 1;
            }
        }
    }

    /// Returns the title as one escaped line.
    fn shown_title(&self) -> String {
        let own = self.title.as_deref().or(self.facts.title.as_deref());
        let own = own.filter(|title| !title.trim().is_empty()).map(sanitise::escape_line);
        own.or_else(|| self.numbered_prompt_headings().next().map(|(_, heading)| heading))
            .unwrap_or_else(|| "Session".to_owned())
    }

    fn shown_date(&self) -> Option<&str> {
        self.date.as_deref().or(self.facts.updated_at.as_deref())
    }

    /// Returns the number of each prompt, counted from 1, and its heading.
    fn numbered_prompt_headings(&self) -> impl Iterator<Item = (usize, String)> {
        let prompts = self.entries.iter().filter_map(|entry| match entry {
            Entry::Message(message) if message.author == Author::User => {
                Some(prompt_heading(message))
            }
            _ => None,
        });
        prompts.enumerate().map(|(at, heading)| (self.removed_prompts + at + 1, heading))
    }

    /// Returns the number of calls, and the number of calls that did not complete.
    fn count_all_and_failed_calls(&self) -> (u64, u64) {
        let calls = self.entries.iter().filter_map(|entry| match entry {
            Entry::Call(call) => Some(call.state()),
            _ => None,
        });
        calls.fold((0, 0), |(all, failed), state| {
            let is_bad = matches!(state, CallState::Failed | CallState::Cancelled);
            (all + 1, failed + u64::from(is_bad))
        })
    }

    fn cwd(&self) -> &Path {
        &self.cwd
    }
}

/// Returns the first line of a prompt, escaped and truncated.
fn prompt_heading(prompt: &Message) -> String {
    let line = prompt.content.texts().flat_map(str::lines).find(|line| !line.trim().is_empty());
    match (line, prompt.content.iter().next()) {
        (Some(line), _) => {
            sanitise::truncate_line(&sanitise::escape_line(line.trim()), MAX_HEADING_CHARS)
        }
        (None, Some(Part::Image { .. })) => "Image".to_owned(),
        (None, _) => "Prompt".to_owned(),
    }
}

/// Returns the part of a prompt's first text that is not in the heading, and all other parts of the
/// prompt.
fn prompt_body_below_heading(prompt: &Message) -> (Option<&str>, impl Iterator<Item = &Part>) {
    let mut others = prompt.content.iter().peekable();
    let first = others.next_if(|part| matches!(part, Part::Text(_)));
    let Some(Part::Text(text)) = first else { return (None, others) };
    let text = text.trim();
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let rest = if line.trim() == prompt_heading(prompt) { rest } else { text };
    let rest = rest.trim_start_matches(['\r', '\n']);
    ((!rest.is_empty()).then_some(rest), others)
}

/// Returns the lines of a command's output.
fn output_lines(output: &str) -> Vec<OutputLine> {
    let mut reader = LineReader::new(MAX_TRANSCRIPT_LINE_CHARS);
    let mut lines: Vec<_> =
        output.split_inclusive('\n').filter_map(|part| reader.push_line_part(part)).collect();
    lines.extend(reader.take_open_line());
    lines
}

fn write_to_string(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail, and only text is written.
    write(&mut bytes).map(|()| String::from_utf8(bytes).unwrap_or_default()).unwrap_or_default()
}
