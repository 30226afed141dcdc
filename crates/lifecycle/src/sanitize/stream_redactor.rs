//! Redaction of streams that arrive in pieces, e.g. a terminal's output or a message.

use super::{REDACTION_MARKER, Secrets, credentials, strip_escapes};
use crate::limits::{MAX_SHOWN_SECRET_BYTES, STREAM_CONTEXT_BYTES};

/// A redactor of one stream. The redactor stores the last bytes of the stream until it is known
/// whether these bytes belong to a secret.
///
/// Bytes are held back only if they may be the beginning of a secret, or may directly precede
/// credentials. They are released by [`Self::release_held_back`], or when the next piece shows
/// whether they are a secret. There is no timeout: if a terminal shows a prompt and waits for
/// input, the last bytes of the prompt stay hidden as long as they may be the beginning of a
/// secret. Secrets are found across escape sequences of a terminal, but not across any other
/// character. If credentials exceed 4 KiB and arrive in pieces, the bytes beyond 4 KiB are not
/// found.
#[derive(Debug, Default)]
pub(crate) struct StreamRedactor {
    /// The last bytes of the stream: first some bytes that were already shown, then the held-back
    /// bytes.
    buffer: Vec<u8>,
    /// Number of buffered bytes that were shown, or replaced by a marker.
    shown_bytes: usize,
    /// Whether the shown bytes end with a redaction marker.
    ends_with_marker: bool,
    /// Number of bytes at the end that may be the beginning of a known secret.
    possible_secret_bytes: usize,
}

