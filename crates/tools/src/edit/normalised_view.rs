//! A normalised view of a text for comparisons. The view maps its offsets to offsets in the raw
//! text.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memrchr};

use crate::files::encoding::line_ends::line_terminator_byte;

/// The differences that a comparison of two texts ignores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Normalisation {
    /// No differences are ignored.
    Exact,
    /// The kind of line ends is ignored.
    LineEnds,
    /// The kind of line ends and trailing whitespace are ignored.
    TrailingWhitespace,
    /// The kind of line ends and trailing whitespace are ignored. Quotes, dashes and spaces that
    /// look alike are treated as equal.
    LookalikeCharacters,
}

/// A text without the differences that a normalisation ignores.
#[derive(Debug)]
pub(super) struct NormalisedView<'a> {
    raw: &'a str,
    pub(super) level: Normalisation,
    pub(super) text: Cow<'a, str>,
    /// The end offset of each stretch, in the view and in the raw text. Within a stretch, the view
    /// and the raw text are equal. Each replaced character forms a separate stretch.
    stretch_ends: Vec<(usize, usize)>,
}

impl<'a> NormalisedView<'a> {
    /// Creates the view of the text of a file. The function [`line_terminator_byte`] determines
    /// which byte ends a line.
    pub(super) fn new(raw: &'a str, level: Normalisation) -> Self {
        Self::from_lines(raw, level, LineByteRangeIter::new(raw))
    }

    /// Creates the view of a text that is already
    /// [normalised](crate::files::encoding::line_ends::normalise_line_ends). In such a text, only
    /// line feeds end lines.
    pub(super) fn from_normalised(raw: &'a str, level: Normalisation) -> Self {
        Self::from_lines(
            raw,
            level,
            LineByteRangeIter { has_crlf: false, feed: b'\n', ..LineByteRangeIter::new(raw) },
        )
    }

    fn from_lines(raw: &'a str, level: Normalisation, lines: LineByteRangeIter<'a>) -> Self {
        let is_plain = match level {
            Normalisation::Exact => true,
            Normalisation::LineEnds => !lines.has_crlf || memchr(b'\r', raw.as_bytes()).is_none(),
            Normalisation::TrailingWhitespace | Normalisation::LookalikeCharacters => false,
        };
        if is_plain {
            let ends = vec![(raw.len(), raw.len())];
            return Self { raw, level, text: Cow::Borrowed(raw), stretch_ends: ends };
        }
        let mut builder = ViewBuilder::default();
        let mut at = 0;
        for line in lines {
            let content = match level {
                Normalisation::TrailingWhitespace => {
                    raw[line.content.clone()].trim_end_matches([' ', '\t'])
                }
                Normalisation::LookalikeCharacters => {
                    raw[line.content.clone()].trim_end_matches(|letter| {
                        letter == '\t' || plain_lookalike(letter) == Some(' ')
                    })
                }
                Normalisation::Exact | Normalisation::LineEnds => &raw[line.content.clone()],
            };
            if level == Normalisation::LookalikeCharacters {
                builder.push_plain_lookalikes(at, content);
            } else {
                builder.push_stretch(at, content);
            }
            if line.end > line.content.end {
                builder.push_line_end(line.end);
            }
            at = line.end;
        }
        Self { raw, level, text: Cow::Owned(builder.text), stretch_ends: builder.ends }
    }

    /// Converts an offset in the view to an offset in the raw text. If the raw text has ignored
    /// text at this position, returns the offset before the ignored text.
    pub(super) fn raw_position(&self, place: usize) -> usize {
        if place == 0 {
            return 0;
        }
        let at = self.stretch_ends.partition_point(|(end, _)| *end < place);
        self.stretch_ends.get(at).map_or(self.raw.len(), |(end, raw_end)| raw_end - (end - place))
    }

    /// Converts an offset in the raw text to an offset in the view. An offset inside ignored text
    /// becomes the offset at which the view omits this text.
    pub(super) fn view_position(&self, place: usize) -> usize {
        let at = self.stretch_ends.partition_point(|(_, raw_end)| *raw_end < place);
        let before = at.checked_sub(1).map_or(0, |before| self.stretch_ends[before].0);
        let Some((end, raw_end)) = self.stretch_ends.get(at) else { return self.text.len() };
        (end + place).saturating_sub(*raw_end).max(before)
    }

    /// Creates a lookup that returns line ends for increasing offsets.
    pub(super) fn line_end_lookup(&self) -> LineEndLookup<'a> {
        let raw = self.raw.as_bytes();
        let feed = line_terminator_byte(self.raw);
        LineEndLookup { raw, feed, next: memchr(feed, raw), last: memrchr(feed, raw) }
    }
}

/// Looks up the line ends of a text. The requested offsets must not decrease.
#[derive(Debug)]
pub(super) struct LineEndLookup<'a> {
    raw: &'a [u8],
    feed: u8,
    /// The first line end at or after the offset of the previous call.
    next: Option<usize>,
    last: Option<usize>,
}

impl LineEndLookup<'_> {
    /// Returns the line end of the line at an offset. If this line has no line end, returns the
    /// last line end of the text. Offsets must not decrease between calls.
    pub(super) fn line_end_at_raw_offset(&mut self, place: usize) -> &'static str {
        if self.next.is_some_and(|next| next < place) {
            self.next = memchr(self.feed, &self.raw[place..]).map(|at| place + at);
        }
        match self.next.or(self.last) {
            Some(_) if self.feed == b'\r' => "\r",
            Some(at) if at > 0 && self.raw[at - 1] == b'\r' => "\r\n",
            _ => "\n",
        }
    }
}

