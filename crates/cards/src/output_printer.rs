//! Prints the growing output of a command. An agent sends the output as a text that replaces the
//! previous text, or in pieces.
//!
//! A new text is aligned with the previous text, so that only the new part is printed. A line that
//! the command overwrites (e.g. a progress bar) is printed once in its last state. If the page is a
//! terminal, the line is redrawn instead. Colours are kept, and all other escape sequences are
//! removed.

use std::collections::VecDeque;
use std::mem;

use anstyle::Style;
use callboard_text::tail;

use super::limits::{
    MAX_ALIGNED_LINES, MAX_EXCERPT_EDGE_LINES, MAX_LINE_CHARS, MAX_LIVE_OUTPUT_LINES,
    MAX_REMEMBERED_OUTPUT_BYTES,
};
use super::output_line::{LineReader, OutputLine};
use super::page::Page;

/// The printing state of a command's output.
#[derive(Debug, Default)]
pub(super) struct OutputPrinter {
    /// The end of the last text that was received. `last_text_len` is the length of that whole
    /// text.
    last_text_tail: String,
    last_text_len: usize,
    reader: LineReader,
    /// Number of complete lines.
    line_count: usize,
    /// The most recent lines that are held back until the call ends.
    held: VecDeque<OutputLine>,
}

impl OutputPrinter {
    /// Compares `text` with the previous text, which it replaces. Returns the new part, and how
    /// this part joins the printed output. Stores `text` for the next call.
    pub(super) fn take_new_text<'a>(&mut self, text: &'a str) -> (OutputJoin, &'a str) {
        let grown = find_new_text(&self.last_text_tail, self.last_text_len, text);
        tail(text, MAX_REMEMBERED_OUTPUT_BYTES).clone_into(&mut self.last_text_tail);
        self.last_text_len = text.len();
        grown
    }

    /// Prints new output. The call must be the owner of the page ([`Page::owner`]).
    pub(super) fn print(&mut self, joint: OutputJoin, text: &str, page: &mut Page) {
        match joint {
            OutputJoin::Continues => {}
            // The new text replaces the incomplete line.
            OutputJoin::ReplacesLine => self.reader.restart_line(),
            OutputJoin::AfterGap => {
                self.print_incomplete_line(page);
                page.end_open_line();
                page.write_with_gutter("…\n");
            }
        }
        for part in text.split_inclusive('\n') {
            if let Some(line) = self.reader.push_line_part(part) {
                self.print_or_hold_back_line(line, page);
            }
        }
        if page.can_redraw_lines()
            && self.line_count < MAX_LIVE_OUTPUT_LINES
            && !self.reader.line().is_empty()
        {
            let room = page.width.saturating_sub(GUTTER_COLUMNS + 1);
            let (shown, columns) = self.reader.line().render(room);
            page.redraw_line(&format_with_gutter(page, &shown), columns + GUTTER_COLUMNS);
        }
    }

    /// Prints the incomplete line, if there is one.
    fn print_incomplete_line(&mut self, page: &mut Page) {
        if let Some(line) = self.reader.take_open_line() {
            self.print_or_hold_back_line(line, page);
        }
    }

    fn print_or_hold_back_line(&mut self, line: OutputLine, page: &mut Page) {
        self.line_count += 1;
        if self.line_count <= MAX_LIVE_OUTPUT_LINES {
            print_line(&line, page);
            return;
        }
        if self.held.len() == MAX_EXCERPT_EDGE_LINES {
            self.held.pop_front();
        }
        self.held.push_back(line);
    }

    /// Returns whether some output is held back until the call ends.
    pub(super) fn has_unprinted_output(&self) -> bool {
        !self.reader.line().is_empty() || !self.held.is_empty()
    }

    /// Prints the output that was held back until the end of the call. The call must be the owner
    /// of the page ([`Page::owner`]).
    pub(super) fn print_rest_at_call_end(&mut self, page: &mut Page) {
        self.print_incomplete_line(page);
        let left_out = self.line_count.saturating_sub(MAX_LIVE_OUTPUT_LINES + self.held.len());
        if left_out > 0 {
            page.end_open_line();
            page.write_with_gutter(&format!("{}\n", page.words.omitted_lines_text(left_out)));
        }
        mem::take(&mut self.held).iter().for_each(|line| print_line(line, page));
    }
}

fn print_line(line: &OutputLine, page: &mut Page) {
    let (shown, columns) = line.render(MAX_LINE_CHARS);
    page.redraw_and_end_line(&format_with_gutter(page, &shown), columns + GUTTER_COLUMNS);
}

fn format_with_gutter(page: &Page, line: &str) -> String {
    let dim: Style = page.palette.dim;
    if line.is_empty() { format!("{dim}  │{dim:#}") } else { format!("{dim}  │ {dim:#}{line}") }
}

/// Number of columns of the gutter before each line.
const GUTTER_COLUMNS: usize = 4;

/// The way in which new output joins the printed output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputJoin {
    /// The new output continues the printed output, possibly within a line.
    Continues,
    /// The new output replaces the incomplete line.
    ReplacesLine,
    /// Some output between the printed output and the new output was not received.
    AfterGap,
}

