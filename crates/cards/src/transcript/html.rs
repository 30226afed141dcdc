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
use super::{Transcript, prompt_body_below_heading, prompt_heading, safe_markdown};
use crate::sanitise;
use acp_types::schema::v1::PlanEntryStatus;

mod call;
mod output;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// Icons for the kinds of calls, each on a square of 16 units.
const SYMBOLS: &str = include_str!("html/icons.svg");

/// SHA-256 of [`STYLE`] in base64; the next constant is the SHA-256 of [`SCRIPT`].
const STYLE_HASH: &str = "oWqHg4i9UZBkssfveYv2LErJePc4volR49YBl5kRG/4=";
const SCRIPT_HASH: &str = "pvfktPzdBOnn29516uNYvmAWNc7grsWqX0V+ILI+0Vs=";

/// Writes the page, one entry at a time.
pub(super) fn write_page(transcript: &Transcript, mut out: impl io::Write) -> io::Result<()> {
    let mut page = HtmlPage { transcript, html: String::new() };
    page.append_head();
    let mut prompt = transcript.removed_prompts;
    let mut is_section_open = false;
    for (at, entry) in transcript.entries.iter().enumerate() {
        if let Entry::Message(message) = entry
            && message.author == Author::User
        {
            prompt += 1;
            if std::mem::replace(&mut is_section_open, true) {
                page.append_html("</section>\n");
            }
            page.append_prompt(prompt, message);
        } else {
            if !std::mem::replace(&mut is_section_open, true) {
                page.append_html("<section aria-label=\"Before the first prompt\">\n");
            }
            page.append_entry(transcript.removed + at + 1, entry);
        }
        out.write_all(page.html.as_bytes())?;
        page.html.clear();
    }
    if is_section_open {
        page.append_html("</section>\n");
    }
    page.append_foot();
    out.write_all(page.html.as_bytes())?;
    out.flush()
}

/// The part of the page that is not written yet.
struct HtmlPage<'a> {
    transcript: &'a Transcript,
    html: String,
}

