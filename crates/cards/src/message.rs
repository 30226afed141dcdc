//! Messages and thoughts, a piece at a time, as they stream.

use acp_types::schema::v1::MessageId;
use anstyle::Style;

use crate::markdown::Markdown;
use crate::page::{Owner, Page};
use crate::safe;

/// The message that is being printed.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// The part that is not printed yet, where Markdown is laid out; none where it is printed as it is.
    markdown: Option<Markdown>,
}

impl Message {
    /// Lays out Markdown from now on.
    pub(crate) fn lay_out(&mut self) {
        self.markdown = Some(Markdown::default());
    }

    /// Writes a piece of a message.
    pub(crate) fn push(&mut self, id: Option<&MessageId>, text: &str, page: &mut Page) {
        let text = self.begin(Owner::Message(id.cloned()), text, page);
        match &mut self.markdown {
            Some(markdown) => markdown.push(&text, page),
            None => page.write(Style::new(), &text),
        }
    }

    /// Prints the rest of the message, before anything else is printed.
    pub(crate) fn end(&mut self, page: &mut Page) {
        if let Some(markdown) = &mut self.markdown {
            markdown.finish(page);
        }
    }

    /// Writes a piece of a thought: dimmed, under its mark.
    pub(crate) fn push_thought(&mut self, id: Option<&MessageId>, text: &str, page: &mut Page) {
        let owner = Owner::Thought(id.cloned());
        let mut mark = if page.owner == owner { "  " } else { "▸ " };
        let dim = page.palette.dim;
        for piece in self.begin(owner, text, page).split_inclusive('\n') {
            if page.is_fresh() && piece != "\n" {
                page.write(dim, mark);
                mark = "  ";
            }
            page.write(dim, piece);
        }
    }

    /// Begins the text of `owner`, if it is another one's; returns the text safe to show.
    fn begin(&mut self, owner: Owner, text: &str, page: &mut Page) -> String {
        let text = safe::message(text);
        if page.owner == owner {
            return text;
        }
        self.end(page);
        let text = text.trim_start_matches('\n').to_owned();
        if !text.is_empty() {
            page.blank();
            page.owner = owner;
        }
        text
    }
}
