//! Makes text of what a program wrote to a terminal, and keeps it short.
//!
//! Pure. Knows nothing of processes; the raw bytes are for those who have a terminal to show them
//! in, this is for those who read: the model, titles, logs.

use std::collections::VecDeque;

use callboard_text::count_with_noun;
use memchr::memchr_iter;

use super::screen::{self, ScreenText};
use super::{complete_utf8_len, is_continuation};

/// What a terminal would have left to read: no escape sequences, no control characters but the
/// line break and the tab, of lines drawn several times the last state, `\n` at the ends of lines,
/// no characters that hide or reorder others, and U+FFFD for what is not UTF-8.
///
/// A line that starts over (`\r`) is replaced as a whole, even by a shorter one, which is what
/// progress bars mean. The cursor moves among the last 40 lines; what a program shows on the
/// terminal's other screen is gone when it leaves that. A screen that is cleared was read.
///
/// ```
/// use callboard_process::text::plain;
/// assert_eq!(plain(b"10%\r50%\r\x1b[32m100%\x1b[0m done\r\n"), "100% done\n");
/// assert_eq!(plain(b"a: 1\nb: 1\n\x1b[2A\x1b[Ka: 2\n\x1b[Kb: 2\n"), "a: 2\nb: 2\n");
/// ```
pub fn plain_text(raw: &[u8]) -> String {
    screen::render(raw).text
}

/// The beginning and the end of an output of any length, in bounded memory.
///
/// ```
/// use callboard_process::text::HeadTail;
/// let mut output = HeadTail::new(8);
/// for chunk in ["first ", "and all ", "between, ", "last"] {
///     output.push(chunk.as_bytes());
/// }
/// assert_eq!(output.total(), 27);
/// assert_eq!(output.to_text(100), "firs\n[... 19 bytes left out ...]\nlast");
/// ```
#[derive(Debug, Clone)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// The most that `head` and `tail` each may hold.
    half: usize,
    total: u64,
    lines: u64,
}

/// A part of an output as [plain] text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputExcerpt {
    /// The text, with a line that tells what is left out of its middle.
    pub text: String,
    /// How many bytes are left out.
    pub left_out_bytes: u64,
    /// How many ends of lines are among them.
    pub left_out_lines: u64,
    /// How many characters that hide or reorder others were taken out of the rest.
    pub hidden_chars: u64,
}

impl HeadTail {
    /// Keeps up to `limit` bytes: one half of it from the beginning, the other from the end.
    pub fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, total: 0, lines: 0 }
    }

    /// Takes the next bytes of the output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.lines += count_line_ends(bytes);
        let room = self.half - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// How many bytes are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// How many bytes the output had, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many ends of lines (`\n`) it had, kept or not.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The first bytes: as many as one half of the limit.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes that are not in the head, in two pieces.
    pub fn tail(&self) -> (&[u8], &[u8]) {
        self.tail.as_slices()
    }

    /// The output behind its first `bytes`, which have so many ends of lines: what is kept of it.
    pub(super) fn since(&self, bytes: u64, lines: u64) -> Self {
        let behind = |start: u64, len: usize| {
            usize::try_from(bytes.saturating_sub(start)).unwrap_or(usize::MAX).min(len)
        };
        let tail_start = self.total - self.tail.len() as u64;
        let (head, tail) = (behind(0, self.head.len()), behind(tail_start, self.tail.len()));
        Self {
            head: self.head[head..].to_vec(),
            tail: self.tail.range(tail..).copied().collect(),
            half: self.half,
            total: self.total.saturating_sub(bytes),
            lines: self.lines.saturating_sub(lines),
        }
    }

    /// How many of the last bytes belong to a line that has no end yet, as far as they are kept.
    pub(super) fn open_line_bytes(&self) -> u64 {
        let is_whole = self.total == self.kept_bytes() as u64;
        let head = if is_whole { self.head.as_slice() } else { &[] };
        let kept = head.iter().chain(&self.tail).rev();
        kept.take_while(|byte| **byte != b'\n').count() as u64
    }

    /// The output as [plain] text of at most `limit` bytes, and a line that says how many were
    /// left out of its middle, if any were.
    pub fn to_text(&self, limit: usize) -> String {
        self.excerpt(limit).text
    }

    /// The output as [plain] text of at most `limit` bytes, and what is not in it.
    pub fn excerpt(&self, limit: usize) -> OutputExcerpt {
        let mut tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.total == self.kept_bytes() as u64 {
            let all = screen::render(&[self.head.as_slice(), &tail].concat());
            return truncate_to_excerpt(all, limit);
        }
        // Half a character, line or sequence at the gap is left out too, rather than shown as
        // broken ones.
        tail.drain(..ragged_prefix_len(&tail));
        let head = &self.head[..complete_utf8_len(&self.head)];
        let gap = Gap {
            bytes: self.total - (head.len() + tail.len()) as u64,
            lines: self.lines - count_line_ends(head) - count_line_ends(&tail),
        };
        join(&screen::render(head), gap, &screen::render(&tail), limit)
    }
}

