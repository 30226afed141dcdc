//! The strategies for finding the old text of an edit, from the strictest to the least strict.
//!
//! Each strategy ignores differences that the previous strategy does not ignore. The first strategy
//! ignores only the kind of line ends. The second strategy ignores trailing whitespace, the third
//! one a different indentation of all lines, and the fourth one different quotes, dashes and spaces
//! that look alike. The fifth strategy also accepts an indentation with tabs instead of spaces, or
//! with spaces instead of tabs. If all strategies fail, nothing is replaced. All strategies except
//! the first match only whole lines or words.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use acp_types::diff::TextEdit;
use memchr::memchr_iter;
use memchr::memmem::Finder;

use super::normalised_view::{LineEndLookup, Normalisation, NormalisedView};
use crate::files::encoding::line_ends::is_within_line_end;
use crate::files::walk::IsCancelled;
use crate::limits::MAX_WHOLE_FILE_BYTES;

/// The strategy that found the old text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MatchKind {
    /// The text matches exactly, except that line ends may be LF or CRLF.
    Exact,
    /// The whitespace at the ends of lines differs, or the final line ending is missing.
    TrailingWhitespace,
    /// The indentation of all lines differs. The new text was indented in the same way as the file.
    Indentation,
    /// Some quotes, dashes or spaces differ, but look alike.
    LookalikeCharacters,
    /// The file has tabs instead of spaces, or spaces instead of tabs. The new text was indented in
    /// the same way as the file. A match of this kind must be unique.
    TabsOrSpaces,
    /// The text matches after the line numbers of `read_file` were removed from the old and the new
    /// text. A match of this kind must be unique.
    LineNumbers,
}

impl MatchKind {
    /// The strategies other than `LineNumbers`, in descending order of strictness.
    pub(super) const STRICTEST_FIRST: [Self; 5] = [
        Self::Exact,
        Self::TrailingWhitespace,
        Self::Indentation,
        Self::LookalikeCharacters,
        Self::TabsOrSpaces,
    ];

    fn normalisation(self) -> Normalisation {
        match self {
            Self::Exact => Normalisation::LineEnds,
            Self::TrailingWhitespace
            | Self::Indentation
            | Self::TabsOrSpaces
            | Self::LineNumbers => Normalisation::TrailingWhitespace,
            Self::LookalikeCharacters => Normalisation::LookalikeCharacters,
        }
    }
}

/// The old and the new text of an edit. Their line ends are line feeds, unless the edit changes
/// line ends only.
#[derive(Debug, Clone, Copy)]
pub(super) struct OldAndNewText<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Maximum number of places to find.
    pub(super) max_matches: usize,
}

/// The places that one strategy found.
pub(super) struct FoundPlaces<'a> {
    view: NormalisedView<'a>,
    replacement: OldAndNewText<'a>,
    pub(super) places: Vec<MatchPlace>,
}

/// A place where the old text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MatchPlace {
    /// The offset of the place in the normalised view.
    start: usize,
    shift: Reindentation,
}

/// The difference between the indentation in the file and the indentation of the old text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Reindentation {
    #[default]
    None,
    /// In each line, the same string is added to the indentation or removed from it.
    AddOrRemove { added: String, removed: String },
    /// One tab replaces this number of spaces.
    SpacesToTabs(usize),
    /// This number of spaces replaces one tab.
    TabsToSpaces(usize),
}

impl<'a> FoundPlaces<'a> {
    /// Finds the places that are equal to the old text byte for byte, including line ends. The line
    /// ends of the new text are not converted.
    pub(super) fn find_exact(
        text: &'a str,
        replacement: OldAndNewText<'a>,
        cancel: &IsCancelled<'_>,
    ) -> Self {
        let places = MatchPlace::find_all_not_splitting_crlf(
            text,
            replacement.old,
            replacement.max_matches,
            cancel,
        );
        Self { view: NormalisedView::new(text, Normalisation::Exact), replacement, places }
    }

    /// Finds the places that are equal to `old`, including line ends. Only for an `old` that
    /// contains carriage returns.
    pub(super) fn find_with_exact_line_ends(
        text: &'a str,
        old: &str,
        replacement: OldAndNewText<'a>,
        cancel: &IsCancelled<'_>,
    ) -> Self {
        let view = NormalisedView::new(text, Normalisation::LineEnds);
        let places =
            MatchPlace::find_all_not_splitting_crlf(text, old, replacement.max_matches, cancel)
                .into_iter();
        let places = places
            .map(|place| MatchPlace { start: view.view_position(place.start), ..place })
            .collect();
        Self { view, replacement, places }
    }

