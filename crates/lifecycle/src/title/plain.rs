//! Messages of one line, `key = text with { $name }`, where Fluent is left out.

use super::Value;

/// The lines, as they are written.
#[derive(Debug, Default)]
pub(super) struct Messages(&'static str);

impl Messages {
    pub(super) fn new(lines: &'static str) -> Self {
        Self(lines)
    }

    /// Writes the message of `key`, if it needs nothing that is not there.
    pub(super) fn write(&self, key: &str, values: &[(String, Value)]) -> Option<String> {
        let mut parts = self.message(key)?.split("{ $");
        let mut text = parts.next()?.to_owned();
        for part in parts {
            let (wanted, rest) = part.split_once(" }")?;
            match values.iter().find(|(name, _)| name == wanted)? {
                (_, Value::Text(value)) => text.push_str(value),
                (_, Value::Count(count)) => text.push_str(&count.to_string()),
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

    use super::super::{ENGLISH, Titles, Value};
    use super::Messages;

    fn values() -> Vec<(String, Value)> {
        let names = ENGLISH.split("{ $").skip(1).map(|part| part.split(' ').next().unwrap());
        names.map(|name| (name.to_owned(), Value::Text(format!("<{name}>")))).collect()
    }

    #[test]
    fn english_is_the_same_with_and_without_fluent() {
        let (plain, titles) = (Messages::new(ENGLISH), Titles::own("en"));
        let keys: Vec<_> = ENGLISH.lines().filter_map(|line| line.split_once(" = ")).collect();
        assert!(keys.len() > 30, "{keys:?}");
        for (key, _) in keys {
            assert!(plain.has(key) && titles.has(key), "{key}");
            let written = plain.write(key, &values());
            assert!(written.is_some(), "{key}");
            assert_eq!(written, titles.messages.write(key, &values()), "{key}");
        }
    }

    #[test]
    fn a_message_that_needs_more_or_is_missing_is_not_written() {
        let messages = Messages::new("a = { $x } of { $n }\nab = b\n");
        let values = [("x".to_owned(), Value::Text("1".into())), ("n".to_owned(), Value::Count(2))];
        assert_eq!(messages.write("a", &values).as_deref(), Some("1 of 2"));
        assert_eq!(messages.write("a", &values[..1]), None);
        assert_eq!(messages.write("nothing", &[]), None);
    }
}
