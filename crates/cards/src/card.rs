//! The card of one call: the current state of the call, and a record of the parts that are already
//! printed.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher as _};

use acp_types::CallMeta;
use acp_types::schema::v1::{
    Diff, Meta, ToolCallContent, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolKind,
};
use anstyle::Style;
use callboard_text::head;
use serde_json::Value;

use super::content::{block_text_or_placeholder, split_fence_language_and_body};
use super::diff::{self, LineBudget};
use super::excerpt::TextExcerpt;
use super::limits::{
    MAX_DIFF_LINES, MAX_ENDED_TITLE_BYTES, MAX_EXCERPT_EDGE_LINES, MAX_INPUT_BYTES, MAX_LINE_CHARS,
    MAX_REMEMBERED_ITEMS, MAX_TITLE_BYTES,
};
use super::output_printer::{OutputJoin, OutputPrinter};
use super::page::{Page, TextOwner};
use super::ui_text::UiText;
use super::{raw_input, sanitise};

mod outcome;
mod permission_request;

pub(super) use permission_request::print_options;

/// Separator between title and progress in the titles that Callboard sends for running calls.
const SEPARATOR: &str = " · ";

/// The state of a call as received so far.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) id: ToolCallId,
    /// The title in one line, escaped for display.
    pub(super) title: String,
    pub(super) kind: ToolKind,
    pub(super) status: ToolCallStatus,
    pub(super) is_cancelled: bool,
    pub(super) is_ended: bool,
    pub(super) updates: usize,
    pub(super) bytes: usize,
    pub(super) duration_ms: Option<u64>,
    /// Background command of the call: the id of the command and, while it runs, its command line.
    pub(super) background: Option<(String, Option<String>)>,
    /// Title and failure reason, set by the update that ended the call.
    pub(super) failure: Option<String>,
    open: OpenCallState,
}

/// State that is only needed until the call ends.
#[derive(Debug, Default)]
struct OpenCallState {
    /// The title that was printed last.
    printed_title: Option<PrintedTitle>,
    input: Value,
    console: OutputPrinter,
    /// Texts that are printed when the call ends. The first item joins all texts except the last
    /// one; the last item is the last text.
    texts: Vec<HeldBackText>,
    printed_content: PrintedContent,
    meta: CallMeta,
    /// Whether the running call reports a progress, with which its title then ends.
    has_progress: bool,
    /// Exit code and signal of the command of a display-only terminal.
    exit: (Option<i32>, Option<String>),
    has_terminal: bool,
    is_command_shown: bool,
}

/// A title that is already printed.
#[derive(Debug)]
struct PrintedTitle {
    /// The title without the progress.
    title: String,
    is_whole: bool,
}

/// A text that is held back until the call ends.
#[derive(Debug)]
struct HeldBackText {
    hash: u64,
    excerpt: TextExcerpt,
}

/// A diff or text that is already printed.
#[derive(Debug, Default)]
struct PrintedContent {
    /// Whether each diff or text was printed completely, by its hash.
    are_whole: HashMap<u64, bool>,
    /// The hashes, the oldest first.
    order: VecDeque<u64>,
}

impl Card {
    /// Creates a card with `title` as a placeholder until the call has a title.
    pub(super) fn new(id: ToolCallId, title: String) -> Self {
        Self {
            id,
            title,
            kind: ToolKind::default(),
            status: ToolCallStatus::default(),
            is_cancelled: false,
            is_ended: false,
            updates: 0,
            bytes: 0,
            duration_ms: None,
            background: None,
            failure: None,
            open: OpenCallState::default(),
        }
    }

    /// Prints the changes of an update that was already applied.
    pub(super) fn print_update(&mut self, update: &ToolCallUpdate, page: &mut Page) {
        if self.is_ended {
            return;
        }
        if let Some(content) = &update.fields.content {
            self.print_content(content, page);
        }
        if let Some(meta) = &update.meta {
            self.open.has_terminal |= meta.contains_key("terminal_info");
            self.print_terminal_command_if_due(page);
            self.print_terminal_events(meta, page);
        }
        if is_final(self.status) {
            self.print_outcome(page);
        }
    }

