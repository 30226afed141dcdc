//! Decodes pages: by their byte order mark, their header, their `<meta>`, or a guess.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use crate::web::limits::META_SCAN_BYTES;

/// Decodes the bytes of a page. Returns the text without a byte order mark, and the encoding.
///
/// A declared encoding is ignored in two cases: if the bytes are invalid in this encoding, or if
/// the bytes are UTF-8 although the declared encoding has one byte per character.
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
        // The bytes are also invalid in the guessed encoding. The declaration is then probably
        // right, and the page contains a few invalid bytes.
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
        // The bytes of the declaration are ASCII, so the page cannot be UTF-16.
        "UTF-16LE" | "UTF-16BE" => UTF_8,
        "x-user-defined" => WINDOWS_1252,
        _ => encoding,
    })
}

#[cfg(test)]
mod tests;
