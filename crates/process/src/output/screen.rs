//! A virtual terminal that returns the final text of lines that a program redraws.
//!
//! The terminal has no colours and no width: lines never wrap.

use std::collections::VecDeque;

use callboard_text::is_strippable_from_output;
use vte::{Params, Perform};

use super::escapes::{EscapeParser, is_emoji_joiner};
use crate::limits::{SCREEN_COLS, SCREEN_ROWS};

/// A text, and the number of characters that were removed from it because they hide or reorder
/// other characters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TextAndHiddenCharCount {
    pub(super) text: String,
    pub(super) hidden_chars: u64,
}

/// Returns the text that a terminal would show at the end.
pub(super) fn render_final_text(raw: &[u8]) -> TextAndHiddenCharCount {
    let (mut reader, mut screen) = (EscapeParser::default(), Screen::default());
    reader.parse_chunk(&mut screen, raw);
    reader.finish(&mut screen);
    screen.finish()
}

#[derive(Default)]
struct Screen {
    /// Lines that have left the screen and can no longer change.
    scrolled_off: String,
    page: ScreenPage,
    /// The page to restore when the program leaves the alternate screen.
    main_page: Option<ScreenPage>,
    saved_cursor: (usize, usize),
    hidden_chars: u64,
}

/// The lines that can still change, and the cursor.
#[derive(Default)]
struct ScreenPage {
    lines: VecDeque<Vec<char>>,
    row: usize,
    col: usize,
    /// Whether the next character replaces the whole line.
    restarts_line: bool,
}

impl ScreenPage {
    /// Returns the line of the cursor. The cursor may be below the last written line.
    fn cursor_line(&mut self) -> &mut Vec<char> {
        if self.lines.len() <= self.row {
            self.lines.resize_with(self.row + 1, Vec::new);
        }
        &mut self.lines[self.row]
    }

    fn put(&mut self, letter: char) {
        if std::mem::take(&mut self.restarts_line) {
            self.cursor_line().clear();
        }
        let col = self.col;
        let line = self.cursor_line();
        if line.len() < col {
            line.resize(col, ' ');
        }
        match line.get_mut(col) {
            Some(cell) => *cell = letter,
            None => line.push(letter),
        }
        self.col += 1;
    }

    fn move_cursor(&mut self, row: usize, col: usize) {
        (self.row, self.col) = (row.min(SCREEN_ROWS - 1), col.min(SCREEN_COLS.max(self.col)));
        self.restarts_line = false;
    }

    /// Erases a part of the cursor's line: from the cursor to the end (0), from the beginning to
    /// the cursor (1), or the whole line.
    fn erase_line(&mut self, how: usize) {
        let col = self.col;
        let line = self.cursor_line();
        match how {
            0 => line.truncate(col),
            1 => {
                let from = (col + 1).saturating_sub(SCREEN_COLS);
                line.iter_mut().take(col + 1).skip(from).for_each(|cell| *cell = ' ');
            }
            _ => line.clear(),
        }
    }

    /// Deletes characters at the cursor and moves the following characters left, within the
    /// screen's width.
    fn delete_chars_at_cursor(&mut self, count: usize) {
        let col = self.col;
        let line = self.cursor_line();
        let len = line.len();
        let Some(behind) = line.get_mut(col..len.min(col + SCREEN_COLS)) else { return };
        let count = count.min(behind.len());
        let stay = behind.len() - count;
        behind.rotate_left(count);
        behind[stay..].fill(' ');
        if len <= col + SCREEN_COLS {
            line.truncate(col + stay);
        }
    }

    fn append_page_to(&self, text: &mut String) {
        for (at, line) in self.lines.iter().enumerate() {
            if at > 0 {
                text.push('\n');
            }
            text.extend(line);
        }
    }

    /// Appends the lines as final text; later text begins on a new line.
    fn append_page_and_newline_to(&self, text: &mut String) {
        self.append_page_to(text);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }
}

