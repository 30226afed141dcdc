//! The helper process, which starts one program and ends all of its descendants.
//!
//! The helper is a *child subreaper*: its descendants remain its descendants as long as they live.
//! Separate sessions, double forks or ignored signals do not change this. The helper has finished
//! when it has no child left.
//!
//! One thread makes all decisions. Two other threads wait for exits of children and for requests,
//! and send both as events to the first thread. Both threads are started before the program,
//! because without them the program could not be ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use callboard_sandbox::{
    Isolation, ProcessSession, SandboxCommand, SandboxReports, remove_unused_placeholders,
};
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
    set_child_subreaper, set_parent_process_death_signal, setsid, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdout};
use serde::{Deserialize, Serialize};

use super::signals::signal_name;
use super::{KILL, TERMINATE, new_session_command, reset_ignored_signals, subtree};
use crate::limits::{KILL_DEADLINE, KILL_GRACE, LEFT_OVER_GRACE, OOM_SCORE, SWEEP_INTERVAL};
use crate::program::{ProgramExit, RawResourceUsage, StdioLayout};
use crate::sandbox::CommandSandbox;

/// The program that a helper starts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpawnOrder {
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) layout: StdioLayout,
    pub(super) sandbox: Option<CommandSandbox>,
}

impl SpawnOrder {
    /// Returns the standard input of the program.
    fn open_stdin(&self) -> io::Result<OwnedFd> {
        match self.layout {
            StdioLayout::Terminal { typed: true, .. } | StdioLayout::Socket => {
                stdout().try_clone_to_owned()
            }
            _ => open_null(),
        }
    }

    /// Returns whether the program is the helper of a sandbox with namespaces. Such a helper is
    /// outside of the sandbox's process namespace.
    fn has_namespaces(&self) -> bool {
        self.sandbox.as_ref().is_some_and(|it| it.isolation == Isolation::Namespaces)
    }
}

/// The result that a helper sends at the end, or the reason why the program was not started.
pub(super) type HelperReport = Result<ProgramExit, String>;

/// Writes a value as one line of JSON.
pub(super) fn write_json_line(mut socket: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    socket.write_all(&line)
}

/// Runs the helper process until it has finished.
pub(super) fn run_helper() -> io::Result<()> {
    close_all_but_standard_streams(0);
    // If our parent process ignores SIGCHLD, this process has inherited the setting and could not
    // wait for the program.
    reset_ignored_signals();
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut requests = BufReader::new(socket.try_clone()?);
    set_child_subreaper(Some(getpid()))?;
    // If a command has stopped this helper, the kernel continues the helper when our parent process
    // exits.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    // Signals from the keyboard of our parent's terminal, if it has one, must not reach the helper.
    setsid()?;
    raise_oom_score();
    // The name that `ps` shows; no code depends on it.
    drop(fs::write("/proc/self/comm", "command-keeper"));

    let mut line = Vec::new();
    requests.read_until(b'\n', &mut line)?;
    let order: SpawnOrder = serde_json::from_slice(&line)?;
    let (sender, events) = channel();
    let reaped = sender.clone();
    let (begin, begun) = channel();
    // A sandbox is started by a fork, which requires that there is no other thread yet. If this
    // process ends, the kernel ends the sandbox.
    let sandboxed = order.sandbox.as_ref().map(|sandbox| spawn_in_sandbox(sandbox, &order));
    let named = |name: &str| thread::Builder::new().name(name.into());
    named("reaper").spawn(move || {
        begun.recv().map(|program| reap_children_and_send_events(program, &reaped))
    })?;
    named("requests").spawn(move || read_requests(requests, &sender))?;
    let spawned = match sandboxed {
        Some(spawned) => spawned.map(|(program, reports)| (program, Some(reports))),
        None => spawn_without_sandbox(&order).map(|program| (program, None)),
    };
    let (program, sandbox) = match spawned.and_then(|it| release_streams(&order).map(|()| it)) {
        Ok(spawned) => spawned,
        Err(error) => return write_json_line(&socket, &HelperReport::Err(error.to_string())),
    };
    begin.send(program).map_err(io::Error::other)?;
    let supervisor = Supervisor {
        program,
        passes_signals_on: order.has_namespaces(),
        events,
        status: None,
        asked: false,
        stopped: false,
        killed: false,
        gone: false,
    };
    let mut exit = supervisor.supervise();
    // All processes of the sandbox are gone, so this call does not wait.
    let end = sandbox.and_then(SandboxReports::wait_for_cleanup_report);
    exit.left_over += end.as_ref().map_or(0, |end| end.left_over);
    if let (Some(CommandSandbox { policy, .. }), None, true) =
        (&order.sandbox, end, order.has_namespaces())
    {
        // The helper of the sandbox was killed, so it could not remove its placeholders.
        remove_unused_placeholders(policy);
    }
    write_json_line(&socket, &HelperReport::Ok(exit))
}

/// Lets the kernel end the program before others when memory runs out.
fn raise_oom_score() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let score = fs::read_to_string(FILE).ok().and_then(|score| score.trim().parse().ok());
    if score.is_some_and(|score: i32| score < OOM_SCORE) {
        drop(fs::write(FILE, OOM_SCORE.to_string()));
    }
}

/// Starts the program without a sandbox.
fn spawn_without_sandbox(order: &SpawnOrder) -> io::Result<Pid> {
    let mut command = new_session_command(&order.argv, order.layout)?;
    let child = command.env_clear().envs(&order.env).stdin(order.open_stdin()?).spawn()?;
    Ok(Pid::from_child(&child))
}

