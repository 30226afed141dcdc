//! One call: what is known of it, and what of that is on the page already.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};

use acp_types::CallMeta;
use acp_types::schema::v1::{
    Meta, ToolCallContent, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolKind,
};
use anstyle::Style;
use callboard_text::head;
use serde_json::Value;

use super::console::{Console, Joint};
use super::content::{block_text, unfence};
use super::diff::{self, Extent};
use super::excerpt::Excerpt;
use super::limits::{
    DIFF_LINES, ENDED_TITLE_BYTES, INPUT_BYTES, LINE_CHARS, SHOWN_ITEMS, TEXT_LINES, TITLE_BYTES,
};
use super::page::{Owner, Page};
use super::words::Words;
use super::{input, safe};

mod ask;
mod end;

pub(super) use ask::print_options;

/// Separates the title of a running call of Callboard from its progress.
const SEPARATOR: &str = " · ";

/// A call as it was told so far.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) id: ToolCallId,
    /// Safe to show, in one line.
    pub(super) title: String,
    pub(super) kind: ToolKind,
    pub(super) status: ToolCallStatus,
    pub(super) is_cancelled: bool,
    pub(super) is_ended: bool,
    pub(super) updates: usize,
    pub(super) bytes: usize,
    pub(super) duration_ms: Option<u64>,
    /// A command that runs in the background: its id, and the command.
    pub(super) background: Option<(String, Option<String>)>,
    /// What it is called and why it failed, in the update that ended it.
    pub(super) failure: Option<String>,
    live: Live,
}

/// What is needed until a call ends.
#[derive(Debug, Default)]
struct Live {
    /// The title that was printed last.
    named: Option<Named>,
    input: Value,
    console: Console,
    /// Texts that are printed when the call ends: the last one, and before it all others.
    texts: Vec<Text>,
    shown: VecDeque<Shown>,
    end: CallMeta,
    /// How the command of a display-only terminal ended.
    exit: (Option<i32>, Option<String>),
    has_terminal: bool,
    is_command_shown: bool,
}

/// A title that is on the page.
#[derive(Debug)]
struct Named {
    /// Without how far the call was.
    title: String,
    is_whole: bool,
}

/// A text that is held back.
#[derive(Debug)]
struct Text {
    hash: u64,
    excerpt: Excerpt,
}

/// A diff or text that is on the page.
#[derive(Debug)]
struct Shown {
    hash: u64,
    is_whole: bool,
}

