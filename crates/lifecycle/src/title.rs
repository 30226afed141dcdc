//! Titles and other messages, which are looked up by key and locale. Invisible characters in their
//! arguments are made visible.
//!
//! With the feature `titles`, messages are Fluent messages in any language. Without the feature
//! `titles`, only the English messages of this crate are available.

mod default_title;
#[cfg(feature = "titles")]
mod fluent;
mod locale;
mod markdown;
mod subtitle;
#[cfg(any(test, not(feature = "titles")))]
mod without_fluent;

use callboard_text::{escape_invisible, escape_invisible_prefix};

use crate::limits::MAX_TITLE_COMMAND_BYTES;
#[cfg(feature = "titles")]
use fluent::Messages;
#[cfg(not(feature = "titles"))]
use without_fluent::Messages;

#[cfg(feature = "titles")]
pub use fluent::TitlesError;

pub use default_title::default_title;
pub use locale::preferred_locale;
pub use markdown::code_span_if_needed;
pub use subtitle::SUBTITLE_SEPARATOR;
pub(crate) use subtitle::{join_title_and_subtitle, progress_text, text_to_subtitle_line};

/// The messages of a locale and of its fallback locales, by key.
#[cfg_attr(
    feature = "titles",
    doc = r#"
```
use acp_lifecycle::Titles;

let catalogues = [("en", "read = Read { $path }"), ("de", "read = { $path } lesen")];
let titles = Titles::negotiate(&catalogues, "de_AT.UTF-8")?;
assert_eq!(titles.render("read", &[("path", "a.rs".to_owned())]), "a.rs lesen");
# Ok::<(), acp_lifecycle::TitlesError>(())
```"#
)]
#[derive(Debug, Default)]
pub struct Titles {
    messages: Messages,
}

/// An argument of a message.
#[derive(Debug, Clone)]
enum MessageArgument {
    Text(String),
    Count(u64),
}

/// The arguments of a message, by name.
type MessageArguments = Vec<(String, MessageArgument)>;

impl Titles {
    /// Returns the messages of this crate in the language of a locale, or in English.
    #[cfg(feature = "titles")]
    pub(crate) fn builtin_for_locale(locale: &str) -> Self {
        const ALL: &[(&str, &str)] =
            &[("en", ENGLISH_MESSAGES), ("de", include_str!("../locales/de.ftl"))];
        Self::from_static_lazily(ALL, locale)
    }

    /// Returns the English messages of this crate.
    #[cfg(not(feature = "titles"))]
    pub(crate) fn builtin_for_locale(_: &str) -> Self {
        Self { messages: Messages::new(ENGLISH_MESSAGES) }
    }

    /// Formats the message of `key`, and makes invisible characters in its arguments visible. If
    /// `key` has no message, returns the key and the arguments, so that a title is never empty.
    ///
    /// Some clients render titles as Markdown, but most do not. An argument with a Markdown
    /// character is therefore put in a code span. An argument that the message puts between
    /// backticks is also put in a code span. All other arguments are shown without a code span.
    #[must_use]
    pub fn render(&self, key: &str, arguments: &[(&str, String)]) -> String {
        let arguments = arguments.iter().map(|(name, value)| (*name, self.shorten_argument(value)));
        self.substitute(key, arguments.collect(), &[])
    }

    /// Formats a name and arguments in the same way as [`render`](Self::render) formats a key
    /// without a message. A message with this key is never used, because a name from outside the
    /// program must not select a message.
    #[must_use]
    pub fn render_without_message_lookup(
        &self,
        name: &str,
        arguments: &[(&str, String)],
    ) -> String {
        let words =
            arguments.iter().map(|(_, value)| code_span_if_needed(&self.shorten_argument(value)));
        let words = std::iter::once(code_span_if_needed(&escape_invisible(name))).chain(words);
        words.collect::<Vec<_>>().join(" ")
    }

    /// Formats a message as [`render`](Self::render) does, without truncating arguments.
    pub(crate) fn render_untruncated(&self, key: &str, arguments: &[(&str, String)]) -> String {
        self.render_with_formatted_arguments(key, arguments, &[])
    }

