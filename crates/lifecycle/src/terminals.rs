//! The open terminals of a session: their documents, and what is held back of their output.

use acp_types::{TerminalExit, TerminalId, TerminalOutput, TerminalPatch, TerminalReport};
use foldhash::HashMap;

use crate::sanitize::{Redactor, Secrets, StreamRedactor};

/// Every open terminal. What does not concern an open one gives nothing back.
#[derive(Debug, Default)]
pub(crate) struct Terminals(HashMap<TerminalId, TrackedTerminal>);

#[derive(Debug)]
struct TrackedTerminal {
    report: TerminalReport,
    output: StreamRedactor,
    /// How many secrets were replaced in what is told of it, its output aside.
    redacted_secrets: u64,
}

impl Terminals {
    /// Opens a terminal, unless there is one of this id.
    pub(crate) fn open(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        if self.0.contains_key(id) {
            return None;
        }
        let report = TerminalReport::new(id.clone());
        self.0.insert(
            id.clone(),
            TrackedTerminal { report, output: StreamRedactor::default(), redacted_secrets: 0 },
        );
        self.update(id, patch, secrets)
    }

    /// Changes a terminal that has not ended.
    pub(crate) fn update(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        let terminal = self.running_terminal(id)?;
        Some(terminal.apply(patch, secrets))
    }

    /// Appends output; of what may be the beginning of a secret, nothing yet.
    pub(crate) fn append_output(
        &mut self,
        id: &TerminalId,
        bytes: &[u8],
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        let terminal = self.running_terminal(id)?;
        let shown = terminal.output.push(secrets, bytes);
        Some(terminal.apply(TerminalPatch::output(&shown), secrets))
    }

    /// Notes that output is left out here, behind what was held back of it: half a secret that ends
    /// here is hidden, and what follows is none of it.
    pub(crate) fn add_gap(
        &mut self,
        id: &TerminalId,
        bytes: u64,
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        let terminal = self.running_terminal(id)?;
        let mut output = TerminalOutput::new(&std::mem::take(&mut terminal.output).flush());
        output.skip_bytes(bytes);
        Some(terminal.apply(TerminalPatch { output, ..TerminalPatch::default() }, secrets))
    }

    /// Ends a terminal, behind what was held back of its output.
    pub(crate) fn exit(
        &mut self,
        id: &TerminalId,
        exit: TerminalExit,
        secrets: &Secrets,
    ) -> Option<TerminalPatch> {
        let terminal = self.running_terminal(id)?;
        let output = TerminalOutput::new(&terminal.output.flush());
        Some(terminal.apply(TerminalPatch { output, ..TerminalPatch::exit(exit) }, secrets))
    }

    pub(crate) fn remove(&mut self, id: &TerminalId) {
        self.0.remove(id);
    }

    pub(crate) fn get(&self, id: &TerminalId) -> Option<&TerminalReport> {
        self.0.get(id).map(|terminal| &terminal.report)
    }

    /// Returns how many secrets were replaced in what is told of a terminal, its output aside.
    pub(crate) fn redacted_secrets(&self, id: &TerminalId) -> u64 {
        self.0.get(id).map_or(0, |terminal| terminal.redacted_secrets)
    }

    fn running_terminal(&mut self, id: &TerminalId) -> Option<&mut TrackedTerminal> {
        self.0.get_mut(id).filter(|terminal| terminal.report.exit.is_none())
    }
}

impl TrackedTerminal {
    fn apply(&mut self, mut patch: TerminalPatch, secrets: &Secrets) -> TerminalPatch {
        let mut redactor = Redactor::new(secrets);
        redactor.redact_terminal(&mut patch);
        self.redacted_secrets += redactor.take_count();
        patch.clone().apply(&mut self.report);
        patch
    }
}
