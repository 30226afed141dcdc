//! Tests of recorded outputs, their files and their text for the model.

use std::fs::File;
use std::io;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{OpenFileFn, Recording, ReportedOutputPosition};
use crate::limits::{MAX_MODEL_OUTPUT_BYTES, MAX_TRUNCATION_NOTE_BYTES};

/// Records chunks in a file of at most `room` bytes. Returns the output and the content of the
/// file.
fn recorded(chunks: &[&[u8]], room: u64) -> (super::RecordedOutput, Option<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole");
    let at = path.clone();
    let recording = Recording::new(room, move || Ok(Some((File::create_new(&at)?, at))));
    chunks.iter().for_each(|chunk| recording.push(chunk));
    (recording.finish(), std::fs::read(path).ok())
}

#[test]
fn a_short_output_is_complete_and_has_no_file() {
    let (recorded, file) = recorded(&[b"one\r\n", b"two\r\n"], u64::MAX);
    assert_eq!((recorded.bytes, recorded.lines, &recorded.file), (10, 2, &None));
    assert_eq!((recorded.for_model().as_str(), file), ("one\ntwo\n", None));
}

#[test]
fn a_long_output_is_written_to_a_file_unchanged() {
    let all: String = (1..=20_000).map(|line| format!("{line}\r\n")).collect();
    for size in [1, 100, 16 * 1024, all.len()] {
        let chunks: Vec<_> = all.as_bytes().chunks(size).collect();
        let (recorded, file) = recorded(&chunks, u64::MAX);
        assert!(file.unwrap() == all.as_bytes(), "by {size}");
        assert_eq!((recorded.bytes, recorded.lines), (all.len() as u64, 20_000));
        assert_eq!(recorded.file.as_ref().unwrap().bytes, recorded.bytes);
        let told = recorded.for_model();
        let path = recorded.file.as_ref().unwrap().path.display().to_string();
        let begin = format!(
            "[the whole output, 128,894 bytes in 20,000 lines, can be read with read_file, by lines: {path}]\n1\n2\n"
        );
        assert!(told.starts_with(&begin), "{}", &told[..300]);
        assert!(told.ends_with("19999\n20000\n"));
        // Omitted bytes are counted exactly; a line has one byte less as text than in the raw
        // output.
        let (head, rest) = told.split_once("\n[... ").unwrap();
        let (gap, tail) = rest.split_once(" lines left out ...]\n").unwrap();
        let (bytes, lines) = gap.split_once(" bytes, ").unwrap();
        let head = &head[head.find('\n').unwrap() + 1..];
        let [bytes, lines] = [bytes, lines].map(|number| number.parse::<usize>().unwrap());
        assert_eq!(head.len() + tail.len() + bytes, all.len() - 20_000);
        let shown = head.matches('\n').count() + tail.matches('\n').count();
        assert_eq!(shown + lines, 20_000);
        assert!(told.len() < MAX_MODEL_OUTPUT_BYTES + 300);
    }
}

#[test]
fn a_full_file_contains_the_beginning_and_a_note() {
    let all = "0123456789\n".repeat(10_000);
    let chunks: Vec<_> = all.as_bytes().chunks(1_000).collect();
    for room in [40_005_u64, 40_000, 10] {
        let (recorded, file) = recorded(&chunks, room);
        let kept = &all[..usize::try_from(room).unwrap()];
        let expected = format!("{kept}\n[... {} bytes have no room here]\n", 110_000 - room);
        assert!(file.unwrap() == expected.as_bytes(), "{room}");
        assert_eq!((recorded.bytes, recorded.file.as_ref().unwrap().bytes), (110_000, room));
        let told = recorded.for_model();
        assert!(told.contains("bytes of the output of 110,000 bytes can be read with read_file"));
    }
}

/// The longest possible note does not exceed its limit.
#[test]
fn the_longest_truncation_note_is_within_its_limit() {
    let longest = super::truncated_file_last_line(u64::MAX);
    assert!(longest.len() as u64 <= MAX_TRUNCATION_NOTE_BYTES, "{longest:?}");
}

