//! Known secrets, which must never be shown.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::automaton::{Automaton, ScanResult};
use super::{REDACTION_MARKER, Redactor, encoded_forms};
use crate::limits::{MAX_SECRETS, MAX_SECRETS_BYTES, MAX_SHOWN_SECRET_BYTES, MIN_SECRET_BYTES};

/// Values that must never be shown: keys, tokens, passwords. Cheap to clone.
///
/// A value is found in its exact form anywhere in a text. A value is also found if it is escaped in
/// JSON or in Rust's debug output, encoded in a URL or a form, or encoded in Base64. A value is
/// found even if it contains escape sequences of a terminal. If a text was truncated in the middle
/// of a value, the beginning of the value is found if a truncation mark follows it: `…`, or a line
/// like `[... 9 bytes left out ...]`. Other parts of a value, and its hashes, are not found.
///
/// ```
/// use acp_lifecycle::Secrets;
///
/// let secrets = Secrets::new(["hunter2hunter2"]);
/// assert_eq!(secrets.redact("it is hunter2hunter2!"), "it is [redacted]!");
/// assert_eq!(secrets.redact("git://me:pass@host/x"), "git://[redacted]@host/x");
/// ```
#[derive(Clone, Default)]
pub struct Secrets {
    automaton: Option<Arc<Automaton>>,
    /// All values, including the values that exceed the limits and are not searched for.
    values: Arc<[String]>,
    omitted: usize,
}

impl Secrets {
    /// Creates a set of secrets. White space around values is removed.
    ///
    /// Values under 8 bytes are ignored, because a value such as `1` or `true` occurs in ordinary
    /// text. Parts of the redaction marker are ignored too. Of the other values, at most 256 values
    /// of 32 KiB in total are used, beginning with the shortest.
    /// [`omitted_count`](Self::omitted_count) counts the values that exceed these limits.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let long = |value: &String| {
            value.len() >= MIN_SECRET_BYTES && !REDACTION_MARKER.contains(&**value)
        };
        let values = values.into_iter().map(|value| value.as_ref().trim().to_owned()).filter(long);
        let mut values = Vec::from_iter(values.collect::<BTreeSet<_>>());
        values.sort_by_key(String::len);
        let mut room = MAX_SECRETS_BYTES;
        let taken = values.iter().take(MAX_SECRETS).take_while(|value| {
            let is_taken = value.len() <= room;
            room = room.saturating_sub(value.len());
            is_taken
        });
        let taken = taken.count();
        let known = values[..taken].iter().flat_map(|value| encoded_forms::encoded_forms(value));
        let automaton = (taken > 0).then(|| Arc::new(Automaton::new(known)));
        Self { automaton, omitted: values.len() - taken, values: values.into() }
    }

    /// Returns a set of these secrets and further secrets, with the limits of [`new`](Self::new).
    #[must_use]
    pub fn with_values(&self, values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let values = values.into_iter().map(|value| value.as_ref().to_owned());
        Self::new(self.values.iter().cloned().chain(values))
    }

    /// Returns whether there are no secrets to search for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.automaton.is_none()
    }

    /// Returns the number of values that exceed the limits and are not searched for.
    #[must_use]
    pub fn omitted_count(&self) -> usize {
        self.omitted
    }

    /// Redacts known secrets, passwords in URLs, and credentials after `Authorization` or `Bearer`
    /// in a text. Use this method for text that does not pass through a session, e.g. logs and
    /// protocol errors.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match Redactor::new(self).redacted_text(text) {
            Some(redacted) => Cow::Owned(redacted),
            None => Cow::Borrowed(text),
        }
    }

    /// Returns whether a text contains a known secret.
    pub(super) fn contains_secret(&self, text: &[u8]) -> bool {
        self.automaton.as_ref().is_some_and(|known| known.contains_match(text))
    }

    /// Finds known secrets in a text, and the beginnings of truncated secrets.
    pub(super) fn find_in_truncated(&self, text: &str) -> Vec<Range<usize>> {
        let found = self
            .automaton
            .as_ref()
            .map(|known| known.find_in_truncated(text, MAX_SHOWN_SECRET_BYTES));
        found.unwrap_or_default()
    }

    pub(super) fn scan(&self, text: &[u8]) -> ScanResult {
        let none = ScanResult { found: Vec::new(), possible_match_bytes: 0 };
        self.automaton.as_ref().map_or(none, |known| known.scan(text))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Secrets;

    #[test]
    fn short_values_and_the_marker_are_no_secrets() {
        for value in ["", "1", "true", "1234567", "  true     ", "redacted", "[redacted]"] {
            assert!(Secrets::new([value]).is_empty(), "{value:?}");
        }
        assert!(!Secrets::new(["12345678"]).is_empty());
        assert!(Secrets::default().is_empty());
    }

    #[test]
    fn with_values_adds_secrets_to_the_known_secrets() {
        let secrets = Secrets::new(["12345678"]).with_values(["abcdefgh", "true"]);
        assert_eq!(secrets.redact("12345678 abcdefgh true"), "[redacted] [redacted] true");
        assert_eq!(Secrets::default().with_values(["abcdefgh"]).redact("abcdefgh"), "[redacted]");
    }

    #[test]
    fn values_over_the_limits_are_counted() {
        let many: Vec<_> = (0..300).map(|number| format!("secret-{number}")).collect();
        let secrets = Secrets::new(&many);
        assert_eq!(
            (secrets.omitted_count(), secrets.redact("secret-9!").into_owned()),
            (44, "[redacted]!".to_owned())
        );
        let long = "x".repeat(40_000);
        assert_eq!(Secrets::new(["12345678", &long]).omitted_count(), 1);
    }

    #[test]
    fn overlapping_secrets_are_redacted_completely() {
        let secrets = Secrets::new(["abcdefgh", "abcdefghijkl", "ghijklmnop"]);
        for (text, expected) in [
            ("-abcdefgh-", "-[redacted]-"),
            ("-abcdefghijkl-", "-[redacted]-"),
            ("-abcdefghijklmnop-", "-[redacted]-"),
            ("-abcdefghabcdefgh-", "-[redacted][redacted]-"),
            ("-abcdefg-", "-abcdefg-"),
        ] {
            assert_eq!(secrets.redact(text), expected);
        }
    }

    #[test]
    fn escape_sequences_hide_no_secret() {
        let secrets = Secrets::new(["secret-of-ada"]);
        for (text, expected) in [
            ("a secr\u{1b}[31met-of\u{1b}[0m-ada.", "a [redacted]."),
            ("Bearer 01234567\u{1b}[1m89abcdef01 x", "Bearer [redacted] x"),
            ("\u{1b}]0;secret-of-ada\u{7}x", "\u{1b}]0;[redacted]\u{7}x"),
            ("\u{1b}]0;secret-of-ada", "\u{1b}]0;[redacted]"),
            ("secret\u{1b}é-of-ada", "secret\u{1b}é-of-ada"),
            ("\u{1b}\u{1b}[0msecret-of-ada", "\u{1b}\u{1b}[0m[redacted]"),
        ] {
            assert_eq!(secrets.redact(text), expected, "{text:?}");
        }
    }

    #[test]
    fn no_secret_is_in_its_debug_output() {
        assert!(!format!("{:?}", Secrets::new(["hunter2hunter2"])).contains("hunter2"));
    }
}
