//! Replaces parts of a text: exactly one place, all places, or nothing.
//!
//! Bytes outside of the replaced places never change. Mixed line ends, a byte order mark and a
//! missing final line ending are also preserved. If the old text has no exact match, less strict
//! matches are tried one after the other, see [`MatchKind`]. The result reports which kind of match
//! was found.

mod error;
mod line_numbers;
mod match_strategies;
mod near_miss;
mod normalised_view;
mod placeholder;
mod quote;
mod splices;

use std::borrow::Cow;
use std::num::NonZeroU32;

use acp_types::diff::TextEdit;
use memchr::memchr_iter;
use memchr::memmem::Finder;

use crate::error::ToolError;
use crate::files::encoding::DecodedText;
use crate::files::encoding::line_ends::{has_lone_carriage_returns, normalise_line_ends};
use crate::files::walk::IsCancelled;
use crate::limits::{
    MAX_EDIT_MATCHES_COUNTED, MAX_EDIT_MATCHES_SHOWN, MAX_EDIT_REPLACEMENTS, MAX_WHOLE_FILE_BYTES,
};

use self::line_numbers::strip_line_numbers;
use self::match_strategies::{FoundPlaces, MatchPlace, OldAndNewText, is_whole_lines};
use self::near_miss::find_near_misses;
use self::normalised_view::{Normalisation, NormalisedView};
use self::splices::compose;

pub use self::error::{EditError, EditErrorKind};
pub use self::match_strategies::MatchKind;
pub use self::near_miss::{ComparisonTruncation, NearMiss};
pub(crate) use self::placeholder::find_placeholder_line;
pub use self::quote::{MatchContext, QuotedLines};
pub use self::splices::apply_splices;

/// Minimum length of a new text whose presence proves that the edit was already applied. A shorter
/// text may occur by chance.
const DISTINCTIVE_MIN_BYTES: usize = 16;

/// One replacement. The old text and the new text are literal text, not patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edit {
    /// The existing text. If this text is empty, the new text fills an empty file, or is inserted
    /// before a line. A line end in this text matches every kind of line end in the file.
    pub old_text: String,
    /// The new text. Its line ends are converted to those of the surrounding lines. If the new text
    /// differs from the old text in line ends only, it is not converted.
    pub new_text: String,
    /// Selects one of several matching places.
    pub occurrence: Occurrence,
}

impl Edit {
    /// Creates a replacement at the only matching place.
    #[must_use]
    pub fn new(old_text: impl Into<String>, new_text: impl Into<String>) -> Self {
        let occurrence = Occurrence::default();
        Self { old_text: old_text.into(), new_text: new_text.into(), occurrence }
    }

    /// Selects one of several matching places.
    #[must_use]
    pub fn with_occurrence(self, occurrence: Occurrence) -> Self {
        Self { occurrence, ..self }
    }
}

/// Selects one or all of several matching places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Occurrence {
    /// The only matching place. If there are several, the edit fails.
    #[default]
    Only,
    /// The matching place with this number, counted from 1. A place that overlaps the previously
    /// counted place is not counted.
    Nth(NonZeroU32),
    /// The matching place whose first line is nearest to this line, counted from 1. If two places
    /// are equally near, the edit fails. If the old text is empty, the new text is inserted before
    /// this line.
    NearLine(NonZeroU32),
    /// All matching places that [`Self::Nth`] counts.
    All,
}

impl Occurrence {
    /// Creates an [`Occurrence`] from the arguments of a tool.
    ///
    /// # Errors
    ///
    /// `invalid_arguments` if more than one argument is given, or if a number is zero.
    pub(crate) fn from_arguments(
        replace_all: bool,
        occurrence: Option<u32>,
        line: Option<u32>,
    ) -> Result<Self, ToolError> {
        let counted = |name: &str, number| {
            let zero = || ToolError::invalid_arguments(format!("{name} counts from 1"));
            NonZeroU32::new(number).ok_or_else(zero)
        };
        match (replace_all, occurrence, line) {
            (true, None, None) => Ok(Self::All),
            (false, None, None) => Ok(Self::Only),
            (false, Some(number), None) => counted("occurrence", number).map(Self::Nth),
            (false, None, Some(line)) => counted("line", line).map(Self::NearLine),
            _ => Err(ToolError::invalid_arguments(
                "give only one of replace_all, occurrence and line",
            )),
        }
    }
}

/// A text to which all edits were applied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditedText {
    /// The text after the edits.
    pub text: String,
    /// The replaced places of the original text, in order. Adjacent places are merged.
    pub splices: Vec<TextEdit>,
    /// The outcome of each edit, in order.
    pub outcomes: Vec<EditOutcome>,
}

