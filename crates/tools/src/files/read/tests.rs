//! Tests for the lines and the notes of an excerpt.

use super::{FileContent, FileExcerpt, ReadRequest, TruncatedBy, read_excerpt};
use crate::error::{ErrorCode, ToolError};
use crate::files::workspace::testing::test_workspace;
use crate::limits::{
    DEFAULT_READ_LINES, LINE_READ_BUFFER_BYTES, MAX_IMAGE_BYTES, MAX_LINE_READ_FILE_BYTES,
    MAX_READ_LINE_CHARS, MAX_READ_TEXT_BYTES, MAX_WHOLE_FILE_BYTES, SNIFF_BYTES,
};
use callboard_text::group_thousands;
use pretty_assertions::assert_eq;
use std::fs::File;
use std::io::{self, Cursor};

fn read(
    text: impl AsRef<[u8]>,
    offset: Option<i64>,
    limit: Option<u32>,
) -> Result<FileExcerpt, ToolError> {
    let tree = test_workspace(&[]);
    tree.write("file", text);
    read_excerpt(&tree.workspace, "file", offset, limit)
}

fn read_whole_file(text: impl AsRef<[u8]>) -> FileExcerpt {
    read(text, None, None).unwrap()
}

#[test]
fn an_excerpt_has_the_requested_lines() {
    for (offset, limit, expected, lines) in [
        (None, None, "a\nb\nc\nd\n", 1..=4),
        (Some(1), Some(4), "a\nb\nc\nd\n", 1..=4),
        (Some(0), Some(1), "a\n", 1..=1),
        (Some(2), Some(2), "b\nc\n", 2..=3),
        (Some(4), Some(9), "d\n", 4..=4),
        (Some(-1), None, "d\n", 4..=4),
        (Some(-3), Some(2), "b\nc\n", 2..=3),
        (Some(-9), None, "a\nb\nc\nd\n", 1..=4),
        (Some(i64::MIN), None, "a\nb\nc\nd\n", 1..=4),
    ] {
        // The last line of the file may lack its line end.
        for text in ["a\nb\nc\nd\n", "a\nb\nc\nd"] {
            let window = read(text, offset, limit).unwrap();
            assert_eq!(window.text, expected, "{offset:?} {limit:?}");
            assert_eq!(window.first_line..=window.last_line, lines, "{offset:?} {limit:?}");
            assert_eq!(window.total_lines, Some(4));
            let is_cut = (*lines.end() < 4).then_some(TruncatedBy::LineLimit);
            assert_eq!(window.truncated_by, is_cut);
            assert_eq!(window.next_offset(), is_cut.map(|_| lines.end() + 1));
        }
    }
}

#[test]
fn the_model_receives_line_numbers_and_the_next_offset() {
    let window = read("a\nb\nc\nd\n", Some(2), Some(2)).unwrap();
    assert_eq!(
        window.for_model(),
        "     2\tb\n     3\tc\n[lines 2-3 of 4; continue with offset 4]\n"
    );
    assert_eq!(read_whole_file("a\n").for_model(), "     1\ta\n");
    assert_eq!(read_whole_file("").for_model(), "[the file is empty]\n");
    assert_eq!((read_whole_file("").first_line, read_whole_file("").total_lines), (0, Some(0)));
}

#[test]
fn an_offset_beyond_the_end_is_answered_with_the_number_of_lines() {
    for offset in [3, i64::MAX] {
        let error = read("a\nb\n", Some(offset), None).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::InvalidArguments));
        assert!(error.to_string().contains("has 2 lines"), "{error}");
    }
    assert!(read("a", None, Some(0)).is_err());
}

#[test]
fn long_lines_are_cut_between_characters() {
    let window = read_whole_file(format!("{}\nend\n", "ä".repeat(MAX_READ_LINE_CHARS + 3)));
    assert_eq!(window.text, format!("{}… [6 more bytes]\nend\n", "ä".repeat(MAX_READ_LINE_CHARS)));
    assert_eq!(window.notes, ["long lines are cut to 2000 characters"]);
    let window = read_whole_file("€".repeat(3_000_000));
    assert_eq!(
        window.text,
        format!("{}… [8,994,000 more bytes]\n", "€".repeat(MAX_READ_LINE_CHARS))
    );
    assert_eq!(read_whole_file("x".repeat(MAX_READ_LINE_CHARS)).notes, [""; 0]);
}

