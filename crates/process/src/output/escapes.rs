//! Filters terminal output for display in another terminal. The filter keeps sequences that draw,
//! and removes sequences with side effects.
//!
//! The result is the same for every split of the stream into chunks.

use std::fmt;
use std::io::Write as _;
use std::mem;

use callboard_text::is_strippable_from_output;
use vte::{Params, Parser, Perform};

use super::complete_utf8_len;
use crate::limits::MAX_LINK_BYTES;

/// A filter for a stream of terminal output that removes everything with an effect beyond drawing.
///
/// Allowed: text, `\b`, `\t`, `\r` and `\n`, colours, cursor movements, erasing, scrolling, the
/// alternate screen, the cursor's shape, line drawing, and links to `http` and `https`. Each
/// sequence is written anew from its parsed form, so that no terminal interprets it differently
/// than this filter.
///
/// The filter removes clipboard access, titles, notifications, links to other schemes, resets,
/// printing, bells, and every sequence that the terminal would answer. It also removes device
/// strings (DCS, APC, PM, SOS) and modes that change which bytes the terminal sends for keys,
/// pasted text or the mouse. Characters that hide or reorder other characters are removed, except
/// those that join the parts of an emoji. Bytes that are not valid text become U+FFFD or are
/// removed. The end of a line ends every sequence, so that an unfinished sequence hides at most the
/// rest of its line.
///
/// ```
/// use callboard_process::escapes::EscapeFilter;
/// let mut filter = EscapeFilter::default();
/// let chunks = [&b"\x1b[1mhi\x1b]52;c;"[..], b"cm0gLXJm\x07!\x1b[0m"];
/// let shown = chunks.map(|chunk| filter.push(chunk));
/// assert_eq!(shown.concat(), b"\x1b[1mhi!\x1b[0m");
/// ```
#[derive(Default)]
pub struct EscapeFilter {
    reader: EscapeParser,
}

impl EscapeFilter {
    /// Appends the next bytes and returns the output that may be shown now. An incomplete sequence
    /// of at most 2 KiB is buffered until the rest arrives.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut passing = FilteredOutput { out: Vec::with_capacity(bytes.len()) };
        self.reader.parse_chunk(&mut passing, bytes);
        passing.out
    }
}

impl fmt::Debug for EscapeFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EscapeFilter").finish_non_exhaustive()
    }
}

/// Parses escape sequences from chunks of any size.
#[derive(Default)]
pub(super) struct EscapeParser {
    parser: Parser,
    /// The first bytes of an incomplete character. The parser loses letters after a character that
    /// it receives in parts, so characters are completed first.
    partial_char: Vec<u8>,
}

impl EscapeParser {
    /// Parses the next chunk. The end of a line ends an unfinished sequence.
    pub(super) fn parse_chunk(&mut self, performer: &mut impl Perform, bytes: &[u8]) {
        let joined = [mem::take(&mut self.partial_char).as_slice(), bytes].concat();
        let (joined, torn) = joined.split_at(complete_utf8_len(&joined));
        torn.clone_into(&mut self.partial_char);
        for line in joined.split_inclusive(|byte| *byte == b'\n') {
            let mut text = line.strip_suffix(b"\n").unwrap_or(line);
            // After each invalid byte, the parser searches the rest of its input for the next
            // escape. A long input with many invalid bytes would therefore take quadratic time.
            while text.len() > MAX_PARSER_CHUNK_BYTES {
                let (part, rest) =
                    text.split_at(complete_utf8_len(&text[..MAX_PARSER_CHUNK_BYTES]));
                self.parser.advance(performer, part);
                text = rest;
            }
            self.parser.advance(performer, text);
            if line.ends_with(b"\n") {
                self.parser = Parser::new();
                performer.execute(b'\n');
            }
        }
    }

    /// Cancels an incomplete sequence; an incomplete character is parsed as invalid.
    pub(super) fn finish(mut self, performer: &mut impl Perform) {
        self.parser.advance(performer, &self.partial_char);
        self.parser.advance(performer, b"\x18");
    }
}

/// Maximum number of bytes passed to the parser at once.
const MAX_PARSER_CHUNK_BYTES: usize = 512;