impl EditedText {
    /// Returns the edited text in the encoding of the old text. Bytes outside of the edits are
    /// unchanged.
    ///
    /// # Errors
    ///
    /// Returns the first character that cannot be represented in the encoding.
    pub fn into_bytes(self, old: &DecodedText) -> Result<Vec<u8>, char> {
        match old.non_utf8_encoding_name() {
            None => Ok(self.text.into_bytes()),
            Some(_) => old.encode_splices(&self.splices),
        }
    }
}

/// The outcome of one edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditOutcome {
    /// The text was replaced.
    Replaced {
        /// Number of replaced places.
        places: usize,
        /// The strategy that found the places.
        match_kind: MatchKind,
    },
    /// The new text already exists as whole lines, and the lines around it show that the edit was
    /// already applied. Nothing was changed.
    AlreadyApplied {
        /// The line where the new text begins, counted from 1.
        line: u32,
    },
}

/// Applies all edits or none. Each edit is applied to the result of the previous edit.
///
/// # Errors
///
/// [`EditError`] for the first edit that cannot be applied.
///
/// ```
/// use acp_tools::edit::{Edit, apply};
///
/// let edit = Edit::new("two\n", "2\n");
/// assert_eq!(apply("one\r\ntwo\r\n", &[edit]).unwrap().text, "one\r\n2\r\n");
/// ```
pub fn apply(text: &str, edits: &[Edit]) -> Result<EditedText, EditError> {
    apply_cancellable(text, edits, &|| false)
}

/// Works like [`apply`], but can be cancelled.
///
/// # Errors
///
/// Returns the errors of [`apply`], and [`EditErrorKind::CancelledOrTimedOut`].
pub(crate) fn apply_cancellable(
    text: &str,
    edits: &[Edit],
    cancel: &IsCancelled<'_>,
) -> Result<EditedText, EditError> {
    let (mut text, mut splices, mut done) = (Cow::Borrowed(text), Vec::new(), Vec::new());
    for (index, edit) in edits.iter().enumerate() {
        let fail =
            |reason| EditError { edit_number: index + 1, edit_count: edits.len(), kind: reason };
        let made = edit.resolve_to_text_edits(&text, cancel);
        // If the search was cancelled, the list of found places may be incomplete.
        let made = if cancel() { Err(EditErrorKind::CancelledOrTimedOut) } else { made };
        let (step, became) = made.map_err(fail)?;
        done.push(became);
        if !step.is_empty() {
            let removed: usize = step.iter().map(|splice| splice.old.len()).sum();
            let added: usize = step.iter().map(|splice| splice.new.len()).sum();
            if (text.len() - removed + added) as u64 > MAX_WHOLE_FILE_BYTES {
                return Err(fail(EditErrorKind::ResultTooLarge));
            }
            let next = apply_splices(&text, &step);
            splices = compose(splices, &text, step);
            text = Cow::Owned(next);
        }
    }
    Ok(EditedText { text: text.into_owned(), splices, outcomes: done })
}

impl Edit {
    fn resolve_to_text_edits(
        &self,
        text: &str,
        cancel: &IsCancelled<'_>,
    ) -> Result<(Vec<TextEdit>, EditOutcome), EditErrorKind> {
        if self.old_text == self.new_text {
            return Err(EditErrorKind::SameText);
        }
        if let Some(line) = find_placeholder_line(&self.new_text, text, &self.old_text, 1) {
            return Err(EditErrorKind::Placeholder { line: line.to_owned() });
        }
        if self.old_text.is_empty() {
            return self.insert_new_text(text);
        }
        // If the edit needs a unique match, further matches are only counted for the error message.
        // Otherwise the search must continue until it has found the selected place.
        let most = if self.occurrence == Occurrence::Only {
            MAX_EDIT_MATCHES_COUNTED
        } else {
            MAX_EDIT_REPLACEMENTS + 1
        };
        let [old, new] =
            [&self.old_text, &self.new_text].map(|part| normalise_line_ends(part, text));
        if old == new {
            // The edit changes line ends only, so the old text must match with its exact line ends.
            let pair =
                OldAndNewText { old: &self.old_text, new: &self.new_text, max_matches: most };
            let found = FoundPlaces::find_exact(text, pair, cancel);
            return match found.places.is_empty() {
                true => Err(EditErrorKind::SameExceptLineEnds),
                false => self.replace_found_places(text, &found, MatchKind::Exact),
            };
        }
        if new.contains('\r') && !has_lone_carriage_returns(text) {
            return Err(EditErrorKind::LoneCarriageReturn);
        }
        let pair = OldAndNewText { old: &old, new: &new, max_matches: most };
        if self.old_text.contains('\r') {
            let found = FoundPlaces::find_with_exact_line_ends(text, &self.old_text, pair, cancel);
            if !found.places.is_empty() {
                return self.replace_found_places(text, &found, MatchKind::Exact);
            }
            if self.old_text.trim_matches(['\r', '\n']).is_empty() {
                // The old text consists of line ends only, so a report of similar places would not
                // help.
                let (near, uncompared) = (Vec::new(), ComparisonTruncation::default());
                return Err(EditErrorKind::NoMatch {
                    near_misses: near,
                    truncation: uncompared,
                    new_text_line: None,
                });
            }
        }
        for rung in MatchKind::STRICTEST_FIRST {
            let found = FoundPlaces::find_by_strategy(rung, text, pair, cancel);
            if !found.places.is_empty() || cancel() {
                return self.replace_found_places(text, &found, rung);
            }
        }
        let plain = strip_line_numbers(&old, &new);
        if let Some((old, new)) = &plain {
            let found = FoundPlaces::find_by_strategy(
                MatchKind::LineNumbers,
                text,
                OldAndNewText { old, new, max_matches: most },
                cancel,
            );
            if !found.places.is_empty() {
                return self.replace_found_places(text, &found, MatchKind::LineNumbers);
            }
        }
        let (old, new) = plain.unwrap_or_else(|| (old.into_owned(), new.into_owned()));
        self.handle_no_match(text, &old, &new, cancel)
    }