    /// Finds places with one strategy. If the search is cancelled, the list of places is
    /// incomplete.
    pub(super) fn find_by_strategy(
        rung: MatchKind,
        text: &'a str,
        pair: OldAndNewText<'a>,
        cancel: &IsCancelled<'_>,
    ) -> Self {
        let view = NormalisedView::new(text, rung.normalisation());
        let old = NormalisedView::from_normalised(pair.old, rung.normalisation());
        if rung != MatchKind::Exact && old.text.trim().is_empty() {
            return Self { view, replacement: pair, places: Vec::new() };
        }
        let lines = |start, end| is_whole_lines(&view.text, start, end);
        let places = match rung {
            MatchKind::Exact => {
                MatchPlace::find_all(&view.text, &old.text, pair.max_matches, cancel, |_, _| true)
            }
            MatchKind::Indentation => {
                find_reindented(&view.text, &old.text, pair.max_matches, cancel)
            }
            MatchKind::TabsOrSpaces => only_if_single(find_retabbed(&view.text, &old.text, cancel)),
            MatchKind::LineNumbers => {
                only_if_single(MatchPlace::find_all(&view.text, &old.text, 2, cancel, lines))
            }
            MatchKind::TrailingWhitespace | MatchKind::LookalikeCharacters => {
                // This strategy removes whitespace at the end of the old text. If whitespace was
                // removed, the match must end at the end of a line. For example, the old text `a `
                // must not match `a` in the line `a b`.
                let ends_line = pair.old.ends_with([' ', '\t']);
                let fits = |start, end| {
                    is_whole_words(&view.text, start, end)
                        && (!ends_line || is_line_end(&view.text, end))
                };
                MatchPlace::find_all(&view.text, &old.text, pair.max_matches, cancel, fits)
            }
        };
        let unended = pair.old.strip_suffix('\n').zip(pair.new.strip_suffix('\n'));
        match unended {
            Some((old, new)) if rung != MatchKind::Exact && places.is_empty() => {
                let old_view = NormalisedView::from_normalised(old, rung.normalisation());
                let is_at_end =
                    |start, end| end == view.text.len() && is_whole_words(&view.text, start, end);
                let places = MatchPlace::find_all(
                    &view.text,
                    &old_view.text,
                    pair.max_matches,
                    cancel,
                    is_at_end,
                );
                Self { view, replacement: OldAndNewText { old, new, ..pair }, places }
            }
            _ => Self { view, replacement: pair, places },
        }
    }

    /// Returns the offset in the raw text at which a place starts.
    pub(super) fn raw_start_of_place(&self, place: &MatchPlace) -> usize {
        self.view.raw_position(place.start)
    }

    /// Returns the places in order, without those that overlap the previously returned place.
    pub(super) fn places_without_overlap(&self) -> impl Iterator<Item = &MatchPlace> {
        let mut end = 0;
        self.places.iter().filter(move |place| {
            let is_apart = place.start >= end;
            if is_apart {
                end = self.view_end_of_place(place, &place.shift.apply_to(self.replacement.old));
            }
            is_apart
        })
    }

    /// Returns the offset at which a place ends, in the normalised view. `old` is the old text with
    /// the indentation of the place.
    fn view_end_of_place(&self, place: &MatchPlace, old: &str) -> usize {
        place.start + NormalisedView::from_normalised(old, self.view.level).text.len()
    }

    /// Returns the offset of the new text if the new text already exists around a place. The new
    /// text must exist as whole lines, and must contain the old text of this place.
    pub(super) fn already_applied_at(&self, place: &MatchPlace) -> Option<usize> {
        let (OldAndNewText { old, new, .. }, text) = (self.replacement, &self.view.text);
        let mut starts = new.match_indices(old).filter_map(|(at, _)| place.start.checked_sub(at));
        let is_there = |start: &usize| {
            text.as_bytes()[*start..].starts_with(new.as_bytes())
                && is_whole_lines(text, *start, *start + new.len())
        };
        starts.find(is_there).map(|start| self.view.raw_position(start))
    }

