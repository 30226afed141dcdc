//! Prints a diff: the file, the line counts, and the changed regions with their context.
//!
//! In ACP v1, a diff consists of two texts: two versions of a whole file, or of a part of a file.
//! This module computes the changed regions.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use acp_types::diff::{diff_texts, shorten_change};
use acp_types::schema::v1::{Diff, ToolCallContent};
use acp_types::{FileChange, FileChangeOperation, Hunk, LineTag};
use anstyle::Style;

use super::limits::{DIFF_SEARCH_TIMEOUT, MAX_CHANGE_BYTES, MAX_LINE_CHARS, MAX_SEARCHED_LINES};
use super::page::Page;
use super::sanitise;
use super::ui_text::UiText;

/// Time limit that `diff_texts` requires as an argument. It is never reached, because
/// [`MAX_SEARCHED_LINES`] bounds the search.
const SEARCH_DEADLINE: Duration = Duration::from_secs(3_600);

/// The number of diff lines that may still be printed for one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineBudget {
    /// All lines, for a permission decision.
    Unlimited,
    /// At most this number of lines, each truncated.
    AtMost(usize),
}

/// Prints the diffs of one file below one line with its path and its line counts, and subtracts the
/// printed lines from `extent`. Returns whether each diff was printed completely.
pub(super) fn print_diffs(diffs: &[&Diff], extent: &mut LineBudget, page: &mut Page) -> Vec<bool> {
    let deadline = Instant::now() + DIFF_SEARCH_TIMEOUT;
    let changes: Vec<_> = diffs
        .iter()
        .map(|diff| {
            let (old, new) = texts(diff, &page.meta_key);
            let operation = operation(diff, &page.meta_key);
            diff_texts(&diff.path, operation, &old, &new, deadline)
        })
        .collect();
    print_path_and_line_counts(&changes, page);
    let mut omitted = 0;
    let mut are_whole = Vec::new();
    for (diff, change) in diffs.iter().zip(&changes) {
        let offset = old_and_new_line_offsets(diff, &page.meta_key);
        let lines = change.hunks.iter().flat_map(|hunk| hunk_lines(hunk, offset, &page.words));
        let lines: Vec<_> = lines.collect();
        let (shown, max_chars) = match extent {
            LineBudget::Unlimited => (lines.len(), usize::MAX),
            LineBudget::AtMost(left) => (lines.len().min(*left), MAX_LINE_CHARS),
        };
        let is_shortened = print_lines(&lines[..shown], max_chars, page);
        are_whole.push(shown == lines.len() && !is_shortened);
        omitted += lines.len() - shown;
        if let LineBudget::AtMost(left) = extent {
            *left -= shown;
        }
    }
    if omitted > 0 {
        let more = page.words.omitted_lines_text(omitted);
        page.write_styled_text(page.palette.dim, &format!("  {more}\n"));
    }
    are_whole
}

/// Prints lines, of each at most `max_chars` characters. Returns whether a line was truncated.
fn print_lines(lines: &[(Option<LineTag>, String)], max_chars: usize, page: &mut Page) -> bool {
    let mut is_shortened = false;
    for (tag, line) in lines {
        let style = match tag {
            Some(LineTag::Removed) => page.palette.bad,
            Some(LineTag::Added) => page.palette.good,
            Some(LineTag::Context) => Style::new(),
            None => page.palette.dim,
        };
        let cut = sanitise::truncate_line(line, max_chars);
        is_shortened |= cut.len() < line.len();
        page.write_styled_text(style, &format!("  {cut}"));
        page.write_line("");
    }
    is_shortened
}

/// Returns whether two diffs are parts of one change of a file. Callboard sends a large change as
/// one diff per hunk.
pub(super) fn are_of_same_file(a: &ToolCallContent, b: &ToolCallContent, meta_key: &str) -> bool {
    match (a, b) {
        (ToolCallContent::Diff(a), ToolCallContent::Diff(b)) => {
            a.path == b.path && operation(a, meta_key) == operation(b, meta_key)
        }
        _ => false,
    }
}

/// Returns the hunks of a diff with the line numbers of the file, within the limits of a
/// transcript. The result depends only on the diff.
pub(super) fn bounded_change(diff: &Diff, meta_key: &str) -> FileChange {
    let operation = operation(diff, meta_key);
    let (old, new) = texts(diff, meta_key);
    let lines = old.lines().count() + new.lines().count();
    let mut change = if lines <= MAX_SEARCHED_LINES {
        // The search is short, so this deadline is never reached.
        let deadline = Instant::now() + SEARCH_DEADLINE;
        let mut change = diff_texts(&diff.path, operation, &old, &new, deadline);
        (change.old_text, change.new_text) = (None, None);
        change
    } else {
        let mut whole = FileChange::new(operation, &diff.path);
        (whole.old_text, whole.new_text) = (Some(old.into_owned()), Some(new.into_owned()));
        // Use a limit below the current size, so that the texts are replaced by hunks.
        let max = whole.max_json_len().min(MAX_CHANGE_BYTES);
        shorten_change(&whole, max).unwrap_or(whole)
    };
    if let Some(short) = shorten_change(&change, MAX_CHANGE_BYTES) {
        change = short;
    }
    let (old_offset, new_offset) = old_and_new_line_offsets(diff, meta_key);
    for hunk in &mut change.hunks {
        hunk.old_start = hunk.old_start.saturating_add(old_offset);
        hunk.new_start = hunk.new_start.saturating_add(new_offset);
    }
    change
}

