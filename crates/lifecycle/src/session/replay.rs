//! Replay of a stored session: its documents are sent again, through the same outbox as all other
//! items.

use acp_types::{
    CallEndReason, Content, ContentBlock, ContentPatch, ReplayedPromptBlock, Status,
    TerminalOutput, TerminalPatch, TerminalReport, ToolCallPatch, ToolCallReport, tool_kind,
};
use serde_json::json;

use super::Session;
use super::messages::message_pieces;
use crate::board::Timestamp;
use crate::outbox::OutboxItem;
use crate::sanitize::{OmissionCounts, Redactor, StreamRedactor, sanitize_patch};
use crate::transcript::{CallDocument, SessionDocument, shown_terminals};

impl Session {
    /// Sends a document of a session that is being loaded. Call this method before anything else is
    /// sent. A replayed call is reported once, and is updated once with its end. After the replay,
    /// the id of the call is in use.
    ///
    /// A call without a final status was interrupted by the end of its process. Such a call fails
    /// with the reason [`CallEndReason::Shutdown`]. A terminal that a client ran is shown with its
    /// last recorded output. Secrets that were not known when the document was recorded are
    /// redacted now.
    pub fn replay_document(&mut self, document: SessionDocument, now: Timestamp) {
        match document {
            SessionDocument::Prompt(prompt) => {
                for block in self.redacted_prompt(prompt.blocks) {
                    let block = ReplayedPromptBlock::new(prompt.message.clone(), block);
                    self.outbox.enqueue_replayed(OutboxItem::Prompt(block), now.monotonic);
                }
            }
            SessionDocument::ToolCall(document) => self.replay_call(*document, now),
            SessionDocument::Message(mut chunk) => {
                chunk.text = self.secrets().redact(&chunk.text).into_owned();
                for piece in message_pieces(chunk) {
                    self.outbox.enqueue_replayed(OutboxItem::Chunk(piece), now.monotonic);
                }
            }
            SessionDocument::Plan(mut plan) => {
                Redactor::new(self.secrets()).redact_plan(&mut plan);
                self.outbox.enqueue_replayed(OutboxItem::Plan(plan), now.monotonic);
            }
            SessionDocument::State(mut state) => {
                if Redactor::new(self.secrets()).redact_state(&mut state) {
                    self.outbox.enqueue_replayed(OutboxItem::State(state), now.monotonic);
                }
            }
        }
    }

    /// Returns a prompt with its secrets redacted, in the form in which it is recorded.
    #[must_use]
    pub fn redacted_prompt(&self, blocks: Vec<ContentBlock>) -> Vec<ContentBlock> {
        Redactor::new(self.secrets()).redacted_blocks(blocks)
    }

    fn replay_call(&mut self, document: CallDocument, now: Timestamp) {
        let CallDocument { call, mut terminals, is_announced_without_terminals } = document;
        // A call may show a terminal for which no item was delivered yet. Such a terminal also ends
        // with its call.
        for shown in shown_terminals(&call) {
            if terminals.iter().all(|terminal| terminal.id != *shown) {
                terminals.push(TerminalReport::new(shown.clone()));
            }
        }
        let terminals = terminals.into_iter().map(|terminal| {
            let id = terminal.id.clone();
            let (mut open, mut output) = terminal_open_and_end_patches(terminal);
            Redactor::new(self.secrets()).redact_terminal_command_and_cwd(&mut open);
            output.output = self.redact_terminal_output(&output.output);
            (id, open, output)
        });
        let terminals: Vec<_> = terminals.collect();
        let report = self.redacted_report(end_cut_off_call(call));
        let id = report.id.clone();
        if !self.board.restore_ended_call(report.clone()) {
            return;
        }
        let mut outputs = Vec::new();
        let mut enqueue = |item| self.outbox.enqueue_replayed(item, now.monotonic);
        for (id, open, output) in terminals {
            enqueue(OutboxItem::Terminal(id.clone(), open));
            outputs.push(OutboxItem::Terminal(id, output));
        }
        let (mut report, mut end) = call_start_and_end_patches(report);
        if is_announced_without_terminals && !outputs.is_empty() {
            // In the original session, the client showed these terminals as text. Remove the
            // terminals from the first report, so that a client shows them as text again.
            let shown = std::mem::take(&mut report.content);
            if let ContentPatch::Set(items) = &shown {
                let is_terminal = |item: &&Content| matches!(item, Content::Terminal(_));
                let others = items.iter().filter(|item| !is_terminal(item));
                report.content = ContentPatch::Set(others.cloned().collect());
            }
            end.content = shown;
        }
        enqueue(OutboxItem::ToolCall(id.clone(), report));
        outputs.into_iter().for_each(&mut enqueue);
        enqueue(OutboxItem::ToolCall(id, end));
    }