impl StreamRedactor {
    /// Adds bytes, and returns the text that can be shown now.
    pub(crate) fn push(&mut self, secrets: &Secrets, bytes: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.buffer);
        text.extend_from_slice(bytes);
        let scan = strip_escapes::scan_with_and_without_escapes(&text, |text| secrets.scan(text));
        let shaped = strip_escapes::scan_with_and_without_escapes(
            &text,
            credentials::scan_stream_for_credentials,
        );
        // All bytes before `end` are either shown or redacted now.
        let end = text.len() - scan.possible_match_bytes.max(shaped.possible_match_bytes);
        let (mut out, mut at) = (Vec::with_capacity(bytes.len()), self.shown_bytes);
        for secret in strip_escapes::merge_ranges(scan.found, shaped.found) {
            if secret.end <= self.shown_bytes {
                continue;
            }
            let is_more_of_marked = self.ends_with_marker && secret.start < self.shown_bytes;
            out.extend_from_slice(&text[at..secret.start.max(at)]);
            if !is_more_of_marked {
                out.extend_from_slice(REDACTION_MARKER.as_bytes());
            }
            at = secret.end;
        }
        if at > end {
            // A match extends beyond `end`, so a marker already replaces all bytes up to the end of
            // the match.
            self.ends_with_marker |= at > self.shown_bytes;
        } else {
            out.extend_from_slice(&text[at..end]);
            self.ends_with_marker = false;
        }
        let keep = end.min(text.len().saturating_sub(STREAM_CONTEXT_BYTES));
        (self.shown_bytes, self.possible_secret_bytes) =
            (at.max(end) - keep, scan.possible_match_bytes);
        text.drain(..keep);
        self.buffer = text;
        out
    }

    /// Returns the held-back bytes. Call this method when the stream may have ended.
    ///
    /// Up to 3 bytes that may be the beginning of a known secret are shown. A longer beginning is
    /// redacted like the whole secret. Credentials that are not complete enough to be detected are
    /// shown. If the stream continues and the bytes were the beginning of a secret, the rest of the
    /// secret is redacted.
    pub(crate) fn release_held_back(&mut self) -> Vec<u8> {
        let known = self.buffer.len() - self.possible_secret_bytes.min(self.buffer.len());
        let plain = &self.buffer[self.shown_bytes..known.max(self.shown_bytes)];
        let mut out = plain.to_vec();
        if !out.is_empty() {
            self.ends_with_marker = false;
        }
        let rest = &self.buffer[known.max(self.shown_bytes)..];
        if rest.is_empty() {
            // All bytes were already shown.
        } else if self.possible_secret_bytes <= MAX_SHOWN_SECRET_BYTES {
            self.ends_with_marker = false;
            out.extend_from_slice(rest);
        } else {
            if !std::mem::replace(&mut self.ends_with_marker, true) {
                out.extend_from_slice(REDACTION_MARKER.as_bytes());
            }
            // Keep escape sequences, so that colors end where intended.
            out.extend_from_slice(&strip_escapes::extract_escapes(rest));
        }
        self.shown_bytes = self.buffer.len();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::StreamRedactor;
    use crate::sanitize::Secrets;
    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, Strategy as _, proptest};

    const KNOWN: [&str; 4] = ["abababab", "ababababcc", "bccabababa", "secret-of-ada"];

    /// Pushes pieces, releases the held-back bytes at each `|`, and joins the shown text.
    fn redact_pieces(pieces: &[&str]) -> String {
        let (secrets, mut stream) = (Secrets::new(KNOWN), StreamRedactor::default());
        let shown = pieces.iter().map(|piece| match *piece {
            "|" => stream.release_held_back(),
            piece => stream.push(&secrets, piece.as_bytes()),
        });
        String::from_utf8(shown.collect::<Vec<_>>().concat()).unwrap()
    }

    #[test]
    fn only_the_beginning_of_a_secret_is_held_back() {
        for (pieces, expected) in [
            (&["$ echo "][..], "$ echo "),
            (&["my sec"], "my "),
            (&["my sec", "ond"], "my second"),
            (&["my sec", "|"], "my sec"),
            (&["my secret-o", "f-ada", "!"], "my [redacted]!"),
            (&["secret-of-adasecret-of-ada"], "[redacted][redacted]"),
            (&["secret-of-ad", "secret-of-ada"], "secret-of-ad[redacted]"),
            // If two secrets overlap, both are redacted, regardless of where the pieces end.
            (&["abababab", "c", "c", "."], "[redacted]."),
            (&["abababab", "c", "d"], "[redacted]cd"),
            (&["abababab", "ccabab", "aba."], "[redacted]."),
        ] {
            assert_eq!(redact_pieces(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn credentials_and_colored_secrets_are_redacted_across_pieces() {
        for (pieces, expected) in [
            (&["a secr\u{1b}[31met-of\u{1b}[0m-ada ."][..], "a [redacted] ."),
            (&["a secr\u{1b}[3", "1met-of", "\u{1b}[0m-ada ."], "a [redacted] ."),
            (&["\u{1b}[1msecret-of-ada\u{1b}[0m", "|"], "\u{1b}[1m[redacted]\u{1b}[0m"),
            (&["\u{1b}[31mred\u{1b}[0m"], "\u{1b}[31mred\u{1b}[0m"),
            (&["Authorization: Bearer abc123\nx"], "Authorization: Bearer [redacted]\nx"),
            (
                &["Auth", "orization: Bea", "rer ab", "c123", "456\nx"],
                "Authorization: Bearer [redacted]\nx",
            ),
            (&["bear", "er 0123456", "789abcdef", "01 y"], "bearer [redacted] y"),
            (&["bearer of news\n"], "bearer of news\n"),
            (&["postgres://ada:", "pw@db/x"], "postgres://[redacted]@db/x"),
            // A secret is also found inside an escape sequence, here as the target of a link.
            (&["\u{1b}]8;;x:secret-of-ada\u{1b}\\."], "\u{1b}]8;;x:[redacted]\u{1b}\\."),
            (&["see http://localhost:3000", "|"], "see http://localhost:3000"),
            (&["see http://localhost:3000/", "a ."], "see http://localhost:3000/a ."),
        ] {
            assert_eq!(redact_pieces(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_release_shows_no_more_than_a_few_bytes_of_a_secret() {
        for (pieces, expected) in [
            (&["sec", "|"][..], "sec"),
            (&["secr", "|"], "[redacted]"),
            (&["sec", "|", "ret-of-ada", "."], "sec[redacted]."),
            (&["secr", "|", "et-of-ada", "."], "[redacted]."),
            (&["secr", "|", "etary"], "[redacted]etary"),
            (&["sec", "|", "r", "|", "et-of-ada."], "sec[redacted]."),
            (&["secr", "|", "et-of-", "|", "|", "ada."], "[redacted]."),
            (&["abababab", "|", "cc."], "[redacted]."),
            (&["abababab", "c", "|", "c."], "[redacted]."),
            (&["ababababsec", "|"], "[redacted]sec"),
            (&["bccabababas", "|", "ecret-of-ada."], "[redacted]s[redacted]."),
        ] {
            assert_eq!(redact_pieces(pieces), expected, "{pieces:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn the_pieces_do_not_matter(pieces in vec("[abc]{0,6}".prop_map(String::from), 0..16)) {
            let mut pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            pieces.push("!");
            assert_eq!(redact_pieces(&pieces), Secrets::new(KNOWN).redact(&format!("{whole}!")));
        }
    }
}
