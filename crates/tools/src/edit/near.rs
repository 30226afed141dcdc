//! Finds the lines most like some text that is not there. It changes nothing.
//!
//! Words that are rare in the file vote for places; around the best of them the lines of both texts
//! are aligned, so that lines which one of them lacks do not move the borders of what is found.

use std::collections::HashMap;

use acp_types::text::head;
use memchr::memmem::find_iter;

use super::quote::Quote;
use crate::limits::{
    EDIT_LINE_BYTES, EDIT_NEAR, EDIT_NEAR_BYTES, EDIT_NEAR_LINES, EDIT_NEAR_TRIED,
};
use crate::workspace::Cancel;

/// Places less alike than this help nobody.
const LIKE_ENOUGH: f32 = 0.5;

/// The most that a line counts which only the file has: a line that is left out is often a long one.
const SKIPPED: f32 = 8.0;

/// Lines that a place may be away from where a word voted for it.
const SPREAD: usize = 2;

/// A place that is like the text that was searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// Its first line, from 1.
    pub line: u32,
    /// Its last line.
    pub last: u32,
    /// How much alike it is, in percent; white space around lines does not count.
    pub percent: u8,
    /// The text of the file there, as much of it as is shown; only of the best place.
    pub quote: Option<Quote>,
}

/// Returns the places most like `wanted`, the best first.
pub(super) fn nearest(text: &str, wanted: &str, cancel: &Cancel<'_>) -> Vec<Near> {
    let all: Vec<_> = head(text, EDIT_NEAR_BYTES).lines().collect();
    let wanted: Vec<_> = wanted.lines().collect();
    let telling = |line: &&str| !line.trim().is_empty();
    let (Some(first), Some(last)) =
        (wanted.iter().position(telling), wanted.iter().rposition(telling))
    else {
        return Vec::new();
    };
    let wanted = &wanted[first..=last.min(first + EDIT_NEAR_LINES - 1)];
    let pairs: Vec<_> = wanted.iter().map(|line| Pairs::of(line)).collect();
    let mut found = Vec::<Aligned>::new();
    // Lines that may be missing from the text, or be too many in it.
    let slack = 4 + wanted.len() / 4;
    for end in candidates(&all, wanted, cancel) {
        let window = end.saturating_sub(wanted.len() + slack)..(end + slack).min(all.len());
        if let Some(place) = align(&all, wanted, &pairs, window)
            && !cancel()
            && found.iter().all(|other| other.last < place.first || place.last < other.first)
        {
            found.push(place);
        }
    }
    found.retain(|place| place.likeness >= LIKE_ENOUGH);
    found.sort_by(|one, other| {
        other.likeness.total_cmp(&one.likeness).then(one.first.cmp(&other.first))
    });
    found.truncate(EDIT_NEAR);
    let number = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
    let near = |(rank, place): (usize, &Aligned)| {
        let lines = &all[place.first..=place.last];
        let is_alone = || find_iter(text.as_bytes(), &lines.join("\n")).take(2).count() < 2;
        Near {
            line: number(place.first),
            last: number(place.last),
            percent: (place.likeness * 100.0).min(100.0) as u8,
            quote: (rank == 0)
                .then(|| Quote::of(lines, place.first, place.differs - place.first, is_alone())),
        }
    };
    found.iter().enumerate().map(near).collect()
}

/// Returns places where the text may be: each is the number of the line behind its end.
fn candidates(lines: &[&str], wanted: &[&str], cancel: &Cancel<'_>) -> Vec<usize> {
    let mut words = HashMap::<&str, (Vec<usize>, usize)>::new();
    for (offset, line) in wanted.iter().enumerate() {
        tokens(line).for_each(|word| words.entry(word).or_default().0.push(offset));
    }
    for line in lines {
        tokens(line).filter_map(|word| words.get_mut(word).map(|word| word.1 += 1)).for_each(drop);
    }
    let mut votes = vec![0.0_f32; lines.len() + wanted.len() + 1];
    for (at, line) in lines.iter().enumerate() {
        if at % 4096 == 0 && cancel() {
            return Vec::new();
        }
        for (offsets, count) in tokens(line).filter_map(|word| words.get(word)) {
            let weight = 1.0 / (*count * offsets.len()) as f32;
            offsets.iter().for_each(|offset| votes[at + wanted.len() - offset] += weight);
        }
    }
    if votes.iter().all(|votes| *votes == 0.0) {
        like_the_longest(lines, wanted, &mut votes);
    }
    let mut sums: Vec<f32> = (0..votes.len())
        .map(|at| votes[at.saturating_sub(SPREAD)..(at + SPREAD + 1).min(votes.len())].iter().sum())
        .collect();
    let best = std::iter::from_fn(|| {
        let (at, votes) = sums.iter().enumerate().max_by(|(a, one), (b, other)| {
            // Of those that are as good, the first one.
            one.total_cmp(other).then(b.cmp(a))
        })?;
        let at = (*votes > 0.0).then_some(at)?;
        let end = (at + SPREAD + 1).min(sums.len());
        sums[at.saturating_sub(SPREAD)..end].fill(0.0);
        Some(at)
    });
    best.take(EDIT_NEAR_TRIED).collect()
}

