//! The ladder: where a text is that shall be replaced, first exactly, then ever less so.
//!
//! It knows nothing of how many places are meant. Each rung passes over more than the one before:
//! how lines end and the blanks before that, an indentation that all lines share, quotes, dashes
//! and spaces that look alike, tabs where there are spaces. Below the last rung nothing is replaced.
//! All but the first one match whole lines or words only.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use acp_types::diff::Splice;
use memchr::memchr_iter;
use memchr::memmem::Finder;

use super::view::{Level, LineEnds, View};
use crate::files::encoding::line_ends::is_within_line_end;
use crate::files::walk::Cancel;
use crate::limits::FILE_BYTES;

/// How a text that was to be replaced was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rung {
    /// As it was given, but for whether lines end with CRLF.
    Exact,
    /// With other blanks at the ends of lines, or without the last line end.
    Blanks,
    /// With all lines indented by more or by less; the new text was indented alike.
    Indent,
    /// With other signs for quotes, dashes and spaces, which look the same.
    Alike,
    /// Once, indented with tabs instead of spaces or the other way round; the new text was indented
    /// alike.
    Tabs,
    /// Once, without the line numbers of `read_file`, which the new text lost too.
    Numbered,
}

impl Rung {
    /// From the strictest on.
    pub(super) const ALL: [Self; 5] =
        [Self::Exact, Self::Blanks, Self::Indent, Self::Alike, Self::Tabs];

    fn level(self) -> Level {
        match self {
            Self::Exact => Level::LineEnds,
            Self::Blanks | Self::Indent | Self::Tabs | Self::Numbered => Level::Blanks,
            Self::Alike => Level::Alike,
        }
    }
}

/// A text to be replaced and what replaces it, with line feeds as their line ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// How many places of it are looked for.
    pub(super) most: usize,
}

/// The places of a text on one rung.
pub(super) struct Found<'a> {
    view: View<'a>,
    pair: Pair<'a>,
    pub(super) places: Vec<Place>,
}

/// A place that the text to be replaced was found in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Where it is in the view.
    start: usize,
    shift: Shift,
}

/// How the lines of a place are indented, where that is not as in the text that is searched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Shift {
    #[default]
    None,
    /// All by the same more, or less.
    Indent { added: String, removed: String },
    /// With tabs for so many spaces each.
    ToTabs(usize),
    /// With so many spaces for each tab.
    ToSpaces(usize),
}

impl<'a> Found<'a> {
    /// Finds a text just as it is, carriage returns too. What replaces it keeps its line ends.
    pub(super) fn as_is(text: &'a str, pair: Pair<'a>, cancel: &Cancel<'_>) -> Self {
        let places = Place::to_the_byte(text, pair.old, pair.most, cancel);
        Self { view: View::new(text, Level::Exact), pair, places }
    }

    /// Finds the places that have the very line ends of `old`, a text that names carriage returns.
    pub(super) fn with_line_ends(
        text: &'a str,
        old: &str,
        pair: Pair<'a>,
        cancel: &Cancel<'_>,
    ) -> Self {
        let view = View::new(text, Level::LineEnds);
        let places = Place::to_the_byte(text, old, pair.most, cancel).into_iter();
        let places =
            places.map(|place| Place { start: view.of_raw(place.start), ..place }).collect();
        Self { view, pair, places }
    }