/// Starts the program in a sandbox.
fn spawn_in_sandbox(
    sandbox: &CommandSandbox,
    order: &SpawnOrder,
) -> io::Result<(Pid, SandboxReports)> {
    let CommandSandbox { policy, isolation, network } = sandbox;
    let (program, args) = order.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let command = SandboxCommand::new(program, policy, *isolation, ProcessSession::New);
    let mut command = command.map_err(io::Error::other)?;
    if let Some(network) = network {
        command.join(network)?;
    }
    command.args(args).envs(&order.env);
    let (helper, reports) = command.fork(&order.open_stdin()?).map_err(io::Error::other)?;
    let helper = i32::try_from(helper).ok().and_then(Pid::from_raw);
    Ok((helper.ok_or(io::ErrorKind::InvalidData)?, reports))
}

/// Closes the streams that the program now has.
fn release_streams(order: &SpawnOrder) -> io::Result<()> {
    let null = open_null()?;
    dup2_stdin(&null)?;
    // Readers of a pipe or socket wait until the last writer closes it, so the helper must not hold
    // a pipe or socket open. The helper holds a terminal open until the end, because a command may
    // close the terminal and open it again.
    if !matches!(order.layout, StdioLayout::Terminal { .. }) {
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
    }
    Ok(())
}

fn open_null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

enum Event {
    Terminate,
    /// The parent process has requested SIGKILL, or the parent process is gone.
    Kill,
    /// The program exited; its children may still run.
    Exited(WaitStatus),
    /// The helper has no child left, and therefore no descendant.
    AllGone,
}

/// Reaps exited children until none is left.
fn reap_children_and_send_events(program: Pid, events: &Sender<Event>) {
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
    /// Process id of the program, which is also the id of its process group until the program is
    /// reaped.
    program: Pid,
    /// Whether the program passes SIGTERM on to its descendants.
    passes_signals_on: bool,
    events: Receiver<Event>,
    status: Option<WaitStatus>,
    asked: bool,
    /// Whether a request to stop preceded the program's exit.
    stopped: bool,
    killed: bool,
    gone: bool,
}

impl Supervisor {
    fn supervise(mut self) -> ProgramExit {
        while self.status.is_none() && !self.killed && !self.gone {
            self.handle_next_event(None);
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
            usage: Some(children_resource_usage()),
        }
    }

    /// Waits for one event and handles it. Returns false if no event arrived in time.
    fn handle_next_event(&mut self, within: Option<Duration>) -> bool {
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
            // Both event threads have ended, so no event will follow.
            Err(RecvTimeoutError::Disconnected) => (self.gone, self.killed) = (true, true),
        }
        true
    }

    /// Waits until no process is left, a stronger request arrives, or `within` has passed.
    fn wait_until_gone(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        let killed = self.killed;
        while !self.gone && self.killed == killed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.handle_next_event(Some(left)) {
                return;
            }
        }
    }

    /// Sends SIGTERM to all processes. SIGTERM is sent only once, because programs treat a second
    /// SIGTERM as an urgent request.
    fn terminate(&mut self) {
        if self.asked {
            return;
        }
        self.asked = true;
        self.stopped = self.status.is_none();
        if self.passes_signals_on && self.status.is_none() {
            // The program may have exited a moment ago.
            let _ = kill_process(self.program, Signal::TERM);
            return;
        }
        // All processes are stopped first. Otherwise a process could escape before it is signalled:
        // by a fork, or because the shell starts its next command. Most processes are in one group,
        // and stop while the others are searched for.
        self.signal_group(Signal::STOP);
        let found = subtree::stop_descendants(getpid());
        // SIGTERM is pending in every process before any process can observe the exit of another.
        for signal in [Signal::TERM, Signal::CONT] {
            found.iter().for_each(|process| process.signal(signal));
        }
    }

    fn signal_group(&self, signal: Signal) {
        if self.status.is_none() {
            // The program may have exited a moment ago, with all processes of its group.
            let _ = kill_process_group(self.program, signal);
        }
    }

    /// Kills all processes until none is left. A process of another user may remain, and so may a
    /// process that waits for a disk that does not respond.
    fn kill(&mut self) {
        let deadline = Instant::now() + KILL_DEADLINE;
        self.signal_group(Signal::KILL);
        while !self.gone && Instant::now() < deadline {
            subtree::visit_descendants(getpid(), |found| found.signal(Signal::KILL));
            self.wait_until_gone(SWEEP_INTERVAL);
        }
    }
}

/// Returns the resource usage of all reaped children and of the processes that those children
/// reaped.
#[expect(unsafe_code, reason = "no safe interface has it")]
fn children_resource_usage() -> RawResourceUsage {
    // SAFETY: `rusage` has only integer fields, for which zero is a valid value; `getrusage` fills
    // them in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer refers to a live value of the right type.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let micros =
        |time: libc::timeval| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
    RawResourceUsage {
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
    }
}

/// Closes all descriptors except the standard streams, either now or at `exec`. This function does
/// nothing before Linux 5.11.
#[expect(unsafe_code, reason = "no safe interface has it")]
pub(super) fn close_all_but_standard_streams(flags: libc::c_uint) {
    // SAFETY: a new helper has opened no descriptor that this call could close, and later calls
    // affect only a process that is about to `exec`.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, flags) };
}
