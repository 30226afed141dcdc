//! The raw input of a call as the lines that someone who decides on it must see.
//!
//! It knows no tool: a command is what lies under that name, the rest is shown by name.

use serde_json::Value;

use super::safe;

/// Returns the command in raw input, a list of words as one line.
pub(super) fn command(input: &Value) -> Option<String> {
    match input.get("command")? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().map(word).collect::<Vec<_>>().join(" ")),
        _ => None,
    }
}

/// Returns whether a console shows only a command that has not run, and where it would run.
pub(super) fn is_mere_command(console: &str, command: &str) -> bool {
    let rest = console.strip_prefix("$ ").and_then(|text| text.strip_prefix(command));
    let is_place = |rest: &str| rest.strip_prefix("\n[in ").is_some_and(|it| !it.contains('\n'));
    rest.is_some_and(|rest| rest.is_empty() || is_place(rest))
}

/// Returns the lines of everything in raw input that is no command.
pub(super) fn fields(input: &Value) -> Vec<String> {
    match input {
        Value::Null => Vec::new(),
        Value::Object(fields) => {
            let others =
                fields.iter().filter(|(key, _)| *key != "command" || command(input).is_none());
            others.flat_map(|(key, value)| field(key, value)).collect()
        }
        value => lines("", &text(value)),
    }
}

/// Returns text as lines, the first one behind `mark`, the others as far in.
pub(super) fn lines(mark: &str, text: &str) -> Vec<String> {
    let indent = " ".repeat(mark.chars().count());
    let lines = text.split('\n').enumerate();
    let shown = lines.map(|(at, line)| {
        let before = if at == 0 { mark } else { &indent };
        format!("{before}{}", safe::exact(line))
    });
    shown.collect()
}

fn field(key: &str, value: &Value) -> Vec<String> {
    let key = safe::exact(key);
    lines(&format!("{}: ", key.replace('\t', "\\t")), &text(value))
}

/// A word of a command that would not be read as one is in quotes.
fn word(word: &Value) -> String {
    match word.as_str() {
        Some(plain) if !plain.is_empty() && !plain.contains(is_special) => plain.to_owned(),
        _ => word.to_string(),
    }
}

fn is_special(letter: char) -> bool {
    letter.is_whitespace() || "\"'\\`$&|;<>()*?".contains(letter)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::{command, fields};

    #[test]
    fn nothing_of_the_input_is_missing() {
        for (input, expected_command, expected_fields) in [
            (json!({"command": "ls -l", "cwd": "/p"}), Some("ls -l"), &["cwd: /p"][..]),
            (json!({"command": ["sh", "-c", "a b", ""]}), Some("sh -c \"a b\" \"\""), &[]),
            (json!({"command": 1}), None, &["command: 1"]),
            (
                json!({"text": "a\nb\u{1b}", "n": [1]}),
                None,
                &["text: a", "      b\\u{1b}", "n: [1]"],
            ),
            (json!("x"), None, &["x"]),
            (json!(null), None, &[]),
        ] {
            assert_eq!(command(&input).as_deref(), expected_command, "{input}");
            assert_eq!(fields(&input), expected_fields, "{input}");
        }
    }
}
