//! Computes the hunks of a file change from two texts or from edits, and shortens a change so that
//! it fits into a message.

mod edit_hunks;
mod hunk_builder;
#[cfg(feature = "diff")]
mod minimal;
mod patience;

use std::ops::Range;
use std::path::PathBuf;

use crate::limits::MAX_WHOLE_FILE_DIFF_BYTES;
use crate::{FileChange, FileChangeOperation};

use self::hunk_builder::HunkListBuilder;
#[cfg(feature = "diff")]
pub use self::minimal::diff_texts;

/// Number of unchanged lines before and after each changed region, as in most diff tools.
const CONTEXT_LINES: usize = 3;

/// The replacement of a part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit {
    /// Byte range of the replaced part in the original text.
    pub old: Range<usize>,
    /// The replacement text.
    pub new: String,
}

/// Creates the change of a file from its edits. The function does not search for differences, so
/// the texts may have any size. `new` must be the result of applying all `splices` to `old`.
#[must_use]
pub fn change_from_edits(
    path: impl Into<PathBuf>,
    old: &str,
    new: &str,
    splices: &[TextEdit],
) -> FileChange {
    let mut listed = HunkListBuilder::with_memory_limit();
    edit_hunks::build_hunks(old, splices, &mut listed);
    change_from_built_hunks(path, FileChangeOperation::Modify, old, new, listed)
}

/// Shortens a change to at most `max` bytes of JSON. The shortened change contains the first hunks
/// and the number of omitted lines. Returns `None` if the whole change fits.
///
/// Very long context lines are left out first, so that they never hide the changed lines.
///
/// A sentence that does not fit is replaced by the English default.
///
/// Whole texts that do not fit are replaced by hunks. If the change has no hunks, the function
/// computes hunks between the lines that occur exactly once in each text. Such hunks may be larger
/// than necessary. For the smallest difference, first create the change with `diff_texts` (feature
/// `diff`).
#[must_use]
pub fn shorten_change(change: &FileChange, max: usize) -> Option<FileChange> {
    let room = max.saturating_sub(change.non_hunk_max_json_len());
    if change.max_json_len() <= room {
        return None;
    }
    let sentence = change.sentence.clone().filter(|_| change.sentence_json_len() <= room);
    let room = room - sentence.as_ref().map_or(0, |_| change.sentence_json_len());
    let mut listed = HunkListBuilder::with_message_limit(change, room);
    if change.hunks.is_empty() && change.unlisted == (0, 0) {
        let old = change.old_text.as_deref().unwrap_or_default();
        let new = change.new_text.as_deref().unwrap_or_default();
        edit_hunks::build_hunks(old, &patience::edits_between_unique_lines(old, new), &mut listed);
    }
    for hunk in &change.hunks {
        listed.start_hunk(hunk.old_start, hunk.new_start);
        hunk.lines.iter().for_each(|line| listed.push_or_count_lines(line.tag, &line.text));
    }
    let (hunks, (added, removed)) = listed.into_hunks_and_omitted_counts();
    Some(FileChange {
        hunks,
        unlisted: (
            change.unlisted.0.saturating_add(added),
            change.unlisted.1.saturating_add(removed),
        ),
        sentence,
        ..FileChange::new(change.operation.clone(), &change.path)
    })
}

fn change_from_built_hunks(
    path: impl Into<PathBuf>,
    operation: FileChangeOperation,
    old: &str,
    new: &str,
    listed: HunkListBuilder,
) -> FileChange {
    let keep = old.len() + new.len() <= MAX_WHOLE_FILE_DIFF_BYTES;
    let old_text = (keep && operation != FileChangeOperation::Add).then(|| old.to_owned());
    let new_text = (keep && operation != FileChangeOperation::Delete).then(|| new.to_owned());
    let (hunks, unlisted) = listed.into_hunks_and_omitted_counts();
    FileChange { old_text, new_text, hunks, unlisted, ..FileChange::new(operation, path) }
}

