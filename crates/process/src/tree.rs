//! Starts programs and ends them with all that they started, on Unix.
//!
//! Knows nothing of commands or what they print.
//!
//! There are two ways. A *helper*, this program once more, starts the program and is told to end
//! it: the kernel gives every orphan beneath it to it, so that nothing gets away (Linux, and only
//! if the embedder's `main` has called [`init_command_helper`]). Without one the processes are looked for
//! from [outside](group), and some can get away.

#[cfg_attr(target_os = "linux", path = "tree/descendants_linux.rs")]
mod descendants;
mod group;
#[cfg_attr(target_os = "linux", path = "tree/helper_linux.rs")]
mod helper;
mod signals;
mod streams;
#[cfg(target_os = "linux")]
mod subtree;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod table;
#[cfg_attr(target_os = "linux", path = "tree/waiting_linux.rs")]
mod waiting;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use callboard_text::path_text;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, ioctl_tiocsctty, setrlimit, setsid};

use self::group::Group;
pub(crate) use self::helper::init_command_helper;
pub(crate) use self::streams::{End, Keys, Reading, Source, keys, open};
use crate::program::{Ended, MARK, Program, Shape, Supervision};

/// Asks a helper to ask all processes to end.
const TERMINATE: u8 = b't';
/// Asks it to kill them.
const KILL: u8 = b'k';

/// The best way there is in this process to keep processes together.
pub(crate) fn best_supervision() -> Supervision {
    if helper::is_there() { Supervision::Helper } else { Supervision::Outside }
}

/// The processes of one program.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Led by the program, or by its helper.
    group: Group,
    helper: Option<helper::Link>,
    /// Its terminal, if it has one.
    terminal: Option<PathBuf>,
}

/// Whoever waits for the end of a [`Tree`].
#[derive(Debug)]
pub(crate) struct Waiter {
    child: Child,
    told: Option<helper::Told>,
    /// Held until the end: a command may close its terminal and open it again.
    _end: Option<End>,
}

/// Starts a program in a session of its own.
///
/// To be called on a thread that stays until the end: the program dies with it.
pub(crate) fn start(
    program: &Program<'_>,
    end: End,
    supervision: Supervision,
) -> io::Result<(Tree, Waiter)> {
    let terminal = end.terminal.clone();
    let explain = |error| not_started(error, program.cwd);
    if supervision == Supervision::Helper {
        let (child, link, told) = helper::start(program, end).map_err(explain)?;
        let group = Group::of(&child, program.mark);
        let tree = Tree { group, helper: Some(link), terminal };
        return Ok((tree, Waiter { child, told: Some(told), _end: None }));
    }
    let mut command = command(&program.argv, end.shape)?;
    command.current_dir(program.cwd).env_clear().envs(program.env).env(MARK, program.mark);
    command.stdin(match end.shape {
        Shape::Terminal { typed: true, .. } => Stdio::from(end.output.try_clone()?),
        _ => Stdio::null(),
    });
    let child = command.stdout(end.output.try_clone()?).stderr(end.output.try_clone()?).spawn();
    let child = child.map_err(explain)?;
    let group = Group::of(&child, program.mark);
    let end = terminal.is_some().then_some(end);
    Ok((Tree { group, helper: None, terminal }, Waiter { child, told: None, _end: end }))
}

