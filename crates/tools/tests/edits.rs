//! Tests edits with random files. The tests check that bytes outside of the replaced text stay the
//! same, and that applying the diff to the old bytes results in the new bytes.
//!
//! `PROPTEST_CASES` changes the number of edits of each kind. `cargo xtask accept edits` sets a
//! much higher number than the default.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by them")]

mod case;
mod random;
mod repair;

use acp_tools::Workspace;
use acp_tools::edit::{Edit, EditOutcome, apply};
use acp_tools::files::Durability;
use acp_tools::files::encoding::DecodedText;
use acp_tools::files::write::{FileWrite, PreImage, read_whole, write_all_or_none};
use acp_types::{FileChange, LineTag, diff};
use proptest::prelude::*;

use case::RandomEditCase;
use random::Random;

/// A file with edits that were applied in memory.
struct AppliedEdits {
    old: Vec<u8>,
    new: Vec<u8>,
}

/// Applies the edits of a case. Checks the diff, and the bytes outside of the edits. Returns `None`
/// if the edits were rejected.
fn apply_edits(case: &RandomEditCase, edits: &[Edit]) -> Option<AppliedEdits> {
    let old = DecodedText::decode("f", case.bytes.clone()).ok()?;
    let edited = apply(old.as_str(), edits).ok()?;
    let change = diff::change_from_edits("/f", old.as_str(), &edited.text, &edited.splices);
    let text = edited.text.clone();

    let mut end = 0;
    for splice in &edited.splices {
        assert!(end <= splice.old.start && splice.old.start <= splice.old.end, "{case:?}");
        end = splice.old.end;
    }
    let kept = case::bytes_outside(&old, &edited.splices);
    let new = edited.into_bytes(&old).expect("only characters that every encoding has come in");
    case::require_in_order(&new, &kept, case);
    // If the file is read again, its text must be the text for which the diff was computed.
    let form = case::FileEncoding::detect(&old);
    assert_eq!(form.encode(&text), new, "{case:?}");
    assert_eq!(apply_change(old.as_str(), &change), text, "{case:?}");
    Some(AppliedEdits { old: old.original_bytes().to_vec(), new })
}

/// Applies the hunks of a diff by their line numbers, as a patch program does.
fn apply_change(old: &str, change: &FileChange) -> String {
    let old: Vec<_> = old.split_inclusive('\n').collect();
    let (mut new, mut at) = (Vec::new(), 0);
    for hunk in &change.hunks {
        let start = (hunk.old_start as usize).saturating_sub(1);
        new.extend_from_slice(&old[at..start]);
        assert_eq!(new.len(), (hunk.new_start as usize).saturating_sub(1), "{change:?}");
        at = start;
        for line in &hunk.lines {
            if line.tag != LineTag::Added {
                assert_eq!(old[at], line.text, "{change:?}");
                at += 1;
            }
            if line.tag != LineTag::Removed {
                new.push(&line.text);
            }
        }
    }
    new.extend_from_slice(&old[at..]);
    new.concat()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn exact_edits_replace_their_places_and_nothing_else(seed: u64) {
        let case = RandomEditCase::new(&mut Random::new(seed));
        let Some((edits, spans)) = case.exact_edits() else { return Ok(()) };
        let made = apply_edits(&case, &edits).unwrap_or_else(|| panic!("refused: {case:?} {edits:?}"));
        case.require_spans(&made.new, &edits, &spans);
    }

    #[test]
    fn weaker_matches_leave_the_rest_alone_too(seed: u64) {
        let case = RandomEditCase::new(&mut Random::new(seed));
        if let Some(edits) = case.loose_edits()
            && let Some(made) = apply_edits(&case, &edits)
        {
            case.require_lines(&made.new, &edits[0]);
        }
    }
}

/// Checks that most of the inexact edits find their place. Otherwise, the previous test would check
/// too few edits.
#[test]
fn most_of_the_weaker_matches_are_found() {
    let cases = (0..500).map(|seed| RandomEditCase::new(&mut Random::new(seed)));
    let edits = cases.filter_map(|case| Some((case.loose_edits()?, case)));
    let made: Vec<_> = edits.map(|(edits, case)| apply_edits(&case, &edits).is_some()).collect();
    let found = made.iter().filter(|is_made| **is_made).count();
    assert!(made.len() > 300 && found * 3 > made.len(), "{found} of {}", made.len());
}

/// `EDITED_FILES` sets the number of files that are edited on disk. `PROPTEST_RNG_SEED` sets the
/// first seed.
#[test]
fn files_contain_the_results_of_their_edits() {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let cases = number("EDITED_FILES").unwrap_or(200);
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
    let workspace = workspace.with_durability(Durability::System);
    let (mut written, mut seed) = (0, number("PROPTEST_RNG_SEED").unwrap_or(0));
    while written < cases {
        seed = seed.wrapping_add(1);
        let case = RandomEditCase::new(&mut Random::new(seed));
        let Some((edits, _)) = case.exact_edits() else { continue };
        let path = folder.path().join("file");
        std::fs::write(&path, &case.bytes).unwrap();
        let at = workspace.resolve("file").unwrap();
        let PreImage::Bytes(found) = read_whole(&workspace, &at, 1 << 20).unwrap() else {
            panic!()
        };
        let made = apply_edits(&case, &edits).unwrap();
        assert_eq!(found, made.old);
        let change = FileWrite::new(&at, Some(&found), &made.new);
        write_all_or_none(&workspace, &[change]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), made.new, "{case:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        written += 1;
    }
}

/// If an edit is applied a second time, it is reported as already applied.
#[test]
fn an_edit_is_not_made_twice() {
    let text = "fn answer() -> u8 {\n    41\n}\n";
    let edit = Edit::new("fn answer() -> u8 {\n    41\n}", "fn answer() -> u8 {\n    4_242\n}");
    let once = apply(text, std::slice::from_ref(&edit)).unwrap();
    let twice = apply(&once.text, &[edit]).unwrap();
    assert_eq!(
        (twice.text, twice.outcomes),
        (once.text, vec![EditOutcome::AlreadyApplied { line: 1 }])
    );
}
