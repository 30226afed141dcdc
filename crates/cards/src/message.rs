//! Prints messages and thoughts as they are streamed.

use acp_types::schema::v1::MessageId;
use anstyle::Style;

use crate::markdown::MarkdownPrinter;
use crate::page::{Page, TextOwner};
use crate::sanitise;

/// Prints the current message.
#[derive(Debug, Default)]
pub(crate) struct MessagePrinter {
    /// Formatter of Markdown, which also stores the unprinted part of a message. `None` if messages
    /// are printed unchanged.
    markdown: Option<MarkdownPrinter>,
}

impl MessagePrinter {
    /// Enables formatting of Markdown.
    pub(crate) fn enable_markdown(&mut self) {
        self.markdown = Some(MarkdownPrinter::default());
    }

    /// Prints a chunk of a message.
    pub(crate) fn print_chunk(&mut self, id: Option<&MessageId>, text: &str, page: &mut Page) {
        let text = self.escape_and_begin_text(TextOwner::Message(id.cloned()), text, page);
        match &mut self.markdown {
            Some(markdown) => markdown.push_and_print_complete(&text, page),
            None => page.write_styled_text(Style::new(), &text),
        }
    }

    /// Prints the rest of the message. Call this method before any other text is printed.
    pub(crate) fn print_remaining(&mut self, page: &mut Page) {
        if let Some(markdown) = &mut self.markdown {
            markdown.print_remaining(page);
        }
    }

    /// Prints a chunk of a thought in a dimmed style and with a mark.
    pub(crate) fn print_thought_chunk(
        &mut self,
        id: Option<&MessageId>,
        text: &str,
        page: &mut Page,
    ) {
        let owner = TextOwner::Thought(id.cloned());
        let mut mark = if page.owner == owner { "  " } else { "▸ " };
        let dim = page.palette.dim;
        for piece in self.escape_and_begin_text(owner, text, page).split_inclusive('\n') {
            if page.is_at_line_start() && piece != "\n" {
                page.write_styled_text(dim, mark);
                mark = "  ";
            }
            page.write_styled_text(dim, piece);
        }
    }

    /// Begins a new text if the previous text has an owner other than `owner`. Returns `text`
    /// escaped.
    fn escape_and_begin_text(&mut self, owner: TextOwner, text: &str, page: &mut Page) -> String {
        let text = sanitise::escape_message_chunk(text);
        if page.owner == owner {
            return text;
        }
        self.print_remaining(page);
        let text = text.trim_start_matches('\n').to_owned();
        if !text.is_empty() {
            page.ensure_blank_line();
            page.owner = owner;
        }
        text
    }
}
