//! An Aho-Corasick automaton, which finds many byte strings in one pass.
//!
//! Unlike common libraries, this automaton also returns how many bytes at the end of a text may be
//! the beginning of a searched string. A stream must hold these bytes back.

use std::collections::VecDeque;
use std::ops::Range;

/// The strings to search for, as a trie.
pub(super) struct Automaton {
    nodes: Vec<Node>,
    /// The child nodes of the root, indexed by byte. Text without a match therefore costs one
    /// lookup per byte.
    first_byte_nodes: Box<[u32; 256]>,
}

/// A node of the trie, which stands for a prefix of at least one string.
#[derive(Clone, Copy, Default)]
struct Node {
    /// The last byte of the prefix.
    byte: u8,
    /// Length of the prefix, in bytes.
    depth: u32,
    /// Length of the longest string that ends here, in bytes, or 0 if no string ends here.
    match_len: u32,
    /// The node of the longest proper suffix of the prefix.
    fallback: u32,
    child: u32,
    sibling: u32,
}

/// The result of a scan.
pub(super) struct ScanResult {
    /// The ranges of the matches, in order. Overlapping ranges are merged.
    pub(super) found: Vec<Range<usize>>,
    /// Number of bytes at the end of the text that are, or may become, a match.
    pub(super) possible_match_bytes: usize,
}

impl Automaton {
    pub(super) fn new(strings: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let mut automaton =
            Self { nodes: vec![Node::default()], first_byte_nodes: Box::new([ROOT; 256]) };
        for string in strings {
            automaton.insert(string.as_ref());
        }
        automaton.link_fallbacks();
        automaton
    }

    /// Finds all strings, including overlapping strings.
    pub(super) fn scan(&self, text: &[u8]) -> ScanResult {
        let (mut at, mut found) = (ROOT, Vec::new());
        for (index, byte) in text.iter().enumerate() {
            at = self.next_node(at, *byte);
            if at != ROOT {
                let ends = self.node(at).match_len as usize;
                if ends > 0 {
                    push_and_merge_overlaps(&mut found, index + 1 - ends..index + 1);
                }
            }
        }
        ScanResult { found, possible_match_bytes: self.node(at).depth as usize }
    }

    /// Finds all strings in a text that may have been truncated. A prefix of a string also matches
    /// if the prefix is longer than `shown` bytes and is followed by a truncation mark. A
    /// truncation mark is `…`, or a line that states how much is omitted.
    pub(super) fn find_whole_or_truncated(&self, text: &str, shown: usize) -> Vec<Range<usize>> {
        let (mut at, mut found) = (ROOT, Vec::new());
        for (index, byte) in text.bytes().enumerate() {
            let depth = self.node(at).depth as usize;
            if depth > shown && starts_with_truncation_mark(&text.as_bytes()[index..]) {
                push_and_merge_overlaps(&mut found, index - depth..index);
            }
            at = self.next_node(at, byte);
            let ends = self.node(at).match_len as usize;
            if ends > 0 {
                push_and_merge_overlaps(&mut found, index + 1 - ends..index + 1);
            }
        }
        found
    }

    /// Returns whether a text contains any of the strings.
    pub(super) fn contains_match(&self, text: &[u8]) -> bool {
        let mut at = ROOT;
        text.iter().any(|byte| {
            at = self.next_node(at, *byte);
            self.node(at).match_len > 0
        })
    }

    fn next_node(&self, mut at: u32, byte: u8) -> u32 {
        while at != ROOT {
            if let Some(child) = self.find_child(at, byte) {
                return child;
            }
            at = self.node(at).fallback;
        }
        self.first_byte_nodes[usize::from(byte)]
    }

    fn find_child(&self, at: u32, byte: u8) -> Option<u32> {
        let mut child = self.node(at).child;
        while child != ROOT && self.node(child).byte != byte {
            child = self.node(child).sibling;
        }
        (child != ROOT).then_some(child)
    }

