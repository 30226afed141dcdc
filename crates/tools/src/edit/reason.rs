//! Why an edit cannot be done, and what to do about it, as the model reads it.

use std::fmt;

use callboard_text::{grouped, grouped_count};

use super::quote::Around;
use super::{Near, Uncompared};
use crate::error::{Code, ToolError};
use crate::limits::{
    EDIT_MATCHES, EDIT_NEAR_BYTES, EDIT_NEAR_LINES, EDIT_NEAR_OLD_BYTES, EDIT_PLACES, EDIT_TIME,
    FILE_BYTES,
};

/// Why none of the edits was done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditError {
    /// The edit that cannot be done, from 1.
    pub edit: usize,
    /// How many edits there are.
    pub edits: usize,
    /// Why it cannot be done.
    pub reason: EditReason,
}

/// Why an edit cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditReason {
    /// The old text is empty, but the file is not.
    EmptyOldText,
    /// The old and the new text are equal.
    SameText,
    /// They differ in line ends only, and the file does not have those of the old text.
    SameLines,
    /// The new text has a carriage return that ends no line, and the file has none.
    LoneReturn,
    /// The new text stands for text that it leaves out.
    Placeholder {
        /// The line that does.
        line: String,
    },
    /// The old text is nowhere in the file.
    NoMatch {
        /// The places most like it, the best first.
        near: Vec<Near>,
        /// What was not compared to find these.
        uncompared: Uncompared,
        /// The line of the only place that has the new text as whole lines, if there is one.
        new_at: Option<u32>,
    },
    /// The old text is in several places, and only one was meant.
    Ambiguous {
        /// In how many, at most 1,000.
        places: usize,
        /// The first places.
        around: Vec<Around>,
    },
    /// There are fewer places than the number that was asked for.
    NoSuchOccurrence {
        /// How many there are.
        places: usize,
    },
    /// The old text was found, and the new one makes no difference there.
    NoChange,
    /// It was cancelled, or took longer than 20 s.
    Stopped,
    /// The new text is to be inserted before a line that the file does not have.
    NoSuchLine {
        /// How many lines it has.
        lines: usize,
    },
    /// It is in more than 100,000 places.
    TooManyPlaces,
    /// The text would have more than 64 MiB afterwards.
    TooLarge,
}

impl fmt::Display for EditError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.edits > 1 {
            write!(formatter, "edit {} of {}, so none was done: ", self.edit, self.edits)?;
        }
        self.reason.fmt(formatter)
    }
}

impl std::error::Error for EditError {}

impl fmt::Display for EditReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyOldText => formatter.write_str(
                "old_text is empty, but the file is not. Give the text to be replaced, or the line \
                 before which new_text is inserted, or use write_file for the whole file",
            ),
            Self::SameText => {
                formatter.write_str("old_text and new_text are equal: nothing to change")
            }
            Self::SameLines => formatter.write_str(
                "old_text and new_text differ in line ends only, and the file does not have those \
                 of old_text: nothing to change",
            ),
            Self::LoneReturn => formatter.write_str(
                "new_text has a carriage return (\\r) without a line feed, which the file has \
                 nowhere. End lines with \\n: they get the line ends of the file",
            ),
            Self::Placeholder { line } => write!(
                formatter,
                "new_text leaves text out and says so (`{line}`), which would be lost. Give the \
                 whole text, or replace a smaller part"
            ),
            Self::NoMatch { near, uncompared, new_at } => {
                write_no_match(near, *uncompared, *new_at, formatter)
            }
            Self::Ambiguous { places, around } => {
                let more = if *places == EDIT_MATCHES { "at least " } else { "" };
                write!(
                    formatter,
                    "old_text is in {more}{places} places. Give more of the lines around the one \
                     that is meant, or its number as occurrence, or a line near it as line, or \
                     replace_all:"
                )?;
                for (index, around) in around.iter().enumerate() {
                    write!(formatter, "\noccurrence {}, line {}:{around}", index + 1, around.line)?;
                }
                Ok(())
            }
            Self::NoSuchOccurrence { places } => {
                let places = grouped_count(*places as u64, "place", "places");
                write!(formatter, "old_text is in {places} only; occurrence is too large")
            }
            Self::NoChange => formatter.write_str(
                "the file would be the same afterwards: old_text was found but for blanks, \
                 indentation or similar signs, and new_text differs from it in nothing else",
            ),
            Self::Stopped => write!(
                formatter,
                "cancelled, or not done after {} seconds. Nothing was changed. Make fewer edits at \
                 once, or use a command",
                EDIT_TIME.as_secs()
            ),
            Self::NoSuchLine { lines } => write!(
                formatter,
                "the file has {lines} lines. Give a line from 1 to {}",
                lines.saturating_add(1)
            ),
            Self::TooManyPlaces => write!(
                formatter,
                "old_text is in more than {EDIT_PLACES} places. Give more of what is around them, \
                 or use a command"
            ),
            Self::TooLarge => write!(
                formatter,
                "the file would have more than {FILE_BYTES} bytes afterwards. Replace less, or use \
                 a command"
            ),
        }
    }
}

