//! The helper: starts one program, and keeps everything that comes of it.
//!
//! Knows nothing of commands or what they print. It is a *child subreaper*: whatever its
//! descendants do to get away (sessions of their own, double forks, deafness to signals), they are
//! its descendants as long as they live, and it is done when it has no child left.
//!
//! One thread decides. One waits for children to end and one for requests; both tell it. They are
//! there before the program is: without them nobody would end it.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, setsid, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdout};
use serde::{Deserialize, Serialize};

use super::signals::signal_name;
use super::{KILL, TERMINATE, reset_ignored_signals, session_command, subtree};
use crate::limits::{KILL_DEADLINE, KILL_GRACE, LEFT_OVER_GRACE, SWEEP_INTERVAL};
use crate::program::{ProgramExit, RawResourceUsage, StdioKind};

/// What a helper starts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpawnOrder {
    pub(super) argv: Vec<String>,
    pub(super) shape: StdioKind,
}

/// What a helper says in the end, or why there was no beginning.
pub(super) type HelperReport = Result<ProgramExit, String>;

/// Writes a line.
pub(super) fn write_json_line(mut socket: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    socket.write_all(&line)
}

/// Does what a helper does, from its first moment to its last.
pub(super) fn run() -> io::Result<()> {
    close_range(0);
    // If whoever started us ignores SIGCHLD, so would we, and never learn how the program ended.
    reset_ignored_signals();
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut requests = BufReader::new(socket.try_clone()?);
    set_child_subreaper(Some(getpid()))?;
    // Should a command have stopped us, the end of whoever started us lets us go on.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    // What is typed at their terminal, if they have one, is not for us.
    setsid()?;
    // As `ps` shows it; nothing depends on it.
    drop(fs::write("/proc/self/comm", "command-keeper"));

    let mut line = Vec::new();
    requests.read_until(b'\n', &mut line)?;
    let order = serde_json::from_slice(&line)?;
    let (sender, events) = channel();
    let reaped = sender.clone();
    let (begin, begun) = channel();
    let named = |name: &str| thread::Builder::new().name(name.into());
    named("reaper").spawn(move || begun.recv().map(|program| reap(program, &reaped)))?;
    named("requests").spawn(move || read_requests(requests, &sender))?;
    let program = match spawn(&order) {
        Ok(program) => program,
        Err(error) => return write_json_line(&socket, &HelperReport::Err(error.to_string())),
    };
    begin.send(program).map_err(io::Error::other)?;
    let supervisor = Supervisor {
        program,
        events,
        status: None,
        asked: false,
        stopped: false,
        killed: false,
        gone: false,
    };
    write_json_line(&socket, &HelperReport::Ok(supervisor.supervise()))
}

fn spawn(order: &SpawnOrder) -> io::Result<Pid> {
    let mut command = session_command(&order.argv, order.shape)?;
    command.stdin(match order.shape {
        StdioKind::Terminal { typed: true, .. } => Stdio::from(stdout().try_clone_to_owned()?),
        _ => Stdio::null(),
    });
    let program = Pid::from_child(&command.spawn()?);
    let null = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
    dup2_stdin(&null)?;
    // A pipe ends with its last writer, who must not be us. A terminal is held until the end: a
    // command may close it and open it again.
    if order.shape == StdioKind::Pipe {
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
    }
    Ok(program)
}

enum Event {
    Terminate,
    /// Asked for, or nobody is there to ask.
    Kill,
    /// The program ended; what it started may not have.
    Exited(WaitStatus),
    /// There is no child left, and so no descendant.
    AllGone,
}

