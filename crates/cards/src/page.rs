//! Collects the text to print next. Records which item (e.g. a call or a message) the last text
//! belongs to, and whether the last line is complete.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use acp_types::meta::DEFAULT_KEY;
use acp_types::schema::v1::{MessageId, ToolCallId};
use anstyle::{AnsiColor, Style};
use callboard_text::{is_invisible, path_text};

use super::limits::MAX_LINE_CHARS;
use super::sanitise;
use super::ui_text::UiText;

/// The text to print, its styles, and the position on the page.
#[derive(Debug)]
pub(super) struct Page {
    /// Directory to which displayed paths are relative.
    pub(super) cwd: PathBuf,
    /// Width of a line in columns.
    pub(super) width: usize,
    /// Styles of the text.
    pub(super) palette: Palette,
    /// Translated text of the renderer.
    pub(super) words: UiText,
    /// Key in `_meta` for data that have no field in the protocol.
    pub(super) meta_key: String,
    /// Owner of the text that was printed last.
    pub(super) owner: TextOwner,
    text: String,
    /// Number of line endings at the end of the printed text; two form a blank line.
    line_ends: usize,
    /// Number of characters in the incomplete line.
    column: usize,
    /// Number of columns of the incomplete line, if the line may be redrawn.
    drawn_columns: Option<usize>,
    /// Whether an incomplete line can be redrawn.
    is_terminal: bool,
}

/// The owner of a text on the page, i.e. the item to which the text belongs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TextOwner {
    Nobody,
    Message(Option<MessageId>),
    Thought(Option<MessageId>),
    Plan,
    /// A call whose only printed text is its title line.
    CallHead(ToolCallId),
    Call(ToolCallId),
}

/// The styles of the text. By default, all of them are plain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Palette {
    pub(super) good: Style,
    pub(super) bad: Style,
    pub(super) ask: Style,
    pub(super) dim: Style,
    pub(super) bold: Style,
    pub(super) italic: Style,
    pub(super) title: Style,
    pub(super) strike: Style,
    pub(super) code: Style,
}

impl Palette {
    pub(super) fn coloured() -> Self {
        Self {
            good: AnsiColor::Green.on_default(),
            bad: AnsiColor::Red.on_default(),
            ask: AnsiColor::Yellow.on_default(),
            dim: Style::new().dimmed(),
            bold: Style::new().bold(),
            italic: Style::new().italic(),
            title: Style::new().bold().underline(),
            strike: Style::new().strikethrough(),
            code: AnsiColor::Cyan.on_default(),
        }
    }
}

impl Page {
    pub(super) fn new(cwd: PathBuf, width: usize) -> Self {
        Self {
            cwd,
            width,
            palette: Palette::default(),
            words: UiText::default(),
            meta_key: DEFAULT_KEY.to_owned(),
            owner: TextOwner::Nobody,
            text: String::new(),
            line_ends: 2,
            column: 0,
            drawn_columns: None,
            is_terminal: false,
        }
    }

    /// Enables redrawing of incomplete lines.
    pub(super) fn enable_redraw(&mut self) {
        self.is_terminal = true;
    }

    /// Returns whether lines can be redrawn.
    pub(super) fn can_redraw_lines(&self) -> bool {
        self.is_terminal
    }

    /// Returns the text written since the last call.
    pub(super) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Writes `text`, which must be escaped.
    pub(super) fn write_styled_text(&mut self, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        self.drawn_columns = None;
        let words = text.trim_end_matches('\n');
        if !words.is_empty() {
            self.text.push_str(&format!("{style}{words}{style:#}"));
        }
        self.text.push_str(&text[words.len()..]);
        let line = text.rfind('\n').map_or(text, |end| &text[end + 1..]);
        let ends = text.len() - words.len();
        self.line_ends = if words.is_empty() { self.line_ends + ends } else { ends };
        self.column = line.chars().count() + if line.len() == text.len() { self.column } else { 0 };
    }

    /// Writes a line of plain text.
    pub(super) fn write_line(&mut self, text: &str) {
        self.write_styled_text(Style::new(), text);
        self.write_styled_text(Style::new(), "\n");
    }

    /// Writes a line with colour sequences.
    pub(super) fn write_line_with_ansi_codes(&mut self, line: &str) {
        self.end_open_line();
        let is_empty = line.is_empty();
        self.text.push_str(line);
        self.text.push('\n');
        (self.drawn_columns, self.column) = (None, 0);
        self.line_ends = if is_empty { self.line_ends + 1 } else { 1 };
    }

