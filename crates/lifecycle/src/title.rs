//! Titles for people: Fluent messages by key and locale, with arguments made visible.

use std::fmt;

use acp_types::text;
use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use unic_langid::LanguageIdentifier;

use crate::limits::TITLE_BYTES;

/// The messages of one locale, by key.
pub struct Titles {
    bundle: FluentBundle<FluentResource>,
}

/// Why a catalogue of messages cannot be used. A fault of the program that brought it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TitlesError {
    /// The locale is no BCP 47 language tag.
    #[error("{0} is no language tag")]
    Locale(String),
    /// The messages are no valid Fluent, or a key is there twice.
    #[error("the messages are not valid: {0}")]
    Messages(String),
}

impl Titles {
    /// Reads the messages of `locale` (<https://projectfluent.org/fluent/guide/>).
    ///
    /// # Errors
    ///
    /// [`TitlesError`] if the locale or the messages are malformed.
    pub fn parse(locale: &str, messages: &str) -> Result<Self, TitlesError> {
        let Ok(language) = locale.parse::<LanguageIdentifier>() else {
            return Err(TitlesError::Locale(locale.to_owned()));
        };
        let resource = FluentResource::try_new(messages.to_owned())
            .map_err(|(_, errors)| TitlesError::Messages(format!("{errors:?}")))?;
        let mut bundle = FluentBundle::new_concurrent(vec![language]);
        // Isolation marks are invisible characters; clients would show them as boxes.
        bundle.set_use_isolating(false);
        bundle
            .add_resource(resource)
            .map_err(|errors| TitlesError::Messages(format!("{errors:?}")))?;
        Ok(Self { bundle })
    }

    /// Returns the message of `key` with its arguments made visible. A key that has no message
    /// gives itself and its arguments, so that a title is never empty.
    #[must_use]
    pub fn render(&self, key: &str, arguments: &[(&str, String)]) -> String {
        let mut values = FluentArgs::new();
        for (name, value) in arguments {
            values.set(*name, FluentValue::from(shortened(value)));
        }
        let pattern = self.bundle.get_message(key).and_then(|message| message.value());
        let Some(pattern) = pattern else {
            let words = arguments.iter().map(|(_, value)| shortened(value));
            return std::iter::once(key.to_owned()).chain(words).collect::<Vec<_>>().join(" ");
        };
        let mut errors = Vec::new();
        self.bundle.format_pattern(pattern, Some(&values), &mut errors).into_owned()
    }

    /// Returns whether there is a message of `key`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.bundle.has_message(key)
    }
}

impl fmt::Debug for Titles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Titles").finish_non_exhaustive()
    }
}

/// Shows every character that would hide, reorder or break a line as an escape, so that what is
/// read is what is there (<https://www.unicode.org/reports/tr36/>).
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            letter if is_invisible(letter) => {
                shown.push_str(&format!("\\u{{{:x}}}", u32::from(letter)));
            }
            letter => shown.push(letter),
        }
    }
    shown
}

/// A command over 4 KiB becomes its first line and the count of its lines; the whole is in the
/// call's raw input.
fn shortened(argument: &str) -> String {
    let shown = visible(argument);
    if shown.len() <= TITLE_BYTES {
        return shown;
    }
    let first = visible(argument.lines().next().unwrap_or_default());
    let lines = argument.lines().count();
    format!("{} … ({lines} lines, {} bytes)", text::head(&first, TITLE_BYTES), argument.len())
}

/// Controls, bidirectional controls, zero-width characters, tags and variation selectors.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::{Titles, TitlesError, visible};
    use crate::limits::TITLE_BYTES;

    fn titles() -> Titles {
        Titles::parse("en", "run = Run `{ $command }`\nread = Read { $path }\n").unwrap()
    }

    fn render(key: &str, value: &str) -> String {
        let name = if key == "run" { "command" } else { "path" };
        titles().render(key, &[(name, value.to_owned())])
    }

    #[test]
    fn arguments_stand_in_the_message_whole_and_visible() {
        assert_eq!(render("read", "src/a b.rs"), "Read src/a b.rs");
        assert_eq!(render("run", "ls\nrm -rf ~"), "Run `ls\\nrm -rf ~`");
        assert_eq!(
            render("run", "a\u{202e}b\u{200b}c\u{1b}[0m"),
            "Run `a\\u{202e}b\\u{200b}c\\u{1b}[0m`"
        );
        let long = "x".repeat(TITLE_BYTES);
        assert_eq!(render("run", &long), format!("Run `{long}`"));
        assert_eq!(render("run", &format!("first\n{long}")), "Run `first … (2 lines, 4102 bytes)`");
    }

    #[test]
    fn a_message_that_is_missing_still_gives_a_title() {
        assert_eq!(render("nothing", "x"), "nothing x");
        assert!(titles().has("run") && !titles().has("nothing"));
    }

    #[test]
    fn a_broken_catalogue_is_refused() {
        assert!(matches!(Titles::parse("e n", ""), Err(TitlesError::Locale(_))));
        assert!(matches!(Titles::parse("en", "run = { $"), Err(TitlesError::Messages(_))));
        assert!(matches!(Titles::parse("en", "a = 1\na = 2\n"), Err(TitlesError::Messages(_))));
    }

    #[test]
    fn invisible_characters_become_escapes() {
        for hidden in [
            '\u{0}',
            '\u{7f}',
            '\u{85}',
            '\u{200d}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
            '\u{fe0f}',
        ] {
            assert_eq!(visible(&hidden.to_string()), format!("\\u{{{:x}}}", u32::from(hidden)));
        }
        assert_eq!(visible("päth 名前 😀"), "päth 名前 😀");
    }
}