/// Votes for lines that are like the longest one, for a text of which no word is in the file.
fn like_the_longest(lines: &[&str], wanted: &[&str], votes: &mut [f32]) {
    let longest = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len());
    let Some((offset, line)) = longest else { return };
    let wanted_pairs = Pairs::of(line);
    for (at, line) in lines.iter().enumerate() {
        let likeness = Pairs::of(line).likeness(&wanted_pairs);
        if likeness >= LIKE_ENOUGH {
            votes[at + wanted.len() - offset] = likeness;
        }
    }
}

/// The words of a line, and all of it.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let line = head(line.trim(), EDIT_LINE_BYTES);
    let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.chain([line]).filter(|word| !word.is_empty())
}

/// Lines of a file that are those of a text, but for what is missing, too many or different.
struct Aligned {
    first: usize,
    last: usize,
    /// The first of them that differs.
    differs: usize,
    likeness: f32,
}

/// How an alignment goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It begins.
    Begin,
    /// Both texts have the line.
    Both,
    /// The text that is searched has it.
    Wanted,
    /// The file has it.
    Found,
}

/// Aligns all of a text with a part of some lines of a file (Needleman and Wunsch).
fn align(
    lines: &[&str],
    wanted: &[&str],
    pairs: &[Pairs],
    window: std::ops::Range<usize>,
) -> Option<Aligned> {
    let found: Vec<_> = lines[window.clone()].iter().map(|line| Pairs::of(line)).collect();
    let width = found.len() + 1;
    let mut score = vec![0.0_f32; (pairs.len() + 1) * width];
    let mut steps = vec![Step::Begin; score.len()];
    for row in 1..=pairs.len() {
        let own = pairs[row - 1].weight();
        for column in 0..width {
            let at = row * width + column;
            let mut best = (score[at - width] - own / 2.0, Step::Wanted);
            if column > 0 {
                let (line, wanted) = (&found[column - 1], &pairs[row - 1]);
                let likeness = line.likeness(wanted);
                // A short line that is the same is worth one that is skipped before it.
                let least = if likeness >= 1.0 && own > 1.0 { SKIPPED } else { own };
                let both = own.max(line.weight()).max(least) * (2.0 * likeness - 1.0);
                let more = [
                    (score[at - width - 1] + both, Step::Both),
                    (score[at - 1] - line.weight().min(SKIPPED), Step::Found),
                ];
                best = more.into_iter().fold(best, |best, more| match more.0 > best.0 {
                    true => more,
                    false => best,
                });
            }
            (score[at], steps[at]) = best;
        }
    }
    let end = pairs.len() * width;
    // Of those that are as good, the first one.
    let columns = (0..width).rev();
    let mut column = columns.max_by(|a, b| score[end + a].total_cmp(&score[end + b]))?;
    let (mut row, mut both, mut alike) = (pairs.len(), Vec::new(), 0.0);
    while row > 0 {
        match steps[row * width + column] {
            Step::Both => {
                (row, column) = (row - 1, column - 1);
                both.push((row, column));
                let weight = pairs[row].weight() + found[column].weight();
                alike += weight * found[column].likeness(&pairs[row]);
            }
            Step::Wanted => row -= 1,
            Step::Found => column -= 1,
            Step::Begin => break,
        }
    }
    let (&(_, last), &(_, first)) = (both.first()?, both.last()?);
    let all: f32 = pairs.iter().chain(&found[first..=last]).map(Pairs::weight).sum();
    both.reverse();
    let differs = both.iter().enumerate().find(|(at, (row, column))| {
        lines[window.start + column] != wanted[*row] || *column != first + at
    });
    let differs = differs.map_or(first, |(_, (_, column))| *column);
    let [first, last, differs] = [first, last, differs].map(|at| window.start + at);
    Some(Aligned { first, last, differs, likeness: alike / all })
}

/// The pairs of neighbouring bytes of a line, sorted.
struct Pairs(Vec<[u8; 2]>);

impl Pairs {
    fn of(line: &str) -> Self {
        let line = head(line.trim(), EDIT_LINE_BYTES).as_bytes();
        let mut pairs: Vec<_> = line.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        if let [only] = line {
            pairs.push([*only, 0]);
        }
        pairs.sort_unstable();
        Self(pairs)
    }

    /// How much a line counts; a blank one too, a little.
    fn weight(&self) -> f32 {
        (self.0.len() + 1) as f32
    }

    /// Returns the share of the pairs that both have, from 0 to 1.
    fn likeness(&self, other: &Self) -> f32 {
        let all = self.0.len() + other.0.len();
        if all == 0 {
            return 1.0;
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
}
