//! Lets through what draws, of what a program writes to a terminal, and nothing that acts beyond
//! the picture: it may be shown in a terminal that belongs to somebody else.
//!
//! Pure, and the same however the stream is cut into chunks. It knows nothing of text for those
//! who have no terminal.

use std::fmt;
use std::io::Write as _;
use std::mem;

use callboard_text::is_strippable;
use vte::{Params, Parser, Perform};

use super::complete_utf8_len;
use crate::limits::MAX_LINK_BYTES;

/// A stream of a terminal's output, less what acts beyond the picture.
///
/// What passes: text, `\b`, `\t`, `\r` and `\n`, colours, movements of the cursor, erasing,
/// scrolling, the other screen, the cursor's shape, line drawing, and links to `http` and `https`.
/// It is written anew from what was understood, so no terminal can read it otherwise.
///
/// What does not: the clipboard, titles, notifications, links to anything else, everything that
/// the terminal would answer, strings to the device (DCS, APC, PM, SOS), modes that change what
/// keys, paste or mouse send, resets, printing, bells, characters that hide or reorder others (but
/// not what joins the parts of an emoji). Bytes that are no text become U+FFFD, or
/// nothing. A sequence ends with its line, so one that is never finished hides no more than that.
///
/// ```
/// use callboard_process::escapes::Filter;
/// let mut filter = Filter::default();
/// let shown = [&b"\x1b[1mhi\x1b]52;c;"[..], b"cm0gLXJm\x07!\x1b[0m"].map(|chunk| filter.push(chunk));
/// assert_eq!(shown.concat(), b"\x1b[1mhi!\x1b[0m");
/// ```
#[derive(Default)]
pub struct EscapeFilter {
    reader: EscapeParser,
}

impl EscapeFilter {
    /// Takes the next bytes, and returns what may be shown now. What is not whole yet waits for
    /// the rest of it, at most 2 KiB of it.
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

/// Reads sequences from chunks that are cut anywhere.
#[derive(Default)]
pub(super) struct EscapeParser {
    parser: Parser,
    /// The beginning of a character. The parser loses letters behind one that it gets in parts.
    partial_char: Vec<u8>,
}

impl EscapeParser {
    /// Reads on. The end of a line ends what it is in the midst of.
    pub(super) fn parse_chunk(&mut self, performer: &mut impl Perform, bytes: &[u8]) {
        let joined = [mem::take(&mut self.partial_char).as_slice(), bytes].concat();
        let (joined, torn) = joined.split_at(complete_utf8_len(&joined));
        torn.clone_into(&mut self.partial_char);
        for line in joined.split_inclusive(|byte| *byte == b'\n') {
            let mut text = line.strip_suffix(b"\n").unwrap_or(line);
            // The parser looks for the next escape anew behind each byte that is no text, so what
            // it gets at once has to be short.
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

    /// Cancels what is not whole; half a character is read as one that is broken.
    pub(super) fn finish(mut self, performer: &mut impl Perform) {
        self.parser.advance(performer, &self.partial_char);
        self.parser.advance(performer, b"\x18");
    }
}

/// Bytes that the parser gets at once.
const MAX_PARSER_CHUNK_BYTES: usize = 512;

/// Modes of the terminal that concern the picture only: wrapping, the cursor, the other screen,
/// updates that are shown at once.
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
        self.write(format_args!("\x1b[{private}{}{end}", params.join(";")));
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a vector cannot fail.
        self.out.write_fmt(text).unwrap_or_default();
    }
}

impl Perform for FilteredOutput {
    fn print(&mut self, letter: char) {
        if !letter.is_control() && (!is_strippable(letter) || is_emoji_joiner(letter)) {
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
            // Down by lines; with more parameters, it is about the mouse.
            (b"", 'T') if all.len() > 1 => {}
            // Movements, erasing, inserting, scrolling, repeating, tabs, colours, what is kept.
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
            // The cursor is kept and put back, goes down, to the next line, up; a tab is set.
            (b"", b'7' | b'8' | b'D' | b'E' | b'M' | b'H') => {
                self.write(format_args!("\x1b{}", char::from(end)));
            }
            // Letters, or the parts of frames.
            (b"(" | b")", b'0' | b'A' | b'B') => {
                let set = char::from(intermediates[0]);
                self.write(format_args!("\x1b{set}{}", char::from(end)));
            }
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        let [b"8", attributes, address @ ..] = params else { return };
        let address = address.join(&b';');
        // What is cut has all of the room that there is for parameters, or for bytes.
        let is_cut =
            params.len() == MAX_OSC_PARAMS || attributes.len() + address.len() > MAX_LINK_BYTES;
        if !is_cut && (address.is_empty() || is_web(&address)) {
            let id = String::from_utf8_lossy(link_id(attributes));
            let address = String::from_utf8_lossy(&address);
            self.write(format_args!("\x1b]8;{id};{address}\x1b\\"));
        }
    }
}

/// How many parameters of a string the parser tells apart.
const MAX_OSC_PARAMS: usize = 16;

fn is_web(address: &[u8]) -> bool {
    let begins = |scheme: &[u8]| {
        address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    (begins(b"http://") || begins(b"https://")) && address.iter().all(u8::is_ascii_graphic)
}

/// The attribute by which the parts of one link know each other, if it is a plain one.
fn link_id(attributes: &[u8]) -> &[u8] {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(byte);
    if attributes.starts_with(b"id=") && attributes.iter().all(is_plain) { attributes } else { b"" }
}

/// Returns whether a hidden character is an honest part of others: of an emoji, for example.
pub(super) fn is_emoji_joiner(letter: char) -> bool {
    matches!(letter, '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
