//! Writes a transcript as one page of HTML.
//!
//! Every text of the session is escaped here or in `safe_markdown`. The content security policy of
//! the page allows only embedded images, and only the page's own style and script, which are
//! identified by their hashes.

use std::io;

use callboard_text::{grouped_count_with_noun, path_text};
use pulldown_cmark_escape::escape_html;

use super::entry::{Author, Entry, Message, Notice, PlanStep};
use super::parts::Part;
use super::safe_markdown::TitlePiece;
use super::{Transcript, body_below_heading, heading, safe_markdown};
use crate::sanitise;
use acp_types::schema::v1::PlanEntryStatus;

mod call;
mod output;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// Icons for the kinds of calls, each on a square of 16 units.
const SYMBOLS: &str = include_str!("html/icons.svg");

/// SHA-256 of [`STYLE`] in base64; the next constant is that of [`SCRIPT`].
const STYLE_HASH: &str = "oWqHg4i9UZBkssfveYv2LErJePc4volR49YBl5kRG/4=";
const SCRIPT_HASH: &str = "pvfktPzdBOnn29516uNYvmAWNc7grsWqX0V+ILI+0Vs=";

/// Writes the page, one entry at a time.
pub(super) fn write_page(transcript: &Transcript, mut out: impl io::Write) -> io::Result<()> {
    let mut page = Page { transcript, html: String::new() };
    page.begin();
    let mut prompt = transcript.removed_prompts;
    let mut is_section_open = false;
    for (at, entry) in transcript.entries.iter().enumerate() {
        if let Entry::Message(message) = entry
            && message.author == Author::User
        {
            prompt += 1;
            if std::mem::replace(&mut is_section_open, true) {
                page.raw("</section>\n");
            }
            page.prompt(prompt, message);
        } else {
            if !std::mem::replace(&mut is_section_open, true) {
                page.raw("<section aria-label=\"Before the first prompt\">\n");
            }
            page.entry(transcript.removed + at + 1, entry);
        }
        out.write_all(page.html.as_bytes())?;
        page.html.clear();
    }
    if is_section_open {
        page.raw("</section>\n");
    }
    page.end();
    out.write_all(page.html.as_bytes())?;
    out.flush()
}

/// The part of the page that is not written yet.
struct Page<'a> {
    transcript: &'a Transcript,
    html: String,
}

