//! Finds out whether an edit whose old text is missing was made before.
//!
//! That a new text is somewhere in a file proves nothing. It has to be there as whole lines, between
//! lines that the old text has at its beginning and its end as well.

use memchr::memmem::Finder;

use super::ladder::is_whole_lines;

/// Where a new text is.
pub(super) struct Applied {
    pub(super) start: usize,
    /// Whether its surroundings say that the edit was made there.
    pub(super) is_certain: bool,
}

/// Finds the only place that has a new text as whole lines. It is certain if old and new text begin
/// and end with the same lines, and those at one of both ends are nowhere else.
pub(super) fn find(text: &str, old: &str, new: &str) -> Option<Applied> {
    let start = only(text, new)?;
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = |(old, new): &(&&str, &&str)| old == new;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let is_alone = |lines: &[&str]| {
        let lines = lines.join("\n");
        !lines.trim().is_empty() && only(text, &lines).is_some()
    };
    let (first, last) = (&new[..before], &new[new.len() - after..]);
    let is_between = before > 0 && after > 0;
    Some(Applied { start, is_certain: is_between && (is_alone(first) || is_alone(last)) })
}

/// Returns the only place of whole lines.
fn only(text: &str, lines: &str) -> Option<usize> {
    if lines.trim().is_empty() {
        return None;
    }
    let finder = Finder::new(lines);
    let places = finder.find_iter(text.as_bytes());
    let mut places = places.filter(|at| is_whole_lines(text, *at, at + lines.len()));
    places.next().filter(|_| places.next().is_none())
}