impl HtmlPage<'_> {
    /// Appends HTML, which must not contain text of the session.
    fn append_html(&mut self, html: &str) {
        self.html.push_str(html);
    }

    /// Appends text with its line endings.
    fn append_text(&mut self, text: &str) {
        // Writing to a string cannot fail.
        escape_html(&mut self.html, &sanitise::escape_text(text)).unwrap_or_default();
    }

    /// Appends an element with a class and a text.
    fn append_element(&mut self, name: &str, class: &str, text: &str) {
        self.append_html(&match class {
            "" => format!("<{name}>"),
            class => format!("<{name} class=\"{class}\">"),
        });
        self.append_text(text);
        self.append_html(&format!("</{name}>"));
    }

    /// Appends a line of text, in which code spans are formatted as code.
    fn append_text_with_code_spans(&mut self, line: &str) {
        for piece in safe_markdown::title_pieces(line) {
            match piece {
                TitlePiece::Text(text) => self.append_text(&text),
                TitlePiece::Code(code) => self.append_element("code", "", &code),
            }
        }
    }

    /// Appends a paragraph with the number of omitted bytes.
    fn append_omission(&mut self, bytes: u64) {
        if bytes > 0 {
            let bytes = grouped_count_with_noun(bytes, "byte", "bytes");
            self.append_element("p", "note", &format!("… {bytes} left out"));
            self.append_html("\n");
        }
    }

    fn append_head(&mut self) {
        let title = self.transcript.shown_title();
        self.append_html("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        self.append_html(&format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'sha256-{STYLE_HASH}'; script-src 'sha256-{SCRIPT_HASH}'; \
             img-src data:; base-uri 'none'; form-action 'none'\">\n"
        ));
        self.append_html(
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>",
        );
        self.append_text(&title);
        self.append_html("</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>");
        self.append_html(STYLE);
        self.append_html("</style>\n</head>\n<body>\n");
        self.append_html("<a class=\"skip\" href=\"#session\">Skip to the session</a>\n");
        self.append_html(SYMBOLS);
        self.append_search_and_theme_bar();
        self.append_html("<div class=\"page\">\n<header>\n<h1>");
        self.append_text(&title);
        self.append_html("</h1>\n");
        self.append_facts();
        self.append_html("</header>\n");
        self.append_prompt_list();
        self.append_html("<main id=\"session\">\n");
        let removed = self.transcript.removed as u64;
        if removed > 0 {
            let entries = grouped_count_with_noun(removed, "earlier entry", "earlier entries");
            self.append_element("p", "note", &format!("… {entries} left out"));
            self.append_html("\n");
        }
    }

    /// Appends the search and the theme button, which need the script.
    fn append_search_and_theme_bar(&mut self) {
        self.append_html(
            "<div class=\"bar\" role=\"search\" hidden>\
             <input id=\"find\" type=\"search\" placeholder=\"Search (press /)\" \
             aria-label=\"Search in this session\" autocomplete=\"off\" spellcheck=\"false\">\
             <output id=\"found\" for=\"find\"></output>\
             <button id=\"theme\" type=\"button\">Dark</button></div>\n",
        );
    }

    fn append_facts(&mut self) {
        let transcript = self.transcript;
        let (calls, failed) = transcript.count_all_and_failed_calls();
        let mut calls = grouped_count_with_noun(calls, "call", "calls");
        if failed > 0 {
            calls.push_str(&format!(", {failed} not completed"));
        }
        self.append_html("<dl>\n");
        let folder = path_text(transcript.cwd());
        let prompts = transcript.numbered_prompt_headings().count() + transcript.removed_prompts;
        let prompts = grouped_count_with_noun(prompts as u64, "prompt", "prompts");
        let size = format!("{prompts}, {calls}");
        let first = [("Folder", Some(&*folder)), ("Date", transcript.shown_date())];
        let first = first.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (name, value) in first.chain(transcript.facts.rows()).chain([("Size", &*size)]) {
            self.append_html("<div>");
            self.append_element("dt", "", name);
            self.append_element("dd", "", &sanitise::escape_line(value));
            self.append_html("</div>\n");
        }
        self.append_html("</dl>\n");
    }

    /// Appends the list of prompts.
    fn append_prompt_list(&mut self) {
        let transcript = self.transcript;
        self.append_html("<nav aria-label=\"Prompts\">\n<h2>Prompts</h2>\n<ol>\n");
        for (number, heading) in transcript.numbered_prompt_headings() {
            self.append_html(&format!("<li value=\"{number}\"><a href=\"#prompt-{number}\">"));
            self.append_text(&heading);
            self.append_html("</a></li>\n");
        }
        self.append_html("</ol>\n</nav>\n");
    }

    fn append_foot(&mut self) {
        let commands = &self.transcript.facts.commands;
        if !commands.is_empty() {
            self.append_html(
                "<details class=\"commands\"><summary>Commands of the agent</summary>\n<dl>",
            );
            for (name, description) in commands {
                self.append_html("<div>");
                self.append_element("dt", "", &format!("/{name}"));
                self.append_element("dd", "", description);
                self.append_html("</div>\n");
            }
            self.append_html("</dl></details>\n");
        }
        self.append_html("</main>\n</div>\n<script>");
        self.append_html(SCRIPT);
        self.append_html("</script>\n</body>\n</html>\n");
    }

    fn append_prompt(&mut self, number: usize, message: &Message) {
        self.append_html(&format!(
            "<section aria-labelledby=\"prompt-{number}\">\n<div class=\"prompt entry\">\
             <h2 id=\"prompt-{number}\"><a href=\"#prompt-{number}\" \
             aria-label=\"Link to prompt {number}\">{number}</a> "
        ));
        self.append_text(&prompt_heading(message));
        self.append_html("</h2>\n");
        let (first, others) = prompt_body_below_heading(message);
        if let Some(rest) = first {
            self.append_element("div", "said", rest);
            self.append_html("\n");
        }
        for part in others {
            match part {
                Part::Text(text) => self.append_element("div", "said", text),
                part => self.append_attachment(part),
            }
            self.append_html("\n");
        }
        self.append_omission(message.content.omitted_bytes());
        self.append_html("</div>\n");
    }

    fn append_entry(&mut self, number: usize, entry: &Entry) {
        match entry {
            Entry::Message(message) => self.append_message(message),
            Entry::Call(call) => self.append_call(number, call),
            Entry::Plan(steps) if !steps.is_empty() => self.append_plan(steps),
            Entry::Plan(_) => {}
            Entry::Notice(notice) => self.append_notice(notice),
        }
    }

    fn append_message(&mut self, message: &Message) {
        let is_thought = message.author == Author::Thought;
        self.append_html(match is_thought {
            true => "<details class=\"entry thought\"><summary>Thought</summary>\n",
            false => "<div class=\"entry message\">\n",
        });
        for part in message.content.iter() {
            match part {
                Part::Text(text) => self.append_markdown("prose", text),
                part => self.append_attachment(part),
            }
        }
        self.append_omission(message.content.omitted_bytes());
        self.append_html(if is_thought { "</details>\n" } else { "</div>\n" });
    }

    /// Appends Markdown as HTML.
    fn append_markdown(&mut self, class: &str, text: &str) {
        self.append_html(&format!("<div class=\"{class}\" dir=\"auto\">\n"));
        self.append_html(&safe_markdown::to_html(text));
        self.append_html("</div>\n");
    }

    /// Appends content other than text.
    fn append_attachment(&mut self, part: &Part) {
        match part {
            Part::Image { mime, data } => {
                // The type and the data were checked when the image was added.
                self.append_html("<img alt=\"Image of the session\" src=\"data:");
                self.append_text(mime);
                self.append_html(";base64,");
                self.append_text(data);
                self.append_html("\">");
            }
            Part::Binary { kind, bytes } => {
                let bytes = grouped_count_with_noun(*bytes, "byte", "bytes");
                self.append_element("p", "note", &format!("{kind}, {bytes}, not shown"));
            }
            Part::Link { name, uri } if safe_markdown::is_safe_link(uri) => {
                self.append_html("<p class=\"link\"><a href=\"");
                self.append_text(uri);
                self.append_html("\">");
                self.append_text(name);
                self.append_html("</a></p>");
            }
            Part::Link { name, uri } => {
                self.append_html("<p class=\"link\">");
                self.append_element("span", "name", name);
                self.append_html(" ");
                self.append_element("span", "uri", uri);
                self.append_html("</p>");
            }
            Part::Resource { uri, text } => {
                self.append_html("<details class=\"resource\"><summary>");
                self.append_element("span", "uri", uri);
                self.append_html("</summary>");
                self.append_element("pre", "raw", text);
                self.append_html("</details>");
            }
            Part::Text(_) | Part::Change(_) | Part::Terminal(_) => {}
        }
        self.append_html("\n");
    }

    fn append_plan(&mut self, steps: &[PlanStep]) {
        self.append_html("<div class=\"entry plan\"><h3>Plan</h3>\n<ul>\n");
        for step in steps {
            let (class, mark, name) = match step.status {
                PlanEntryStatus::Completed => ("done", "✓", "done"),
                PlanEntryStatus::InProgress => ("doing", "●", "in progress"),
                _ => ("open", "○", "open"),
            };
            self.append_html(&format!(
                "<li class=\"{class}\"><span class=\"mark\" role=\"img\" \
                 aria-label=\"{name}\">{mark}</span> <span>"
            ));
            self.append_text_with_code_spans(&step.text);
            self.append_html("</span></li>\n");
        }
        self.append_html("</ul></div>\n");
    }

    fn append_notice(&mut self, notice: &Notice) {
        self.append_html("<div class=\"entry notice\">");
        self.append_element("strong", "", &notice.title);
        if let Some(description) = &notice.description {
            self.append_html(" ");
            self.append_element("span", "", description);
        }
        self.append_html("</div>\n");
    }
}
