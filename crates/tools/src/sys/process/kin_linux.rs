//! Finds the processes of a command in `/proc`, wherever they went.
//!
//! Knows nothing of when or why they are signalled.

use std::collections::HashSet;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::limits::{EXEC_TIME, EXEC_TRIES, FREEZE_ROUNDS};

/// What the processes of one command have in common.
#[derive(Debug)]
pub(super) struct Kin {
    /// The shell's id, which is also that of its process group and session.
    leader: i32,
    /// When the shell was started: nothing older is of its making.
    born: u64,
    /// A line of the environment that only processes of this command have.
    mark: String,
    /// Those found last, who are kin for good: what they are known by may not last.
    known: Mutex<HashSet<(Pid, u64)>>,
}

impl Kin {
    pub(super) fn of(leader: Pid, mark: String) -> Self {
        let born = Process::find(leader).map_or(0, |process| process.born);
        Self { leader: leader.as_raw_pid(), born, mark, known: Mutex::default() }
    }

    /// How many live processes there are.
    pub(super) fn count(&self) -> usize {
        self.members().len()
    }

    /// Stops them all, and returns those that are not in the shell's process group.
    ///
    /// A process stops when its system call is done, which may be the one that leaves the group:
    /// so they are looked for until all that are found have stopped.
    pub(super) fn freeze(&self) -> Strays {
        let mut members = Vec::new();
        for _ in 0..FREEZE_ROUNDS {
            members = self.members();
            if members.iter().all(|process| process.stopped) {
                break;
            }
            members.iter().for_each(|process| process.signal(Signal::STOP));
        }
        members.retain(|process| process.group != self.leader);
        Strays(members)
    }

    fn members(&self) -> Vec<Process> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut members, mut others) = (Vec::new(), list());
        others.retain(|process| process.born >= self.born);
        let mut found: Vec<Process> = others
            .extract_if(.., |process| known.contains(&process.key()) || self.is_related(process))
            .collect();
        let mut ids = HashSet::from([self.leader]);
        // Those, then their children, then the children of these.
        loop {
            ids.extend(found.iter().map(|process| process.pid.as_raw_pid()));
            members.append(&mut found);
            found = others.extract_if(.., |process| ids.contains(&process.parent)).collect();
            if found.is_empty() {
                break;
            }
        }
        *known = members.iter().map(Process::key).collect();
        members
    }

    fn is_related(&self, process: &Process) -> bool {
        process.session == self.leader || process.has_in_environment(&self.mark)
    }
}

/// Processes outside their shell's process group.
#[derive(Debug)]
pub(super) struct Strays(Vec<Process>);

impl Strays {
    pub(super) fn signal(&self, signal: Signal) {
        self.0.iter().for_each(|process| process.signal(signal));
    }
}

/// One line of `/proc`, as it was when it was read.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    stopped: bool,
    parent: i32,
    group: i32,
    session: i32,
    /// In clock ticks since the system started.
    born: u64,
}

impl Process {
    /// `None` if there is no such process, or it is dead and only not reaped.
    fn find(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// Reads the one line of `/proc/PID/stat`: the id, the program's name in parentheses (which
    /// may hold anything, parentheses too), and 50 numbers but for the first, the state.
    fn parse(pid: Pid, stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        let state = *fields.first()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        Some(Self {
            pid,
            stopped: matches!(state, "T" | "t"),
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            born: fields.get(19)?.parse().ok()?,
        })
    }

    /// What no two processes have in common.
    fn key(&self) -> (Pid, u64) {
        (self.pid, self.born)
    }

    /// Another user's environment cannot be read; one in the middle of `exec` is empty for a moment.
    fn has_in_environment(&self, line: &str) -> bool {
        for _ in 0..EXEC_TRIES {
            let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
            if !environment.is_empty() {
                let mut entries = environment.split(|byte| *byte == 0);
                return entries.any(|entry| entry == line.as_bytes());
            }
            // Those of the kernel have no session, and never have any.
            if self.session == 0 {
                break;
            }
            thread::sleep(EXEC_TIME);
        }
        false
    }

    /// Signals the process that was found, and no other that has got its id since.
    fn signal(&self, signal: Signal) {
        let pinned = pidfd_open(self.pid, PidfdFlags::empty());
        if Self::find(self.pid).is_none_or(|now| now.key() != self.key()) {
            return;
        }
        // A process that is gone by now is as good as signalled.
        match pinned {
            Ok(pinned) => drop(pidfd_send_signal(pinned, signal)),
            // Kernels before 5.3.
            Err(_) => drop(kill_process(self.pid, signal)),
        }
    }
}

/// All live processes.
fn list() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Pid::from_raw).filter_map(Process::find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let numbers = "7 8 9 34816 8 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 10 11";
        for (name, state) in [("sleep", "S"), ("a b", "T"), ("a) S 1 (b", "R"), ("(sd-pam)", "t")] {
            let pid = Pid::from_raw(42).unwrap();
            let expected = Process {
                pid,
                stopped: state.eq_ignore_ascii_case("t"),
                parent: 7,
                group: 8,
                session: 9,
                born: 4242,
            };
            let stat = format!("42 ({name}) {state} {numbers}\n");
            assert_eq!(Process::parse(pid, &stat), Some(expected), "{name}");
        }
    }

    #[test]
    fn the_dead_and_the_unreadable_do_not_count() {
        for stat in ["", "42 (sleep", "42 (sleep) S 1 2", "42 (sleep) Z 7 8 9 0 0 0 0 0 0 0 0 0 0"]
        {
            assert_eq!(Process::parse(Pid::INIT, stat), None, "{stat}");
        }
    }
}
