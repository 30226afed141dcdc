//! Without `/proc`, processes outside the shell's process group cannot be found.

use rustix::process::{Pid, Signal};

#[derive(Debug)]
pub(super) struct CommandProcesses;

impl CommandProcesses {
    pub(super) fn new(_leader: Pid, _environ_line: String) -> Self {
        Self
    }

    pub(super) fn count(&self) -> usize {
        0
    }

    pub(super) fn freeze(&self) -> ProcessesOutsideGroup {
        ProcessesOutsideGroup
    }
}

#[derive(Debug)]
pub(super) struct ProcessesOutsideGroup;

impl ProcessesOutsideGroup {
    pub(super) fn signal(&self, _signal: Signal) {}
}