    /// Finds a text on one rung. Nothing, if it is cancelled meanwhile.
    pub(super) fn on(rung: Rung, text: &'a str, pair: Pair<'a>, cancel: &Cancel<'_>) -> Self {
        let view = View::new(text, rung.level());
        let old = View::of_normalised(pair.old, rung.level());
        if rung != Rung::Exact && old.text.trim().is_empty() {
            return Self { view, pair, places: Vec::new() };
        }
        let lines = |start, end| is_whole_lines(&view.text, start, end);
        let places = match rung {
            Rung::Exact => Place::all_of(&view.text, &old.text, pair.most, cancel, |_, _| true),
            Rung::Indent => shifted(&view.text, &old.text, pair.most, cancel),
            Rung::Tabs => only(retabbed(&view.text, &old.text, cancel)),
            Rung::Numbered => only(Place::all_of(&view.text, &old.text, 2, cancel, lines)),
            Rung::Blanks | Rung::Alike => {
                // Blanks that were passed over at the end say that the line ends there.
                let ends_line = pair.old.ends_with([' ', '\t']);
                let fits = |start, end| {
                    is_whole_words(&view.text, start, end)
                        && (!ends_line || is_line_end(&view.text, end))
                };
                Place::all_of(&view.text, &old.text, pair.most, cancel, fits)
            }
        };
        let unended = pair.old.strip_suffix('\n').zip(pair.new.strip_suffix('\n'));
        match unended {
            Some((old, new)) if rung != Rung::Exact && places.is_empty() => {
                let old_view = View::of_normalised(old, rung.level());
                let is_at_end =
                    |start, end| end == view.text.len() && is_whole_words(&view.text, start, end);
                let places =
                    Place::all_of(&view.text, &old_view.text, pair.most, cancel, is_at_end);
                Self { view, pair: Pair { old, new, ..pair }, places }
            }
            _ => Self { view, pair, places },
        }
    }

    /// Returns where a place begins in the text.
    pub(super) fn start(&self, place: &Place) -> usize {
        self.view.to_raw(place.start)
    }

    /// Returns where in the text the new text begins, if it is at the place already as whole lines,
    /// with the old one as a part of it.
    pub(super) fn new_at(&self, place: &Place) -> Option<usize> {
        let (Pair { old, new, .. }, text) = (self.pair, &self.view.text);
        let mut starts = new.match_indices(old).filter_map(|(at, _)| place.start.checked_sub(at));
        let is_there = |start: &usize| {
            text.as_bytes()[*start..].starts_with(new.as_bytes())
                && is_whole_lines(text, *start, *start + new.len())
        };
        starts.find(is_there).map(|start| self.view.to_raw(start))
    }

    /// Replaces some of the places. What both texts begin or end with is not touched, nor what is
    /// passed over there. Nothing, if the new text would be more than a file may have.
    pub(super) fn splices(&self, places: &[Place]) -> Option<Vec<Splice>> {
        let (mut splices, mut end, mut line_ends) = (Vec::new(), 0, self.view.line_ends());
        let new_lines = memchr_iter(b'\n', self.pair.new.as_bytes()).count() + 1;
        let mut room = usize::try_from(FILE_BYTES).unwrap_or(usize::MAX);
        for place in places {
            if place.start >= end {
                let more = match &place.shift {
                    Shift::None | Shift::ToTabs(_) => 0,
                    Shift::Indent { added, .. } => new_lines.saturating_mul(added.len()),
                    Shift::ToSpaces(width) => {
                        let tabs = memchr_iter(b'\t', self.pair.new.as_bytes()).count();
                        tabs.saturating_mul(*width)
                    }
                };
                room = room.checked_sub(self.pair.new.len().saturating_add(more))?;
                let old = place.shift.apply_to(self.pair.old);
                let new = place.shift.apply_to(self.pair.new);
                let pair = Pair { old: &old, new: &new, ..self.pair };
                splices.push(self.splice(place.start, pair, &mut line_ends));
                end = place.start + View::of_normalised(&old, self.view.level).text.len();
            }
        }
        Some(splices)
    }

    fn splice(&self, start: usize, pair: Pair<'_>, line_ends: &mut LineEnds<'_>) -> Splice {
        let Pair { old, new, .. } = pair;
        let level = self.view.level;
        let view = View::of_normalised(old, level);
        let (before, after) = common(old, new);
        let before = view.to_raw(view.of_raw(before));
        let places = view.of_raw(before)..view.of_raw(old.len() - after).max(view.of_raw(before));
        let raw: Range<_> =
            self.view.to_raw(start + places.start)..self.view.to_raw(start + places.end);
        let new = &new[before..(new.len() - after).max(before)];
        let line_end = line_ends.at(raw.start);
        let new = if level == Level::Exact || line_end == "\n" {
            new.to_owned()
        } else {
            new.replace('\n', line_end)
        };
        Splice { old: raw, new }
    }
}

/// Whether a part of a text begins where a line does, and ends where one does.
pub(super) fn is_whole_lines(text: &str, start: usize, end: usize) -> bool {
    is_line_start(text, start) && (is_line_end(text, end) || text[start..end].ends_with('\n'))
}