/// Returns the new part of `new`. `seen` is the end of the previous text, and `seen_len` is the
/// length of the whole previous text.
fn find_new_text<'a>(seen: &str, seen_len: usize, new: &'a str) -> (OutputJoin, &'a str) {
    if new.get(..seen_len).is_some_and(|old| old.ends_with(seen)) {
        return (OutputJoin::Continues, &new[seen_len..]);
    }
    // The previous text was a single incomplete line, e.g. a progress display that was overwritten.
    if seen_len == seen.len() && !seen.contains('\n') {
        return (OutputJoin::ReplacesLine, new);
    }
    if let Some((joint, at)) = find_overlap_end(seen, new) {
        return (joint, &new[at..]);
    }
    let command = new.split_inclusive('\n').next().filter(|line| line.starts_with("$ "));
    (OutputJoin::AfterGap, &new[command.map_or(0, str::len)..])
}

/// Returns the position in `new` at which `seen` ends. The function searches `new` for the longest
/// run of lines that equals the last lines of `seen`. If there are several such runs, the first one
/// is used. The last line may have grown or may have been overwritten.
fn find_overlap_end(seen: &str, new: &str) -> Option<(OutputJoin, usize)> {
    let (complete, open) = seen.rsplit_once('\n')?;
    let old: Vec<_> = complete.rsplit('\n').take(MAX_ALIGNED_LINES).collect();
    let lines: Vec<_> = new.split_inclusive('\n').collect();
    let mut best = (0, None);
    let mut start = 0;
    for at in 0..=lines.len() {
        let line = lines.get(at).copied().unwrap_or_default();
        let before = lines[..at].iter().rev().map(|line| line.trim_end_matches('\n'));
        let run = before.zip(&old).take_while(|(new, old)| new == *old).count();
        // A match of only blank lines or prefixes of lines is too common to be significant.
        let is_sure = old[..run].iter().any(|line| !line.is_empty());
        let is_same = !open.is_empty() && line.trim_end_matches('\n') == open;
        if line.starts_with(open) && (is_sure || is_same) && run + 1 > best.0 {
            best = (run + 1, Some((OutputJoin::Continues, start + open.len())));
        } else if is_sure && run > best.0 {
            best = (run, Some((OutputJoin::ReplacesLine, start)));
        }
        start += line.len();
    }
    best.1
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{MAX_REMEMBERED_OUTPUT_BYTES, OutputJoin, OutputPrinter};
    use crate::page::Page;

    /// Replaces a text by the following texts, one after the other. Returns the new part of the
    /// last text.
    fn replaced(texts: &[&str]) -> (OutputJoin, String) {
        let mut console = OutputPrinter::default();
        let mut last = (OutputJoin::Continues, String::new());
        for text in texts {
            let (joint, new) = console.take_new_text(text);
            last = (joint, new.to_owned());
        }
        last
    }

    #[test]
    fn only_the_new_part_of_a_text_is_found() {
        use OutputJoin::{AfterGap, Continues, ReplacesLine};
        for (texts, joint, expected) in [
            (&["$ c\na"][..], Continues, "$ c\na"),
            (&["$ c\na", "$ c\nab\nc"], Continues, "b\nc"),
            (&["$ c\na", "$ c\na"], Continues, ""),
            // The beginning of the text was omitted.
            (&["$ c\na\nb\nc", "$ c\n[…]\nb\nc\nd"], Continues, "\nd"),
            (&["$ c\na\nb\nwor", "$ c\n[…]\nb\nwork"], Continues, "k"),
            (&["$ c\na\nb\n10%", "$ c\n[…]\nb\n20%"], ReplacesLine, "20%"),
            // The first text contained only the end of the output, and the second text contains all
            // of it.
            (&["[…]\nb\nc", "a\nb\nc\nd"], Continues, "\nd"),
            // The longest run is used. Of several runs with the same length, the first is used.
            (&["x\nok\nok\nok\n-", "ok\nok\nok\nok\n-\ny"], Continues, "\ny"),
            (&["a\nok\nb\nok\n-", "[…]\nok\nb\nok\n-\nok"], Continues, "\nok"),
            (&["[…]\nlast", "a\nlast\nb\nlast"], Continues, "\nb\nlast"),
            // The texts have no common lines.
            (&["a\nb", "z\nbc"], AfterGap, "z\nbc"),
            (&["$ c\na\n\n", "$ c\n[…]\n\nz"], AfterGap, "[…]\n\nz"),
            (&["", "x"], Continues, "x"),
            (&["1 %", "2 %"], ReplacesLine, "2 %"),
            (&["100 %", "done\nx"], ReplacesLine, "done\nx"),
        ] {
            let found = replaced(texts);
            assert_eq!(found, (joint, expected.to_owned()), "{texts:?}");
        }
    }

    #[test]
    fn a_text_longer_than_the_remembered_part_still_grows() {
        let long = "line\n".repeat(MAX_REMEMBERED_OUTPUT_BYTES);
        let more = format!("{long}more");
        assert_eq!(replaced(&[&long, &more]), (OutputJoin::Continues, "more".to_owned()));
    }

    /// Prints pieces of output, optionally on a terminal.
    fn printed(pieces: &[&str], is_terminal: bool) -> String {
        let mut page = Page::new("/p".into(), 40);
        if is_terminal {
            page.enable_redraw();
        }
        let mut console = OutputPrinter::default();
        pieces.iter().for_each(|piece| console.print(OutputJoin::Continues, piece, &mut page));
        console.print_rest_at_call_end(&mut page);
        page.take_text()
    }

    #[test]
    fn an_overwritten_line_is_printed_once() {
        for pieces in [
            &["1%\r2%\r3%\nend\n"][..],
            &["1%", "\r2%", "\r3%", "\nend\n"],
            &["1%\r", "2%\r", "3%\r\n", "end"],
            &["1%\u{1b}[1G\u{1b}[0K", "2%\u{1b}[2K3%\nend"],
            &["|\u{8}/\u{8}-\u{8}3%\nend"],
        ] {
            assert_eq!(printed(pieces, false), "  │ 3%\n  │ end\n", "{pieces:?}");
        }
    }

    #[test]
    fn on_a_terminal_an_overwritten_line_is_redrawn() {
        assert_eq!(
            printed(&["10 %", "\r9 %", "\nend"], true),
            "  │ 10 %\r  │ 9 % \r  │ 9 %\n  │ end\r  │ end\n"
        );
        // The line is truncated, because a terminal cannot redraw a wrapped line.
        let long = "x".repeat(100);
        let shown = printed(&[&long], true);
        assert!(shown.starts_with(&format!("  │ {}…\r", "x".repeat(34))), "{shown}");
        assert!(shown.ends_with(&format!("{long}\n")), "{shown}");
    }

    #[test]
    fn a_tab_moves_to_the_next_tab_stop() {
        for (given, expected) in [
            ("a\tb\n", "a       b"),
            ("\tb\n", "        b"),
            ("漢字\u{1b}[31m\tb\u{1b}[0m\n", "漢字\u{1b}[31m    b\u{1b}[0m"),
            ("abcdefgh\tb\n", "abcdefgh        b"),
            ("abc\r\tb\n", "        b"),
        ] {
            assert_eq!(printed(&[given], false), format!("  │ {expected}\n"), "{given:?}");
        }
        let shown = printed(&["a\t\t\t\t\t\tb"], true);
        assert!(shown.starts_with(&format!("  │ a{}…\r", " ".repeat(33))), "{shown:?}");
    }

    #[test]
    fn only_colours_are_kept_and_only_within_their_lines() {
        let red = "\u{1b}[31m";
        for (pieces, expected) in [
            (&["\u{1b}[3", "1mred\u{1b}[0m plain\n"][..], format!("{red}red\u{1b}[0m plain")),
            (&["\u{1b}[31ma\nb\n"], format!("{red}a\u{1b}[0m\n  │ {red}b\u{1b}[0m")),
            (&["\u{1b}[1m\u{1b}[0;31ma\n"], format!("{red}a\u{1b}[0m")),
            (&["\u{1b}[38;2;0;0;1ma\n"], "\u{1b}[38;2;0;0;1ma\u{1b}[0m".to_owned()),
            (&["\u{1b}[8mhidden\n"], "hidden".to_owned()),
            (&["\u{1b}]0;title\u{7}\u{1b}[2Jx\u{9b}31my\u{1b}P1\u{1b}\\\n"], "x31my".to_owned()),
            (&["\u{1b}]0;never ended\nnext\n"], "\n  │ next".to_owned()),
            (&["\u{202e}x\n"], "\\u{202e}x".to_owned()),
        ] {
            let expected = format!("  │ {expected}\n").replace("│ \n", "│\n");
            assert_eq!(printed(pieces, false), expected, "{pieces:?}");
        }
        let endless = printed(&["\u{1b}[1m\u{1b}[22m".repeat(1_000).as_str(), "x\n"], false);
        assert!(endless.len() < 600, "{endless:?}");
    }

    #[test]
    fn no_output_draws_beyond_its_line() {
        let pieces = [
            "\u{1b}", "[", "]", "P", "é", "\u{9b}", "\u{85}", "€", "3", "m", "A", "\u{7}", "\\",
            "😀", "\n", "\r", "\u{8}", "38;5;8",
        ];
        for number in 0..pieces.len().pow(4) {
            let digits = (0..4).map(|place| number / pieces.len().pow(place) % pieces.len());
            let given: String = digits.map(|digit| pieces[digit]).collect();
            let shown = printed(&[&given], false);
            let rest = anstream::adapter::strip_str(&shown).to_string();
            assert!(rest.chars().all(|c| c == '\n' || !c.is_control()), "{given:?}: {shown:?}");
            let sequences = shown.split('\u{1b}').skip(1);
            assert!(sequences.into_iter().all(|it| it.starts_with('[') && it.contains('m')));
        }
    }
}
