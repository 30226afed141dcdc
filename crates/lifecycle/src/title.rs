//! Titles for people: messages by key and locale, with arguments made visible.
//!
//! With the feature `titles` they are Fluent messages in any language. Without it, the only ones are
//! this crate's own, in English.

#[cfg(feature = "titles")]
mod fluent;
mod live;
mod locale;
mod markdown;
mod of_call;
#[cfg(any(test, not(feature = "titles")))]
mod plain;

use callboard_text::{visible, visible_head};

use crate::limits::TITLE_BYTES;
#[cfg(feature = "titles")]
use fluent::Messages;
#[cfg(not(feature = "titles"))]
use plain::Messages;

#[cfg(feature = "titles")]
pub use fluent::TitlesError;

pub use live::SEPARATOR;
pub(crate) use live::{compose, one_line, progress};
pub use locale::wanted;
pub use markdown::plain_or_code;
pub use of_call::of_call;

/// The messages of one locale, and of those that it falls back to, by key.
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
enum Value {
    Text(String),
    Count(u64),
}

/// The arguments of a message, by their names.
type Values = Vec<(String, Value)>;

impl Titles {
    /// Returns this crate's own messages, in the language of a locale, else in English.
    #[cfg(feature = "titles")]
    pub(crate) fn own(locale: &str) -> Self {
        const ALL: &[(&str, &str)] = &[("en", ENGLISH), ("de", include_str!("../locales/de.ftl"))];
        // They are valid, as the tests show; without any, their keys stand for them.
        Self::negotiate(ALL, locale).unwrap_or_default()
    }

    /// Returns this crate's own messages, which are in English without the feature `titles`.
    #[cfg(not(feature = "titles"))]
    pub(crate) fn own(_: &str) -> Self {
        Self { messages: Messages::new(ENGLISH) }
    }

    /// Returns the message of `key` with its arguments made visible. A key that has no message
    /// gives itself and its arguments, so that a title is never empty.
    ///
    /// Some clients read it as Markdown and most do not. So an argument with a character that
    /// Markdown interprets stands in a code span that fits it, as does one that the message itself
    /// puts between backticks; no character is added to it otherwise.
    #[must_use]
    pub fn render(&self, key: &str, arguments: &[(&str, String)]) -> String {
        let arguments = arguments.iter().map(|(name, value)| (*name, self.shortened(value)));
        self.fill(key, arguments.collect(), &[])
    }

    /// Returns a name and arguments as [`render`](Self::render) does where there is no message, also
    /// where there is one of that name: a name from elsewhere takes nobody's title.
    #[must_use]
    pub fn named(&self, name: &str, arguments: &[(&str, String)]) -> String {
        let words = arguments.iter().map(|(_, value)| plain_or_code(&self.shortened(value)));
        let words = std::iter::once(plain_or_code(&visible(name))).chain(words);
        words.collect::<Vec<_>>().join(" ")
    }

    /// Does as [`render`](Self::render) with arguments that stay whole however long they are.
    pub(crate) fn render_whole(&self, key: &str, arguments: &[(&str, String)]) -> String {
        self.render_with(key, arguments, &[])
    }

    /// Does the same, with further arguments that are messages by themselves.
    pub(crate) fn render_with(
        &self,
        key: &str,
        arguments: &[(&str, String)],
        messages: &[(&str, String)],
    ) -> String {
        let arguments = arguments.iter().map(|(name, value)| (*name, visible(value)));
        self.fill(key, arguments.collect(), messages)
    }

    fn fill(
        &self,
        key: &str,
        arguments: Vec<(&str, String)>,
        messages: &[(&str, String)],
    ) -> String {
        let mut values = Values::new();
        // What Markdown may interpret is put in afterwards, when it is known what stands around it.
        let mut later = Vec::new();
        let mut set_later = |values: &mut Values, name: &str, text: Later| {
            let place = format!("{PLACE}{}{PLACE}", later.len());
            values.push((name.to_owned(), Value::Text(place)));
            later.push(text);
        };
        for (name, value) in &arguments {
            match value.is_empty() || markdown::interprets(value) {
                true => set_later(&mut values, name, Later::Text(value.clone())),
                false => values.push(((*name).to_owned(), Value::Text(value.clone()))),
            }
        }
        for (name, message) in messages {
            set_later(&mut values, name, Later::Message(message.clone()));
        }
        let Some(message) = self.messages.write(key, &values) else {
            let words = arguments.into_iter().map(|(_, value)| plain_or_code(&value));
            let words = words.chain(messages.iter().map(|(_, message)| message.clone()));
            return std::iter::once(plain_or_code(&visible(key)))
                .chain(words)
                .collect::<Vec<_>>()
                .join(" ");
        };
        let mut parts = message.split(PLACE);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        while let (Some(number), Some(rest)) = (parts.next(), parts.next()) {
            let text = number.parse().ok().and_then(|number: usize| later.get(number));
            let mut rest = rest;
            match text {
                Some(Later::Text(text)) if filled.ends_with('`') && rest.starts_with('`') => {
                    filled.pop();
                    rest = &rest[1..];
                    filled.push_str(&markdown::code(text));
                }
                Some(Later::Text(text)) => filled.push_str(&plain_or_code(text)),
                Some(Later::Message(message)) => filled.push_str(message),
                None => {}
            }
            filled.push_str(rest);
        }
        filled
    }

