//! Makes the change of a file out of its two texts.
//!
//! It knows nothing of how a change is sent.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use acp_types::limits::WHOLE_CHANGE_BYTES;
use acp_types::{FileChange, Hunk, HunkLine, LineTag, Operation};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use crate::limits::DIFF_TIME;

/// Lines that stay, shown on each side of a change, as most tools do.
const CONTEXT: usize = 3;

/// Makes the change of a file from its text before and after: the hunks, and both texts where
/// they are small.
///
/// A file that was not there has the empty text. Lines end with their line feed only, so a
/// carriage return is a part of its line. Two large texts with little in common get larger hunks
/// than need be, rather than taking longer than [`DIFF_TIME`].
#[must_use]
pub fn change(path: impl Into<PathBuf>, operation: Operation, old: &str, new: &str) -> FileChange {
    let keep = old.len() + new.len() <= WHOLE_CHANGE_BYTES;
    let old_text = (keep && operation != Operation::Add).then(|| old.to_owned());
    let new_text = (keep && operation != Operation::Delete).then(|| new.to_owned());
    FileChange { old_text, new_text, hunks: hunks(old, new), ..FileChange::new(operation, path) }
}

fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let old: Vec<_> = old.split_inclusive('\n').collect();
    let new: Vec<_> = new.split_inclusive('\n').collect();
    let deadline = Instant::now() + DIFF_TIME;
    let steps = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    group_diff_ops(steps, CONTEXT).iter().filter_map(|steps| hunk(steps, &old, &new)).collect()
}

fn hunk(steps: &[DiffOp], old: &[&str], new: &[&str]) -> Option<Hunk> {
    let first = steps.first()?;
    let mut lines = Vec::new();
    let mut push = |tag, texts: &[&str]| {
        lines.extend(texts.iter().map(|&text| HunkLine { tag, text: text.to_owned() }));
    };
    for step in steps {
        if let DiffOp::Equal { .. } = step {
            push(LineTag::Context, &old[step.old_range()]);
        } else {
            push(LineTag::Removed, &old[step.old_range()]);
            push(LineTag::Added, &new[step.new_range()]);
        }
    }
    let start = |side: &[&str], range: Range<usize>| match side {
        [] => 0,
        _ => u32::try_from(range.start + 1).unwrap_or(u32::MAX),
    };
    let (old_start, new_start) = (start(old, first.old_range()), start(new, first.new_range()));
    Some(Hunk { old_start, new_start, lines })
}

#[cfg(test)]
mod tests {
    use super::change;
    use acp_types::limits::WHOLE_CHANGE_BYTES;
    use acp_types::{FileChange, LineTag, Operation};
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    /// Applies the hunks as a patch program does: by their line numbers.
    fn patched(old: &str, change: &FileChange) -> String {
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

    fn text() -> impl Strategy<Value = String> {
        let line = prop_oneof!["a\n", "b\n", "\n", "a\r\n", "ä\r\n", "[a-c]{0,3}\n"];
        (prop::collection::vec(line, 0..40), "[ab\r]{0,2}")
            .prop_map(|(lines, end)| lines.concat() + &end)
    }

    proptest! {
        #[test]
        fn the_old_text_and_the_hunks_make_the_new_text(old in text(), new in text()) {
            let change = change("/f", Operation::Modify, &old, &new);
            prop_assert_eq!(patched(&old, &change), new);
        }
    }

    #[test]
    fn hunks_have_three_lines_of_context_and_count_from_one() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let change = change("/f", Operation::Modify, &old, &old.replace("10\n", "ten\n"));
        let [hunk] = &change.hunks[..] else { panic!("{change:?}") };
        assert_eq!((hunk.old_start, hunk.new_start), (7, 7));
        assert_eq!(hunk.old_text(), "7\n8\n9\n10\n11\n12\n13\n");
        assert_eq!(hunk.new_text(), "7\n8\n9\nten\n11\n12\n13\n");
        assert_eq!(change.changed_lines().collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn texts_are_kept_where_they_are_small_and_there_were_any() {
        let kept = |change: FileChange| (change.old_text, change.new_text);
        let [old, new] = ["old\n", "new\n"].map(|text| Some(text.to_owned()));
        assert_eq!(
            kept(change("/f", Operation::Modify, "old\n", "new\n")),
            (old.clone(), new.clone())
        );
        assert_eq!(kept(change("/f", Operation::Add, "", "new\n")), (None, new));
        assert_eq!(kept(change("/f", Operation::Delete, "old\n", "")), (old, None));
        let large = "x\n".repeat(WHOLE_CHANGE_BYTES / 2);
        let change = change("/f", Operation::Modify, &large, &(large.clone() + "y\n"));
        assert_eq!(change.counts(), (1, 0));
        assert_eq!(kept(change), (None, None));
    }
}
