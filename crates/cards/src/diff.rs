//! Prints a diff: the file, the line counts, and the changed regions with their context.
//!
//! A diff in v1 consists of two texts: two versions of a whole file, or of a part of a file. This
//! module computes the changed regions.

use std::time::Instant;

use acp_types::diff::diff_texts;
use acp_types::schema::v1::Diff;
use acp_types::{FileChange, Hunk, LineTag, Operation};
use anstyle::Style;

use super::limits::{DIFF_SEARCH_TIMEOUT, MAX_LINE_CHARS};
use super::page::Page;
use super::sanitise;

/// The number of diff lines that may be printed for one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineBudget {
    /// All lines, for a permission decision.
    Unlimited,
    /// At most this number of lines, each truncated.
    AtMost(usize),
}

/// Prints a diff and subtracts its lines from `extent`. Returns whether it was printed as a whole.
pub(super) fn print_diff(diff: &Diff, extent: &mut LineBudget, page: &mut Page) -> bool {
    let change = file_change(diff, &page.meta_key);
    print_path_and_line_counts(&change, page);
    let offset = start_line_offsets(diff, &page.meta_key);
    let lines: Vec<_> = change.hunks.iter().flat_map(|hunk| hunk_lines(hunk, offset)).collect();
    let (shown, max_chars) = match extent {
        LineBudget::Unlimited => (lines.len(), usize::MAX),
        LineBudget::AtMost(left) => (lines.len().min(*left), MAX_LINE_CHARS),
    };
    let mut is_whole = shown == lines.len();
    for (tag, line) in &lines[..shown] {
        let style = match tag {
            Some(LineTag::Removed) => page.palette.bad,
            Some(LineTag::Added) => page.palette.good,
            Some(LineTag::Context) => Style::new(),
            None => page.palette.dim,
        };
        let cut = sanitise::truncate_line(line, max_chars);
        is_whole &= cut.len() >= line.len();
        page.write_styled_text(style, &format!("  {cut}"));
        page.write_line("");
    }
    if let LineBudget::AtMost(left) = extent {
        *left -= shown;
    }
    if shown < lines.len() {
        let more = page.words.omitted_lines_text(lines.len() - shown);
        page.write_styled_text(page.palette.dim, &format!("  {more}\n"));
    }
    is_whole
}

fn file_change(diff: &Diff, meta_key: &str) -> FileChange {
    let old = diff.old_text.as_deref();
    let operation = match old {
        None => Operation::Add,
        Some(_) if meta_value(diff, meta_key, "kind").is_some_and(|kind| kind == "delete") => {
            Operation::Delete
        }
        Some(_) => Operation::Modify,
    };
    let (old, deadline) = (old.unwrap_or_default(), Instant::now() + DIFF_SEARCH_TIMEOUT);
    diff_texts(&diff.path, operation, old, &diff.new_text, deadline)
}

fn print_path_and_line_counts(change: &FileChange, page: &mut Page) {
    let (added, removed) = change.line_counts();
    let what = match change.operation {
        Operation::Add => page.words.text_for_key("diff-new") + ", ",
        Operation::Delete => page.words.text_for_key("diff-deleted") + ", ",
        _ => String::new(),
    };
    let path = page.display_path(&change.path);
    page.write_styled_text(page.palette.bold, &format!("  {path}"));
    page.write_styled_text(page.palette.dim, &format!("  {what}+{added} −{removed}\n"));
}

/// Returns the header of a hunk and its lines.
fn hunk_lines(hunk: &Hunk, offset: (u32, u32)) -> Vec<(Option<LineTag>, String)> {
    let count = |without| hunk.lines.iter().filter(|line| line.tag != without).count();
    let place = format!(
        "@@ -{},{} +{},{} @@",
        hunk.old_start.saturating_add(offset.0),
        count(LineTag::Added),
        hunk.new_start.saturating_add(offset.1),
        count(LineTag::Removed),
    );
    let lines = hunk.lines.iter().map(|line| {
        let text = line.text.strip_suffix('\n').unwrap_or(&line.text);
        let shown = match line.tag {
            LineTag::Context => {
                format!("  {}", sanitise::escape_line(text.trim_end())).trim_end().to_owned()
            }
            LineTag::Removed => format!("- {}", sanitise::escape_line(text)),
            LineTag::Added => format!("+ {}", sanitise::escape_line(text)),
        };
        (Some(line.tag), shown)
    });
    std::iter::once((None, place)).chain(lines).collect()
}

/// Returns the line offsets of the two texts in the file, or 0 if the agent sends none.
fn start_line_offsets(diff: &Diff, meta_key: &str) -> (u32, u32) {
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
