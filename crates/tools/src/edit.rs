//! Replaces text in text: exactly one place, or all, or none at all.
//!
//! It knows nothing of files. What is outside of the replaced lines stays as it is to the byte:
//! line ends, also mixed ones, a byte order mark, a missing last line end.

mod lf;
mod near;

use std::fmt;
use std::num::NonZeroU32;

use acp_types::text::head;

use crate::error::{Code, ToolError};
use crate::limits::{EDIT_LINE_BYTES, EDIT_MATCHES, EDIT_MATCHES_SHOWN};
use crate::read::binary_kind;

use self::lf::{View, without_cr};
use self::near::nearest;

pub use self::near::{Difference, Near};

/// New texts shorter than this are found by chance, which says nothing.
const TELLING_BYTES: usize = 16;

/// One replacement. Both texts are taken literally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The text that is there. Its line feeds match CRLF too.
    pub old_text: String,
    /// The text that shall be there. Its lines get the ends that the lines around it have.
    pub new_text: String,
    /// Which of several places is meant.
    pub which: Which,
}

/// Which of several places an edit means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Which {
    /// The only one; several are an error.
    #[default]
    Only,
    /// One of several, counted from 1.
    Nth(NonZeroU32),
    /// All of them.
    All,
}

impl Which {
    /// Makes it of a tool's arguments.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` if both are given, or the occurrence is zero.
    pub fn from_arguments(replace_all: bool, occurrence: Option<u32>) -> Result<Self, ToolError> {
        match (replace_all, occurrence) {
            (true, Some(_)) => Err(ToolError::invalid("give replace_all or occurrence, not both")),
            (true, None) => Ok(Self::All),
            (false, None) => Ok(Self::Only),
            (false, Some(number)) => NonZeroU32::new(number)
                .map(Self::Nth)
                .ok_or_else(|| ToolError::invalid("occurrence counts from 1")),
        }
    }
}

/// A text with all edits done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The text after them.
    pub text: String,
    /// What became of each edit, in their order.
    pub done: Vec<Done>,
}

/// What became of one edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done {
    /// The text was replaced.
    Replaced {
        /// In how many places.
        places: usize,
    },
    /// The old text is not there but the new one is, so nothing was done.
    AlreadyApplied {
        /// The line where the new text begins, from 1.
        line: u32,
    },
}

/// Why none of the edits was done.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The old text is nowhere in the file.
    NoMatch {
        /// The places most like it, the best first.
        near: Vec<Near>,
    },
    /// The old text is in several places, and only one was meant.
    Ambiguous {
        /// In how many, at most [`EDIT_MATCHES`].
        places: usize,
        /// The first places: their lines from 1, and the texts of these lines.
        lines: Vec<(u32, String)>,
    },
    /// There are fewer places than the number that was asked for.
    NoSuchOccurrence {
        /// How many there are.
        places: usize,
    },
}

/// Does all edits, each on the text that the one before left, or none.
///
/// # Errors
///
/// [`EditError`] for the first edit that cannot be done.
///
/// ```
/// use acp_tools::edit::{Edit, Which, apply};
///
/// let edit = Edit { old_text: "two\n".into(), new_text: "2\n".into(), which: Which::Only };
/// assert_eq!(apply("one\r\ntwo\r\n", &[edit]).unwrap().text, "one\r\n2\r\n");
/// ```
pub fn apply(text: &str, edits: &[Edit]) -> Result<Edited, EditError> {
    let mut edited = Edited { text: text.to_owned(), done: Vec::with_capacity(edits.len()) };
    for (index, edit) in edits.iter().enumerate() {
        let fail = |reason| EditError { edit: index + 1, edits: edits.len(), reason };
        let done = edit.apply_to(&mut edited.text).map_err(fail)?;
        edited.done.push(done);
    }
    Ok(edited)
}

/// Decodes the bytes of a file that is to be edited.
///
/// # Errors
///
/// `binary_file`; `not_utf8`, because writing the file again would damage it.
pub fn decode(given: &str, bytes: Vec<u8>) -> Result<String, ToolError> {
    if let Some(kind) = binary_kind(&bytes) {
        let message = format!("{given} is a binary file ({kind}) and cannot be edited as text");
        return Err(ToolError::report(Code::BinaryFile, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let bad = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..bad].iter().filter(|&&byte| byte == b'\n').count();
        let message = format!(
            "{given} is not UTF-8 (line {line}), so an edit would damage it. Change it with a \
             command that knows its encoding"
        );
        ToolError::report(Code::NotUtf8, message)
    })
}

impl Edit {
    fn apply_to(&self, text: &mut String) -> Result<Done, EditReason> {
        if self.old_text == self.new_text {
            return Err(EditReason::SameText);
        }
        if self.old_text.is_empty() {
            if !text.trim_start_matches('\u{feff}').is_empty() {
                return Err(EditReason::EmptyOldText);
            }
            text.push_str(&self.new_text);
            return Ok(Done::Replaced { places: 1 });
        }
        let names_cr = self.old_text.contains('\r') || self.new_text.contains('\r');
        let changed = if names_cr && text.contains(&self.old_text) {
            // It means these very line ends.
            self.change(&View::exact(text), &self.old_text, &self.new_text)?
        } else {
            let (old, new) = (without_cr(&self.old_text), without_cr(&self.new_text));
            self.change(&View::lf(text), &old, &new)?
        };
        match changed {
            Changed::Done(done) => Ok(done),
            Changed::Text(new, places) => {
                *text = new;
                Ok(Done::Replaced { places })
            }
        }
    }

