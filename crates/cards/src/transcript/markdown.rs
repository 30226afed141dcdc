//! Writes a transcript as Markdown.

use std::fmt::Write as _;
use std::io;

use acp_types::schema::v1::{PlanEntryStatus, ToolKind};
use acp_types::{FileChange, FileChangeOperation, LineTag};
use callboard_text::{base64_decoded_len, grouped_count_with_noun, path_text, wrap_in_code_fence};

use super::call::{Call, RawText};
use super::entry::{Author, Entry, Message, PlanStep};
use super::parts::Part;
use super::safe_markdown::{self, TitlePiece, title_pieces};
use super::{Transcript, output_lines, prompt_body_below_heading, prompt_heading};
use crate::content::split_fence_language_and_body;
use crate::diff::hunk_header;
use crate::page::display_path;
use crate::sanitise;
use crate::ui_text::{NO_NEWLINE_TEXT, protocol_kind_word};

/// Writes the document, one entry at a time.
pub(super) fn write_document(transcript: &Transcript, mut out: impl io::Write) -> io::Result<()> {
    let mut document = MarkdownDocument { transcript, text: String::new() };
    document.append_head();
    let mut prompt = transcript.removed_prompts;
    for entry in &transcript.entries {
        match entry {
            Entry::Message(message) if message.author == Author::User => {
                prompt += 1;
                document.append_prompt(prompt, message);
            }
            Entry::Message(message) => document.append_message(message),
            Entry::Call(call) => document.append_call(call),
            Entry::Plan(steps) => document.append_plan(steps),
            Entry::Notice(notice) => {
                let description = notice.description.as_deref().unwrap_or_default();
                let text = format!("{} {description}", notice.title);
                document.append_block(&format!("*{}*", escape(text.trim())));
            }
        }
        out.write_all(document.text.as_bytes())?;
        document.text.clear();
    }
    out.write_all(document.text.as_bytes())?;
    out.flush()
}

/// The part of the document that is not written yet.
struct MarkdownDocument<'a> {
    transcript: &'a Transcript,
    text: String,
}

