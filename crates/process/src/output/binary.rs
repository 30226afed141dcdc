//! Detects binary output by its first bytes.

use infer::MatcherType;

/// Maximum number of non-text characters in a text.
const MAX_ODD_CHARS: usize = 8;

/// Describes binary output that begins with `start`; returns `None` for text.
///
/// Text contains few bytes that are not valid UTF-8, and few control characters besides those that
/// terminal output contains. Text may contain NUL characters between its words, as in the output of
/// `find -print0`.
pub(super) fn describe_binary(start: &[u8]) -> Option<String> {
    let nul = start.iter().filter(|byte| **byte == 0).count();
    let odd: usize = start
        .utf8_chunks()
        .map(|chunk| count_non_text_chars(chunk.valid()) + chunk.invalid().len())
        .sum();
    let is_text =
        if odd <= MAX_ODD_CHARS { nul * 2 <= start.len() } else { (odd + nul) * 10 <= start.len() };
    let looks_like = || match binary_kind(start) {
        Some(kind) if kind != UNKNOWN_KIND => format!("looks like: {kind}"),
        _ => "of a kind that is not known".to_owned(),
    };
    (!is_text).then(looks_like)
}

/// Counts the characters that do not occur in text.
fn count_non_text_chars(text: &str) -> usize {
    let is_odd =
        |letter: &char| letter.is_control() && !"\0\x07\x08\t\n\x0c\r\x1b".contains(*letter);
    text.chars().filter(is_odd).count()
}

/// Name of the kind of a binary file whose kind is not recognized.
const UNKNOWN_KIND: &str = "unknown kind";

/// Returns the kind of a file by its first bytes; `None` for text in UTF-8 or a similar encoding.
pub fn binary_kind(start: &[u8]) -> Option<String> {
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return Some("UTF-16 text".to_owned());
    }
    if !start.contains(&0) && !start.starts_with(b"%PDF-") {
        return None;
    }
    let Some(kind) = infer::get(start) else { return Some(UNKNOWN_KIND.to_owned()) };
    let noun = match kind.matcher_type() {
        MatcherType::App => "program",
        MatcherType::Archive => "archive",
        MatcherType::Audio => "audio",
        MatcherType::Book => "book",
        MatcherType::Doc | MatcherType::Text => "document",
        MatcherType::Font => "font",
        MatcherType::Image => "image",
        MatcherType::Video => "video",
        MatcherType::Custom => "data",
    };
    Some(format!("{} {noun}", kind.extension().to_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::describe_binary;

    #[test]
    fn text_and_binary_output_are_distinguished() {
        let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0xd4; 40]].concat();
        // A PNG file whose line ends were changed by a terminal.
        let png_in_terminal = [&b"\x89PNG\r\r\n\x1a\r\n\0\0\0\rIHDR"[..], &[0x9c; 40]].concat();
        let elf = [&b"\x7fELF\x02\x01\x01\0"[..], &[0; 56], b"\x03\0>\0"].concat();
        let noise: Vec<u8> = (0..500_u32)
            .map(|n| (n.wrapping_mul(n).wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for (start, expected) in [
            (&b""[..], None),
            (b"text\n", None),
            (b"\x1b[31mred\x1b[0m \x07\x08\r\n", None),
            ("äöü€😀".as_bytes(), None),
            // Latin-1 text, a truncated character, and a few control characters.
            (b"Gr\xfc\xdfe aus M\xfcnchen, und zwar viele, sehr viele davon", None),
            (b"text \xe2\x82", None),
            (b"\x01\x02", None),
            // Output of `find -print0`
            (b"./a\0./b\0./c\0", None),
            (&png, Some("looks like: PNG image")),
            (&png_in_terminal, Some("looks like: PNG image")),
            (&elf, Some("looks like: ELF program")),
            (&[0; 100], Some("of a kind that is not known")),
            (&noise, Some("of a kind that is not known")),
        ] {
            assert_eq!(describe_binary(start).as_deref(), expected, "{start:?}");
        }
    }
}
