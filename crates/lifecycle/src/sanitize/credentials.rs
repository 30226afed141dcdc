//! Detection of credentials by their form: passwords in URLs, and HTTP credentials.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::{memchr2_iter, memmem};

use super::automaton::ScanResult;

/// Returns the ranges of credentials in a text, in order and without overlap.
///
/// - In `scheme://user:password@host`, the user and the password. A user without a password counts
///   as a token if it has at least 20 bytes.
/// - After `Authorization:` or `Authorization=`, the credentials without their scheme, e.g.
///   `abc123` in `Authorization: Basic abc123`. The credentials must have at least 6 bytes.
/// - After `Bearer`, a token of at least 16 bytes with at least one digit.
pub(super) fn find_credentials(text: &str) -> Vec<Range<usize>> {
    // Return early: most texts contain none of these characters, and every kind of credentials
    // contains one of them.
    if !text.bytes().any(|byte| matches!(byte, b'@' | b'b' | b'B' | b'z' | b'Z')) {
        return Vec::new();
    }
    let mut found: Vec<_> = url_credentials(text)
        .chain(authorization_headers(text))
        .chain(bearer_tokens(text))
        .collect();
    found.sort_by_key(|range| range.start);
    let mut end = 0;
    found.retain_mut(|range| {
        range.start = range.start.max(end);
        end = end.max(range.end);
        range.start < range.end
    });
    found
}

/// Scans a part of a stream. The part may be invalid UTF-8. Also returns how many bytes at the end
/// may belong to credentials or to the text before credentials. The returned number covers at most
/// 4 KiB of the last line.
pub(super) fn scan_stream_for_credentials(text: &[u8]) -> ScanResult {
    let none = ScanResult { found: Vec::new(), possible_match_bytes: 0 };
    if !may_hold_credentials(text) {
        return none;
    }
    // Replace each non-ASCII byte, so that positions stay the same. The form of credentials does
    // not depend on non-ASCII letters.
    let ascii = text.iter().map(|byte| if byte.is_ascii() { *byte } else { b'x' }).collect();
    let Ok(text) = String::from_utf8(ascii) else { return none };
    ScanResult {
        found: find_credentials(&text),
        possible_match_bytes: unfinished_credential_bytes(&text),
    }
}

/// Returns whether a text contains a keyword of any kind of credentials, in lowercase, in capitals
/// or capitalized.
fn may_hold_credentials(text: &[u8]) -> bool {
    let has = |finder: &memmem::Finder<'_>| finder.find(text).is_some();
    has(&URL_SCHEME_END) || KEYWORD_FINDERS.iter().any(has)
}

/// Returns how many bytes at the end of a text may be unfinished credentials, including the text
/// that precedes credentials, e.g. `Bearer`.
fn unfinished_credential_bytes(text: &str) -> usize {
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let line = &text[line.max(text.len().saturating_sub(MAX_UNFINISHED_BYTES))..];
    let is_word = |letter: char| !letter.is_whitespace() && !"\"'`<>\\,;".contains(letter);
    // Whether `rest` contains more than `words` complete words, or exactly `words` complete words
    // and a separator.
    let is_over = |rest: &str, words: usize| {
        let rest = rest.trim_start_matches(|letter| !is_word(letter));
        let ended = rest.split(|letter| !is_word(letter)).filter(|word| !word.is_empty()).count();
        let is_within = rest.ends_with(is_word);
        ended > words || ended == words && !is_within
    };
    let header = end_positions_of_word(line, "authorization", 8).last().filter(|end| {
        let rest = line[*end..].trim_start_matches(['"', '\'', '\\', ' ']);
        rest.is_empty() || rest.strip_prefix([':', '=']).is_some_and(|rest| !is_over(rest, 2))
    });
    let header = header.map(|end| end - "authorization".len());
    let bearer = end_positions_of_word(line, "bearer", 0).last().filter(|end| {
        let rest = &line[*end..];
        rest.is_empty() || rest.starts_with(' ') && !is_over(rest, 1)
    });
    let bearer = bearer.map(|end| end - "bearer".len());
    let url = line.rfind("://").filter(|at| {
        let is_end = |letter: char| letter.is_whitespace() || "/?#\"'`<>\\".contains(letter);
        !line[at + "://".len()..].contains(is_end)
    });
    [header, bearer, url].into_iter().flatten().min().map_or(0, |at| line.len() - at)
}

