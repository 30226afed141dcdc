//! Cuts of text that never split a character, and lengths of JSON that is not written. It knows
//! nothing of what the text means.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value};

mod path;
mod unseen;

pub(crate) use path::as_optional_text;
pub use path::{as_text, parse_path, path_text, utf8_path};
pub use unseen::{is_hidden, is_invisible, push_visible};

/// Returns the longest beginning of `text` of at most `max` bytes.
#[must_use]
pub fn head(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns a number of things: `1 line`, `2 lines`.
#[must_use]
pub fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// Returns the longest end of `text` of at most `max` bytes.
#[must_use]
pub fn tail(text: &str, max: usize) -> &str {
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Returns the bytes that `text` takes inside a JSON string, without the quotes.
#[must_use]
pub fn json_len(text: &str) -> usize {
    // Few enough at once that their sum fits a byte, which makes it fast.
    let more = |bytes: &[u8]| bytes.iter().copied().map(escape_len).sum::<u8>();
    text.len() + text.as_bytes().chunks(32).map(|bytes| usize::from(more(bytes))).sum::<usize>()
}

/// Returns the longest beginning of `text` that takes at most `max` bytes inside a JSON string.
#[must_use]
pub fn json_head(text: &str, max: usize) -> &str {
    let mut used = 0;
    for (at, byte) in text.bytes().enumerate() {
        used += json_byte_len(byte);
        if used > max {
            return head(text, at);
        }
    }
    text
}

/// Returns the bytes that a value takes as JSON; 0 for one that JSON cannot hold.
#[must_use]
pub fn json_bytes(value: &impl Serialize) -> usize {
    let mut bytes = Bytes(0);
    serde_json::to_writer(&mut bytes, value).map_or(0, |()| bytes.0)
}

/// Returns the bytes that a value takes as JSON: what [`json_bytes`] returns, sooner.
#[must_use]
pub fn json_value_len(value: &Value) -> usize {
    match value {
        Value::String(text) => "\"\"".len() + json_len(text),
        Value::Array(items) => listed_len(items.iter().map(json_value_len)),
        Value::Object(fields) => json_object_len(fields),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => digits(number),
            (None, Some(negative)) => "-".len() + digits(negative.unsigned_abs()),
            (None, None) => json_bytes(number),
        },
        Value::Null | Value::Bool(true) => "true".len(),
        Value::Bool(false) => "false".len(),
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

/// Returns the bytes that an object takes as JSON.
#[must_use]
pub fn json_object_len(fields: &Map<String, Value>) -> usize {
    let field = |(key, value): (&String, _)| "\"\":".len() + json_len(key) + json_value_len(value);
    listed_len(fields.iter().map(field))
}

/// The bytes of parts in brackets, with commas between them.
fn listed_len(parts: impl ExactSizeIterator<Item = usize>) -> usize {
    "[]".len() + parts.len().saturating_sub(1) + parts.sum::<usize>()
}

/// Counts what is written and keeps none of it.
struct Bytes(usize);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn json_byte_len(byte: u8) -> usize {
    1 + usize::from(escape_len(byte))
}

/// The bytes that a byte takes inside a JSON string beyond itself, found without a branch:
/// one for `\n` and its like, five for `\u001b` and its like.
fn escape_len(byte: u8) -> u8 {
    let is = |other| u8::from(byte == other);
    let short = is(b'\n') + is(b'\r') + is(b'\t') + is(0x08) + is(0x0c);
    is(b'"') + is(b'\\') + u8::from(byte < 0x20) * 5 - short * 4
}

/// Wraps `text` in a Markdown fence that is longer than any run of backticks in it.
#[must_use]
pub fn fenced(language: &str, text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for letter in text.chars() {
        run = if letter == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(3.max(longest + 1));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use super::{fenced, head, json_bytes, json_head, json_len, json_value_len, tail};
    use serde_json::json;

    #[test]
    fn cuts_keep_characters_whole() {
        assert_eq!(head("aäb", 2), "a");
        assert_eq!(head("aäb", 3), "aä");
        assert_eq!(head("a", 9), "a");
        assert_eq!(tail("aäb", 2), "b");
        assert_eq!(tail("aäb", 3), "äb");
        assert_eq!(tail("a", 9), "a");
    }

    #[test]
    fn json_lengths_are_those_of_the_serialiser() {
        let controls = (0..=0x7f).map(char::from).collect::<String>().repeat(3);
        for text in ["", "abc", "\"\\\n\r\t\u{8}\u{c}", "\u{1b}[0m\u{0}", "äß€😀\u{7f}", &controls]
        {
            let whole = serde_json::to_string(text).unwrap();
            assert_eq!(json_len(text), whole.len() - 2, "{text:?}");
        }
        for value in [
            json!(null),
            json!([]),
            json!({}),
            json!([true, false, null, -1.5e300, 7, "\n"]),
            json!([0, 9, 10, 99, 100, u64::MAX, -1, -9, -10, i64::MIN, 0.0, -0.0, 1.0]),
            json!({"a\"": [[], {}], "": {"b": u64::MAX}}),
        ] {
            assert_eq!(json_value_len(&value), json_bytes(&value), "{value}");
        }
        assert_eq!(json_head("a\u{1b}b", 6), "a");
        assert_eq!(json_head("a\u{1b}b", 7), "a\u{1b}");
        assert_eq!(json_head("ää", 3), "ä");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("rs", "x"), "```rs\nx\n```");
        assert_eq!(fenced("", "```\n"), "````\n```\n````");
    }
}
