//! Reads the output of a command as lines with styles, as a terminal would show them.
//!
//! Colours are kept, and all other escape sequences are removed. If a command overwrites a line
//! (e.g. a progress bar), only the last state of the line is kept.

use std::fmt::{self, Write as _};
use std::mem;

use anstyle::{Ansi256Color, AnsiColor, Color, Effects, RgbColor, Style};
use callboard_text::head;
use vte::{Params, Parser, Perform};

use super::limits::MAX_LINE_CHARS;
use super::markdown::{char_width, display_width};
use super::sanitise;

/// Number of columns between two tab stops.
const TAB_COLUMNS: usize = 8;

/// Maximum number of bytes that are passed to the parser at once.
const PARSER_CHUNK_BYTES: usize = 512;

/// Splits output into lines. The output may arrive in pieces, and a piece may end within an escape
/// sequence.
pub(super) struct LineReader {
    parser: Parser,
    line: OutputLine,
}

impl fmt::Debug for LineReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LineReader").field("line", &self.line).finish_non_exhaustive()
    }
}

impl Default for LineReader {
    fn default() -> Self {
        Self::new(MAX_LINE_CHARS)
    }
}

impl LineReader {
    /// Creates a reader that keeps `max_chars` characters of a line, and one more character to make
    /// a truncation visible. All further characters are only counted.
    pub(super) fn new(max_chars: usize) -> Self {
        Self { parser: Parser::new(), line: OutputLine::new(max_chars, Style::new()) }
    }

    /// Reads a part of a line, and returns the line if the part ends with a newline.
    pub(super) fn push_line_part(&mut self, part: &str) -> Option<OutputLine> {
        let mut rest = part.strip_suffix('\n').unwrap_or(part);
        let is_ended = rest.len() < part.len();
        // After each invalid character, the parser searches its whole input for an escape again.
        // With small chunks, this repeated search stays fast.
        while !rest.is_empty() {
            let chunk = head(rest, PARSER_CHUNK_BYTES);
            self.parser.advance(&mut self.line, chunk.as_bytes());
            rest = &rest[chunk.len()..];
        }
        is_ended.then(|| {
            // Forget an unterminated escape sequence at the end of its line, so that it does not
            // hide later lines.
            self.parser = Parser::new();
            self.take_current_line(self.line.style)
        })
    }

    /// Returns the incomplete line.
    pub(super) fn line(&self) -> &OutputLine {
        &self.line
    }

    /// Makes the next character replace the incomplete line.
    pub(super) fn restart_line(&mut self) {
        self.line.overwrite_on_next = true;
    }

    /// Ends the incomplete line, and returns it unless it is empty.
    pub(super) fn take_open_line(&mut self) -> Option<OutputLine> {
        (!self.line.is_empty()).then(|| self.take_current_line(Style::new()))
    }

    fn take_current_line(&mut self, next_style: Style) -> OutputLine {
        let next = OutputLine::new(self.line.max_chars, next_style);
        mem::replace(&mut self.line, next)
    }
}

/// A line as a terminal would show it, i.e. the text after the last `\r`.
#[derive(Debug, Clone)]
pub(super) struct OutputLine {
    max_chars: usize,
    spans: Vec<(Style, String)>,
    chars: usize,
    columns: usize,
    /// Number of characters beyond the limit. These characters are not kept.
    omitted_chars: usize,
    /// Style of the next character.
    style: Style,
    /// Whether the next character replaces the line.
    overwrite_on_next: bool,
}

impl OutputLine {
    fn new(max_chars: usize, style: Style) -> Self {
        Self {
            max_chars,
            spans: Vec::new(),
            chars: 0,
            columns: 0,
            omitted_chars: 0,
            style,
            overwrite_on_next: false,
        }
    }

    /// Returns whether the line has no characters.
    pub(super) fn is_empty(&self) -> bool {
        self.chars == 0
    }

    /// Returns the unescaped texts of the line with their styles.
    pub(super) fn spans(&self) -> &[(Style, String)] {
        &self.spans
    }

    /// Returns the number of characters that were not kept.
    pub(super) fn omitted_chars(&self) -> usize {
        self.omitted_chars
    }

    /// Returns the line with its colours, truncated to about `room` columns, and its width in
    /// columns.
    pub(super) fn render(&self, room: usize) -> (String, usize) {
        let (mut shown, mut used) = (String::new(), 0);
        for (style, words) in &self.spans {
            let mut words = sanitise::escape_message_chunk(words);
            let mut columns = display_width(&words);
            let is_cut = used + columns > room;
            while used + columns > room && words.pop().is_some() {
                columns = display_width(&words) + 1;
            }
            if is_cut {
                words.push('…');
            }
            // Writing to a string cannot fail.
            write!(shown, "{style}{words}{style:#}").unwrap_or_default();
            used += columns;
            if is_cut {
                break;
            }
        }
        (shown, used)
    }

    fn clear(&mut self) {
        *self = Self::new(self.max_chars, self.style);
    }

    /// Applies the parameters of a colour sequence (SGR in ECMA-48) to later text. Parameters that
    /// hide text or make it blink are ignored.
    fn apply_sgr(&mut self, params: &Params) {
        // Parameters of an extended colour may be separated by semicolons or by colons.
        let mut params = params.iter();
        while let Some(param) = params.next() {
            let code = param[0];
            match code {
                38 | 48 => {
                    let colour = match param {
                        [_] => extended_colour(params.by_ref().map(|param| param[0])),
                        // In the form with colons, the number of a colour space may precede the
                        // three components of a colour.
                        [_, 2, _, rgb @ ..] if rgb.len() >= 3 => {
                            extended_colour([2].into_iter().chain(rgb.iter().copied()))
                        }
                        [_, parts @ ..] => extended_colour(parts.iter().copied()),
                        [] => None,
                    };
                    self.style = match code {
                        38 => self.style.fg_color(colour),
                        _ => self.style.bg_color(colour),
                    };
                }
                // The colour of an underline is ignored, but its parameters must be skipped.
                58 if param.len() == 1 => {
                    let _: Option<Color> = extended_colour(params.by_ref().map(|param| param[0]));
                }
                4 if param.get(1) == Some(&0) => self.remove_effects(Effects::UNDERLINE),
                _ => self.apply_code(code),
            }
        }
    }