    /// Draws a line with colour sequences and `columns` columns. If the last line was drawn too,
    /// the new line overwrites it.
    pub(super) fn redraw_line(&mut self, line: &str, columns: usize) {
        let before = self.move_to_redraw_start();
        self.text.push_str(line);
        self.text.push_str(&" ".repeat(before.saturating_sub(columns)));
        (self.drawn_columns, self.line_ends, self.column) = (Some(columns), 0, columns);
    }

    /// Draws a line like [`Page::redraw_line`] and ends it.
    pub(super) fn redraw_and_end_line(&mut self, line: &str, columns: usize) {
        self.redraw_line(line, columns);
        self.text.push('\n');
        (self.drawn_columns, self.line_ends, self.column) = (None, 1, 0);
    }

    /// Moves to the start of the drawn line, or to a new line. Returns the number of columns to
    /// overwrite.
    fn move_to_redraw_start(&mut self) -> usize {
        if let Some(columns) = self.drawn_columns {
            self.text.push('\r');
            return columns;
        }
        self.end_open_line();
        0
    }

    /// Returns whether the next text starts a line.
    pub(super) fn is_at_line_start(&self) -> bool {
        self.line_ends > 0
    }

    /// Ends the incomplete line.
    pub(super) fn end_open_line(&mut self) {
        if !self.is_at_line_start() {
            self.write_styled_text(Style::new(), "\n");
        }
    }

    /// Adds a blank line, unless the page already ends with a blank line.
    pub(super) fn ensure_blank_line(&mut self) {
        while self.line_ends < 2 {
            self.write_styled_text(Style::new(), "\n");
        }
    }

    /// Writes a piece of a call's text after a gutter. The piece may start and end within a line.
    pub(super) fn write_with_gutter(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            let (line, end) = match piece.strip_suffix('\n') {
                Some(line) => (line, "\n"),
                None => (piece, ""),
            };
            if self.is_at_line_start() {
                let gutter = if line.is_empty() { "  │" } else { "  │ " };
                self.write_styled_text(self.palette.dim, gutter);
            }
            let room = MAX_LINE_CHARS.saturating_sub(self.column);
            if room > 0 {
                self.write_styled_text(Style::new(), &sanitise::truncate_line(line, room));
            }
            self.write_styled_text(Style::new(), end);
        }
    }

    /// Returns a path of a message for display. A path below `cwd` is relative to `cwd`.
    pub(super) fn display_path(&self, path: &Path) -> String {
        display_path(&self.cwd, path)
    }
}

/// Returns a path of a message for display. A path below `cwd` is relative to `cwd`.
///
/// A message contains a path that is not UTF-8 as its [text](path_text), which must not be quoted
/// again. Such a text contains no invisible characters.
pub(super) fn display_path(cwd: &Path, path: &Path) -> String {
    let cwd_text = path_text(cwd);
    let below = path.strip_prefix(cwd).or_else(|_| path.strip_prefix(&*cwd_text)).unwrap_or(path);
    let path = if below.as_os_str().is_empty() { path } else { below };
    let plain = path.to_str().filter(|text| !text.contains(is_invisible));
    sanitise::escape_line(&plain.map_or_else(|| path_text(path), Cow::Borrowed))
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use callboard_text::quote_path_unless_utf8;
    use pretty_assertions::assert_eq;

    use super::display_path;

    #[test]
    fn a_path_of_a_message_is_quoted_at_most_once() {
        for (cwd, path, shown) in [
            (&b"/p"[..], &b"/p/a.txt"[..], "a.txt"),
            (b"/p", b"/p/a\xff.txt", r"$'a\xff.txt'"),
            (b"/p", b"/q\xff/a.txt", r"/$'q\xff'/a.txt"),
            (b"/p", b"/p/a\nb", r"$'a\nb'"),
            (b"/p", b"/p/$'a'", "$'a'"),
            (b"/p\xff", b"/p\xff/a\xfe", r"$'a\xfe'"),
            (b"/p\n", b"/p\n/a\xff", r"$'a\xff'"),
            (b"/p\n", b"/p\n/a", "a"),
            (b"/p", b"/p", "/p"),
        ] {
            let [cwd, path] = [cwd, path].map(|bytes| Path::new(OsStr::from_bytes(bytes)));
            assert_eq!(display_path(cwd, &quote_path_unless_utf8(path)), shown, "{path:?}");
        }
    }
}