    /// Applies an update of `bytes` bytes. If the call has finished, the update is only counted.
    pub(super) fn apply_update(&mut self, update: &ToolCallUpdate, bytes: usize, page: &Page) {
        let words = &page.words;
        self.updates += 1;
        self.bytes += bytes;
        if self.is_ended {
            return;
        }
        let fields = &update.fields;
        let named = |title: &&String| !title.trim().is_empty();
        if let Some(title) = fields.title.as_ref().filter(named) {
            head(&sanitise::escape_line(title), MAX_TITLE_BYTES).clone_into(&mut self.title);
        } else if let (Some(name), None) =
            (fields.name.as_ref().filter(named), &self.open.printed_title)
        {
            head(&sanitise::escape_line(name), MAX_TITLE_BYTES).clone_into(&mut self.title);
        }
        self.kind = fields.kind.unwrap_or(self.kind);
        self.status = fields.status.unwrap_or(self.status);
        if let Some(input) = &fields.raw_input {
            let bytes = serde_json::to_vec(input).map_or(0, |bytes| bytes.len());
            self.open.input = if bytes <= MAX_INPUT_BYTES {
                input.clone()
            } else {
                words.omitted_input_bytes_text(bytes).into()
            };
        }
        if let Some(output) = &fields.raw_output
            && let Some(id) = output.get("background").and_then(Value::as_str)
        {
            // If the command has finished, only its id is kept.
            let runs = output.get("running") == Some(&Value::Bool(true));
            let command = output.get("command").and_then(Value::as_str);
            let command =
                command.map_or_else(|| words.text_for_key("a-command"), sanitise::escape_line);
            let command = sanitise::truncate_line(&command, MAX_LINE_CHARS);
            self.background = Some((sanitise::escape_line(id), runs.then_some(command)));
        }
        let meta = update.meta.as_ref().and_then(|meta| meta.get(&page.meta_key));
        if let Some(Ok(meta)) = meta.map(|meta| serde_json::from_value::<CallMeta>(meta.clone())) {
            // A call that never ran shows no duration.
            let ran = meta.duration_ms.filter(|millis| *millis > 0 || meta.started_at.is_some());
            self.duration_ms = ran.or(self.duration_ms);
            let mut kept = CallMeta::default();
            kept.reason = meta.reason;
            kept.exit_code = meta.exit_code;
            kept.signal = meta.signal.map(|name| sanitise::truncate_line(&name, MAX_LINE_CHARS));
            self.open.meta = kept;
            self.open.has_progress = meta.progress.is_some();
        }
    }

    /// Prints the title line when the call starts to run or reports progress, and again when the
    /// title of a running call changes. The line is not printed earlier, because the agent may send
    /// a better title.
    pub(super) fn print_title_line_if_due(&mut self, page: &mut Page) {
        let is_running = self.status == ToolCallStatus::InProgress;
        let is_due = match &self.open.printed_title {
            None => !is_final(self.status) && (is_running || self.title.contains(SEPARATOR)),
            Some(named) => is_running && has_different_words_before_end(&named.title, &self.title),
        };
        if is_due {
            self.separate_from_previous_text(page);
            self.print_title_line(page);
            page.owner = TextOwner::CallHead(self.id.clone());
        }
    }

    fn print_title_line(&mut self, page: &mut Page) {
        let is_running = self.status == ToolCallStatus::InProgress;
        let mark = if is_running { "● " } else { "○ " };
        let is_first = self.open.printed_title.is_none();
        let kind = if is_first { page.words.kind_name(self.kind) } else { String::new() };
        let room = page.width.saturating_sub(kind.chars().count() + 4);
        let whole = self.title_without_reported_progress();
        let title = sanitise::truncate_line(whole, room);
        let is_whole = title == whole;
        page.write_styled_text(Style::new(), &format!("{mark}{title}"));
        page.write_styled_text(page.palette.dim, format!("  {kind}").trim_end());
        page.write_line("");
        self.remember_printed_title(is_whole);
    }

