//! Finds the lines of a file that are most similar to an old text that was not found.
//!
//! Each word of the old text votes for the lines of the file that contain it. The fewer lines
//! contain a word, the more weight its votes have. Around the lines with the most votes, the lines
//! of the old text and of the file are aligned. Because of this alignment, missing lines do not
//! move the boundaries of the result.

use std::collections::HashMap;

use callboard_text::head;

use super::match_strategies::{CancelCheck, MatchPlace};
use super::quote::QuotedLines;
use crate::files::walk::IsCancelled;
use crate::limits::{
    MAX_LINES_PER_WORD, MAX_NEAR_MISS_CANDIDATES, MAX_NEAR_MISS_FILE_BYTES,
    MAX_NEAR_MISS_OLD_TEXT_BYTES, MAX_NEAR_MISS_OLD_TEXT_LINES, MAX_NEAR_MISSES_SHOWN,
    MAX_QUOTED_BYTES,
};

/// Minimum similarity of a place that is reported.
const MIN_SIMILARITY: f32 = 0.5;

/// Maximum weight of a line that only the file contains. The weight is limited because models often
/// omit long lines.
const MAX_SKIPPED_LINE_WEIGHT: f32 = 8.0;

/// Maximum distance, in lines, between a place and the votes that count for this place.
const VOTE_SPREAD_LINES: usize = 2;

/// If a line of the file is longer than a single-line old text by this factor, only a part of the
/// line is compared.
const PARTIAL_MATCH_LENGTH_FACTOR: usize = 2;

/// Minimum total length of two lines, in bytes, for a quick check. The check skips the comparison
/// if the lengths alone show that the lines are not similar.
const LONG_LINES_BYTES: usize = 400;

/// A place in the file that is similar to the old text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NearMiss {
    /// The number of the first line, counted from 1.
    pub line: u32,
    /// The number of the last line.
    pub last_line: u32,
    /// The similarity in percent. The value 100 means that all differences are leading or trailing
    /// whitespace.
    pub percent: u8,
    /// The text of the file at this place, truncated to the size limit. Only the most similar place
    /// has a quote.
    pub quote: Option<QuotedLines>,
}

/// States which texts were too long to be compared completely.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComparisonTruncation {
    /// Whether the end of the old text was not compared.
    pub old_text: bool,
    /// Whether the end of the file was not compared.
    pub file: bool,
}

/// Returns the places that are most similar to `wanted`, the best first. Also returns which texts
/// were not compared completely.
pub(super) fn find_near_misses(
    text: &str,
    wanted: &str,
    cancel: &IsCancelled<'_>,
) -> (Vec<NearMiss>, ComparisonTruncation) {
    let searched = head(text, MAX_NEAR_MISS_FILE_BYTES);
    let all: Vec<_> = searched.lines().collect();
    let wanted: Vec<_> = wanted.lines().collect();
    let is_not_blank = |line: &&str| !line.trim().is_empty();
    let (Some(first), Some(last)) =
        (wanted.iter().position(is_not_blank), wanted.iter().rposition(is_not_blank))
    else {
        return (Vec::new(), ComparisonTruncation::default());
    };
    let whole = &wanted[first..=last];
    let wanted = lines_within_comparison_limit(whole);
    let uncompared = ComparisonTruncation {
        old_text: wanted.len() < whole.len(),
        file: searched.len() < text.len(),
    };
    let mut check = CancelCheck::new(cancel);
    let mut places = Vec::new();
    for end in find_candidate_ends(&all, wanted, &mut check) {
        places.extend(match wanted {
            [only] => most_similar_line_near(&all, only, end, &mut check),
            _ => align(&all, wanted, end, &mut check),
        });
    }
    places.retain(|place| place.likeness >= MIN_SIMILARITY);
    let in_order_of = |places: &mut Vec<Alignment>, of: fn(&Alignment) -> f32| {
        places
            .sort_by(|one, other| of(other).total_cmp(&of(one)).then(one.first.cmp(&other.first)));
    };
    // The window of lines around a candidate may end before the place does. Another candidate may
    // then find the same place completely, so only the best of several overlapping places is kept.
    in_order_of(&mut places, |place| place.score);
    let mut found = Vec::<Alignment>::new();
    for place in places {
        if found.iter().all(|other| other.last < place.first || place.last < other.first) {
            found.push(place);
        }
    }
    in_order_of(&mut found, |place| place.likeness);
    found.truncate(MAX_NEAR_MISSES_SHOWN);
    let number = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
    let near = |(rank, place): (usize, &Alignment)| {
        let lines = &all[place.first..=place.last];
        let is_same = place.is_same && !uncompared.old_text;
        let quote = || match place.part {
            Some(start) => {
                QuotedLines::from_line_part(lines[0], place.first, start..start + wanted[0].len())
            }
            None => {
                let is_alone = |shown: &str| MatchPlace::occurs_exactly_once(text, shown, cancel);
                QuotedLines::from_lines(
                    lines,
                    place.first,
                    (place.differs - place.first, place.column),
                    is_alone,
                )
            }
        };
        NearMiss {
            line: number(place.first),
            last_line: number(place.last),
            percent: if is_same { 100 } else { (place.likeness * 100.0).min(99.0) as u8 },
            quote: (rank == 0).then(quote),
        }
    };
    (found.iter().enumerate().map(near).collect(), uncompared)
}

