//! Records which functions a program calls to open a session and to end.
//!
//! Each function begins with a breakpoint, which is removed when a thread reaches it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// How long the program may take to open a session, and then to end.
const DEADLINE: Duration = Duration::from_secs(60);

/// The instruction `int3`.
const BREAKPOINT: u8 = 0xcc;

/// The number of the system call `prctl`, and its first argument for [`Tracer::stays_dumpable`].
const PRCTL: u64 = 157;
const PR_SET_DUMPABLE: u64 = 4;

/// Runs a program, opens a session in it, and waits until it has ended. Returns which of `functions`
/// were called, in the order of their first calls, also by further processes of the program.
/// Functions are addresses relative to the start of the program.
///
/// # Errors
///
/// Returns an error if the program cannot be traced, or if it opens no session.
pub(super) fn called_functions(program: &Path, functions: Vec<u64>) -> io::Result<Vec<u64>> {
    let home = program.with_extension("home");
    fs::create_dir_all(&home)?;
    let called = trace_with_home(&home, &program.canonicalize()?, functions);
    fs::remove_dir_all(&home).ok();
    called
}

fn trace_with_home(home: &Path, program: &Path, functions: Vec<u64>) -> io::Result<Vec<u64>> {
    // The shell stops itself before it starts the program, so that the program is traced from its
    // beginning.
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -STOP $$; exec \"$0\" acp --model direct"]).arg(program);
    shell.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").current_dir(home);
    // The state of the program may not lie in the folder of a session.
    let cwd = home.join("project");
    fs::create_dir_all(&cwd)?;
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(input), Some(output)) = (shell.stdin.take(), shell.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let process = Pid::from_raw(shell.id().try_into().map_err(io::Error::other)?);
    let mut tracer = Tracer {
        program,
        functions,
        process,
        stays_dumpable: false,
        bytes: HashMap::new(),
        called: Vec::new(),
    };
    let (traced, has_opened) = thread::scope(|scope| {
        let (ends, ended) = mpsc::channel::<()>();
        let opened = scope.spawn(|| open_session_or_kill(process, input, output, &cwd, ended));
        let traced = tracer.trace();
        if traced.is_err() {
            // The process is stopped, and would never end.
            shell.kill().ok();
        }
        drop(ends);
        (traced, opened.join())
    });
    traced?;
    match has_opened {
        Ok(true) => Ok(tracer.called),
        _ => Err(io::Error::other("the program opened no session")),
    }
}

/// Opens a session as a client, closes the input, and waits for `ended`. Kills the process if one
/// of the two takes too long. Returns whether the session was opened.
fn open_session_or_kill(
    process: Pid,
    mut input: ChildStdin,
    output: ChildStdout,
    cwd: &Path,
    ended: Receiver<()>,
) -> bool {
    let client = json!({"protocolVersion": 1, "clientCapabilities": {}});
    let initialize = request(1, "initialize", client);
    let new = request(2, "session/new", json!({"cwd": cwd, "mcpServers": []}));
    let (sender, opened) = mpsc::channel();
    thread::spawn(move || {
        let written = input.write_all(format!("{initialize}\n{new}\n").as_bytes());
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let messages = lines.map_while(|line| serde_json::from_str::<Value>(&line).ok());
        let answer = messages.take_while(|_| written.is_ok()).find(|message| message["id"] == 2);
        let session = answer.map(|answer| answer["result"]["sessionId"].is_string());
        // The input is closed now, so the process ends.
        sender.send(session == Some(true)).ok();
    });
    let opened = opened.recv_timeout(DEADLINE);
    if opened.is_err() || ended.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout) {
        kill(process, Signal::SIGKILL).ok();
    }
    opened == Ok(true)
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

struct Tracer<'a> {
    program: &'a Path,
    functions: Vec<u64>,
    process: Pid,
    /// Whether the system call by which the process becomes undumpable was skipped. After this call,
    /// an ordinary user could no longer trace the process.
    stays_dumpable: bool,
    /// The first bytes of the functions, which the breakpoints replace.
    bytes: HashMap<u64, u8>,
    called: Vec<u64>,
}