    /// Returns the title without the progress, because a printed line stays as it is while the
    /// progress changes.
    fn title_without_reported_progress(&self) -> &str {
        match self.open.has_progress || self.title.ends_with(STREAMED_SIZE_END) {
            true => title_without_progress(&self.title),
            false => &self.title,
        }
    }

    fn remember_printed_title(&mut self, is_whole: bool) {
        let title = self.title_without_reported_progress().to_owned();
        self.open.printed_title = Some(PrintedTitle { title, is_whole });
    }

    /// Returns whether the last title on the page is the current title of this call.
    fn is_title_printed_last(&self, page: &Page) -> bool {
        let is_own =
            matches!(&page.owner, TextOwner::CallHead(id) | TextOwner::Call(id) if *id == self.id);
        is_own
            && self
                .open
                .printed_title
                .as_ref()
                .is_some_and(|named| named.title == self.title_without_reported_progress())
    }

    /// Returns whether this call's printed title contains the whole command.
    fn is_command_in_title(&self, command: &str) -> bool {
        let words = format!("`{}`", sanitise::escape_line(command));
        let named = self.open.printed_title.as_ref();
        named.is_some_and(|named| named.is_whole && named.title.contains(&words))
    }

    /// Writes a blank line, unless the previous text is a title line or belongs to this call.
    fn separate_from_previous_text(&self, page: &mut Page) {
        match &page.owner {
            TextOwner::CallHead(_) => page.end_open_line(),
            TextOwner::Call(id) if *id == self.id => page.end_open_line(),
            _ => page.ensure_blank_line(),
        }
    }

    /// Prints the call's title if the previous text belongs to another call or to a message. The
    /// reader can then assign the next text to this call.
    fn ensure_text_owned_by_call(&mut self, page: &mut Page) {
        let is_own =
            matches!(&page.owner, TextOwner::CallHead(id) | TextOwner::Call(id) if *id == self.id);
        if !is_own {
            match page.owner {
                TextOwner::CallHead(_) | TextOwner::Call(_) => page.end_open_line(),
                _ => page.ensure_blank_line(),
            }
            if self.open.printed_title.is_none() {
                self.print_title_line(page);
            } else {
                let room = page.width.saturating_sub(2);
                let title = sanitise::truncate_line(self.title_without_reported_progress(), room);
                page.write_styled_text(page.palette.dim, &format!("● {title}\n"));
            }
        }
        page.owner = TextOwner::Call(self.id.clone());
    }

    fn print_content(&mut self, content: &[ToolCallContent], page: &mut Page) {
        let mut extent = LineBudget::AtMost(MAX_DIFF_LINES);
        let mut has_console = false;
        let mut texts = Vec::new();
        let meta_key = page.meta_key.clone();
        for items in content.chunk_by(|a, b| diff::are_of_same_file(a, b, &meta_key)) {
            let new = self.select_diffs_by_printed_state(items, |printed| printed.is_none(), page);
            if !new.is_empty() {
                self.print_remaining_output(page);
                self.ensure_text_owned_by_call(page);
                page.end_open_line();
                self.print_and_remember_diffs(&new, &mut extent, page);
            }
            let [ToolCallContent::Content(item)] = items else { continue };
            let text = block_text_or_placeholder(&item.content, &page.words);
            match split_fence_language_and_body(&text) {
                ("console", output) if !has_console => {
                    has_console = true;
                    if !self.is_only_pending_command(output) {
                        self.print_new_console_output(output, page);
                    }
                }
                (language, text) => {
                    // Only a command's output overwrites its own lines. Other agents may
                    // send the output without a fence.
                    let is_output = language == "console" || self.kind == ToolKind::Execute;
                    let shown = match is_output {
                        true => sanitise::output_to_plain_text(text),
                        false => sanitise::escape_text(text),
                    };
                    texts.push((hash(text), shown));
                }
            }
        }
        let is_new = |hash| self.printed_completeness(hash).is_none();
        self.open.texts = hold_back_texts(&texts, is_new);
    }