    fn redact_terminal_output(&self, output: &TerminalOutput) -> TerminalOutput {
        let (mut stream, mut redacted) = (StreamRedactor::default(), TerminalOutput::default());
        redacted.append_bytes(&stream.push(self.secrets(), output.head()));
        if output.omitted_bytes() > 0 {
            redacted.append_bytes(&stream.release_held_back());
            redacted.record_omitted_bytes(output.omitted_bytes());
            stream = StreamRedactor::default();
        }
        redacted.append_bytes(&stream.push(self.secrets(), output.tail()));
        redacted.append_bytes(&stream.release_held_back());
        redacted
    }

    fn redacted_report(&self, mut report: ToolCallReport) -> ToolCallReport {
        let mut patch = ToolCallPatch::new();
        patch.name = Some(std::mem::take(&mut report.name));
        patch.title = Some(std::mem::take(&mut report.title));
        patch.content = ContentPatch::Set(std::mem::take(&mut report.content));
        patch.locations = Some(std::mem::take(&mut report.locations));
        patch.raw_input = report.raw_input.take();
        patch.raw_output = report.raw_output.take();
        patch.meta = Some(Box::new(std::mem::take(&mut report.meta)));
        // The patch was truncated when it was recorded, so it needs no size limit here.
        sanitize_patch(&mut patch, self.secrets(), usize::MAX, &mut OmissionCounts::default());
        patch.apply(&mut report);
        report
    }
}

/// Ends a call that was open when its process ended, in the same way as its session would have
/// ended the call.
fn end_cut_off_call(mut call: ToolCallReport) -> ToolCallReport {
    if !call.status.is_final() {
        let reason = CallEndReason::Shutdown;
        call.status = Status::Failed;
        call.meta.may_have_acted =
            Some(call.meta.started_at.is_some() && tool_kind::may_have_side_effects(call.kind));
        call.meta.reason = Some(reason);
        call.meta.progress = None;
        call.meta.arriving.clear();
        call.capabilities = acp_types::CallCapabilities::default();
        call.raw_output
            .get_or_insert_with(|| json!({ "error": reason.description(), "code": reason }));
    }
    call
}

/// Returns the first report of a call, and its end. The output of the call's terminals is sent
/// between the first report and the end.
fn call_start_and_end_patches(report: ToolCallReport) -> (ToolCallPatch, ToolCallPatch) {
    let ToolCallReport {
        name,
        title,
        kind,
        status,
        content,
        locations,
        raw_input,
        raw_output,
        meta,
        ..
    } = report;
    let has_run = meta.started_at.is_some() || status == Status::Completed;
    let begun = if has_run { Status::InProgress } else { Status::Pending };
    let mut first = ToolCallPatch::for_new_call(name, title, kind)
        .with_status(begun)
        .with_content(content)
        .with_locations(locations);
    first.raw_input = raw_input;
    let mut end = ToolCallPatch::new().with_status(status).with_meta(meta);
    end.raw_output = raw_output;
    (first, end)
}

/// Returns the patch that opens a terminal, and the patch that contains its output and its end.
fn terminal_open_and_end_patches(terminal: TerminalReport) -> (TerminalPatch, TerminalPatch) {
    let TerminalReport { command, cwd, size, output, exit, .. } = terminal;
    let mut open = TerminalPatch::default();
    (open.command, open.cwd, open.size) = (command, cwd, size);
    let mut end = TerminalPatch::from_exit(exit.unwrap_or_default());
    end.output = output;
    (open, end)
}
