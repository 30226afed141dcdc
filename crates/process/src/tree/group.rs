//! Ends the processes of a command from outside, i.e. without a helper.
//!
//! The processes of a command are those in the leader's process group. On Linux, the processes in
//! its session, its descendants, and processes with [`COMMAND_ID_VARIABLE`] in their environment
//! belong to the command too. Some processes escape, e.g. a process of another user. On Linux, a
//! process also escapes if it changed its session *and* lost its parents *and* has a cleared
//! environment. Outside Linux, every process that left the group escapes.
//!
//! The leader is reaped last. Until the leader is reaped, its id (also the id of its group and
//! session) cannot be reused. After the leader is reaped, no signal is sent.

use std::process::Child;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};

use super::descendants::CommandProcesses;
use super::signals::signal_name;
use crate::limits::{KILL_DEADLINE, KILL_GRACE, LEFT_OVER_GRACE, SWEEP_INTERVAL};
use crate::lock::lock;
use crate::program::{COMMAND_ID_VARIABLE, ProgramExit};

/// The processes of one command, as far as the process that started the command can find them.
#[derive(Debug)]
pub(super) struct LeaderAndDescendants {
    /// The shell; its process id is also the id of its process group and session.
    leader: Pid,
    descendants: CommandProcesses,
    phase: Mutex<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// SIGTERM was sent to the processes. SIGTERM is not sent twice, because programs treat a
    /// second SIGTERM as an urgent request.
    Stopping,
    /// The shell was reaped; another process may have its id, so the id must not be signalled.
    Reaped,
}

impl LeaderAndDescendants {
    /// Creates the group of `leader`. The leader must lead a session, and must have been started
    /// with `mark` as the value of [`COMMAND_ID_VARIABLE`].
    pub(super) fn new(leader: &Child, mark: &str) -> Self {
        let leader = Pid::from_child(leader);
        let descendants = CommandProcesses::new(leader, format!("{COMMAND_ID_VARIABLE}={mark}"));
        Self { leader, descendants, phase: Mutex::new(Phase::Running) }
    }

    /// Sends SIGTERM to all processes, at most once.
    pub(super) fn terminate(&self) {
        let mut phase = self.lock_phase();
        if *phase == Phase::Running {
            *phase = Phase::Stopping;
            self.stop_and_signal_all(Signal::TERM);
        }
    }

    /// Kills all processes; [`wait_and_end_left_overs`](Self::wait_and_end_left_overs) waits for
    /// them.
    pub(super) fn kill(&self) {
        let phase = self.lock_phase();
        if *phase != Phase::Reaped {
            self.stop_and_signal_all(Signal::KILL);
        }
    }

    /// Returns the leader, unless it was reaped.
    pub(super) fn live_leader(&self) -> Option<Pid> {
        (*self.lock_phase() != Phase::Reaped).then_some(self.leader)
    }

    /// Sends a signal to the leader alone, unless it was reaped.
    pub(super) fn signal_leader(&self, signal: Signal) {
        let phase = self.lock_phase();
        if *phase != Phase::Reaped {
            // The leader may have exited already.
            let _ = kill_process(self.leader, signal);
        }
    }

    /// Reaps the leader, which is about to exit or has exited.
    pub(super) fn reap_leader(&self, child: &mut Child) {
        // Waiting needs no lock; only reaping does.
        let waiting = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.leader), waiting));
        let mut phase = self.lock_phase();
        *phase = Phase::Reaped;
        drop(child.wait());
    }

    /// Waits for the shell to exit, ends its left-over processes and reaps it.
    ///
    /// The call blocks while the shell runs. After that, it may block for another
    /// [`LEFT_OVER_GRACE`] + [`KILL_GRACE`] + [`KILL_DEADLINE`] at most.
    pub(super) fn wait_and_end_left_overs(&self, child: &mut Child) -> ProgramExit {
        let waiting = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // `waitid` fails where SIGCHLD is ignored, because the system then reaps the shell and
        // keeps no status.
        let status = retry_on_intr(|| waitid(WaitId::Pid(self.leader), waiting)).ok().flatten();
        let stopped = *self.lock_phase() == Phase::Stopping;
        let left_over = self.end_left_overs();
        let mut phase = self.lock_phase();
        *phase = Phase::Reaped;
        drop(child.wait());
        ProgramExit {
            code: status.as_ref().and_then(WaitIdStatus::exit_status),
            signal: status.as_ref().and_then(WaitIdStatus::terminating_signal).map(signal_name),
            stopped,
            left_over,
            usage: None,
        }
    }

    /// Ends the processes that outlived the shell, first with SIGTERM, and returns their number.
    fn end_left_overs(&self) -> usize {
        let left_over = self.wait_and_count_remaining(LEFT_OVER_GRACE);
        let mut left = left_over;
        if left > 0 {
            self.terminate();
            left = self.wait_and_count_remaining(KILL_GRACE);
        }
        let deadline = Instant::now() + KILL_DEADLINE;
        while left > 0 && Instant::now() < deadline {
            self.kill();
            left = self.wait_and_count_remaining(SWEEP_INTERVAL);
        }
        // Outside Linux only the group is known, and its processes cannot be counted.
        let _ = kill_process_group(self.leader, Signal::KILL);
        left_over
    }

    /// Waits at most `within` until no process is left, and returns the number of remaining
    /// processes.
    fn wait_and_count_remaining(&self, within: Duration) -> usize {
        let deadline = Instant::now() + within;
        loop {
            let left = self.descendants.count();
            if left == 0 || Instant::now() >= deadline {
                return left;
            }
            thread::sleep(SWEEP_INTERVAL);
        }
    }

    /// Stops all processes and sends them a signal; the caller must hold the lock on the phase. A
    /// process that has already exited is not an error.
    fn stop_and_signal_all(&self, signal: Signal) {
        // All processes are stopped first; one signal stops the whole group. Otherwise a process
        // could escape before it is signalled: by a fork, by leaving the group, or because the
        // shell starts its next command.
        let _ = kill_process_group(self.leader, Signal::STOP);
        let strays = self.descendants.freeze();
        for signal in [signal, Signal::CONT] {
            let _ = kill_process_group(self.leader, signal);
            strays.signal(signal);
        }
    }

    fn lock_phase(&self) -> MutexGuard<'_, Phase> {
        lock(&self.phase)
    }
}
