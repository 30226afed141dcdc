//! What a refusal quotes of the file. It is the only way by which text of a file gets into one.

use std::fmt;

use acp_types::text::{fenced, head};

use super::{Near, line_at};
use crate::limits::{EDIT_LINE_BYTES, EDIT_QUOTE_BYTES, EDIT_QUOTE_LINES};

/// Lines of the file, as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// The number of the first one, from 1.
    pub line: u32,
    /// The lines with line feeds between them.
    pub text: String,
    /// Whether there are more of them than are shown.
    pub is_cut: bool,
    /// Whether they are in the file only once.
    pub is_alone: bool,
}

impl Quote {
    /// Quotes lines, of which the first has the number `first`, from 0. Of too many lines those are
    /// shown that are around the one at `differs`.
    pub(super) fn of(lines: &[&str], first: usize, differs: usize, is_alone: bool) -> Self {
        let skipped = match lines.len().checked_sub(EDIT_QUOTE_LINES) {
            Some(most) => most.min(differs.saturating_sub(3)),
            None => 0,
        };
        let (mut room, mut text) = (EDIT_QUOTE_BYTES, Vec::new());
        for line in lines[skipped..].iter().take(EDIT_QUOTE_LINES) {
            let Some(rest) = room.checked_sub(line.len() + 1) else { break };
            (room, _) = (rest, text.push(*line));
        }
        let line = u32::try_from(first + skipped + 1).unwrap_or(u32::MAX);
        let is_cut = text.len() < lines.len();
        if let (true, Some(line)) = (text.is_empty(), lines.get(skipped)) {
            text.push(head(line, EDIT_QUOTE_BYTES));
        }
        Self { line, text: text.join("\n"), is_cut, is_alone }
    }
}

impl fmt::Display for Quote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, text, is_cut, is_alone } = self;
        writeln!(formatter, "{}", fenced("", &format!("{text}\n")))?;
        match (is_cut, is_alone) {
            (true, _) => write!(
                formatter,
                "There are more such lines than shown from line {line} on. Replace fewer lines at \
                 once."
            ),
            (false, true) => formatter.write_str("Send exactly this as old_text."),
            (false, false) => write!(
                formatter,
                "Send exactly this as old_text, and line {line}, because it is in the file more \
                 than once."
            ),
        }
    }
}

/// Writes the places that are most like an old text, and what the best of them is.
pub(super) fn write_nearest(near: &[Near], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [best, others @ ..] = near else { return Ok(()) };
    let lines = match (best.line, best.last) {
        (line, last) if line == last => format!("Line {line} is closest"),
        (line, last) => format!("Lines {line} to {last} are closest"),
    };
    let alike = match best.percent {
        100 => "alike but for white space".to_owned(),
        percent => format!("{percent} % alike"),
    };
    write!(formatter, "\n{lines}, {alike}")?;
    match &best.quote {
        Some(quote) => write!(formatter, ":\n{quote}")?,
        None => formatter.write_str(".")?,
    }
    let others: Vec<_> =
        others.iter().map(|near| format!("line {} ({} %)", near.line, near.percent)).collect();
    match &others[..] {
        [] => Ok(()),
        others => write!(formatter, "\nLess alike: {}.", others.join(", ")),
    }
}

/// A place of the old text, with the lines around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Around {
    /// The line where the place begins, from 1.
    pub line: u32,
    /// The lines before it, its own and behind it with their numbers, where there are such.
    pub lines: Vec<(u32, String)>,
}

impl Around {
    pub(super) fn of(text: &str, start: usize) -> Self {
        let line = line_at(text, start);
        let begin = |end: usize| text[..end].rfind('\n').map_or(0, |at| at + 1);
        let own = begin(start);
        let (first, from) = match own.checked_sub(1) {
            Some(before) => (line - 1, begin(before)),
            None => (line, 0),
        };
        let shown = 2 + (line - first) as usize;
        let texts =
            text[from..].lines().take(shown).map(|line| head(line, EDIT_LINE_BYTES).to_owned());
        Self { line, lines: (first..).zip(texts).collect() }
    }
}

impl fmt::Display for Around {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(line, text)| write!(formatter, "\n{line:>6}\t{text}"))
    }
}