    /// Returns the message of `key` with texts as they are: a sentence that stands by itself, and
    /// not in a title. A key that has no message gives itself and its texts.
    ///
    /// A count `n` is there twice: as the number `n`, which selects a form, and as the text `n-text`,
    /// with its thousands parted by the message `thousands`.
    ///
    #[cfg_attr(
        feature = "titles",
        doc = r#"
```
use acp_lifecycle::Titles;

let messages = "thousands = .\nsize = { $path }: { $bytes-text } Byte";
let titles = Titles::parse("de", messages)?;
let path = ("path", "a.rs".to_owned());
assert_eq!(titles.sentence("size", &[path], &[("bytes", 1234)]), "a.rs: 1.234 Byte");
# Ok::<(), acp_lifecycle::TitlesError>(())
```"#
    )]
    #[must_use]
    pub fn sentence(&self, key: &str, texts: &[(&str, String)], counts: &[(&str, u64)]) -> String {
        let mut values = Values::new();
        for (name, text) in texts {
            values.push(((*name).to_owned(), Value::Text(text.clone())));
        }
        for (name, count) in counts {
            let separator = self.messages.write("thousands", &Values::new()).unwrap_or_default();
            values.push((format!("{name}-text"), Value::Text(grouped(*count, &separator))));
            values.push(((*name).to_owned(), Value::Count(*count)));
        }
        self.messages.write(key, &values).unwrap_or_else(|| {
            let texts = texts.iter().map(|(_, text)| text.as_str());
            std::iter::once(key).chain(texts).collect::<Vec<_>>().join(" ")
        })
    }

    /// Returns whether there is a message of `key`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.messages.has(key)
    }

    /// A command over 4 KiB becomes its first line and the count of its lines, in the words of
    /// the message `shortened`; the whole is in the call's raw input.
    fn shortened(&self, argument: &str) -> String {
        let (shown, is_all) = visible_head(argument, TITLE_BYTES);
        if is_all {
            return shown;
        }
        let first = argument.lines().next().unwrap_or_default();
        let (start, _) = visible_head(first, TITLE_BYTES);
        let (lines, bytes) = (argument.lines().count(), argument.len());
        let values = vec![
            ("start".to_owned(), Value::Text(start.clone())),
            ("lines".to_owned(), Value::Count(lines as u64)),
            ("bytes".to_owned(), Value::Count(bytes as u64)),
        ];
        self.messages
            .write("shortened", &values)
            .unwrap_or_else(|| format!("{start} … ({lines} lines, {bytes} bytes)"))
    }
}

/// Returns whether titles show an argument whole, and not its first line and its length.
#[must_use]
pub fn is_whole(argument: &str) -> bool {
    visible_head(argument, TITLE_BYTES).1
}

/// Writes a number with a separator between the thousands.
fn grouped(number: u64, separator: &str) -> String {
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

/// What is put into a message after it was written.
enum Later {
    Text(String),
    Message(String),
}

/// Stands around the number of such a text: no message holds it.
const PLACE: char = '\u{f8f0}';

/// The names of permission options and the notes in English. Only in what one line of text and
/// `{ $name }` can say, because without the feature `titles` that is all that is read.
const ENGLISH: &str = include_str!("../locales/en.ftl");

#[cfg(test)]
#[cfg(feature = "titles")]
mod tests {
    use super::{Titles, TitlesError, is_whole};
    use crate::limits::TITLE_BYTES;
    use pretty_assertions::assert_eq;

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
        let long = "x".repeat(TITLE_BYTES);
        assert_eq!(render("run", &long), format!("Run `{long}`"));
        let longer = format!("first\n{long}");
        assert_eq!(render("run", &longer), "Run `first … (2 lines, 4102 bytes)`");
        assert!(is_whole(&long) && !is_whole(&longer));
    }

    #[test]
    fn a_message_that_is_missing_still_gives_a_title() {
        assert_eq!(render("nothing", "x"), "nothing x");
        assert_eq!(render("no\u{200b}thing", "x"), "`no\\u{200b}thing` x");
        assert!(titles().has("run") && !titles().has("nothing"));
    }

    #[test]
    fn a_sentence_keeps_its_texts_and_counts_in_its_language() {
        let messages = "thousands = .\nof = { $n ->\n    [one] 1 Zeile\n   *[other] { $n-text } Zeilen\n} von { $path }\n";
        let titles = Titles::parse("de", messages).unwrap();
        let of =
            |path: &str, lines| titles.sentence("of", &[("path", path.into())], &[("n", lines)]);
        assert_eq!(of("a_b_c.rs", 1), "1 Zeile von a_b_c.rs");
        assert_eq!(of("007", 1_234_567), "1.234.567 Zeilen von 007");
        assert_eq!(titles.sentence("nothing", &[("path", "a".into())], &[]), "nothing a");
    }

    #[test]
    fn a_broken_catalogue_is_refused() {
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
    fn only_what_suits_is_read_and_nothing_at_all_still_gives_a_title() {
        let broken = [("en", "a = A"), ("de", "a = { $")];
        assert_eq!(Titles::negotiate(&broken, "en").unwrap().render("a", &[]), "A");
        assert!(matches!(Titles::negotiate(&broken, "de"), Err(TitlesError::Messages(_))));
        assert_eq!(Titles::negotiate(&[], "de").unwrap().render("a", &[]), "a");
    }
}