#[cfg(test)]
mod tests {
    use super::{TextEdit, change_from_edits, patience, shorten_change};
    use crate::{FileChange, FileChangeOperation, HunkLine, LineTag};
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    /// Applies the hunks by their line numbers, as `patch` does.
    pub(super) fn apply_hunks(old: &str, change: &FileChange) -> String {
        let old: Vec<_> = old.split_inclusive('\n').collect();
        let mut new = Vec::new();
        let mut at = 0;
        for hunk in &change.hunks {
            let start = (hunk.old_start as usize).saturating_sub(1);
            new.extend_from_slice(&old[at..start]);
            assert_eq!(new.len(), (hunk.new_start as usize).saturating_sub(1));
            at = start;
            for line in &hunk.lines {
                if line.tag != LineTag::Added {
                    assert_eq!(old[at], line.text);
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

    pub(super) fn text() -> impl Strategy<Value = String> {
        let line = prop_oneof!["a\n", "b\n", "\n", "a\r\n", "ä\r\n", "[a-c]{0,3}\n", "[a-z]{4}\n"];
        (prop::collection::vec(line, 0..40), "[ab\r]{0,2}")
            .prop_map(|(lines, end)| lines.concat() + &end)
    }

    proptest! {
        #[test]
        fn the_hunks_of_splices_make_the_new_text(
            old in text(),
            steps in prop::collection::vec((0_usize..30, 0_usize..8, "[d-f\n]{0,4}"), 0..8),
        ) {
            let (mut at, mut splices) = (0, Vec::new());
            let whole = |mut place: usize| {
                place = place.min(old.len());
                while !old.is_char_boundary(place) {
                    place += 1;
                }
                place
            };
            for (kept, replaced, new) in steps {
                let start = whole(at + kept);
                let end = whole(start + replaced);
                splices.push(TextEdit { old: start..end, new });
                at = end + 1;
                if at > old.len() {
                    break;
                }
            }
            let mut new = old.clone();
            for splice in splices.iter().rev() {
                new.replace_range(splice.old.clone(), &splice.new);
            }
            let change = change_from_edits("/f", &old, &new, &splices);
            prop_assert_eq!(apply_hunks(&old, &change), new);
            let is_context = |line: &&HunkLine| line.tag == LineTag::Context;
            for hunk in &change.hunks {
                prop_assert!(hunk.lines.iter().take_while(is_context).count() <= 3);
                prop_assert!(hunk.lines.iter().rev().take_while(is_context).count() <= 3);
            }
        }

        #[test]
        fn splices_between_lines_that_occur_once_make_the_new_text(old in text(), new in text()) {
            let change = change_from_edits("/f", &old, &new, &patience::edits_between_unique_lines(&old, &new));
            prop_assert_eq!(apply_hunks(&old, &change), new);
        }

        #[test]
        fn a_shortened_change_is_within_its_bound_and_counts_omitted_lines(
            old in text(), new in text(), max in 0_usize..8_000,
            sentence in prop::option::of("[a-z\"]{0,3000}"),
        ) {
            let (old_text, new_text) = (Some(old.clone()), Some(new.clone()));
            let whole =
                FileChange { old_text, new_text, ..FileChange::new(FileChangeOperation::Modify, "/f") };
            let listed = change_from_edits("/f", &old, &new, &patience::edits_between_unique_lines(&old, &new));
            let no_texts = FileChange { old_text: None, new_text: None, ..listed.clone() };
            let counts = no_texts.line_counts();
            for change in [whole, listed, no_texts] {
                let change = FileChange { sentence: sentence.clone(), ..change };
                let Some(short) = shorten_change(&change, max) else { continue };
                prop_assert!(short.max_json_len() <= max);
                prop_assert!(shorten_change(&short, max).is_none_or(|again| again == short));
                prop_assert_eq!(short.line_counts(), counts);
                if short.unlisted == (0, 0) {
                    prop_assert_eq!(apply_hunks(&old, &short), new.clone());
                }
            }
        }
    }

    #[test]
    fn distant_changes_are_separate_hunks_if_lines_are_unique() {
        let old: String = (1..=2000).map(|line| format!("line {line}\n")).collect();
        let new = old.replace("line 10\n", "ten\n").replace("line 1900\n", "more\nlines\n");
        let (old_text, new_text) = (Some(old.clone()), Some(new.clone()));
        let change =
            FileChange { old_text, new_text, ..FileChange::new(FileChangeOperation::Modify, "/f") };
        let short = shorten_change(&change, 8_000).unwrap();
        assert_eq!(short.hunk_first_changed_line_numbers().collect::<Vec<_>>(), [10, 1900]);
        assert_eq!((short.line_counts(), short.unlisted), ((3, 2), (0, 0)));
        assert_eq!(apply_hunks(&old, &short), new);
    }
}
