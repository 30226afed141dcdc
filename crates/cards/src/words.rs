//! The words that are printed around what agents say: in English, or from a catalogue.

use std::fmt;
use std::sync::Arc;

use acp_types::Reason;
use acp_types::schema::v1::ToolKind;

/// Sentences in another language than English, by the keys in [`KEYS`].
///
/// The keys and their variables are those of Fluent messages, but any library will do.
pub trait Catalogue: fmt::Debug + Send + Sync {
    /// Writes the sentence of `key`; none leaves it in English.
    ///
    /// Each text and each count stands under the name of its variable.
    fn sentence(
        &self,
        key: &str,
        texts: &[(&str, String)],
        counts: &[(&str, u64)],
    ) -> Option<String>;

    /// Translates what an agent says of a call that failed; none leaves it as it is.
    fn translate(&self, said: &str) -> Option<String> {
        let _ = said;
        None
    }
}

/// Every key that a [`Catalogue`] is asked for.
pub const KEYS: &[&str] = &[
    "tool-call",
    "a-command",
    "asks",
    "completed",
    "failed",
    "failed-why",
    "cancelled",
    "ended-by",
    "exit-code",
    "plan",
    "plan-empty",
    "diff-new",
    "diff-deleted",
    "more-lines",
    "input-bytes",
    "binary",
    "kind-read",
    "kind-edit",
    "kind-delete",
    "kind-move",
    "kind-search",
    "kind-execute",
    "kind-think",
    "kind-fetch",
    "kind-switch-mode",
    "reason-user",
    "reason-turn",
    "reason-permission",
    "reason-timeout",
    "reason-shutdown",
    "reason-error",
    "reason-dropped",
    ACTED,
];

/// The words of one language; English by default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words(Option<Arc<dyn Catalogue>>);

impl Words {
    pub(crate) fn of(catalogue: Arc<dyn Catalogue>) -> Self {
        Self(Some(catalogue))
    }

    /// Says something.
    pub(crate) fn say(&self, key: &str) -> String {
        self.sentence(key, &[], &[])
    }

    /// Says something with a text in it.
    pub(crate) fn say_with(&self, key: &str, name: &str, text: impl Into<String>) -> String {
        self.sentence(key, &[(name, text.into())], &[])
    }

    /// Returns the line that stands for lines that are not shown.
    pub(crate) fn more_lines(&self, lines: usize) -> String {
        self.sentence("more-lines", &[], &[("lines", lines as u64)])
    }

    /// Returns the words that stand for input that is not shown.
    pub(crate) fn input_bytes(&self, bytes: usize) -> String {
        self.sentence("input-bytes", &[], &[("bytes", bytes as u64)])
    }

    /// Returns the words that stand for bytes that are no text, of a media type.
    pub(crate) fn binary(&self, kind: &str, bytes: u64) -> String {
        self.sentence("binary", &[("kind", kind.to_owned())], &[("bytes", bytes)])
    }

    /// Returns the word for a kind, none for `other`.
    pub(crate) fn kind(&self, kind: ToolKind) -> String {
        match word_of(kind) {
            "" => String::new(),
            word => self.say(&format!("kind-{}", word.replace('_', "-"))),
        }
    }

    /// Says in this language why a call did not complete, where that is a sentence of the protocol's
    /// or one that the catalogue knows; else as the agent says it.
    pub(crate) fn reason(&self, said: &str) -> String {
        let ended = || {
            REASONS.iter().find_map(|(reason, key)| {
                let acted = said.strip_prefix(reason.sentence())?.trim_start();
                match acted {
                    "" => Some(self.say(key)),
                    _ if acted == english(ACTED, "", 0) => {
                        Some(format!("{} {}", self.say(key), self.say(ACTED)))
                    }
                    _ => None,
                }
            })
        };
        let translated = || self.0.as_ref()?.translate(said);
        ended().or_else(translated).unwrap_or_else(|| said.to_owned())
    }

