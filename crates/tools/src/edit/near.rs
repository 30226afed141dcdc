//! Finds the lines most like some text that is not there. It changes nothing.

use std::fmt;

use acp_types::text::head;

use crate::limits::{EDIT_LINE_BYTES, EDIT_NEAR, EDIT_NEAR_BYTES, EDIT_NEAR_LINES};

/// Places less alike than this help nobody.
const LIKE_ENOUGH: f32 = 0.5;

/// A place that is like the text that was searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// Its first line, from 1.
    pub line: u32,
    /// How much alike its first lines are, in percent.
    pub percent: u8,
    /// The first line that differs, what it is and what was searched; none if white space alone
    /// makes the difference.
    pub difference: Option<Difference>,
}

/// The first line in which a place differs from the text that was searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its number, from 1.
    pub line: u32,
    /// What it is; none at the end of the file.
    pub found: Option<String>,
    /// What was searched.
    pub wanted: String,
}

/// Returns the places most like `wanted`, the best first. White space at the ends of the lines
/// does not count.
pub(super) fn nearest(text: &str, wanted: &str) -> Vec<Near> {
    let wanted: Vec<_> = wanted.lines().skip_while(|line| line.trim().is_empty()).collect();
    let compared: Vec<_> =
        wanted.iter().take(EDIT_NEAR_LINES).map(|line| Pairs::of(line)).collect();
    if compared.is_empty() {
        return Vec::new();
    }
    let lines: Vec<_> = head(text, EDIT_NEAR_BYTES).lines().collect();
    let mut scores = vec![0.0; lines.len()];
    for (at, line) in lines.iter().enumerate() {
        let line = Pairs::of(line);
        for (offset, wanted) in compared.iter().enumerate() {
            if let Some(start) = at.checked_sub(offset) {
                scores[start] += line.likeness(wanted) / compared.len() as f32;
            }
        }
    }
    let mut order: Vec<_> = (0..lines.len()).filter(|&at| scores[at] >= LIKE_ENOUGH).collect();
    order.sort_by(|&one, &other| scores[other].total_cmp(&scores[one]));
    order.truncate(EDIT_NEAR);
    order.into_iter().map(|at| near(&lines, &wanted, at, scores[at])).collect()
}

fn near(lines: &[&str], wanted: &[&str], at: usize, score: f32) -> Near {
    let line = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
    let difference = wanted
        .iter()
        .enumerate()
        .map(|(offset, wanted)| (at + offset, lines.get(at + offset), wanted))
        .find(|(_, found, wanted)| found.is_none_or(|found| found.trim() != wanted.trim()))
        .map(|(at, found, wanted)| Difference {
            line: line(at),
            found: found.map(|found| head(found, EDIT_LINE_BYTES).to_owned()),
            wanted: head(wanted, EDIT_LINE_BYTES).to_owned(),
        });
    Near { line: line(at), percent: (score * 100.0).min(100.0) as u8, difference }
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

impl fmt::Display for Near {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, percent, difference } = self;
        match difference {
            None => write!(
                formatter,
                "line {line} differs in white space only: copy the text exactly as it is"
            ),
            Some(Difference { line: at, found: Some(found), wanted }) => write!(
                formatter,
                "line {line} is {percent} % alike; line {at} is `{found}`, not `{wanted}`"
            ),
            Some(Difference { found: None, wanted, .. }) => write!(
                formatter,
                "line {line} is {percent} % alike, but the file ends before `{wanted}`"
            ),
        }
    }
}
