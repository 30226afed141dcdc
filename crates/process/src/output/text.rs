//! Converts terminal output to text and shortens it.
//!
//! The raw bytes are for clients with a terminal view; the text is for the model, titles and logs.

use std::collections::VecDeque;

use callboard_text::count_with_noun;
use memchr::memchr_iter;

use super::screen::{self, TextAndHiddenCharCount};
use super::{complete_utf8_len, is_continuation};

/// Returns the text that a terminal would show at the end. The result has no escape sequences, no
/// characters that hide or reorder other characters, and no control characters except line break
/// and tab. Redrawn lines have their last state, lines end in `\n`, and invalid UTF-8 becomes
/// U+FFFD.
///
/// After a carriage return (`\r`), new text replaces the whole line, even if the new text is
/// shorter: progress bars expect this. The cursor can move only within the last 40 lines. Text on
/// the alternate screen is discarded when the program leaves it; text of a cleared screen is kept.
///
/// ```
/// use callboard_process::text::terminal_output_to_text;
/// assert_eq!(terminal_output_to_text(b"10%\r50%\r\x1b[32m100%\x1b[0m done\r\n"), "100% done\n");
/// assert_eq!(terminal_output_to_text(b"a: 1\nb: 1\n\x1b[2A\x1b[Ka: 2\n\x1b[Kb: 2\n"), "a: 2\nb: 2\n");
/// ```
pub fn terminal_output_to_text(raw: &[u8]) -> String {
    screen::render_final_text(raw).text
}

/// The beginning and the end of an output of any length, in bounded memory.
///
/// ```
/// use callboard_process::text::HeadTail;
/// let mut output = HeadTail::new(8);
/// for chunk in ["first ", "and all ", "between, ", "last"] {
///     output.push(chunk.as_bytes());
/// }
/// assert_eq!(output.total_bytes(), 27);
/// assert_eq!(output.to_text(100), "firs\n[... 19 bytes left out ...]\nlast");
/// ```
#[derive(Debug, Clone)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Maximum length of `head` and of `tail`.
    half: usize,
    total: u64,
    lines: u64,
}

/// A part of an output as [plain text](terminal_output_to_text).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputExcerpt {
    /// The text. If a part is omitted, a line in the middle gives the size of that part.
    pub text: String,
    /// Number of omitted output bytes.
    pub left_out_bytes: u64,
    /// Number of omitted line ends (`\n`).
    pub left_out_lines: u64,
    /// Number of characters that were removed from the remaining text because they hide or reorder
    /// other characters.
    pub hidden_chars: u64,
}

impl HeadTail {
    /// Creates a buffer that keeps up to `limit` bytes: half of them from the beginning, half from
    /// the end.
    pub fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, total: 0, lines: 0 }
    }

    /// Appends the next bytes of the output.
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

    /// Returns the number of bytes in memory.
    pub(super) fn kept_bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Returns the total number of output bytes, including discarded ones.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Returns the total number of line ends (`\n`), including discarded ones.
    pub fn total_line_ends(&self) -> u64 {
        self.lines
    }

    /// Returns the first bytes, up to half of the limit.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the last bytes in two pieces. Bytes of the head are not included.
    pub fn tail(&self) -> (&[u8], &[u8]) {
        self.tail.as_slices()
    }

    /// Returns the kept output after the first `bytes` bytes. `lines` is the number of line ends in
    /// these first bytes.
    pub(super) fn without_first_bytes(&self, bytes: u64, lines: u64) -> Self {
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

    /// Returns the number of kept bytes that belong to an unfinished last line.
    pub(super) fn unfinished_line_bytes(&self) -> u64 {
        let is_whole = self.total == self.kept_bytes() as u64;
        let head = if is_whole { self.head.as_slice() } else { &[] };
        let kept = head.iter().chain(&self.tail).rev();
        kept.take_while(|byte| **byte != b'\n').count() as u64
    }

    /// Returns the output as [plain text](terminal_output_to_text) of at most `limit` bytes. If
    /// bytes are omitted from the middle, a line there gives their number.
    pub fn to_text(&self, limit: usize) -> String {
        self.excerpt(limit).text
    }

    /// Returns the output as [plain text](terminal_output_to_text) of at most `limit` bytes, with
    /// the size of the omitted part.
    pub fn excerpt(&self, limit: usize) -> OutputExcerpt {
        let mut tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.total == self.kept_bytes() as u64 {
            let all = screen::render_final_text(&[self.head.as_slice(), &tail].concat());
            return truncate_to_excerpt(all, limit);
        }
        // Incomplete characters, lines and escape sequences at the gap are omitted too.
        tail.drain(..bytes_to_omit_after_gap(&tail));
        let head = &self.head[..complete_utf8_len(&self.head)];
        let gap = OmittedSize {
            bytes: self.total - (head.len() + tail.len()) as u64,
            lines: self.lines - count_line_ends(head) - count_line_ends(&tail),
        };
        join_around_gap(
            &screen::render_final_text(head),
            gap,
            &screen::render_final_text(&tail),
            limit,
        )
    }
}

/// Size of the omitted part of an output.
struct OmittedSize {
    bytes: u64,
    lines: u64,
}

