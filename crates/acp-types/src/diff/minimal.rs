//! Computes the smallest difference between two texts (feature `diff`).

use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use crate::limits::MAX_MINIMAL_DIFF_LINES;
use crate::{FileChange, FileChangeOperation, LineTag};

use super::hunk_builder::{HunkListBuilder, line_count};
use super::{CONTEXT_LINES, TextEdit, change_from_built_hunks, edit_hunks};

/// Creates the change of a file from its old text and its new text. The change contains the hunks,
/// and also the whole texts if they are small.
///
/// For a file that does not exist, pass an empty text. Only a line feed ends a line, so a carriage
/// return is a part of its line. At `deadline`, the search for the smallest difference stops, and
/// the hunks may be larger than necessary. If the two texts have more than 500,000 lines in total,
/// there is no search, and one hunk contains all lines from the first difference to the last. Lines
/// after the first 1 MiB of hunks are only counted.
#[must_use]
pub fn diff_texts(
    path: impl Into<PathBuf>,
    operation: FileChangeOperation,
    old: &str,
    new: &str,
    deadline: Instant,
) -> FileChange {
    let mut listed = HunkListBuilder::with_memory_limit();
    if line_count(old) + line_count(new) <= MAX_MINIMAL_DIFF_LINES {
        push_minimal_diff_hunks(old, new, deadline, &mut listed);
    } else {
        let all = TextEdit { old: 0..old.len(), new: new.to_owned() };
        edit_hunks::build_hunks(old, &[all], &mut listed);
    }
    change_from_built_hunks(path, operation, old, new, listed)
}

fn push_minimal_diff_hunks(old: &str, new: &str, deadline: Instant, listed: &mut HunkListBuilder) {
    let old: Vec<_> = old.split_inclusive('\n').collect();
    let new: Vec<_> = new.split_inclusive('\n').collect();
    let steps = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    for steps in group_diff_ops(steps, CONTEXT_LINES) {
        build_hunk(&steps, &old, &new, listed);
    }
}

fn build_hunk(steps: &[DiffOp], old: &[&str], new: &[&str], listed: &mut HunkListBuilder) {
    let Some(first) = steps.first() else { return };
    let start = |side: &[&str], range: Range<usize>| match side {
        [] => 0,
        _ => u32::try_from(range.start + 1).unwrap_or(u32::MAX),
    };
    listed.start_hunk(start(old, first.old_range()), start(new, first.new_range()));
    let mut push =
        |tag, lines: &[&str]| lines.iter().for_each(|line| listed.push_or_count_lines(tag, line));
    for step in steps {
        if let DiffOp::Equal { .. } = step {
            push(LineTag::Context, &old[step.old_range()]);
        } else {
            push(LineTag::Removed, &old[step.old_range()]);
            push(LineTag::Added, &new[step.new_range()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::tests::{apply_hunks, text};
    use super::super::{TextEdit, change_from_edits};
    use crate::limits::{MAX_HUNKS_BYTES, MAX_WHOLE_FILE_DIFF_BYTES};
    use crate::{FileChange, FileChangeOperation, HunkLine};
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[expect(clippy::disallowed_methods, reason = "the caller reads the clock")]
    fn diff_now(path: &str, operation: FileChangeOperation, old: &str, new: &str) -> FileChange {
        super::diff_texts(path, operation, old, new, Instant::now() + Duration::from_millis(500))
    }

    proptest! {
        #[test]
        fn the_old_text_and_the_hunks_make_the_new_text(old in text(), new in text()) {
            let change = diff_now("/f", FileChangeOperation::Modify, &old, &new);
            prop_assert_eq!(apply_hunks(&old, &change), new);
        }
    }

    #[test]
    fn hunks_have_three_lines_of_context_and_count_from_one() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let change =
            diff_now("/f", FileChangeOperation::Modify, &old, &old.replace("10\n", "ten\n"));
        let [hunk] = &change.hunks[..] else { panic!("{change:?}") };
        assert_eq!((hunk.old_start, hunk.new_start), (7, 7));
        assert_eq!(hunk.old_text(), "7\n8\n9\n10\n11\n12\n13\n");
        assert_eq!(hunk.new_text(), "7\n8\n9\nten\n11\n12\n13\n");
        assert_eq!(change.hunk_first_changed_line_numbers().collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn small_existing_texts_are_part_of_the_change() {
        let texts = |change: FileChange| (change.old_text, change.new_text);
        let [old, new] = ["old\n", "new\n"].map(|text| Some(text.to_owned()));
        assert_eq!(
            texts(diff_now("/f", FileChangeOperation::Modify, "old\n", "new\n")),
            (old.clone(), new.clone())
        );
        assert_eq!(texts(diff_now("/f", FileChangeOperation::Add, "", "new\n")), (None, new));
        assert_eq!(texts(diff_now("/f", FileChangeOperation::Delete, "old\n", "")), (old, None));
        let large = "x\n".repeat(MAX_WHOLE_FILE_DIFF_BYTES / 2);
        let change = diff_now("/f", FileChangeOperation::Modify, &large, &(large.clone() + "y\n"));
        assert_eq!(change.line_counts(), (1, 0));
        assert_eq!(texts(change), (None, None));
    }

    #[test]
    fn lines_over_the_size_limit_are_counted_but_not_listed() {
        let many = |line: &str, count: usize| line.repeat(count);
        let long = "x".repeat(MAX_HUNKS_BYTES);
        for (old, new, counts) in [
            (many("a\n", 700_000), many("b\n", 900_000), (900_000, 700_000)),
            (many("a\n", 90_000), many("b\n", 90_000), (90_000, 90_000)),
            (String::new(), many("\n", 2_000_000), (2_000_000, 0)),
            (many("\n", 2_000_000) + "a", many("\n", 2_000_000) + "b", (1, 1)),
            (format!("a\n{long}\nb\n"), "a\nb\n".to_owned(), (0, 1)),
        ] {
            let whole = [TextEdit { old: 0..old.len(), new: new.clone() }];
            let found = diff_now("/f", FileChangeOperation::Modify, &old, &new);
            assert_eq!(found.line_counts(), counts);
            for change in [found, change_from_edits("/f", &old, &new, &whole)] {
                let lines = change.hunks.iter().flat_map(|hunk| &hunk.lines);
                let bytes: usize = lines.map(|line| line.text.len() + size_of::<HunkLine>()).sum();
                assert!(bytes <= MAX_HUNKS_BYTES, "{bytes}");
            }
        }
    }
}
