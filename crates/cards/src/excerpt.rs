//! Keeps the first and last lines of a streamed text, and counts the lines between them.

use std::collections::VecDeque;

use super::limits::MAX_LINE_CHARS;
use super::sanitise;
use super::ui_text::UiText;

/// The kept lines of a text.
#[derive(Debug, Clone, Default)]
pub(super) struct TextExcerpt {
    max_head: usize,
    max_tail: usize,
    head: Vec<String>,
    tail: VecDeque<String>,
    total: usize,
    is_line_open: bool,
}

impl TextExcerpt {
    /// Keeps `head` lines from the beginning, and `tail` lines (at least one) from the end.
    pub(super) fn with_line_limits(head: usize, tail: usize) -> Self {
        Self { max_head: head, max_tail: tail.max(1), ..Self::default() }
    }

    /// Appends escaped text, which may continue the last line.
    pub(super) fn push(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            let (line, is_open) = match piece.strip_suffix('\n') {
                Some(line) => (line, false),
                None => (piece, true),
            };
            if !self.is_line_open {
                self.begin_line();
            }
            if let Some(last) = self.tail.back_mut().or(self.head.last_mut()) {
                let room = MAX_LINE_CHARS.saturating_sub(last.chars().count());
                // A truncated line ends with the ellipsis and does not grow further.
                if room > 0 {
                    last.push_str(&sanitise::truncate_line(line, room));
                }
            }
            self.is_line_open = is_open;
        }
    }

    fn begin_line(&mut self) {
        self.total += 1;
        if self.head.len() < self.max_head {
            self.head.push(String::new());
            return;
        }
        if self.tail.len() == self.max_tail {
            self.tail.pop_front();
        }
        self.tail.push_back(String::new());
    }

    /// Returns the total number of lines.
    pub(super) fn total_line_count(&self) -> usize {
        self.total
    }

    /// Returns the first line, if it is kept.
    pub(super) fn first_line(&self) -> Option<&str> {
        self.head.first().map(String::as_str)
    }

    /// Returns the kept lines. If lines were omitted, a line with their number is in their place.
    pub(super) fn shown_lines(&self, words: &UiText) -> impl Iterator<Item = String> {
        let left = self.total - self.head.len() - self.tail.len();
        let gap = (left > 0).then(|| words.omitted_lines_text(left));
        let kept = self.head.iter().cloned().chain(gap);
        kept.chain(self.tail.iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_LINE_CHARS, TextExcerpt};
    use crate::ui_text::UiText;

    #[test]
    fn omitted_lines_in_the_middle_are_counted() {
        for (pieces, expected) in [
            (&["a\nb\nc\n"][..], "a|b|c"),
            (&["a\nb\nc\nd"], "a|… 1 more line|c|d"),
            (&["a", "a\nb", "\n", "\n", "c\nd\ne"], "aa|… 3 more lines|d|e"),
            (&[], ""),
        ] {
            let mut excerpt = TextExcerpt::with_line_limits(1, 2);
            pieces.iter().for_each(|piece| excerpt.push(piece));
            assert_eq!(
                excerpt.shown_lines(&UiText::default()).collect::<Vec<_>>().join("|"),
                expected
            );
        }
    }

    #[test]
    fn a_very_long_line_is_truncated() {
        let mut excerpt = TextExcerpt::with_line_limits(1, 0);
        (0..3).for_each(|_| excerpt.push(&"x".repeat(MAX_LINE_CHARS - 1)));
        let shown = excerpt.first_line().unwrap();
        assert_eq!(shown.chars().count(), MAX_LINE_CHARS);
        assert!(shown.ends_with('…'));
    }
}
