//! Decodes the bytes of a file to text, and encodes edited text in the same encoding.
//!
//! UTF-8, and UTF-16 with a byte order mark, are decoded strictly. All other bytes are decoded with
//! a guessed legacy encoding. The guess is only used if encoding the text again results in the same
//! bytes. A byte order mark remains in the text as its first character.

pub(crate) mod line_ends;

use std::borrow::Cow;

use acp_types::diff::TextEdit;
use callboard_process::binary_kind;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;

use self::line_ends::{dominant_line_end, has_lone_carriage_returns, normalise_line_ends};
use crate::error::{ErrorCode, ToolError};
use crate::note::Note;

/// The text of a file, with the bytes from which it was decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedText {
    text: String,
    encoding: TextEncoding,
    /// The original bytes. Empty for UTF-8, because the original bytes are then the bytes of the
    /// text.
    raw: Vec<u8>,
}

/// A new text for a file, with its encoded bytes and a list of the properties that it takes over
/// from the old text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReencodedText {
    /// The text that the file will contain.
    pub text: String,
    /// The encoded bytes of the text.
    pub bytes: Vec<u8>,
    /// The properties that were taken over, as text for users. Empty if the new text already had
    /// them.
    pub preserved: Vec<Note>,
}

/// The encoding in which a file stores its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextEncoding {
    Utf8,
    Utf16(ByteOrder),
    /// A guessed legacy encoding.
    Legacy(&'static Encoding),
}

/// The order of the two bytes of a UTF-16 unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    LittleEndian,
    BigEndian,
}

impl DecodedText {
    /// Decodes the bytes of a file. Errors contain `given` as the name of the file.
    ///
    /// # Errors
    ///
    /// - `binary_file` if the bytes are not text.
    /// - `unknown_encoding` if no encoding can decode all bytes. Writing the text back would damage
    ///   these bytes.
    pub fn decode(given: &str, bytes: Vec<u8>) -> Result<Self, ToolError> {
        let unknown = |why: &str| {
            let message = format!(
                "{given} {why}, so an edit would damage it. Change it with a command that knows \
                 its encoding"
            );
            ToolError::recoverable(ErrorCode::UnknownEncoding, message)
        };
        if let Some(order) = ByteOrder::from_byte_order_mark(&bytes) {
            let text = order.decode(&bytes).ok_or_else(|| unknown("is not whole UTF-16"))?;
            return Ok(Self { text, encoding: TextEncoding::Utf16(order), raw: bytes });
        }
        if let Some(kind) = binary_kind(&bytes) {
            let message = format!("{given} is a binary file ({kind}) and cannot be edited as text");
            return Err(ToolError::recoverable(ErrorCode::BinaryFile, message));
        }
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => return Ok(Self { text, encoding: TextEncoding::Utf8, raw: Vec::new() }),
            Err(error) => error.into_bytes(),
        };
        if let Some(line) = invalid_line_if_mostly_utf8(&bytes) {
            return Err(unknown(&format!("is UTF-8 with invalid bytes, the first in line {line}")));
        }
        let form = TextEncoding::guess_legacy(&bytes);
        let text = form
            .decode_if_reversible(&bytes)
            .ok_or_else(|| unknown("is in an unknown encoding"))?;
        Ok(Self { text, encoding: form, raw: bytes })
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text, and drops the bytes.
    pub(crate) fn into_string(self) -> String {
        self.text
    }

    /// Returns the bytes from which the text was decoded.
    #[must_use]
    pub fn original_bytes(&self) -> &[u8] {
        if self.encoding == TextEncoding::Utf8 { self.text.as_bytes() } else { &self.raw }
    }

    /// Returns the name of the encoding. The name states whether the encoding was guessed. Returns
    /// `None` for UTF-8.
    #[must_use]
    pub fn non_utf8_encoding_name(&self) -> Option<String> {
        match self.encoding {
            TextEncoding::Utf8 => None,
            TextEncoding::Utf16(ByteOrder::LittleEndian) => Some("UTF-16LE".to_owned()),
            TextEncoding::Utf16(ByteOrder::BigEndian) => Some("UTF-16BE".to_owned()),
            TextEncoding::Legacy(encoding) => Some(format!("{} (guessed)", encoding.name())),
        }
    }

    /// Replaces some ranges of the text, and returns the encoded result. All bytes outside of these
    /// ranges stay the same.
    ///
    /// # Errors
    ///
    /// Returns the first character that the encoding cannot represent.
    pub(crate) fn encode_splices(&self, splices: &[TextEdit]) -> Result<Vec<u8>, char> {
        let raw = self.original_bytes();
        let added: usize = splices.iter().map(|splice| splice.new.len()).sum();
        let mut bytes = Vec::with_capacity(raw.len() + added);
        let (mut text_at, mut raw_at) = (0, 0);
        for TextEdit { old, new } in splices {
            let kept = self.encoding.byte_len(&self.text[text_at..old.start]);
            bytes.extend_from_slice(&raw[raw_at..raw_at + kept]);
            bytes.extend_from_slice(&self.encoding.encode(new)?);
            raw_at += kept + self.encoding.byte_len(&self.text[old.clone()]);
            text_at = old.end;
        }
        bytes.extend_from_slice(&raw[raw_at..]);
        Ok(bytes)
    }

