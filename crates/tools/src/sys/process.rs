//! Ends whole trees of processes and reads terminals, on Unix.
//!
//! Knows nothing of commands or what they print.
//!
//! A command's processes are its shell's process group and, on Linux, also everything that is in
//! the shell's session, that descends from it, or that has [`MARK`] in its environment. What
//! escapes: a process that changed its session *and* whose parents are gone *and* whose
//! environment was cleared; one that runs as another user; and, outside Linux, whatever left the
//! group.
//!
//! The shell is reaped last. Until then its id, which is also that of its group and session,
//! cannot be given to anybody else, and after that nothing is signalled any more.

#[cfg_attr(target_os = "linux", path = "process/kin_linux.rs")]
mod kin;

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, MasterPty};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use self::kin::Kin;
use crate::limits::{KILL_DEADLINE, KILL_GRACE, LEFT_OVER_GRACE, SWEEP_INTERVAL};

/// The environment variable that all processes of a command have, each command with its own value.
pub(crate) const MARK: &str = "ACP_TOOLS_COMMAND";

/// What there is to say of a command whose processes are gone.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The shell's exit code, if it exited.
    pub(crate) code: Option<i32>,
    /// The signal that ended it otherwise, as `SIGKILL`.
    pub(crate) signal: Option<String>,
    /// Whether it had been asked to stop before it ended.
    pub(crate) stopped: bool,
    /// How many processes did not end by themselves after the shell.
    pub(crate) left_over: usize,
}

/// The processes of one command.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The shell, whose id is also that of its process group and session.
    leader: Pid,
    kin: Kin,
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

impl Tree {
    /// The tree whose shell is `child`, started with `mark` as the value of [`MARK`].
    ///
    /// # Errors
    /// If the child has no id, which does not happen on Unix.
    pub(crate) fn of(child: &dyn Child, mark: &str) -> io::Result<Self> {
        let id = child.process_id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let leader = id.ok_or_else(|| io::Error::other("the shell has no process id"))?;
        Ok(Self {
            leader,
            kin: Kin::of(leader, format!("{MARK}={mark}")),
            phase: Mutex::new(Phase::Running),
        })
    }

    /// Asks all processes to end, once.
    pub(crate) fn terminate(&self) {
        let mut phase = self.phase();
        if *phase == Phase::Running {
            *phase = Phase::Stopping;
            self.signal(Signal::TERM);
        }
    }

    /// Kills all processes, and leaves the waiting to [`end`](Self::end).
    pub(crate) fn kill(&self) {
        let phase = self.phase();
        if *phase != Phase::Reaped {
            self.signal(Signal::KILL);
        }
    }

    /// Waits for the shell's end, ends what it left behind and reaps it.
    ///
    /// Blocks as long as the shell runs, and [`LEFT_OVER_GRACE`] + [`KILL_GRACE`] +
    /// [`KILL_DEADLINE`] more at most.
    pub(crate) fn end(&self, mut child: Box<dyn Child + Send + Sync>) -> Ended {
        let waiting = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Fails where the system reaps by itself because SIGCHLD is ignored: no status then.
        let status = retry_on_intr(|| waitid(WaitId::Pid(self.leader), waiting)).ok().flatten();
        let stopped = *self.phase() == Phase::Stopping;
        let left_over = self.sweep();
        let mut phase = self.phase();
        *phase = Phase::Reaped;
        drop(child.wait());
        Ended {
            code: status.as_ref().and_then(WaitIdStatus::exit_status),
            signal: status.as_ref().and_then(WaitIdStatus::terminating_signal).map(signal_name),
            stopped,
            left_over,
        }
    }

    /// Ends what outlived the shell, politely first, and says how many there were.
    fn sweep(&self) -> usize {
        let left_over = self.settle(LEFT_OVER_GRACE);
        let mut left = left_over;
        if left > 0 {
            self.terminate();
            left = self.settle(KILL_GRACE);
        }
        let deadline = Instant::now() + KILL_DEADLINE;
        while left > 0 && Instant::now() < deadline {
            self.kill();
            left = self.settle(SWEEP_INTERVAL);
        }
        // Outside Linux nothing was counted, and the group is all that is known.
        let _ = kill_process_group(self.leader, Signal::KILL);
        left_over
    }

