//! Finds known secrets, and credentials by their shape, in what comes in pieces: a terminal's
//! output, a message.

use super::{REDACTION_MARKER, Secrets, credentials, strip_escapes};
use crate::limits::{MAX_SHOWN_SECRET_BYTES, STREAM_CONTEXT_BYTES};

/// What has come of a stream and is not decided yet.
///
/// Only bytes that may be the beginning of a secret, or stand right before credentials, are held
/// back, until the next piece tells, or until [`flush`](Self::flush). There is no clock here: the last
/// bytes of a prompt that waits for its user come late if, and only if, a secret may begin with them.
/// A secret with escape sequences of a terminal in its midst is found, too; one with any other
/// character in its midst is not. Of credentials over 4 KiB that come in pieces, the rest is not
/// found.
#[derive(Debug, Default)]
pub(crate) struct StreamRedactor {
    /// The last bytes: a few that were shown, and those that are held back.
    buffer: Vec<u8>,
    /// How many of them were shown, or a marker for them.
    shown_bytes: usize,
    /// Whether the last of those was a marker.
    ends_with_marker: bool,
    /// How many of the last bytes may be the beginning of a known secret.
    possible_secret_bytes: usize,
}

impl StreamRedactor {
    /// Returns what can be shown now that `bytes` have come.
    pub(crate) fn push(&mut self, secrets: &Secrets, bytes: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.buffer);
        text.extend_from_slice(bytes);
        let scan = strip_escapes::scan_without_escapes(&text, |text| secrets.scan(text));
        let shaped = strip_escapes::scan_without_escapes(&text, credentials::scan_credentials);
        // Up to here it is decided.
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
            // Nothing is held back that was not shown, if by a marker.
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

    /// Returns what is held back, because nothing may come any more.
    ///
    /// Of what may be the beginning of a known secret, up to 3 bytes are shown; more are hidden like
    /// the whole. Credentials that do not have their shape yet are shown. If more comes all the same,
    /// and it was a secret, the rest of it is hidden.
    pub(crate) fn flush(&mut self) -> Vec<u8> {
        let known = self.buffer.len() - self.possible_secret_bytes.min(self.buffer.len());
        let plain = &self.buffer[self.shown_bytes..known.max(self.shown_bytes)];
        let mut out = plain.to_vec();
        if !out.is_empty() {
            self.ends_with_marker = false;
        }
        let rest = &self.buffer[known.max(self.shown_bytes)..];
        if rest.is_empty() {
            // All is shown.
        } else if self.possible_secret_bytes <= MAX_SHOWN_SECRET_BYTES {
            self.ends_with_marker = false;
            out.extend_from_slice(rest);
        } else {
            if !std::mem::replace(&mut self.ends_with_marker, true) {
                out.extend_from_slice(REDACTION_MARKER.as_bytes());
            }
            // Colours end where they were meant to.
            out.extend_from_slice(&strip_escapes::only_escapes(rest));
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

    /// Pushes pieces, with a flush for each `|`, and joins what is shown.
    fn redact_pieces(pieces: &[&str]) -> String {
        let (secrets, mut stream) = (Secrets::new(KNOWN), StreamRedactor::default());
        let shown = pieces.iter().map(|piece| match *piece {
            "|" => stream.flush(),
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
            // Of two that overlap, both are hidden, wherever the pieces end.
            (&["abababab", "c", "c", "."], "[redacted]."),
            (&["abababab", "c", "d"], "[redacted]cd"),
            (&["abababab", "ccabab", "aba."], "[redacted]."),
        ] {
            assert_eq!(redact_pieces(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn credentials_and_what_has_colours_in_it_are_hidden_in_pieces_too() {
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
            // Also within a sequence, as the target of a link.
            (&["\u{1b}]8;;x:secret-of-ada\u{1b}\\."], "\u{1b}]8;;x:[redacted]\u{1b}\\."),
            (&["see http://localhost:3000", "|"], "see http://localhost:3000"),
            (&["see http://localhost:3000/", "a ."], "see http://localhost:3000/a ."),
        ] {
            assert_eq!(redact_pieces(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_flush_shows_no_more_than_a_few_bytes_of_a_secret() {
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
