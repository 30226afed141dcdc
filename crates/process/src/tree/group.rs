//! Ends the processes of a command from outside.
//!
//! The processes are the leader's process group and, on Linux, also everything in its session, its
//! descendants, and processes with [`COMMAND_ID_VARIABLE`] in their environment. These escape: a
//! process that changed its session *and* lost its parents *and* has a cleared environment; one
//! that runs as another user; and, outside Linux, every process that left the group.
//!
//! The leader is reaped last. Until then its id, which is also that of its group and session,
//! cannot be reused. After that no signal is sent any more.

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

/// The processes of one command, as far as they can be found by the process that started it.
#[derive(Debug)]
pub(super) struct ShellProcessGroup {
    /// The shell, whose id is also that of its process group and session.
    leader: Pid,
    descendants: CommandProcesses,
    phase: Mutex<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// SIGTERM was sent. It is not sent twice, as programs treat a second one as an urgent request.
    Stopping,
    /// The shell's id may have been reused and must not be signalled.
    Reaped,
}

impl ShellProcessGroup {
    /// The processes of `leader`, which leads a session and was started with `mark` as the value of
    /// [`COMMAND_ID_VARIABLE`].
    pub(super) fn new(leader: &Child, mark: &str) -> Self {
        let leader = Pid::from_child(leader);
        let descendants = CommandProcesses::new(leader, format!("{COMMAND_ID_VARIABLE}={mark}"));
        Self { leader, descendants, phase: Mutex::new(Phase::Running) }
    }

    /// Sends SIGTERM to all processes, once.
    pub(super) fn terminate(&self) {
        let mut phase = self.lock_phase();
        if *phase == Phase::Running {
            *phase = Phase::Stopping;
            self.stop_and_signal_all(Signal::TERM);
        }
    }

    /// Kills all processes; [`wait_and_reap`](Self::wait_and_reap) waits for them.
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
            // It may be dead already.
            let _ = kill_process(self.leader, signal);
        }
    }

    /// Reaps the leader, which is about to exit or has exited.
    pub(super) fn reap_leader(&self, child: &mut Child) {
        // The wait needs no lock; only the reaping does.
        let waiting = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.leader), waiting));
        let mut phase = self.lock_phase();
        *phase = Phase::Reaped;
        drop(child.wait());
    }

    /// Waits for the shell to exit, ends its left-over processes and reaps it.
    ///
    /// Blocks as long as the shell runs, and at most [`LEFT_OVER_GRACE`] + [`KILL_GRACE`] +
    /// [`KILL_DEADLINE`] longer.
    pub(super) fn wait_and_reap(&self, child: &mut Child) -> ProgramExit {
        let waiting = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Fails where the system reaps by itself because SIGCHLD is ignored: no status then.
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

    /// Ends the processes that outlived the shell, with SIGTERM first, and returns their number.
    fn end_left_overs(&self) -> usize {
        let left_over = self.wait_until_empty(LEFT_OVER_GRACE);
        let mut left = left_over;
        if left > 0 {
            self.terminate();
            left = self.wait_until_empty(KILL_GRACE);
        }
        let deadline = Instant::now() + KILL_DEADLINE;
        while left > 0 && Instant::now() < deadline {
            self.kill();
            left = self.wait_until_empty(SWEEP_INTERVAL);
        }
        // Outside Linux there is no count, and only the group is known.
        let _ = kill_process_group(self.leader, Signal::KILL);
        left_over
    }

    /// Waits until no process is left, for at most `within`, and returns the number that is left.
    fn wait_until_empty(&self, within: Duration) -> usize {
        let deadline = Instant::now() + within;
        loop {
            let left = self.descendants.count();
            if left == 0 || Instant::now() >= deadline {
                return left;
            }
            thread::sleep(SWEEP_INTERVAL);
        }
    }

    /// Must be called with the phase locked. A process that has already exited is not an error.
    fn stop_and_signal_all(&self, signal: Signal) {
        // All are stopped first, the group as one, so that none escapes between being found and
        // being signalled: by forking, by leaving the group, or as the shell's next command.
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