    /// Waits until nothing is left, but no longer than `within`, and says how much is.
    fn settle(&self, within: Duration) -> usize {
        let deadline = Instant::now() + within;
        loop {
            let left = self.kin.count();
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
        let strays = self.kin.freeze();
        for signal in [signal, Signal::CONT] {
            let _ = kill_process_group(self.leader, signal);
            strays.signal(signal);
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the reading side of a terminal.
pub(crate) fn open(master: Box<dyn MasterPty + Send>) -> io::Result<(Terminal, Reading)> {
    let (stopped, reading) = io::pipe()?;
    let master = File::from(duplicate(master.as_ref())?);
    Ok((Terminal { master, stopped }, Reading { _pipe: reading }))
}

/// The descriptor of a terminal as one of our own, to wait for it and something else at once.
#[expect(unsafe_code, reason = "portable-pty lends its descriptor as a number only")]
fn duplicate(master: &dyn MasterPty) -> io::Result<OwnedFd> {
    let fd =
        master.as_raw_fd().ok_or_else(|| io::Error::other("the terminal has no descriptor"))?;
    // SAFETY: `master` owns the descriptor and is borrowed until this function returns.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

/// The side of a terminal that shows what was written.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: File,
    stopped: PipeReader,
}

/// Lets the reader of a [`Terminal`] wait for more.
#[derive(Debug)]
pub(crate) struct Reading {
    _pipe: PipeWriter,
}

impl Terminal {
    /// Waits for output. 0 once the terminal is closed, or all is read that was written before the
    /// [`Reading`] was dropped.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut waiting =
            [PollFd::new(&self.master, PollFlags::IN), PollFd::new(&self.stopped, PollFlags::IN)];
        retry_on_intr(|| poll(&mut waiting, None))?;
        if waiting[0].revents().is_empty() {
            return Ok(0);
        }
        match self.master.read(buffer) {
            // How Linux says that nobody has the terminal open any more.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }
}

fn signal_name(number: i32) -> String {
    match SIGNALS.iter().find(|(signal, _)| signal.as_raw() == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("SIG{number}"),
    }
}

const SIGNALS: [(Signal, &str); 28] = [
    (Signal::ABORT, "SIGABRT"),
    (Signal::ALARM, "SIGALRM"),
    (Signal::BUS, "SIGBUS"),
    (Signal::CHILD, "SIGCHLD"),
    (Signal::CONT, "SIGCONT"),
    (Signal::FPE, "SIGFPE"),
    (Signal::HUP, "SIGHUP"),
    (Signal::ILL, "SIGILL"),
    (Signal::INT, "SIGINT"),
    (Signal::IO, "SIGIO"),
    (Signal::KILL, "SIGKILL"),
    (Signal::PIPE, "SIGPIPE"),
    (Signal::PROF, "SIGPROF"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::STOP, "SIGSTOP"),
    (Signal::SYS, "SIGSYS"),
    (Signal::TERM, "SIGTERM"),
    (Signal::TRAP, "SIGTRAP"),
    (Signal::TSTP, "SIGTSTP"),
    (Signal::TTIN, "SIGTTIN"),
    (Signal::TTOU, "SIGTTOU"),
    (Signal::URG, "SIGURG"),
    (Signal::USR1, "SIGUSR1"),
    (Signal::USR2, "SIGUSR2"),
    (Signal::VTALARM, "SIGVTALRM"),
    (Signal::XCPU, "SIGXCPU"),
    (Signal::XFSZ, "SIGXFSZ"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names() {
        for (number, name) in [(9, "SIGKILL"), (15, "SIGTERM"), (11, "SIGSEGV"), (64, "SIG64")] {
            assert_eq!(signal_name(number), name);
        }
    }
}
