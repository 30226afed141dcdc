//! The default title of a call: the tool's name and the arguments. The default title is used if the
//! tool sets no title.

use callboard_text::{escape_invisible, escape_invisible_truncated};
use serde_json::Value;

use super::markdown::code_span_if_needed;
use crate::limits::{MAX_DEFAULT_TITLE_BYTES, MAX_DEFAULT_TITLE_VALUE_BYTES};

/// Formats a tool name and its arguments as one visible line, e.g. `search query: "x", limit: 5`.
///
/// Each value is truncated after 256 bytes, and the title after about 1 KiB. The character `…`
/// marks each truncation. Text with Markdown characters is put in a code span.
#[must_use]
pub fn default_title(name: &str, args: &Value) -> String {
    let mut title = code_span_if_needed(&escape_invisible(name));
    let arguments = args.as_object().into_iter().flatten();
    for (at, (key, value)) in arguments.enumerate() {
        if title.len() > MAX_DEFAULT_TITLE_BYTES {
            title.push_str(" …");
            break;
        }
        let (value, _) =
            escape_invisible_truncated(&value.to_string(), MAX_DEFAULT_TITLE_VALUE_BYTES);
        let (key, _) = escape_invisible_truncated(key, MAX_DEFAULT_TITLE_VALUE_BYTES);
        let separator = if at == 0 { " " } else { ", " };
        title.push_str(&format!(
            "{separator}{}: {}",
            code_span_if_needed(&key),
            code_span_if_needed(&value)
        ));
    }
    title
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::default_title;
    use crate::limits::{MAX_DEFAULT_TITLE_BYTES, MAX_DEFAULT_TITLE_VALUE_BYTES};

    #[test]
    fn a_title_names_the_tool_and_its_arguments() {
        for (name, args, expected) in [
            ("search", json!({"query": "x"}), r#"search query: "x""#),
            ("search", json!({"query": "x", "top": 5}), r#"search query: "x", top: 5"#),
            ("count_words", json!({}), "`count_words`"),
            ("think", json!(null), "think"),
            ("get", json!({"url": "[a](b)"}), "get url: `\"[a](b)\"`"),
            ("a\u{202e}b", json!({"k": "\u{200b}"}), "`a\\u{202e}b` k: `\"\\u{200b}\"`"),
        ] {
            assert_eq!(default_title(name, &args), expected);
        }
    }

    #[test]
    fn a_long_title_is_truncated_and_marked() {
        let long = default_title("x", &json!({"text": "y".repeat(100_000)}));
        assert!(long.len() < MAX_DEFAULT_TITLE_VALUE_BYTES + 100 && long.ends_with('…'), "{long}");
        let many: serde_json::Map<_, _> =
            (0..500).map(|n| (n.to_string(), json!("z".repeat(300)))).collect();
        let title = default_title("x", &json!(many));
        assert!(
            title.len() < MAX_DEFAULT_TITLE_BYTES + 2 * MAX_DEFAULT_TITLE_VALUE_BYTES,
            "{}",
            title.len()
        );
        assert!(title.ends_with('…'));
    }
}