fn is_line_start(text: &str, place: usize) -> bool {
    place == 0 || text.as_bytes()[place - 1] == b'\n'
}

fn is_line_end(text: &str, place: usize) -> bool {
    place == text.len() || text.as_bytes()[place] == b'\n'
}

/// Whether a part of a text cuts no word at its beginning or its end, and has words or is whole
/// lines.
fn is_whole_words(text: &str, start: usize, end: usize) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let cuts = |at: usize| {
        text[..at].chars().next_back().is_some_and(is_word)
            && text[at..].chars().next().is_some_and(is_word)
    };
    let has_words = text[start..end].contains(is_word);
    !cuts(start) && !cuts(end) && (has_words || is_whole_lines(text, start, end))
}

/// Returns the place if it is the only one.
fn only(places: Vec<Place>) -> Vec<Place> {
    if places.len() == 1 { places } else { Vec::new() }
}

impl Place {
    /// Returns the places in a text as it is that cut no line end in two.
    fn to_the_byte(text: &str, wanted: &str, most: usize, cancel: &Cancel<'_>) -> Vec<Self> {
        let is_cut = |at| is_within_line_end(text, at);
        Self::all_of(text, wanted, most, cancel, |start, end| !is_cut(start) && !is_cut(end))
    }

    /// Whether a text is in another one just once.
    pub(super) fn is_alone(text: &str, wanted: &str, cancel: &Cancel<'_>) -> bool {
        Self::all_of(text, wanted, 2, cancel, |_, _| true).len() == 1
    }

    /// Returns all places that fit by where they start and end, also those that overlap: they are
    /// as ambiguous as others. If it is cancelled meanwhile, they are not all.
    fn all_of(
        text: &str,
        wanted: &str,
        most: usize,
        cancel: &Cancel<'_>,
        fits: impl Fn(usize, usize) -> bool,
    ) -> Vec<Self> {
        let step = wanted.chars().next().map_or(1, char::len_utf8);
        let finder = Finder::new(wanted);
        let (mut from, mut check) = (0, CancelCheck::new(cancel));
        let starts = std::iter::from_fn(|| {
            if check.is_over(wanted.len() + PLACE_WORK) {
                return None;
            }
            let start = from + finder.find(text.as_bytes().get(from..)?)?;
            from = start + step;
            Some(start)
        });
        let starts = starts.filter(|start| fits(*start, start + wanted.len()));
        starts.take(most).map(|start| Self { start, shift: Shift::default() }).collect()
    }
}

/// Asks whether a search is cancelled, each time that it has done so much work.
pub(super) struct CancelCheck<'a> {
    cancel: &'a Cancel<'a>,
    work: usize,
}

impl<'a> CancelCheck<'a> {
    pub(super) fn new(cancel: &'a Cancel<'a>) -> Self {
        Self { cancel, work: 0 }
    }

    /// Adds work, in bytes that are looked at. Returns whether the search has to end.
    pub(super) fn is_over(&mut self, work: usize) -> bool {
        self.work += work;
        let asks = self.work >= CHECKED_BYTES;
        if asks {
            self.work = 0;
        }
        asks && (self.cancel)()
    }
}

/// Bytes between two questions whether a search is cancelled.
const CHECKED_BYTES: usize = 64 * 1024;

/// What it costs to look at one place, in bytes.
const PLACE_WORK: usize = 16;

/// Returns the places of whole lines that are all indented by the same more, or less.
fn shifted(text: &str, wanted: &str, most: usize, cancel: &Cancel<'_>) -> Vec<Place> {
    let wanted: Vec<_> = wanted.split_terminator('\n').collect();
    let Some(telling) = wanted.iter().position(|line| !line.trim().is_empty()) else {
        return Vec::new();
    };
    let mut numbers = HashMap::new();
    for line in &wanted {
        let number = numbers.len();
        numbers.entry(unindented(line)).or_insert(number);
    }
    let number = |line| numbers.get(unindented(line)).copied().unwrap_or(usize::MAX);
    let pattern: Vec<_> = wanted.iter().map(|line| number(line)).collect();
    let borders = borders(&pattern);
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
            let shift = Shift::between(wanted[telling], found[telling].1);
            let fits = |shift: &Shift| {
                wanted.iter().zip(found).all(|(wanted, (_, line))| shift.makes(wanted, line))
            };
            let place = shift.filter(fits).map(|shift| Place { start: found[0].0, shift });
            places.extend(place);
        }
    }
    places
}