    fn insert(&mut self, string: &[u8]) {
        let mut at = ROOT;
        for byte in string {
            at = match at {
                ROOT if self.first_byte_nodes[usize::from(*byte)] != ROOT => {
                    self.first_byte_nodes[usize::from(*byte)]
                }
                _ => self.find_child(at, *byte).unwrap_or_else(|| self.add_child(at, *byte)),
            };
        }
        let node = &mut self.nodes[at as usize];
        node.match_len = node.depth;
    }

    fn add_child(&mut self, parent: u32, byte: u8) -> u32 {
        let added = self.nodes.len() as u32;
        let Node { depth, child: sibling, .. } = *self.node(parent);
        self.nodes.push(Node { byte, depth: depth + 1, sibling, ..Node::default() });
        self.nodes[parent as usize].child = added;
        if parent == ROOT {
            self.first_byte_nodes[usize::from(byte)] = added;
        }
        added
    }

    /// Computes the fallback nodes in breadth-first order.
    fn link_fallbacks(&mut self) {
        let mut queue = VecDeque::from([ROOT]);
        while let Some(parent) = queue.pop_front() {
            let mut child = self.node(parent).child;
            while child != ROOT {
                let Node { byte, match_len: ends, sibling, .. } = *self.node(child);
                let fallback = match parent {
                    ROOT => ROOT,
                    _ => self.next_node(self.node(parent).fallback, byte),
                };
                let ends = ends.max(self.node(fallback).match_len);
                let node = &mut self.nodes[child as usize];
                (node.fallback, node.match_len) = (fallback, ends);
                queue.push_back(child);
                child = sibling;
            }
        }
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }
}

/// Returns whether a text begins with a mark for truncated text.
fn starts_with_truncation_mark(rest: &[u8]) -> bool {
    let text = rest.strip_prefix(b" ").unwrap_or(rest);
    [text, rest].iter().zip(["…", "\n[... "]).any(|(rest, cut)| rest.starts_with(cut.as_bytes()))
}

/// Adds a range that ends after all ranges in `found`, and merges the new range with the ranges
/// that it overlaps.
fn push_and_merge_overlaps(found: &mut Vec<Range<usize>>, mut range: Range<usize>) {
    while let Some(last) = found.pop_if(|last| last.end > range.start) {
        range.start = range.start.min(last.start);
    }
    found.push(range);
}

/// The node of the empty prefix. The value also means "no node".
const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::Automaton;
    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, any, proptest};

    /// Scans a text by trying every position. The tests compare the automaton with this function.
    fn naive_scan(strings: &[Vec<u8>], text: &[u8]) -> (Vec<bool>, usize) {
        let mut covered = vec![false; text.len()];
        for string in strings {
            for at in 0..text.len() {
                if text[at..].starts_with(string) {
                    covered[at..at + string.len()].fill(true);
                }
            }
        }
        let open = (0..=text.len()).find(|at| strings.iter().any(|s| s.starts_with(&text[*at..])));
        (covered, text.len() - open.unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_scan_finds_the_same_as_a_naive_scan(
            strings in vec(vec(0..3_u8, 1..6), 1..6),
            text in vec(0..3_u8, 0..40),
        ) {
            let scan = Automaton::new(&strings).scan(&text);
            let mut covered = vec![false; text.len()];
            scan.found.iter().for_each(|range| covered[range.clone()].fill(true));
            assert_eq!((covered, scan.possible_match_bytes), naive_scan(&strings, &text));
            assert!(scan.found.is_sorted_by(|a, b| a.end <= b.start));
        }

        #[test]
        fn scan_never_panics(strings in vec(vec(any::<u8>(), 0..4), 0..4), text in vec(any::<u8>(), 0..99)) {
            let automaton = Automaton::new(&strings);
            assert_eq!(automaton.contains_match(&text), !automaton.scan(&text).found.is_empty());
        }
    }
}