fn url_credentials(text: &str) -> impl Iterator<Item = Range<usize>> {
    URL_SCHEME_END.find_iter(text.as_bytes()).filter_map(|colon| {
        let has_scheme = text[..colon].ends_with(|letter: char| letter.is_ascii_alphanumeric());
        let start = colon + "://".len();
        let authority = &text[start..];
        let is_end = |letter: char| letter.is_whitespace() || "/?#\"'`<>\\".contains(letter);
        let authority = &authority[..authority.find(is_end).unwrap_or(authority.len())];
        let user = &authority[..authority.rfind('@')?];
        let is_secret = has_scheme && (user.contains(':') || user.len() >= MIN_URL_TOKEN_BYTES);
        is_secret.then(|| start..start + user.len())
    })
}

fn authorization_headers(text: &str) -> impl Iterator<Item = Range<usize>> {
    end_positions_of_word(text, "authorization", 8).filter_map(|end| {
        let rest = text[end..].trim_start_matches(['"', '\'', '\\']).trim_start();
        let rest = rest.strip_prefix([':', '='])?;
        let rest = rest.trim_start().trim_start_matches(['"', '\'', '\\']);
        // If a word and a space precede the credentials, the word is the scheme.
        let scheme = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let rest = match scheme.map(|end| rest.split_at(end)) {
            Some((_, after)) if after.starts_with(' ') => after.trim_start_matches(' '),
            _ => rest,
        };
        let length = leading_token(rest).len();
        let start = text.len() - rest.len();
        (length >= MIN_HEADER_CREDENTIAL_BYTES).then(|| start..start + length)
    })
}

fn bearer_tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    end_positions_of_word(text, "bearer", 0).filter_map(|end| {
        let rest = text[end..].strip_prefix(' ')?.trim_start_matches(' ');
        let token = leading_token(rest);
        let is_token =
            token.len() >= MIN_BEARER_TOKEN_BYTES && token.bytes().any(|b| b.is_ascii_digit());
        let start = text.len() - rest.len();
        is_token.then(|| start..start + token.len())
    })
}

/// Returns the ends of all occurrences of a word, ignoring case. `word` must be lowercase. The
/// function searches for the rarest letter of `word`. `rare` is the index of this letter.
fn end_positions_of_word<'a>(
    text: &'a str,
    word: &'static str,
    rare: usize,
) -> impl Iterator<Item = usize> + 'a {
    let (bytes, letter) = (text.as_bytes(), word.as_bytes()[rare]);
    memchr2_iter(letter, letter.to_ascii_uppercase(), bytes).filter_map(move |at| {
        let start = at.checked_sub(rare)?;
        let end = start + word.len();
        bytes.get(start..end)?.eq_ignore_ascii_case(word.as_bytes()).then_some(end)
    })
}

/// Returns the beginning of a text that may be credentials, i.e. everything up to a space or a
/// quote.
fn leading_token(text: &str) -> &str {
    let end = text.find(|letter: char| letter.is_whitespace() || "\"'`<>\\,;".contains(letter));
    &text[..end.unwrap_or(text.len())]
}

/// A finder for the separator after the scheme of a URL.
static URL_SCHEME_END: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new("://"));

static KEYWORD_FINDERS: LazyLock<[memmem::Finder<'_>; 4]> =
    LazyLock::new(|| ["uthoriz", "UTHORIZ", "earer", "EARER"].map(memmem::Finder::new));

/// Maximum number of bytes of a line that are held back for unfinished credentials.
const MAX_UNFINISHED_BYTES: usize = 4096;

/// Minimum size, in bytes, of a user in a URL that counts as a token although it has no password.
const MIN_URL_TOKEN_BYTES: usize = 20;

/// Minimum size, in bytes, of the value of an `Authorization` header. A shorter value is treated as
/// ordinary text.
const MIN_HEADER_CREDENTIAL_BYTES: usize = 6;

/// Minimum size, in bytes, of a token after `Bearer`. A shorter token is treated as ordinary text.
const MIN_BEARER_TOKEN_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use crate::sanitize::Secrets;
    use pretty_assertions::assert_eq;

    #[test]
    fn credentials_are_redacted_by_their_form() {
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
    fn text_without_credentials_is_not_changed() {
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
