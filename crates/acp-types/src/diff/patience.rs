//! Finds the edits between two texts from the lines that occur exactly once in each text (patience
//! diff). This search needs no deadline, because its running time depends only on the size of the
//! texts, and not on the number of differences.

use foldhash::{HashMap, HashMapExt as _};

use super::TextEdit;

/// A line that occurs exactly once in each of the two texts.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    /// Byte offset in the old text.
    old: usize,
    /// Byte offset in the new text.
    new: usize,
    len: usize,
}

/// Returns the edits between the unchanged lines. The unchanged lines are the longest sequence of
/// lines that occur exactly once in each text and have the same order in both texts.
pub(super) fn edits_between_unique_lines(old: &str, new: &str) -> Vec<TextEdit> {
    let (olds, news) = (offsets_of_unique_lines(old), offsets_of_unique_lines(new));
    let anchor = |(line, at): (&&str, &Option<usize>)| {
        Some(Anchor { old: (*at)?, new: (*news.get(line)?)?, len: line.len() })
    };
    let mut anchors: Vec<_> = olds.iter().filter_map(anchor).collect();
    anchors.sort_unstable_by_key(|anchor| anchor.old);
    let end = Anchor { old: old.len(), new: new.len(), len: 0 };
    let (mut splices, mut old_at, mut new_at) = (Vec::new(), 0, 0);
    for anchor in longest_ordered_anchors(&anchors).into_iter().chain([end]) {
        if (old_at, new_at) != (anchor.old, anchor.new) {
            let new = new[new_at..anchor.new].to_owned();
            splices.push(TextEdit { old: old_at..anchor.old, new });
        }
        (old_at, new_at) = (anchor.old + anchor.len, anchor.new + anchor.len);
    }
    splices
}

/// Maps each line of a text to its byte offset, or to `None` if the line occurs more than once.
fn offsets_of_unique_lines(text: &str) -> HashMap<&str, Option<usize>> {
    let (mut lines, mut at) = (HashMap::new(), 0);
    for line in text.split_inclusive('\n') {
        lines.entry(line).and_modify(|place| *place = None).or_insert(Some(at));
        at += line.len();
    }
    lines
}

/// Returns the longest subsequence of `anchors` whose lines have the same order in the new text
/// (patience sorting).
fn longest_ordered_anchors(anchors: &[Anchor]) -> Vec<Anchor> {
    // `ends` contains the last anchor of the best chain of each length. `before` contains the
    // predecessor of each anchor in its chain.
    let (mut ends, mut before) = (Vec::<usize>::new(), Vec::new());
    for (index, anchor) in anchors.iter().enumerate() {
        let len = ends.partition_point(|end| anchors[*end].new < anchor.new);
        before.push(len.checked_sub(1).map(|len| ends[len]));
        match ends.get_mut(len) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let chain = std::iter::successors(ends.last().copied(), |index| before[*index]);
    let mut chain: Vec<_> = chain.map(|index| anchors[index]).collect();
    chain.reverse();
    chain
}
