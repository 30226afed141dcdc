//! Finds secrets in what comes in pieces: a terminal's output, a message.

use super::{MARKER, Secrets};
use crate::limits::SECRET_SHOWN_BYTES;

/// What has come of a stream and is not decided yet.
///
/// Only bytes that may be the beginning of a secret are held back, until the next piece tells, or
/// until [`flush`](Self::flush). There is no clock here: the last bytes of a prompt that waits for
/// its user come late if, and only if, a secret begins with them.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The last bytes, as far as they may be the beginning of a secret.
    held: Vec<u8>,
    /// How many of them were shown, or a marker for them.
    shown: usize,
    /// Whether it was a marker.
    is_marked: bool,
}

impl Stream {
    /// Returns whether nothing is held back, and nothing remembered of what was.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns what can be shown now that `bytes` have come.
    pub(crate) fn push(&mut self, secrets: &Secrets, bytes: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(bytes);
        let scan = secrets.scan(&text);
        let keep = text.len() - scan.open;
        let (mut out, mut at) = (Vec::with_capacity(bytes.len()), self.shown);
        for secret in scan.found.into_iter().filter(|secret| secret.end > self.shown) {
            let is_more_of_marked = self.is_marked && secret.start < self.shown;
            out.extend_from_slice(&text[at..secret.start.max(at)]);
            if !is_more_of_marked {
                out.extend_from_slice(MARKER.as_bytes());
            }
            at = secret.end;
        }
        if at > keep {
            // Nothing is held back that was not shown, if by a marker.
            self.is_marked |= at > self.shown;
        } else {
            out.extend_from_slice(&text[at..keep]);
            self.is_marked = false;
        }
        self.shown = at.saturating_sub(keep);
        text.drain(..keep);
        self.held = text;
        out
    }

    /// Returns what is held back, because nothing may come any more.
    ///
    /// Of what may be the beginning of a secret, up to 3 bytes are shown; more are hidden like the
    /// whole. If more comes all the same, and it was a secret, the rest of it is hidden.
    pub(crate) fn flush(&mut self) -> Vec<u8> {
        let rest = &self.held[self.shown..];
        let out = if rest.is_empty() {
            return Vec::new();
        } else if self.held.len() <= SECRET_SHOWN_BYTES {
            self.is_marked = false;
            rest.to_vec()
        } else if std::mem::replace(&mut self.is_marked, true) {
            Vec::new()
        } else {
            MARKER.into()
        };
        self.shown = self.held.len();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;
    use crate::sanitize::Secrets;
    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, Strategy as _, proptest};

    const KNOWN: [&str; 4] = ["abababab", "ababababcc", "bccabababa", "secret-of-ada"];

    /// Pushes pieces, with a flush for each `|`, and joins what is shown.
    fn shown(pieces: &[&str]) -> String {
        let (secrets, mut stream) = (Secrets::new(KNOWN), Stream::default());
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
            assert_eq!(shown(pieces), expected, "{pieces:?}");
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
            assert_eq!(shown(pieces), expected, "{pieces:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn the_pieces_do_not_matter(pieces in vec("[abc]{0,6}".prop_map(String::from), 0..16)) {
            let mut pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            pieces.push("!");
            assert_eq!(shown(&pieces), Secrets::new(KNOWN).redact(&format!("{whole}!")));
        }
    }
}
