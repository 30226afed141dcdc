//! Tests for decoding, and for edits that preserve all bytes outside of the edited places.

use acp_types::diff::TextEdit;
use encoding_rs::{EUC_KR, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};
use pretty_assertions::assert_eq;

use super::{DecodedText, Note};
use crate::error::ErrorCode;

fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(to_bytes).collect()
}

#[test]
fn each_encoding_is_decoded_and_named() {
    let german = "Die Größe der Straße fällt über die Häuser.\n";
    let russian = "Съешь же ещё этих мягких французских булок, да выпей чаю.\n";
    let japanese = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n";
    let korean = "동해 물과 백두산이 마르고 닳도록 하느님이 보우하사 우리나라 만세.\n";
    for (bytes, text, encoding) in [
        ("\u{feff}ä\r\n".into(), "\u{feff}ä\r\n", None),
        (Vec::new(), "", None),
        (utf16("\u{feff}a𝄞\n", u16::to_le_bytes), "\u{feff}a𝄞\n", Some("UTF-16LE")),
        (utf16("\u{feff}a𝄞\n", u16::to_be_bytes), "\u{feff}a𝄞\n", Some("UTF-16BE")),
        (WINDOWS_1252.encode(german).0.into(), german, Some("windows-1252 (guessed)")),
        (WINDOWS_1251.encode(russian).0.into(), russian, Some("windows-1251 (guessed)")),
        (SHIFT_JIS.encode(japanese).0.into(), japanese, Some("Shift_JIS (guessed)")),
        (EUC_KR.encode(korean).0.into(), korean, Some("EUC-KR (guessed)")),
    ] {
        let decoded = DecodedText::decode("f", bytes.clone()).unwrap();
        assert_eq!(decoded.as_str(), text);
        assert_eq!(decoded.original_bytes(), bytes);
        assert_eq!(decoded.non_utf8_encoding_name().as_deref(), encoding, "{text}");
    }
}

#[test]
fn bytes_that_an_edit_would_damage_are_refused() {
    let mut odd = utf16("\u{feff}ab", u16::to_le_bytes);
    odd.pop();
    for (bytes, code, said) in [
        (b"a\0".to_vec(), ErrorCode::BinaryFile, "f is a binary file"),
        (b"\xff\xfe\0\0a\0\0\0".to_vec(), ErrorCode::BinaryFile, "f is a binary file"),
        (odd, ErrorCode::UnknownEncoding, "f is not whole UTF-16"),
        (b"\xff\xfea\0\0\xd8".to_vec(), ErrorCode::UnknownEncoding, "f is not whole UTF-16"),
        (
            "eins\nGrößen\n\u{20ac}\n".bytes().chain(*b"\xfc\n").collect(),
            ErrorCode::UnknownEncoding,
            "f is UTF-8 with invalid bytes, the first in line 4",
        ),
    ] {
        let error = DecodedText::decode("f", bytes).unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert!(error.to_string().starts_with(said), "{error}");
    }
}

#[test]
fn bytes_outside_of_the_places_stay() {
    let splice = |start, end, new: &str| TextEdit { old: start..end, new: new.to_owned() };
    let text = "\u{feff}a𝄞b𝄞c";
    let decoded = DecodedText::decode("f", utf16(text, u16::to_be_bytes)).unwrap();
    let splices = [splice(3, 4, "ä"), splice(8, 9, "")];
    assert_eq!(decoded.encode_splices(&splices), Ok(utf16("\u{feff}ä𝄞𝄞c", u16::to_be_bytes)));

    let old = "Der Größe nach fällt das Gras über die Füße.\n";
    let decoded = DecodedText::decode("f", WINDOWS_1252.encode(old).0.into()).unwrap();
    let at = old.find("nach").unwrap();
    let spliced = |new| decoded.encode_splices(&[splice(at, at + 4, new)]);
    let expected = old.replace("nach", "„wegen“");
    assert_eq!(spliced("„wegen“"), Ok(WINDOWS_1252.encode(&expected).0.into_owned()));
    assert_eq!(spliced("a猫b"), Err('猫'));
}

#[test]
fn a_replacement_keeps_the_encoding_and_the_line_ends() {
    let latin = b"gr\xfc\xdfe aus M\xfcnchen, sch\xf6n\r\n".to_vec();
    for (old, new, expected, kept) in [
        (b"a\nb\n".to_vec(), "x\ny\n", b"x\ny\n".to_vec(), vec![]),
        (b"a\r\nb\r\n".to_vec(), "x\ny\n", b"x\r\ny\r\n".to_vec(), vec!["line ends (CRLF)"]),
        (b"a\rb\r".to_vec(), "x\ny", b"x\ry".to_vec(), vec!["line ends (CR)"]),
        // The new text gets the most frequent line end of the old text.
        (b"a\r\nb\nc\r\n".to_vec(), "x\n", b"x\r\n".to_vec(), vec!["line ends (CRLF)"]),
        (b"a\r\nb\n".to_vec(), "x\n", b"x\n".to_vec(), vec![]),
        (b"a\r\nb\r\n".to_vec(), "x\r\ny\n", b"x\r\ny\r\n".to_vec(), vec!["line ends (CRLF)"]),
        (b"a\nb\n".to_vec(), "x\r\ny\n", b"x\ny\n".to_vec(), vec!["line ends (LF)"]),
        (b"a\nb\n".to_vec(), "x\ry\r", b"x\ny\n".to_vec(), vec!["line ends (LF)"]),
        (b"a\rb\r".to_vec(), "x\r\ny\r", b"x\ry\r".to_vec(), vec!["line ends (CR)"]),
        // A carriage return that ends no line is an ordinary character. If the old text has no line
        // ends, the new text keeps its own.
        (b"a\rb\nc\n".to_vec(), "x\ry", b"x\ry".to_vec(), vec![]),
        (b"a\nb\n".to_vec(), "x\ry\n", b"x\ry\n".to_vec(), vec![]),
        (b"a".to_vec(), "x\r\ny\n", b"x\r\ny\n".to_vec(), vec![]),
        (b"a\r\nb\r\n".to_vec(), "x", b"x".to_vec(), vec![]),
        ("\u{feff}a\n".into(), "x\n", "\u{feff}x\n".into(), vec!["byte order mark"]),
        ("\u{feff}a\n".into(), "\u{feff}x\n", "\u{feff}x\n".into(), vec![]),
        (
            utf16("\u{feff}a\r\n", u16::to_be_bytes),
            "ü𝄞\n",
            utf16("\u{feff}ü𝄞\r\n", u16::to_be_bytes),
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
        let whole = DecodedText::decode("f", old).unwrap().encode_replacement(new).unwrap();
        assert_eq!(
            (whole.bytes, whole.preserved.iter().map(Note::to_string).collect::<Vec<_>>()),
            (expected, kept.iter().map(|kept| format!("its {kept}")).collect())
        );
    }
}

#[test]
fn a_character_that_the_encoding_lacks_is_an_error() {
    let old = DecodedText::decode("f", b"gr\xfc\xdfe aus M\xfcnchen, sch\xf6n\n".to_vec()).unwrap();
    assert_eq!(old.encode_replacement("東"), Err('東'));
}
