//! The renderer's own text, in English or from a catalogue.

use std::fmt;
use std::sync::Arc;

use acp_types::CallEndReason;
use acp_types::schema::v1::ToolKind;

/// A source of translations for the keys in [`CATALOGUE_KEYS`].
///
/// The keys and their variables are those of Fluent messages, but any library can be used.
pub trait Catalogue: fmt::Debug + Send + Sync {
    /// Returns the translated text of `key`. `None` selects the English default.
    ///
    /// The arguments are pairs of a variable name and its text or count.
    fn translated_text(
        &self,
        key: &str,
        texts: &[(&str, String)],
        counts: &[(&str, u64)],
    ) -> Option<String>;

    /// Translates a failure reason from an agent. If the result is `None`, the reason stays
    /// unchanged.
    fn translate_failure_reason(&self, reason: &str) -> Option<String> {
        let _ = reason;
        None
    }
}

/// All keys that are requested from a [`Catalogue`].
pub const CATALOGUE_KEYS: &[&str] = &[
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
    "diff-no-newline",
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
    "reason-approver",
    "reason-turn",
    "reason-permission",
    "reason-timeout",
    "reason-shutdown",
    "reason-error",
    "reason-dropped",
    MAY_HAVE_ACTED_KEY,
];

/// The note after a line of a diff without a newline, in English. Transcripts are in English only.
pub(crate) const NO_NEWLINE_TEXT: &str = "No newline at end of file";

/// Text in one language, English by default.
#[derive(Debug, Clone, Default)]
pub(crate) struct UiText(Option<Arc<dyn Catalogue>>);

impl UiText {
    pub(crate) fn from_catalogue(catalogue: Arc<dyn Catalogue>) -> Self {
        Self(Some(catalogue))
    }

    /// Returns a text without variables.
    pub(crate) fn text_for_key(&self, key: &str) -> String {
        self.lookup(key, &[], &[])
    }

    /// Returns a text with one variable.
    pub(crate) fn text_with_variable(
        &self,
        key: &str,
        name: &str,
        text: impl Into<String>,
    ) -> String {
        self.lookup(key, &[(name, text.into())], &[])
    }

    /// Returns the line that shows the number of omitted lines.
    pub(crate) fn omitted_lines_text(&self, lines: usize) -> String {
        self.lookup("more-lines", &[], &[("lines", lines as u64)])
    }

    /// Returns the placeholder for input that is not shown.
    pub(crate) fn omitted_input_bytes_text(&self, bytes: usize) -> String {
        self.lookup("input-bytes", &[], &[("bytes", bytes as u64)])
    }

    /// Returns the placeholder for binary data of a media type.
    pub(crate) fn binary_data_text(&self, kind: &str, bytes: u64) -> String {
        self.lookup("binary", &[("kind", kind.to_owned())], &[("bytes", bytes)])
    }

    /// Returns the name of a kind. The name is empty for `other`.
    pub(crate) fn kind_name(&self, kind: ToolKind) -> String {
        match protocol_kind_word(kind) {
            "" => String::new(),
            word => self.text_for_key(&format!("kind-{}", word.replace('_', "-"))),
        }
    }

    /// Translates a failure reason if it is a sentence of [`CallEndReason`] or if the catalogue
    /// contains it. Other reasons are returned unchanged.
    pub(crate) fn translate_reason(&self, failure_reason: &str) -> String {
        let ended = || {
            REASON_KEYS.iter().find_map(|(reason, key)| {
                let acted = failure_reason.strip_prefix(reason.description())?.trim_start();
                match acted {
                    "" => Some(self.text_for_key(key)),
                    _ if acted == english_text(MAY_HAVE_ACTED_KEY, "", 0) => Some(format!(
                        "{} {}",
                        self.text_for_key(key),
                        self.text_for_key(MAY_HAVE_ACTED_KEY)
                    )),
                    _ => None,
                }
            })
        };
        let translated = || self.0.as_ref()?.translate_failure_reason(failure_reason);
        ended().or_else(translated).unwrap_or_else(|| failure_reason.to_owned())
    }

