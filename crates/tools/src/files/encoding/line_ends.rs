//! The line ends of a text: LF, CRLF, or CR alone as on classic Mac OS.

use std::borrow::Cow;

use memchr::memchr;

/// Returns the byte that ends lines: CR if the text contains CR but no LF, and LF otherwise.
pub(crate) fn line_terminator_byte(raw: &str) -> u8 {
    let has = |byte| memchr(byte, raw.as_bytes()).is_some();
    if !has(b'\n') && has(b'\r') { b'\r' } else { b'\n' }
}

/// Converts the line ends of the old or the new text of an edit to LF.
///
/// The file determines which bytes end lines: a lone CR ends a line only in a file without any LF.
pub(crate) fn normalise_line_ends<'a>(part: &'a str, file: &str) -> Cow<'a, str> {
    if memchr(b'\r', part.as_bytes()).is_none() {
        return part.into();
    }
    let part = part.replace("\r\n", "\n");
    if line_terminator_byte(file) == b'\r' { part.replace('\r', "\n").into() } else { part.into() }
}

/// Returns whether a text has carriage returns that end no line.
pub(crate) fn has_lone_carriage_returns(text: &str) -> bool {
    let bytes = text.as_bytes();
    line_terminator_byte(text) == b'\n'
        && memchr::memchr_iter(b'\r', bytes).any(|at| bytes.get(at + 1) != Some(&b'\n'))
}

/// Returns whether a byte offset lies between the CR and the LF of a line end.
pub(crate) fn is_within_line_end(text: &str, place: usize) -> bool {
    text.as_bytes()[..place].ends_with(b"\r") && text.as_bytes()[place..].starts_with(b"\n")
}

/// Returns the most frequent line end of a text, and its name. If LF and CRLF are equally frequent,
/// returns LF.
pub(super) fn dominant_line_end(text: &str) -> Option<(&'static str, &'static str)> {
    let returns = text.matches("\r\n").count();
    match text.matches('\n').count() {
        0 if text.contains('\r') => Some(("\r", "CR")),
        0 => None,
        all if returns > all - returns => Some(("\r\n", "CRLF")),
        _ => Some(("\n", "LF")),
    }
}
