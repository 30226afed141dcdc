//! Known secrets, which must never be shown.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::automaton::{Automaton, ScanResult};
use super::{REDACTION_MARKER, Redactor, encoded_forms};
use crate::limits::{
    MAX_SECRETS, MAX_SECRETS_BYTES, MAX_SHOWN_SECRET_BYTES, MAX_TEMPORARY_SECRETS,
    MAX_TEMPORARY_SECRETS_BYTES, MIN_SECRET_BYTES,
};

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
    /// All permanent values, including the values that exceed the limits and are not searched for.
    values: Arc<[String]>,
    /// The temporary values, in the order in which they are kept. The first is the newest.
    temporary: Arc<[String]>,
    /// Number of permanent values that exceed the limits.
    omitted: usize,
    /// Number of temporary values that were ignored because of their length.
    too_long: usize,
}

impl Secrets {
    /// Creates a set of secrets. White space around values is removed.
    ///
    /// Values under 8 bytes are ignored, because a value such as `1` or `true` occurs in ordinary
    /// text. Parts of the redaction marker are ignored too. Of the other values, at most 256 values
    /// of 32 KiB in total are used, beginning with the shortest.
    /// [`over_limit_count`](Self::over_limit_count) counts the values that exceed these limits.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self::default().with_permanent_and_temporary(values, Arc::default())
    }

    /// Replaces the permanent and the temporary values.
    fn with_permanent_and_temporary(
        &self,
        values: impl IntoIterator<Item = impl AsRef<str>>,
        temporary: Arc<[String]>,
    ) -> Self {
        let values = values.into_iter().map(|value| value.as_ref().trim().to_owned());
        let values = values.filter(|value| is_searchable(value));
        let mut values = Vec::from_iter(values.collect::<BTreeSet<_>>());
        values.sort_by_key(String::len);
        let mut room = MAX_SECRETS_BYTES;
        let taken = values.iter().take(MAX_SECRETS).take_while(|value| {
            let is_taken = value.len() <= room;
            room = room.saturating_sub(value.len());
            is_taken
        });
        let taken = taken.count();
        let known = values[..taken].iter().chain(&*temporary);
        let known: Vec<_> = known.flat_map(|value| encoded_forms::encoded_forms(value)).collect();
        let automaton = (!known.is_empty()).then(|| Arc::new(Automaton::new(known)));
        let omitted = values.len() - taken;
        Self { automaton, values: values.into(), temporary, omitted, too_long: self.too_long }
    }

    /// Returns a set of these secrets and further secrets, with the limits of [`new`](Self::new).
    #[must_use]
    pub fn with_added_values(&self, values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let values = values.into_iter().map(|value| value.as_ref().to_owned());
        let values = self.values.iter().cloned().chain(values);
        self.with_permanent_and_temporary(values, self.temporary.clone())
    }

    /// Returns a set of these secrets and a temporary secret, e.g. an access token. If the set
    /// already contains the secret, the secret counts as newer than all others.
    ///
    /// In addition to the values of [`new`](Self::new), at most 256 temporary values of 32 KiB in
    /// total are used, beginning with the newest. Older values are forgotten. A single value of
    /// more than 32 KiB is ignored, and counted by [`over_limit_count`](Self::over_limit_count).
    #[must_use]
    pub fn with_temporary_value(&self, value: &str) -> Self {
        let value = value.trim();
        if !is_searchable(value) {
            return self.clone();
        }
        if value.len() > MAX_TEMPORARY_SECRETS_BYTES {
            return Self { too_long: self.too_long + 1, ..self.clone() };
        }
        let others = self.temporary.iter().filter(|other| *other != value).cloned();
        let mut temporary = Vec::from_iter(iter::once(value.to_owned()).chain(others));
        if temporary.len() == self.temporary.len() {
            return Self { temporary: temporary.into(), ..self.clone() };
        }
        temporary.truncate(MAX_TEMPORARY_SECRETS);
        let mut room = MAX_TEMPORARY_SECRETS_BYTES;
        let kept = temporary.iter().take_while(|value| {
            let is_kept = value.len() <= room;
            room = room.saturating_sub(value.len());
            is_kept
        });
        temporary.truncate(kept.count());
        self.with_permanent_and_temporary(&*self.values, temporary.into())
    }

    /// Returns the same set after a temporary secret was replaced by a newer one. The replaced
    /// secret is still searched for, because it may be valid for a while. If the limits are
    /// reached, it is forgotten before the others.
    #[must_use]
    pub fn with_value_marked_oldest(&self, value: &str) -> Self {
        let is_replaced = |other: &&String| **other == value.trim();
        let (replaced, others): (Vec<_>, Vec<_>) = self.temporary.iter().partition(is_replaced);
        Self { temporary: others.into_iter().chain(replaced).cloned().collect(), ..self.clone() }
    }

    /// Returns whether there are no secrets to search for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.automaton.is_none()
    }

    /// Returns the number of values that exceed the limits and are not searched for.
    #[must_use]
    pub fn over_limit_count(&self) -> usize {
        self.omitted + self.too_long
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
    pub(super) fn find_whole_or_truncated(&self, text: &str) -> Vec<Range<usize>> {
        let found = self
            .automaton
            .as_ref()
            .map(|known| known.find_whole_or_truncated(text, MAX_SHOWN_SECRET_BYTES));
        found.unwrap_or_default()
    }

    pub(super) fn scan(&self, text: &[u8]) -> ScanResult {
        let none = ScanResult { found: Vec::new(), possible_match_bytes: 0 };
        self.automaton.as_ref().map_or(none, |known| known.scan(text))
    }
}