    /// Formats a message without truncating arguments. The texts in `messages` are formatted
    /// messages, and are inserted unchanged as further arguments.
    pub(crate) fn render_with_formatted_arguments(
        &self,
        key: &str,
        arguments: &[(&str, String)],
        messages: &[(&str, String)],
    ) -> String {
        let arguments = arguments.iter().map(|(name, value)| (*name, escape_invisible(value)));
        self.substitute(key, arguments.collect(), messages)
    }

    fn substitute(
        &self,
        key: &str,
        arguments: Vec<(&str, String)>,
        messages: &[(&str, String)],
    ) -> String {
        let mut values = MessageArguments::new();
        // Insert a text with Markdown characters after all other arguments, because its code span
        // depends on the characters around it.
        let mut later = Vec::new();
        let mut set_later =
            |values: &mut MessageArguments, name: &str, text: TextInsertedAfterFormatting| {
                let place = format!("{PLACEHOLDER_MARK}{}{PLACEHOLDER_MARK}", later.len());
                values.push((name.to_owned(), MessageArgument::Text(place)));
                later.push(text);
            };
        for (name, value) in &arguments {
            match value.is_empty() || markdown::needs_code_span(value) {
                true => {
                    set_later(&mut values, name, TextInsertedAfterFormatting::Text(value.clone()));
                }
                false => values.push(((*name).to_owned(), MessageArgument::Text(value.clone()))),
            }
        }
        for (name, message) in messages {
            set_later(&mut values, name, TextInsertedAfterFormatting::Message(message.clone()));
        }
        let Some(message) = self.messages.format(key, &values) else {
            let words = arguments.into_iter().map(|(_, value)| code_span_if_needed(&value));
            let words = words.chain(messages.iter().map(|(_, message)| message.clone()));
            return std::iter::once(code_span_if_needed(&escape_invisible(key)))
                .chain(words)
                .collect::<Vec<_>>()
                .join(" ");
        };
        let mut parts = message.split(PLACEHOLDER_MARK);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        while let (Some(number), Some(rest)) = (parts.next(), parts.next()) {
            let text = number.parse().ok().and_then(|number: usize| later.get(number));
            let mut rest = rest;
            match text {
                Some(TextInsertedAfterFormatting::Text(text))
                    if filled.ends_with('`') && rest.starts_with('`') =>
                {
                    filled.pop();
                    rest = &rest[1..];
                    filled.push_str(&markdown::code_span(text));
                }
                Some(TextInsertedAfterFormatting::Text(text)) => {
                    filled.push_str(&code_span_if_needed(text));
                }
                Some(TextInsertedAfterFormatting::Message(message)) => filled.push_str(message),
                None => {}
            }
            filled.push_str(rest);
        }
        filled
    }

