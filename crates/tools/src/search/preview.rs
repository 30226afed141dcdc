//! Shows of a line what is around its match. It knows nothing of how matches are found.

use std::ops::Range;

/// Returns about `max` bytes of a line, its match in the middle, and marks what is left out.
pub(super) fn preview(line: &[u8], found: Range<usize>, max: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let room = max.saturating_sub(found.len()) / 2;
    let start = found.start.saturating_sub(room).min(line.len().saturating_sub(max));
    let start = boundary(line, start);
    let end = boundary(line, start.saturating_add(max).min(line.len()));
    let text = String::from_utf8_lossy(&line[start..end]);
    match (start > 0, end < line.len()) {
        (false, false) => text.into_owned(),
        (before, after) => {
            format!("{}{text}{}", if before { "…" } else { "" }, if after { "…" } else { "" })
        }
    }
}

/// Returns the beginning of the character at `at`, where the bytes are UTF-8.
fn boundary(line: &[u8], at: usize) -> usize {
    let is_continuation = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    // A character has at most three continuation bytes; with more of them it is no UTF-8.
    (at.saturating_sub(3)..=at).rev().find(|at| !is_continuation(at)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::preview;

    #[test]
    fn short_lines_are_whole_and_long_ones_are_shown_around_the_match() {
        for (line, found, max, expected) in [
            ("short\r\n", 0..2, 20, "short"),
            ("0123456789", 0..1, 4, "0123…"),
            ("0123456789", 9..10, 4, "…6789"),
            ("0123456789", 5..6, 5, "…34567…"),
            ("0123456789", 1..9, 4, "…1234…"),
            ("ääääää", 4..6, 5, "…ää…"),
            ("", 0..0, 4, ""),
        ] {
            assert_eq!(preview(line.as_bytes(), found, max), expected, "{line}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_all_the_same() {
        for at in 0..64 {
            let shown = preview(&[0x80; 64], at..at + 1, 8);
            assert!(shown.contains('\u{fffd}'), "{at}");
        }
    }
}