    /// Fills an empty file, or inserts the new text before a line.
    fn insert_new_text(&self, text: &str) -> Result<(Vec<TextEdit>, EditOutcome), EditErrorKind> {
        let done = |place: usize, new: String| {
            let splice = TextEdit { old: place..place, new };
            Ok((vec![splice], EditOutcome::Replaced { places: 1, match_kind: MatchKind::Exact }))
        };
        let start = text.len() - text.trim_start_matches('\u{feff}').len();
        if start == text.len() {
            return done(start, self.new_text.clone());
        }
        let Occurrence::NearLine(line) = self.occurrence else {
            return Err(EditErrorKind::EmptyOldText);
        };
        let new = normalise_line_ends(&self.new_text, text);
        if new.contains('\r') && !has_lone_carriage_returns(text) {
            return Err(EditErrorKind::LoneCarriageReturn);
        }
        let view = NormalisedView::new(text, Normalisation::LineEnds);
        let ends = memchr_iter(b'\n', view.text.as_bytes()).map(|at| at + 1);
        let mut lines = std::iter::once(start).chain(ends);
        let is_ended = view.text.ends_with('\n');
        let (before, count) = (line.get() as usize - 1, lines.clone().count());
        let (place, new) = match lines.nth(before) {
            Some(place) if new.ends_with('\n') => (place, new.into_owned()),
            Some(place) => (place, format!("{new}\n")),
            None if before == count && !is_ended => (view.text.len(), format!("\n{new}")),
            None => return Err(EditErrorKind::NoSuchLine { lines: count - usize::from(is_ended) }),
        };
        let place = view.raw_position(place);
        done(place, new.replace('\n', view.line_end_lookup().line_end_at_raw_offset(place)))
    }

    fn replace_found_places(
        &self,
        text: &str,
        found: &FoundPlaces<'_>,
        rung: MatchKind,
    ) -> Result<(Vec<TextEdit>, EditOutcome), EditErrorKind> {
        let places = self.select_places(text, found)?;
        if let ([place], Occurrence::Only, MatchKind::Exact) = (places, self.occurrence, rung)
            && self.is_new_text_distinctive()
            && let Some(start) = found.already_applied_at(place)
        {
            return Ok((
                Vec::new(),
                EditOutcome::AlreadyApplied { line: line_number_at_offset(text, start) },
            ));
        }
        let mut splices = found.to_splices(places).ok_or(EditErrorKind::ResultTooLarge)?;
        splices.retain(|splice| text[splice.old.clone()] != splice.new);
        let places = splices.len();
        if places == 0 {
            return Err(EditErrorKind::NoEffect);
        }
        Ok((splices, EditOutcome::Replaced { places, match_kind: rung }))
    }

