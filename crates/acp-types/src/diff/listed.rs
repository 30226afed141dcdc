//! Hunks as they are listed, up to a bound; what is beyond it is counted. It finds no differences.

use memchr::memchr_iter;

use crate::change::line_json_len;
use crate::limits::{LISTED_BYTES, LISTED_LINE_COST};
use crate::{FileChange, Hunk, HunkLine, LineTag};

/// The hunks of one change, while they are made.
#[derive(Debug)]
pub(super) struct Listed {
    hunks: Vec<Hunk>,
    room: usize,
    /// What a hunk takes beside its lines.
    hunk_cost: usize,
    line_cost: fn(LineTag, &str) -> usize,
    unlisted: (usize, usize),
}

impl Listed {
    /// Lists what may be kept in memory.
    pub(super) fn in_memory() -> Self {
        let line_cost = |_, line: &str| line.len() + LISTED_LINE_COST;
        Self { hunks: Vec::new(), room: LISTED_BYTES, hunk_cost: 0, line_cost, unlisted: (0, 0) }
    }

    /// Lists what `room` bytes of a message can hold of a change whose hunks take `extra` bytes more.
    pub(super) fn in_message(change: &FileChange, room: usize, extra: usize) -> Self {
        let (hunk_cost, line_cost) = (change.hunk_json_len() + extra, line_json_len);
        Self { hunks: Vec::new(), room, hunk_cost, line_cost, unlisted: (0, 0) }
    }

    /// Begins a hunk at these lines.
    pub(super) fn open(&mut self, old_start: u32, new_start: u32) {
        self.room = self.room.saturating_sub(self.hunk_cost);
        if self.room > 0 {
            self.hunks.push(Hunk { old_start, new_start, lines: Vec::new() });
        }
    }

    /// Adds lines to the last hunk, as far as there is room.
    pub(super) fn push(&mut self, tag: LineTag, mut text: &str) {
        while self.room > 0
            && let Some(line) = text.split_inclusive('\n').next()
        {
            // Behind the first line that does not fit, none is listed.
            self.room = self.room.saturating_sub((self.line_cost)(tag, line));
            let Some(hunk) = self.hunks.last_mut().filter(|_| self.room > 0) else { break };
            hunk.lines.push(HunkLine { tag, text: line.to_owned() });
            text = &text[line.len()..];
        }
        match tag {
            LineTag::Added => self.unlisted.0 += lines(text),
            LineTag::Removed => self.unlisted.1 += lines(text),
            LineTag::Context => {}
        }
    }

    /// Returns the hunks, and how many lines come and go beside them.
    pub(super) fn finish(mut self) -> (Vec<Hunk>, (usize, usize)) {
        let changes = |hunk: &Hunk| hunk.lines.iter().any(|line| line.tag != LineTag::Context);
        // The last one may have no room left for what it was about.
        self.hunks.retain(changes);
        (self.hunks, self.unlisted)
    }
}

/// Returns how many lines a text has.
pub(super) fn lines(text: &str) -> usize {
    let is_cut = !text.is_empty() && !text.ends_with('\n');
    memchr_iter(b'\n', text.as_bytes()).count() + usize::from(is_cut)
}
