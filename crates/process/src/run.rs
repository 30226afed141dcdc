//! Runs a command from start to end. One thread owns the processes from fork to reaping, another
//! thread reads the output, and [`run_command`] connects the two.

mod input;
#[cfg(unix)]
mod piped;
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
use crate::output::{OutputBytesOrGap, channel};
use crate::program::{ProgramExit, Supervision};
use crate::sandbox::CommandSandbox;
use crate::tree::{self, ProcessTree};

pub use self::input::CommandInput;
use self::input::SilenceTimer;
#[cfg(unix)]
pub use self::piped::{PipedCommand, PipedProgram, PipedStreams};

/// A shell command and where it runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShellCommand {
    /// The command line for the shell, shorter than 128 KiB.
    pub line: String,
    /// The working directory, which must exist.
    pub cwd: PathBuf,
    /// The complete environment, already cleaned (see [`base_env`](crate::env::base_env)).
    ///
    /// The crate adds one variable, [`COMMAND_ID_VARIABLE`](crate::COMMAND_ID_VARIABLE), with a
    /// unique value per command. The variable identifies processes that left the command's session.
    pub env: BTreeMap<String, String>,
    /// Standard streams of the command.
    pub streams: Streams,
    /// Time limit of the command; `None` means no limit.
    pub timeout: Option<Duration>,
    /// The sandbox in which the command runs. A sandbox requires a [helper](has_helper).
    pub sandbox: Option<CommandSandbox>,
}

impl ShellCommand {
    /// Creates a command whose output goes to a pipe, without a time limit.
    #[must_use]
    pub fn new(
        line: impl Into<String>,
        cwd: impl Into<PathBuf>,
        env: BTreeMap<String, String>,
    ) -> Self {
        let (line, cwd) = (line.into(), cwd.into());
        Self { line, cwd, env, streams: Streams::Pipe, timeout: None, sandbox: None }
    }

    /// Sets the standard streams.
    #[must_use]
    pub fn with_streams(self, streams: Streams) -> Self {
        Self { streams, ..self }
    }

    /// Sets the time limit, if there is one.
    #[must_use]
    pub fn with_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { timeout: timeout.into(), ..self }
    }

    /// Sets the sandbox, if there is one.
    #[must_use]
    pub fn with_sandbox(self, sandbox: impl Into<Option<CommandSandbox>>) -> Self {
        Self { sandbox: sandbox.into(), ..self }
    }
}

/// Standard streams of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Streams {
    /// Output to a pipe and no input: the fastest choice, for consumers of plain text.
    ///
    /// Such a command has no terminal on which it could ask for a password. Outside Unix, `Pipe`
    /// uses a terminal for the output too.
    Pipe,
    /// Output to a terminal, for consumers with a terminal view. Standard input is empty.
    Terminal(WindowSize),
    /// Output to a terminal, and input from the same terminal.
    Interactive(WindowSize),
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// Width in columns.
    pub cols: u16,
    /// Height in rows.
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
    /// Exit code of the shell; `None` if a signal ended the shell, if the shell never ran, or if it
    /// could not be ended.
    pub code: Option<i32>,
    /// Signal that ended the shell, e.g. `SIGKILL`.
    pub signal: Option<String>,
    /// Cause of the command's end.
    pub cause: ExitCause,
    /// Time from the start to the return of the call.
    pub duration: Duration,
    /// Number of processes that were still running some time after the shell exited. The call ended
    /// them.
    pub left_over: usize,
    /// Resource usage of the command's processes. `None` if there was no [helper](has_helper).
    pub usage: Option<ResourceUsage>,
}

impl CommandExit {
    /// Creates the exit of a command that another program ran. The number of left-over processes is
    /// 0 and the resource usage is unknown.
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

/// Resource usage of all processes of a command, except those that were not reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceUsage {
    /// User and system CPU time.
    pub cpu: Duration,
    /// Peak memory in bytes of the largest process. The value is at least a few megabytes: the size
    /// of our own process before `exec` starts the shell.
    pub peak_bytes: u64,
}

/// Cause of a command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitCause {
    /// The command exited by itself.
    Exited,
    /// The timeout expired.
    TimedOut,
    /// The command was silent for 5 s and seemed to wait for input from its terminal. Silent
    /// waiting is detected on Linux only.
    WaitedForInput,
    /// The caller's token was cancelled.
    Cancelled,
}