impl Card {
    /// Begins a card whose call is called `title` until it has a title.
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
            live: Live::default(),
        }
    }

    /// Prints what is new in an update that it has learnt.
    pub(super) fn show(&mut self, update: &ToolCallUpdate, page: &mut Page) {
        if self.is_ended {
            return;
        }
        if let Some(content) = &update.fields.content {
            self.show_content(content, page);
        }
        if let Some(meta) = &update.meta {
            self.live.has_terminal |= meta.contains_key("terminal_info");
            self.show_command(page);
            self.show_events(meta, page);
        }
        if is_final(self.status) {
            self.end(page);
        }
    }

    /// Takes an update of `bytes`. After its end a call is only counted.
    pub(super) fn learn(&mut self, update: &ToolCallUpdate, bytes: usize, page: &Page) {
        let words = &page.words;
        self.updates += 1;
        self.bytes += bytes;
        if self.is_ended {
            return;
        }
        let fields = &update.fields;
        let named = |title: &&String| !title.trim().is_empty();
        if let Some(title) = fields.title.as_ref().filter(named) {
            head(&safe::exact(title), TITLE_BYTES).clone_into(&mut self.title);
        } else if let (Some(name), None) = (fields.name.as_ref().filter(named), &self.live.named) {
            head(&safe::exact(name), TITLE_BYTES).clone_into(&mut self.title);
        }
        self.kind = fields.kind.unwrap_or(self.kind);
        self.status = fields.status.unwrap_or(self.status);
        if let Some(input) = &fields.raw_input {
            let bytes = serde_json::to_vec(input).map_or(0, |bytes| bytes.len());
            self.live.input =
                if bytes <= INPUT_BYTES { input.clone() } else { words.input_bytes(bytes).into() };
        }
        if let Some(output) = &fields.raw_output
            && let Some(id) = output.get("background").and_then(Value::as_str)
        {
            // Of one that has ended, only which it was.
            let runs = output.get("running") == Some(&Value::Bool(true));
            let command = output.get("command").and_then(Value::as_str);
            let command = command.map_or_else(|| words.say("a-command"), safe::exact);
            let command = safe::cut(&command, LINE_CHARS);
            self.background = Some((safe::exact(id), runs.then_some(command)));
        }
        let meta = update.meta.as_ref().and_then(|meta| meta.get(&page.meta_key));
        if let Some(Ok(meta)) = meta.map(|meta| serde_json::from_value::<CallMeta>(meta.clone())) {
            // A call that never ran took no time, which is not worth a word.
            let ran = meta.duration_ms.filter(|millis| *millis > 0 || meta.started_at.is_some());
            self.duration_ms = ran.or(self.duration_ms);
            self.live.end = CallMeta {
                reason: meta.reason,
                exit_code: meta.exit_code,
                signal: meta.signal.map(|signal| safe::cut(&signal, LINE_CHARS)),
                ..CallMeta::default()
            };
        }
    }

    /// Prints the head, once it runs or says how far it is, and when what runs is called something
    /// else. Before that its title may still get better.
    pub(super) fn announce(&mut self, page: &mut Page) {
        let is_running = self.status == ToolCallStatus::InProgress;
        let is_due = match &self.live.named {
            None => !is_final(self.status) && (is_running || self.title.contains(SEPARATOR)),
            Some(named) => is_running && differs(&named.title, &self.title),
        };
        if is_due {
            self.make_way(page);
            self.print_head(page);
            page.owner = Owner::Head(self.id.clone());
        }
    }

    fn print_head(&mut self, page: &mut Page) {
        let is_running = self.status == ToolCallStatus::InProgress;
        let mark = if is_running { "● " } else { "○ " };
        let is_first = self.live.named.is_none();
        let kind = if is_first { page.words.kind(self.kind) } else { String::new() };
        let room = page.width.saturating_sub(kind.chars().count() + 4);
        let title = safe::cut(&self.title, room);
        page.write(Style::new(), &format!("{mark}{title}"));
        page.write(page.palette.dim, format!("  {kind}").trim_end());
        page.line("");
        self.note_title(title == self.title);
    }

    fn note_title(&mut self, is_whole: bool) {
        self.live.named = Some(Named { title: base(&self.title).to_owned(), is_whole });
    }

    /// Whether the page says last what this call is called.
    fn is_named_last(&self, page: &Page) -> bool {
        let is_own = matches!(&page.owner, Owner::Head(id) | Owner::Call(id) if *id == self.id);
        is_own && self.live.named.as_ref().is_some_and(|named| named.title == base(&self.title))
    }

    /// Whether the whole of a command is on the page, in the call's title.
    fn is_command_named(&self, command: &str) -> bool {
        let words = format!("`{}`", safe::exact(command));
        let named = self.live.named.as_ref();
        named.is_some_and(|named| named.is_whole && named.title.contains(&words))
    }

    /// Separates calls from what is no call, and a call from those that ran before.
    fn make_way(&self, page: &mut Page) {
        match &page.owner {
            Owner::Head(_) => page.fresh(),
            Owner::Call(id) if *id == self.id => page.fresh(),
            _ => page.blank(),
        }
    }

    /// Makes sure that what is printed next is seen to be this call's.
    fn own(&mut self, page: &mut Page) {
        let is_own = matches!(&page.owner, Owner::Head(id) | Owner::Call(id) if *id == self.id);
        if !is_own {
            match page.owner {
                Owner::Head(_) | Owner::Call(_) => page.fresh(),
                _ => page.blank(),
            }
            if self.live.named.is_none() {
                self.print_head(page);
            } else {
                let title = safe::cut(&self.title, page.width.saturating_sub(2));
                page.write(page.palette.dim, &format!("● {title}\n"));
            }
        }
        page.owner = Owner::Call(self.id.clone());
    }

    fn show_content(&mut self, content: &[ToolCallContent], page: &mut Page) {
        let mut extent = Extent::AtMost(DIFF_LINES);
        let mut console = None;
        let mut texts = Vec::new();
        for item in content {
            match item {
                ToolCallContent::Diff(diff) => {
                    let hash = hash((&diff.path, &diff.old_text, &diff.new_text));
                    if self.shown(hash).is_none() {
                        self.own(page);
                        page.fresh();
                        let is_whole = diff::print(diff, &mut extent, page);
                        self.remember(hash, is_whole);
                    }
                }
                ToolCallContent::Content(item) => {
                    let text = block_text(&item.content, &page.words);
                    match unfence(&text) {
                        ("console", output) if console.is_none() => {
                            console = Some(output.to_owned());
                        }
                        (_, text) => texts.push(text.to_owned()),
                    }
                }
                _ => {}
            }
        }
        if let Some(output) = console.filter(|output| !self.is_mere_command(output)) {
            if self.live.named.is_none() {
                self.own(page);
            }
            // The title has said it.
            let command = input::command(&self.live.input);
            let command = command.filter(|command| self.is_command_named(command));
            let output = command
                .and_then(|command| {
                    let rest = output.strip_prefix("$ ")?.strip_prefix(&command)?;
                    rest.strip_prefix('\n').or(rest.is_empty().then_some("")).map(str::to_owned)
                })
                .unwrap_or(output);
            let (joint, new) = self.live.console.replace(&output);
            self.print_output(joint, new, page);
        }
        self.live.texts = hold(&texts);
    }

    /// Returns whether a terminal shows a command only that has not run: it waits for that.
    fn is_mere_command(&self, output: &str) -> bool {
        let command = input::command(&self.live.input);
        self.status == ToolCallStatus::Pending
            && command.is_some_and(|command| input::is_mere_command(output, &command))
    }

    /// Prints the events of a display-only terminal, a convention in `_meta`
    /// (<https://github.com/zed-industries/zed/pull/39419>).
    fn show_events(&mut self, meta: &Meta, page: &mut Page) {
        if let Some(Value::String(data)) = meta.get("terminal_output").and_then(|it| it.get("data"))
            && !data.is_empty()
        {
            if self.live.named.is_none() {
                self.own(page);
                self.show_command(page);
            }
            self.print_output(Joint::GoesOn, data, page);
        }
        if let Some(exit) = meta.get("terminal_exit") {
            self.end_output(page);
            // The last line tells it.
            let code = exit.get("exit_code").and_then(Value::as_i64);
            let code = code.and_then(|code| i32::try_from(code).ok());
            let signal = exit.get("signal").and_then(Value::as_str);
            self.live.exit = (code, signal.map(|signal| safe::cut(signal, LINE_CHARS)));
        }
    }

    /// Prints the command of a display-only terminal when it runs, unless the title has said it.
    fn show_command(&mut self, page: &mut Page) {
        if !self.live.has_terminal
            || self.live.is_command_shown
            || self.live.named.is_none()
            || self.status == ToolCallStatus::Pending
        {
            return;
        }
        self.live.is_command_shown = true;
        if let Some(command) = input::command(&self.live.input)
            && !self.is_command_named(&command)
        {
            self.print_output(Joint::GoesOn, &format!("$ {command}\n"), page);
        }
    }

    fn print_output(&mut self, joint: Joint, text: &str, page: &mut Page) {
        if !text.is_empty() {
            // Elsewhere than on a terminal, a line is printed when it has ended.
            if page.is_terminal() || text.contains('\n') || joint == Joint::Gap {
                self.own(page);
            }
            self.live.console.print(joint, text, page);
        }
    }

    fn end_output(&mut self, page: &mut Page) {
        if self.live.console.has_rest() {
            self.own(page);
            self.live.console.finish(page);
        }
    }

    /// Returns whether a diff or text was printed, and if so, whether as a whole.
    fn shown(&self, hash: u64) -> Option<bool> {
        let mut all = self.live.shown.iter();
        all.find(|shown| shown.hash == hash).map(|shown| shown.is_whole)
    }

    fn remember(&mut self, hash: u64, is_whole: bool) {
        self.live.shown.retain(|shown| shown.hash != hash);
        if self.live.shown.len() == SHOWN_ITEMS {
            self.live.shown.pop_front();
        }
        self.live.shown.push_back(Shown { hash, is_whole });
    }
}