    /// Returns the splices that replace the given places. If the old and the new text begin or end
    /// with the same text, that part of the file stays unchanged, including differences that the
    /// strategy ignored. Returns `None` if the result would exceed the maximum file size.
    pub(super) fn to_splices(&self, places: &[MatchPlace]) -> Option<Vec<TextEdit>> {
        let (mut splices, mut end, mut line_ends) = (Vec::new(), 0, self.view.line_end_lookup());
        let new_lines = memchr_iter(b'\n', self.replacement.new.as_bytes()).count() + 1;
        let mut room = usize::try_from(MAX_WHOLE_FILE_BYTES).unwrap_or(usize::MAX);
        for place in places {
            if place.start >= end {
                let more = match &place.shift {
                    Reindentation::None | Reindentation::SpacesToTabs(_) => 0,
                    Reindentation::AddOrRemove { added, .. } => {
                        new_lines.saturating_mul(added.len())
                    }
                    Reindentation::TabsToSpaces(width) => {
                        let tabs = memchr_iter(b'\t', self.replacement.new.as_bytes()).count();
                        tabs.saturating_mul(*width)
                    }
                };
                room = room.checked_sub(self.replacement.new.len().saturating_add(more))?;
                let old = place.shift.apply_to(self.replacement.old);
                let new = place.shift.apply_to(self.replacement.new);
                let pair = OldAndNewText { old: &old, new: &new, ..self.replacement };
                splices.push(self.to_splice(place.start, pair, &mut line_ends));
                end = self.view_end_of_place(place, &old);
            }
        }
        Some(splices)
    }

    fn to_splice(
        &self,
        start: usize,
        pair: OldAndNewText<'_>,
        line_ends: &mut LineEndLookup<'_>,
    ) -> TextEdit {
        let OldAndNewText { old, new, .. } = pair;
        let level = self.view.level;
        let view = NormalisedView::from_normalised(old, level);
        let (before, after) = common_affix_bytes(old, new);
        let before = view.raw_position(view.view_position(before));
        let places = view.view_position(before)
            ..view.view_position(old.len() - after).max(view.view_position(before));
        let raw: Range<_> = self.view.raw_position(start + places.start)
            ..self.view.raw_position(start + places.end);
        let new = &new[before..(new.len() - after).max(before)];
        let line_end = line_ends.line_end_at_raw_offset(raw.start);
        let new = if level == Normalisation::Exact || line_end == "\n" {
            new.to_owned()
        } else {
            new.replace('\n', line_end)
        };
        TextEdit { old: raw, new }
    }
}

/// Returns whether a part of a text consists of whole lines.
pub(super) fn is_whole_lines(text: &str, start: usize, end: usize) -> bool {
    is_line_start(text, start) && (is_line_end(text, end) || text[start..end].ends_with('\n'))
}

fn is_line_start(text: &str, place: usize) -> bool {
    place == 0 || text.as_bytes()[place - 1] == b'\n'
}

fn is_line_end(text: &str, place: usize) -> bool {
    place == text.len() || text.as_bytes()[place] == b'\n'
}

/// Returns whether a part of a text neither begins nor ends inside a word. A part without words
/// must also consist of whole lines.
fn is_whole_words(text: &str, start: usize, end: usize) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let cuts = |at: usize| {
        text[..at].chars().next_back().is_some_and(is_word)
            && text[at..].chars().next().is_some_and(is_word)
    };
    let has_words = text[start..end].contains(is_word);
    !cuts(start) && !cuts(end) && (has_words || is_whole_lines(text, start, end))
}

/// Returns the list unchanged if it contains exactly one place. Otherwise returns an empty list.
fn only_if_single(places: Vec<MatchPlace>) -> Vec<MatchPlace> {
    if places.len() == 1 { places } else { Vec::new() }
}

impl MatchPlace {
    /// Finds the exact matches in a text, except matches that begin or end between the CR and the
    /// LF of a line end.
    fn find_all_not_splitting_crlf(
        text: &str,
        wanted: &str,
        most: usize,
        cancel: &IsCancelled<'_>,
    ) -> Vec<Self> {
        let is_cut = |at| is_within_line_end(text, at);
        Self::find_all(text, wanted, most, cancel, |start, end| !is_cut(start) && !is_cut(end))
    }

    /// Returns whether a text occurs exactly once in another text.
    pub(super) fn occurs_exactly_once(text: &str, wanted: &str, cancel: &IsCancelled<'_>) -> bool {
        Self::find_all(text, wanted, 2, cancel, |_, _| true).len() == 1
    }

