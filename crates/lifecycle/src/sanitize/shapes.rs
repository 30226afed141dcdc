//! What has the shape of a secret in a text: passwords in URLs, and credentials of HTTP.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::{memchr2_iter, memmem};

/// Returns where, in order and without overlap.
///
/// - In `scheme://user:password@host`, the user and the password; also a user alone of 20 bytes
///   or more, which is a token.
/// - After `Authorization` and `:` or `=`, the credentials behind the scheme.
/// - After `Bearer`, a token of 16 bytes or more with a digit in it.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    // Most texts are short and have none of the letters without which there is no shape.
    if !text.bytes().any(|byte| matches!(byte, b'@' | b'b' | b'B' | b'z' | b'Z')) {
        return Vec::new();
    }
    let mut found: Vec<_> = urls(text).chain(headers(text)).chain(bearers(text)).collect();
    found.sort_by_key(|range| range.start);
    let mut end = 0;
    found.retain_mut(|range| {
        range.start = range.start.max(end);
        end = end.max(range.end);
        range.start < range.end
    });
    found
}

fn urls(text: &str) -> impl Iterator<Item = Range<usize>> {
    COLON.find_iter(text.as_bytes()).filter_map(|colon| {
        let has_scheme = text[..colon].ends_with(|letter: char| letter.is_ascii_alphanumeric());
        let start = colon + "://".len();
        let authority = &text[start..];
        let is_end = |letter: char| letter.is_whitespace() || "/?#\"'`<>\\".contains(letter);
        let authority = &authority[..authority.find(is_end).unwrap_or(authority.len())];
        let user = &authority[..authority.rfind('@')?];
        let is_secret = has_scheme && (user.contains(':') || user.len() >= URL_TOKEN_BYTES);
        is_secret.then(|| start..start + user.len())
    })
}

fn headers(text: &str) -> impl Iterator<Item = Range<usize>> {
    words(text, "authorization", 8).filter_map(|end| {
        let rest = text[end..].trim_start_matches(['"', '\'', '\\']).trim_start();
        let rest = rest.strip_prefix([':', '='])?;
        let rest = rest.trim_start().trim_start_matches(['"', '\'', '\\']);
        // A word and a space before the credentials are the scheme.
        let scheme = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let rest = match scheme.map(|end| rest.split_at(end)) {
            Some((_, after)) if after.starts_with(' ') => after.trim_start_matches(' '),
            _ => rest,
        };
        let length = token(rest).len();
        let start = text.len() - rest.len();
        (length >= HEADER_BYTES).then(|| start..start + length)
    })
}

fn bearers(text: &str) -> impl Iterator<Item = Range<usize>> {
    words(text, "bearer", 0).filter_map(|end| {
        let rest = text[end..].strip_prefix(' ')?.trim_start_matches(' ');
        let token = token(rest);
        let is_token = token.len() >= BEARER_BYTES && token.bytes().any(|b| b.is_ascii_digit());
        let start = text.len() - rest.len();
        is_token.then(|| start..start + token.len())
    })
}

/// Returns where a word ends, in any case. `word` is lower case, and its letter at `rare` is the one
/// that texts hold least: it is looked for.
fn words<'a>(text: &'a str, word: &'static str, rare: usize) -> impl Iterator<Item = usize> + 'a {
    let (bytes, letter) = (text.as_bytes(), word.as_bytes()[rare]);
    memchr2_iter(letter, letter.to_ascii_uppercase(), bytes).filter_map(move |at| {
        let start = at.checked_sub(rare)?;
        let end = start + word.len();
        bytes.get(start..end)?.eq_ignore_ascii_case(word.as_bytes()).then_some(end)
    })
}

/// What may be credentials: everything up to a space or a quote.
fn token(text: &str) -> &str {
    let end = text.find(|letter: char| letter.is_whitespace() || "\"'`<>\\,;".contains(letter));
    &text[..end.unwrap_or(text.len())]
}

/// Finds what stands behind the scheme of a URL.
static COLON: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new("://"));

/// Bytes from which on the user of a URL without a password is a token.
const URL_TOKEN_BYTES: usize = 20;

/// Bytes from which on the value of an `Authorization` header is one, and not prose.
const HEADER_BYTES: usize = 6;

/// Bytes from which on what stands behind `Bearer` is a token, and not prose.
const BEARER_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use crate::sanitize::Secrets;
    use pretty_assertions::assert_eq;

    #[test]
    fn shapes_of_secrets_are_hidden() {
        for (text, expected) in [
            ("postgres://ada:pw@db/x", "postgres://[redacted]@db/x"),
            ("see git+https://a:p@w@h:1/p?q#f.", "see git+https://[redacted]@h:1/p?q#f."),
            ("https://:pw@h", "https://[redacted]@h"),
            ("'http://a:b@c' \"ws://d:e@f\"", "'http://[redacted]@c' \"ws://[redacted]@f\""),
            ("https://ghp_0123456789abcdefghij@github.com/a", "https://[redacted]@github.com/a"),
            ("Authorization: Bearer abc123", "Authorization: Bearer [redacted]"),
            ("-H 'authorization: token abc123' x", "-H 'authorization: token [redacted]' x"),
            ("{\"Authorization\": \"Basic dTpw==\"}", "{\"Authorization\": \"Basic [redacted]\"}"),
            (r#"{\"authorization\":\"abc123\"}"#, r#"{\"authorization\":\"[redacted]\"}"#),
            ("Proxy-Authorization=abc123\nx", "Proxy-Authorization=[redacted]\nx"),
            ("bearer 0123456789abcdef", "bearer [redacted]"),
            ("BEARER  eyJhbGciOiJIUzI1NiJ9.e30.x, y", "BEARER  [redacted], y"),
            ("ä Authorization: Bearer äöüß ö", "ä Authorization: Bearer [redacted] ö"),
        ] {
            assert_eq!(Secrets::default().redact(text), expected);
            assert_eq!(Secrets::default().redact(expected), expected);
        }
    }

    #[test]
    fn what_has_no_such_shape_is_left_alone() {
        for text in [
            "",
            "://a:b@c",
            "https://example.org/a@b:c",
            "https://git@github.com/x",
            "ssh://git@github.com:22/x",
            "http://localhost:3000",
            "mail ada@example.org: hi",
            "a://",
            "authorization",
            "Authorization: ",
            "authorization: see",
            "the authorization of a client",
            "bearer authentication is explained below",
            "Bearer short1",
            "the token bearer",
        ] {
            assert_eq!(Secrets::default().redact(text), text);
        }
    }
}
