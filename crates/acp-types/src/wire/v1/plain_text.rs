//! Converts terminal output to plain text, for clients that display no terminals.

use std::iter::Peekable;
use std::str::Chars;

use callboard_text::is_strippable_from_output;

/// Returns terminal output as plain text, without escape sequences and without
/// [strippable](callboard_text::is_strippable_from_output) characters. If a program redraws a line,
/// the text contains only the last state of the line.
///
/// Supports the cursor movements that programs use to redraw lines. The cursor never moves beyond
/// existing text, so the result is never longer than the output.
pub(super) fn to_plain_text(output: &str) -> String {
    let mut page = OutputScreen::default();
    let mut letters = output.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => apply_escape_sequence(&mut letters, &mut page),
            '\n' => page.newline(),
            '\r' => (page.col, page.carriage_returned) = (0, true),
            '\u{8}' => page.col = page.col.saturating_sub(1),
            '\t' => page.put_char('\t'),
            letter if letter.is_control() || is_strippable_from_output(letter) => {}
            letter => page.put_char(letter),
        }
    }
    page.into_text()
}

/// A screen of unlimited width: its lines and the cursor.
struct OutputScreen {
    /// The lines of the screen; there is always at least one.
    lines: Vec<Vec<char>>,
    row: usize,
    col: usize,
    /// Whether the cursor follows a carriage return, so that the next character replaces the whole
    /// line.
    carriage_returned: bool,
}

impl Default for OutputScreen {
    fn default() -> Self {
        Self { lines: vec![Vec::new()], row: 0, col: 0, carriage_returned: false }
    }
}

impl OutputScreen {
    fn put_char(&mut self, letter: char) {
        let Some(line) = self.lines.get_mut(self.row) else { return };
        if std::mem::take(&mut self.carriage_returned) {
            line.clear();
        }
        let col = self.col.min(line.len());
        match line.get_mut(col) {
            Some(cell) => *cell = letter,
            None => line.push(letter),
        }
        self.col = col + 1;
    }

    fn newline(&mut self) {
        self.move_cursor(self.row + 1, 0);
        if self.row == self.lines.len() {
            self.lines.push(Vec::new());
        }
    }

    fn move_cursor(&mut self, row: usize, col: usize) {
        (self.row, self.col, self.carriage_returned) = (row, col, false);
    }

    /// Applies a control sequence (ECMA-48); ignores unsupported sequences.
    fn apply_control_sequence(&mut self, number: usize, end: char) {
        let count = number.max(1);
        let up = self.row.saturating_sub(count);
        let down = self.row.saturating_add(count).min(self.lines.len() - 1);
        match (end, number) {
            ('A', _) => self.move_cursor(up, self.col),
            ('B', _) => self.move_cursor(down, self.col),
            ('C', _) => self.move_cursor(self.row, self.col.saturating_add(count)),
            ('D', _) => self.move_cursor(self.row, self.col.saturating_sub(count)),
            ('E', _) => self.move_cursor(down, 0),
            ('F', _) => self.move_cursor(up, 0),
            ('G', _) => self.move_cursor(self.row, count - 1),
            ('J', 0) => {
                self.erase_line_from(self.col);
                self.lines.truncate(self.row + 1);
            }
            ('K', 0) => self.erase_line_from(self.col),
            ('K', 2) => self.erase_line_from(0),
            _ => {}
        }
    }

    /// Erases the cursor's line from a column to the end of the line.
    fn erase_line_from(&mut self, col: usize) {
        if let Some(line) = self.lines.get_mut(self.row) {
            line.truncate(col);
        }
    }

    fn into_text(self) -> String {
        let mut text = String::with_capacity(self.lines.iter().map(|line| line.len() + 1).sum());
        for (at, line) in self.lines.iter().enumerate() {
            if at > 0 {
                text.push('\n');
            }
            text.extend(line);
        }
        text
    }
}

/// Parses the rest of an escape sequence (ECMA-48). A CSI sequence ends with its final byte, and
/// OSC and other strings end with their terminator. Any other sequence has one or two characters.
fn apply_escape_sequence(letters: &mut Peekable<Chars<'_>>, page: &mut OutputScreen) {
    match letters.next() {
        Some('[') => {
            let mut params = String::new();
            while let Some(letter) = letters.next_if(|letter| !letter.is_control()) {
                if ('\u{40}'..='\u{7e}').contains(&letter) {
                    // If the first parameter is not a number, the sequence is specific to some
                    // terminals and is ignored.
                    let first = params.split(';').next().unwrap_or_default();
                    if let Ok(number) = if first.is_empty() { Ok(0) } else { first.parse() } {
                        page.apply_control_sequence(number, letter);
                    }
                    break;
                }
                params.push(letter);
            }
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(letter) = letters.next() {
                if letter == '\u{7}' || (letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some())
                {
                    break;
                }
            }
        }
        Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
            letters.next();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::to_plain_text;

    #[test]
    fn output_becomes_plain_text() {
        for (output, expected) in [
            ("a\r\nb\n", "a\nb\n"),
            ("10%\r50%\r100%\n", "100%\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]52;c;never ended", ""),
            ("\u{1b}(Bx", "x"),
            ("ab\u{8}c", "ac"),
            ("\u{0}\u{7}é", "é"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("a\r", "a"),
            ("a\r\r\nb", "a\nb"),
        ] {
            assert_eq!(to_plain_text(output), expected, "{output:?}");
        }
    }

    #[test]
    fn redrawn_lines_show_their_last_state() {
        for (output, expected) in [
            ("a 1\nb 1\n\u{1b}[2A\u{1b}[2Ka 2\n\u{1b}[2Kb 2\n", "a 2\nb 2\n"),
            ("a 1\nb 1\u{1b}[1A\ra 2\u{1b}[1B\rb 2\n", "a 2\nb 2\n"),
            ("a\nb\nc\u{1b}[2F\u{1b}[Jd\n", "d\n"),
            ("50 %\u{1b}[1G100 %", "100 %"),
            ("50 %\u{1b}[4D75", "75 %"),
            ("Building 3/4\r\u{1b}[K", ""),
            ("|\u{8}/\u{8}-\u{8}done", "done"),
            ("é\u{8}e", "e"),
            // Private and unsupported sequences are ignored.
            ("a\u{1b}[?2Kb\u{1b}[1Kc\u{1b}[2Jd\u{1b}[Ae", "abcde"),
            // The cursor never moves beyond existing text.
            ("a\u{1b}[99A\u{1b}[99G\u{1b}[99Cb\u{1b}[99Bc", "abc"),
            ("a\u{1b}[99999999999999999999999Ab", "ab"),
        ] {
            assert_eq!(to_plain_text(output), expected, "{output:?}");
        }
    }

    #[test]
    fn hiding_and_reordering_characters_are_removed() {
        assert_eq!(to_plain_text("a\u{202e}b\u{2066}c\u{200b}d\u{e0041}\u{feff}"), "abcd");
        assert_eq!(to_plain_text("é\u{a0}\u{3000}ß\u{2800}"), "é\u{a0}\u{3000}ß\u{2800}");
    }

    #[test]
    fn plain_text_is_never_longer_than_the_output() {
        let long = "x".repeat(40_000) + &"\n\u{1b}[A\u{1b}[K\u{1b}[65535Gy\u{1b}[A".repeat(10_000);
        assert!(to_plain_text(&long).len() <= long.len());
    }
}
