//! The terminals of a session's calls.

use acp_types::{TerminalExit, TerminalId, TerminalPatch};

use super::Session;
use crate::board::Timestamp;
use crate::outbox::{FirstReportTiming, OutboxItem};
use crate::terminals::TerminalPiece;

impl Session {
    /// Opens a terminal. The terminal must be open before a call shows it. It ends at the latest
    /// with the call that shows it, or with the call that has the same id.
    pub fn announce_terminal(&mut self, id: &TerminalId, patch: TerminalPatch, now: Timestamp) {
        let patch = self.board.open_terminal(id, patch);
        self.enqueue_terminal(id, patch, now);
    }

    /// Updates an open terminal, e.g. its command or size.
    pub fn update_terminal(&mut self, id: &TerminalId, patch: TerminalPatch, now: Timestamp) {
        let patch = self.board.update_terminal(id, patch);
        self.enqueue_terminal(id, patch, now);
    }

    /// Appends output to an open terminal.
    pub fn append_terminal_output(&mut self, id: &TerminalId, bytes: &[u8], now: Timestamp) {
        let patch = self.board.push_terminal_output(id, TerminalPiece::Bytes(bytes));
        self.enqueue_terminal(id, patch, now);
    }

    /// Records that `bytes` bytes of an open terminal's output are missing at the current position.
    pub fn record_terminal_output_gap(&mut self, id: &TerminalId, bytes: u64, now: Timestamp) {
        let patch = self.board.push_terminal_output(id, TerminalPiece::Gap(bytes));
        self.enqueue_terminal(id, patch, now);
    }

    /// Ends a terminal.
    pub fn exit_terminal(&mut self, id: &TerminalId, exit: TerminalExit, now: Timestamp) {
        let patch = self.board.exit_terminal(id, exit);
        self.enqueue_terminal(id, patch, now);
    }

    fn enqueue_terminal(&mut self, id: &TerminalId, patch: Option<TerminalPatch>, now: Timestamp) {
        if let Some(patch) = patch {
            self.outbox.enqueue_or_merge(
                OutboxItem::Terminal(id.clone(), patch),
                FirstReportTiming::NotFirst,
                now.monotonic,
            );
        }
    }
}
