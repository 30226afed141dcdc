//! Writes the card of a call.

use acp_types::schema::v1::ToolKind;
use acp_types::{FileChange, FileChangeOperation, LineTag};
use callboard_text::grouped_count_with_noun;

use super::HtmlPage;
use crate::content::split_fence_language_and_body;
use crate::diff::hunk_header;
use crate::page::display_path;
use crate::transcript::call::{Call, RawText};
use crate::transcript::parts::Part;
use crate::ui_text::{NO_NEWLINE_TEXT, protocol_kind_word};

impl HtmlPage<'_> {
    /// Appends the card of a call.
    pub(super) fn append_call(&mut self, number: usize, call: &Call) {
        let state = call.state().as_str();
        self.append_html(&format!(
            "<article class=\"entry call {state}\" id=\"entry-{number}\">\n"
        ));
        let head = self.html.len();
        let open = if call.is_card_initially_open() { " open" } else { "" };
        self.append_html(&format!("<details{open}><summary>"));
        self.append_call_head(call);
        self.append_html("</summary>\n<div class=\"body\">\n");
        let body = self.html.len();
        self.append_call_body(call);
        if self.html.len() > body {
            self.append_html("</div>\n</details>\n");
        } else {
            // The card has no content, so it cannot be unfolded.
            self.html.truncate(head);
            self.append_html("<div class=\"head\">");
            self.append_call_head(call);
            self.append_html("</div>\n");
        }
        self.append_html("</article>\n");
    }

    fn append_call_head(&mut self, call: &Call) {
        let state = call.state();
        let kind =
            if call.kind == ToolKind::Other { "call" } else { protocol_kind_word(call.kind) };
        self.append_html(&format!(
            "<svg class=\"icon\" role=\"img\" aria-label=\"{kind}\"><use href=\"#{}\"/></svg>",
            icon_id_for_kind(call.kind)
        ));
        self.append_html("<span class=\"what\"><span class=\"title\">");
        self.append_text_with_code_spans(call.title());
        self.append_html("</span><span class=\"facts\">");
        if let Some(exit) = call.exit_text_unless_success() {
            self.append_element("span", "exit", &exit);
        }
        call.end_reason_and_duration().for_each(|detail| self.append_element("span", "", &detail));
        self.append_element("span", "state", &format!("{} {}", state.mark(), state.as_str()));
        self.append_html("</span></span>");
    }

    fn append_call_body(&mut self, call: &Call) {
        if !call.locations.is_empty() {
            self.append_html("<ul class=\"places\" aria-label=\"Places\">");
            for place in &call.locations {
                let path = display_path(self.transcript.cwd(), &place.path);
                let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
                self.append_element("li", "", &(path + &line));
            }
            self.append_html("</ul>\n");
        }
        let mut command = call.unshown_command();
        for part in call.content.iter() {
            match part {
                Part::Text(text) => match split_fence_language_and_body(text) {
                    ("console", output) => self.append_output(command.take(), output.as_bytes()),
                    _ => self.append_markdown("prose result", text),
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
        self.append_raw_text("Raw input", call.input.as_ref());
        self.append_raw_text("Raw output", call.output.as_ref());
    }

    fn append_raw_text(&mut self, name: &str, raw: Option<&RawText>) {
        if let Some(raw) = raw {
            self.append_html(&format!("<details class=\"resource\"><summary>{name}</summary>"));
            self.append_element("pre", "raw", &raw.text);
            self.append_omission(raw.omitted_bytes);
            self.append_html("</details>\n");
        }
    }

    /// Appends the hunks of a change with their line numbers.
    fn append_change(&mut self, change: &FileChange) {
        let path = display_path(self.transcript.cwd(), &change.path);
        let (added, removed) = change.line_counts();
        self.append_html("<figure class=\"diff\"><figcaption>");
        self.append_element("span", "path", &path);
        match change.operation {
            FileChangeOperation::Add => self.append_element("span", "tag", "new"),
            FileChangeOperation::Delete => self.append_element("span", "tag", "deleted"),
            _ => {}
        }
        self.append_element("span", "added", &format!("+{added}"));
        self.append_element("span", "removed", &format!("−{removed}"));
        self.append_html("</figcaption>\n<table aria-label=\"Changed lines\"><tbody>\n");
        for hunk in &change.hunks {
            self.append_html("<tr class=\"hunk\"><td colspan=\"4\">");
            self.append_text(&hunk_header(hunk, (0, 0)));
            self.append_html("</td></tr>\n");
            let (mut old, mut new) = (hunk.old_start, hunk.new_start);
            for line in &hunk.lines {
                let (class, sign, is_old, is_new) = match line.tag {
                    LineTag::Context => ("kept", " ", true, true),
                    LineTag::Removed => ("minus", "−", true, false),
                    LineTag::Added => ("plus", "+", false, true),
                };
                let number = |number: u32, is_shown: bool| match is_shown {
                    true => number.to_string(),
                    false => String::new(),
                };
                self.append_html(&format!(
                    "<tr class=\"{class}\"><td>{}</td><td>{}</td><td>{sign}</td><td>",
                    number(old, is_old),
                    number(new, is_new),
                ));
                let text = line.text.strip_suffix('\n');
                self.append_text(&text.unwrap_or(&line.text).replace('\r', "\\r"));
                self.append_html("</td></tr>\n");
                if text.is_none() {
                    self.append_html(&format!(
                        "<tr class=\"hunk\"><td colspan=\"4\">\\ {NO_NEWLINE_TEXT}</td></tr>\n"
                    ));
                }
                old = old.saturating_add(is_old.into());
                new = new.saturating_add(is_new.into());
            }
        }
        self.append_html("</tbody></table></figure>\n");
        let unlisted = change.unlisted.0 + change.unlisted.1;
        if unlisted > 0 {
            let lines = grouped_count_with_noun(unlisted as u64, "line", "lines");
            self.append_element("p", "note", &format!("… {lines} more"));
        }
    }
}

/// Returns the name of the icon of a kind.
fn icon_id_for_kind(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "i-read",
        ToolKind::Edit => "i-edit",
        ToolKind::Delete => "i-delete",
        ToolKind::Move => "i-move",
        ToolKind::Search => "i-search",
        ToolKind::Execute => "i-execute",
        ToolKind::Think => "i-think",
        ToolKind::Fetch => "i-fetch",
        ToolKind::SwitchMode => "i-mode",
        _ => "i-call",
    }
}
