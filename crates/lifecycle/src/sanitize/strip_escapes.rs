//! What of a terminal's output or a message is seen: its bytes without escape sequences.
//!
//! Those are the sequences that begin with ESC. Other control characters count as seen, and so does
//! a sequence that has no end after 256 bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::automaton::ScanResult;
use crate::limits::MAX_ESCAPE_BYTES;

const ESC: u8 = 0x1b;

/// Scans a text as it is and as if it had no escape sequences, and returns where in the text itself
/// that is.
pub(super) fn scan_without_escapes(text: &[u8], scan: impl Fn(&[u8]) -> ScanResult) -> ScanResult {
    let whole = scan(text);
    let StrippedText { bytes, positions: Some(places), unfinished_escape_bytes: open } =
        strip_escapes(text)
    else {
        return whole;
    };
    let ScanResult { found, possible_match_bytes: of_bytes } = scan(&bytes);
    let place = |at: usize| places.get(at).copied().unwrap_or(text.len() - open);
    let begin = place(bytes.len() - of_bytes);
    // Without a secret before it, nothing has to wait for the end of a sequence.
    let of_text = if of_bytes > 0 { text.len() - begin } else { 0 };
    ScanResult {
        found: merge_ranges(whole.found, map_to_source(found, &places)),
        possible_match_bytes: whole.possible_match_bytes.max(of_text),
    }
}

/// Finds something in a text as it is and as if it had no escape sequences, and returns where in the
/// text itself that is.
pub(super) fn find_without_escapes(
    text: &str,
    find: impl Fn(&str) -> Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    let whole = find(text);
    let StrippedText { bytes, positions: Some(places), .. } = strip_escapes(text.as_bytes()) else {
        return whole;
    };
    let Ok(seen) = str::from_utf8(&bytes) else { return whole };
    merge_ranges(whole, map_to_source(find(seen), &places))
}

/// Returns where the ranges of what is seen stand in the text.
fn map_to_source(found: Vec<Range<usize>>, places: &[usize]) -> Vec<Range<usize>> {
    let outer = |range: Range<usize>| places[range.start]..places[range.end - 1] + 1;
    found.into_iter().filter(|range| !range.is_empty()).map(outer).collect()
}

/// Joins two lists of ranges in their order; those that overlap are one.
pub(super) fn merge_ranges(one: Vec<Range<usize>>, other: Vec<Range<usize>>) -> Vec<Range<usize>> {
    if other.is_empty() {
        return one;
    }
    let mut all = one;
    all.extend(other);
    all.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(all.len());
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the escape sequences of a text, without what is seen.
pub(super) fn only_escapes(text: &[u8]) -> Vec<u8> {
    let Some(places) = strip_escapes(text).positions else { return Vec::new() };
    let mut places = places.into_iter().peekable();
    let is_hidden = |(at, byte): (usize, &u8)| places.next_if_eq(&at).is_none().then_some(*byte);
    text.iter().enumerate().filter_map(is_hidden).collect()
}

/// The bytes of a text that are seen.
struct StrippedText<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where each of them stands; none where all are seen.
    positions: Option<Vec<usize>>,
    /// Bytes at the end that are the beginning of a sequence.
    unfinished_escape_bytes: usize,
}

fn strip_escapes(text: &[u8]) -> StrippedText<'_> {
    if memchr::memchr(ESC, text).is_none() {
        return StrippedText {
            bytes: Cow::Borrowed(text),
            positions: None,
            unfinished_escape_bytes: 0,
        };
    }
    let (mut bytes, mut places, mut at) = (Vec::with_capacity(text.len()), Vec::new(), 0);
    while at < text.len() {
        if text[at] == ESC {
            match escape_len(&text[at..]) {
                Some(length) => {
                    at += length;
                    continue;
                }
                None if text.len() - at < MAX_ESCAPE_BYTES => break,
                // No terminal would take it for one either.
                None => {}
            }
        }
        bytes.push(text[at]);
        places.push(at);
        at += 1;
    }
    StrippedText {
        bytes: bytes.into(),
        positions: Some(places),
        unfinished_escape_bytes: text.len() - at,
    }
}

/// Returns the length of the escape sequence that a text begins with (ECMA-48), if it has ended.
fn escape_len(text: &[u8]) -> Option<usize> {
    let end_of = |ends: &dyn Fn(&[u8]) -> Option<usize>| {
        (2..text.len()).find_map(|at| ends(&text[at..]).map(|length| at + length))
    };
    match text.get(1)? {
        b'[' => end_of(&|rest| (0x40..=0x7e).contains(&rest[0]).then_some(1)),
        // Ended by BEL or ESC \\.
        b']' | b'P' | b'^' | b'_' | b'X' => end_of(&|rest| match rest {
            [0x07, ..] => Some(1),
            [ESC, b'\\', ..] => Some(2),
            _ => None,
        }),
        0x20..=0x2f => end_of(&|rest| (0x30..=0x7e).contains(&rest[0]).then_some(1)),
        byte if byte.is_ascii() => Some(2),
        // A character of several bytes begins.
        _ => Some(1),
    }
}
