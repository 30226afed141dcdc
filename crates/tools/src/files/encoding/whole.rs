//! A text that replaces all of a file, in the form that the file has: its encoding, its byte order
//! mark, its line ends.
//!
//! It knows nothing of files.

use std::borrow::Cow;

use super::line_ends::{has_lone_returns, line_end, normalised};
use super::{Form, Text};
use crate::note::Note;

/// A text with its bytes, and what it kept of the one that it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Whole {
    /// The text as the file will have it.
    pub text: String,
    /// The bytes of it.
    pub bytes: Vec<u8>,
    /// What was kept, for people; empty if it would be the same without.
    pub kept: Vec<Note>,
}

impl Text {
    /// Returns a text that replaces all of this one, with the encoding, the byte order mark and the
    /// line ends of this one, if it has any. Carriage returns that end no line stay.
    ///
    /// # Errors
    ///
    /// The first character that the encoding does not have.
    pub fn replaced(&self, new: &str) -> Result<Whole, char> {
        let mut kept = Vec::new();
        let mut text = Cow::Borrowed(new);
        if let Some((line_end, name)) = line_end(self.as_str()) {
            let lines = normalised(new, if has_lone_returns(self.as_str()) { "\n" } else { new });
            let lines = normalised(&lines, self.as_str());
            let ended = if line_end == "\n" { lines } else { lines.replace('\n', line_end).into() };
            if ended != new {
                text = ended.into_owned().into();
                kept.push(Note::new("kept-line-ends").with("name", name));
            }
        }
        if self.as_str().starts_with(MARK) && !text.starts_with(MARK) {
            text.to_mut().insert(0, MARK);
            kept.push(Note::new("kept-mark"));
        }
        let bytes = self.form.encode(&text)?.into_owned();
        let encoding = match self.form {
            Form::Utf8 => None,
            Form::Legacy(encoding) => {
                Some(Note::new("kept-guessed-encoding").with("encoding", encoding.name()))
            }
            Form::Utf16(_) => {
                self.encoding().map(|name| Note::new("kept-encoding").with("encoding", name))
            }
        };
        kept.splice(..0, encoding);
        Ok(Whole { text: text.into_owned(), bytes, kept })
    }
}

/// The first character of a text that is marked as Unicode.
const MARK: char = '\u{feff}';

#[cfg(test)]
mod tests {
    use super::{Note, Text};
    use pretty_assertions::assert_eq;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_be_bytes).collect()
    }

    #[test]
    fn the_form_of_a_file_outlives_its_text() {
        let latin = b"gr\xfc\xdfe aus M\xfcnchen, sch\xf6n\r\n".to_vec();
        for (old, new, expected, kept) in [
            (b"a\nb\n".to_vec(), "x\ny\n", b"x\ny\n".to_vec(), vec![]),
            (b"a\r\nb\r\n".to_vec(), "x\ny\n", b"x\r\ny\r\n".to_vec(), vec!["line ends (CRLF)"]),
            (b"a\rb\r".to_vec(), "x\ny", b"x\ry".to_vec(), vec!["line ends (CR)"]),
            // The most of several; what says how its lines end has it so.
            (b"a\r\nb\nc\r\n".to_vec(), "x\n", b"x\r\n".to_vec(), vec!["line ends (CRLF)"]),
            (b"a\r\nb\n".to_vec(), "x\n", b"x\n".to_vec(), vec![]),
            (b"a\r\nb\r\n".to_vec(), "x\r\ny\n", b"x\r\ny\r\n".to_vec(), vec!["line ends (CRLF)"]),
            (b"a\nb\n".to_vec(), "x\r\ny\n", b"x\ny\n".to_vec(), vec!["line ends (LF)"]),
            (b"a\nb\n".to_vec(), "x\ry\r", b"x\ny\n".to_vec(), vec!["line ends (LF)"]),
            (b"a\rb\r".to_vec(), "x\r\ny\r", b"x\ry\r".to_vec(), vec!["line ends (CR)"]),
            // Carriage returns that end no line are characters, and a text without lines has no form.
            (b"a\rb\nc\n".to_vec(), "x\ry", b"x\ry".to_vec(), vec![]),
            (b"a\nb\n".to_vec(), "x\ry\n", b"x\ry\n".to_vec(), vec![]),
            (b"a".to_vec(), "x\r\ny\n", b"x\r\ny\n".to_vec(), vec![]),
            (b"a\r\nb\r\n".to_vec(), "x", b"x".to_vec(), vec![]),
            ("\u{feff}a\n".into(), "x\n", "\u{feff}x\n".into(), vec!["byte order mark"]),
            ("\u{feff}a\n".into(), "\u{feff}x\n", "\u{feff}x\n".into(), vec![]),
            (
                utf16("\u{feff}a\r\n"),
                "ü𝄞\n",
                utf16("\u{feff}ü𝄞\r\n"),
                vec!["encoding (UTF-16BE)", "line ends (CRLF)", "byte order mark"],
            ),
            (
                latin,
                "schöne Grüße\n",
                b"sch\xf6ne Gr\xfc\xdfe\r\n".to_vec(),
                vec!["encoding (windows-1252 (guessed))", "line ends (CRLF)"],
            ),
            (Vec::new(), "x\n", b"x\n".to_vec(), vec![]),
        ] {
            let whole = Text::decode("f", old).unwrap().replaced(new).unwrap();
            assert_eq!(
                (whole.bytes, whole.kept.iter().map(Note::to_string).collect::<Vec<_>>()),
                (expected, kept.iter().map(|kept| format!("its {kept}")).collect())
            );
        }
    }

    #[test]
    fn what_an_encoding_does_not_have_is_no_part_of_it() {
        let old = Text::decode("f", b"gr\xfc\xdfe aus M\xfcnchen, sch\xf6n\n".to_vec()).unwrap();
        assert_eq!(old.replaced("東"), Err('東'));
    }
}