#[test]
fn a_window_is_bounded_in_lines_and_bytes() {
    let window = read_whole_file("x\n".repeat(5_000));
    assert_eq!((window.last_line, window.total_lines), (DEFAULT_READ_LINES, Some(5_000)));
    assert_eq!(window.truncated_by, Some(TruncatedBy::LineLimit));
    let window = read_whole_file(format!("{}\n", "x".repeat(1_000)).repeat(1_000));
    assert!(
        window.text.len() <= MAX_READ_TEXT_BYTES && window.text.len() > MAX_READ_TEXT_BYTES - 1_002
    );
    assert_eq!(
        (window.truncated_by, window.total_lines),
        (Some(TruncatedBy::ByteLimit), Some(1_000))
    );
    assert_eq!(window.next_offset(), Some(window.text.lines().count() as u32 + 1));
}

#[test]
fn files_without_text_are_named_not_shown() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01";
    let mut large = vec![b'x'; 8_000];
    large.push(0);
    for (bytes, expected) in [
        (&png[..], "binary file (PNG image, 20 bytes)"),
        (b"\xff\xfea\0b", "(UTF-16 text, 5 bytes)"),
        (b"%PDF-1.7\n", "(PDF archive, 9 bytes)"),
        (b"a\0b", "(unknown kind, 3 bytes)"),
        (&large, "(unknown kind, 8,001 bytes)"),
    ] {
        let error = read(bytes, None, None).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BinaryFile));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn odd_text_is_shown_with_a_note() {
    let window = read_whole_file(b"\xc3\xa4\xffb\n");
    assert_eq!(window.text, "ä\u{fffd}b\n");
    assert!(window.notes[0].contains("not UTF-8"));
    let window = read_whole_file("\u{feff}a\r\nb\n");
    assert_eq!(window.text, "a\nb\n");
    assert!(window.notes[0].contains("byte order mark"), "{:?}", window.notes);
    assert!(window.notes[1].starts_with("some lines end with CRLF"), "{:?}", window.notes);
    assert!(read_whole_file("a\r\nb\r\n").notes[0].starts_with("lines end with CRLF"));
}

#[test]
fn lines_of_files_too_large_to_edit_are_read() {
    let tree = test_workspace(&[]);
    let line = "x".repeat(1023) + "\n";
    let last = (MAX_WHOLE_FILE_BYTES / 1024) as i64 + 3;
    tree.write("large", line.repeat(last as usize));
    let read = |offset| read_excerpt(&tree.workspace, "large", Some(offset), Some(2));
    for (offset, first, count, total, next) in [
        // A request for the first lines of a large file does not count all of its lines.
        (1, 1, 2, None, Some(3)),
        (last - 2, last - 2, 2, None, Some(last)),
        (last - 1, last - 1, 2, Some(last), None),
        (last, last, 1, Some(last), None),
        (-1, last, 1, Some(last), None),
        (-3, last - 2, 2, Some(last), Some(last)),
    ] {
        let window = read(offset).unwrap();
        let as_number = |number: i64| number as u32;
        assert_eq!(window.first_line, as_number(first), "{offset}");
        assert_eq!(window.text.lines().count(), count, "{offset}");
        let expected = (total.map(as_number), next.map(as_number));
        assert_eq!((window.total_lines, window.next_offset()), expected, "{offset}");
    }
    assert_eq!(read(last + 1).unwrap_err().code(), Some(ErrorCode::InvalidArguments));
    let cancelled =
        super::read_text_or_image(&tree.workspace, &tree.resolve("large"), Some(-1), None, &|| {
            true
        });
    assert_eq!(cancelled.unwrap_err().code(), Some(ErrorCode::Cancelled));
}

