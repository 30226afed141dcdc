//! Finds the processes of a command in `/proc`, in any session.

use std::collections::HashSet;
use std::sync::Mutex;

use rustix::process::{Pid, Signal};

use super::proc_table::{self, Process};
use crate::lock::lock;

/// The properties by which the processes of one command are found.
#[derive(Debug)]
pub(super) struct CommandProcesses {
    /// Process id of the shell, which is also the id of its process group and session.
    leader: i32,
    /// Start time of the shell; processes that started earlier are not its descendants.
    born: u64,
    /// An environment entry (`NAME=value`) that only processes of this command have.
    environ_line: String,
    /// Processes that were identified earlier; they remain members even if their identifying
    /// properties change.
    confirmed: Mutex<HashSet<(Pid, u64)>>,
}

impl CommandProcesses {
    pub(super) fn new(leader: Pid, environ_line: String) -> Self {
        let born = Process::from_live_pid(leader).map_or(0, |process| process.born);
        Self { leader: leader.as_raw_pid(), born, environ_line, confirmed: Mutex::default() }
    }

    /// Returns the number of live processes of the command.
    pub(super) fn count(&self) -> usize {
        self.members().len()
    }

    /// Stops all processes of the command, and returns those that are not in the shell's process
    /// group.
    pub(super) fn freeze(&self) -> ProcessesOutsideGroup {
        let mut members = proc_table::repeat_until_all_stopped(|| {
            let members = self.members();
            let running = members.iter().filter(|process| !process.stopped);
            running.for_each(|process| process.signal(Signal::STOP));
            members
        });
        members.retain(|process| process.group != self.leader);
        ProcessesOutsideGroup(members)
    }

    fn members(&self) -> Vec<Process> {
        let mut known = lock(&self.confirmed);
        let mut others = proc_table::list();
        others.retain(|process| process.born >= self.born);
        let found = others
            .extract_if(.., |process| {
                known.contains(&process.key()) || self.belongs_to_command(process)
            })
            .collect();
        let members =
            proc_table::take_descendants(&mut others, HashSet::from([self.leader]), found);
        *known = members.iter().map(Process::key).collect();
        members
    }

    fn belongs_to_command(&self, process: &Process) -> bool {
        process.session == self.leader || process.environ_contains(&self.environ_line)
    }
}

/// Processes of a command outside the process group of its shell.
#[derive(Debug)]
pub(super) struct ProcessesOutsideGroup(Vec<Process>);

impl ProcessesOutsideGroup {
    pub(super) fn signal(&self, signal: Signal) {
        self.0.iter().for_each(|process| process.signal(signal));
    }
}
