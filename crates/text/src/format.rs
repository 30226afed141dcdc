//! Truncates text, and formats counts, durations and code fences.

/// Returns the longest prefix of `text` that has at most `max` bytes.
#[must_use]
pub fn head(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the longest suffix of `text` that has at most `max` bytes.
#[must_use]
pub fn tail(text: &str, max: usize) -> &str {
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Formats a number with its noun: `1 line`, `2000 lines`.
#[must_use]
pub fn count_with_noun(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// Formats a number with its noun and thousands separators: `1 line`, `2,000 lines`.
#[must_use]
pub fn grouped_count_with_noun(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", group_thousands(number), if number == 1 { one } else { more })
}

/// Formats a number with commas as thousands separators.
#[must_use]
pub fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a duration in milliseconds with a suitable unit: `3 ms`, `1.2 s`, `2 min 5 s`.
#[must_use]
pub fn format_duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Wraps `text` in a Markdown code fence. The fence has more backticks than any run of backticks in
/// the text.
#[must_use]
pub fn wrap_in_code_fence(language: &str, text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for letter in text.chars() {
        run = if letter == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(3.max(longest + 1));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// Returns the number of bytes that a base64 text encodes. The text is not checked.
#[must_use]
pub fn base64_decoded_len(base64: &str) -> u64 {
    base64.trim_end_matches('=').len() as u64 * 3 / 4
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{
        base64_decoded_len, count_with_noun, format_duration, grouped_count_with_noun, head, tail,
        wrap_in_code_fence,
    };

    #[test]
    fn the_padding_of_base64_is_not_counted() {
        for (base64, bytes) in [("", 0), ("AAAA", 3), ("AAA=", 2), ("AA==", 1), ("AA", 1)] {
            assert_eq!(base64_decoded_len(base64), bytes, "{base64}");
        }
    }

    #[test]
    fn truncation_splits_no_character() {
        assert_eq!(head("aäb", 2), "a");
        assert_eq!(head("aäb", 3), "aä");
        assert_eq!(head("a", 9), "a");
        assert_eq!(tail("aäb", 2), "b");
        assert_eq!(tail("aäb", 3), "äb");
        assert_eq!(tail("a", 9), "a");
    }

    #[test]
    fn durations_have_a_unit_that_fits() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (59_999, "59.9 s"),
            (61_000, "1 min 1 s"),
        ] {
            assert_eq!(format_duration(millis), expected);
        }
    }

    #[test]
    fn only_one_is_singular() {
        assert_eq!(count_with_noun(0, "line", "lines"), "0 lines");
        assert_eq!(count_with_noun(1, "line", "lines"), "1 line");
        assert_eq!(count_with_noun(1234, "line", "lines"), "1234 lines");
        assert_eq!(grouped_count_with_noun(1234, "line", "lines"), "1,234 lines");
    }

    #[test]
    fn a_fence_is_longer_than_any_run_of_backticks() {
        assert_eq!(wrap_in_code_fence("rs", "x"), "```rs\nx\n```");
        assert_eq!(wrap_in_code_fence("", "```\n"), "````\n```\n````");
    }
}