/// Returns for each beginning of a pattern the length of the longest shorter beginning that it ends
/// with (Knuth, Morris and Pratt).
fn borders(pattern: &[usize]) -> Vec<usize> {
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

/// Returns the places of whole lines that are indented with tabs instead of spaces, or with spaces
/// instead of tabs. The first line may be without its indentation.
fn retabbed(text: &str, wanted: &str, cancel: &Cancel<'_>) -> Vec<Place> {
    let (mut tried, mut places) = (vec![wanted.to_owned()], Vec::new());
    for width in [4, 2, 8, 3] {
        for shift in [Shift::ToTabs(width), Shift::ToSpaces(width)] {
            let wanted = shift.apply_to(wanted);
            if tried.iter().any(|tried| *tried == wanted) {
                continue;
            }
            let is_begun = |start: usize| {
                let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
                let is_indented = wanted.starts_with([' ', '\t']);
                line == start || (!is_indented && text[line..start].trim().is_empty())
            };
            // A line begins far before most places of a long one, so its end is looked at first.
            let fits = |start: usize, end| {
                (is_line_end(text, end) || wanted.ends_with('\n')) && is_begun(start)
            };
            let found = Place::all_of(text, &wanted, 2, cancel, fits).into_iter();
            places.extend(found.map(|place| Place { shift: shift.clone(), ..place }));
            tried.push(wanted.into_owned());
        }
    }
    places
}

impl Shift {
    /// Finds what makes one line of the other.
    fn between(wanted: &str, found: &str) -> Option<Self> {
        let indent = |line: &str| line[..line.len() - unindented(line).len()].to_owned();
        let (wanted, found) = (indent(wanted), indent(found));
        let shift = |added: &str, removed: &str| {
            Some(Self::Indent { added: added.to_owned(), removed: removed.to_owned() })
        };
        match (found.strip_suffix(&wanted), wanted.strip_suffix(&found)) {
            (Some(added), _) => shift(added, ""),
            (None, Some(removed)) => shift("", removed),
            (None, None) => None,
        }
    }

    /// Whether it makes one line of the other.
    fn makes(&self, wanted: &str, found: &str) -> bool {
        match self {
            Self::Indent { added, removed } if !wanted.trim().is_empty() => {
                let rest = wanted.strip_prefix(&**removed).unwrap_or_else(|| unindented(wanted));
                found.strip_prefix(&**added) == Some(rest)
            }
            _ => wanted == found,
        }
    }

    /// A line that has less than all are to lose loses all of it.
    fn of_line<'a>(&self, line: &'a str) -> Cow<'a, str> {
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
            Self::Indent { added, removed } => {
                let line = line.strip_prefix(&**removed).unwrap_or_else(|| unindented(line));
                if added.is_empty() { line.into() } else { format!("{added}{line}").into() }
            }
            Self::ToTabs(width) => {
                let (tabs, spaces) = (columns(*width) / width, columns(*width) % width);
                format!("{}{}{}", "\t".repeat(tabs), " ".repeat(spaces), rest()).into()
            }
            Self::ToSpaces(width) => format!("{}{}", " ".repeat(columns(*width)), rest()).into(),
        }
    }

    fn apply_to<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if *self == Self::default() {
            return text.into();
        }
        text.split_inclusive('\n').map(|line| self.of_line(line)).collect::<String>().into()
    }
}

/// Returns a line without what indents it.
fn unindented(line: &str) -> &str {
    line.trim_start_matches(|letter: char| letter.is_whitespace() && letter != '\r')
}

/// Returns the bytes of what both texts begin with, whole lines before whole characters, and of
/// what both end with.
fn common(old: &str, new: &str) -> (usize, usize) {
    let same = |(old, new): &(char, char)| old == new;
    let length = |(letter, _): (char, char)| letter.len_utf8();
    let before: usize = old.chars().zip(new.chars()).take_while(same).map(length).sum();
    let (old, new) = (old[before..].chars().rev(), new[before..].chars().rev());
    let after = old.zip(new).take_while(same).map(length).sum();
    (before, after)
}
