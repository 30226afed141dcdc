//! Starts programs and ends them with all their descendants, on Unix.
//!
//! There are two ways to end a program and its descendants. A *helper* is another process of this
//! program, which starts the command's program and ends it on request. On Linux, the kernel makes
//! the helper the parent of every orphan beneath it, so that no process escapes. Helpers require
//! that the embedder's `main` has called [`run_if_command_helper`]. Without a helper, the processes
//! are searched for from [outside](group), and some processes can escape.

#[cfg_attr(target_os = "linux", path = "tree/descendants_linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "tree/descendants_portable.rs")]
mod descendants;
mod group;
#[cfg_attr(target_os = "linux", path = "tree/helper_linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "tree/helper_portable.rs")]
mod helper;
#[cfg(target_os = "linux")]
mod proc_table;
mod signals;
mod streams;
#[cfg(target_os = "linux")]
mod subtree;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg_attr(target_os = "linux", path = "tree/waiting_linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "tree/waiting_portable.rs")]
mod waiting;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use callboard_text::path_text;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, ioctl_tiocsctty, setrlimit, setsid};

use self::group::LeaderAndDescendants;
pub(crate) use self::helper::run_if_command_helper;
pub(crate) use self::streams::{
    ChildStdio, OutputReader, StopReadOnDrop, TerminalWriter, open_output,
    open_socket_and_error_pipe, terminal_writer,
};
use crate::program::{
    COMMAND_ID_VARIABLE, ProgramExit, SpawnSpec, StdioLayout, Supervision, refuse_sandbox,
};

/// Request to a helper to send SIGTERM to all processes.
const TERMINATE: u8 = b't';
/// Request to a helper to send SIGKILL to all processes.
const KILL: u8 = b'k';

/// Returns the best available kind of supervision in this process.
pub(crate) fn best_supervision() -> Supervision {
    if helper::is_available() { Supervision::Helper } else { Supervision::Outside }
}

/// The processes of one program.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    /// The process group whose leader is the program or its helper.
    group: LeaderAndDescendants,
    helper: Option<helper::HelperSocket>,
    /// Path of the program's terminal, if it has one.
    terminal: Option<PathBuf>,
}

/// A handle that waits for the exit of a [`ProcessTree`].
#[derive(Debug)]
pub(crate) struct ExitWaiter {
    child: Child,
    report_reader: Option<helper::HelperReportReader>,
    /// The program's end of the terminal. It is held open until the exit, because a command may
    /// close its terminal and open it again.
    _end: Option<ChildStdio>,
}

/// Starts a program in a new session.
///
/// Call this function on a thread that lives until the program exits. If the thread ends earlier,
/// the kernel kills the program.
pub(crate) fn start(
    program: &SpawnSpec<'_>,
    end: ChildStdio,
    supervision: Supervision,
) -> io::Result<(ProcessTree, ExitWaiter)> {
    let terminal = end.terminal.clone();
    let explain = |error| explain_start_error(error, program.cwd);
    if supervision == Supervision::Helper {
        let (child, link, told) = helper::start_helper(program, end).map_err(explain)?;
        let group = LeaderAndDescendants::new(&child, program.command_id);
        let tree = ProcessTree { group, helper: Some(link), terminal };
        return Ok((tree, ExitWaiter { child, report_reader: Some(told), _end: None }));
    }
    refuse_sandbox(program)?;
    let mut command = new_session_command(&program.argv, end.layout)?;
    command
        .current_dir(program.cwd)
        .env_clear()
        .envs(program.env)
        .env(COMMAND_ID_VARIABLE, program.command_id);
    command.stdin(match end.layout {
        StdioLayout::Terminal { typed: true, .. } | StdioLayout::Socket => {
            Stdio::from(end.output.try_clone()?)
        }
        _ => Stdio::null(),
    });
    let errors = end.errors.as_ref().unwrap_or(&end.output).try_clone()?;
    let child = command.stdout(end.output.try_clone()?).stderr(errors).spawn();
    // `command` owns copies of the program's streams. If this process kept them, readers would not
    // notice that the program has closed its streams.
    drop(command);
    let child = child.map_err(explain)?;
    let group = LeaderAndDescendants::new(&child, program.command_id);
    let end = terminal.is_some().then_some(end);
    Ok((
        ProcessTree { group, helper: None, terminal },
        ExitWaiter { child, report_reader: None, _end: end },
    ))
}

/// Adds the name of the missing file to an error, because the system's error does not contain it.
fn explain_start_error(error: io::Error, cwd: &Path) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let why = if !cwd.is_dir() {
        format!("the folder {} does not exist any more", path_text(cwd))
    } else if cfg!(target_os = "linux") && !Path::new(OWN_PROGRAM).exists() {
        "/proc is not mounted, and without it no command can be kept and ended. Ask the user to \
         mount it (mount -t proc proc /proc)"
            .to_owned()
    } else {
        return error;
    };
    io::Error::new(error.kind(), why)
}

