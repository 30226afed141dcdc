//! Cuts of text that never split a character, and lengths of JSON that is not written. It knows
//! nothing of what the text means.

use std::io::{self, Write};

use serde::Serialize;

/// Returns the longest beginning of `text` of at most `max` bytes.
#[must_use]
pub fn head(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
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
    text.bytes().map(json_byte_len).sum()
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
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0x00..0x20 => 6,
        _ => 1,
    }
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
    use super::{fenced, head, json_head, json_len, tail};

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
        for text in ["", "abc", "\"\\\n\r\t\u{8}\u{c}", "\u{1b}[0m\u{0}", "äß€😀\u{7f}"] {
            let whole = serde_json::to_string(text).unwrap();
            assert_eq!(json_len(text), whole.len() - 2, "{text:?}");
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
