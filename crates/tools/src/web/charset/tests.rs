//! Tests of declared, undeclared and wrongly declared encodings.

use encoding_rs::{
    EUC_JP, Encoding, ISO_2022_JP, KOI8_R, SHIFT_JIS, UTF_8, UTF_16LE, WINDOWS_1251, WINDOWS_1252,
};
use pretty_assertions::assert_eq;

use super::decode_page;

const JAPANESE: &str = "日本語のページです。文字コードを宣言していなくても読めるはずです。";
const RUSSIAN: &str = "Эта страница написана по-русски и не объявляет кодировку.";
const FRENCH: &str = "Les élèves français étaient déjà à l'école, très gênés par l'été.";

fn encode(encoding: &'static Encoding, text: &str) -> Vec<u8> {
    let (bytes, _, has_errors) = encoding.encode(text);
    assert!(!has_errors);
    bytes.into_owned()
}

#[track_caller]
fn check(bytes: &[u8], header: Option<&str>, expected: (&str, &'static Encoding)) {
    let (text, encoding) = decode_page(bytes, header, true, "a.example");
    assert_eq!((text.as_str(), encoding.name()), (expected.0, expected.1.name()));
}

#[test]
fn declared_encodings_are_used() {
    check(&encode(WINDOWS_1252, FRENCH), Some("ISO-8859-1"), (FRENCH, WINDOWS_1252));
    check(&encode(SHIFT_JIS, JAPANESE), Some("shift_jis"), (JAPANESE, SHIFT_JIS));
    check(FRENCH.as_bytes(), Some("utf-8"), (FRENCH, UTF_8));
    let wide: Vec<u8> = FRENCH.encode_utf16().flat_map(u16::to_le_bytes).collect();
    check(&wide, Some("utf-16le"), (FRENCH, UTF_16LE));
    check(&[b"\xff\xfe", &*wide].concat(), Some("utf-8"), (FRENCH, UTF_16LE));
    check(&[b"\xef\xbb\xbf", FRENCH.as_bytes()].concat(), Some("latin1"), (FRENCH, UTF_8));
}

#[test]
fn meta_declares_an_encoding() {
    for meta in [
        "<meta charset=euc-jp>",
        "<META CHARSET = \"EUC-JP\" />",
        "<meta name=x content=y><meta http-equiv=Content-Type content='text/html; charset=EUC-JP'>",
    ] {
        let page = format!("<html>{meta}<p>{JAPANESE}");
        check(&encode(EUC_JP, &page), None, (&page, EUC_JP));
        check(page.as_bytes(), Some("utf-8"), (&page, UTF_8));
    }
    // The page is too short to guess its encoding, so the declared encoding is used.
    check(b"<meta charset=koi8-r>\xc1", None, ("<meta charset=koi8-r>\u{430}", KOI8_R));
    let page = format!("<meta charset=utf-16><p>{FRENCH}");
    check(page.as_bytes(), None, (&page, UTF_8));
    let (text, _) = decode_page(b"<meta charset=euc-jp> plain", None, false, "a.example");
    assert_eq!(text, "<meta charset=euc-jp> plain");
}

#[test]
fn undeclared_encodings_are_guessed() {
    for (encoding, text) in [
        (SHIFT_JIS, JAPANESE),
        (EUC_JP, JAPANESE),
        (ISO_2022_JP, JAPANESE),
        (WINDOWS_1251, RUSSIAN),
        (WINDOWS_1252, FRENCH),
        (UTF_8, JAPANESE),
        (UTF_8, "ascii"),
    ] {
        check(&encode(encoding, text), None, (text, encoding));
    }
}

#[test]
fn wrong_declarations_are_ignored() {
    check(FRENCH.as_bytes(), Some("ISO-8859-1"), (FRENCH, UTF_8));
    check(&encode(SHIFT_JIS, JAPANESE), Some("utf-8"), (JAPANESE, SHIFT_JIS));
    check(&encode(WINDOWS_1252, FRENCH), Some("utf-8"), (FRENCH, WINDOWS_1252));
    check(FRENCH.as_bytes(), Some("no-such-encoding"), (FRENCH, UTF_8));
    // A truncated page may end within a character.
    let cut = &JAPANESE.as_bytes()[..JAPANESE.len() - 1];
    let (text, encoding) = decode_page(cut, Some("utf-8"), true, "a.example");
    assert!(text.starts_with("日本語") && encoding == UTF_8, "{text}");
}