    fn apply_code(&mut self, code: u16) {
        let style = self.style;
        match code {
            0 => self.style = Style::new(),
            1 => self.style = style.bold(),
            2 => self.style = style.dimmed(),
            3 => self.style = style.italic(),
            4 | 21 => self.style = style.underline(),
            7 => self.style = style.invert(),
            9 => self.style = style.strikethrough(),
            22 => self.remove_effects(Effects::BOLD | Effects::DIMMED),
            23 => self.remove_effects(Effects::ITALIC),
            24 => self.remove_effects(Effects::UNDERLINE),
            27 => self.remove_effects(Effects::INVERT),
            29 => self.remove_effects(Effects::STRIKETHROUGH),
            30..=37 | 90..=97 => self.style = style.fg_color(colour_from_sgr_offset(code - 30)),
            39 => self.style = style.fg_color(None),
            40..=47 | 100..=107 => self.style = style.bg_color(colour_from_sgr_offset(code - 40)),
            49 => self.style = style.bg_color(None),
            _ => {}
        }
    }

    fn remove_effects(&mut self, effects: Effects) {
        self.style = self.style.effects(self.style.get_effects().remove(effects));
    }
}

/// Returns one of the 16 colours. The numbers 0 to 7 are normal colours, and 60 to 67 are bright
/// colours.
fn colour_from_sgr_offset(number: u16) -> Option<Color> {
    let index = if number >= 60 { number - 60 + 8 } else { number };
    let index = Ansi256Color(u8::try_from(index).ok()?);
    index.into_ansi().map(AnsiColor::into)
}

/// Parses `5;NUMBER` or `2;RED;GREEN;BLUE`. Returns `None` for anything else.
fn extended_colour(mut params: impl Iterator<Item = u16>) -> Option<Color> {
    let kind = params.next()?;
    let mut part = || u8::try_from(params.next()?).ok();
    match kind {
        5 => {
            let colour = Ansi256Color(part()?);
            Some(colour.into_ansi().map_or(Color::Ansi256(colour), Color::Ansi))
        }
        2 => {
            let (red, green, blue) = (part(), part(), part());
            Some(RgbColor(red?, green?, blue?).into())
        }
        _ => None,
    }
}

impl Perform for OutputLine {
    fn print(&mut self, letter: char) {
        if mem::take(&mut self.overwrite_on_next) {
            self.clear();
        }
        if letter.is_control() {
            return;
        }
        if self.chars > self.max_chars {
            self.omitted_chars += 1;
            return;
        }
        match self.spans.last_mut() {
            Some((style, words)) if *style == self.style => words.push(letter),
            _ => self.spans.push((self.style, letter.into())),
        }
        self.chars += 1;
        self.columns += char_width(letter);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.overwrite_on_next = true,
            b'\t' => {
                let column = if self.overwrite_on_next { 0 } else { self.columns };
                (column % TAB_COLUMNS..TAB_COLUMNS).for_each(|_| self.print(' '));
            }
            // Backspace, as used by spinners.
            b'\x08' => {
                if let Some(letter) = self.spans.last_mut().and_then(|(_, words)| words.pop()) {
                    self.chars -= 1;
                    self.columns -= char_width(letter);
                }
                self.spans.pop_if(|(_, words)| words.is_empty());
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, end: char) {
        let first = params.iter().next().map_or(0, |param| param[0]);
        match (intermediates, end) {
            _ if ignore => {}
            (b"", 'm') => self.apply_sgr(params),
            (b"", 'G') if first <= 1 => self.overwrite_on_next = true,
            (b"", 'K') if self.overwrite_on_next || first == 2 => self.clear(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use anstyle::{AnsiColor, RgbColor, Style};
    use pretty_assertions::assert_eq;

    use super::LineReader;

    #[test]
    fn every_form_of_a_colour_is_parsed() {
        let red = AnsiColor::Red.on_default();
        let rgb = Style::new().fg_color(Some(RgbColor(1, 2, 3).into()));
        let cyan_on_red = AnsiColor::BrightCyan.on(AnsiColor::Red);
        for (sequence, expected) in [
            ("31", red),
            ("1;31;22", red),
            ("38;5;1", red),
            ("38:5:1", red),
            ("38;2;1;2;3", rgb),
            ("38:2:1:2:3", rgb),
            ("38:2::1:2:3", rgb),
            ("58;5;9;31", red),
            ("96;41", cyan_on_red),
            ("31;39", Style::new()),
            ("7;27;8;5", Style::new()),
            ("4:3", Style::new().underline()),
            ("4;4:0", Style::new()),
            ("1;2;3;4;9;23;29", Style::new().bold().dimmed().underline()),
            ("31;", Style::new()),
            ("38;5", Style::new()),
        ] {
            let mut reader = LineReader::default();
            reader.push_line_part(&format!("\u{1b}[{sequence}mx"));
            let line = reader.take_open_line().unwrap();
            assert_eq!(line.spans(), [(expected, "x".to_owned())], "{sequence}");
        }
    }
}