    fn sentence(&self, key: &str, texts: &[(&str, String)], counts: &[(&str, u64)]) -> String {
        let found = self.0.as_ref().and_then(|it| it.sentence(key, texts, counts));
        found.unwrap_or_else(|| {
            let text = texts.first().map_or("", |(_, text)| text);
            english(key, text, counts.first().map_or(0, |(_, count)| *count))
        })
    }
}

fn english(key: &str, text: &str, count: u64) -> String {
    let s = if count == 1 { "" } else { "s" };
    let word = match key {
        "tool-call" => "Tool call",
        "a-command" => "a command",
        "asks" => "asks for permission",
        "failed-why" => return format!("failed: {text}"),
        "cancelled" => return format!("[cancelled] {text}"),
        "ended-by" => return format!("ended by {text}"),
        "exit-code" => return format!("exit code {text}"),
        "plan" => "Plan",
        "plan-empty" => "Plan: no steps",
        "diff-new" => "new",
        "diff-deleted" => "deleted",
        "more-lines" => return format!("… {count} more line{s}"),
        "input-bytes" => return format!("… {count} bytes that are not shown"),
        "binary" => return format!("[{text}, {count} byte{s}]"),
        "kind-switch-mode" => "switch_mode",
        ACTED => "It may have had effects already.",
        // `completed` and `failed`, and the kinds, are words themselves.
        _ => match REASONS.iter().find(|(_, reason)| *reason == key) {
            Some((reason, _)) => reason.sentence(),
            None => key.trim_start_matches("kind-"),
        },
    };
    word.to_owned()
}

/// Returns the protocol's word for a kind, none for `other`.
pub(crate) fn word_of(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::SwitchMode => "switch_mode",
        _ => "",
    }
}

const REASONS: [(Reason, &str); 7] = [
    (Reason::User, "reason-user"),
    (Reason::Turn, "reason-turn"),
    (Reason::Permission, "reason-permission"),
    (Reason::Timeout, "reason-timeout"),
    (Reason::Shutdown, "reason-shutdown"),
    (Reason::Error, "reason-error"),
    (Reason::Dropped, "reason-dropped"),
];

const ACTED: &str = "may-have-acted";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Catalogue, KEYS, REASONS, Words};
    use pretty_assertions::assert_eq;

    /// Says each key with its variables.
    #[derive(Debug)]
    struct Keys;

    impl Catalogue for Keys {
        fn sentence(
            &self,
            key: &str,
            texts: &[(&str, String)],
            counts: &[(&str, u64)],
        ) -> Option<String> {
            assert!(KEYS.contains(&key), "{key}");
            (key != "failed").then(|| format!("{key} {texts:?} {counts:?}"))
        }

        fn translate(&self, said: &str) -> Option<String> {
            (said == "no").then(|| "nein".to_owned())
        }
    }

    #[test]
    fn a_catalogue_says_what_it_has_and_the_rest_is_english() {
        let words = Words::of(Arc::new(Keys));
        assert_eq!(words.more_lines(2), "more-lines [] [(\"lines\", 2)]");
        assert_eq!(words.say("failed"), "failed");
        assert_eq!(words.reason("no"), "nein");
        assert_eq!(words.reason("Not permitted."), "reason-permission [] []");
    }

    #[test]
    fn english_counts_and_says_why_a_call_ended() {
        let words = Words::default();
        assert_eq!(words.more_lines(1), "… 1 more line");
        assert_eq!(words.binary("image/png", 1200), "[image/png, 1200 bytes]");
        for (reason, key) in REASONS {
            assert_eq!(words.say(key), reason.sentence());
            assert_eq!(words.reason(reason.sentence()), reason.sentence());
        }
        let acted = "Cancelled by the user. It may have had effects already.";
        assert_eq!(words.reason(acted), acted);
        assert_eq!(words.reason("Not permitted. Or so."), "Not permitted. Or so.");
    }
}
