//! Single-line messages, `key = text with { $name }`, for builds without Fluent.

use super::MessageArgument;

/// The text of the catalogue. The text is searched each time a message is formatted.
#[derive(Debug, Default)]
pub(super) struct Messages(&'static str);

impl Messages {
    pub(super) fn new(lines: &'static str) -> Self {
        Self(lines)
    }

    /// Formats the message of `key`, if all its arguments are available.
    pub(super) fn format(&self, key: &str, values: &[(String, MessageArgument)]) -> Option<String> {
        let mut parts = self.message(key)?.split("{ $");
        let mut text = parts.next()?.to_owned();
        for part in parts {
            let (wanted, rest) = part.split_once(" }")?;
            match values.iter().find(|(name, _)| name == wanted)? {
                (_, MessageArgument::Text(value)) => text.push_str(value),
                (_, MessageArgument::Count(count)) => text.push_str(&count.to_string()),
            }
            text.push_str(rest);
        }
        Some(text)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.message(key).is_some()
    }

    fn message(&self, key: &str) -> Option<&'static str> {
        self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
    }
}

#[cfg(test)]
#[cfg(feature = "titles")]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::{ENGLISH_MESSAGES, MessageArgument, Titles};
    use super::Messages;

    fn values() -> Vec<(String, MessageArgument)> {
        let names =
            ENGLISH_MESSAGES.split("{ $").skip(1).map(|part| part.split(' ').next().unwrap());
        names.map(|name| (name.to_owned(), MessageArgument::Text(format!("<{name}>")))).collect()
    }

    #[test]
    fn english_is_the_same_with_and_without_fluent() {
        let (plain, titles) = (Messages::new(ENGLISH_MESSAGES), Titles::builtin_for_locale("en"));
        let keys: Vec<_> =
            ENGLISH_MESSAGES.lines().filter_map(|line| line.split_once(" = ")).collect();
        assert!(keys.len() > 30, "{keys:?}");
        for (key, _) in keys {
            assert!(plain.has(key) && titles.has(key), "{key}");
            let written = plain.format(key, &values());
            assert!(written.is_some(), "{key}");
            assert_eq!(written, titles.messages.format(key, &values()), "{key}");
        }
    }

    #[test]
    fn a_message_is_not_formatted_if_it_or_an_argument_is_missing() {
        let messages = Messages::new("a = { $x } of { $n }\nab = b\n");
        let values = [
            ("x".to_owned(), MessageArgument::Text("1".into())),
            ("n".to_owned(), MessageArgument::Count(2)),
        ];
        assert_eq!(messages.format("a", &values).as_deref(), Some("1 of 2"));
        assert_eq!(messages.format("a", &values[..1]), None);
        assert_eq!(messages.format("nothing", &[]), None);
    }
}