/// Path of the program that is started as a helper.
const OWN_PROGRAM: &str = "/proc/self/exe";

impl ProcessTree {
    /// Returns whether one of the processes waits for terminal input; returns false on systems
    /// where such waiting cannot be detected. The check takes some milliseconds.
    pub(crate) fn waits_for_input(&self) -> bool {
        let (terminal, leader) = (self.terminal.as_deref(), self.group.live_leader());
        terminal
            .zip(leader)
            .is_some_and(|(terminal, leader)| waiting::waits_for_input(leader, terminal))
    }

    /// Returns whether a helper signals the processes on request. Without a helper, the processes
    /// are searched for, which takes some milliseconds.
    pub(crate) fn can_signal_without_search(&self) -> bool {
        self.helper.is_some()
    }

    /// Sends SIGTERM to all processes, once.
    pub(crate) fn terminate(&self) {
        match &self.helper {
            Some(helper) => helper.send_request(TERMINATE),
            None => self.group.terminate(),
        }
    }

    /// Kills all processes; [`wait_and_end_left_overs`](Self::wait_and_end_left_overs) waits for
    /// them.
    pub(crate) fn kill(&self) {
        match &self.helper {
            Some(helper) => {
                helper.send_request(KILL);
                // A command may have stopped the helper.
                self.group.signal_leader(Signal::CONT);
            }
            None => self.group.kill(),
        }
    }

    /// Kills a helper that did not respond; the processes of that helper are then searched for from
    /// outside.
    pub(crate) fn kill_helper(&self) {
        if self.helper.is_some() {
            self.group.signal_leader(Signal::KILL);
        }
    }

    /// Waits for the program to exit, ends its left-over processes and reaps it.
    ///
    /// The call blocks while the program runs. After that, it may block for another
    /// [`LEFT_OVER_GRACE`] + [`KILL_GRACE`] + [`KILL_DEADLINE`] at most.
    ///
    /// # Errors
    /// Returns an error if the program was not started.
    ///
    /// [`LEFT_OVER_GRACE`]: crate::limits::LEFT_OVER_GRACE
    /// [`KILL_GRACE`]: crate::limits::KILL_GRACE
    /// [`KILL_DEADLINE`]: crate::limits::KILL_DEADLINE
    pub(crate) fn wait_and_end_left_overs(
        &self,
        mut waiter: ExitWaiter,
    ) -> io::Result<ProgramExit> {
        match waiter.report_reader.take().and_then(helper::HelperReportReader::read_report) {
            Some(ended) => {
                self.group.reap_leader(&mut waiter.child);
                ended.map_err(io::Error::other)
            }
            None => match self.group.wait_and_end_left_overs(&mut waiter.child) {
                // The helper exited by itself without a report, so it exited before it could start
                // the program.
                ended if self.helper.is_some() && ended.code.is_some() => {
                    Err(io::Error::other("its helper failed"))
                }
                ended => Ok(ended),
            },
        }
    }
}

/// Returns a command that leads a new session and dies with the thread that starts it. If the
/// command's standard output is a terminal, this terminal is its controlling terminal.
#[expect(unsafe_code, reason = "a session can only be begun by the new process itself")]
fn new_session_command(argv: &[impl AsRef<str>], layout: StdioLayout) -> io::Result<Command> {
    let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program.as_ref());
    command.args(args.iter().map(AsRef::as_ref));
    // SAFETY: `set_up_child` makes system calls only; it takes no lock and allocates no memory.
    unsafe { command.pre_exec(move || set_up_child(layout)) };
    Ok(command)
}

/// Prepares the child process between `fork` and `exec`.
fn set_up_child(layout: StdioLayout) -> io::Result<()> {
    reset_ignored_signals();
    setsid()?;
    if matches!(layout, StdioLayout::Terminal { .. }) {
        ioctl_tiocsctty(rustix::stdio::stdout())?;
    }
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) })?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        helper::close_other_descriptors_on_exec();
    }
    Ok(())
}

/// Resets signals that our parent process ignored (e.g. after `nohup`): otherwise every command
/// would ignore them too.
fn reset_ignored_signals() {
    let ignored = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGCHLD];
    for signal in ignored.into_iter().chain([libc::SIGXFSZ]) {
        reset_signal(signal);
    }
}

/// Makes writes beyond the file size limit fail, instead of ending this process. `exec` resets
/// signal handlers, so started programs keep the default action.
#[expect(unsafe_code, reason = "no safe interface has it")]
pub(crate) fn ignore_file_size_signal() {
    extern "C" fn empty_signal_handler(_: libc::c_int) {}
    // SAFETY: the handler does nothing, which is safe in every context.
    unsafe { libc::signal(libc::SIGXFSZ, empty_signal_handler as *const () as libc::sighandler_t) };
}

#[expect(unsafe_code, reason = "no safe interface has it")]
fn reset_signal(signal: libc::c_int) {
    // SAFETY: `SIG_DFL` is the default action and not a function of this program.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
