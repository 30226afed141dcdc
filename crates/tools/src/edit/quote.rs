//! Quotes lines of the file in error messages. Apart from quotes, error messages contain no text of
//! the file.

use std::fmt;
use std::ops::Range;

use callboard_text::{head, wrap_in_code_fence};

use super::line_number_at_offset;
use crate::limits::{MAX_EDIT_CONTEXT_LINE_BYTES, MAX_QUOTED_BYTES, MAX_QUOTED_LINES};

/// Minimum similarity in percent at which a place is treated as the intended place.
const CONFIDENT_PERCENT: u8 = 85;

/// Number of lines that a quote shows before the first differing line if not all lines fit into the
/// quote.
const CONTEXT_LINES_BEFORE: usize = 3;

/// Lines of the file that an error message quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotedLines {
    /// The number of the first quoted line, counted from 1.
    pub line: u32,
    /// The quoted lines, joined with line feeds.
    pub text: String,
    /// Whether the quote shows only a part of the lines.
    pub is_truncated: bool,
    /// Whether the quote shows only a part of one line.
    pub is_partial_line: bool,
    /// Whether the quoted text occurs only once in the file.
    pub is_unique: bool,
}

impl QuotedLines {
    /// Quotes consecutive lines of a file. `first` is the number of the first line, counted from 0.
    /// If not all lines fit into the quote, only lines around the line `differs` are shown. If even
    /// that line is too long, only the bytes around its first difference are shown.
    pub(super) fn from_lines(
        lines: &[&str],
        first: usize,
        (differs, column): (usize, usize),
        is_alone: impl Fn(&str) -> bool,
    ) -> Self {
        let (mut shown, mut room) = (differs..differs, MAX_QUOTED_BYTES);
        let steps = [
            (ExtendedSide::After, 1),
            (ExtendedSide::Before, CONTEXT_LINES_BEFORE),
            (ExtendedSide::After, MAX_QUOTED_LINES),
            (ExtendedSide::Before, MAX_QUOTED_LINES),
        ];
        for (side, most) in steps {
            for _ in 0..most.min(MAX_QUOTED_LINES - shown.len()) {
                let next = match side {
                    ExtendedSide::Before => shown.start.checked_sub(1),
                    ExtendedSide::After => Some(shown.end).filter(|at| *at < lines.len()),
                };
                let rest = next.and_then(|at| room.checked_sub(lines[at].len() + 1));
                let (Some(at), Some(rest)) = (next, rest) else { break };
                shown = shown.start.min(at)..shown.end.max(at + 1);
                room = rest;
            }
        }
        if shown.is_empty() {
            let half = MAX_QUOTED_BYTES / 2;
            let around = column.saturating_sub(half)..column.saturating_add(half);
            return Self::from_byte_range_of_line(lines[differs], first + differs, around);
        }
        let text = lines[shown.clone()].join("\n");
        let (is_cut, is_alone) = (shown.len() < lines.len(), is_alone(&text));
        Self {
            line: line_number_from_index(first + shown.start),
            text,
            is_truncated: is_cut,
            is_partial_line: false,
            is_unique: is_alone,
        }
    }

    /// Quotes a part of a line, with some text before and after it.
    pub(super) fn from_line_part(line: &str, at: usize, part: Range<usize>) -> Self {
        let part = part.start.saturating_sub(MAX_EDIT_CONTEXT_LINE_BYTES)
            ..part.end + MAX_EDIT_CONTEXT_LINE_BYTES;
        Self::from_byte_range_of_line(line, at, part)
    }

    fn from_byte_range_of_line(line: &str, at: usize, part: Range<usize>) -> Self {
        let from = head(line, part.start).len();
        let text = head(&line[from..], part.len().min(MAX_QUOTED_BYTES)).to_owned();
        Self {
            line: line_number_from_index(at),
            text,
            is_truncated: true,
            is_partial_line: true,
            is_unique: false,
        }
    }

    /// Writes the quote, and advice for the model. The advice depends on the similarity of the
    /// place.
    pub(super) fn write_with_advice(
        &self,
        percent: u8,
        formatter: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let Self {
            line,
            text,
            is_truncated: is_cut,
            is_partial_line: is_part,
            is_unique: is_alone,
        } = self;
        writeln!(formatter, "{}", wrap_in_code_fence("", &format!("{text}\n")))?;
        let send = match percent {
            CONFIDENT_PERCENT.. => "Send",
            _ => "If this is what you mean, send",
        };
        match (is_part, is_cut, is_alone) {
            (true, ..) => write!(
                formatter,
                "This is only a part of line {line}. Send what is to be replaced of it as old_text."
            ),
            (_, true, _) => write!(
                formatter,
                "There are more such lines than shown from line {line} on. Replace fewer lines at \
                 once."
            ),
            (_, false, true) => write!(formatter, "{send} exactly this as old_text."),
            (_, false, false) => write!(
                formatter,
                "{send} exactly this as old_text, and line {line}, because it is in the file more \
                 than once."
            ),
        }
    }
}

/// The side of the quoted lines on which lines were omitted.
#[derive(Clone, Copy)]
enum ExtendedSide {
    Before,
    After,
}

fn line_number_from_index(at: usize) -> u32 {
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}

/// A place where the old text was found, with the surrounding lines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchContext {
    /// The number of the line in which the place begins, counted from 1.
    pub line: u32,
    /// The line in which the place begins, and the lines before and after it, each with its line
    /// number.
    pub lines: Vec<(u32, String)>,
}

impl MatchContext {
    pub(super) fn at_match(text: &str, start: usize) -> Self {
        let line = line_number_at_offset(text, start);
        let begin = |end: usize| text[..end].rfind('\n').map_or(0, |at| at + 1);
        let own = begin(start);
        let (first, from) = match own.checked_sub(1) {
            Some(before) => (line - 1, begin(before)),
            None => (line, 0),
        };
        let shown = 2 + (line - first) as usize;
        let texts = text[from..]
            .lines()
            .take(shown)
            .map(|line| head(line, MAX_EDIT_CONTEXT_LINE_BYTES).to_owned());
        Self { line, lines: (first..).zip(texts).collect() }
    }
}

impl fmt::Display for MatchContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(line, text)| write!(formatter, "\n{line:>6}\t{text}"))
    }
}