fn is_searchable(value: &str) -> bool {
    value.len() >= MIN_SECRET_BYTES && !REDACTION_MARKER.contains(value)
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

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
        let secrets = Secrets::new(["12345678"]).with_added_values(["abcdefgh", "true"]);
        assert_eq!(secrets.redact("12345678 abcdefgh true"), "[redacted] [redacted] true");
        assert_eq!(
            Secrets::default().with_added_values(["abcdefgh"]).redact("abcdefgh"),
            "[redacted]"
        );
    }

    #[test]
    fn values_over_the_limits_are_counted() {
        let many: Vec<_> = (0..300).map(|number| format!("secret-{number}")).collect();
        let secrets = Secrets::new(&many);
        assert_eq!(
            (secrets.over_limit_count(), secrets.redact("secret-9!").into_owned()),
            (44, "[redacted]!".to_owned())
        );
        let long = "x".repeat(40_000);
        assert_eq!(Secrets::new(["12345678", &long]).over_limit_count(), 1);
    }

    /// Returns a secret of 1,500 bytes.
    fn token(number: usize) -> String {
        format!("{number:04}{}", "x".repeat(1496))
    }

    #[test]
    fn the_newest_temporary_secrets_are_kept() {
        let mut secrets = Secrets::new(["permanent-key"]).with_temporary_value(&token(0));
        for number in 1..50 {
            secrets = secrets.with_temporary_value(&token(number)).with_temporary_value(&token(0));
            assert_eq!(secrets.redact(&token(number)), "[redacted]", "{number}");
            assert_eq!(secrets.temporary.len(), (number + 1).min(21));
        }
        // Token 0 was added again, so it is not old. Permanent secrets are never forgotten.
        for (text, is_hidden) in [
            (token(0), true),
            (token(29), false),
            (token(30), true),
            ("permanent-key".to_owned(), true),
        ] {
            assert_eq!(secrets.redact(&text) == "[redacted]", is_hidden, "{text}");
        }
        let many = (0..300).map(|number| format!("secret-{number}"));
        let many = many.fold(Secrets::default(), |all, value| all.with_temporary_value(&value));
        assert_eq!((many.temporary.len(), many.over_limit_count()), (256, 0));
        let with_long =
            secrets.with_temporary_value(&"x".repeat(40_000)).with_added_values(["12345678"]);
        assert_eq!((with_long.temporary.len(), with_long.over_limit_count()), (21, 1));
    }

    #[test]
    fn a_replaced_secret_is_forgotten_first() {
        let tokens = (0..21).map(token);
        let all = tokens.fold(Secrets::default(), |all, value| all.with_temporary_value(&value));
        let replaced = all.with_value_marked_oldest(&token(20)).with_value_marked_oldest("unknown");
        assert_eq!(replaced.redact(&token(20)), "[redacted]");
        let next = replaced.with_temporary_value(&token(21));
        for (number, is_hidden) in [(0, true), (20, false), (21, true)] {
            assert_eq!(next.redact(&token(number)) == "[redacted]", is_hidden, "{number}");
        }
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