/// Writes what is like an old text that is nowhere, and what was not compared with it.
fn write_no_match(
    near: &[Near],
    uncompared: Uncompared,
    new_at: Option<u32>,
    formatter: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    formatter.write_str("old_text is not in the file")?;
    match new_at {
        Some(line) => write!(
            formatter,
            ", but new_text is, at line {line}. If this edit was made before, nothing is left to \
             do."
        )?,
        None if !near.is_empty() => formatter.write_str(".")?,
        None if uncompared == Uncompared::default() => {
            formatter.write_str(", nor is anything like it. Read the file again")?;
        }
        None => {
            formatter.write_str(", and nothing like it was found. Read the file again.")?;
        }
    }
    write_nearest(near, formatter)?;
    if uncompared.old_text {
        let (lines, bytes) = (EDIT_NEAR_LINES, grouped(EDIT_NEAR_OLD_BYTES as u64));
        write!(
            formatter,
            "\nOnly the beginning of old_text was compared, up to {lines} lines and {bytes} bytes. \
             Replace fewer lines at once."
        )?;
    }
    if uncompared.file {
        let bytes = grouped(EDIT_NEAR_BYTES as u64);
        write!(
            formatter,
            "\nOnly the first {bytes} bytes of the file were searched for lines like it."
        )?;
    }
    Ok(())
}

impl From<EditError> for ToolError {
    fn from(error: EditError) -> Self {
        let code = match error.reason {
            EditReason::EmptyOldText
            | EditReason::SameText
            | EditReason::SameLines
            | EditReason::LoneReturn
            | EditReason::NoChange
            | EditReason::NoSuchLine { .. }
            | EditReason::Placeholder { .. } => Code::InvalidArguments,
            EditReason::NoMatch { .. } | EditReason::NoSuchOccurrence { .. } => Code::NoMatch,
            EditReason::Ambiguous { .. } => Code::AmbiguousMatch,
            EditReason::Stopped => Code::TimedOut,
            EditReason::TooManyPlaces | EditReason::TooLarge => Code::TooLarge,
        };
        Self::report(code, error.to_string())
    }
}

/// Writes the places that are most like an old text, and what the best of them is.
fn write_nearest(near: &[Near], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [best, others @ ..] = near else { return Ok(()) };
    let is_part = best.quote.as_ref().is_some_and(|quote| quote.is_part);
    let lines = match (best.line, best.last) {
        (line, last) if line == last && is_part => format!("A part of line {line} is closest"),
        (line, last) if line == last => format!("Line {line} is closest"),
        (line, last) => format!("Lines {line} to {last} are closest"),
    };
    let alike = match best.percent {
        100 => "alike but for white space".to_owned(),
        percent => format!("{percent} % alike"),
    };
    write!(formatter, "\n{lines}, {alike}")?;
    match &best.quote {
        Some(quote) => {
            formatter.write_str(":\n")?;
            quote.write(best.percent, formatter)?;
        }
        None => formatter.write_str(".")?,
    }
    let others: Vec<_> =
        others.iter().map(|near| format!("line {} ({} %)", near.line, near.percent)).collect();
    match &others[..] {
        [] => Ok(()),
        others => write!(formatter, "\nLess alike: {}.", others.join(", ")),
    }
}
