//! Escapes characters that would hide text, reorder text or break a line.

use std::fmt::Write as _;

use crate::{is_invisible, push_char_escaping_invisible};

/// Escapes every character that would hide text, reorder text or break a line, so that readers see
/// the actual characters (<https://www.unicode.org/reports/tr36/>).
///
/// The result is one line of visible characters and plain spaces. The result is at most six times
/// as long as the text. The function is idempotent: an escape consists of visible characters, and a
/// backslash is not escaped again.
#[must_use]
pub fn escape_invisible(text: &str) -> String {
    escape_invisible_prefix(text, usize::MAX).0
}

/// Escapes a text and truncates it to `max` bytes. A truncated text ends with `…`, and an escape is
/// never split. Returns the result, and whether it was truncated.
#[must_use]
pub fn escape_invisible_truncated(text: &str, max: usize) -> (String, bool) {
    let (shown, is_whole) = escape_invisible_prefix(text, max);
    if is_whole {
        return (shown, false);
    }
    let (mut shown, _) = escape_invisible_prefix(text, max.saturating_sub(ELLIPSIS.len_utf8()));
    shown.push(ELLIPSIS);
    (shown, true)
}

/// Escapes the longest prefix of a text whose escaped form has at most `max` bytes. Also returns
/// whether the prefix is the whole text.
#[must_use]
pub fn escape_invisible_prefix(text: &str, max: usize) -> (String, bool) {
    let is_plain = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if text.len() <= max && is_plain(text) && !text.contains(&SPACES[..MIN_COUNTED_BLANKS]) {
        return (text.to_owned(), true);
    }
    let mut shown = String::with_capacity(text.len().min(max));
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let before = shown.len();
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        if blanks >= MIN_COUNTED_BLANKS {
            shown.push_str(&format!("[{blanks} spaces]"));
            rest = &rest[blanks..];
        } else {
            let taken = if blanks > 0 { &rest[..blanks] } else { &rest[..letter.len_utf8()] };
            taken.chars().for_each(|letter| push_visible_char(&mut shown, letter));
            rest = &rest[taken.len()..];
        }
        if shown.len() > max {
            shown.truncate(before);
            return (shown, false);
        }
    }
    (shown, true)
}

fn push_visible_char(shown: &mut String, letter: char) {
    match letter {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\t' => shown.push_str("\\t"),
        letter => push_char_escaping_invisible(shown, letter),
    }
}

const ELLIPSIS: char = '…';

/// Minimum number of consecutive spaces that are replaced by their count. A run of this length
/// could move the text after the run out of the visible area.
const MIN_COUNTED_BLANKS: usize = 40;

const SPACES: &str = "                                        ";

/// Escapes invisible characters in JSON text as `\uXXXX`, except line breaks and spaces. In valid
/// JSON, all other invisible characters occur only in strings. There, an escape means the same
/// character, so the parsed value stays the same.
#[must_use]
pub fn escape_invisible_in_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter < '\u{7f}' || !is_invisible(letter) {
            escaped.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            write!(escaped, "\\u{unit:04x}").unwrap_or_default();
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{
        escape_invisible, escape_invisible_in_json, escape_invisible_prefix,
        escape_invisible_truncated,
    };
    use crate::is_invisible;
    use pretty_assertions::assert_eq;
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use proptest::sample::select;
    use regex_syntax::hir::{Class, HirKind};

    #[test]
    fn json_with_invisible_characters_is_plain_and_has_the_same_value() {
        let escaped =
            escape_invisible_in_json("{\n \"a\": \"\u{9b}31m\u{202e}\u{7f}\u{e0041}\u{e4}\"}");
        assert_eq!(escaped, "{\n \"a\": \"\\u009b31m\\u202e\\u007f\\udb40\\udc41\u{e4}\"}");
    }

    /// Returns the characters that a regular-expression class matches, according to an independent
    /// library.
    fn class(pattern: &str) -> impl Iterator<Item = char> {
        let HirKind::Class(Class::Unicode(class)) =
            regex_syntax::parse(pattern).unwrap().into_kind()
        else {
            panic!("{pattern} is no class")
        };
        let ranges: Vec<_> = class.iter().map(|range| range.start()..=range.end()).collect();
        ranges.into_iter().flatten()
    }

    #[test]
    fn invisible_unicode_characters_are_escaped() {
        let pattern = r"[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}--[\ \p{Prepended_Concatenation_Mark}]]";
        let mut count = 0;
        for letter in class(pattern) {
            let shown = escape_invisible(&letter.to_string());
            let short = matches!(shown.as_str(), "\\n" | "\\r" | "\\t");
            assert!(short || shown == format!("\\u{{{:x}}}", u32::from(letter)), "{letter:?}");
            count += 1;
        }
        assert!(count > 4_000, "{count}");
    }

    #[test]
    fn visible_characters_are_not_escaped() {
        for letter in class(r"[\p{L}\p{M}\p{N}\p{P}\p{S}--\p{Default_Ignorable_Code_Point}]") {
            let is_blank = ['\u{2800}', '\u{fffc}', '\u{1d159}', '\u{16fe4}'].contains(&letter);
            assert_eq!(
                escape_invisible(&letter.to_string()) == letter.to_string(),
                !is_blank,
                "{letter:?}"
            );
        }
        assert_eq!(escape_invisible("päth 名前 😀 a b"), "päth 名前 😀 a b");
    }

    #[test]
    fn truncated_text_ends_with_an_ellipsis_and_splits_no_escape() {
        for (given, max, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 5, "abcd"),
            ("abcdef", 5, "ab…"),
            ("äöü", 5, "ä…"),
            ("a\u{200b}b", 10, "a\\u{200b}b"),
            ("a\u{200b}b", 9, "a…"),
            ("a", 0, "…"),
        ] {
            assert_eq!(escape_invisible_truncated(given, max).0, expected, "{given:?} in {max}");
        }
    }

    fn invisible() -> impl Strategy<Value = char> {
        select(
            class(r"[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]")
                .collect::<Vec<_>>(),
        )
    }

    proptest! {
        #[test]
        fn escaping_any_text_is_idempotent_and_bounded(
            letters in vec(prop_oneof![any::<char>(), invisible()], 0..80),
            max in 3_usize..80,
        ) {
            let text = String::from_iter(letters);
            let shown = escape_invisible(&text);
            prop_assert_eq!(escape_invisible(&shown), shown.clone());
            prop_assert!(shown.len() <= 6 * text.len());
            prop_assert!(!shown.contains(is_invisible));
            let (start, is_whole) = escape_invisible_prefix(&text, max);
            prop_assert!(shown.starts_with(&start));
            prop_assert_eq!(is_whole, start == shown);
            prop_assert!(start.len() <= max && escape_invisible_truncated(&text, max).0.len() <= max);
        }
    }
}