/// What is left out.
struct Gap {
    bytes: u64,
    lines: u64,
}

/// Shortens a text to its beginning and its end, at most `limit` bytes of it, with a line between
/// them that says how many are missing. Characters stay whole.
///
/// ```
/// use callboard_process::text::head_tail;
/// assert_eq!(head_tail("all of it", 9), "all of it");
/// assert_eq!(head_tail("0123456789", 4), "01\n[... 6 bytes left out ...]\n89");
/// ```
pub fn truncate_middle(text: &str, limit: usize) -> String {
    truncate_to_excerpt(ScreenText { text: text.to_owned(), hidden_chars: 0 }, limit).text
}

fn truncate_to_excerpt(all: ScreenText, limit: usize) -> OutputExcerpt {
    if all.text.len() <= limit {
        return OutputExcerpt {
            text: all.text,
            hidden_chars: all.hidden_chars,
            ..OutputExcerpt::default()
        };
    }
    let (first, last) =
        (callboard_text::head(&all.text, limit / 2), tail_from_line_start(&all.text, limit / 2));
    let between = &all.text[first.len()..all.text.len() - last.len()];
    let gap = Gap { bytes: between.len() as u64, lines: count_line_ends(between.as_bytes()) };
    excerpt(first, &gap, last, all.hidden_chars)
}

/// Joins two texts to one of at most `limit` bytes, with what is missing between them.
fn join(head: &ScreenText, gap: Gap, tail: &ScreenText, limit: usize) -> OutputExcerpt {
    let (first, last) =
        (callboard_text::head(&head.text, limit / 2), tail_from_line_start(&tail.text, limit / 2));
    let (after, before) = (&head.text[first.len()..], &tail.text[..tail.text.len() - last.len()]);
    let gap = Gap {
        bytes: gap.bytes + (after.len() + before.len()) as u64,
        lines: gap.lines + count_line_ends(after.as_bytes()) + count_line_ends(before.as_bytes()),
    };
    excerpt(first, &gap, last, head.hidden_chars + tail.hidden_chars)
}

/// The last bytes of a text, from the beginning of a line if one is near: what was cut of a line may
/// be half of what is to be hidden.
fn tail_from_line_start(text: &str, limit: usize) -> &str {
    let last = callboard_text::tail(text, limit);
    if last.len() == text.len() { last } else { &last[ragged_prefix_len(last.as_bytes())..] }
}

fn excerpt(first: &str, gap: &Gap, last: &str, hidden: u64) -> OutputExcerpt {
    let Gap { bytes, lines } = *gap;
    let mut what = count_with_noun(bytes, "byte", "bytes");
    if lines > 0 {
        what.push_str(&format!(", {}", count_with_noun(lines, "line", "lines")));
    }
    let text = format!("{first}\n[... {what} left out ...]\n{last}");
    OutputExcerpt { text, left_out_bytes: bytes, left_out_lines: lines, hidden_chars: hidden }
}

