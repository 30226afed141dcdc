//! Collects the hunks of a change up to a size limit, and counts the changed lines beyond the
//! limit.

use memchr::memchr_iter;

use crate::change::max_hunk_line_json_len;
use crate::limits::{HUNK_LINE_OVERHEAD_BYTES, MAX_HUNKS_BYTES};
use crate::{FileChange, Hunk, HunkLine, LineTag};

/// Divisor of the size limit for one context line. With up to three context lines before a changed
/// line, most of the limit is left for changed lines.
const CONTEXT_LINE_DIVISOR: usize = 16;

/// A size-limited list of hunks under construction.
#[derive(Debug)]
pub(super) struct HunkListBuilder {
    hunks: Vec<Hunk>,
    remaining_bytes: usize,
    /// Maximum cost of a context line. A longer context line is left out, because it could take the
    /// space of the changed lines.
    max_context_cost: usize,
    /// Number of bytes that a hunk takes in addition to its lines.
    hunk_cost: usize,
    line_cost: fn(LineTag, &str) -> usize,
    /// Number of the next line in the old text, and in the new text.
    next_line: (u32, u32),
    /// Whether the next line continues the last hunk.
    is_hunk_open: bool,
    unlisted: (usize, usize),
}

impl HunkListBuilder {
    /// Creates a builder with the size limit for changes that are kept in memory.
    pub(super) fn with_memory_limit() -> Self {
        Self::with_costs(MAX_HUNKS_BYTES, 0, |_, line| line.len() + HUNK_LINE_OVERHEAD_BYTES)
    }

    /// Creates a builder whose hunks take at most `remaining_bytes` bytes of a message.
    pub(super) fn with_message_limit(change: &FileChange, remaining_bytes: usize) -> Self {
        Self::with_costs(remaining_bytes, change.hunk_overhead_json_len(), max_hunk_line_json_len)
    }

    fn with_costs(
        remaining_bytes: usize,
        hunk_cost: usize,
        line_cost: fn(LineTag, &str) -> usize,
    ) -> Self {
        Self {
            hunks: Vec::new(),
            remaining_bytes,
            max_context_cost: remaining_bytes / CONTEXT_LINE_DIVISOR,
            hunk_cost,
            line_cost,
            next_line: (0, 0),
            is_hunk_open: false,
            unlisted: (0, 0),
        }
    }

    /// Starts a hunk at these line numbers.
    pub(super) fn start_hunk(&mut self, old_start: u32, new_start: u32) {
        (self.next_line, self.is_hunk_open) = ((old_start, new_start), false);
    }

    /// Adds lines to the last hunk until the limit is reached. Counts the added and removed lines
    /// beyond the limit.
    ///
    /// A context line that is too long ends the hunk. The lines after it are a new hunk.
    pub(super) fn push_or_count_lines(&mut self, tag: LineTag, mut text: &str) {
        while self.remaining_bytes > 0
            && let Some(line) = text.split_inclusive('\n').next()
        {
            let cost = (self.line_cost)(tag, line);
            if tag == LineTag::Context && cost > self.max_context_cost {
                self.is_hunk_open = false;
            } else if !self.try_push_line(tag, line, cost) {
                // After the first line that does not fit, no more lines are listed.
                break;
            }
            let (old, new) = &mut self.next_line;
            *old = old.saturating_add((tag != LineTag::Added).into());
            *new = new.saturating_add((tag != LineTag::Removed).into());
            text = &text[line.len()..];
        }
        match tag {
            LineTag::Added => self.unlisted.0 += line_count(text),
            LineTag::Removed => self.unlisted.1 += line_count(text),
            LineTag::Context => {}
        }
    }

    /// Adds a line to the open hunk, or to a new one. Returns whether the line fits.
    fn try_push_line(&mut self, tag: LineTag, line: &str, cost: usize) -> bool {
        if !self.is_hunk_open {
            let (old_start, new_start) = self.next_line;
            self.hunks.push(Hunk { old_start, new_start, lines: Vec::new() });
            self.remaining_bytes = self.remaining_bytes.saturating_sub(self.hunk_cost);
            self.is_hunk_open = true;
        }
        self.remaining_bytes = self.remaining_bytes.saturating_sub(cost);
        let Some(hunk) = self.hunks.last_mut().filter(|_| self.remaining_bytes > 0) else {
            return false;
        };
        hunk.lines.push(HunkLine { tag, text: line.to_owned() });
        true
    }

    /// Returns the hunks, the number of added lines that are missing in them, and the number of
    /// removed lines that are missing in them.
    pub(super) fn into_hunks_and_omitted_counts(mut self) -> (Vec<Hunk>, (usize, usize)) {
        let changes = |hunk: &Hunk| hunk.lines.iter().any(|line| line.tag != LineTag::Context);
        // If the limit was reached, the last hunk may contain only context lines.
        self.hunks.retain(changes);
        (self.hunks, self.unlisted)
    }
}

/// Returns the number of lines of a text.
pub(super) fn line_count(text: &str) -> usize {
    let is_cut = !text.is_empty() && !text.ends_with('\n');
    memchr_iter(b'\n', text.as_bytes()).count() + usize::from(is_cut)
}
