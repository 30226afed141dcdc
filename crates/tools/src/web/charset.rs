//! Decodes pages: by their byte order mark, their header, their `<meta>`, or a guess.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use crate::web::limits::META_SCAN_BYTES;

/// Decodes the bytes of a page. Returns the text without a byte order mark, and the encoding.
///
/// A declared encoding is not used if the bytes contradict it: if they are invalid in it, or if it
/// has one byte per character although the bytes are UTF-8.
pub(crate) fn decode_page(
    bytes: &[u8],
    header: Option<&str>,
    is_html: bool,
    host: &str,
) -> (String, &'static Encoding) {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        let text = encoding.decode_without_bom_handling(&bytes[mark..]).0;
        return (text.into_owned(), encoding);
    }
    let declared = header.and_then(|label| Encoding::for_label(label.as_bytes()));
    let declared = declared.or_else(|| meta_encoding(bytes).filter(|_| is_html));
    if let Some(encoding) = declared {
        let is_utf8 = !bytes.is_ascii() && is_utf8_prefix(bytes);
        if !(encoding.is_single_byte() && is_utf8) {
            let (text, has_errors) = encoding.decode_without_bom_handling(bytes);
            if !has_errors || encoding == UTF_8 && is_utf8 {
                return (text.into_owned(), encoding);
            }
        }
    }
    let guessed = guess_encoding(bytes, host);
    let (text, has_errors) = guessed.decode_without_bom_handling(bytes);
    match declared {
        // A few invalid bytes do not make the declaration wrong.
        Some(declared) if has_errors => {
            (declared.decode_without_bom_handling(bytes).0.into_owned(), declared)
        }
        _ => (text.into_owned(), guessed),
    }
}

/// Returns whether bytes are UTF-8, except for a last character that may be incomplete.
fn is_utf8_prefix(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).err().is_none_or(|error| error.error_len().is_none())
}

fn guess_encoding(bytes: &[u8], host: &str) -> &'static Encoding {
    if is_utf8_prefix(bytes) && !bytes.contains(&0x1b) {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    let top_level = host.rsplit('.').next().map(str::as_bytes);
    let is_name = |label: &&[u8]| {
        !label.is_empty() && label.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-')
    };
    detector.guess(top_level.filter(is_name), Utf8Detection::Allow)
}

/// Returns the encoding that a `<meta>` declares in the first bytes of a page
/// (<https://html.spec.whatwg.org/#prescan-a-byte-stream-to-determine-its-encoding>).
fn meta_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(META_SCAN_BYTES)].to_ascii_lowercase();
    let head = String::from_utf8_lossy(&head);
    let tags = head.split("<meta").skip(1).filter_map(|rest| rest.split_once('>'));
    let mut labels = tags.filter_map(|(tag, _)| {
        let (_, value) = tag.split_once("charset")?;
        let value = value.trim_start().strip_prefix('=')?.trim_start();
        let value = value.trim_start_matches(['"', '\'']);
        value.split(['"', '\'', ';', ' ', '\t', '\n', '\r', '/']).next().map(str::to_owned)
    });
    let encoding = labels.find_map(|label| Encoding::for_label(label.as_bytes()))?;
    Some(match encoding.name() {
        // The declaration could be read, so the page is not UTF-16.
        "UTF-16LE" | "UTF-16BE" => UTF_8,
        "x-user-defined" => WINDOWS_1252,
        _ => encoding,
    })
}

#[cfg(test)]
mod tests {
    use encoding_rs::{
        EUC_JP, Encoding, ISO_2022_JP, SHIFT_JIS, UTF_8, UTF_16LE, WINDOWS_1251, WINDOWS_1252,
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
}
