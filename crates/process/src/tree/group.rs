//! Ends the processes of a command from outside of them.
//!
//! Knows nothing of commands or what they print, nor of helpers.
//!
//! The processes are the leader's process group and, on Linux, also everything that is in its
//! session, that descends from it, or that has [`MARK`] in its environment. What escapes: a process
//! that changed its session *and* whose parents are gone *and* whose environment was cleared; one
//! that runs as another user; and, outside Linux, whatever left the group.
//!
//! The leader is reaped last. Until then its id, which is also that of its group and session,
//! cannot be given to anybody else, and after that nothing is signalled any more.

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

/// The processes of one command, as far as they can be found from where it was started.
#[derive(Debug)]
pub(super) struct Group {
    /// The shell, whose id is also that of its process group and session.
    leader: Pid,
    descendants: CommandProcesses,
    phase: Mutex<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Told to stop; not told twice, as programs take a second signal for impatience.
    Stopping,
    /// The shell's id is not ours to signal any more.
    Reaped,
}

impl Group {
    /// The processes of `leader`, who leads a session and was started with `mark` as the value of
    /// [`MARK`].
    pub(super) fn new(leader: &Child, mark: &str) -> Self {
        let leader = Pid::from_child(leader);
        let descendants = CommandProcesses::new(leader, format!("{COMMAND_ID_VARIABLE}={mark}"));
        Self { leader, descendants, phase: Mutex::new(Phase::Running) }
    }

    /// Asks all processes to end, once.
    pub(super) fn terminate(&self) {
        let mut phase = self.phase();
        if *phase == Phase::Running {
            *phase = Phase::Stopping;
            self.signal(Signal::TERM);
        }
    }

    /// Kills all processes, and leaves the waiting to [`end`](Self::end).
    pub(super) fn kill(&self) {
        let phase = self.phase();
        if *phase != Phase::Reaped {
            self.signal(Signal::KILL);
        }
    }

    /// The leader, unless it is gone.
    pub(super) fn leader(&self) -> Option<Pid> {
        (*self.phase() != Phase::Reaped).then_some(self.leader)
    }

    /// Sends a signal to the leader alone, unless it is gone.
    pub(super) fn signal_leader(&self, signal: Signal) {
        let phase = self.phase();
        if *phase != Phase::Reaped {
            // It may be dead already.
            let _ = kill_process(self.leader, signal);
        }
    }

    /// Reaps the leader, who is about to end or has ended.
    pub(super) fn reap(&self, child: &mut Child) {
        // It can be waited for without the lock, which is needed until its id is free.
        let waiting = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.leader), waiting));
        let mut phase = self.phase();
        *phase = Phase::Reaped;
        drop(child.wait());
    }

    /// Waits for the shell's end, ends what it left behind and reaps it.
    ///
    /// Blocks as long as the shell runs, and [`LEFT_OVER_GRACE`] + [`KILL_GRACE`] +
    /// [`KILL_DEADLINE`] more at most.
    pub(super) fn wait_and_reap(&self, child: &mut Child) -> ProgramExit {
        let waiting = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Fails where the system reaps by itself because SIGCHLD is ignored: no status then.
        let status = retry_on_intr(|| waitid(WaitId::Pid(self.leader), waiting)).ok().flatten();
        let stopped = *self.phase() == Phase::Stopping;
        let left_over = self.end_left_overs();
        let mut phase = self.phase();
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

    /// Ends what outlived the shell, politely first, and says how many there were.
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
        // Outside Linux nothing was counted, and the group is all that is known.
        let _ = kill_process_group(self.leader, Signal::KILL);
        left_over
    }

    /// Waits until nothing is left, but no longer than `within`, and says how much is.
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

    /// To be called with the phase locked. A process that is gone already is no error.
    fn signal(&self, signal: Signal) {
        // Stopped first, the group as one, so that nothing gets away between being found and being
        // signalled: by forking, by leaving the group, or as the shell's next command.
        let _ = kill_process_group(self.leader, Signal::STOP);
        let strays = self.descendants.freeze();
        for signal in [signal, Signal::CONT] {
            let _ = kill_process_group(self.leader, signal);
            strays.signal(signal);
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        lock(&self.phase)
    }
}