    /// Formats the message of `key` with unmodified texts. Use this function for a separate
    /// sentence, not for a title. If `key` has no message, returns the key and the texts.
    ///
    /// A count `n` is passed twice: as the number `n`, which selects a plural form, and as the text
    /// `n-text`. The message `thousands` is the separator between thousands in the text.
    ///
    #[cfg_attr(
        feature = "titles",
        doc = r#"
```
use acp_lifecycle::Titles;

let messages = "thousands = .\nsize = { $path }: { $bytes-text } Byte";
let titles = Titles::parse("de", messages)?;
let path = ("path", "a.rs".to_owned());
assert_eq!(titles.render_unescaped_with_counts("size", &[path], &[("bytes", 1234)]), "a.rs: 1.234 Byte");
# Ok::<(), acp_lifecycle::TitlesError>(())
```"#
    )]
    #[must_use]
    pub fn render_unescaped_with_counts(
        &self,
        key: &str,
        texts: &[(&str, String)],
        counts: &[(&str, u64)],
    ) -> String {
        let mut values = MessageArguments::new();
        for (name, text) in texts {
            values.push(((*name).to_owned(), MessageArgument::Text(text.clone())));
        }
        for (name, count) in counts {
            let separator =
                self.messages.format("thousands", &MessageArguments::new()).unwrap_or_default();
            values.push((
                format!("{name}-text"),
                MessageArgument::Text(group_thousands(*count, &separator)),
            ));
            values.push(((*name).to_owned(), MessageArgument::Count(*count)));
        }
        self.messages.format(key, &values).unwrap_or_else(|| {
            let texts = texts.iter().map(|(_, text)| text.as_str());
            std::iter::once(key).chain(texts).collect::<Vec<_>>().join(" ")
        })
    }

    /// Returns whether `key` has a message.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.messages.has(key)
    }

    /// Shortens a command over 4 KiB to its first line and its line count, formatted by the message
    /// `shortened`. The raw input of the call contains the whole command.
    fn shorten_argument(&self, argument: &str) -> String {
        let (shown, is_all) = escape_invisible_prefix(argument, MAX_TITLE_COMMAND_BYTES);
        if is_all {
            return shown;
        }
        let first = argument.lines().next().unwrap_or_default();
        let (start, _) = escape_invisible_prefix(first, MAX_TITLE_COMMAND_BYTES);
        let (lines, bytes) = (argument.lines().count(), argument.len());
        let values = vec![
            ("start".to_owned(), MessageArgument::Text(start.clone())),
            ("lines".to_owned(), MessageArgument::Count(lines as u64)),
            ("bytes".to_owned(), MessageArgument::Count(bytes as u64)),
        ];
        self.messages
            .format("shortened", &values)
            .unwrap_or_else(|| format!("{start} … ({lines} lines, {bytes} bytes)"))
    }
}

/// Returns whether titles show an argument in full. Titles show a longer argument as its first line
/// and its length.
#[must_use]
pub fn fits_in_title(argument: &str) -> bool {
    escape_invisible_prefix(argument, MAX_TITLE_COMMAND_BYTES).1
}

/// Formats a number with a separator between thousands.
fn group_thousands(number: u64, separator: &str) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push_str(separator);
        }
        grouped.push(digit);
    }
    grouped
}

/// A text that is inserted into a message after the message has been formatted.
enum TextInsertedAfterFormatting {
    Text(String),
    Message(String),
}

/// The character that encloses the index of a deferred text. No message contains this character.
const PLACEHOLDER_MARK: char = '\u{f8f0}';

/// The English names of permission options and notes. The messages use only single lines and
/// `{ $name }`, because other syntax is not supported without the feature `titles`.
const ENGLISH_MESSAGES: &str = include_str!("../locales/en.ftl");

#[cfg(test)]
#[cfg(feature = "titles")]
mod tests {
    use super::{Titles, TitlesError, fits_in_title};
    use crate::limits::MAX_TITLE_COMMAND_BYTES;
    use pretty_assertions::assert_eq;

    fn titles() -> Titles {
        Titles::parse("en", "run = Run `{ $command }`\nread = Read { $path }\n").unwrap()
    }

    fn render(key: &str, value: &str) -> String {
        let name = if key == "run" { "command" } else { "path" };
        titles().render(key, &[(name, value.to_owned())])
    }

    #[test]
    fn arguments_are_inserted_completely_and_visibly() {
        assert_eq!(render("read", "src/a b.rs"), "Read src/a b.rs");
        assert_eq!(render("read", "src/a_b.rs"), "Read `src/a_b.rs`");
        assert_eq!(render("read", "[a](b)"), "Read `[a](b)`");
        assert_eq!(render("run", "echo `date`"), "Run `` echo `date` ``");
        assert_eq!(
            render("run", &format!("ls{}; rm x", " ".repeat(57))),
            "Run `ls[57 spaces]; rm x`"
        );
        assert_eq!(render("read", "{ $path }"), "Read `{ $path }`");
        assert_eq!(render("run", "ls\nrm -rf ~"), "Run `ls\\nrm -rf ~`");
        assert_eq!(
            render("run", "a\u{202e}b\u{200b}c\u{1b}[0m"),
            "Run `a\\u{202e}b\\u{200b}c\\u{1b}[0m`"
        );
        let long = "x".repeat(MAX_TITLE_COMMAND_BYTES);
        assert_eq!(render("run", &long), format!("Run `{long}`"));
        let longer = format!("first\n{long}");
        assert_eq!(render("run", &longer), "Run `first … (2 lines, 4102 bytes)`");
        assert!(fits_in_title(&long) && !fits_in_title(&longer));
    }

