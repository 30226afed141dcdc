//! Escapes text from the agent for display, so that it cannot move the cursor, hide text or reorder
//! text.

use std::fmt::Write as _;

use anstream::adapter::strip_str;
use callboard_text::escape_invisible;

/// Escapes all invisible characters of a line except tabs. Permission requests use this function.
pub(super) fn escape_line(line: &str) -> String {
    let parts: Vec<_> = line.split('\t').map(escape_invisible).collect();
    parts.join("\t")
}

/// Escapes harmful characters of a chunk of a message, but keeps line endings and joined emoji.
/// Removes carriage returns, because the next chunk may begin with the line feed.
pub(super) fn escape_message_chunk(text: &str) -> String {
    escape_harmful(&text.replace('\r', ""))
}

/// Escapes harmful characters of a whole text, e.g. of a file. A carriage return is escaped too,
/// unless it belongs to a line ending.
pub(super) fn escape_text(text: &str) -> String {
    escape_harmful(&text.replace("\r\n", "\n"))
}

/// Returns a command's output without escape sequences, with only the last state of overwritten
/// lines.
pub(super) fn output_to_plain_text(text: &str) -> String {
    let plain = strip_str(text).to_string();
    let lines = plain.split('\n').map(|line| {
        let line = line.trim_end_matches('\r');
        escape_harmful(line.rsplit('\r').next().unwrap_or_default())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Truncates a line to `max` characters. The last character of a truncated line is an ellipsis.
pub(super) fn truncate_line(line: &str, max: usize) -> String {
    match line.char_indices().nth(max) {
        None => line.to_owned(),
        Some(_) => {
            let head = line.chars().take(max.saturating_sub(1));
            head.chain(['…']).collect()
        }
    }
}

fn escape_harmful(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\r' {
            shown.push_str("\\r");
        } else if is_harmful(letter) {
            // Writing to a string cannot fail.
            write!(shown, "\\u{{{:x}}}", u32::from(letter)).unwrap_or_default();
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Returns whether a character is harmful: a control character other than line ending and tab, a
/// separator that breaks lines, or a character that reorders text
/// (<https://www.unicode.org/reports/tr9/>).
fn is_harmful(letter: char) -> bool {
    (letter.is_control() && !matches!(letter, '\n' | '\t'))
        || matches!(letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{
        escape_line, escape_message_chunk, escape_text, output_to_plain_text, truncate_line,
    };

    #[test]
    fn lines_of_permission_requests_hide_nothing() {
        assert_eq!(escape_line("a\tb"), "a\tb");
        assert_eq!(escape_line("a\u{1b}[8mb\u{200b}"), "a\\u{1b}[8mb\\u{200b}");
    }

    #[test]
    fn a_message_keeps_its_words() {
        assert_eq!(escape_message_chunk("a\r\n\t👩\u{200d}🔬 **b**"), "a\n\t👩\u{200d}🔬 **b**");
        assert_eq!(
            escape_message_chunk("\u{1b}[2J\u{7}\u{9b}\u{202e}"),
            "\\u{1b}[2J\\u{7}\\u{9b}\\u{202e}"
        );
    }

    #[test]
    fn a_whole_text_shows_all_of_its_lines() {
        assert_eq!(escape_text("a\r\nb\rc\r\r\n\u{1b}[2K"), "a\nb\\rc\\r\n\\u{1b}[2K");
    }

    #[test]
    fn escapes_and_overwritten_text_of_output_are_removed() {
        for (given, expected) in [
            ("\u{1b}[1;31mred\u{1b}[0m\n", "red\n"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("10%\r50%\r100%\r\nb", "100%\nb"),
            ("a\n\nb\n", "a\n\nb\n"),
            ("\u{202e}x", "\\u{202e}x"),
        ] {
            assert_eq!(output_to_plain_text(given), expected, "{given:?}");
        }
    }

    #[test]
    fn no_input_leaves_a_control_character() {
        let pieces = [
            "\u{1b}", "[", "]", "P", "é", "\u{9b}", "\u{85}", "€", "3", "m", "\u{7}", "\\", "😀",
            "\n",
        ];
        for number in 0..pieces.len().pow(4) {
            let digits = (0..4).map(|place| number / pieces.len().pow(place) % pieces.len());
            let given: String = digits.map(|digit| pieces[digit]).collect();
            let shown = output_to_plain_text(&given);
            assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{given:?}");
        }
    }

    #[test]
    fn a_truncated_line_ends_with_an_ellipsis() {
        assert_eq!(truncate_line("abc", 3), "abc");
        assert_eq!(truncate_line("äöüß", 3), "äö…");
        assert_eq!(truncate_line("ab", 0), "…");
    }
}
