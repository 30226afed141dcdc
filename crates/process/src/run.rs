//! A command from its start to its end. One thread owns the processes from fork to reaping, one reads
//! what they write; [`run`] is the few lines between them.

mod input;
mod running;

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::Duration;

use callboard_text::path_text;
use futures::future::{BoxFuture, OptionFuture};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::limits::{KILL_DEADLINE, KILL_GRACE, MAX_DRAIN_BYTES, REAP_DEADLINE};
use crate::output::record::Recording;
use crate::output::{OutputPiece, channel};
use crate::program::{ProgramExit, Supervision};
use crate::tree::{self, ProcessTree};

pub use self::input::CommandInput;
use self::input::SilenceTimer;

/// A shell command and where it runs.
#[derive(Debug, Clone)]
pub struct ShellCommand {
    /// The text given to the shell, at most [`MAX_COMMAND_STRING_BYTES`](crate::limits::MAX_COMMAND_STRING_BYTES).
    pub line: String,
    /// The directory it starts in, which must exist.
    pub cwd: PathBuf,
    /// Its whole environment, already cleaned (see [`base_env`](crate::env::base_env)).
    ///
    /// One variable is added, `ACP_TOOLS_COMMAND`, whose value no other command has: it is how
    /// processes that left the command's session are found again.
    pub env: BTreeMap<String, String>,
    /// What it writes to and reads from.
    pub streams: Streams,
    /// How long the command may run before it is ended; `None` means until it is done.
    pub timeout: Option<Duration>,
}

/// What a command writes to, and what it reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// It writes to a pipe and has nothing to read: the fastest, for those who read text.
    ///
    /// There is no terminal that it could ask a password at. Outside Unix it is a terminal after
    /// all.
    Pipe,
    /// It writes to a terminal, for those who see one. Its standard input is empty.
    Terminal(WindowSize),
    /// It writes to a terminal and reads from it.
    Interactive(WindowSize),
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// Width.
    pub cols: u16,
    /// Height.
    pub rows: u16,
}