/// Returns the first lines of a text, up to the size limit for comparisons. Returns at least one
/// line.
fn lines_within_comparison_limit<'a>(wanted: &'a [&'a str]) -> &'a [&'a str] {
    let mut room = MAX_NEAR_MISS_OLD_TEXT_BYTES;
    let fits = |line: &&&str| match room.checked_sub(line.len()) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    };
    let count = wanted.iter().take(MAX_NEAR_MISS_OLD_TEXT_LINES).take_while(fits).count();
    &wanted[..count.max(1)]
}

/// The occurrences of a word of the old text.
struct WordOccurrences {
    /// The lines of the old text that contain the word.
    offsets: Vec<usize>,
    /// Number of lines of the file that contain the word. The field `last` is the last of these
    /// lines.
    lines: usize,
    last: Option<usize>,
}

/// Returns candidate places. Each number identifies the line after the end of a place.
fn find_candidate_ends(lines: &[&str], wanted: &[&str], check: &mut CancelCheck<'_>) -> Vec<usize> {
    let mut words = HashMap::<&str, WordOccurrences>::new();
    for (offset, line) in wanted.iter().enumerate() {
        for word in words_and_whole_line(line) {
            let none = || WordOccurrences { offsets: Vec::new(), lines: 0, last: None };
            let offsets = &mut words.entry(word).or_insert_with(none).offsets;
            if offsets.last() != Some(&offset) {
                offsets.push(offset);
            }
        }
    }
    // A word that occurs in many lines of the old text does not identify a place.
    words.retain(|_, word| word.offsets.len() <= MAX_LINES_PER_WORD);
    for (at, line) in lines.iter().enumerate() {
        if check.add_work_and_check(line.len()) {
            return Vec::new();
        }
        for word in words_and_whole_line(line) {
            if let Some(word) = words.get_mut(word).filter(|word| word.last != Some(at)) {
                (word.lines, word.last) = (word.lines + 1, Some(at));
            }
        }
    }
    words.values_mut().for_each(|word| word.last = None);
    let mut votes = vec![0.0_f32; lines.len() + wanted.len() + 1];
    for (at, line) in lines.iter().enumerate() {
        if check.add_work_and_check(line.len()) {
            return Vec::new();
        }
        for word in words_and_whole_line(line) {
            if let Some(word) = words.get_mut(word).filter(|word| word.last != Some(at)) {
                word.last = Some(at);
                let weight = 1.0 / (word.lines * word.offsets.len()) as f32;
                let places = word.offsets.iter().map(|offset| at + wanted.len() - offset);
                places.for_each(|place| votes[place] += weight);
            }
        }
    }
    if votes.iter().all(|votes| *votes == 0.0) {
        vote_by_longest_line(lines, wanted, &mut votes, check);
    }
    let around = |at: usize| {
        at.saturating_sub(VOTE_SPREAD_LINES)..(at + VOTE_SPREAD_LINES + 1).min(votes.len())
    };
    let mut sums: Vec<f32> = (0..votes.len()).map(|at| votes[around(at)].iter().sum()).collect();
    // If several lines have the same number of votes, the first of them is used.
    let highest = |of: &[f32], within: std::ops::Range<usize>| {
        within.rev().max_by(|one, other| of[*one].total_cmp(&of[*other]))
    };
    let best = std::iter::from_fn(|| {
        let at = highest(&sums, 0..sums.len()).filter(|at| sums[*at] > 0.0)?;
        let peak = highest(&votes, around(at))?;
        sums[around(at.min(peak)).start..around(at.max(peak)).end].fill(0.0);
        Some(peak)
    });
    best.take(MAX_NEAR_MISS_CANDIDATES).collect()
}

