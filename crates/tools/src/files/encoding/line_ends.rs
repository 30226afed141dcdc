//! Line ends of a text: line feeds, carriage returns before them, and carriage returns alone as on old
//! Macs.

use std::borrow::Cow;

use memchr::memchr;

/// Returns the byte that ends lines: a text without any line feed may end them as old Macs did.
pub(crate) fn line_terminator_byte(raw: &str) -> u8 {
    let has = |byte| memchr(byte, raw.as_bytes()).is_some();
    if !has(b'\n') && has(b'\r') { b'\r' } else { b'\n' }
}

/// Returns a part of an edit with line feeds as its line ends. Which bytes end lines is decided by
/// the file: a carriage return alone does only in a file that has no line feeds.
pub(crate) fn normalise_line_ends<'a>(part: &'a str, file: &str) -> Cow<'a, str> {
    if memchr(b'\r', part.as_bytes()).is_none() {
        return part.into();
    }
    let part = part.replace("\r\n", "\n");
    if line_terminator_byte(file) == b'\r' { part.replace('\r', "\n").into() } else { part.into() }
}

/// Whether a text has carriage returns that end no line.
pub(crate) fn has_lone_carriage_returns(text: &str) -> bool {
    let bytes = text.as_bytes();
    line_terminator_byte(text) == b'\n'
        && memchr::memchr_iter(b'\r', bytes).any(|at| bytes.get(at + 1) != Some(&b'\n'))
}

/// Whether a place lies between the two bytes of a line end.
pub(crate) fn is_within_line_end(text: &str, place: usize) -> bool {
    text.as_bytes()[..place].ends_with(b"\r") && text.as_bytes()[place..].starts_with(b"\n")
}

/// Returns the line end that most lines have, with its name; of several, the plainest.
pub(super) fn dominant_line_end(text: &str) -> Option<(&'static str, &'static str)> {
    let returns = text.matches("\r\n").count();
    match text.matches('\n').count() {
        0 if text.contains('\r') => Some(("\r", "CR")),
        0 => None,
        all if returns > all - returns => Some(("\r\n", "CRLF")),
        _ => Some(("\n", "LF")),
    }
}