/// Reaps whatever ends, until nothing is left.
fn reap(program: Pid, events: &Sender<Event>) {
    loop {
        let event = match retry_on_intr(|| wait(WaitOptions::empty())) {
            Ok(Some((ended, status))) if ended == program => Event::Exited(status),
            Ok(_) => continue,
            Err(_) => Event::AllGone,
        };
        let is_last = matches!(event, Event::AllGone);
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

fn read_requests(mut requests: BufReader<UnixStream>, events: &Sender<Event>) {
    let mut request = [0];
    loop {
        let event = match requests.read(&mut request) {
            Ok(1) if request == [TERMINATE] => Event::Terminate,
            Ok(1) if request != [KILL] => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            _ => Event::Kill,
        };
        let is_last = matches!(event, Event::Kill);
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

struct Supervisor {
    /// Its id is that of its process group, too, until it is reaped.
    program: Pid,
    events: Receiver<Event>,
    status: Option<WaitStatus>,
    asked: bool,
    /// Asked to end before the program did.
    stopped: bool,
    killed: bool,
    gone: bool,
}

impl Supervisor {
    fn supervise(mut self) -> ProgramExit {
        while self.status.is_none() && !self.killed && !self.gone {
            self.handle_event(None);
        }
        if !self.killed {
            self.wait_until_gone(LEFT_OVER_GRACE);
        }
        let mut left_over = 0;
        if !self.gone && !self.killed {
            left_over = subtree::list_descendants(getpid()).len();
            self.terminate();
            self.wait_until_gone(KILL_GRACE);
        }
        self.kill();
        let status = self.status;
        ProgramExit {
            code: status.and_then(WaitStatus::exit_status),
            signal: status.and_then(WaitStatus::terminating_signal).map(signal_name),
            stopped: self.stopped,
            left_over,
            usage: Some(usage()),
        }
    }

    /// Waits for one event, and acts on it. False if there was none in time.
    fn handle_event(&mut self, within: Option<Duration>) -> bool {
        let event = match within {
            Some(within) => self.events.recv_timeout(within),
            None => self.events.recv().map_err(|_gone| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Terminate) => self.terminate(),
            Ok(Event::Kill) => {
                self.stopped |= self.status.is_none();
                self.killed = true;
            }
            Ok(Event::Exited(status)) => self.status = Some(status),
            Ok(Event::AllGone) => self.gone = true,
            Err(RecvTimeoutError::Timeout) => return false,
            // Both threads are gone, and nothing comes any more.
            Err(RecvTimeoutError::Disconnected) => (self.gone, self.killed) = (true, true),
        }
        true
    }

    /// Waits until nothing is left, somebody asks for more, or time is up.
    fn wait_until_gone(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        let killed = self.killed;
        while !self.gone && self.killed == killed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.handle_event(Some(left)) {
                return;
            }
        }
    }

    /// Asks all to end. Once, as programs take a second signal for impatience.
    fn terminate(&mut self) {
        if self.asked {
            return;
        }
        self.asked = true;
        self.stopped = self.status.is_none();
        // Stopped first, so that nothing gets away between being found and being signalled: by
        // forking, or as the shell's next command. Most are in one group, and stop while the others
        // are looked for.
        self.signal_group(Signal::STOP);
        let found = subtree::freeze(getpid());
        // Who waits for another has a signal of its own before that one's end is news.
        for signal in [Signal::TERM, Signal::CONT] {
            found.iter().for_each(|process| process.signal(signal));
        }
    }

    fn signal_group(&self, signal: Signal) {
        if self.status.is_none() {
            // It may have ended a moment ago, with all its group.
            let _ = kill_process_group(self.program, signal);
        }
    }

    /// Kills whatever is found until nothing is. A process of another user may stay, and one that
    /// waits for a dead disk.
    fn kill(&mut self) {
        let deadline = Instant::now() + KILL_DEADLINE;
        self.signal_group(Signal::KILL);
        while !self.gone && Instant::now() < deadline {
            subtree::visit_descendants(getpid(), |found| found.signal(Signal::KILL));
            self.wait_until_gone(SWEEP_INTERVAL);
        }
    }
}

/// What all those used that were reaped, and those that they reaped.
#[expect(unsafe_code, reason = "no safe interface has it")]
fn usage() -> RawResourceUsage {
    // SAFETY: plain numbers, of which all zeros is a value; filled in by the call.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it points to a value of the right type that lives on.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let micros =
        |time: libc::timeval| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
    RawResourceUsage {
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
    }
}

/// Closes all descriptors but the standard streams, now or upon `exec`. Before Linux 5.11 nothing.
#[expect(unsafe_code, reason = "no safe interface has it")]
pub(super) fn close_range(flags: libc::c_uint) {
    // SAFETY: a helper has opened none when it begins, and later they are closed only in a process
    // that becomes another program.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, flags) };
}