/// Shortens a text to its beginning and its end, which together have at most `limit` bytes. A line
/// between the two parts gives the number of omitted bytes. Characters are never split.
///
/// ```
/// use callboard_process::text::truncate_middle;
/// assert_eq!(truncate_middle("all of it", 9), "all of it");
/// assert_eq!(truncate_middle("0123456789", 4), "01\n[... 6 bytes left out ...]\n89");
/// ```
pub fn truncate_middle(text: &str, limit: usize) -> String {
    truncate_to_excerpt(TextAndHiddenCharCount { text: text.to_owned(), hidden_chars: 0 }, limit)
        .text
}

fn truncate_to_excerpt(all: TextAndHiddenCharCount, limit: usize) -> OutputExcerpt {
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
    let gap =
        OmittedSize { bytes: between.len() as u64, lines: count_line_ends(between.as_bytes()) };
    format_excerpt(first, &gap, last, all.hidden_chars)
}

/// Joins two texts into one of at most `limit` bytes, with a line between them that gives the size
/// of the gap.
fn join_around_gap(
    head: &TextAndHiddenCharCount,
    gap: OmittedSize,
    tail: &TextAndHiddenCharCount,
    limit: usize,
) -> OutputExcerpt {
    let (first, last) =
        (callboard_text::head(&head.text, limit / 2), tail_from_line_start(&tail.text, limit / 2));
    let (after, before) = (&head.text[first.len()..], &tail.text[..tail.text.len() - last.len()]);
    let gap = OmittedSize {
        bytes: gap.bytes + (after.len() + before.len()) as u64,
        lines: gap.lines + count_line_ends(after.as_bytes()) + count_line_ends(before.as_bytes()),
    };
    format_excerpt(first, &gap, last, head.hidden_chars + tail.hidden_chars)
}

/// Returns the last bytes of a text. If a line starts near the beginning of these bytes, the result
/// begins with that line. A truncated line may begin with a part of a secret, which no filter would
/// recognize.
fn tail_from_line_start(text: &str, limit: usize) -> &str {
    let last = callboard_text::tail(text, limit);
    if last.len() == text.len() { last } else { &last[bytes_to_omit_after_gap(last.as_bytes())..] }
}

fn format_excerpt(first: &str, gap: &OmittedSize, last: &str, hidden: u64) -> OutputExcerpt {
    let OmittedSize { bytes, lines } = *gap;
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

/// Returns how many bytes to omit after a gap: up to the end of the truncated line if that end is
/// near, otherwise up to the next character.
pub(super) fn bytes_to_omit_after_gap(tail: &[u8]) -> usize {
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
    fn plain_text_is_the_final_text_of_a_terminal() {
        for (raw, expected) in [
            ("", ""),
            ("two\r\nlines\r\n", "two\nlines\n"),
            ("two\nlines", "two\nlines"),
            ("a\tb", "a\tb"),
            // Redrawn lines.
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
            assert_eq!(terminal_output_to_text(raw.as_bytes()), expected, "{raw:?}");
        }
        assert_eq!(terminal_output_to_text(b"\xffok\xe2\x82"), "\u{fffd}ok\u{fffd}");
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

    /// A naive parser would need quadratic time for these bytes.
    #[test]
    fn invalid_utf8_is_parsed_in_linear_time() {
        let text = terminal_output_to_text(&vec![0xff; 1 << 20]);
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
    fn a_character_split_by_the_gap_is_omitted() {
        let mut output = HeadTail::new(8);
        output.push("abcé0123456789éxyz".as_bytes());
        assert_eq!(output.to_text(100), "abc\n[... 14 bytes left out ...]\nxyz");
    }

    #[test]
    fn kept_output_is_shortened_again_after_cleaning() {
        let mut output = HeadTail::new(100);
        output.push("\x1b[31mhead".repeat(20).as_bytes());
        assert_eq!(output.total_bytes(), 180);
        assert!(output.to_text(8).starts_with("head\n[... "), "{}", output.to_text(8));
        let shortened = HeadTail { half: 500, ..output };
        assert!(!shortened.to_text(8).contains('\x1b'));
    }

    proptest! {
        #[test]
        fn no_control_character_survives(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            let text = terminal_output_to_text(&raw);
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            prop_assert_eq!(terminal_output_to_text(text.as_bytes()), text);
        }

        #[test]
        fn the_split_of_the_output_into_chunks_does_not_matter(
            chunks in proptest::collection::vec("[a-zé\x1b\r\n]{0,12}", 0..12),
            limit in 0_usize..60,
        ) {
            let (mut pieces, mut whole) = (HeadTail::new(limit), HeadTail::new(limit));
            chunks.iter().for_each(|chunk| pieces.push(chunk.as_bytes()));
            whole.push(chunks.concat().as_bytes());
            prop_assert_eq!(pieces.total_bytes(), chunks.concat().len() as u64);
            prop_assert_eq!(pieces.to_text(20), whole.to_text(20));
            prop_assert!(pieces.head.len() + pieces.tail.len() <= limit);
        }

        #[test]
        fn all_omitted_bytes_are_counted(text in "[ -~é]{0,80}", kept in 0_usize..90, limit in 0_usize..90) {
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
