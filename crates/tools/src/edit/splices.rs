//! Applies splices to a text, and combines two successive lists of splices.

use acp_types::diff::TextEdit;

/// Applies splices to a text. The splices must be in order and must not overlap.
#[must_use]
pub fn apply_splices(text: &str, splices: &[TextEdit]) -> String {
    let added: usize = splices.iter().map(|splice| splice.new.len()).sum();
    let mut new = String::with_capacity(text.len() + added);
    let mut end = 0;
    for splice in splices {
        new.push_str(&text[end..splice.old.start]);
        new.push_str(&splice.new);
        end = splice.old.end;
    }
    new + &text[end..]
}

/// Combines two lists of splices into one. Applying `first` results in the text `between`, and
/// `second` applies to that text. Adjacent splices are merged.
pub(super) fn compose(first: Vec<TextEdit>, between: &str, second: Vec<TextEdit>) -> Vec<TextEdit> {
    if first.is_empty() {
        return second;
    }
    let mut joined = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    // The offset of a character in `between` minus its offset in the old text. The value is valid
    // after the splices of `first` that were processed so far.
    let mut ahead = 0;
    loop {
        let starts = [
            first.peek().map(|splice| splice.old.start.wrapping_add(ahead)),
            second.peek().map(|splice| splice.old.start),
        ];
        let Some(start) = starts.into_iter().flatten().min() else { return joined };
        let old_start = start.wrapping_sub(ahead);
        let (mut end, mut copied, mut new) = (start, start, String::new());
        loop {
            if let Some(splice) =
                first.next_if(|splice| splice.old.start.wrapping_add(ahead) <= end)
            {
                end = end.max(splice.old.start.wrapping_add(ahead) + splice.new.len());
                ahead = ahead.wrapping_add(splice.new.len()).wrapping_sub(splice.old.len());
            } else if let Some(splice) = second.next_if(|splice| splice.old.start <= end) {
                end = end.max(splice.old.end);
                new.push_str(&between[copied..splice.old.start]);
                new.push_str(&splice.new);
                copied = splice.old.end;
            } else {
                break;
            }
        }
        new.push_str(&between[copied..end]);
        joined.push(TextEdit { old: old_start..end.wrapping_sub(ahead), new });
    }
}

#[cfg(test)]
mod tests {
    use super::{TextEdit, apply_splices, compose};
    use proptest::prelude::*;

    /// Builds splices for a text from random lengths.
    fn splices(text: &str, steps: &[(usize, usize, String)]) -> Vec<TextEdit> {
        let (mut at, mut splices) = (0, Vec::new());
        for (kept, replaced, new) in steps {
            let start = (at + kept).min(text.len());
            let end = (start + replaced).min(text.len());
            splices.push(TextEdit { old: start..end, new: new.clone() });
            at = end + 1;
            if at > text.len() {
                break;
            }
        }
        splices
    }

    fn steps() -> impl Strategy<Value = Vec<(usize, usize, String)>> {
        prop::collection::vec((0_usize..6, 0_usize..4, "[x-z]{0,3}"), 0..6)
    }

    proptest! {
        #[test]
        fn two_steps_are_one(text in "[a-e]{0,30}", first in steps(), second in steps()) {
            let first = splices(&text, &first);
            let between = apply_splices(&text, &first);
            let second = splices(&between, &second);
            let joined = compose(first, &between, second.clone());
            prop_assert_eq!(apply_splices(&text, &joined), apply_splices(&between, &second));
            let is_apart = |pair: &[TextEdit]| pair[0].old.end < pair[1].old.start;
            prop_assert!(joined.windows(2).all(is_apart), "{joined:?}");
        }
    }
}
