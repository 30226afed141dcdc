//! The open terminals of a session, with the redaction state of their output.

use std::mem;

use acp_types::{TerminalExit, TerminalId, TerminalOutput, TerminalPatch, TerminalReport};
use foldhash::HashMap;

use crate::limits::MAX_TERMINAL_COMMAND_BYTES;
use crate::sanitize::{Redactor, Secrets, StreamRedactor, truncate_text};

/// The open terminals of a session. Methods that change a terminal return `None` if the terminal is
/// not open.
#[derive(Debug, Default)]
pub(crate) struct Terminals(HashMap<TerminalId, TrackedTerminal>);

#[derive(Debug)]
struct TrackedTerminal {
    report: TerminalReport,
    output: StreamRedactor,
    /// Number of secrets that were redacted in the terminal's patches. Secrets in the output are
    /// not included.
    redacted_secrets: u64,
    is_command_truncated: bool,
}

/// A piece of a terminal's output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TerminalPiece<'a> {
    Bytes(&'a [u8]),
    /// Number of bytes that are missing at this position.
    Gap(u64),
}

impl Terminals {
    /// Opens a terminal. Returns `None` if the id is in use.
    pub(crate) fn open(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        if self.0.contains_key(id) {
            return None;
        }
        let terminal = TrackedTerminal {
            report: TerminalReport::new(id.clone()),
            output: StreamRedactor::default(),
            redacted_secrets: 0,
            is_command_truncated: false,
        };
        self.0.insert(id.clone(), terminal);
        self.update(id, patch, secrets)
    }

    /// Updates a terminal that has not exited.
    pub(crate) fn update(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        let terminal = self.running_terminal(id)?;
        Some(terminal.redact_and_apply_patch(patch, secrets))
    }

    /// Appends a piece of output. Bytes that may be the beginning of a secret are held back.
    ///
    /// Before a gap is recorded, the held-back output is released. A partial secret before the gap
    /// is redacted. The output after the gap does not count as a continuation of this secret.
    pub(crate) fn push_output(
        &mut self,
        id: &TerminalId,
        piece: TerminalPiece<'_>,
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        let terminal = self.running_terminal(id)?;
        let patch = match piece {
            TerminalPiece::Bytes(bytes) => {
                TerminalPatch::from_output(&terminal.output.push(secrets, bytes))
            }
            TerminalPiece::Gap(bytes) => {
                let rest = mem::take(&mut terminal.output).release_held_back();
                let mut patch = TerminalPatch::from_output(&rest);
                patch.output.record_omitted_bytes(bytes);
                patch
            }
        };
        Some(terminal.redact_and_apply_patch(patch, secrets))
    }

    /// Records the exit of a terminal, after its held-back output.
    pub(crate) fn exit(
        &mut self,
        id: &TerminalId,
        exit: TerminalExit,
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        let terminal = self.running_terminal(id)?;
        let mut patch = TerminalPatch::from_exit(exit);
        patch.output = TerminalOutput::from_bytes(&terminal.output.release_held_back());
        Some(terminal.redact_and_apply_patch(patch, secrets))
    }

    pub(crate) fn remove(&mut self, id: &TerminalId) {
        self.0.remove(id);
    }

    pub(crate) fn get(&self, id: &TerminalId) -> Option<&TerminalReport> {
        self.0.get(id).map(|terminal| &terminal.report)
    }

    /// Returns the number of secrets that were redacted in the patches of a terminal. Secrets in
    /// the output are not included.
    pub(crate) fn redacted_secret_count(&self, id: &TerminalId) -> u64 {
        self.0.get(id).map_or(0, |terminal| terminal.redacted_secrets)
    }

    /// Returns whether the terminal shows a part of its command only.
    pub(crate) fn is_command_truncated(&self, id: &TerminalId) -> bool {
        self.0.get(id).is_some_and(|terminal| terminal.is_command_truncated)
    }

    fn running_terminal(&mut self, id: &TerminalId) -> Option<&mut TrackedTerminal> {
        self.0.get_mut(id).filter(|terminal| terminal.report.exit.is_none())
    }
}

impl TrackedTerminal {
    fn redact_and_apply_patch(
        &mut self,
        mut patch: TerminalPatch,
        secrets: &Secrets,
    ) -> TerminalPatch {
        let mut redactor = Redactor::new(secrets);
        redactor.redact_terminal_command_and_cwd(&mut patch);
        self.redacted_secrets += redactor.take_count();
        if let Some(command) = &mut patch.command {
            self.is_command_truncated = command.len() > MAX_TERMINAL_COMMAND_BYTES;
            if self.is_command_truncated {
                *command =
                    truncate_text(mem::take(command), MAX_TERMINAL_COMMAND_BYTES, usize::MAX);
            }
        }
        patch.clone().apply(&mut self.report);
        patch
    }
}
