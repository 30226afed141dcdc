//! What of a terminal's output or a message is seen: its bytes without escape sequences.
//!
//! Those are the sequences that begin with ESC. Other control characters count as seen, and so does
//! a sequence that has no end after 256 bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::automaton::Scan;
use crate::limits::ESCAPE_BYTES;

const ESC: u8 = 0x1b;

/// Scans a text as if it had no escape sequences, and returns where in the text itself that is.
pub(super) fn scan(text: &[u8], scan: impl Fn(&[u8]) -> Scan) -> Scan {
    let Seen { bytes, places, open } = seen(text);
    let Scan { found, open: of_bytes } = scan(&bytes);
    let Some(places) = places else { return Scan { found, open: of_bytes } };
    let place = |at: usize| places.get(at).copied().unwrap_or(text.len() - open);
    let outer = |range: Range<usize>| place(range.start)..place(range.end - 1) + 1;
    let begin = place(bytes.len() - of_bytes);
    Scan {
        found: found.into_iter().map(outer).collect(),
        // Without a secret before it, nothing has to wait for the end of a sequence.
        open: if of_bytes > 0 { text.len() - begin } else { 0 },
    }
}

/// Returns the escape sequences of a text, without what is seen.
pub(super) fn escapes(text: &[u8]) -> Vec<u8> {
    let Some(places) = seen(text).places else { return Vec::new() };
    let mut places = places.into_iter().peekable();
    let is_hidden = |(at, byte): (usize, &u8)| places.next_if_eq(&at).is_none().then_some(*byte);
    text.iter().enumerate().filter_map(is_hidden).collect()
}

/// The bytes of a text that are seen.
struct Seen<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where each of them stands; none where all are seen.
    places: Option<Vec<usize>>,
    /// Bytes at the end that are the beginning of a sequence.
    open: usize,
}

fn seen(text: &[u8]) -> Seen<'_> {
    if memchr::memchr(ESC, text).is_none() {
        return Seen { bytes: Cow::Borrowed(text), places: None, open: 0 };
    }
    let (mut bytes, mut places, mut at) = (Vec::with_capacity(text.len()), Vec::new(), 0);
    while at < text.len() {
        if text[at] == ESC {
            match length(&text[at..]) {
                Some(length) => {
                    at += length;
                    continue;
                }
                None if text.len() - at < ESCAPE_BYTES => break,
                // No terminal would take it for one either.
                None => {}
            }
        }
        bytes.push(text[at]);
        places.push(at);
        at += 1;
    }
    Seen { bytes: bytes.into(), places: Some(places), open: text.len() - at }
}

/// Returns the length of the escape sequence that a text begins with (ECMA-48), if it has ended.
fn length(text: &[u8]) -> Option<usize> {
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
        _ => Some(2),
    }
}