    fn lookup(&self, key: &str, texts: &[(&str, String)], counts: &[(&str, u64)]) -> String {
        let found = self.0.as_ref().and_then(|it| it.translated_text(key, texts, counts));
        found.unwrap_or_else(|| {
            let text = texts.first().map_or("", |(_, text)| text);
            english_text(key, text, counts.first().map_or(0, |(_, count)| *count))
        })
    }
}

fn english_text(key: &str, text: &str, count: u64) -> String {
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
        "diff-no-newline" => NO_NEWLINE_TEXT,
        "more-lines" => return format!("… {count} more line{s}"),
        "input-bytes" => return format!("… {count} bytes that are not shown"),
        "binary" => return format!("[{text}, {count} byte{s}]"),
        "kind-switch-mode" => "switch_mode",
        MAY_HAVE_ACTED_KEY => "It may have had effects already.",
        // For `completed`, `failed` and the kinds, the key is also the English text.
        _ => match REASON_KEYS.iter().find(|(_, reason)| *reason == key) {
            Some((reason, _)) => reason.description(),
            None => key.trim_start_matches("kind-"),
        },
    };
    word.to_owned()
}

/// Returns the protocol's word for a kind. The word is empty for `other`.
pub(crate) fn protocol_kind_word(kind: ToolKind) -> &'static str {
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

const REASON_KEYS: [(CallEndReason, &str); 8] = [
    (CallEndReason::User, "reason-user"),
    (CallEndReason::Approver, "reason-approver"),
    (CallEndReason::Turn, "reason-turn"),
    (CallEndReason::Permission, "reason-permission"),
    (CallEndReason::Timeout, "reason-timeout"),
    (CallEndReason::Shutdown, "reason-shutdown"),
    (CallEndReason::Error, "reason-error"),
    (CallEndReason::Dropped, "reason-dropped"),
];

const MAY_HAVE_ACTED_KEY: &str = "may-have-acted";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{CATALOGUE_KEYS, Catalogue, REASON_KEYS, UiText};
    use pretty_assertions::assert_eq;

    /// A catalogue that returns each key with its variables.
    #[derive(Debug)]
    struct KeyCatalogue;

    impl Catalogue for KeyCatalogue {
        fn translated_text(
            &self,
            key: &str,
            texts: &[(&str, String)],
            counts: &[(&str, u64)],
        ) -> Option<String> {
            assert!(CATALOGUE_KEYS.contains(&key), "{key}");
            (key != "failed").then(|| format!("{key} {texts:?} {counts:?}"))
        }

        fn translate_failure_reason(&self, reason: &str) -> Option<String> {
            (reason == "no").then(|| "nein".to_owned())
        }
    }

    #[test]
    fn missing_catalogue_entries_are_in_english() {
        let words = UiText::from_catalogue(Arc::new(KeyCatalogue));
        assert_eq!(words.omitted_lines_text(2), "more-lines [] [(\"lines\", 2)]");
        assert_eq!(words.text_for_key("failed"), "failed");
        assert_eq!(words.translate_reason("no"), "nein");
        assert_eq!(words.translate_reason("Not permitted."), "reason-permission [] []");
    }

    #[test]
    fn english_texts_have_plurals_and_end_reasons() {
        let words = UiText::default();
        assert_eq!(words.omitted_lines_text(1), "… 1 more line");
        assert_eq!(words.binary_data_text("image/png", 1200), "[image/png, 1200 bytes]");
        for (reason, key) in REASON_KEYS {
            assert_eq!(words.text_for_key(key), reason.description());
            assert_eq!(words.translate_reason(reason.description()), reason.description());
        }
        let acted = "Cancelled by the user. It may have had effects already.";
        assert_eq!(words.translate_reason(acted), acted);
        assert_eq!(words.translate_reason("Not permitted. Or so."), "Not permitted. Or so.");
    }
}
