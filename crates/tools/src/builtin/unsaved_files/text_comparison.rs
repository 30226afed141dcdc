//! Compares the client's text with the file on disk. Ignores the differences that editors cause
//! when they read a file.

use std::borrow::Cow;

use encoding_rs::WINDOWS_1252;

use crate::files::encoding::DecodedText;

/// The result of a comparison between the client's text and the file on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextComparison {
    /// The texts are equal, except in parts that clients drop or convert when they read a file.
    /// These parts are the byte order mark, the kind of line ends, the final line ending, and bytes
    /// that clients cannot decode.
    Same,
    /// The texts differ.
    Different,
    /// The texts differ, and the client's text lacks characters that the client could not decode.
    /// If the client's text were written to disk, these characters would be lost.
    Garbled,
}

/// Compares the client's text with the file on disk. `disk` is `None` if the file does not exist on
/// disk.
pub(super) fn compare_with_disk(client: &str, disk: Option<&DecodedText>) -> TextComparison {
    let Some(disk) = disk else {
        return if client.is_empty() { TextComparison::Same } else { TextComparison::Different };
    };
    let (bytes, text) = (disk.original_bytes(), disk.as_str());
    if client.as_bytes() == bytes
        || equals_except_last_line_end(
            &normalise_bom_and_line_ends(client),
            &normalise_bom_and_line_ends(text),
        )
    {
        return TextComparison::Same;
    }
    let held = merge_replacement_chars(&normalise_bom_and_line_ends(client));
    let is_read = |reading: Cow<'_, str>| {
        equals_except_last_line_end(
            &held,
            &merge_replacement_chars(&normalise_bom_and_line_ends(&reading)),
        )
    };
    if matches_except_replacement_chars(&held, &normalise_bom_and_line_ends(text))
        || possible_decodings(bytes).any(is_read)
    {
        return TextComparison::Same;
    }
    let holes = |text: &str| text.matches(char::REPLACEMENT_CHARACTER).count();
    let is_emptied =
        disk.non_utf8_encoding_name().is_some() && client.is_ascii() && !text.is_ascii();
    if is_emptied || holes(client) > holes(text) {
        TextComparison::Garbled
    } else {
        TextComparison::Different
    }
}

/// Returns the final line ending of the file on disk if the client's text lacks it. Some clients
/// drop this line ending when they read a file, and would not write it back.
pub(super) fn lost_line_end(client: &str, disk: &str) -> &'static str {
    let end = |text: &str| ["\r\n", "\n", "\r"].into_iter().find(|end| text.ends_with(end));
    if client.is_empty() || end(client).is_some() {
        return "";
    }
    // The client may have converted the line ends of the file. Use the kind of line end that the
    // client's text has.
    let shown = client.rfind('\n').and_then(|at| end(&client[..=at]));
    end(disk).map_or("", |lost| shown.unwrap_or(lost))
}

/// Returns the texts that a client may read from these bytes. A client may decode bytes of an older
/// encoding as UTF-8, or decode UTF-8 as an older encoding.
fn possible_decodings(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    let lossy = String::from_utf8_lossy(bytes);
    // Some clients drop invalid bytes. Valid UTF-8 has no such bytes.
    let is_utf8 = matches!(lossy, Cow::Borrowed(_));
    let without = (!is_utf8).then(|| {
        let whole = bytes.utf8_chunks().map(|chunk| chunk.valid());
        Cow::Owned(whole.collect())
    });
    let latin = Cow::Owned(bytes.iter().copied().map(char::from).collect());
    let (windows, _) = WINDOWS_1252.decode_without_bom_handling(bytes);
    [lossy, latin, windows].into_iter().chain(without)
}

/// Returns whether two texts are equal, except that one of them may lack the final line ending.
fn equals_except_last_line_end(one: &str, other: &str) -> bool {
    one == other || one.strip_suffix('\n') == Some(other) || other.strip_suffix('\n') == Some(one)
}

/// Returns whether a text equals another text, except at its replacement characters and the final
/// line ending. Each replacement character matches one or more non-ASCII characters.
fn matches_except_replacement_chars(holed: &str, whole: &str) -> bool {
    let [holed, whole] = [holed, whole].map(|text| text.strip_suffix('\n').unwrap_or(text));
    let (mut holed, mut whole) = (holed.chars().peekable(), whole.chars().peekable());
    while let Some(letter) = holed.next() {
        let there = whole.next();
        if letter != char::REPLACEMENT_CHARACTER {
            if there != Some(letter) {
                return false;
            }
            continue;
        }
        if there.is_none_or(|there| there.is_ascii()) {
            return false;
        }
        let after = holed.peek().copied();
        while whole.next_if(|there| !there.is_ascii() && Some(*there) != after).is_some() {}
    }
    whole.next().is_none()
}

fn normalise_bom_and_line_ends(text: &str) -> String {
    text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n")
}