    /// Finds all places. `fits` returns whether a place with this start and end is accepted. The
    /// list includes overlapping places, because these also make an edit ambiguous. After a
    /// cancellation, the list is incomplete.
    fn find_all(
        text: &str,
        wanted: &str,
        most: usize,
        cancel: &IsCancelled<'_>,
        fits: impl Fn(usize, usize) -> bool,
    ) -> Vec<Self> {
        let step = wanted.chars().next().map_or(1, char::len_utf8);
        let finder = Finder::new(wanted);
        let (mut from, mut check) = (0, CancelCheck::new(cancel));
        let starts = std::iter::from_fn(|| {
            if check.add_work_and_check(wanted.len() + CANDIDATE_COST_BYTES) {
                return None;
            }
            let start = from + finder.find(text.as_bytes().get(from..)?)?;
            from = start + step;
            Some(start)
        });
        let starts = starts.filter(|start| fits(*start, start + wanted.len()));
        starts.take(most).map(|start| Self { start, shift: Reindentation::default() }).collect()
    }
}

/// Checks for cancellation whenever a fixed amount of work is done.
pub(super) struct CancelCheck<'a> {
    cancel: &'a IsCancelled<'a>,
    work: usize,
}

impl<'a> CancelCheck<'a> {
    pub(super) fn new(cancel: &'a IsCancelled<'a>) -> Self {
        Self { cancel, work: 0 }
    }

    /// Adds an amount of work, measured in bytes. Returns whether the search must stop.
    pub(super) fn add_work_and_check(&mut self, work: usize) -> bool {
        self.work += work;
        let asks = self.work >= BYTES_PER_CANCEL_CHECK;
        if asks {
            self.work = 0;
        }
        asks && (self.cancel)()
    }
}

/// Number of bytes that a search processes between two checks for cancellation.
const BYTES_PER_CANCEL_CHECK: usize = 64 * 1024;

/// Work for checking one candidate, measured in bytes.
const CANDIDATE_COST_BYTES: usize = 16;

/// Finds the places where whole lines match except for their indentation. In each line, the same
/// string must be added to the indentation or removed from it.
fn find_reindented(
    text: &str,
    wanted: &str,
    most: usize,
    cancel: &IsCancelled<'_>,
) -> Vec<MatchPlace> {
    let wanted: Vec<_> = wanted.split_terminator('\n').collect();
    let Some(anchor) = wanted.iter().position(|line| !line.trim().is_empty()) else {
        return Vec::new();
    };
    let mut numbers = HashMap::new();
    for line in &wanted {
        let number = numbers.len();
        numbers.entry(without_indentation(line)).or_insert(number);
    }
    let number = |line| numbers.get(without_indentation(line)).copied().unwrap_or(usize::MAX);
    let pattern: Vec<_> = wanted.iter().map(|line| number(line)).collect();
    let borders = border_lengths(&pattern);
    let (mut lines, mut at, mut same, mut places) = (Vec::new(), 0, 0, Vec::new());
    for (index, line) in text.split_terminator('\n').enumerate() {
        lines.push((at, line));
        at += line.len() + 1;
        let number = number(line);
        while same > 0 && pattern.get(same) != Some(&number) {
            same = borders[same - 1];
        }
        same += usize::from(pattern[same] == number);
        let is_candidate = same == pattern.len();
        if (is_candidate || index % 4096 == 0) && (cancel() || places.len() == most) {
            break;
        }
        if is_candidate {
            same = borders[same - 1];
            let found = &lines[index + 1 - pattern.len()..];
            let shift = Reindentation::from_lines(wanted[anchor], found[anchor].1);
            let fits = |shift: &Reindentation| {
                wanted
                    .iter()
                    .zip(found)
                    .all(|(wanted, (_, line))| shift.converts_line_into(wanted, line))
            };
            let place = shift.filter(fits).map(|shift| MatchPlace { start: found[0].0, shift });
            places.extend(place);
        }
    }
    places
}

/// Returns, for each prefix of a pattern, the length of its longest proper border (Knuth, Morris
/// and Pratt). A border of a text is both a prefix and a suffix of the text.
fn border_lengths(pattern: &[usize]) -> Vec<usize> {
    let (mut borders, mut same) = (vec![0; pattern.len()], 0);
    for at in 1..pattern.len() {
        while same > 0 && pattern[same] != pattern[at] {
            same = borders[same - 1];
        }
        same += usize::from(pattern[same] == pattern[at]);
        borders[at] = same;
    }
    borders
}