impl Tracer<'_> {
    /// Traces the stopped process, its threads and its child processes until the process has exited.
    fn trace(&mut self) -> io::Result<()> {
        waitpid(self.process, Some(WaitPidFlag::WUNTRACED))?;
        let options = [
            Options::PTRACE_O_EXITKILL,
            Options::PTRACE_O_TRACECLONE,
            Options::PTRACE_O_TRACEEXEC,
            Options::PTRACE_O_TRACEFORK,
            Options::PTRACE_O_TRACESYSGOOD,
            Options::PTRACE_O_TRACEVFORK,
        ];
        ptrace::seize(self.process, options.into_iter().collect())?;
        kill(self.process, Signal::SIGCONT)?;
        // The children of other threads belong to other callers.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            let status = waitpid(None, Some(flags))?;
            let (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) = status else {
                self.handle_stop(status)?;
                continue;
            };
            if pid == self.process {
                return Ok(());
            }
        }
    }

    /// Handles the stop of a thread, and lets the thread continue.
    fn handle_stop(&mut self, status: WaitStatus) -> io::Result<()> {
        let Some(thread) = status.pid() else { return Ok(()) };
        let signal = self.signal_after_stop(thread, status);
        let watches_calls = thread == self.process && !self.stays_dumpable;
        let resume = if watches_calls { ptrace::syscall } else { ptrace::cont };
        match signal.and_then(|signal| Ok(resume(thread, signal)?)) {
            // The thread was killed while it was stopped.
            Err(_) if ptrace::getregs(thread).is_err() => Ok(()),
            resumed => resumed,
        }
    }

    /// Returns the signal that the thread gets after this stop.
    fn signal_after_stop(&mut self, thread: Pid, status: WaitStatus) -> io::Result<Option<Signal>> {
        match status {
            WaitStatus::PtraceEvent(_, _, event) => {
                if event == ptrace::Event::PTRACE_EVENT_EXEC as i32 {
                    self.set_breakpoints(thread)?;
                }
                Ok(None)
            }
            WaitStatus::PtraceSyscall(_) => self.skip_undumpable(thread).map(|()| None),
            WaitStatus::Stopped(_, Signal::SIGTRAP) if self.remove_breakpoint(thread)? => Ok(None),
            WaitStatus::Stopped(_, signal) => Ok(Some(signal)),
            _ => Ok(None),
        }
    }

    /// Skips the system call by which the process becomes undumpable.
    fn skip_undumpable(&mut self, thread: Pid) -> io::Result<()> {
        let mut registers = ptrace::getregs(thread)?;
        if (registers.orig_rax, registers.rdi) == (PRCTL, PR_SET_DUMPABLE) {
            (registers.orig_rax, registers.rax) = (u64::MAX, 0);
            ptrace::setregs(thread, registers)?;
            self.stays_dumpable = true;
        }
        Ok(())
    }

    /// Sets a breakpoint at each function, unless the process runs another program.
    fn set_breakpoints(&mut self, process: Pid) -> io::Result<()> {
        let Some(start) = self.program_start(process)? else { return Ok(()) };
        let memory = open_memory(process)?;
        for function in &self.functions {
            let mut byte = [0];
            memory.read_exact_at(&mut byte, start + function)?;
            memory.write_all_at(&[BREAKPOINT], start + function)?;
            self.bytes.insert(*function, byte[0]);
        }
        Ok(())
    }

    /// Removes the breakpoint that a thread has reached, and records its function. Returns false if
    /// the thread is at no breakpoint.
    fn remove_breakpoint(&mut self, thread: Pid) -> io::Result<bool> {
        let Some(start) = self.program_start(thread)? else { return Ok(false) };
        let mut registers = ptrace::getregs(thread)?;
        let address = registers.rip - 1;
        let function = address.wrapping_sub(start);
        let Some(byte) = self.bytes.get(&function) else { return Ok(false) };
        open_memory(thread)?.write_all_at(&[*byte], address)?;
        registers.rip = address;
        ptrace::setregs(thread, registers)?;
        if !self.called.contains(&function) {
            self.called.push(function);
        }
        Ok(true)
    }

    /// Returns the address of the start of the program, or `None` if the process runs another one.
    fn program_start(&self, process: Pid) -> io::Result<Option<u64>> {
        let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
        let path = self.program.to_string_lossy();
        let line = maps.lines().find(|line| line.ends_with(&*path));
        let start = line.and_then(|line| line.split('-').next());
        Ok(start.and_then(|start| u64::from_str_radix(start, 16).ok()))
    }
}

fn open_memory(process: Pid) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{process}/mem"))
}