fn count_line_ends(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// How many bytes behind a gap are better left out: to the end of the line that was cut, unless
/// that is far, else to the beginning of a character.
pub(super) fn ragged_prefix_len(tail: &[u8]) -> usize {
    let near = &tail[..tail.len() / 8];
    match near.iter().position(|byte| *byte == b'\n') {
        Some(end) => end + 1,
        None => tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_show_is_what_is_left() {
        for (raw, expected) in [
            ("", ""),
            ("two\r\nlines\r\n", "two\nlines\n"),
            ("two\nlines", "two\nlines"),
            ("a\tb", "a\tb"),
            // Lines drawn several times.
            ("10%\r50%\r100%", "100%"),
            ("10%\r50%\r100%\r\n", "100%\n"),
            ("kept\n10%\r100%\nafter", "kept\n100%\nafter"),
            ("a longer line\rshort", "short"),
            ("the end is not erased\r", "the end is not erased"),
            ("odd\r\r\nend", "odd\nend"),
            ("Building 3/4\r\x1b[K", ""),
            ("Building 3/4\r\x1b[2KFinished", "Finished"),
            ("not at the start\x1b[K of it", "not at the start of it"),
            // Backspaces.
            ("abc\x08\x08xy", "axy"),
            ("|\x08/\x08-\x08done", "done"),
            ("line\n\x08\x08x", "line\nx"),
            ("bo\x08oo\x08o", "boo"),
            ("é\x08e", "e"),
            // Escape sequences.
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b[?25l\x1b[38;2;1;2;3mx\x1b[?25h", "x"),
            ("\x1b]0;a title\x07text", "text"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1bPq#0\x1b\\after", "after"),
            ("\x1b(Btext\x1b7\x1b=", "text"),
            ("\x1b]0;never ended\nnext line", "\nnext line"),
            ("\x1b[31", ""),
            ("\x1b", ""),
            // Control characters.
            ("a\0b\x07c\x7fd\u{85}e\x0cf", "abcdef"),
        ] {
            assert_eq!(plain_text(raw.as_bytes()), expected, "{raw:?}");
        }
        assert_eq!(plain_text(b"\xffok\xe2\x82"), "\u{fffd}ok\u{fffd}");
    }

    #[test]
    fn the_middle_is_left_out_between_whole_characters() {
        for (text, limit, expected) in [
            ("", 0, ""),
            ("abc", 3, "abc"),
            ("abc", 0, "\n[... 3 bytes left out ...]\n"),
            ("abcdef", 5, "ab\n[... 2 bytes left out ...]\nef"),
            ("ééé", 4, "é\n[... 2 bytes left out ...]\né"),
            ("aéééb", 4, "a\n[... 6 bytes left out ...]\nb"),
        ] {
            assert_eq!(truncate_middle(text, limit), expected, "{text:?} {limit}");
        }
    }

    /// The parser would be quadratic in them.
    #[test]
    fn a_flood_of_bytes_that_are_no_text_takes_its_time_but_no_more() {
        let text = plain_text(&vec![0xff; 1 << 20]);
        assert_eq!(text.len(), 3 << 20);
    }

    #[test]
    fn the_end_begins_with_a_line_if_one_is_near() {
        let text = "line 1\nline 2\n".repeat(100);
        let shown = truncate_middle(&text, 300);
        let (_, end) = shown.split_once("left out ...]\n").unwrap();
        assert!(end.starts_with("line ") && end.len() > 140, "{end}");
    }

    #[test]
    fn a_character_torn_by_the_gap_is_left_out() {
        let mut output = HeadTail::new(8);
        output.push("abcé0123456789éxyz".as_bytes());
        assert_eq!(output.to_text(100), "abc\n[... 14 bytes left out ...]\nxyz");
    }

    #[test]
    fn what_is_kept_is_shortened_again_after_cleaning() {
        let mut output = HeadTail::new(100);
        output.push("\x1b[31mhead".repeat(20).as_bytes());
        assert_eq!(output.total(), 180);
        assert!(output.to_text(8).starts_with("head\n[... "), "{}", output.to_text(8));
        let shortened = HeadTail { half: 500, ..output };
        assert!(!shortened.to_text(8).contains('\x1b'));
    }

    proptest! {
        #[test]
        fn no_control_character_survives(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            let text = plain_text(&raw);
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            prop_assert_eq!(plain_text(text.as_bytes()), text);
        }

        #[test]
        fn it_does_not_matter_how_the_output_was_cut_into_chunks(
            chunks in proptest::collection::vec("[a-zé\x1b\r\n]{0,12}", 0..12),
            limit in 0_usize..60,
        ) {
            let (mut pieces, mut whole) = (HeadTail::new(limit), HeadTail::new(limit));
            chunks.iter().for_each(|chunk| pieces.push(chunk.as_bytes()));
            whole.push(chunks.concat().as_bytes());
            prop_assert_eq!(pieces.total(), chunks.concat().len() as u64);
            prop_assert_eq!(pieces.to_text(20), whole.to_text(20));
            prop_assert!(pieces.head.len() + pieces.tail.len() <= limit);
        }

        #[test]
        fn nothing_is_lost_uncounted(text in "[ -~é]{0,80}", kept in 0_usize..90, limit in 0_usize..90) {
            let mut output = HeadTail::new(kept);
            output.push(text.as_bytes());
            let shown = output.to_text(limit);
            let (shown_bytes, left_out) = match shown.split_once("\n[... ") {
                None => (shown.len(), 0),
                Some((head, rest)) => {
                    let (count, tail) = rest.split_once(" left out ...]\n").unwrap();
                    let (count, noun) = count.split_once(' ').unwrap();
                    prop_assert_eq!(noun, if count == "1" { "byte" } else { "bytes" });
                    (head.len() + tail.len(), count.parse().unwrap())
                }
            };
            prop_assert_eq!(shown_bytes + left_out, text.len());
            prop_assert!(shown_bytes <= limit);
        }
    }
}