/// Returns whether nothing can follow.
fn is_final(status: ToolCallStatus) -> bool {
    matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed)
}

/// Keeps the last text apart from the others: if the call fails, it says why.
fn hold(texts: &[String]) -> Vec<Text> {
    let Some((last, others)) = texts.split_last() else {
        return Vec::new();
    };
    let others = (!others.is_empty()).then(|| others.join("\n"));
    let held = |text: &str| {
        let mut excerpt = Excerpt::new(TEXT_LINES, TEXT_LINES);
        excerpt.push(safe::output(text).trim_end());
        let hash = hash(text);
        Text { hash, excerpt }
    };
    others.iter().chain([last]).map(|text| held(text)).collect()
}

/// Returns whether a title says something else, not only more or less, with other numbers, or
/// how far the call is.
fn differs(old: &str, new: &str) -> bool {
    let letters =
        |title: &str| base(title).chars().filter(|c| c.is_alphabetic()).collect::<String>();
    let (old, new) = (letters(old), letters(new));
    !old.starts_with(&new) && !new.starts_with(&old)
}

/// Returns a title without how far its call is.
fn base(title: &str) -> &str {
    title.rsplit_once(SEPARATOR).map_or(title, |(base, _)| base)
}

/// Says how a command ended.
fn exit_text(code: Option<i64>, signal: Option<&str>, words: &Words) -> Option<String> {
    match (signal, code) {
        (Some(signal), _) => Some(words.say_with("ended-by", "signal", safe::exact(signal))),
        (None, Some(code)) => Some(words.say_with("exit-code", "code", code.to_string())),
        (None, None) => None,
    }
}

fn hash(value: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
