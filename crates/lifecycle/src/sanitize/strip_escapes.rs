//! Removal of terminal escape sequences, which begin with ESC. Control characters that do not
//! belong to an escape sequence are kept. A sequence that does not end within 256 bytes is kept
//! too.

use std::borrow::Cow;
use std::ops::Range;

use super::automaton::ScanResult;
use crate::limits::MAX_ESCAPE_BYTES;

const ESC: u8 = 0x1b;

/// Scans a text with and without its escape sequences. Returns positions in the original text.
pub(super) fn scan_with_and_without_escapes(
    text: &[u8],
    scan: impl Fn(&[u8]) -> ScanResult,
) -> ScanResult {
    let whole = scan(text);
    let StrippedText { bytes, positions: Some(places), unfinished_escape_bytes: open } =
        strip_escapes(text)
    else {
        return whole;
    };
    let ScanResult { found, possible_match_bytes: of_bytes } = scan(&bytes);
    let place = |at: usize| places.get(at).copied().unwrap_or(text.len() - open);
    let begin = place(bytes.len() - of_bytes);
    // Hold back an unfinished escape sequence only if the text may end with a part of a secret.
    let of_text = if of_bytes > 0 { text.len() - begin } else { 0 };
    ScanResult {
        found: merge_ranges(whole.found, map_to_source(found, &places)),
        possible_match_bytes: whole.possible_match_bytes.max(of_text),
    }
}

/// Searches a text with and without its escape sequences. Returns ranges in the original text.
pub(super) fn find_with_and_without_escapes(
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

/// Maps ranges of the stripped text to ranges of the original text.
fn map_to_source(found: Vec<Range<usize>>, places: &[usize]) -> Vec<Range<usize>> {
    let outer = |range: Range<usize>| places[range.start]..places[range.end - 1] + 1;
    found.into_iter().filter(|range| !range.is_empty()).map(outer).collect()
}

/// Merges two sorted lists of ranges. Overlapping ranges are joined.
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

/// Returns only the escape sequences of a text.
pub(super) fn extract_escapes(text: &[u8]) -> Vec<u8> {
    let Some(places) = strip_escapes(text).positions else { return Vec::new() };
    let mut places = places.into_iter().peekable();
    let is_hidden = |(at, byte): (usize, &u8)| places.next_if_eq(&at).is_none().then_some(*byte);
    text.iter().enumerate().filter_map(is_hidden).collect()
}

/// A text without its escape sequences.
struct StrippedText<'a> {
    bytes: Cow<'a, [u8]>,
    /// The original position of each byte. The field is `None` if no escape sequence was removed.
    positions: Option<Vec<usize>>,
    /// Number of bytes at the end that begin an unfinished escape sequence.
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
                // The sequence is too long, so its bytes are treated as text. Terminals would not
                // accept such a sequence either.
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

/// Returns the length of the escape sequence (ECMA-48) at the start of a text. Returns `None` if
/// the sequence is not complete.
fn escape_len(text: &[u8]) -> Option<usize> {
    let end_of = |ends: &dyn Fn(&[u8]) -> Option<usize>| {
        (2..text.len()).find_map(|at| ends(&text[at..]).map(|length| at + length))
    };
    match text.get(1)? {
        b'[' => end_of(&|rest| (0x40..=0x7e).contains(&rest[0]).then_some(1)),
        // These sequences end with BEL or ESC \\.
        b']' | b'P' | b'^' | b'_' | b'X' => end_of(&|rest| match rest {
            [0x07, ..] => Some(1),
            [ESC, b'\\', ..] => Some(2),
            _ => None,
        }),
        0x20..=0x2f => end_of(&|rest| (0x30..=0x7e).contains(&rest[0]).then_some(1)),
        byte if byte.is_ascii() => Some(2),
        // The first byte of a multi-byte character.
        _ => Some(1),
    }
}