impl Screen {
    fn finish(self) -> TextAndHiddenCharCount {
        let mut text = self.scrolled_off;
        if let Some(page) = self.main_page {
            page.append_page_and_newline_to(&mut text);
        }
        self.page.append_page_to(&mut text);
        TextAndHiddenCharCount { text, hidden_chars: self.hidden_chars }
    }

    fn newline(&mut self) {
        self.page.cursor_line();
        if self.page.row + 1 == SCREEN_ROWS {
            if let Some(line) = self.page.lines.pop_front()
                && self.main_page.is_none()
            {
                self.scrolled_off.extend(line);
                self.scrolled_off.push('\n');
            }
        } else {
            self.page.row += 1;
        }
        (self.page.col, self.page.restarts_line) = (0, false);
        self.page.cursor_line();
    }

    /// Starts an empty page, and keeps the text of the current page. Clearing the screen does not
    /// remove earlier output from the final text.
    fn start_new_page(&mut self) {
        let page = std::mem::take(&mut self.page);
        if self.main_page.is_none() && page.lines.iter().any(|line| !line.is_empty()) {
            page.append_page_and_newline_to(&mut self.scrolled_off);
        }
    }

    /// Switches between the main screen and the alternate screen of full-screen programs.
    fn switch_screen(&mut self, is_other: bool) {
        match (is_other, self.main_page.is_some()) {
            (true, false) => self.main_page = Some(std::mem::take(&mut self.page)),
            (false, true) => self.page = self.main_page.take().unwrap_or_default(),
            _ => {}
        }
    }
}