/// Finds the places where whole lines match, but are indented with tabs instead of spaces or with
/// spaces instead of tabs. The first line of the old text may lack its indentation.
fn find_retabbed(text: &str, wanted: &str, cancel: &IsCancelled<'_>) -> Vec<MatchPlace> {
    let (mut tried, mut places) = (vec![wanted.to_owned()], Vec::new());
    for width in [4, 2, 8, 3] {
        for shift in [Reindentation::SpacesToTabs(width), Reindentation::TabsToSpaces(width)] {
            let wanted = shift.apply_to(wanted);
            if tried.iter().any(|tried| *tried == wanted) {
                continue;
            }
            let is_begun = |start: usize| {
                let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
                let is_indented = wanted.starts_with([' ', '\t']);
                line == start || (!is_indented && text[line..start].trim().is_empty())
            };
            // The end of a candidate is checked first. In a long line, most candidates are far from
            // the start of the line, so checking the start takes longer.
            let fits = |start: usize, end| {
                (is_line_end(text, end) || wanted.ends_with('\n')) && is_begun(start)
            };
            let found = MatchPlace::find_all(text, &wanted, 2, cancel, fits).into_iter();
            places.extend(found.map(|place| MatchPlace { shift: shift.clone(), ..place }));
            tried.push(wanted.into_owned());
        }
    }
    places
}

impl Reindentation {
    /// Returns the change of the indentation that turns the line `wanted` into the line `found`.
    fn from_lines(wanted: &str, found: &str) -> Option<Self> {
        let indent = |line: &str| line[..line.len() - without_indentation(line).len()].to_owned();
        let (wanted, found) = (indent(wanted), indent(found));
        let shift = |added: &str, removed: &str| {
            Some(Self::AddOrRemove { added: added.to_owned(), removed: removed.to_owned() })
        };
        match (found.strip_suffix(&wanted), wanted.strip_suffix(&found)) {
            (Some(added), _) => shift(added, ""),
            (None, Some(removed)) => shift("", removed),
            (None, None) => None,
        }
    }

    /// Returns whether this change of the indentation turns the line `wanted` into the line
    /// `found`.
    fn converts_line_into(&self, wanted: &str, found: &str) -> bool {
        match self {
            Self::AddOrRemove { added, removed } if !wanted.trim().is_empty() => {
                let rest =
                    wanted.strip_prefix(&**removed).unwrap_or_else(|| without_indentation(wanted));
                found.strip_prefix(&**added) == Some(rest)
            }
            _ => wanted == found,
        }
    }

    /// Applies the change of the indentation to a line. If the line does not begin with the string
    /// to remove, its whole indentation is removed.
    fn apply_to_line<'a>(&self, line: &'a str) -> Cow<'a, str> {
        if line.trim().is_empty() {
            return line.into();
        }
        let columns = |width: usize| {
            let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
            let column = |at: usize, letter| match letter {
                '\t' => at / width * width + width,
                _ => at + 1,
            };
            indent.chars().fold(0, column)
        };
        let rest = || line.trim_start_matches([' ', '\t']);
        match self {
            Self::None => line.into(),
            Self::AddOrRemove { added, removed } => {
                let line =
                    line.strip_prefix(&**removed).unwrap_or_else(|| without_indentation(line));
                if added.is_empty() { line.into() } else { format!("{added}{line}").into() }
            }
            Self::SpacesToTabs(width) => {
                let (tabs, spaces) = (columns(*width) / width, columns(*width) % width);
                format!("{}{}{}", "\t".repeat(tabs), " ".repeat(spaces), rest()).into()
            }
            Self::TabsToSpaces(width) => {
                format!("{}{}", " ".repeat(columns(*width)), rest()).into()
            }
        }
    }

    fn apply_to<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if *self == Self::default() {
            return text.into();
        }
        text.split_inclusive('\n').map(|line| self.apply_to_line(line)).collect::<String>().into()
    }
}

/// Returns a line without its indentation.
fn without_indentation(line: &str) -> &str {
    line.trim_start_matches(|letter: char| letter.is_whitespace() && letter != '\r')
}

/// Returns the lengths in bytes of the common prefix and the common suffix of two texts. The prefix
/// and the suffix consist of whole characters, and do not overlap.
fn common_affix_bytes(old: &str, new: &str) -> (usize, usize) {
    let same = |(old, new): &(char, char)| old == new;
    let length = |(letter, _): (char, char)| letter.len_utf8();
    let before: usize = old.chars().zip(new.chars()).take_while(same).map(length).sum();
    let (old, new) = (old[before..].chars().rev(), new[before..].chars().rev());
    let after = old.zip(new).take_while(same).map(length).sum();
    (before, after)
}