fn operation(diff: &Diff, meta_key: &str) -> FileChangeOperation {
    match diff.old_text {
        None => FileChangeOperation::Add,
        Some(_) if meta_value(diff, meta_key, "kind").is_some_and(|kind| kind == "delete") => {
            FileChangeOperation::Delete
        }
        Some(_) => FileChangeOperation::Modify,
    }
}

/// Returns the old text and the new text of a diff. In these texts, a line without a newline is the
/// last line of a file.
///
/// Other agents also send parts of files that end within the file. If neither text of such a diff
/// ends with a newline, both get one.
fn texts<'a>(diff: &'a Diff, meta_key: &str) -> (Cow<'a, str>, Cow<'a, str>) {
    let (old, new) = (diff.old_text.as_deref().unwrap_or_default(), &*diff.new_text);
    let is_part = diff.old_text.is_some()
        && meta_value(diff, meta_key, "kind").is_none()
        && ![old, new].iter().any(|text| text.ends_with('\n'));
    let ended = |text: &'a str| match is_part && !text.is_empty() {
        true => Cow::Owned(format!("{text}\n")),
        false => Cow::Borrowed(text),
    };
    (ended(old), ended(new))
}

fn print_path_and_line_counts(changes: &[FileChange], page: &mut Page) {
    let Some(change) = changes.first() else { return };
    let counts = changes.iter().map(FileChange::line_counts);
    let (added, removed) = counts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    let what = match change.operation {
        FileChangeOperation::Add => page.words.text_for_key("diff-new") + ", ",
        FileChangeOperation::Delete => page.words.text_for_key("diff-deleted") + ", ",
        _ => String::new(),
    };
    let path = page.display_path(&change.path);
    page.write_styled_text(page.palette.bold, &format!("  {path}"));
    page.write_styled_text(page.palette.dim, &format!("  {what}+{added} −{removed}\n"));
}

/// Returns the header of a hunk in the form of a unified diff.
pub(super) fn hunk_header(hunk: &Hunk, offset: (u32, u32)) -> String {
    let count = |without| hunk.lines.iter().filter(|line| line.tag != without).count();
    format!(
        "@@ -{},{} +{},{} @@",
        hunk.old_start.saturating_add(offset.0),
        count(LineTag::Added),
        hunk.new_start.saturating_add(offset.1),
        count(LineTag::Removed),
    )
}

/// Returns the header of a hunk and its lines. As in git, a note follows a line without a newline.
fn hunk_lines(hunk: &Hunk, offset: (u32, u32), words: &UiText) -> Vec<(Option<LineTag>, String)> {
    let lines = hunk.lines.iter().flat_map(|line| {
        let text = line.text.strip_suffix('\n').unwrap_or(&line.text);
        let shown = match line.tag {
            LineTag::Context => {
                format!("  {}", sanitise::escape_line(text.trim_end())).trim_end().to_owned()
            }
            LineTag::Removed => format!("- {}", sanitise::escape_line(text)),
            LineTag::Added => format!("+ {}", sanitise::escape_line(text)),
        };
        let note = || (None, format!("\\ {}", words.text_for_key("diff-no-newline")));
        let note = (!line.text.ends_with('\n')).then(note);
        std::iter::once((Some(line.tag), shown)).chain(note)
    });
    std::iter::once((None, hunk_header(hunk, offset))).chain(lines).collect()
}

/// Returns the line offsets of the two texts in the file. An offset is 0 if the agent sends no
/// offset.
pub(super) fn old_and_new_line_offsets(diff: &Diff, meta_key: &str) -> (u32, u32) {
    let before = |key| {
        let start =
            meta_value(diff, meta_key, key).and_then(serde_json::Value::as_u64).unwrap_or(1);
        u32::try_from(start.saturating_sub(1)).unwrap_or(u32::MAX)
    };
    (before("oldStart"), before("newStart"))
}

fn meta_value<'a>(diff: &'a Diff, meta_key: &str, key: &str) -> Option<&'a serde_json::Value> {
    diff.meta.as_ref()?.get(meta_key)?.get(key)
}