/// Says what is not there, which the system leaves open.
fn not_started(error: io::Error, cwd: &Path) -> io::Error {
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

/// What starts a helper.
const OWN_PROGRAM: &str = "/proc/self/exe";

impl Tree {
    /// Whether one of the processes waits for somebody to type something; false where that cannot
    /// be known. Takes some milliseconds.
    pub(crate) fn waits_for_input(&self) -> bool {
        let (terminal, leader) = (self.terminal.as_deref(), self.group.leader());
        terminal
            .zip(leader)
            .is_some_and(|(terminal, leader)| waiting::waits_for_input(leader, terminal))
    }

    /// Whether somebody above the processes is told to signal them. If not they are looked for, which
    /// takes some milliseconds.
    pub(crate) fn is_kept(&self) -> bool {
        self.helper.is_some()
    }

    /// Asks all processes to end, once.
    pub(crate) fn terminate(&self) {
        match &self.helper {
            Some(helper) => helper.ask(TERMINATE),
            None => self.group.terminate(),
        }
    }

    /// Kills all processes, and leaves the waiting to [`end`](Self::end).
    pub(crate) fn kill(&self) {
        match &self.helper {
            Some(helper) => {
                helper.ask(KILL);
                // A command may have stopped it.
                self.group.signal_leader(Signal::CONT);
            }
            None => self.group.kill(),
        }
    }

    /// Kills the helper, who did not do what it was told; then its processes are looked for from
    /// outside.
    pub(crate) fn abandon(&self) {
        if self.helper.is_some() {
            self.group.signal_leader(Signal::KILL);
        }
    }

    /// Waits for the program's end, ends what it left behind and reaps it.
    ///
    /// Blocks as long as the program runs, and [`LEFT_OVER_GRACE`] + [`KILL_GRACE`] +
    /// [`KILL_DEADLINE`] more at most.
    ///
    /// # Errors
    /// If there was no beginning.
    ///
    /// [`LEFT_OVER_GRACE`]: crate::limits::LEFT_OVER_GRACE
    /// [`KILL_GRACE`]: crate::limits::KILL_GRACE
    /// [`KILL_DEADLINE`]: crate::limits::KILL_DEADLINE
    pub(crate) fn end(&self, mut waiter: Waiter) -> io::Result<Ended> {
        match waiter.told.take().and_then(helper::Told::ended) {
            Some(ended) => {
                self.group.reap(&mut waiter.child);
                ended.map_err(io::Error::other)
            }
            None => match self.group.end(&mut waiter.child) {
                // By itself, and without a word: before it could start anything.
                ended if self.helper.is_some() && ended.code.is_some() => {
                    Err(io::Error::other("its helper failed"))
                }
                ended => Ok(ended),
            },
        }
    }
}

/// A command that leads a session of its own, in the terminal that is its standard output if it
/// writes to one, and that dies with the thread that starts it.
#[expect(unsafe_code, reason = "a session can only be begun by the new process itself")]
fn command(argv: &[impl AsRef<str>], shape: Shape) -> io::Result<Command> {
    let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program.as_ref());
    command.args(args.iter().map(AsRef::as_ref));
    // SAFETY: `begin` makes system calls only; it takes no lock and no memory.
    unsafe { command.pre_exec(move || begin(shape)) };
    Ok(command)
}

/// Runs between fork and exec.
fn begin(shape: Shape) -> io::Result<()> {
    listen_to_signals();
    setsid()?;
    if shape != Shape::Pipe {
        ioctl_tiocsctty(rustix::stdio::stdout())?;
    }
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) })?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        helper::close_on_exec();
    }
    Ok(())
}

/// Takes back what whoever started us ignored, `nohup` for example: it would be ignored by every
/// command too.
fn listen_to_signals() {
    let ignored = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGCHLD];
    for signal in ignored.into_iter().chain([libc::SIGXFSZ]) {
        listen_to(signal);
    }
}

/// Has a write beyond the limit of a file's size fail instead of ending this process. A handler is
/// no handler any more in a program that is started, so that has the default.
#[expect(unsafe_code, reason = "no safe interface has it")]
pub(crate) fn survive_large_files() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, which may be done at any time.
    unsafe { libc::signal(libc::SIGXFSZ, nothing as *const () as libc::sighandler_t) };
}

#[expect(unsafe_code, reason = "no safe interface has it")]
fn listen_to(signal: libc::c_int) {
    // SAFETY: the default action is no function of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