    /// Returns the diffs for which `selects` returns true. Its argument is whether the diff was
    /// printed completely, or `None` if no part of the diff was printed.
    fn select_diffs_by_printed_state<'c>(
        &self,
        items: &'c [ToolCallContent],
        selects: impl Fn(Option<bool>) -> bool,
        page: &Page,
    ) -> Vec<&'c Diff> {
        let diffs = items.iter().filter_map(|item| match item {
            ToolCallContent::Diff(diff) => Some(diff),
            _ => None,
        });
        let is_selected =
            |diff: &&Diff| selects(self.printed_completeness(diff_hash(diff, &page.meta_key)));
        diffs.filter(is_selected).collect()
    }

    /// Prints diffs of one file.
    fn print_and_remember_diffs(
        &mut self,
        diffs: &[&Diff],
        extent: &mut LineBudget,
        page: &mut Page,
    ) {
        let are_whole = diff::print_diffs(diffs, extent, page);
        for (diff, is_whole) in diffs.iter().zip(are_whole) {
            self.remember_printed(diff_hash(diff, &page.meta_key), is_whole);
        }
    }

    /// Prints what is new in the output of a command. `output` begins with the command line.
    fn print_new_console_output(&mut self, output: &str, page: &mut Page) {
        if self.open.printed_title.is_none() {
            self.ensure_text_owned_by_call(page);
        }
        // The command is not repeated if the title already contains it.
        let command = raw_input::command_text(&self.open.input);
        let command = command.filter(|command| self.is_command_in_title(command));
        let output = command
            .and_then(|command| {
                let rest = output.strip_prefix("$ ")?.strip_prefix(&command)?;
                rest.strip_prefix('\n').or(rest.is_empty().then_some(""))
            })
            .unwrap_or(output);
        let (joint, new) = self.open.console.take_new_text(output);
        self.print_output_piece(joint, new, page);
    }

    /// Returns whether the output consists only of a command that has not run yet. Such output is
    /// not printed.
    fn is_only_pending_command(&self, output: &str) -> bool {
        let command = raw_input::command_text(&self.open.input);
        self.status == ToolCallStatus::Pending
            && command
                .is_some_and(|command| raw_input::is_console_text_without_output(output, &command))
    }

    /// Prints the events of a display-only terminal. These events are a convention in `_meta`
    /// (<https://github.com/zed-industries/zed/pull/39419>).
    fn print_terminal_events(&mut self, meta: &Meta, page: &mut Page) {
        if let Some(Value::String(data)) = meta.get("terminal_output").and_then(|it| it.get("data"))
            && !data.is_empty()
        {
            if self.open.printed_title.is_none() {
                self.ensure_text_owned_by_call(page);
                self.print_terminal_command_if_due(page);
            }
            self.print_output_piece(OutputJoin::Continues, data, page);
        }
        if let Some(exit) = meta.get("terminal_exit") {
            self.print_remaining_output(page);
            // The exit is printed in the outcome line.
            let code = exit.get("exit_code").and_then(Value::as_i64);
            let code = code.and_then(|code| i32::try_from(code).ok());
            let signal = exit.get("signal").and_then(Value::as_str);
            self.open.exit =
                (code, signal.map(|signal| sanitise::truncate_line(signal, MAX_LINE_CHARS)));
        }
    }

    /// Prints the command of a display-only terminal when the command runs, unless the title
    /// already shows it.
    fn print_terminal_command_if_due(&mut self, page: &mut Page) {
        if !self.open.has_terminal
            || self.open.is_command_shown
            || self.open.printed_title.is_none()
            || self.status == ToolCallStatus::Pending
        {
            return;
        }
        self.open.is_command_shown = true;
        if let Some(command) = raw_input::command_text(&self.open.input)
            && !self.is_command_in_title(&command)
        {
            self.print_output_piece(OutputJoin::Continues, &format!("$ {command}\n"), page);
        }
    }

    fn print_output_piece(&mut self, joint: OutputJoin, text: &str, page: &mut Page) {
        if !text.is_empty() {
            // If the text is an incomplete line and the page cannot redraw lines, nothing is
            // printed yet. In that case, the call does not need its title yet.
            if page.can_redraw_lines() || text.contains('\n') || joint == OutputJoin::AfterGap {
                self.ensure_text_owned_by_call(page);
            }
            self.open.console.print(joint, text, page);
        }
    }

    fn print_remaining_output(&mut self, page: &mut Page) {
        if self.open.console.has_unprinted_output() {
            self.ensure_text_owned_by_call(page);
            self.open.console.print_rest_at_call_end(page);
        }
    }

    /// Returns whether a diff or text was printed completely, or `None` if no part of it was
    /// printed.
    fn printed_completeness(&self, hash: u64) -> Option<bool> {
        self.open.printed_content.are_whole.get(&hash).copied()
    }

    fn remember_printed(&mut self, hash: u64, is_whole: bool) {
        let PrintedContent { are_whole, order } = &mut self.open.printed_content;
        if are_whole.insert(hash, is_whole).is_some() {
            return;
        }
        order.push_back(hash);
        if order.len() > MAX_REMEMBERED_ITEMS
            && let Some(oldest) = order.pop_front()
        {
            are_whole.remove(&oldest);
        }
    }
}