impl Perform for Screen {
    fn print(&mut self, letter: char) {
        if is_strippable_from_output(letter) {
            self.hidden_chars += u64::from(!is_emoji_joiner(letter));
        } else if !letter.is_control() {
            self.page.put(letter);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => self.newline(),
            b'\r' => (self.page.col, self.page.restarts_line) = (0, true),
            b'\x08' => self.page.col = self.page.col.saturating_sub(1),
            b'\t' => self.page.put('\t'),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, end: char) {
        let mut params = params.iter().map(|param| usize::from(param[0]));
        let how = params.next().unwrap_or(0);
        let (count, second) = (how.max(1), params.next().unwrap_or(0).max(1));
        let page = &mut self.page;
        let (row, col) = (page.row, page.col);
        match (intermediates, end) {
            _ if ignore => {}
            (b"?", 'h' | 'l') if matches!(how, 47 | 1047 | 1049) => self.switch_screen(end == 'h'),
            (b"", 'A') => page.move_cursor(row.saturating_sub(count), col),
            (b"", 'B' | 'e') => page.move_cursor(row + count, col),
            (b"", 'C' | 'a') => page.move_cursor(row, col + count),
            (b"", 'D') => page.move_cursor(row, col.saturating_sub(count)),
            (b"", 'E') => page.move_cursor(row + count, 0),
            (b"", 'F') => page.move_cursor(row.saturating_sub(count), 0),
            (b"", 'G' | '`') => page.move_cursor(row, count - 1),
            (b"", 'd') => page.move_cursor(count - 1, col),
            (b"", 'H' | 'f') => page.move_cursor(count - 1, second - 1),
            (b"", 'J') if how >= 2 => self.start_new_page(),
            (b"", 'J') if how == 0 => {
                page.erase_line(0);
                page.lines.truncate(row + 1);
            }
            (b"", 'K') => page.erase_line(how),
            (b"", 'P') => page.delete_chars_at_cursor(count),
            (b"", 'X') => {
                let count = count.min(SCREEN_COLS);
                page.cursor_line().iter_mut().skip(col).take(count).for_each(|cell| *cell = ' ');
            }
            (b"", 's') => self.saved_cursor = (row, col),
            (b"", 'u') => page.move_cursor(self.saved_cursor.0, self.saved_cursor.1),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _: bool, end: u8) {
        let page = &mut self.page;
        match (intermediates, end) {
            (b"", b'7') => self.saved_cursor = (page.row, page.col),
            (b"", b'8') => page.move_cursor(self.saved_cursor.0, self.saved_cursor.1),
            (b"", b'M') => page.move_cursor(page.row.saturating_sub(1), page.col),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::render_final_text;
    use pretty_assertions::assert_eq;

    #[test]
    fn redrawn_lines_have_their_last_state() {
        for (raw, expected) in [
            // Several progress bars at once, each on a separate line.
            ("a 1\nb 1\n\x1b[2A\x1b[2Ka 2\n\x1b[2Kb 2\n", "a 2\nb 2\n"),
            ("a 1\nb 1\x1b[1A\ra 2\x1b[1B\rb 2\n", "a 2\nb 2\n"),
            ("a\nb\nc\x1b[2F\x1b[Jd\n", "d\n"),
            ("50 %\x1b[1G100 %", "100 %"),
            ("50 %\x1b[4D75", "75 %"),
            ("\x1b7a\x1b8b", "b"),
            ("\x1b[sa\x1b[ub", "b"),
            ("abc\x1b[2D\x1b[1Pd", "ad"),
            ("abcd\x1b[3D\x1b[2P\x1b[Ce", "ade"),
            ("abc\x1b[3D\x1b[9Pd", "d"),
            ("abc\x1b[3D\x1b[2X.", ". c"),
            ("abcd\x1b[2D\x1b[1K\x1b[3DX", "X  d"),
            ("a\x1b[3Cb", "a   b"),
            ("one\x1b[3;3Htwo", "one\n\n  two"),
            // A cleared screen keeps its text; the alternate screen does not.
            ("before\n\x1b[2J\x1b[Hafter", "before\nafter"),
            ("before\n\x1b[?1049hmenu\n\x1b[?1049lafter", "before\nafter"),
            ("before\n\x1b[?1049hmenu", "before\nmenu"),
            // Cursor movements stay within the screen.
            ("a\x1b[99A\x1b[Gb", "b"),
        ] {
            assert_eq!(render_final_text(raw.as_bytes()).text, expected, "{raw:?}");
        }
    }

    #[test]
    fn lines_that_left_the_screen_stay_as_they_are() {
        let lines: String = (1..=100).map(|line| format!("{line}\n")).collect();
        let drawn = render_final_text(format!("{lines}\x1b[200A\x1b[2Kx").as_bytes()).text;
        assert_eq!(drawn.lines().nth(60), Some("61"));
        assert_eq!(drawn.lines().nth(61), Some("x"));
        assert_eq!(drawn.lines().count(), 100);
    }

    #[test]
    fn hiding_characters_are_omitted_and_counted() {
        for (raw, text, hidden) in [
            ("a\u{202e}b\u{2066}c\u{200b}", "abc", 3),
            ("rm\u{e0041}\u{e0042}", "rm", 2),
            // Legitimate joiners (emoji) are not counted.
            ("✔\u{fe0f} 👩\u{200d}🔬\u{feff}", "✔ 👩🔬", 0),
            ("é\u{a0}\u{3000}ß", "é\u{a0}\u{3000}ß", 0),
        ] {
            let read = render_final_text(raw.as_bytes());
            assert_eq!((read.text.as_str(), read.hidden_chars), (text, hidden), "{raw:?}");
        }
    }

    #[test]
    fn movements_cost_no_more_than_a_screen() {
        let far = "\x1b[65535;65535Hx\r\n".repeat(1_000);
        assert!(render_final_text(far.as_bytes()).text.len() < 1_000 * 300);
        // Very long lines do not take quadratic time either. With quadratic time, each of these
        // inputs would take minutes.
        for again in ["\x1b[1K", "\x1b[65535X", "\x1b[G\x1b[P", "\x1b[G\x1b[65535X"] {
            let long = "x".repeat(500_000) + &again.repeat(50_000);
            assert!(render_final_text(long.as_bytes()).text.len() > 400_000);
        }
    }
}