/// Votes for the lines that are similar to the longest line of the old text. Used if the file
/// contains no word of the old text.
fn vote_by_longest_line(
    lines: &[&str],
    wanted: &[&str],
    votes: &mut [f32],
    check: &mut CancelCheck<'_>,
) {
    let longest = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len());
    let Some((offset, line)) = longest else { return };
    let wanted_pairs = BytePairs::of_line(line);
    for (at, line) in lines.iter().enumerate() {
        if check.add_work_and_check(line.len() + wanted_pairs.0.len()) {
            return;
        }
        let likeness = BytePairs::of_line(line).similarity(&wanted_pairs);
        if likeness >= MIN_SIMILARITY {
            votes[at + wanted.len() - offset] = likeness;
        }
    }
}

/// Returns the words of a line, and also the whole line.
fn words_and_whole_line(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim();
    let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.chain([line]).filter(|word| !word.is_empty())
}

/// A range of lines of the file that corresponds to the old text. Some lines may be missing,
/// additional or different.
struct Alignment {
    first: usize,
    last: usize,
    /// The first line that differs. The field `column` is the byte offset of the difference in this
    /// line.
    differs: usize,
    column: usize,
    /// The score of the whole old text at this place. The field `likeness` is the similarity of the
    /// old text to these lines.
    score: f32,
    likeness: f32,
    /// Whether the lines differ only in leading or trailing whitespace.
    is_same: bool,
    /// If the old text is similar to a part of a single line, this is the offset of that part in
    /// the line.
    part: Option<usize>,
}

/// Finds the line that is most similar to a single-line old text. Only the lines near index `end -
/// 1` are compared. If a line is much longer than the old text, only its most similar part is
/// compared.
fn most_similar_line_near(
    lines: &[&str],
    wanted: &str,
    end: usize,
    check: &mut CancelCheck<'_>,
) -> Option<Alignment> {
    let own = end.checked_sub(1)?;
    let pairs = BytePairs::of_line(wanted);
    let mut best: Option<Alignment> = None;
    let around = lines
        .iter()
        .enumerate()
        .take(own + VOTE_SPREAD_LINES + 1)
        .skip(own.saturating_sub(VOTE_SPREAD_LINES));
    for (at, line) in around {
        if check.add_work_and_check(line.len() + wanted.len()) {
            return None;
        }
        let is_long = line.trim().len() > PARTIAL_MATCH_LENGTH_FACTOR * wanted.trim().len();
        let part = is_long.then(|| pairs.most_similar_part(line)).flatten();
        let (likeness, part) = match part {
            Some((likeness, start)) => (likeness, Some(start)),
            None => (BytePairs::of_line(line).similarity(&pairs), None),
        };
        let is_better = best.as_ref().is_none_or(|best| {
            let away = |at: usize| at.abs_diff(own);
            let nearer = away(best.first).cmp(&away(at));
            likeness.total_cmp(&best.likeness).then(nearer).is_gt()
        });
        if is_better {
            let (is_same, column) =
                (line.trim() == wanted.trim(), common_prefix_bytes(line, wanted));
            best = Some(Alignment {
                first: at,
                last: at,
                differs: at,
                column,
                score: likeness,
                likeness,
                is_same,
                part,
            });
        }
    }
    best
}