    /// Encodes a text that replaces this whole text.
    ///
    /// The result has the encoding, the byte order mark and the kind of line ends of this text. A
    /// carriage return that ends no line is not changed.
    ///
    /// # Errors
    ///
    /// Returns the first character that the encoding cannot represent.
    pub fn encode_replacement(&self, new: &str) -> Result<ReencodedText, char> {
        let mut kept = Vec::new();
        let mut text = Cow::Borrowed(new);
        if let Some((line_end, name)) = dominant_line_end(self.as_str()) {
            let lines = normalise_line_ends(
                new,
                if has_lone_carriage_returns(self.as_str()) { "\n" } else { new },
            );
            let lines = normalise_line_ends(&lines, self.as_str());
            let ended = if line_end == "\n" { lines } else { lines.replace('\n', line_end).into() };
            if ended != new {
                text = ended.into_owned().into();
                kept.push(Note::new("kept-line-ends").with_text("name", name));
            }
        }
        if self.as_str().starts_with(BYTE_ORDER_MARK) && !text.starts_with(BYTE_ORDER_MARK) {
            text.to_mut().insert(0, BYTE_ORDER_MARK);
            kept.push(Note::new("kept-mark"));
        }
        let bytes = self.encoding.encode(&text)?.into_owned();
        let encoding = match self.encoding {
            TextEncoding::Utf8 => None,
            TextEncoding::Legacy(encoding) => {
                Some(Note::new("kept-guessed-encoding").with_text("encoding", encoding.name()))
            }
            TextEncoding::Utf16(_) => self
                .non_utf8_encoding_name()
                .map(|name| Note::new("kept-encoding").with_text("encoding", name)),
        };
        kept.splice(..0, encoding);
        Ok(ReencodedText { text: text.into_owned(), bytes, preserved: kept })
    }
}

/// The byte order mark. As the first character of a text, it marks the text as Unicode.
const BYTE_ORDER_MARK: char = '\u{feff}';

impl TextEncoding {
    fn guess_legacy(bytes: &[u8]) -> Self {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(bytes, true);
        Self::Legacy(detector.guess(None, Utf8Detection::Deny))
    }

    /// Decodes bytes. Returns `None` if encoding the text again does not result in the same bytes.
    fn decode_if_reversible(self, bytes: &[u8]) -> Option<String> {
        let Self::Legacy(encoding) = self else { return None };
        let text =
            encoding.decode_without_bom_handling_and_without_replacement(bytes)?.into_owned();
        (self.encode(&text).ok()? == bytes).then_some(text)
    }

    fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, char> {
        match self {
            Self::Utf8 => Ok(text.as_bytes().into()),
            Self::Utf16(order) => Ok(order.encode(text).into()),
            Self::Legacy(encoding) => {
                let has = |letter: &char| {
                    let (_, _, is_unknown) = encoding.encode(letter.encode_utf8(&mut [0; 4]));
                    !is_unknown
                };
                let (bytes, _, is_lossy) = encoding.encode(text);
                match text.chars().find(|letter| is_lossy && !has(letter)) {
                    Some(missing) => Err(missing),
                    None => Ok(bytes),
                }
            }
        }
    }

    /// Returns the encoded length of a part of the text, in bytes.
    fn byte_len(self, text: &str) -> usize {
        match self {
            Self::Utf8 => text.len(),
            Self::Utf16(_) => text.chars().map(|letter| 2 * letter.len_utf16()).sum(),
            Self::Legacy(encoding) => encoding.encode(text).0.len(),
        }
    }
}

impl ByteOrder {
    /// Returns the byte order that the byte order mark specifies.
    fn from_byte_order_mark(bytes: &[u8]) -> Option<Self> {
        match bytes {
            // The byte order mark of UTF-32LE begins with the byte order mark of UTF-16LE.
            [0xff, 0xfe, 0, 0, ..] => None,
            [0xff, 0xfe, ..] => Some(Self::LittleEndian),
            [0xfe, 0xff, ..] => Some(Self::BigEndian),
            _ => None,
        }
    }

    fn decode(self, bytes: &[u8]) -> Option<String> {
        let (units, rest) = bytes.as_chunks();
        let unit = |unit: &[u8; 2]| match self {
            Self::LittleEndian => u16::from_le_bytes(*unit),
            Self::BigEndian => u16::from_be_bytes(*unit),
        };
        let text = char::decode_utf16(units.iter().map(unit)).collect::<Result<_, _>>().ok()?;
        rest.is_empty().then_some(text)
    }

    fn encode(self, text: &str) -> Vec<u8> {
        let unit = |unit: u16| match self {
            Self::LittleEndian => unit.to_le_bytes(),
            Self::BigEndian => unit.to_be_bytes(),
        };
        text.encode_utf16().flat_map(unit).collect()
    }
}

/// Returns the number of the line that contains the first invalid byte, if the file is mostly
/// UTF-8.
///
/// A file counts as mostly UTF-8 if it has at least as many valid multi-byte characters as invalid
/// byte sequences. A text in a legacy encoding rarely contains valid multi-byte characters.
fn invalid_line_if_mostly_utf8(bytes: &[u8]) -> Option<usize> {
    let (mut whole, mut broken, mut line, mut first) = (0, 0, 1, None);
    for chunk in bytes.utf8_chunks() {
        whole += chunk.valid().chars().filter(|letter| !letter.is_ascii()).count();
        line += memchr::memchr_iter(b'\n', chunk.valid().as_bytes()).count();
        if !chunk.invalid().is_empty() {
            broken += 1;
            first.get_or_insert(line);
        }
    }
    first.filter(|_| whole >= broken)
}

#[cfg(test)]
mod tests;