#[derive(Default)]
struct ViewBuilder {
    text: String,
    ends: Vec<(usize, usize)>,
}

impl ViewBuilder {
    fn push_stretch(&mut self, raw_start: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        self.ends.push((self.text.len(), raw_start + text.len()));
        self.join_adjacent();
    }

    /// Adds a line to the view. Each lookalike character is replaced by the plain character.
    fn push_plain_lookalikes(&mut self, raw_start: usize, line: &str) {
        let mut kept = 0;
        for (at, letter) in line.char_indices() {
            if let Some(plain) = plain_lookalike(letter).filter(|plain| *plain != letter) {
                self.push_stretch(raw_start + kept, &line[kept..at]);
                self.text.push(plain);
                kept = at + letter.len_utf8();
                self.ends.push((self.text.len(), raw_start + kept));
            }
        }
        self.push_stretch(raw_start + kept, &line[kept..]);
    }

    fn push_line_end(&mut self, raw_end: usize) {
        self.text.push('\n');
        self.ends.push((self.text.len(), raw_end));
        self.join_adjacent();
    }

    /// Merges the last two stretches if nothing was omitted between them.
    fn join_adjacent(&mut self) {
        if let [.., (view, raw), (next_view, next_raw)] = self.ends[..]
            && next_view - view == next_raw - raw
        {
            let last = self.ends.len() - 1;
            self.ends.remove(last - 1);
        }
    }
}

/// An iterator over the lines of a text, which returns the offsets of each line.
struct LineByteRangeIter<'a> {
    raw: &'a str,
    at: usize,
    feed: u8,
    /// Whether a carriage return before a line feed belongs to the line end.
    has_crlf: bool,
}

struct LineByteRange {
    content: Range<usize>,
    /// The offset after the line end.
    end: usize,
}

impl<'a> LineByteRangeIter<'a> {
    fn new(raw: &'a str) -> Self {
        Self { raw, at: 0, feed: line_terminator_byte(raw), has_crlf: true }
    }
}

impl Iterator for LineByteRangeIter<'_> {
    type Item = LineByteRange;

    fn next(&mut self) -> Option<LineByteRange> {
        let (start, bytes) = (self.at, self.raw.as_bytes());
        if start == bytes.len() {
            return None;
        }
        let feed = memchr(self.feed, &bytes[start..]).map(|at| start + at);
        self.at = feed.map_or(bytes.len(), |feed| feed + 1);
        let is_crlf = |feed: usize| {
            self.has_crlf && self.feed == b'\n' && feed > start && bytes[feed - 1] == b'\r'
        };
        let content_end = match feed {
            Some(feed) if is_crlf(feed) => feed - 1,
            Some(feed) => feed,
            None => bytes.len(),
        };
        Some(LineByteRange { content: start..content_end, end: self.at })
    }
}

/// Returns the plain character that looks like this quote, dash or space. Returns a plain character
/// unchanged.
fn plain_lookalike(letter: char) -> Option<char> {
    match letter {
        '\''
        | '\u{b4}'
        | '\u{2bc}'
        | '\u{2018}'..='\u{201b}'
        | '\u{2032}'
        | '\u{2035}'
        | '\u{ff07}' => Some('\''),
        '"' | '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{2036}' | '\u{ff02}' => Some('"'),
        '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => {
            Some('-')
        }
        ' ' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            Some(' ')
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Normalisation, NormalisedView};
    use proptest::prelude::*;

    #[test]
    fn each_level_ignores_more_differences() {
        let raw = "a \u{201c}b\u{201d} \r\nc\t\n";
        for (level, text) in [
            (Normalisation::Exact, raw),
            (Normalisation::LineEnds, "a \u{201c}b\u{201d} \nc\t\n"),
            (Normalisation::TrailingWhitespace, "a \u{201c}b\u{201d}\nc\n"),
            (Normalisation::LookalikeCharacters, "a \"b\"\nc\n"),
        ] {
            assert_eq!(NormalisedView::new(raw, level).text, text, "{level:?}");
        }
        assert_eq!(NormalisedView::new("a\rb\r", Normalisation::LineEnds).text, "a\nb\n");
        assert_eq!(NormalisedView::new("a\rb\n", Normalisation::LineEnds).text, "a\rb\n");
    }

    #[test]
    fn ignored_text_lies_after_its_position() {
        let view = NormalisedView::new("a \r\n  \n\u{2018}b", Normalisation::LookalikeCharacters);
        assert_eq!(view.text, "a\n\n'b");
        let places: Vec<_> = (0..=5).map(|place| view.raw_position(place)).collect();
        assert_eq!(places, [0, 1, 4, 7, 10, 11]);
        let back: Vec<_> = (0..=7).map(|place| view.view_position(place)).collect();
        assert_eq!(back, [0, 1, 1, 1, 2, 2, 2, 3]);
    }

    proptest! {
        #[test]
        fn every_place_of_a_view_is_found_again(raw in "[a \t\r\n\u{2019}\u{a0}é]{0,20}") {
            for level in [Normalisation::Exact, Normalisation::LineEnds, Normalisation::TrailingWhitespace, Normalisation::LookalikeCharacters] {
                let view = NormalisedView::new(&raw, level);
                for (place, _) in view.text.char_indices().chain([(view.text.len(), ' ')]) {
                    let there = view.raw_position(place);
                    prop_assert!(raw.is_char_boundary(there));
                    prop_assert_eq!(view.view_position(there), place, "{:?} {}", level, place);
                }
            }
        }
    }
}