/// Returns the length in bytes of the common prefix of two lines.
fn common_prefix_bytes(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// A step of an alignment of two texts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AlignmentStep {
    /// The start of the alignment, before any line.
    Begin,
    /// Both texts contain the line.
    InBoth,
    /// Only the old text contains the line.
    OnlyInOldText,
    /// Only the file contains the line.
    OnlyInFile,
}

/// Aligns the lines of the old text with the lines of the file near index `end - 1`. Uses the
/// algorithm of Needleman and Wunsch.
fn align(
    lines: &[&str],
    wanted: &[&str],
    end: usize,
    check: &mut CancelCheck<'_>,
) -> Option<Alignment> {
    // Maximum number of lines that may be missing or additional.
    let slack = 4 + wanted.len() / 4;
    let window = end.saturating_sub(wanted.len() + slack)..(end + slack).min(lines.len());
    let pairs: Vec<_> = wanted.iter().map(|line| BytePairs::of_line(line)).collect();
    let found: Vec<_> = lines[window.clone()].iter().map(|line| BytePairs::of_line(line)).collect();
    let width = found.len() + 1;
    let mut score = vec![0.0_f32; (pairs.len() + 1) * width];
    let mut steps = vec![AlignmentStep::Begin; score.len()];
    for row in 1..=pairs.len() {
        let own = pairs[row - 1].weight();
        for column in 0..width {
            let at = row * width + column;
            let mut best = (score[at - width] - own / 2.0, AlignmentStep::OnlyInOldText);
            if column > 0 {
                let (line, wanted) = (&found[column - 1], &pairs[row - 1]);
                if check.add_work_and_check(line.0.len() + wanted.0.len()) {
                    return None;
                }
                let likeness = line.similarity(wanted);
                // An equal line has at least this weight, even if it is short. The weight outweighs
                // one skipped line, so the alignment can skip a line of the file to reach an equal
                // line.
                let least =
                    if likeness >= 1.0 && own > 1.0 { MAX_SKIPPED_LINE_WEIGHT } else { own };
                let both = own.max(line.weight()).max(least) * (2.0 * likeness - 1.0);
                let more = [
                    (score[at - width - 1] + both, AlignmentStep::InBoth),
                    (
                        score[at - 1] - line.weight().min(MAX_SKIPPED_LINE_WEIGHT),
                        AlignmentStep::OnlyInFile,
                    ),
                ];
                best = more.into_iter().fold(best, |best, more| match more.0 > best.0 {
                    true => more,
                    false => best,
                });
            }
            (score[at], steps[at]) = best;
        }
    }
    let last_row = pairs.len() * width;
    // If several columns have the highest score, the column nearest to `end` is used. If two
    // columns are equally near, the first of them is used.
    let away = |column: usize| column.abs_diff(end - window.start);
    let mut column = (0..width).rev().max_by(|a, b| {
        let better = score[last_row + a].total_cmp(&score[last_row + b]);
        better.then(away(*b).cmp(&away(*a)))
    })?;
    let best = score[last_row + column];
    let (mut row, mut both, mut alike) = (pairs.len(), Vec::new(), 0.0);
    while row > 0 {
        match steps[row * width + column] {
            AlignmentStep::InBoth => {
                (row, column) = (row - 1, column - 1);
                both.push((row, column));
                let weight = pairs[row].weight() + found[column].weight();
                alike += weight * found[column].similarity(&pairs[row]);
            }
            AlignmentStep::OnlyInOldText => row -= 1,
            AlignmentStep::OnlyInFile => column -= 1,
            AlignmentStep::Begin => break,
        }
    }
    let (&(_, last), &(_, first)) = (both.first()?, both.last()?);
    let all: f32 = pairs.iter().chain(&found[first..=last]).map(BytePairs::weight).sum();
    both.reverse();
    let line = |column: usize| lines[window.start + column];
    let is_whole = both.len() == wanted.len() && last - first + 1 == both.len();
    let is_same =
        is_whole && both.iter().all(|(row, column)| line(*column).trim() == wanted[*row].trim());
    let differs = both
        .iter()
        .enumerate()
        .find(|(at, (row, column))| line(*column) != wanted[*row] || *column != first + at);
    let (differs, column) = differs.map_or((first, 0), |(_, (row, column))| {
        (*column, common_prefix_bytes(line(*column), wanted[*row]))
    });
    let [first, last, differs] = [first, last, differs].map(|at| window.start + at);
    let (score, likeness) = (best, alike / all);
    Some(Alignment { first, last, differs, column, score, likeness, is_same, part: None })
}

