//! Escaping of text for display both by clients that render a line as Markdown
//! (<https://spec.commonmark.org>) and by clients that show the line unchanged.

/// Returns a text unchanged, or in a code span if Markdown would interpret one of its characters.
#[must_use]
pub fn code_span_if_needed(text: &str) -> String {
    if needs_code_span(text) { code_span(text) } else { text.to_owned() }
}

/// Returns whether a text contains Markdown syntax, at any position of a line.
pub(super) fn needs_code_span(text: &str) -> bool {
    // No known Markdown dialect interprets these characters within a line. Some dialects interpret
    // the other punctuation characters.
    let is_plain = |byte: u8| !byte.is_ascii_punctuation() || b"/.,:;'\"()?%=+-".contains(&byte);
    // Text that Markdown converts to links.
    let links = ["://", "www."];
    // Characters that begin a list, a rule or a heading at the start of a line.
    let begins_block = |byte: u8| b"-+=".contains(&byte) || byte.is_ascii_digit();
    !text.bytes().all(is_plain)
        || links.iter().any(|link| text.to_ascii_lowercase().contains(link))
        || text.starts_with(' ')
        || text.bytes().next().is_some_and(begins_block) && text.contains(['-', '+', '=', '.', ')'])
}

/// Returns a text in a code span whose fence is longer than any run of backticks in the text.
pub(super) fn code_span(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let runs = text.split(|letter| letter != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or_default() + 1);
    // Markdown strips one space from each side of a code span, unless the code span contains only
    // spaces.
    let is_padded = text.starts_with('`')
        || text.ends_with('`')
        || text.starts_with(' ') && text.ends_with(' ') && !text.trim().is_empty();
    let pad = if is_padded { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
#[cfg(feature = "titles")]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use pulldown_cmark::{Event, Options, Parser, Tag};

    use super::code_span_if_needed;
    use callboard_text::escape_invisible;

    use crate::title::Titles;

    /// Returns the text that is shown by a client that renders a line as Markdown.
    fn shown(line: &str) -> Result<String, String> {
        let mut text = String::new();
        // Smart quotes do not change the meaning.
        for event in Parser::new_ext(line, Options::all() - Options::ENABLE_SMART_PUNCTUATION) {
            match event {
                Event::Text(part) | Event::Code(part) => text.push_str(&part),
                Event::Start(Tag::Paragraph) | Event::End(_) => {}
                other => return Err(format!("{other:?}")),
            }
        }
        Ok(text)
    }

    #[test]
    fn text_with_markdown_syntax_is_shown_unchanged() {
        for text in [
            "a",
            "src/main.rs",
            "src/my_file.rs",
            "[x](https://evil.example)",
            "![x](y)",
            "<img src=x>",
            "<b>",
            "&amp;",
            "a `b` ``c``",
            "`",
            "``",
            "**a**",
            "~~a~~",
            "https://evil.example",
            "www.evil.example",
            "ada@example.org",
            "# a",
            "- a",
            "1. a",
            "a\\b",
            "$HOME",
            "$a$",
            "x^2^ {#id}",
            "",
            "x | y",
        ] {
            for line in [format!("Read {}", code_span_if_needed(text)), code_span_if_needed(text)] {
                let seen = shown(&line).unwrap_or_else(|event| panic!("{line}: {event}"));
                let seen = seen.strip_prefix("Read").unwrap_or(&seen);
                assert_eq!(seen.trim_start(), text, "{line}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_becomes_a_link_an_image_or_markup(
            text in prop_oneof!["[a-c`*_\\[\\]()<>!&#|~@:/.\\\\ \"'-]{0,24}", any::<String>()],
        ) {
            let text = escape_invisible(&text);
            let titles = Titles::parse("en", "read = Read { $x }\nrun = Run `{ $x }` here\n").unwrap();
            for (key, before, behind) in [("read", "Read ", ""), ("run", "Run ", " here")] {
                let title = titles.render(key, &[("x", text.clone())]);
                let seen = shown(&title);
                prop_assert!(seen.is_ok(), "{title}: {seen:?}");
                let seen = seen.unwrap();
                let seen = seen.strip_prefix(before.trim_end()).unwrap_or(&seen);
                let inner = seen.strip_suffix(behind).unwrap_or(seen);
                // Markdown ignores spaces at the end of a line.
                prop_assert_eq!(inner.trim(), text.trim(), "{}", title);
            }
        }
    }
}
