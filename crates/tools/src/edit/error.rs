//! Errors of edits. Each message contains advice for the model.

use std::fmt;

use callboard_text::{group_thousands, grouped_count_with_noun};

use super::quote::MatchContext;
use super::{ComparisonTruncation, NearMiss};
use crate::error::{ErrorCode, ToolError};
use crate::limits::{
    MAX_EDIT_MATCHES_COUNTED, MAX_EDIT_MATCHES_SHOWN, MAX_EDIT_REPLACEMENTS, MAX_EDIT_TIME,
    MAX_NEAR_MISS_FILE_BYTES, MAX_NEAR_MISS_OLD_TEXT_BYTES, MAX_NEAR_MISS_OLD_TEXT_LINES,
    MAX_WHOLE_FILE_BYTES,
};

/// The error of a list of edits. None of the edits was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditError {
    /// Number of the edit that cannot be applied, counted from 1.
    pub edit_number: usize,
    /// The total number of edits.
    pub edit_count: usize,
    /// The kind of failure.
    pub kind: EditErrorKind,
}

/// The reason why an edit cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditErrorKind {
    /// The old text is empty, but the file is not.
    EmptyOldText,
    /// The old and the new text are equal.
    SameText,
    /// The old and the new text differ in line ends only, and the file does not contain the old
    /// text with exactly these line ends.
    SameExceptLineEnds,
    /// The new text contains a carriage return that is not part of a line end. The file contains no
    /// such carriage return.
    LoneCarriageReturn,
    /// The new text contains a placeholder for omitted text.
    Placeholder {
        /// The line that contains the placeholder.
        line: String,
    },
    /// The old text does not occur in the file.
    NoMatch {
        /// The most similar places, in descending order of similarity.
        near_misses: Vec<NearMiss>,
        /// States which texts were too long to be compared completely.
        truncation: ComparisonTruncation,
        /// The number of the line at which the new text already exists as whole lines. `None` if
        /// there is no such place, if there are several, or if the new text is short.
        new_text_line: Option<u32>,
    },
    /// The old text occurs several times, but must occur exactly once.
    Ambiguous {
        /// Number of matching places, counted up to 1,000.
        places: usize,
        /// The first matching places that do not overlap, with the lines around them. They are in
        /// the order of their occurrence numbers.
        contexts: Vec<MatchContext>,
    },
    /// The requested occurrence number is greater than the number of matching places.
    NoSuchOccurrence {
        /// Number of matching places.
        places: usize,
    },
    /// The old text was found, but replacing it would not change the file.
    NoEffect,
    /// The edit was cancelled, or did not complete within 20 s.
    CancelledOrTimedOut,
    /// The new text should be inserted before a line that does not exist.
    NoSuchLine {
        /// Number of lines in the file.
        lines: usize,
    },
    /// The old text occurs more than 100,000 times.
    TooManyMatches,
    /// After the edit, the text would exceed 64 MiB.
    ResultTooLarge,
}

impl fmt::Display for EditError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.edit_count > 1 {
            write!(
                formatter,
                "edit {} of {}, so none was done: ",
                self.edit_number, self.edit_count
            )?;
        }
        self.kind.fmt(formatter)
    }
}

impl std::error::Error for EditError {}

