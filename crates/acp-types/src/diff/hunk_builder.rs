//! Collects the hunks of a change up to a size limit, and counts the changed lines beyond the
//! limit.

use memchr::memchr_iter;

use crate::change::max_hunk_line_json_len;
use crate::limits::{HUNK_LINE_OVERHEAD_BYTES, MAX_HUNKS_BYTES};
use crate::{FileChange, Hunk, HunkLine, LineTag};

/// A size-limited list of hunks under construction.
#[derive(Debug)]
pub(super) struct HunkBuilder {
    hunks: Vec<Hunk>,
    remaining_bytes: usize,
    /// Number of bytes that a hunk takes in addition to its lines.
    hunk_cost: usize,
    line_cost: fn(LineTag, &str) -> usize,
    unlisted: (usize, usize),
}

impl HunkBuilder {
    /// Creates a builder with the size limit for changes that are kept in memory.
    pub(super) fn with_memory_limit() -> Self {
        let line_cost = |_, line: &str| line.len() + HUNK_LINE_OVERHEAD_BYTES;
        Self {
            hunks: Vec::new(),
            remaining_bytes: MAX_HUNKS_BYTES,
            hunk_cost: 0,
            line_cost,
            unlisted: (0, 0),
        }
    }

    /// Creates a builder whose hunks take at most `remaining_bytes` bytes of a message.
    pub(super) fn with_message_limit(change: &FileChange, remaining_bytes: usize) -> Self {
        let (hunk_cost, line_cost) = (change.hunk_overhead_json_len(), max_hunk_line_json_len);
        Self { hunks: Vec::new(), remaining_bytes, hunk_cost, line_cost, unlisted: (0, 0) }
    }

    /// Starts a hunk at these line numbers.
    pub(super) fn start_hunk(&mut self, old_start: u32, new_start: u32) {
        self.remaining_bytes = self.remaining_bytes.saturating_sub(self.hunk_cost);
        if self.remaining_bytes > 0 {
            self.hunks.push(Hunk { old_start, new_start, lines: Vec::new() });
        }
    }

    /// Adds lines to the last hunk until the limit is reached. Counts the added and removed lines
    /// beyond the limit.
    pub(super) fn push_lines(&mut self, tag: LineTag, mut text: &str) {
        while self.remaining_bytes > 0
            && let Some(line) = text.split_inclusive('\n').next()
        {
            // After the first line that does not fit, no more lines are listed.
            self.remaining_bytes = self.remaining_bytes.saturating_sub((self.line_cost)(tag, line));
            let Some(hunk) = self.hunks.last_mut().filter(|_| self.remaining_bytes > 0) else {
                break;
            };
            hunk.lines.push(HunkLine { tag, text: line.to_owned() });
            text = &text[line.len()..];
        }
        match tag {
            LineTag::Added => self.unlisted.0 += line_count(text),
            LineTag::Removed => self.unlisted.1 += line_count(text),
            LineTag::Context => {}
        }
    }

    /// Returns the hunks, the number of added lines that are missing in them, and the number of
    /// removed lines that are missing in them.
    pub(super) fn finish(mut self) -> (Vec<Hunk>, (usize, usize)) {
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