    fn change(&self, view: &View<'_>, old: &str, new: &str) -> Result<Changed, EditReason> {
        let starts = self.places(&view.text, old)?;
        if starts.is_empty() {
            return self.missing(&view.text, old, new).map(Changed::Done);
        }
        // Lines at both ends that stay are not touched, whatever their ends are.
        let (before, after) = common_lines(old, new);
        let new = &new[before..new.len() - after];
        let ranges = starts.iter().map(|start| start + before..start + old.len() - after);
        Ok(Changed::Text(view.spliced(ranges, new), starts.len()))
    }

    /// Returns where the old text is to be replaced; nowhere if it is not there.
    fn places(&self, text: &str, old: &str) -> Result<Vec<usize>, EditReason> {
        if self.which == Which::All {
            return Ok(text.match_indices(old).map(|(start, _)| start).collect());
        }
        let starts: Vec<_> = overlapping(text, old).take(EDIT_MATCHES).collect();
        match (self.which, starts.len()) {
            (_, 0) | (Which::Only, 1) => Ok(starts),
            (Which::Nth(number), places) => match starts.get(number.get() as usize - 1) {
                Some(&start) => Ok(vec![start]),
                None => Err(EditReason::NoSuchOccurrence { places }),
            },
            (Which::Only | Which::All, places) => {
                let shown = starts.iter().take(EDIT_MATCHES_SHOWN);
                let lines = shown.map(|&start| (line_at(text, start), line_text(text, start)));
                Err(EditReason::Ambiguous { places, lines: lines.collect() })
            }
        }
    }

    fn missing(&self, text: &str, old: &str, new: &str) -> Result<Done, EditReason> {
        let is_telling = new.trim().len() >= TELLING_BYTES && !old.contains(new);
        let mut found = overlapping(text, new);
        if is_telling
            && let Some(start) = found.next()
            && (self.which == Which::All || found.next().is_none())
        {
            return Ok(Done::AlreadyApplied { line: line_at(text, start) });
        }
        Err(EditReason::NoMatch { near: nearest(text, old) })
    }
}

enum Changed {
    Done(Done),
    Text(String, usize),
}

/// Returns all places of `wanted`, also those that overlap: they are as ambiguous as others.
fn overlapping<'a>(text: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> {
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text.get(from..)?.find(wanted)?;
        from = start + step;
        Some(start)
    })
}

/// Returns the bytes of the lines that both texts begin with, and of those that both end with.
fn common_lines(old: &str, new: &str) -> (usize, usize) {
    fn common<'a>(old: impl Iterator<Item = &'a str>, new: impl Iterator<Item = &'a str>) -> usize {
        old.zip(new).take_while(|(old, new)| old == new).map(|(line, _)| line.len()).sum()
    }
    let before = common(old.split_inclusive('\n'), new.split_inclusive('\n'));
    let (old, new) = (&old[before..], &new[before..]);
    let after = common(old.split_inclusive('\n').rev(), new.split_inclusive('\n').rev());
    (before, after)
}

/// Returns the number of the line at a place, from 1.
fn line_at(text: &str, place: usize) -> u32 {
    let before = text.as_bytes()[..place].iter().filter(|&&byte| byte == b'\n').count();
    u32::try_from(before + 1).unwrap_or(u32::MAX)
}

fn line_text(text: &str, place: usize) -> String {
    let start = text[..place].rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    head(line, EDIT_LINE_BYTES).to_owned()
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
                "old_text is empty, but the file is not. Give the text to be replaced, or use \
                 write_file for the whole file",
            ),
            Self::SameText => {
                formatter.write_str("old_text and new_text are equal: nothing to change")
            }
            Self::NoMatch { near } => {
                formatter.write_str("old_text is not in the file")?;
                if near.is_empty() {
                    return formatter.write_str(", nor is anything like it. Read the file again");
                }
                near.iter().try_for_each(|near| write!(formatter, "\n{near}"))
            }
            Self::Ambiguous { places, lines } => {
                let more = if *places == EDIT_MATCHES { "at least " } else { "" };
                write!(
                    formatter,
                    "old_text is in {more}{places} places. Give more of the lines around the one \
                     that is meant, or its number as occurrence, or replace_all:"
                )?;
                for (index, (line, text)) in lines.iter().enumerate() {
                    write!(formatter, "\noccurrence {}, line {line}: {text}", index + 1)?;
                }
                Ok(())
            }
            Self::NoSuchOccurrence { places } => {
                write!(formatter, "old_text is in {places} places only; occurrence is too large")
            }
        }
    }
}

impl From<EditError> for ToolError {
    fn from(error: EditError) -> Self {
        let code = match error.reason {
            EditReason::EmptyOldText | EditReason::SameText => Code::InvalidArguments,
            EditReason::NoMatch { .. } | EditReason::NoSuchOccurrence { .. } => Code::NoMatch,
            EditReason::Ambiguous { .. } => Code::AmbiguousMatch,
        };
        Self::report(code, error.to_string())
    }
}

#[cfg(test)]
mod tests;
