//! The text of a page whose structure is not converted.

use std::cell::RefCell;
use std::time::Instant;

use html5ever::TokenizerResult;
use html5ever::buffer_queue::BufferQueue;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::{Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{
    Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use crate::web::limits::MAX_HTML_PARSE_TIME;

use super::bounded_dom::chunks;
use super::elements::title_as_one_line;

/// Elements that do not begin a new line.
const INLINE: &[&str] = &[
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd",
    "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var",
    "wbr",
];

/// Returns the title and the text of a page. The time is limited. If the limit is exceeded, the
/// text ends with a note.
pub(super) fn extract_text(html: &str) -> (Option<String>, String) {
    let tokenizer = Tokenizer::new(TextSink::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    let deadline = Instant::now() + MAX_HTML_PARSE_TIME;
    let mut is_complete = true;
    for chunk in chunks(html) {
        // Check the time between the chunks, because the tokenizer may need quadratic time for the
        // attributes of one tag.
        if Instant::now() > deadline {
            is_complete = false;
            break;
        }
        input.push_back(StrTendril::from(chunk));
        while let TokenizerResult::Script(()) = tokenizer.feed(&input) {}
    }
    if is_complete {
        tokenizer.end();
    }
    let TextSink { text, title, .. } = tokenizer.sink;
    let title = title_as_one_line(&title.into_inner());
    let text = text.into_inner();
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        let start = lines.len();
        for word in line.split_whitespace() {
            if lines.len() > start {
                lines.push(' ');
            }
            lines.push_str(word);
        }
        if lines.len() > start {
            lines.push('\n');
        }
    }
    if !is_complete {
        lines.push_str("[The rest of the page takes too long to read.]");
    }
    lines.truncate(lines.trim_end_matches('\n').len());
    ((!title.is_empty()).then_some(title), lines)
}

#[derive(Default)]
struct TextSink {
    text: RefCell<String>,
    title: RefCell<String>,
    /// The open element whose content is not text of the page, e.g. `script`.
    within: RefCell<Option<String>>,
}

impl TokenSink for TextSink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        match token {
            Token::CharacterTokens(characters) => match self.within.borrow().as_deref() {
                None => self.text.borrow_mut().push_str(&characters),
                Some("title") => self.title.borrow_mut().push_str(&characters),
                Some(_) => {}
            },
            Token::TagToken(Tag { kind, name, .. }) => {
                if !INLINE.contains(&&*name) {
                    self.text.borrow_mut().push('\n');
                }
                if kind == TagKind::EndTag {
                    self.within.take();
                    return TokenSinkResult::Continue;
                }
                let state = match &*name {
                    "script" => ScriptData,
                    "style" | "iframe" | "noframes" | "xmp" => Rawtext,
                    "title" | "textarea" => Rcdata,
                    _ => return TokenSinkResult::Continue,
                };
                self.within.replace(Some(name.to_string()));
                return TokenSinkResult::RawData(state);
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }
}
