//! Parses the Markdown of messages into events that are safe to write in any format.
//!
//! HTML becomes text, and images become links. A link is kept only if it leads to the web or to a
//! mail address; any other link is replaced by its text. Headings get a lower level than the page's
//! own headings.

use pulldown_cmark::{
    Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html,
};
use pulldown_cmark_to_cmark::{calculate_code_block_token_count, cmark_with_options};

use crate::sanitise::escape_text;

const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Returns a message as HTML.
pub(super) fn to_html(text: &str) -> String {
    let mut page = String::new();
    html::push_html(&mut page, safe_events(&escape_text(text)).into_iter());
    page
}

/// Returns a message as Markdown that does not change how later text is formatted.
pub(super) fn to_markdown(text: &str) -> String {
    let text = escape_text(text);
    let mut document = String::new();
    let events = safe_events(&text);
    let options = pulldown_cmark_to_cmark::Options {
        code_block_token_count: calculate_code_block_token_count(&events).unwrap_or(3),
        list_token: '-',
        increment_ordered_list_bullets: true,
        ..Default::default()
    };
    match cmark_with_options(&events, &mut document, OPTIONS, options) {
        Ok(_) => document,
        // Some unusual nestings have no form that all parsers interpret in the same way.
        Err(_) => callboard_text::wrap_in_code_fence("", &text),
    }
}

/// A piece of a title.
pub(super) enum TitlePiece {
    Text(String),
    Code(String),
}

/// Splits a title into text and code. Other Markdown stays unchanged.
pub(super) fn title_pieces(title: &str) -> Vec<TitlePiece> {
    let title = crate::sanitise::escape_line(title);
    let mut pieces = Vec::new();
    let mut from = 0;
    for (event, range) in Parser::new_ext(&title, Options::empty()).into_offset_iter() {
        if let Event::Code(code) = event
            && range.start >= from
        {
            if range.start > from {
                pieces.push(TitlePiece::Text(title[from..range.start].to_owned()));
            }
            pieces.push(TitlePiece::Code(code.into_string()));
            from = range.end;
        }
    }
    if from < title.len() {
        pieces.push(TitlePiece::Text(title[from..].to_owned()));
    }
    pieces
}

/// Returns whether a link leads to the web or to a mail address.
pub(super) fn is_safe_link(uri: &str) -> bool {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https" | "mailto"))
}

fn safe_events(text: &str) -> Vec<Event<'_>> {
    let mut events = Vec::new();
    // For each open link or image: whether it is written as a link.
    let mut links = Vec::new();
    for event in Parser::new_ext(text, OPTIONS) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let dest_url = escape_text(&dest_url);
                let is_kept = is_safe_link(&dest_url) && !links.contains(&true);
                links.push(is_kept);
                if is_kept {
                    events.push(Event::Start(Tag::Link {
                        link_type: LinkType::Inline,
                        dest_url: dest_url.into(),
                        title: "".into(),
                        id: "".into(),
                    }));
                }
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                if links.pop() == Some(true) {
                    if let Some(Event::Start(Tag::Link { dest_url, .. })) = events.last() {
                        let address = dest_url.clone();
                        events.push(Event::Text(address));
                    }
                    events.push(Event::End(TagEnd::Link));
                }
            }
            Event::End(TagEnd::CodeBlock | TagEnd::HtmlBlock) => {
                // If the text lacked its last newline, the fence would be written without its
                // closing line.
                if let Some(Event::Text(text)) = events.last()
                    && !text.ends_with('\n')
                {
                    events.push(Event::Text("\n".into()));
                }
                events.push(Event::End(TagEnd::CodeBlock));
            }
            Event::Code(code) => {
                // A parser would join two adjacent code spans (e.g. after a link was removed) into
                // one.
                if let Some(Event::Code(_)) = events.last() {
                    events.push(Event::Text(" ".into()));
                }
                events.push(Event::Code(escape_text(&code).into()));
            }
            event => events.push(safe_event(event)),
        }
    }
    events
}

fn safe_event(event: Event<'_>) -> Event<'_> {
    match event {
        // The parser has decoded entities, so the text must be escaped again.
        Event::Text(text) | Event::Html(text) => Event::Text(escape_text(&text).into()),
        Event::InlineHtml(html) => Event::Text(escape_text(&html).replace('\n', " ").into()),
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: lower_heading_level(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => {
            Event::End(TagEnd::Heading(lower_heading_level(level)))
        }
        // An alignment would become an inline style, which the content security policy of the page
        // forbids.
        Event::Start(Tag::Table(columns)) => {
            Event::Start(Tag::Table(vec![Alignment::None; columns.len()]))
        }
        Event::Start(Tag::HtmlBlock) => {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced("html".into())))
        }
        // After a list, indented code would become a part of the list.
        Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced("".into())))
        }
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
            let is_part =
                |letter: &char| letter.is_ascii_alphanumeric() || "+-#_.".contains(*letter);
            let language: String = info.chars().take_while(is_part).collect();
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language.into())))
        }
        event => event,
    }
}

fn lower_heading_level(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H3,
        HeadingLevel::H2 => HeadingLevel::H4,
        HeadingLevel::H3 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    }
}