/// Terminal modes that affect drawing only: wrapping, the cursor, the alternate screen,
/// synchronized updates.
const MODES: [u16; 8] = [7, 12, 25, 47, 1047, 1048, 1049, 2026];

struct FilteredOutput {
    out: Vec<u8>,
}

impl FilteredOutput {
    fn write_csi(&mut self, private: &str, params: &[&[u16]], end: &str) {
        let params: Vec<_> = params
            .iter()
            .map(|parts| parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(":"))
            .collect();
        self.append_formatted(format_args!("\x1b[{private}{}{end}", params.join(";")));
    }

    fn append_formatted(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a vector cannot fail.
        self.out.write_fmt(text).unwrap_or_default();
    }
}

impl Perform for FilteredOutput {
    fn print(&mut self, letter: char) {
        if !letter.is_control() && (!is_strippable_from_output(letter) || is_emoji_joiner(letter)) {
            self.out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    fn execute(&mut self, byte: u8) {
        if matches!(byte, b'\x08' | b'\t' | b'\n' | b'\r') {
            self.out.push(byte);
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, end: char) {
        if ignore {
            return;
        }
        let all: Vec<_> = params.iter().collect();
        match (intermediates, end) {
            // With one parameter the sequence scrolls down; with more parameters it is a mouse
            // sequence.
            (b"", 'T') if all.len() > 1 => {}
            // Movements, erasing, inserting, scrolling, repeating, tabs, colours, the saved cursor.
            (
                b"",
                '@'
                | 'A'..='M'
                | 'P'
                | 'S'
                | 'T'
                | 'X'
                | 'Z'
                | '`'
                | 'a'
                | 'b'
                | 'd'..='g'
                | 'm'
                | 'r'
                | 's'
                | 'u',
            ) => self.write_csi("", &all, end.encode_utf8(&mut [0; 4])),
            (b" ", 'q') => self.write_csi("", &all, " q"),
            (b"?", 'h' | 'l') => {
                for mode in all.iter().filter(|mode| matches!(mode, [mode] if MODES.contains(mode)))
                {
                    self.write_csi("?", &[mode], end.encode_utf8(&mut [0; 4]));
                }
            }
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, end: u8) {
        match (intermediates, end) {
            _ if ignore => {}
            // Save and restore the cursor, index, next line, reverse index, and set a tab.
            (b"", b'7' | b'8' | b'D' | b'E' | b'M' | b'H') => {
                self.append_formatted(format_args!("\x1b{}", char::from(end)));
            }
            // Character sets for letters and for line drawing.
            (b"(" | b")", b'0' | b'A' | b'B') => {
                let set = char::from(intermediates[0]);
                self.append_formatted(format_args!("\x1b{set}{}", char::from(end)));
            }
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        let [b"8", attributes, address @ ..] = params else { return };
        let address = address.join(&b';');
        // If a link reaches the limit of parameters or of bytes, the parser may have truncated it.
        let is_cut =
            params.len() == MAX_OSC_PARAMS || attributes.len() + address.len() > MAX_LINK_BYTES;
        if !is_cut && (address.is_empty() || is_web(&address)) {
            let id = String::from_utf8_lossy(link_id_attribute_if_plain(attributes));
            let address = String::from_utf8_lossy(&address);
            self.append_formatted(format_args!("\x1b]8;{id};{address}\x1b\\"));
        }
    }
}

/// Maximum number of parameters that the parser separates in an OSC string.
const MAX_OSC_PARAMS: usize = 16;

fn is_web(address: &[u8]) -> bool {
    let begins = |scheme: &[u8]| {
        address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    (begins(b"http://") || begins(b"https://")) && address.iter().all(u8::is_ascii_graphic)
}

/// Returns the attribute `id`, which joins the parts of one link, if it has only plain characters.
fn link_id_attribute_if_plain(attributes: &[u8]) -> &[u8] {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(byte);
    if attributes.starts_with(b"id=") && attributes.iter().all(is_plain) { attributes } else { b"" }
}

/// Returns whether a hidden character is a legitimate part of visible text, e.g. of an emoji.
pub(super) fn is_emoji_joiner(letter: char) -> bool {
    matches!(letter, '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