/// Reasons why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The working directory does not exist, is not a directory or may not be entered. Report this
    /// error to the model.
    #[error("cannot run a command in {}: {source}", path_text(path))]
    Cwd {
        /// The requested directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The command or an environment variable exceeds the system's limit. Report this error to the
    /// model.
    #[error("{what} is {bytes} bytes long, and the limit is {limit}")]
    TooLong {
        /// `the command`, or the name of the variable.
        what: String,
        /// Length of the command or variable in bytes.
        bytes: usize,
        /// The system's limit in bytes.
        limit: usize,
    },
    /// The terminal, a thread or the shell could not be created.
    #[error("cannot start the command: {0}")]
    Start(#[source] Box<dyn Error + Send + Sync>),
}

/// Runs the helper of a command if this process was started as a helper. In any other process, this
/// function records that helpers can be started, and returns at once.
///
/// Call this function at the start of `main`, before any thread is started and thus not in an
/// `async fn main`:
///
/// ```
/// callboard_process::run_if_command_helper();
/// # #[cfg(target_os = "linux")]
/// assert!(callboard_process::has_helper());
/// ```
///
/// A helper is a second process of the same program, with another `argv[0]` and the environment of
/// the command. The helper starts the shell and is an ancestor of all processes that the shell
/// starts. The helper ends all of these processes in three cases: the command ends, the program
/// sends a request to end the command, or the program exits for any reason (which closes a socket).
/// No process of the same user escapes, except processes that other services start on request.
///
/// After this call, a write beyond the file size limit (`ulimit -f`) fails with an ordinary error
/// and does not end this process.
///
/// On Unix systems other than Linux, the function only changes the effect of the file size limit.
/// Outside Unix, the function does nothing.
pub fn run_if_command_helper() {
    callboard_sandbox::run_if_sandbox_helper();
    tree::run_if_command_helper();
    tree::ignore_file_size_signal();
}

/// Returns whether commands run under helpers. It returns false if [`run_if_command_helper`] was
/// not called, or if the system is not Linux. Without helpers, [`run_command`] ends those processes
/// of a command that it can find.
#[must_use]
pub fn has_helper() -> bool {
    tree::best_supervision() == Supervision::Helper
}

/// Runs a command to its end and passes on its output as the output arrives.
///
/// - `output` receives the raw bytes in order. Lines of terminal output end in `\r\n` and may
///   contain colours and cursor movements;
///   [`terminal_output_to_text`](crate::text::terminal_output_to_text) converts such output to
///   text. While `output` runs, a bounded amount of output is buffered; the command blocks when the
///   buffer is full.
/// - The call ends after the shell has exited. Processes that are still running receive a hangup
///   from the terminal, and have a moment to exit. After that moment they are killed, regardless of
///   their session. With a [helper](has_helper), only processes of another user can outlive the
///   call, and the call does not wait for them. Without a helper, a process also outlives the call
///   if it left the session, lost its parents and cleared its environment. Outside Linux, a process
///   outlives the call as soon as it leaves the process group.
/// - At the timeout, or when `cancel` fires, all processes of the command receive SIGTERM, and
///   SIGKILL after [`KILL_GRACE`]. If `cancel` has already fired, nothing is started.
/// - A command that waits silently for input from its terminal is ended in the same way, because no
///   input will arrive.
/// - Dropping the future kills all processes of the command at once.
/// - The first call without a helper logs a warning.
///
/// Call this function inside a tokio runtime with time enabled.
///
/// ```
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use callboard_process::{ShellCommand, env, run_command, text::terminal_output_to_text};
/// let env = env::base_env(env::own_env());
/// let command = ShellCommand::new("echo on stage; exit 3", std::env::temp_dir(), env);
/// let mut output = Vec::new();
/// let collect = |chunk: &[u8]| output.extend_from_slice(chunk);
/// let exit = run_command(command, Default::default(), collect).await?;
/// assert_eq!((terminal_output_to_text(&output).as_str(), exit.code), ("on stage\n", Some(3)));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`SpawnError`] if nothing was started. Every later failure is reported in
/// [`CommandExit`].
pub async fn run_command(
    command: ShellCommand,
    cancel: CancellationToken,
    output: impl FnMut(&[u8]) + Send,
) -> Result<CommandExit, SpawnError> {
    run_unrecorded(tree::best_supervision(), command, cancel, output).await
}

async fn run_unrecorded(
    supervision: Supervision,
    command: ShellCommand,
    cancel: CancellationToken,
    output: impl FnMut(&[u8]) + Send,
) -> Result<CommandExit, SpawnError> {
    let ready = || Box::pin(std::future::ready(())) as _;
    run_supervised(
        command,
        supervision,
        None,
        None,
        cancel,
        adapt_bytes_callback_to_pieces(output),
        ready,
    )
    .await
}

/// Adapts a callback for bytes to a callback for output pieces. Unrecorded output never has omitted
/// bytes.
fn adapt_bytes_callback_to_pieces(
    mut output: impl FnMut(&[u8]) + Send,
) -> impl FnMut(OutputBytesOrGap<'_>) + Send {
    move |piece: OutputBytesOrGap<'_>| match piece {
        OutputBytesOrGap::Bytes(bytes) => output(bytes),
        OutputBytesOrGap::Omitted(_) => {}
    }
}

