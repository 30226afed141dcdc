//! Converts HTML pages to Markdown.
//!
//! The structure of a page is bounded before it is converted: the converter is recursive, and some
//! malformed pages would become trees that are much larger than the page. A page beyond the bounds
//! becomes plain text.

mod attributes;
mod bounded_dom;
mod elements;
mod escapes;
mod handlers;
mod indent;
mod plain_text;
mod scripts;

use std::panic::{AssertUnwindSafe, catch_unwind};

use htmd::element_handler::Handlers;
use htmd::options::{BulletListMarker, HrStyle, LinkStyle, Options};
use htmd::{Element, HtmlToMarkdown};
use url::Url;

use crate::web::limits::MAX_HTML_INDENT_BYTES;

/// A converted page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConvertedHtml {
    /// The title as one line.
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    /// Whether the text is Markdown. Otherwise, the page was converted to plain text.
    pub(crate) is_markdown: bool,
}

/// Converts a page. Relative links are resolved against `url`, the URL of the page.
///
/// If the page has a main part, only this part is converted. Scripts, styles, forms, navigation and
/// hidden elements are left out.
pub(crate) fn convert_html(html: &str, url: &Url) -> ConvertedHtml {
    // Libraries for HTML panic on some malformed pages.
    let converted = catch_unwind(AssertUnwindSafe(|| convert_to_markdown_if_bounded(html, url)));
    converted.ok().flatten().unwrap_or_else(|| {
        let (title, text) = plain_text::extract_text(html);
        ConvertedHtml { title, text, is_markdown: false }
    })
}

/// Returns `None` if the page exceeds the bounds.
fn convert_to_markdown_if_bounded(html: &str, url: &Url) -> Option<ConvertedHtml> {
    let document = bounded_dom::parse_bounded(html)?;
    let page = elements::extract_content(&document, url);
    if indent::estimate_total_indent_bytes(&page.main) > MAX_HTML_INDENT_BYTES {
        return None;
    }
    let text = converter().tree_to_markdown(&page.main);
    Some(ConvertedHtml { title: page.title, text: tidy_lines(&text), is_markdown: true })
}

fn converter() -> HtmlToMarkdown {
    let options = Options {
        hr_style: HrStyle::Dashes,
        link_style: LinkStyle::InlinedPreferAutolinks,
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    HtmlToMarkdown::builder()
        .options(options)
        .add_handler(vec!["table"], |all: &dyn Handlers, table: Element<'_>| {
            Some(handlers::convert_table(all, table))
        })
        .add_handler(vec!["pre"], handlers::convert_preformatted)
        .add_handler(vec!["sub", "sup"], |all: &dyn Handlers, script: Element<'_>| {
            Some(scripts::convert_superscript_or_subscript(all, script))
        })
        .add_handler(vec!["mfrac", "msup", "msub"], |all: &dyn Handlers, math: Element<'_>| {
            Some(scripts::convert_math_fraction_or_script(all, math))
        })
        .add_handler(vec!["code", "kbd", "samp", "tt"], |_: &dyn Handlers, code: Element<'_>| {
            Some(handlers::convert_code(code.node))
        })
        .build()
}

/// Removes blanks at the ends of lines and needless escapes, and merges consecutive empty lines.
/// Code blocks are not changed.
fn tidy_lines(markdown: &str) -> String {
    let mut tidy = String::with_capacity(markdown.len());
    let mut fence: Option<&str> = None;
    let mut last_empty = Some("");
    for line in markdown.lines() {
        // In a quote or a list, a code fence comes after the markers of the quote or list.
        let start = line.trim_start_matches(|it: char| " >-.".contains(it) || it.is_ascii_digit());
        let ticks = &start[..start.len() - start.trim_start_matches('`').len()];
        match fence {
            Some(open) if ticks.len() >= open.len() && ticks == start.trim_end() => fence = None,
            Some(_) => {
                tidy.push_str(line);
                tidy.push('\n');
                continue;
            }
            None if ticks.len() >= 3 && !start[ticks.len()..].contains('`') => fence = Some(ticks),
            None => {}
        }
        let mut line = line.trim_end();
        // An indentation of one blank has no meaning in Markdown, so it is removed.
        if !line.starts_with("  ") {
            line = line.trim_start_matches(' ');
        }
        // An empty line of a quote consists of the markers of the quote.
        let empty = line.bytes().all(|byte| b"> ".contains(&byte)).then_some(line);
        if empty.is_some() && empty == last_empty {
            continue;
        }
        last_empty = empty;
        tidy.push_str(&escapes::without_needless_escapes(line));
        tidy.push('\n');
    }
    tidy.truncate(tidy.trim_end().len());
    tidy
}

#[cfg(test)]
mod tests;
