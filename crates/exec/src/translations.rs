//! The messages around the cards, in the user's language.

use std::sync::LazyLock;

use acp_cards::Catalogue;
use acp_lifecycle::Titles;

/// The messages of one language, by key.
#[derive(Debug)]
pub(super) struct MessageTranslations(Titles);

/// The English messages. Messages to the agent are always in English, because the agent may send
/// them to a model.
pub(super) static ENGLISH: LazyLock<MessageTranslations> =
    LazyLock::new(|| MessageTranslations::in_locale("en"));

impl MessageTranslations {
    /// Loads the messages for a locale, or the English messages if there is no translation.
    pub(super) fn in_locale(locale: &str) -> Self {
        // Tests check that the catalogues are valid. If no catalogue can be loaded, the keys are
        // shown.
        Self(Titles::negotiate(CATALOGUES, locale).unwrap_or_default())
    }

    /// Returns the message of a key.
    pub(super) fn message(&self, key: &str) -> String {
        self.0.render_unescaped_with_counts(key, &[], &[])
    }

    /// Returns the message of a key with one variable.
    pub(super) fn message_with_variable(
        &self,
        key: &str,
        name: &str,
        text: impl Into<String>,
    ) -> String {
        self.0.render_unescaped_with_counts(key, &[(name, text.into())], &[])
    }
}

impl Catalogue for MessageTranslations {
    fn translated_text(
        &self,
        key: &str,
        texts: &[(&str, String)],
        counts: &[(&str, u64)],
    ) -> Option<String> {
        self.0.has(key).then(|| self.0.render_unescaped_with_counts(key, texts, counts))
    }

    /// Translates the error with which a request was rejected without asking the user.
    fn translate_failure_reason(&self, reason: &str) -> Option<String> {
        SENT_ERROR_KEYS.iter().find_map(|key| {
            let before = reason.strip_suffix('.')?.strip_suffix(&*ENGLISH.message(key))?;
            Some(format!("{before}{}.", self.message(key)))
        })
    }
}

const CATALOGUES: &[(&str, &str)] =
    &[("en", include_str!("../locales/en.ftl")), ("de", include_str!("../locales/de.ftl"))];

/// Keys of the errors that are sent to reject a request without asking the user.
const SENT_ERROR_KEYS: [&str; 2] = ["sent-rejected-all", "sent-unasked"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use acp_cards::{CATALOGUE_KEYS, Catalogue as _};
    use pretty_assertions::assert_eq;

    use super::{CATALOGUES, MessageTranslations};

    /// Returns all keys, each with the variables in its message.
    fn keys(messages: &str) -> BTreeMap<&str, Vec<&str>> {
        let (mut keys, mut last) = (BTreeMap::<_, Vec<_>>::new(), "");
        for line in messages.lines().filter(|line| !line.starts_with('#')) {
            if let Some((key, _)) = line.split_once(" = ") {
                last = key;
                keys.entry(key).or_default();
            }
            let names = line.split('$').skip(1);
            let names = names.map(|rest| rest.split(' ').next().unwrap_or_default());
            keys.entry(last).or_default().extend(names);
        }
        keys.remove("");
        keys.values_mut().for_each(|variables| {
            variables.sort_unstable();
            variables.dedup();
        });
        keys
    }

    #[test]
    fn each_locale_has_every_message_including_those_of_the_cards() {
        let (_, english) = CATALOGUES[0];
        for (locale, messages) in &CATALOGUES[1..] {
            let mut found = keys(messages);
            for key in CATALOGUE_KEYS {
                assert!(found.remove(key).is_some(), "{locale}: {key}");
            }
            assert_eq!(found, keys(english), "{locale}");
            let words = MessageTranslations::in_locale(locale);
            assert!(CATALOGUE_KEYS.iter().all(|key| words.0.has(key)), "{locale}");
        }
        assert!(
            CATALOGUE_KEYS.iter().all(|key| !MessageTranslations::in_locale("en").0.has(key)),
            "the cards say them"
        );
    }

    #[test]
    fn an_error_sent_in_english_is_shown_in_the_users_language() {
        let sent = "Nicht ausgeführt: --deny-all rejects whatever is asked.";
        let shown = "Nicht ausgeführt: --deny-all lehnt jede Frage ab.";
        assert_eq!(
            MessageTranslations::in_locale("de").translate_failure_reason(sent).as_deref(),
            Some(shown)
        );
        assert_eq!(
            MessageTranslations::in_locale("en").translate_failure_reason(sent).as_deref(),
            Some(sent)
        );
        assert_eq!(
            MessageTranslations::in_locale("de").translate_failure_reason("a.txt: no such file"),
            None
        );
        let lines = MessageTranslations::in_locale("de").translated_text(
            "more-lines",
            &[],
            &[("lines", 2)],
        );
        assert_eq!(lines.as_deref(), Some("… 2 weitere Zeilen"));
    }
}
