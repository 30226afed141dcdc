//! The process table of the system, read from `/proc`.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::limits::{ENVIRON_READ_INTERVAL, FREEZE_DEADLINE, MAX_ENVIRON_READS};

/// One process, as `/proc` showed it at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) stopped: bool,
    pub(super) threads: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// Start time in clock ticks since boot.
    pub(super) born: u64,
}

impl Process {
    /// Returns the process with this id; `None` if it does not exist or is a zombie.
    pub(super) fn from_live_pid(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// Parses the line of `/proc/PID/stat`: the id, the program's name in parentheses, the state,
    /// and 49 numbers. The name may contain any character, even parentheses.
    fn parse(pid: Pid, stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        let state = *fields.first()?;
        // The state is that of the main thread, and other threads may outlive the main thread.
        let threads: i32 = number(17)?;
        if matches!(state, "Z" | "X") && threads <= 1 {
            return None;
        }
        Some(Self {
            pid,
            stopped: matches!(state, "T" | "t"),
            threads,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            born: fields.get(19)?.parse().ok()?,
        })
    }

    /// Returns a key that is unique to this process.
    pub(super) fn key(&self) -> (Pid, u64) {
        (self.pid, self.born)
    }

    /// Returns whether the environment of the process contains `line`. The environment of another
    /// user's process cannot be read. During `exec`, an environment is empty for a moment.
    pub(super) fn environ_contains(&self, line: &str) -> bool {
        for _ in 0..MAX_ENVIRON_READS {
            let Ok(environment) = fs::read(format!("/proc/{}/environ", self.pid)) else {
                return false;
            };
            if !environment.is_empty() {
                let mut entries = environment.split(|byte| *byte == 0);
                return entries.any(|entry| entry == line.as_bytes());
            }
            // Kernel threads have no session and never have an environment.
            if self.session == 0 {
                break;
            }
            thread::sleep(ENVIRON_READ_INTERVAL);
        }
        false
    }

    /// Signals this process, but not another process that has reused its id.
    pub(super) fn signal(&self, signal: Signal) {
        let pinned = pidfd_open(self.pid, PidfdFlags::empty());
        if Self::from_live_pid(self.pid).is_none_or(|now| now.key() != self.key()) {
            return;
        }
        // A process that has exited needs no signal.
        match pinned {
            Ok(pinned) => drop(pidfd_send_signal(pinned, signal)),
            // Kernels before 5.3 have no pidfd.
            Err(_) => drop(kill_process(self.pid, signal)),
        }
    }
}

/// Stops all processes and returns them; `stop` finds and signals them.
///
/// A process stops only after its current system call, and the process may escape by this very
/// call. The search is therefore repeated until all found processes have stopped, for at most
/// [`FREEZE_DEADLINE`].
pub(super) fn repeat_until_all_stopped(stop: impl Fn() -> Vec<Process>) -> Vec<Process> {
    let deadline = Instant::now() + FREEZE_DEADLINE;
    loop {
        let found = stop();
        if found.iter().all(|process| process.stopped) || Instant::now() >= deadline {
            return found;
        }
    }
}

/// Removes the descendants of `ids` and of `found` from `others`, and returns these descendants.
pub(super) fn take_descendants(
    others: &mut Vec<Process>,
    mut ids: HashSet<i32>,
    mut found: Vec<Process>,
) -> Vec<Process> {
    let mut members = Vec::new();
    loop {
        ids.extend(found.iter().map(|process| process.pid.as_raw_pid()));
        members.append(&mut found);
        found = others.extract_if(.., |process| ids.contains(&process.parent)).collect();
        if found.is_empty() {
            return members;
        }
    }
}

/// Returns all live processes.
pub(super) fn list() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Pid::from_raw).filter_map(Process::from_live_pid).collect()
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
                threads: 1,
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
    fn dead_and_unreadable_processes_do_not_count() {
        for stat in [
            "",
            "42 (sleep",
            "42 (sleep) S 1 2",
            "42 (sleep) Z 7 8 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 5",
        ] {
            assert_eq!(Process::parse(Pid::INIT, stat), None, "{stat}");
        }
    }
}
