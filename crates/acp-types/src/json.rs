//! Computes the number of bytes that values take as JSON, without storing the JSON. Also truncates
//! text to a maximum number of bytes in JSON.

use std::io::{self, Write};

use callboard_text::{head, tail};
use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the number of bytes that `text` takes inside a JSON string, without the quotes.
#[must_use]
pub fn escaped_string_len(text: &str) -> usize {
    // Escapes add at most five bytes per byte, so the sum over 32 bytes fits into a `u8`. A sum of
    // `u8` values is fast.
    let more = |bytes: &[u8]| bytes.iter().copied().map(extra_len_of_escaped_byte).sum::<u8>();
    text.len() + text.as_bytes().chunks(32).map(|bytes| usize::from(more(bytes))).sum::<usize>()
}

/// Returns the longest prefix of `text` that takes at most `max` bytes inside a JSON string.
#[must_use]
pub fn prefix_within_escaped_len(text: &str, max: usize) -> &str {
    let mut used = 0;
    for (at, byte) in text.bytes().enumerate() {
        used += escaped_byte_len(byte);
        if used > max {
            return head(text, at);
        }
    }
    text
}

/// Returns the longest suffix of `text` that takes at most `max` bytes inside a JSON string.
#[must_use]
pub fn suffix_within_escaped_len(text: &str, max: usize) -> &str {
    let mut used = 0;
    for (count, byte) in text.bytes().rev().enumerate() {
        used += escaped_byte_len(byte);
        if used > max {
            return tail(text, count);
        }
    }
    text
}

/// Returns the number of bytes that a value takes as JSON, or 0 if the value cannot be represented
/// in JSON.
#[must_use]
pub fn serialized_len(value: &impl Serialize) -> usize {
    let mut bytes = ByteCounter(0);
    serde_json::to_writer(&mut bytes, value).map_or(0, |()| bytes.0)
}

/// Returns the number of bytes that a value takes as JSON. The result is the same as that of
/// [`serialized_len`], but this function is faster.
#[must_use]
pub fn value_len(value: &Value) -> usize {
    match value {
        Value::String(text) => "\"\"".len() + escaped_string_len(text),
        Value::Array(items) => bracketed_list_len(items.iter().map(value_len)),
        Value::Object(fields) => object_len(fields),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => digit_count(number),
            (None, Some(negative)) => "-".len() + digit_count(negative.unsigned_abs()),
            (None, None) => serialized_len(number),
        },
        Value::Null | Value::Bool(true) => "true".len(),
        Value::Bool(false) => "false".len(),
    }
}

fn digit_count(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

/// Returns the number of bytes that an object takes as JSON.
#[must_use]
pub fn object_len(fields: &Map<String, Value>) -> usize {
    let field =
        |(key, value): (&String, _)| "\"\":".len() + escaped_string_len(key) + value_len(value);
    bracketed_list_len(fields.iter().map(field))
}

/// Returns the length of a list in brackets, with commas between its items. `parts` are the lengths
/// of the items.
fn bracketed_list_len(parts: impl ExactSizeIterator<Item = usize>) -> usize {
    "[]".len() + parts.len().saturating_sub(1) + parts.sum::<usize>()
}

/// Counts the written bytes and discards them.
struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn escaped_byte_len(byte: u8) -> usize {
    1 + usize::from(extra_len_of_escaped_byte(byte))
}

/// Returns the number of bytes that escaping adds to a byte in a JSON string: one for escapes like
/// `\n`, and five for escapes like `\u001b`. The computation has no branches.
fn extra_len_of_escaped_byte(byte: u8) -> u8 {
    let is = |other| u8::from(byte == other);
    let short = is(b'\n') + is(b'\r') + is(b'\t') + is(0x08) + is(0x0c);
    is(b'"') + is(b'\\') + u8::from(byte < 0x20) * 5 - short * 4
}

#[cfg(test)]
mod tests {
    use super::{
        escaped_string_len, prefix_within_escaped_len, serialized_len, suffix_within_escaped_len,
        value_len,
    };
    use serde_json::json;

    #[test]
    fn json_lengths_are_those_of_the_serialiser() {
        let controls = (0..=0x7f).map(char::from).collect::<String>().repeat(3);
        for text in ["", "abc", "\"\\\n\r\t\u{8}\u{c}", "\u{1b}[0m\u{0}", "äß€😀\u{7f}", &controls]
        {
            let whole = serde_json::to_string(text).unwrap();
            assert_eq!(escaped_string_len(text), whole.len() - 2, "{text:?}");
        }
        for value in [
            json!(null),
            json!([]),
            json!({}),
            json!([true, false, null, -1.5e300, 7, "\n"]),
            json!([0, 9, 10, 99, 100, u64::MAX, -1, -9, -10, i64::MIN, 0.0, -0.0, 1.0]),
            json!({"a\"": [[], {}], "": {"b": u64::MAX}}),
        ] {
            assert_eq!(value_len(&value), serialized_len(&value), "{value}");
        }
        assert_eq!(prefix_within_escaped_len("a\u{1b}b", 6), "a");
        assert_eq!(prefix_within_escaped_len("a\u{1b}b", 7), "a\u{1b}");
        assert_eq!(prefix_within_escaped_len("ää", 3), "ä");
        assert_eq!(suffix_within_escaped_len("a\u{1b}b", 6), "b");
        assert_eq!(suffix_within_escaped_len("a\u{1b}b", 7), "\u{1b}b");
        assert_eq!(suffix_within_escaped_len("ää", 3), "ä");
    }
}
