//! Formats the raw input of a call for a permission decision.
//!
//! The format works for any tool: the field `command` is shown as a command, and other fields are
//! shown with their names.

use serde_json::Value;

use super::sanitise;

/// Returns the command in raw input. If the command is a list of words, the words are joined to one
/// line.
pub(super) fn command_text(input: &Value) -> Option<String> {
    match input.get("command")? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().map(quoted_word).collect::<Vec<_>>().join(" ")),
        _ => None,
    }
}

/// Returns whether the text of a terminal consists only of a command that has not run, and the
/// command's directory.
pub(super) fn is_console_text_without_output(console: &str, command: &str) -> bool {
    let rest = console.strip_prefix("$ ").and_then(|text| text.strip_prefix(command));
    let is_place = |rest: &str| rest.strip_prefix("\n[in ").is_some_and(|it| !it.contains('\n'));
    rest.is_some_and(|rest| rest.is_empty() || is_place(rest))
}

/// Returns lines for all fields of raw input except the command.
pub(super) fn format_fields_except_command(input: &Value) -> Vec<String> {
    match input {
        Value::Null => Vec::new(),
        Value::Object(fields) => {
            let others =
                fields.iter().filter(|(key, _)| *key != "command" || command_text(input).is_none());
            others.flat_map(|(key, value)| format_field(key, value)).collect()
        }
        value => format_with_hanging_indent("", &value_text(value)),
    }
}

/// Splits text into lines. The first line follows `mark`; the other lines are indented to the same
/// column.
pub(super) fn format_with_hanging_indent(mark: &str, text: &str) -> Vec<String> {
    let indent = " ".repeat(mark.chars().count());
    let lines = text.split('\n').enumerate();
    let shown = lines.map(|(at, line)| {
        let before = if at == 0 { mark } else { &indent };
        format!("{before}{}", sanitise::escape_line(line))
    });
    shown.collect()
}

fn format_field(key: &str, value: &Value) -> Vec<String> {
    let key = sanitise::escape_line(key);
    format_with_hanging_indent(&format!("{}: ", key.replace('\t', "\\t")), &value_text(value))
}

/// Returns a word of a command, quoted if it could be misread.
fn quoted_word(word: &Value) -> String {
    match word.as_str() {
        Some(plain) if !plain.is_empty() && !plain.contains(is_shell_special_char) => {
            plain.to_owned()
        }
        _ => word.to_string(),
    }
}

fn is_shell_special_char(letter: char) -> bool {
    letter.is_whitespace() || "\"'\\`$&|;<>()*?".contains(letter)
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::{command_text, format_fields_except_command};

    #[test]
    fn all_fields_of_the_input_are_shown() {
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
            assert_eq!(command_text(&input).as_deref(), expected_command, "{input}");
            assert_eq!(format_fields_except_command(&input), expected_fields, "{input}");
        }
    }
}