impl Page<'_> {
    /// Appends HTML, which must not contain text of the session.
    fn raw(&mut self, html: &str) {
        self.html.push_str(html);
    }

    /// Appends text with its line endings.
    fn text(&mut self, text: &str) {
        // Writing to a string cannot fail.
        escape_html(&mut self.html, &sanitise::escape_message(text)).unwrap_or_default();
    }

    /// Appends an element with a class and a text.
    fn element(&mut self, name: &str, class: &str, text: &str) {
        self.raw(&match class {
            "" => format!("<{name}>"),
            class => format!("<{name} class=\"{class}\">"),
        });
        self.text(text);
        self.raw(&format!("</{name}>"));
    }

    /// Appends a line of text, in which code spans are formatted as code.
    fn line_with_code(&mut self, line: &str) {
        for piece in safe_markdown::title_pieces(line) {
            match piece {
                TitlePiece::Text(text) => self.text(&text),
                TitlePiece::Code(code) => self.element("code", "", &code),
            }
        }
    }

    /// Appends a paragraph with the number of omitted bytes.
    fn omission(&mut self, bytes: u64) {
        if bytes > 0 {
            let bytes = grouped_count_with_noun(bytes, "byte", "bytes");
            self.element("p", "note", &format!("… {bytes} left out"));
            self.raw("\n");
        }
    }

    fn begin(&mut self) {
        let title = self.transcript.shown_title();
        self.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        self.raw(&format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'sha256-{STYLE_HASH}'; script-src 'sha256-{SCRIPT_HASH}'; \
             img-src data:; base-uri 'none'; form-action 'none'\">\n"
        ));
        self.raw(
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>",
        );
        self.text(&title);
        self.raw("</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>");
        self.raw(STYLE);
        self.raw("</style>\n</head>\n<body>\n");
        self.raw("<a class=\"skip\" href=\"#session\">Skip to the session</a>\n");
        self.raw(SYMBOLS);
        self.bar();
        self.raw("<div class=\"page\">\n<header>\n<h1>");
        self.text(&title);
        self.raw("</h1>\n");
        self.facts();
        self.raw("</header>\n");
        self.contents();
        self.raw("<main id=\"session\">\n");
        let removed = self.transcript.removed as u64;
        if removed > 0 {
            let entries = grouped_count_with_noun(removed, "earlier entry", "earlier entries");
            self.element("p", "note", &format!("… {entries} left out"));
            self.raw("\n");
        }
    }

    /// Appends the search and the theme button, which need the script.
    fn bar(&mut self) {
        self.raw(
            "<div class=\"bar\" role=\"search\" hidden>\
             <input id=\"find\" type=\"search\" placeholder=\"Search (press /)\" \
             aria-label=\"Search in this session\" autocomplete=\"off\" spellcheck=\"false\">\
             <output id=\"found\" for=\"find\"></output>\
             <button id=\"theme\" type=\"button\">Dark</button></div>\n",
        );
    }

    fn facts(&mut self) {
        let transcript = self.transcript;
        let (calls, failed) = transcript.call_counts();
        let mut calls = grouped_count_with_noun(calls, "call", "calls");
        if failed > 0 {
            calls.push_str(&format!(", {failed} not completed"));
        }
        self.raw("<dl>\n");
        let folder = path_text(transcript.cwd());
        let prompts = transcript.prompts().count() + transcript.removed_prompts;
        let prompts = grouped_count_with_noun(prompts as u64, "prompt", "prompts");
        let size = format!("{prompts}, {calls}");
        let first = [("Folder", Some(&*folder)), ("Date", transcript.shown_date())];
        let first = first.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (name, value) in first.chain(transcript.facts.rows()).chain([("Size", &*size)]) {
            self.raw("<div>");
            self.element("dt", "", name);
            self.element("dd", "", &sanitise::escape_line(value));
            self.raw("</div>\n");
        }
        self.raw("</dl>\n");
    }

    /// Appends the list of prompts.
    fn contents(&mut self) {
        let transcript = self.transcript;
        self.raw("<nav aria-label=\"Prompts\">\n<h2>Prompts</h2>\n<ol>\n");
        for (number, heading) in transcript.prompts() {
            self.raw(&format!("<li value=\"{number}\"><a href=\"#prompt-{number}\">"));
            self.text(&heading);
            self.raw("</a></li>\n");
        }
        self.raw("</ol>\n</nav>\n");
    }

    fn end(&mut self) {
        let commands = &self.transcript.facts.commands;
        if !commands.is_empty() {
            self.raw("<details class=\"commands\"><summary>Commands of the agent</summary>\n<dl>");
            for (name, description) in commands {
                self.raw("<div>");
                self.element("dt", "", &format!("/{name}"));
                self.element("dd", "", description);
                self.raw("</div>\n");
            }
            self.raw("</dl></details>\n");
        }
        self.raw("</main>\n</div>\n<script>");
        self.raw(SCRIPT);
        self.raw("</script>\n</body>\n</html>\n");
    }

    fn prompt(&mut self, number: usize, message: &Message) {
        self.raw(&format!(
            "<section aria-labelledby=\"prompt-{number}\">\n<div class=\"prompt entry\">\
             <h2 id=\"prompt-{number}\"><a href=\"#prompt-{number}\" \
             aria-label=\"Link to prompt {number}\">{number}</a> "
        ));
        self.text(&heading(message));
        self.raw("</h2>\n");
        let (first, others) = body_below_heading(message);
        if let Some(rest) = first {
            self.element("div", "said", rest);
            self.raw("\n");
        }
        for part in others {
            match part {
                Part::Text(text) => self.element("div", "said", text),
                part => self.attachment(part),
            }
            self.raw("\n");
        }
        self.omission(message.content.omitted_bytes());
        self.raw("</div>\n");
    }

    fn entry(&mut self, number: usize, entry: &Entry) {
        match entry {
            Entry::Message(message) => self.message(message),
            Entry::Call(call) => self.call(number, call),
            Entry::Plan(steps) if !steps.is_empty() => self.plan(steps),
            Entry::Plan(_) => {}
            Entry::Notice(notice) => self.notice(notice),
        }
    }

    fn message(&mut self, message: &Message) {
        let is_thought = message.author == Author::Thought;
        self.raw(match is_thought {
            true => "<details class=\"entry thought\"><summary>Thought</summary>\n",
            false => "<div class=\"entry message\">\n",
        });
        for part in message.content.iter() {
            match part {
                Part::Text(text) => self.prose("prose", text),
                part => self.attachment(part),
            }
        }
        self.omission(message.content.omitted_bytes());
        self.raw(if is_thought { "</details>\n" } else { "</div>\n" });
    }

    /// Appends Markdown as HTML.
    fn prose(&mut self, class: &str, text: &str) {
        self.raw(&format!("<div class=\"{class}\" dir=\"auto\">\n"));
        self.raw(&safe_markdown::to_html(text));
        self.raw("</div>\n");
    }

    /// Appends content other than text.
    fn attachment(&mut self, part: &Part) {
        match part {
            Part::Image { mime, data } => {
                // The type and the data were checked when the image was added.
                self.raw("<img alt=\"Image of the session\" src=\"data:");
                self.text(mime);
                self.raw(";base64,");
                self.text(data);
                self.raw("\">");
            }
            Part::Binary { kind, bytes } => {
                let bytes = grouped_count_with_noun(*bytes, "byte", "bytes");
                self.element("p", "note", &format!("{kind}, {bytes}, not shown"));
            }
            Part::Link { name, uri } if safe_markdown::is_safe_link(uri) => {
                self.raw("<p class=\"link\"><a href=\"");
                self.text(uri);
                self.raw("\">");
                self.text(name);
                self.raw("</a></p>");
            }
            Part::Link { name, uri } => {
                self.raw("<p class=\"link\">");
                self.element("span", "name", name);
                self.raw(" ");
                self.element("span", "uri", uri);
                self.raw("</p>");
            }
            Part::Resource { uri, text } => {
                self.raw("<details class=\"resource\"><summary>");
                self.element("span", "uri", uri);
                self.raw("</summary>");
                self.element("pre", "raw", text);
                self.raw("</details>");
            }
            Part::Text(_) | Part::Change(_) | Part::Terminal(_) => {}
        }
        self.raw("\n");
    }

    fn plan(&mut self, steps: &[PlanStep]) {
        self.raw("<div class=\"entry plan\"><h3>Plan</h3>\n<ul>\n");
        for step in steps {
            let (class, mark, name) = match step.status {
                PlanEntryStatus::Completed => ("done", "✓", "done"),
                PlanEntryStatus::InProgress => ("doing", "●", "in progress"),
                _ => ("open", "○", "open"),
            };
            self.raw(&format!(
                "<li class=\"{class}\"><span class=\"mark\" role=\"img\" \
                 aria-label=\"{name}\">{mark}</span> <span>"
            ));
            self.line_with_code(&step.text);
            self.raw("</span></li>\n");
        }
        self.raw("</ul></div>\n");
    }

    fn notice(&mut self, notice: &Notice) {
        self.raw("<div class=\"entry notice\">");
        self.element("strong", "", &notice.title);
        if let Some(description) = &notice.description {
            self.raw(" ");
            self.element("span", "", description);
        }
        self.raw("</div>\n");
    }
}