#[test]
fn an_output_without_a_file_is_otherwise_the_same() {
    let all = "x\n".repeat(MAX_MODEL_OUTPUT_BYTES);
    let nowhere: [OpenFileFn; 2] =
        [Box::new(|| Ok(None)), Box::new(|| Err(io::ErrorKind::StorageFull.into()))];
    for (open, trouble) in nowhere.into_iter().zip([None, Some("no storage space")]) {
        let recording = Recording::new(u64::MAX, open);
        recording.push(all.as_bytes());
        recording.push(all.as_bytes());
        let recorded = recording.finish();
        assert_eq!((recorded.bytes, &recorded.file), (all.len() as u64 * 2, &None));
        assert_eq!(recorded.file_error.as_deref(), trouble);
        assert_eq!(recorded.for_model().contains("could not be kept"), trouble.is_some());
    }
}

#[test]
fn binary_output_is_summarized() {
    let (recorded, _) = recorded(&[b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", &[0xfe; 1_234]], u64::MAX);
    let told = recorded.for_model();
    assert_eq!(told, "[binary output: 1,250 bytes, looks like: PNG image]\n");
}

#[test]
fn hiding_characters_are_reported() {
    let (recorded, _) = recorded(&["ab\u{202e}c\u{e0041}".as_bytes()], u64::MAX);
    let expected = "[2 characters that hide or reorder others are left out]\nabc";
    assert_eq!(recorded.for_model(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_file_is_the_output(sizes in proptest::collection::vec(0_usize..20_000, 0..12)) {
        let chunks: Vec<_> = sizes.iter().map(|size| vec![*size as u8; *size]).collect();
        let (recorded, file) = recorded(&chunks.iter().map(Vec::as_slice).collect::<Vec<_>>(), u64::MAX);
        let all = chunks.concat();
        prop_assert_eq!(recorded.bytes, all.len() as u64);
        prop_assert_eq!(recorded.file.is_some(), all.len() > MAX_MODEL_OUTPUT_BYTES);
        prop_assert!(file.is_none_or(|file| file == all));
    }
}

#[test]
fn new_output_is_reported_once_and_an_unfinished_line_is_repeated() {
    let recording = Recording::new(1_000, || Ok(None));
    let mut mark = ReportedOutputPosition::default();
    let mut look = |bytes: &[u8]| {
        recording.push(bytes);
        let fresh = recording.take_new(&mut mark);
        (fresh.bytes, fresh.excerpt.text)
    };
    for (written, new, text) in [
        ("one\ntwo\n", 8, "one\ntwo\n"),
        ("", 0, ""),
        ("10%\r", 4, "10%"),
        ("20%\r", 4, "20%"),
        ("done\nname? ", 11, "done\nname? "),
        ("Ann\nbye\n", 8, "name? Ann\nbye\n"),
    ] {
        assert_eq!(look(written.as_bytes()), (new, text.to_owned()), "{written:?}");
    }
    // An incomplete character and an incomplete colour sequence.
    assert_eq!(look(b"\xc3"), (1, "\u{fffd}".to_owned()));
    assert_eq!(look(b"\xa9 \x1b[3").1, "\u{e9} ");
    assert_eq!(look(b"1mred\n").1, "\u{e9} red\n");
    assert_eq!(recording.snapshot().lines, 6);
    assert_eq!(recording.finish().lines, 6);
}

#[test]
fn omitted_bytes_of_a_flood_are_counted_from_the_mark_on() {
    let recording = Recording::new(1_000, || Ok(None));
    let mut mark = ReportedOutputPosition::default();
    recording.push(b"told\n");
    recording.take_new(&mut mark);
    let flood: String = (0..400_000).map(|line| format!("{line}\n")).collect();
    recording.push(flood.as_bytes());
    let fresh = recording.take_new(&mut mark);
    assert_eq!(fresh.bytes, flood.len() as u64);
    let text = &fresh.excerpt.text;
    assert!(text.starts_with("0\n1\n") && text.ends_with("\n399999\n"));
    let shown = text.lines().filter(|line| line.parse::<u32>().is_ok()).count() as u64;
    assert!(fresh.excerpt.left_out_lines.abs_diff(400_000 - shown) <= 2, "{shown}");
    // A long line without a line end is not repeated.
    recording.push("x".repeat(10_000).as_bytes());
    assert_eq!(recording.take_new(&mut mark).bytes, 10_000);
    recording.push(b"y");
    assert_eq!(recording.take_new(&mut mark).excerpt.text, "y");
    // Bytes that are no longer in memory are omitted, even at the beginning.
    recording.push(flood.as_bytes());
    assert!(recording.take_new(&mut mark).excerpt.text.contains("left out"));
}