    #[test]
    fn a_missing_message_still_creates_a_title() {
        assert_eq!(render("nothing", "x"), "nothing x");
        assert_eq!(render("no\u{200b}thing", "x"), "`no\\u{200b}thing` x");
        assert!(titles().has("run") && !titles().has("nothing"));
    }

    #[test]
    fn a_sentence_keeps_its_texts_and_counts_in_its_language() {
        let messages = "thousands = .\nof = { $n ->\n    [one] 1 Zeile\n   *[other] { $n-text } Zeilen\n} von { $path }\n";
        let titles = Titles::parse("de", messages).unwrap();
        let of = |path: &str, lines| {
            titles.render_unescaped_with_counts("of", &[("path", path.into())], &[("n", lines)])
        };
        assert_eq!(of("a_b_c.rs", 1), "1 Zeile von a_b_c.rs");
        assert_eq!(of("007", 1_234_567), "1.234.567 Zeilen von 007");
        assert_eq!(
            titles.render_unescaped_with_counts("nothing", &[("path", "a".into())], &[]),
            "nothing a"
        );
    }

    #[test]
    fn a_malformed_catalogue_is_refused() {
        assert!(matches!(Titles::parse("e n", ""), Err(TitlesError::Locale(_))));
        assert!(matches!(Titles::parse("en", "run = { $"), Err(TitlesError::Messages(_))));
        assert!(matches!(Titles::parse("en", "a = 1\na = 2\n"), Err(TitlesError::Messages(_))));
    }

    const CATALOGUES: &[(&str, &str)] = &[
        ("en", "both = English\nonly-en = English { $x }\nasks = English\nshortened = { $start }"),
        ("de", "both = Deutsch\nasks = Deutsch { $missing }\nonly-de = Deutsch"),
        ("de-AT", "both = Österreich"),
        ("en", "own = Own\nboth = Own"),
    ];

    #[test]
    fn a_locale_falls_back_to_its_language_and_then_to_the_first() {
        for (locale, key, expected) in [
            ("en", "both", "English"),
            ("en_GB.UTF-8", "both", "English"),
            ("de", "both", "Deutsch"),
            ("de_AT.UTF-8@euro", "both", "Österreich"),
            ("de-AT", "only-de", "Deutsch"),
            ("de-CH", "both", "Deutsch"),
            ("DE", "only-en", "English y"),
            ("de", "asks", "English"),
            ("de", "own", "Own"),
            ("de", "nowhere", "nowhere y"),
            ("en", "only-de", "only-de y"),
            ("fr_FR", "both", "English"),
            ("C", "both", "English"),
            ("POSIX", "both", "English"),
            ("C.UTF-8", "both", "English"),
            ("", "both", "English"),
            ("\u{0}\u{202e}/../..", "both", "English"),
            ("klingon-klingon-klingon", "both", "English"),
        ] {
            let titles = Titles::negotiate(CATALOGUES, locale).unwrap();
            let rendered = titles.render(key, &[("x", "y".to_owned())]);
            assert_eq!(rendered, expected, "{key} in {locale:?}");
        }
    }

    #[test]
    fn only_matching_catalogues_are_parsed() {
        let broken = [("en", "a = A"), ("de", "a = { $")];
        assert_eq!(Titles::negotiate(&broken, "en").unwrap().render("a", &[]), "A");
        assert!(matches!(Titles::negotiate(&broken, "de"), Err(TitlesError::Messages(_))));
        assert_eq!(Titles::negotiate(&[], "de").unwrap().render("a", &[]), "a");
    }
}
