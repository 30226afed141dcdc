//! Builds the hunks of a change from known edits.

use memchr::{memchr, memchr_iter, memrchr};

use super::hunk_builder::{HunkListBuilder, line_count};
use super::{CONTEXT_LINES, TextEdit};
use crate::LineTag;

/// Whole lines that were replaced by other whole lines. The last line may lack a line ending.
struct ChangedRegion {
    /// Byte offsets in the old text at which the replaced lines start and end.
    start: usize,
    end: usize,
    /// Number of lines in the old text before the replaced lines.
    line: usize,
    new: String,
}

/// Builds the hunks of the edits `splices` of the text `old`, and adds the hunks to `listed`.
pub(super) fn build_hunks(old: &str, splices: &[TextEdit], listed: &mut HunkListBuilder) {
    let regions = changed_regions(old, splices);
    let is_emptied = |region: &ChangedRegion| {
        region.start == 0 && region.end == old.len() && region.new.is_empty()
    };
    let new_is_empty = regions.iter().any(is_emptied);
    // Number of added lines minus number of removed lines so far.
    let mut ahead = 0_isize;
    // Byte offset in `old` at which the last region of the open hunk ends.
    let mut open = None;
    for region in &regions {
        let is_near = |end: &usize| line_count(&old[*end..region.start]) <= 2 * CONTEXT_LINES;
        let end = match open.take() {
            Some(end) if is_near(&end) => end,
            other => {
                if let Some(end) = other {
                    push_trailing_context(listed, old, end);
                }
                let (start, before) = leading_context_start_and_lines(old, region.start);
                let line = region.line - before;
                let number = |line: usize| u32::try_from(line + 1).unwrap_or(u32::MAX);
                let old_start = if old.is_empty() { 0 } else { number(line) };
                let new_start =
                    if new_is_empty { 0 } else { number(line.saturating_add_signed(ahead)) };
                listed.start_hunk(old_start, new_start);
                start
            }
        };
        let removed = &old[region.start..region.end];
        listed.push_or_count_lines(LineTag::Context, &old[end..region.start]);
        listed.push_or_count_lines(LineTag::Removed, removed);
        listed.push_or_count_lines(LineTag::Added, &region.new);
        ahead += line_count(&region.new) as isize - line_count(removed) as isize;
        open = Some(region.end);
    }
    if let Some(end) = open {
        push_trailing_context(listed, old, end);
    }
}

/// Returns the changed regions. If an edit replaces its first or last lines by equal lines, these
/// lines do not belong to a region.
fn changed_regions(old: &str, splices: &[TextEdit]) -> Vec<ChangedRegion> {
    let (mut regions, mut counted, mut line) = (Vec::new(), 0, 0);
    let mut splices = splices.iter().peekable();
    while let Some(first) = splices.next() {
        let mut start = line_start(old, first.old.start);
        let mut new = old[start..first.old.start].to_owned() + &first.new;
        let mut at = first.old.end;
        let mut end = edited_lines_end_in_old(old, at, at, &new);
        while let Some(next) =
            splices.next_if(|next| next.old.start < end || is_unterminated_end(old, end))
        {
            new.push_str(&old[at..next.old.start]);
            new.push_str(&next.new);
            at = next.old.end;
            end = edited_lines_end_in_old(old, at, end, &new);
        }
        new.push_str(&old[at..end]);
        let (before, after) = common_leading_trailing_line_bytes(&old[start..end], &new);
        start += before;
        end -= after;
        if start < end || before + after < new.len() {
            line += memchr_iter(b'\n', &old.as_bytes()[counted..start]).count();
            counted = start;
            let new = new[before..new.len() - after].to_owned();
            regions.push(ChangedRegion { start, end, line, new });
        }
    }
    regions
}

/// Returns the byte offset in `old` at which the edited lines end. The edits replace the text of
/// these lines up to `at` by `new`. If `known` is greater than `at`, it must be the end of the line
/// that contains `at`.
fn edited_lines_end_in_old(old: &str, at: usize, known: usize, new: &str) -> usize {
    let is_whole = at == 0 || old.as_bytes()[at - 1] == b'\n';
    if is_whole && (new.is_empty() || new.ends_with('\n')) {
        at
    } else if at < known {
        known
    } else {
        line_end(old, at)
    }
}

/// Returns whether `place` is the end of a text whose last line has no line ending. Such a place
/// still belongs to the last line.
fn is_unterminated_end(old: &str, place: usize) -> bool {
    place == old.len() && !old.is_empty() && !old.ends_with('\n')
}

/// Adds the context lines after the last changed region of a hunk.
fn push_trailing_context(listed: &mut HunkListBuilder, old: &str, end: usize) {
    let after = (0..CONTEXT_LINES).fold(end, |at, _| line_end(old, at));
    listed.push_or_count_lines(LineTag::Context, &old[end..after]);
}

/// Returns the byte offset of the context before a line, and the number of context lines.
fn leading_context_start_and_lines(old: &str, place: usize) -> (usize, usize) {
    let (mut at, mut lines) = (place, 0);
    while at > 0 && lines < CONTEXT_LINES {
        at = line_start(old, at - 1);
        lines += 1;
    }
    (at, lines)
}

/// Returns the number of bytes of the common leading lines, and the number of bytes of the common
/// trailing lines.
fn common_leading_trailing_line_bytes(old: &str, new: &str) -> (usize, usize) {
    fn common_line_bytes<'a>(
        old: impl Iterator<Item = &'a str>,
        new: impl Iterator<Item = &'a str>,
    ) -> usize {
        old.zip(new).take_while(|(old, new)| old == new).map(|(line, _)| line.len()).sum()
    }
    let before = common_line_bytes(old.split_inclusive('\n'), new.split_inclusive('\n'));
    let (old, new) = (&old[before..], &new[before..]);
    let after = common_line_bytes(old.split_inclusive('\n').rev(), new.split_inclusive('\n').rev());
    (before, after)
}

fn line_start(text: &str, place: usize) -> usize {
    memrchr(b'\n', &text.as_bytes()[..place]).map_or(0, |at| at + 1)
}

/// Returns the end of the line that contains `place`, including its line ending.
fn line_end(text: &str, place: usize) -> usize {
    memchr(b'\n', &text.as_bytes()[place..]).map_or(text.len(), |at| place + at + 1)
}