/// Replaces each sequence of replacement characters by a single replacement character. Clients
/// differ in the number of bytes that one replacement character stands for.
fn merge_replacement_chars(text: &str) -> String {
    let mut merged = String::with_capacity(text.len());
    for letter in text.chars() {
        let is_again = letter == char::REPLACEMENT_CHARACTER && merged.ends_with(letter);
        if !is_again {
            merged.push(letter);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{TextComparison, compare_with_disk, lost_line_end, possible_decodings};
    use crate::files::encoding::DecodedText;

    fn comparison(client: &str, disk: &[u8]) -> TextComparison {
        compare_with_disk(client, Some(&DecodedText::decode("f", disk.to_vec()).unwrap()))
    }

    #[test]
    fn conversions_by_clients_are_no_changes_and_typing_is_one() {
        let latin = b"na\xefve caf\xe9, tr\xe8s bon, \xe0 bient\xf4t\n";
        for (client, disk, expected) in [
            ("a\n", &b"a\n"[..], TextComparison::Same),
            ("a", b"a\n", TextComparison::Same),
            ("a\n", b"a", TextComparison::Same),
            ("a\nb", b"\xef\xbb\xbfa\r\nb\r\n", TextComparison::Same),
            ("\u{feff}a\r\nb\r\n", b"a\nb", TextComparison::Same),
            ("a", b"a\n\n", TextComparison::Different),
            ("", b"a\n", TextComparison::Different),
            ("a \n", b"a\n", TextComparison::Different),
            ("a\n\nb\n", b"a\nb\n", TextComparison::Different),
            // The file is UTF-8. The clients decode it as Latin-1, or drop or replace some
            // characters.
            ("Ã©tÃ©\n", "été\n".as_bytes(), TextComparison::Same),
            ("ete\n", "été\n".as_bytes(), TextComparison::Different),
            ("t\n", "été\n".as_bytes(), TextComparison::Different),
            ("\u{fffd}t\u{fffd}\n", "été\n".as_bytes(), TextComparison::Same),
            ("\u{fffd}t\u{fffd} new\n", "été\n".as_bytes(), TextComparison::Garbled),
            ("a \u{fffd}\n", "a \u{fffd}\n".as_bytes(), TextComparison::Same),
            ("b \u{fffd}\n", "a \u{fffd}\n".as_bytes(), TextComparison::Different),
            // The file is Latin-1. Some of the clients decode it as UTF-8.
            ("naïve café, très bon, à bientôt\n", latin, TextComparison::Same),
            (
                "na\u{fffd}ve caf\u{fffd}, tr\u{fffd}s bon, \u{fffd} bient\u{fffd}t",
                latin,
                TextComparison::Same,
            ),
            ("nave caf, trs bon,  bientt\n", latin, TextComparison::Same),
            ("nave caf, trs bon,  bientt!\n", latin, TextComparison::Garbled),
            ("na\u{fffd}ve new\n", latin, TextComparison::Garbled),
            ("naïve new\n", latin, TextComparison::Different),
        ] {
            assert_eq!(comparison(client, disk), expected, "{client:?} {disk:?}");
        }
        assert_eq!(compare_with_disk("", None), TextComparison::Same);
        assert_eq!(compare_with_disk("a", None), TextComparison::Different);
    }

    #[test]
    fn only_a_last_line_end_that_the_disk_has_is_lost() {
        for (client, disk, expected) in [
            ("a\nnew", "a\nb\n", "\n"),
            ("a\r\nnew", "a\r\nb\r\n", "\r\n"),
            ("a\nnew", "a\r\nb\r\n", "\n"),
            ("new", "a\r\n", "\r\n"),
            ("new", "a\r", "\r"),
            ("new\n", "a\n", ""),
            ("new", "a", ""),
            ("", "a\n", ""),
        ] {
            assert_eq!(lost_line_end(client, disk), expected, "{client:?} {disk:?}");
        }
    }

    proptest! {
        /// A text that a client only read from a file never counts as changed. The same text with
        /// an additional word always counts as changed.
        #[test]
        fn no_reading_of_a_file_is_a_change(
            bytes in prop_oneof![
                prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), 0x20..=0x7e_u8, 0xa1..=0xff_u8], 0..60),
                "[a-c\né€𝄞]{0,40}".prop_map(String::into_bytes),
            ],
            at in any::<prop::sample::Index>(),
        ) {
            let Ok(disk) = DecodedText::decode("f", bytes.clone()) else { return Ok(()) };
            for reading in possible_decodings(&bytes) {
                prop_assert_eq!(compare_with_disk(&reading, Some(&disk)), TextComparison::Same);
                let lines = reading.trim_end_matches('\n');
                let places: Vec<_> = lines.char_indices().map(|(at, _)| at).chain([lines.len()]).collect();
                let mut changed = reading.to_string();
                changed.insert_str(places[at.index(places.len())], "Word");
                prop_assert_ne!(compare_with_disk(&changed, Some(&disk)), TextComparison::Same);
            }
        }
    }
}