#[test]
fn numbers_have_commas() {
    for (number, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")]
    {
        assert_eq!(group_thousands(number), expected);
    }
}

#[test]
fn other_encodings_are_decoded_and_named() {
    let tree = test_workspace(&[]);
    tree.write("utf16", b"\xff\xfea\0\n\0\xe4\0\n\0");
    let latin = b"Die Gr\xf6\xdfe der Stra\xdfe\r\nf\xe4llt \xfcber die H\xe4user.\r\n";
    tree.write("latin", latin);
    // The first bytes of this file, which are read to detect its kind, are ASCII.
    let start = "x".repeat(2 * SNIFF_BYTES);
    tree.write("late", [start.as_bytes(), latin].concat());
    // This file cannot be decoded, so it is shown with replacement characters.
    tree.write("mixed", [start.as_bytes(), "ä ö\n".as_bytes(), b"\xff\n"].concat());
    let mixed = read_excerpt(&tree.workspace, "mixed", Some(2), None).unwrap();
    assert_eq!(mixed.text, "\u{fffd}\n");
    assert!(mixed.notes[0].contains("not UTF-8"), "{:?}", mixed.notes);
    for (path, offset, text, note) in [
        ("utf16", None, "a\nä\n", "the file is UTF-16LE, which edits keep"),
        ("utf16", Some(-1), "ä\n", "the file is UTF-16LE, which edits keep"),
        (
            "latin",
            Some(2),
            "fällt über die Häuser.\n",
            "the file is windows-1252 (guessed), which edits keep",
        ),
        (
            "late",
            Some(2),
            "fällt über die Häuser.\n",
            "the file is windows-1252 (guessed), which edits keep",
        ),
    ] {
        let window = read_excerpt(&tree.workspace, path, offset, None).unwrap();
        assert_eq!(window.text, text, "{path}");
        assert_eq!(window.total_lines, Some(2));
        assert!(window.notes.iter().any(|other| other == note), "{:?}", window.notes);
    }
}

#[test]
fn the_last_lines_of_a_file_beyond_the_bound_are_refused_before_it_is_read() {
    let tree = test_workspace(&[]);
    let lines = "one\ntwo\n".to_owned() + &"all work and no play\n".repeat(500);
    for (bytes, code) in [
        (MAX_LINE_READ_FILE_BYTES - 1, ErrorCode::Cancelled),
        (MAX_LINE_READ_FILE_BYTES, ErrorCode::Cancelled),
        (MAX_LINE_READ_FILE_BYTES + 1, ErrorCode::TooLarge),
    ] {
        tree.write("long", &lines);
        // The rest of the file is sparse and therefore uses no disk space.
        File::options().write(true).open(tree.path("long")).unwrap().set_len(bytes).unwrap();
        let window = read_excerpt(&tree.workspace, "long", None, Some(2)).unwrap();
        assert_eq!((window.text.as_str(), window.file_bytes), ("one\ntwo\n", bytes));
        assert_eq!((window.next_offset(), window.total_lines), (Some(3), None));
        // This call is cancelled. The cancellation is detected at the first read, but the size is
        // checked earlier, so a file that is too large still fails with `TooLarge`.
        let last = super::read_text_or_image(
            &tree.workspace,
            &tree.resolve("long"),
            Some(-1),
            None,
            &|| true,
        );
        let error = last.unwrap_err();
        assert_eq!(error.code(), Some(code), "{bytes}");
        let message = "long has 4,294,967,297 bytes, and only the lines of the first 4,294,967,296";
        assert_eq!(error.to_string().contains(message), code == ErrorCode::TooLarge, "{error}");
    }
}

#[test]
fn images_are_shown_whole_and_texts_that_begin_like_one_are_texts() {
    let tree = test_workspace(&[("text.gif", "GIF is a format\n")]);
    let gif = b"GIF89a\x01\0\x01\0\0\0\0;";
    tree.write("image", gif);
    tree.write("jpeg", [0xff, 0xd8, 0xff, 0xe0, 0, 16, b'J', b'F', b'I', b'F']);
    tree.write("bmp", b"BM\0\0\0\0\0\0");
    tree.write(
        "large.png",
        [b"\x89PNG\r\n\x1a\n".as_slice(), &[0; MAX_IMAGE_BYTES as usize]].concat(),
    );
    let read = |path: &str| {
        let at = tree.resolve(path);
        super::read_text_or_image(&tree.workspace, &at, None, None, &|| false).map(|read| read.0)
    };
    let FileContent::Image(image) = read("image").unwrap() else { panic!() };
    assert_eq!((image.media_type, image.bytes.as_slice()), ("image/gif", gif.as_slice()));
    assert_eq!(image.describe(), "[image/gif, 14 bytes]\n");
    let encoded = image.to_base64();
    assert_eq!(encoded.data, "R0lGODlhAQABAAAAADs=");
    assert_eq!(encoded.media_type, "image/gif");
    assert!(
        matches!(read("jpeg"), Ok(FileContent::Image(image)) if image.media_type == "image/jpeg")
    );
    assert!(matches!(read("text.gif"), Ok(FileContent::Text(text)) if text.total_lines == Some(1)));
    assert_eq!(read("large.png").unwrap_err().code(), Some(ErrorCode::TooLarge));
    assert_eq!(read("bmp").unwrap_err().code(), Some(ErrorCode::BinaryFile));
    let lines = read_excerpt(&tree.workspace, "image", None, None).unwrap_err();
    assert_eq!(lines.code(), Some(ErrorCode::BinaryFile));
}

#[test]
fn a_missing_file_is_reported_with_files_of_the_same_name() {
    let tree = test_workspace(&[
        ("crates/a/src/lib.rs", ""),
        ("crates/b/src/Lib.rs", ""),
        ("target/lib.rs", ""),
        (".gitignore", "target\n"),
    ]);
    for (path, expected) in [
        ("src/lib.rs", "The same name is at: crates/a/src/lib.rs, crates/b/src/Lib.rs"),
        ("lib.rs", "The same name is at: crates/a/src/lib.rs, crates/b/src/Lib.rs"),
        ("crates/a/src/libs.rs", "Similar: crates/a/src/lib.rs"),
    ] {
        let error = read_excerpt(&tree.workspace, path, None, None).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NotFound));
        assert!(error.to_string().ends_with(expected), "{error}");
    }
}