/// Returns a hash of a diff. Two hunks with the same text at different lines have different hashes.
fn diff_hash(diff: &Diff, meta_key: &str) -> u64 {
    hash((
        &diff.path,
        &diff.old_text,
        &diff.new_text,
        diff::old_and_new_line_offsets(diff, meta_key),
    ))
}

/// Returns whether the status is final.
fn is_final(status: ToolCallStatus) -> bool {
    matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed)
}

/// Stores texts until the call ends, each with the hash of the sent text. The last text is stored
/// separately, because it is the reason if the call fails. The others are stored if they are new,
/// e.g. if no question has shown them.
fn hold_back_texts(texts: &[(u64, String)], is_new: impl Fn(u64) -> bool) -> Vec<HeldBackText> {
    let Some((last, others)) = texts.split_last() else {
        return Vec::new();
    };
    let others = others.iter().filter(|(hash, _)| is_new(*hash));
    let (hashes, others): (Vec<u64>, Vec<&str>) =
        others.map(|(hash, text)| (*hash, text.as_str())).unzip();
    let others = (!others.is_empty()).then(|| (hash(hashes), others.join("\n")));
    let held = |(hash, text): &(u64, String)| {
        let mut excerpt =
            TextExcerpt::with_line_limits(MAX_EXCERPT_EDGE_LINES, MAX_EXCERPT_EDGE_LINES);
        excerpt.push(text.trim_end());
        HeldBackText { hash: *hash, excerpt }
    };
    others.iter().chain([last]).map(held).collect()
}

/// Returns whether a new title has different words than the old title. Added or removed words at
/// the end, other numbers and other progress do not count as different.
fn has_different_words_before_end(old: &str, new: &str) -> bool {
    let letters = |title: &str| {
        title_without_progress(title).chars().filter(|c| c.is_alphabetic()).collect::<String>()
    };
    let (old, new) = (letters(old), letters(new));
    !old.starts_with(&new) && !new.starts_with(&old)
}

/// The end of a title that contains the size of the arguments streamed so far.
const STREAMED_SIZE_END: &str = " KiB …";

/// Returns a title without the progress.
fn title_without_progress(title: &str) -> &str {
    title.rsplit_once(SEPARATOR).map_or(title, |(base, _)| base)
}

/// Formats the exit of a command.
fn exit_text(code: Option<i64>, signal: Option<&str>, words: &UiText) -> Option<String> {
    match (signal, code) {
        (Some(signal), _) => {
            Some(words.text_with_variable("ended-by", "signal", sanitise::escape_line(signal)))
        }
        (None, Some(code)) => Some(words.text_with_variable("exit-code", "code", code.to_string())),
        (None, None) => None,
    }
}

fn hash(value: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