impl fmt::Display for EditErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyOldText => formatter.write_str(
                "old_text is empty, but the file is not. Give the text to be replaced, or the line \
                 before which new_text is inserted, or use write_file for the whole file",
            ),
            Self::SameText => {
                formatter.write_str("old_text and new_text are equal: nothing to change")
            }
            Self::SameExceptLineEnds => formatter.write_str(
                "old_text and new_text differ in line ends only, and the file does not have those \
                 of old_text: nothing to change",
            ),
            Self::LoneCarriageReturn => formatter.write_str(
                "new_text has a carriage return (\\r) without a line feed, but the file has none. \
                 End lines with \\n: they get the line ends of the file",
            ),
            Self::Placeholder { line } => write!(
                formatter,
                "new_text has a placeholder for omitted text (`{line}`), which would be lost. Give \
                 the whole text, or replace a smaller part"
            ),
            Self::NoMatch { near_misses: near, truncation: uncompared, new_text_line: new_at } => {
                write_no_match(near, *uncompared, *new_at, formatter)
            }
            Self::Ambiguous { places, contexts: around } => {
                let more = if *places == MAX_EDIT_MATCHES_COUNTED { "at least " } else { "" };
                let overlap = match around.len() < (*places).min(MAX_EDIT_MATCHES_SHOWN) {
                    true => ", some of which overlap",
                    false => "",
                };
                write!(
                    formatter,
                    "old_text is in {more}{places} places{overlap}. Include more of the lines \
                     around the intended one, or set its number as occurrence, or a line near it \
                     as line, or replace_all:"
                )?;
                for (index, around) in around.iter().enumerate() {
                    write!(formatter, "\noccurrence {}, line {}:{around}", index + 1, around.line)?;
                }
                Ok(())
            }
            Self::NoSuchOccurrence { places } => {
                let places = grouped_count_with_noun(*places as u64, "place", "places");
                write!(formatter, "old_text is in {places} only; occurrence is too large")
            }
            Self::NoEffect => formatter.write_str(
                "the edit would not change the file: old_text was found except for whitespace, \
                 indentation or lookalike characters, and new_text differs from it only in these",
            ),
            Self::CancelledOrTimedOut => write!(
                formatter,
                "cancelled, or not done after {} seconds. Nothing was changed. Send fewer edits at \
                 once, or use a command",
                MAX_EDIT_TIME.as_secs()
            ),
            Self::NoSuchLine { lines } => write!(
                formatter,
                "the file has {lines} lines. Give a line from 1 to {}",
                lines.saturating_add(1)
            ),
            Self::TooManyMatches => write!(
                formatter,
                "old_text is in more than {MAX_EDIT_REPLACEMENTS} places. Include more surrounding \
                 text, or use a command"
            ),
            Self::ResultTooLarge => write!(
                formatter,
                "the file would exceed {MAX_WHOLE_FILE_BYTES} bytes after the edit. Replace less, \
                 or use a command"
            ),
        }
    }
}

/// Writes which places are similar to an old text that was not found, and which texts were not
/// compared completely.
fn write_no_match(
    near: &[NearMiss],
    uncompared: ComparisonTruncation,
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
        None if uncompared == ComparisonTruncation::default() => {
            formatter.write_str(", nor is anything like it. Read the file again")?;
        }
        None => {
            formatter.write_str(", and nothing like it was found. Read the file again.")?;
        }
    }
    write_nearest(near, formatter)?;
    if uncompared.old_text {
        let (lines, bytes) =
            (MAX_NEAR_MISS_OLD_TEXT_LINES, group_thousands(MAX_NEAR_MISS_OLD_TEXT_BYTES as u64));
        write!(
            formatter,
            "\nOnly the beginning of old_text was compared, up to {lines} lines and {bytes} bytes. \
             Replace fewer lines at once."
        )?;
    }
    if uncompared.file {
        let bytes = group_thousands(MAX_NEAR_MISS_FILE_BYTES as u64);
        write!(
            formatter,
            "\nOnly the first {bytes} bytes of the file were searched for lines like it."
        )?;
    }
    Ok(())
}

impl From<EditError> for ToolError {
    fn from(error: EditError) -> Self {
        let code = match error.kind {
            EditErrorKind::EmptyOldText
            | EditErrorKind::SameText
            | EditErrorKind::SameExceptLineEnds
            | EditErrorKind::LoneCarriageReturn
            | EditErrorKind::NoEffect
            | EditErrorKind::NoSuchLine { .. }
            | EditErrorKind::Placeholder { .. } => ErrorCode::InvalidArguments,
            EditErrorKind::NoMatch { .. } | EditErrorKind::NoSuchOccurrence { .. } => {
                ErrorCode::NoMatch
            }
            EditErrorKind::Ambiguous { .. } => ErrorCode::AmbiguousMatch,
            EditErrorKind::CancelledOrTimedOut => ErrorCode::TimedOut,
            EditErrorKind::TooManyMatches | EditErrorKind::ResultTooLarge => ErrorCode::TooLarge,
        };
        Self::recoverable(code, error.to_string())
    }
}

/// Writes which places are most similar, and quotes the best of these places.
fn write_nearest(near: &[NearMiss], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [best, others @ ..] = near else { return Ok(()) };
    let is_part = best.quote.as_ref().is_some_and(|quote| quote.is_partial_line);
    let lines = match (best.line, best.last_line) {
        (line, last) if line == last && is_part => format!("A part of line {line} is closest"),
        (line, last) if line == last => format!("Line {line} is closest"),
        (line, last) => format!("Lines {line} to {last} are closest"),
    };
    let alike = match best.percent {
        100 => "identical except for white space".to_owned(),
        percent => format!("{percent} % alike"),
    };
    write!(formatter, "\n{lines}, {alike}")?;
    match &best.quote {
        Some(quote) => {
            formatter.write_str(":\n")?;
            quote.write_with_advice(best.percent, formatter)?;
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