/// All pairs of adjacent bytes of a line, sorted.
struct BytePairs(Vec<[u8; 2]>);

impl BytePairs {
    fn of_line(line: &str) -> Self {
        let line = head(line.trim(), MAX_QUOTED_BYTES).as_bytes();
        let mut pairs: Vec<_> = line.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        if let [only] = line {
            pairs.push([*only, 0]);
        }
        pairs.sort_unstable();
        Self(pairs)
    }

    /// Returns the weight of a line. A blank line has a small weight.
    fn weight(&self) -> f32 {
        (self.0.len() + 1) as f32
    }

    /// Returns the share of byte pairs that both lines have in common, from 0 to 1.
    fn similarity(&self, other: &Self) -> f32 {
        let all = self.0.len() + other.0.len();
        if all == 0 {
            return 1.0;
        }
        let shorter = self.0.len().min(other.0.len());
        if all > LONG_LINES_BYTES && ((2 * shorter) as f32) < MIN_SIMILARITY * all as f32 {
            return 0.0;
        }
        let (mut one, mut two, mut both) = (self.0.iter(), other.0.iter(), 0);
        let (mut left, mut right) = (one.next(), two.next());
        while let (Some(first), Some(second)) = (left, right) {
            both += usize::from(first == second);
            if first <= second {
                left = one.next();
            }
            if second <= first {
                right = two.next();
            }
        }
        (2 * both) as f32 / all as f32
    }

    /// Finds the part of a longer line that has the most byte pairs in common with this line. The
    /// part is as long as this line. Returns the share of common pairs, and the offset of the part.
    fn most_similar_part(&self, line: &str) -> Option<(f32, usize)> {
        let (width, start) = (self.0.len(), line.len() - line.trim_start().len());
        // For each byte pair, the number of occurrences that the part lacks. The number is negative
        // if the part has too many occurrences.
        let mut missing = HashMap::<[u8; 2], i32>::new();
        self.0.iter().for_each(|pair| *missing.entry(*pair).or_default() += 1);
        let bytes = line.trim().as_bytes();
        let pair = |at: usize| [bytes[at], bytes[at + 1]];
        let (mut both, mut best) = (0_usize, None);
        for at in 0..bytes.len().saturating_sub(1) {
            if let Some(missing) = missing.get_mut(&pair(at)) {
                both += usize::from(*missing > 0);
                *missing -= 1;
            }
            if let Some(gone) = at.checked_sub(width)
                && let Some(missing) = missing.get_mut(&pair(gone))
            {
                *missing += 1;
                both -= usize::from(*missing > 0);
            }
            if best.is_none_or(|(most, _)| both > most) {
                best = Some((both, (at + 1).saturating_sub(width)));
            }
        }
        let (both, at) = best.filter(|_| width > 1)?;
        Some((both as f32 / width as f32, start + at))
    }
}