    /// Selects, among the found places, those that the edit replaces.
    fn select_places<'a>(
        &self,
        text: &str,
        found: &'a FoundPlaces<'_>,
    ) -> Result<&'a [MatchPlace], EditErrorKind> {
        let places = &found.places[..];
        match self.occurrence {
            Occurrence::All | Occurrence::NearLine(_) if places.len() > MAX_EDIT_REPLACEMENTS => {
                Err(EditErrorKind::TooManyMatches)
            }
            Occurrence::Only if places.len() == 1 => Ok(places),
            Occurrence::All => Ok(places),
            Occurrence::Only => Err(ambiguous_match_error(text, found)),
            Occurrence::Nth(number) => {
                let mut counted = found.places_without_overlap();
                let place = counted.nth(number.get() as usize - 1).map(std::slice::from_ref);
                place.ok_or_else(|| match places.len() > MAX_EDIT_REPLACEMENTS {
                    true => EditErrorKind::TooManyMatches,
                    false => EditErrorKind::NoSuchOccurrence {
                        places: found.places_without_overlap().count(),
                    },
                })
            }
            Occurrence::NearLine(line) => {
                let lines = line_numbers_at_offsets(
                    text,
                    places.iter().map(|place| found.raw_start_of_place(place)),
                );
                let away = |at: &usize| lines[*at].abs_diff(line.get());
                let nearest = (0..places.len()).min_by_key(away).unwrap_or_default();
                let mut as_near = (0..places.len()).filter(|at| away(at) == away(&nearest));
                match (as_near.next(), as_near.next()) {
                    (Some(at), None) => Ok(&places[at..=at]),
                    _ => Err(ambiguous_match_error(text, found)),
                }
            }
        }
    }

    /// Returns whether the new text is so long that it does not occur by chance.
    fn is_new_text_distinctive(&self) -> bool {
        self.new_text.trim().len() >= DISTINCTIVE_MIN_BYTES
    }

    fn handle_no_match(
        &self,
        text: &str,
        old: &str,
        new: &str,
        cancel: &IsCancelled<'_>,
    ) -> Result<(Vec<TextEdit>, EditOutcome), EditErrorKind> {
        let view = NormalisedView::new(text, Normalisation::LineEnds);
        let place = find_already_applied_place(&view.text, old, new);
        let line = place.as_ref().map(|place| line_number_at_offset(&view.text, place.start));
        match (place, line) {
            (Some(place), Some(line)) if place.is_certain => {
                Ok((Vec::new(), EditOutcome::AlreadyApplied { line }))
            }
            _ => {
                let (near, uncompared) = find_near_misses(&view.text, old, cancel);
                let new_at = line.filter(|_| self.is_new_text_distinctive());
                Err(EditErrorKind::NoMatch {
                    near_misses: near,
                    truncation: uncompared,
                    new_text_line: new_at,
                })
            }
        }
    }
}

fn ambiguous_match_error(text: &str, found: &FoundPlaces<'_>) -> EditErrorKind {
    let counted = found.places_without_overlap().take(MAX_EDIT_MATCHES_SHOWN);
    let starts = counted.map(|place| found.raw_start_of_place(place));
    let around = starts.map(|start| MatchContext::at_match(text, start)).collect();
    EditErrorKind::Ambiguous { places: found.places.len(), contexts: around }
}

/// Returns the line number of a byte offset, counted from 1.
fn line_number_at_offset(text: &str, place: usize) -> u32 {
    u32::try_from(memchr_iter(b'\n', &text.as_bytes()[..place]).count() + 1).unwrap_or(u32::MAX)
}

/// Returns the line numbers of byte offsets, which must be sorted.
fn line_numbers_at_offsets(text: &str, places: impl Iterator<Item = usize>) -> Vec<u32> {
    let (mut line, mut from) = (1, 0);
    let count = |place: usize| {
        line += memchr_iter(b'\n', &text.as_bytes()[from..place]).count();
        from = place;
        u32::try_from(line).unwrap_or(u32::MAX)
    };
    places.map(count).collect()
}

/// A place where the new text of an edit was already found.
struct AlreadyAppliedPlace {
    start: usize,
    /// Whether the surrounding lines prove that the edit was applied at this place.
    is_certain: bool,
}

/// Finds the place where the edit may already have been applied: the only place that contains the
/// new text as whole lines. `is_certain` is set if the old and the new text begin with the same
/// lines and end with the same lines, and if the common first lines or the common last lines occur
/// only once in the file.
fn find_already_applied_place(text: &str, old: &str, new: &str) -> Option<AlreadyAppliedPlace> {
    let start = find_unique_whole_lines(text, new)?;
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = |(old, new): &(&&str, &&str)| old == new;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let is_alone = |lines: &[&str]| {
        let lines = lines.join("\n");
        !lines.trim().is_empty() && find_unique_whole_lines(text, &lines).is_some()
    };
    let (first, last) = (&new[..before], &new[new.len() - after..]);
    let is_between = before > 0 && after > 0;
    Some(AlreadyAppliedPlace {
        start,
        is_certain: is_between && (is_alone(first) || is_alone(last)),
    })
}

/// Returns the start of some whole lines if they occur exactly once in the text.
fn find_unique_whole_lines(text: &str, lines: &str) -> Option<usize> {
    if lines.trim().is_empty() {
        return None;
    }
    let finder = Finder::new(lines);
    let places = finder.find_iter(text.as_bytes());
    let mut places = places.filter(|at| is_whole_lines(text, *at, at + lines.len()));
    places.next().filter(|_| places.next().is_none())
}

#[cfg(test)]
mod tests;