/// Runs a command as [`run_command`] does, and records all of its output.
///
/// - The display may skip output. If a command writes more than 32 KiB in 25 ms, `output` receives
///   the beginning, a [count](OutputBytesOrGap::Omitted) of the omitted bytes, and the end. The
///   command does not wait for the display.
/// - After each chunk, the call awaits `ready`. Until `ready` resolves, no output is read, and the
///   command waits.
/// - `input` is connected to the command's terminal while the command runs, if the terminal is
///   [interactive](Streams::Interactive). An interactive command is not ended when it waits for
///   input.
///
/// # Errors
/// Returns [`SpawnError`] if nothing was started.
pub async fn run_command_and_record(
    command: ShellCommand,
    cancel: CancellationToken,
    recording: Arc<Recording>,
    input: Option<CommandInput>,
    output: impl FnMut(OutputBytesOrGap<'_>) + Send,
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
    mut output: impl FnMut(OutputBytesOrGap<'_>) + Send,
    mut ready: impl FnMut() -> BoxFuture<'static, ()> + Send,
) -> Result<CommandExit, SpawnError> {
    let begun = Instant::now();
    if cancel.is_cancelled() {
        return Ok(command_exit(ProgramExit::default(), ExitCause::Cancelled, begun));
    }
    if supervision == Supervision::Outside {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            tracing::warn!("commands run without a helper: detached processes may outlive them");
        });
    }
    let (timeout, streams) = (command.timeout, command.streams);
    let mut live = running::start_on_thread(command, supervision, recording).await?;
    let tree = &live.tree;
    let silence = Arc::new(SilenceTimer::new(Arc::clone(tree)));
    let typed = input.zip(live.terminal_writer.take());
    let connected = typed.map(|(input, keys)| input.attach_terminal(keys, Arc::clone(&silence)));
    let watched = (streams != Streams::Pipe && connected.is_none()).then_some(&*silence);

    let mut asked = ExitCause::Exited;
    let ended = {
        let stop = async {
            asked = wait_for_stop_cause(&cancel, timeout, watched).await;
            end_processes(tree).await;
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
    // If the timeout fires while left-over processes are being ended, it is not the cause of the
    // command's end.
    let end = if ended.stopped { asked } else { ExitCause::Exited };
    Ok(command_exit(ended, end, begun))
}

/// Ends all processes of a program. The kernel may be unable to end a process, e.g. one that waits
/// for a dead network disk. The call then returns after a time limit.
async fn end_processes(tree: &Arc<ProcessTree>) {
    drop(running::signal_tree_without_blocking(tree, ProcessTree::terminate).await);
    sleep(KILL_GRACE).await;
    drop(running::signal_tree_without_blocking(tree, ProcessTree::kill).await);
    sleep(REAP_DEADLINE).await;
    tree.kill_helper();
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

/// Passes on the remaining output. More output arrives only if an escaped process still writes to
/// the terminal. A deadline limits the wait for a recording on a disk that does not respond.
async fn drain(chunks: &mut channel::Receiver, mut output: impl FnMut(OutputBytesOrGap<'_>)) {
    let deadline = Instant::now() + KILL_DEADLINE;
    let mut left = MAX_DRAIN_BYTES;
    while left > 0
        && let Ok(Some(taken)) = timeout_at(deadline, chunks.recv()).await
    {
        left = left.saturating_sub(taken.len());
        taken.for_each_piece(&mut output);
    }
}

/// Resolves with the reason to end a command. If `watched` is given, waiting for input is a reason
/// too.
async fn wait_for_stop_cause(
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