#[test]
fn lines_are_the_same_wherever_the_buffer_ends() {
    let tree = test_workspace(&[("file", "")]);
    let read = |text: &str, offset| {
        let (workspace, at, bytes) = (&tree.workspace, &tree.resolve("file"), text.len() as u64);
        let request = ReadRequest::new(workspace, at, (offset, 2), bytes, &|| false);
        request
            .read_utf8_lines(Cursor::new(text), false)
            .unwrap_or_else(|_| panic!("line {offset}"))
    };
    let ends = |length: usize| "x".repeat(length) + "\n";
    for text in [
        ends(LINE_READ_BUFFER_BYTES - 2) + "a\nb\nc",
        ends(LINE_READ_BUFFER_BYTES - 1) + "a\nb\n",
        ends(LINE_READ_BUFFER_BYTES) + "\n\nb\n",
        ends(3 * LINE_READ_BUFFER_BYTES) + &ends(1) + &ends(2 * LINE_READ_BUFFER_BYTES - 1) + "b",
        "line\n".repeat(LINE_READ_BUFFER_BYTES / 2),
        "\n".repeat(2 * LINE_READ_BUFFER_BYTES),
        ends(0) + &"x".repeat(LINE_READ_BUFFER_BYTES),
    ] {
        let lines: Vec<_> = text.lines().collect();
        let count = lines.len();
        for at in [1, 2, 3.min(count), count / 2, count - 1, count] {
            let (first, last) = (at as i64, at as i64 - count as i64 - 1);
            for offset in [first, last] {
                let window = read(&text, offset);
                let shown: Vec<_> = window.text.lines().collect();
                let expected = &lines[at - 1..count.min(at + 1)];
                let is_same = |(shown, line): (&&str, &&str)| {
                    shown.starts_with(&line[..line.len().min(MAX_READ_LINE_CHARS)])
                };
                assert_eq!((window.first_line, shown.len()), (at as u32, expected.len()));
                assert!(shown.iter().zip(expected).all(is_same), "line {offset} of {count}");
                assert_eq!(window.total_lines, Some(count as u32));
            }
        }
    }
}

/// A reader of a text that counts the bytes that are read.
struct CountingReader {
    text: Cursor<String>,
    bytes: usize,
}

impl io::Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.text.read(buffer)?;
        self.bytes += read;
        Ok(read)
    }
}

impl io::Seek for CountingReader {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.text.seek(to)
    }
}

#[test]
fn the_last_lines_are_found_in_one_pass() {
    let tree = test_workspace(&[("file", "")]);
    let text = "some line\n".repeat(100_000);
    let (workspace, at, bytes) = (&tree.workspace, &tree.resolve("file"), text.len());
    let request = ReadRequest::new(workspace, at, (-3, 2), bytes as u64, &|| false);
    let mut file = CountingReader { text: Cursor::new(text), bytes: 0 };
    let window =
        request.read_utf8_lines(&mut file, true).unwrap_or_else(|_| panic!("it can be read"));
    assert_eq!((window.first_line, window.last_line), (99_998, 99_999));
    assert!(file.bytes <= bytes + 2 * LINE_READ_BUFFER_BYTES, "{} bytes of {bytes}", file.bytes);
}