impl MarkdownDocument<'_> {
    /// Appends a block and a blank line.
    fn append_block(&mut self, block: &str) {
        let block = block.trim_matches('\n');
        if !block.is_empty() {
            self.text.push_str(block);
            self.text.push_str("\n\n");
        }
    }

    fn append_code_block(&mut self, language: &str, text: &str) {
        self.append_block(&wrap_in_code_fence(language, &sanitise::escape_text(text)));
    }

    fn append_omission(&mut self, bytes: u64) {
        if bytes > 0 {
            let bytes = grouped_count_with_noun(bytes, "byte", "bytes");
            self.append_block(&format!("*… {bytes} left out*"));
        }
    }

    fn append_head(&mut self) {
        let transcript = self.transcript;
        self.append_block(&format!("# {}", escape(&transcript.shown_title())));
        let folder = path_text(transcript.cwd());
        let first = [("Folder", Some(&*folder)), ("Date", transcript.shown_date())];
        let first = first.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let rows = first.chain(transcript.facts.rows());
        let row = |(name, value): (&str, &str)| {
            format!("- {}: {}\n", escape(name), escape(&sanitise::escape_line(value)))
        };
        self.append_block(&rows.map(row).collect::<String>());
        if transcript.removed > 0 {
            let removed = transcript.removed as u64;
            let entries = grouped_count_with_noun(removed, "earlier entry", "earlier entries");
            self.append_block(&format!("*… {entries} left out*"));
        }
    }

    fn append_prompt(&mut self, number: usize, message: &Message) {
        self.append_block(&format!("## {number}. {}", escape(&prompt_heading(message))));
        let (first, others) = prompt_body_below_heading(message);
        if let Some(rest) = first {
            self.append_code_block("text", rest);
        }
        for part in others {
            match part {
                Part::Text(text) => self.append_code_block("text", text),
                part => self.append_attachment(part),
            }
        }
        self.append_omission(message.content.omitted_bytes());
    }

    fn append_message(&mut self, message: &Message) {
        for part in message.content.iter() {
            match part {
                Part::Text(text) if message.author == Author::Thought => {
                    let thought = safe_markdown::to_markdown(text);
                    let lines = thought.trim().lines().map(|line| format!("> {line}\n"));
                    self.append_block(&format!("> **Thought**\n>\n{}", lines.collect::<String>()));
                }
                Part::Text(text) => self.append_block(&safe_markdown::to_markdown(text)),
                part => self.append_attachment(part),
            }
        }
        self.append_omission(message.content.omitted_bytes());
    }

    fn append_attachment(&mut self, part: &Part) {
        match part {
            Part::Image { mime, data } => {
                let bytes = grouped_count_with_noun(base64_decoded_len(data), "byte", "bytes");
                self.append_block(&format!("*{}, {bytes}*", escape(mime)));
            }
            Part::Binary { kind, bytes } => {
                let bytes = grouped_count_with_noun(*bytes, "byte", "bytes");
                self.append_block(&format!("*{}, {bytes}*", escape(kind)));
            }
            Part::Link { name, uri } => {
                let [name, uri] = [name, uri].map(|it| escape(&sanitise::escape_line(it)));
                self.append_block(&format!("*Attached:* {name}, {uri}"));
            }
            Part::Resource { uri, text } => {
                self.append_block(&format!("*Attached:* {}", escape(&sanitise::escape_line(uri))));
                self.append_code_block("text", text);
            }
            Part::Text(_) | Part::Change(_) | Part::Terminal(_) => {}
        }
    }

    fn append_plan(&mut self, steps: &[PlanStep]) {
        let line = |step: &PlanStep| {
            let (mark, note) = match step.status {
                PlanEntryStatus::Completed => ("x", ""),
                PlanEntryStatus::InProgress => (" ", " *(in progress)*"),
                _ => (" ", ""),
            };
            format!("- [{mark}] {}{note}\n", format_text_with_code_spans(&step.text, escape))
        };
        self.append_block(&steps.iter().map(line).collect::<String>());
    }

    fn append_call(&mut self, call: &Call) {
        let state = call.state();
        let mut head =
            format!("{} {}", state.mark(), format_text_with_code_spans(call.title(), bold));
        let details = call
            .exit_text_unless_success()
            .into_iter()
            .chain(call.end_reason_and_duration())
            .map(|detail| escape(&detail));
        let kind = (call.kind != ToolKind::Other).then(|| escape(protocol_kind_word(call.kind)));
        for detail in kind.into_iter().chain(details) {
            head.push_str(&format!(" · {detail}"));
        }
        self.append_block(&head);
        let place = |place: &super::call::Location| {
            let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
            format!("- {}\n", escape(&(display_path(self.transcript.cwd(), &place.path) + &line)))
        };
        let places: String = call.locations.iter().map(place).collect();
        self.append_block(&places);
        self.append_call_content(call);
    }

    fn append_call_content(&mut self, call: &Call) {
        let mut command = call.unshown_command();
        for part in call.content.iter() {
            match part {
                Part::Text(text) => match split_fence_language_and_body(text) {
                    ("console", output) => self.append_output(command.take(), output.as_bytes()),
                    _ => self.append_block(&safe_markdown::to_markdown(text)),
                },
                Part::Change(change) => self.append_change(change),
                Part::Terminal(id) => {
                    if let Some(terminal) = call.terminal_with_output(id) {
                        self.append_output(
                            command.take(),
                            &terminal.output.to_bytes_with_omission_line(),
                        );
                    }
                }
                part => self.append_attachment(part),
            }
        }
        for terminal in call.unplaced_terminals() {
            self.append_output(command.take(), &terminal.output.to_bytes_with_omission_line());
        }
        if let Some(command) = command {
            self.append_output(Some(command), b"");
        }
        self.append_omission(call.content.omitted_bytes());
        if call.content.is_empty() {
            self.append_raw_text("Raw input", call.input.as_ref());
            self.append_raw_text("Raw output", call.output.as_ref());
        }
    }

    fn append_raw_text(&mut self, name: &str, raw: Option<&RawText>) {
        if let Some(raw) = raw {
            self.append_block(&format!("{name}:"));
            self.append_code_block("json", &raw.text);
            self.append_omission(raw.omitted_bytes);
        }
    }

    fn append_output(&mut self, command: Option<&str>, output: &[u8]) {
        let mut text = command.map(|command| format!("$ {command}\n")).unwrap_or_default();
        for line in output_lines(&String::from_utf8_lossy(output)) {
            line.spans().iter().for_each(|(_, words)| text.push_str(words));
            if line.omitted_chars() > 0 {
                text.push_str(&format!(" … {} characters left out", line.omitted_chars()));
            }
            text.push('\n');
        }
        self.append_code_block("console", &text);
    }

    fn append_change(&mut self, change: &FileChange) {
        let path = display_path(self.transcript.cwd(), &change.path);
        let (old, new) = match change.operation {
            FileChangeOperation::Add => ("/dev/null", &*path),
            FileChangeOperation::Delete => (&*path, "/dev/null"),
            _ => (&*path, &*path),
        };
        let mut text = format!("--- {old}\n+++ {new}\n");
        for hunk in &change.hunks {
            // Writing to a string cannot fail.
            writeln!(text, "{}", hunk_header(hunk, (0, 0))).unwrap_or_default();
            for line in &hunk.lines {
                text.push(match line.tag {
                    LineTag::Context => ' ',
                    LineTag::Removed => '-',
                    LineTag::Added => '+',
                });
                let words = line.text.strip_suffix('\n');
                text.push_str(&words.unwrap_or(&line.text).replace('\r', "\\r"));
                text.push('\n');
                if words.is_none() {
                    writeln!(text, "\\ {NO_NEWLINE_TEXT}").unwrap_or_default();
                }
            }
        }
        self.append_code_block("diff", &text);
        let unlisted = change.unlisted.0 + change.unlisted.1;
        if unlisted > 0 {
            let lines = grouped_count_with_noun(unlisted as u64, "line", "lines");
            self.append_block(&format!("*… {lines} more*"));
        }
    }
}

/// Returns a line in which code spans stay code spans. All other text is formatted by `write_text`.
fn format_text_with_code_spans(line: &str, write_text: fn(&str) -> String) -> String {
    let write = |piece| match piece {
        TitlePiece::Text(text) => write_text(&text),
        TitlePiece::Code(code) => code_span(&code),
    };
    title_pieces(line).into_iter().map(write).collect()
}

/// Escapes a line of text, so that Markdown shows the text unchanged.
fn escape(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let begins_list = escaped.is_empty() && matches!(letter, '-' | '+' | '=');
        let ends_number = matches!(letter, '.' | ')')
            && letters.peek().is_none_or(|next| next.is_whitespace())
            && !escaped.is_empty()
            && escaped.bytes().all(|byte| byte.is_ascii_digit());
        if begins_list || ends_number || "\\`*_{}[]<>#&!|~$".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Returns text in bold. Spaces around the text are removed, because they would end the emphasis.
fn bold(text: &str) -> String {
    let words = text.trim();
    if words.is_empty() {
        return text.to_owned();
    }
    text.replacen(words, &format!("**{}**", escape(words)), 1)
}

/// Returns a code span whose fence is longer than any run of backticks in the text.
fn code_span(code: &str) -> String {
    let longest = code.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if code.starts_with(['`', ' ']) || code.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{code}{pad}{fence}")
}
