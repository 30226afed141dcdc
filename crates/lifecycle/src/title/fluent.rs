//! Fluent messages, and the choice of catalogues for a locale.

use std::fmt;
use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use fluent_langneg::{NegotiationStrategy, negotiate_languages};
use unic_langid::LanguageIdentifier;

use super::{MessageArgument, Titles};

/// The catalogues, in lookup order. The catalogues are parsed when the first message is formatted.
pub(super) struct Messages(LazyLock<Bundles, Box<dyn FnOnce() -> Bundles + Send>>);

type Bundles = Vec<FluentBundle<FluentResource>>;

impl Default for Messages {
    fn default() -> Self {
        Self::from_bundles(Vec::new())
    }
}

impl Messages {
    fn from_bundles(bundles: Bundles) -> Self {
        Self(LazyLock::new(Box::new(|| bundles)))
    }

    /// Formats the first message of `key` whose arguments and references are all available.
    pub(super) fn format(&self, key: &str, values: &[(String, MessageArgument)]) -> Option<String> {
        let value = |value: &MessageArgument| match value {
            MessageArgument::Text(text) => FluentValue::from(text.clone()),
            MessageArgument::Count(count) => FluentValue::from(*count),
        };
        let mut arguments = FluentArgs::with_capacity(values.len());
        for (name, argument) in values {
            arguments.set(name.as_str(), value(argument));
        }
        self.0.iter().find_map(|bundle| {
            let pattern = bundle.get_message(key)?.value()?;
            let mut errors = Vec::new();
            let text = bundle.format_pattern(pattern, Some(&arguments), &mut errors).into_owned();
            errors.is_empty().then_some(text)
        })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|bundle| bundle.has_message(key))
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locales = self.0.iter().flat_map(|bundle| &bundle.locales);
        formatter.debug_list().entries(locales.map(ToString::to_string)).finish()
    }
}

/// An invalid message catalogue. The cause is a bug in the program that supplies the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TitlesError {
    /// The locale is not a BCP 47 language tag.
    #[error("{0} is not a language tag")]
    Locale(String),
    /// The messages are not valid Fluent syntax, or a key is defined twice.
    #[error("invalid messages: {0}")]
    Messages(String),
}

impl Titles {
    /// Parses the messages of `locale` (<https://projectfluent.org/fluent/guide/>).
    ///
    /// # Errors
    ///
    /// Returns [`TitlesError`] if the locale or the messages are malformed.
    pub fn parse(locale: &str, messages: &str) -> Result<Self, TitlesError> {
        Self::negotiate(&[(locale, messages)], locale)
    }

    /// Parses the catalogues that match a locale. The last fallback is the locale of the first
    /// catalogue. Each catalogue is a pair of a locale and its messages. The function
    /// [`preferred_locale`](super::preferred_locale) returns a suitable locale.
    ///
    /// If a catalogue lacks a message, or cannot format it with the given arguments, the next
    /// catalogue is used. A catalogue may therefore be partial. For an unknown or malformed locale,
    /// the first catalogue is used. Several catalogues of one locale are searched in order.
    ///
    /// # Errors
    ///
    /// Returns [`TitlesError`] if the locale of any catalogue, or the messages of a matching
    /// catalogue, are malformed.
    pub fn negotiate(catalogues: &[(&str, &str)], locale: &str) -> Result<Self, TitlesError> {
        Ok(Self { messages: Messages::from_bundles(negotiate_bundles(catalogues, locale)?) })
    }

    /// Returns whether a catalogue is in the language of a locale. Returns `false` for a malformed
    /// locale.
    #[must_use]
    pub fn has_language(catalogues: &[(&str, &str)], locale: &str) -> bool {
        let Some(wanted) = parse_locale(locale) else { return false };
        let languages = catalogues.iter().filter_map(|(locale, _)| parse_locale(locale));
        languages.into_iter().any(|language| language.language == wanted.language)
    }

    /// Selects catalogues like [`negotiate`](Self::negotiate), but parses the catalogues only when
    /// the first title is rendered. Use this method for catalogues that are part of the program. If
    /// a catalogue is malformed, titles show the key and the arguments. A test should therefore
    /// check the catalogues with `negotiate`.
    #[must_use]
    pub fn from_static_lazily(
        catalogues: &'static [(&'static str, &'static str)],
        locale: impl Into<String>,
    ) -> Self {
        let locale = locale.into();
        let parse = move || negotiate_bundles(catalogues, &locale).unwrap_or_default();
        Self { messages: Messages(LazyLock::new(Box::new(parse))) }
    }
}

fn negotiate_bundles(catalogues: &[(&str, &str)], locale: &str) -> Result<Bundles, TitlesError> {
    let mut languages = Vec::<LanguageIdentifier>::new();
    for (locale, _) in catalogues {
        let Ok(language) = locale.parse() else {
            return Err(TitlesError::Locale((*locale).to_owned()));
        };
        languages.push(language);
    }
    let mut available = languages.clone();
    available.sort();
    available.dedup();
    let wanted: Vec<_> = parse_locale(locale).into_iter().collect();
    let strategy = NegotiationStrategy::Filtering;
    let chosen = negotiate_languages(&wanted, &available, languages.first(), strategy);
    let mut bundles = Vec::new();
    for language in chosen {
        for (other, (_, messages)) in languages.iter().zip(catalogues) {
            if other == language {
                bundles.push(parse_bundle(language.clone(), messages)?);
            }
        }
    }
    Ok(bundles)
}

/// Parses a language tag (`de-AT`) or a POSIX locale (`de_AT.UTF-8@euro`). The codeset and the
/// modifier of a POSIX locale are ignored. Returns `None` for `C` and for malformed locales.
fn parse_locale(locale: &str) -> Option<LanguageIdentifier> {
    let tag = locale.split(['.', '@']).next().unwrap_or_default();
    tag.trim().parse().ok()
}

fn parse_bundle(
    language: LanguageIdentifier,
    messages: &str,
) -> Result<FluentBundle<FluentResource>, TitlesError> {
    let resource = FluentResource::try_new(messages.to_owned())
        .map_err(|(_, errors)| TitlesError::Messages(format!("{errors:?}")))?;
    let mut bundle = FluentBundle::new_concurrent(vec![language]);
    // Fluent would put invisible isolation marks around arguments, and clients would show these
    // marks as boxes.
    bundle.set_use_isolating(false);
    bundle.add_resource(resource).map_err(|errors| TitlesError::Messages(format!("{errors:?}")))?;
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use super::parse_locale;
    use pretty_assertions::assert_eq;

    #[test]
    fn both_forms_of_a_locale_are_read() {
        for (given, expected) in [
            ("de", Some("de")),
            ("de-AT", Some("de-AT")),
            ("de_DE", Some("de-DE")),
            ("de_DE.UTF-8", Some("de-DE")),
            ("de_DE.UTF-8@euro", Some("de-DE")),
            ("de_DE@euro", Some("de-DE")),
            ("DE_at.utf8", Some("de-AT")),
            ("zh_Hant_TW", Some("zh-Hant-TW")),
            ("C", None),
            ("C.UTF-8", None),
            ("", None),
            ("@", None),
            ("/etc/passwd", None),
            ("\u{202e}de", None),
        ] {
            let read = parse_locale(given).map(|language| language.to_string());
            assert_eq!(read.as_deref(), expected, "{given:?}");
        }
    }
}