impl Default for WindowSize {
    fn default() -> Self {
        Self { cols: 120, rows: 40 }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandExit {
    /// The shell's exit code; `None` if a signal ended it, or if it never ran or could not be ended.
    pub code: Option<i32>,
    /// The signal that ended the shell, as `SIGKILL`.
    pub signal: Option<String>,
    /// Who ended it.
    pub cause: ExitCause,
    /// From the call to its return.
    pub duration: Duration,
    /// Processes that were still running some time after the shell was gone, and were ended too.
    pub left_over: usize,
    /// What its processes used; none without a [helper](has_helper).
    pub usage: Option<ResourceUsage>,
}

impl CommandExit {
    /// Makes the exit of a command that others ran: nothing is known of its processes.
    #[must_use]
    pub fn new(
        code: Option<i32>,
        signal: Option<String>,
        cause: ExitCause,
        duration: Duration,
    ) -> Self {
        Self { code, signal, cause, duration, left_over: 0, usage: None }
    }
}

/// What the processes of a command used together, except those that nobody waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceUsage {
    /// Time on processors, for themselves and in the system.
    pub cpu: Duration,
    /// Bytes of memory that the largest of them had at its largest. A few megabytes at least: what
    /// a process has before it becomes the shell.
    pub peak_bytes: u64,
}

/// Who ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    /// The command itself.
    Exited,
    /// Its timeout.
    TimedOut,
    /// We, because it was silent for 5 s and seemed to wait for somebody to type something at its
    /// terminal. Only Linux tells.
    WaitedForInput,
    /// The caller's token.
    Cancelled,
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The directory does not exist, is no directory or may not be entered. Tell the model.
    #[error("cannot run a command in {}: {source}", path_text(path))]
    Cwd {
        /// The directory asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The command or an environment variable is longer than the system passes on. Tell the model.
    #[error("{what} is {bytes} bytes long, and the limit is {limit}")]
    TooLong {
        /// `the command`, or the variable's name.
        what: String,
        /// Its length.
        bytes: usize,
        /// The most there may be.
        limit: usize,
    },
    /// The terminal, a thread or the shell could not be had.
    #[error("cannot start the command: {0}")]
    Start(#[source] Box<dyn Error + Send + Sync>),
}

/// Makes this process the helper of a command, if it was started as one. Else it returns at once,
/// having noted that helpers can be started.
///
/// To be called first of all in `main`, before there is any thread, thus not in an `async fn main`:
///
/// ```
/// callboard_process::init_command_helper();
/// # #[cfg(target_os = "linux")]
/// assert!(callboard_process::has_helper());
/// ```
///
/// A helper is this very program, started again with a name of its own and the environment of the
/// command. It starts the shell, and everything that the shell starts stays beneath it, so that it
/// can end all of it: when the command ends, when it is told to, and when the program is gone,
/// however it went (its end of a socket closes). Nothing that runs as the same user gets away, but
/// what other services are asked to start.
///
/// From then on a file that grows beyond the limit of its size (`ulimit -f`) is an error like any
/// other, and does not end this process.
///
/// Does nothing else outside Linux.
pub fn init_command_helper() {
    tree::init_command_helper();
    tree::ignore_file_size_signal();
}

/// Returns whether commands are kept by helpers. If not, [`init_command_helper`] was not called, or this is
/// not Linux; then [`run`] ends what it can find of a command.
#[must_use]
pub fn has_helper() -> bool {
    tree::best_supervision() == Supervision::Helper
}

/// Runs a command to its end and passes its output on as it comes.
///
/// - `output` gets what the command writes in order, as it is: lines of a terminal end in `\r\n`,
///   colours and cursor movements are in there; [`plain`](crate::text::plain) makes text of them. While it does
///   not return, no more than a bounded amount is read, and the command waits.
/// - It is done when the shell has exited. What still runs then is hung up on by the terminal, has
///   a moment to finish, and is ended, whatever session it is in. Only what another user runs can
///   outlive the call, and it does not hold it up; without a [helper](has_helper) also what has cut
///   all ties (session, parents and environment; outside Linux, the process group).
/// - At the timeout, or when `cancel` fires, all its processes get SIGTERM, and SIGKILL after
///   [`KILL_GRACE`]. A token that has fired already starts nothing.
/// - So they do when it waits for input at its terminal in silence, for nobody will give any.
/// - Dropping the future kills at once.
/// - The log says once where there is no helper.
///
/// Must be called inside a tokio runtime with time enabled.
///
/// ```
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use callboard_process::{Command, Streams, env, run, text::plain};
/// let command = Command {
///     line: "echo on stage; exit 3".into(),
///     cwd: std::env::temp_dir(),
///     env: env::base_env(env::parent()),
///     streams: Streams::Pipe,
///     timeout: None,
/// };
/// let mut output = Vec::new();
/// let exit = run(command, Default::default(), |chunk| output.extend_from_slice(chunk)).await?;
/// assert_eq!((plain(&output).as_str(), exit.code), ("on stage\n", Some(3)));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SpawnError`] if nothing was started. All that happens afterwards is told by [`Exit`].
pub async fn run(
    command: ShellCommand,
    cancel: CancellationToken,
    output: impl FnMut(&[u8]) + Send,
) -> Result<CommandExit, SpawnError> {
    let ready = || Box::pin(std::future::ready(())) as _;
    run_supervised(command, tree::best_supervision(), None, None, cancel, bytes_only(output), ready)
        .await
}

/// Takes the pieces of what is not recorded, of which nothing is left out.
fn bytes_only(mut output: impl FnMut(&[u8]) + Send) -> impl FnMut(OutputPiece<'_>) + Send {
    move |piece: OutputPiece<'_>| match piece {
        OutputPiece::Bytes(bytes) => output(bytes),
        OutputPiece::Omitted(_) => {}
    }
}

/// Runs a command as [`run`] does, and records all that it writes.
///
/// - What is only shown loses by its rate: `output` gets the beginning and the end of what is more
///   than 32 KiB in 25 ms, with a [count](Piece::LeftOut) of the rest between them, and the command
///   does not wait for it.
/// - After what it gets, `ready` is waited for; meanwhile nothing is read, and the command waits.
/// - Somebody may type at it: `input` leads to its terminal while it runs, if it has
///   [one to read from](Streams::Interactive), and it is not ended for waiting for input.
///
/// # Errors
/// [`SpawnError`] if nothing was started.
pub async fn run_recorded(
    command: ShellCommand,
    cancel: CancellationToken,
    recording: Arc<Recording>,
    input: Option<CommandInput>,
    output: impl FnMut(OutputPiece<'_>) + Send,
    ready: impl FnMut() -> BoxFuture<'static, ()> + Send,
) -> Result<CommandExit, SpawnError> {
    run_supervised(command, tree::best_supervision(), Some(recording), input, cancel, output, ready)
        .await
}

async fn run_supervised(
    command: ShellCommand,
    supervision: Supervision,
    recording: Option<Arc<Recording>>,
    input: Option<CommandInput>,
    cancel: CancellationToken,
    mut output: impl FnMut(OutputPiece<'_>) + Send,
    mut ready: impl FnMut() -> BoxFuture<'static, ()> + Send,
) -> Result<CommandExit, SpawnError> {
    let begun = Instant::now();
    if cancel.is_cancelled() {
        return Ok(command_exit(ProgramExit::default(), ExitCause::Cancelled, begun));
    }
    if supervision == Supervision::Outside {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            tracing::warn!(
                "commands have no helper: what cuts all ties to its command outlives it"
            );
        });
    }
    let (timeout, streams) = (command.timeout, command.streams);
    let mut live = running::start(command, supervision, recording).await?;
    let tree = &live.tree;
    let silence = Arc::new(SilenceTimer::new(Arc::clone(tree)));
    let typed = input.zip(live.terminal_writer.take());
    let connected = typed.map(|(input, keys)| input.connect(keys, Arc::clone(&silence)));
    let watched = (streams != Streams::Pipe && connected.is_none()).then_some(&*silence);

    let mut asked = ExitCause::Exited;
    let ended = {
        let stop = async {
            asked = stop_requested(&cancel, timeout, watched).await;
            drop(running::signal_tree(tree, ProcessTree::terminate).await);
            sleep(KILL_GRACE).await;
            drop(running::signal_tree(tree, ProcessTree::kill).await);
            // The kernel may be unable to end it (a dead network disk): the call ends all the same.
            sleep(REAP_DEADLINE).await;
            tree.kill_helper();
            Ok(ProgramExit { stopped: true, ..ProgramExit::default() })
        };
        tokio::pin!(stop);
        let mut waiting = None;
        loop {
            tokio::select! {
                ended = &mut live.ended => break ended.unwrap_or_else(|_gone| Ok(ProgramExit::default())),
                given_up = &mut stop => break given_up,
                Some(taken) = live.chunks.recv(), if waiting.is_none() => {
                    silence.restart();
                    taken.for_each_piece(&mut output);
                    waiting = Some(ready());
                }
                Some(()) = OptionFuture::from(waiting.as_mut()) => waiting = None,
            }
        }
    }?;
    drop(connected);
    drop(live.stop_read_guard.take());
    drain(&mut live.chunks, output).await;
    // A timeout that fires while left-overs are tidied up did not end the command.
    let end = if ended.stopped { asked } else { ExitCause::Exited };
    Ok(command_exit(ended, end, begun))
}

fn command_exit(ended: ProgramExit, end: ExitCause, begun: Instant) -> CommandExit {
    CommandExit {
        code: ended.code,
        signal: ended.signal,
        cause: end,
        duration: begun.elapsed(),
        left_over: ended.left_over,
        usage: ended.usage.map(|usage| ResourceUsage {
            cpu: Duration::from_micros(usage.cpu_micros),
            peak_bytes: usage.peak_bytes,
        }),
    }
}

/// Takes what is still on its way; more only if a process escaped with the terminal and writes on.
/// A disk that does not answer, where all of it is recorded, holds up nobody.
async fn drain(chunks: &mut channel::Receiver, mut output: impl FnMut(OutputPiece<'_>)) {
    let deadline = Instant::now() + KILL_DEADLINE;
    let mut left = MAX_DRAIN_BYTES;
    while left > 0
        && let Ok(Some(taken)) = timeout_at(deadline, chunks.recv()).await
    {
        left = left.saturating_sub(taken.len());
        taken.for_each_piece(&mut output);
    }
}

/// Waits for a reason to end a command. One that nobody types at is `watched` for waiting for it.
async fn stop_requested(
    cancel: &CancellationToken,
    timeout: Option<Duration>,
    watched: Option<&SilenceTimer>,
) -> ExitCause {
    tokio::select! {
        () = cancel.cancelled() => ExitCause::Cancelled,
        Some(()) = OptionFuture::from(timeout.map(sleep)) => ExitCause::TimedOut,
        Some(()) = OptionFuture::from(watched.map(SilenceTimer::wait_until_input_awaited)) => ExitCause::WaitedForInput,
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
