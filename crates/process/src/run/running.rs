//! Opens a pipe or a terminal, starts a shell with it, and owns both until the last process has
//! exited.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use super::{ShellCommand, SpawnError, Streams};
use crate::limits::{MAX_COMMAND_STRING_BYTES, OUTPUT_READ_BYTES};
use crate::output::channel;
use crate::output::record::Recording;
use crate::program::{ProgramExit, SpawnSpec, StdioLayout, Supervision};
use crate::tree::{self, ExitWaiter, OutputReader, ProcessTree, StopReadOnDrop, TerminalWriter};

/// A started command. Dropping a `RunningShell` kills all of its processes.
#[derive(Debug)]
pub(super) struct RunningShell {
    pub(super) tree: Arc<ProcessTree>,
    /// Receives the output until the last writer has closed the pipe or terminal.
    pub(super) chunks: channel::Receiver,
    /// Resolves when all processes have exited and the shell is reaped, or when the shell could not
    /// be started.
    pub(super) ended: oneshot::Receiver<Result<ProgramExit, SpawnError>>,
    /// After this guard is dropped, only output that was written before the drop is still read.
    pub(super) stop_read_guard: Option<StopReadOnDrop>,
    /// Writer of input to the terminal, if the command reads from a terminal.
    pub(super) terminal_writer: Option<TerminalWriter>,
}

impl Drop for RunningShell {
    fn drop(&mut self) {
        drop(signal_tree_without_blocking(&self.tree, ProcessTree::kill));
    }
}

/// Signals the processes of a command. A search for the processes takes a while. If a search is
/// necessary, a separate thread does the work. The returned channel closes when all processes are
/// signalled.
pub(super) fn signal_tree_without_blocking(
    tree: &Arc<ProcessTree>,
    how: fn(&ProcessTree),
) -> oneshot::Receiver<()> {
    let (busy, done) = oneshot::channel();
    let found = Arc::clone(tree);
    let act = move || {
        how(&found);
        drop(busy);
    };
    if tree.can_signal_without_search() {
        act();
    } else {
        // If the thread cannot be started, the next signal ends the command.
        drop(thread::Builder::new().name("signals".into()).spawn(act));
    }
    done
}

/// Starts a command on a thread that lives until the command ends. The caller (a future, a runtime)
/// may be dropped at any time; the processes are still ended and reaped.
pub(super) async fn start_on_thread(
    command: ShellCommand,
    supervision: Supervision,
    recording: Option<Arc<Recording>>,
) -> Result<RunningShell, SpawnError> {
    let (started, live) = oneshot::channel();
    thread::Builder::new()
        .name("command".into())
        .spawn(move || run_command_thread(&command, supervision, recording, started))
        .map_err(start_error)?;
    live.await.unwrap_or_else(|gone| Err(start_error(gone)))
}

/// Runs the thread that owns the command. A failed send is ignored: the receiver is gone. A
/// [`RunningShell`] that cannot be sent is dropped, which kills the command.
fn run_command_thread(
    command: &ShellCommand,
    supervision: Supervision,
    recording: Option<Arc<Recording>>,
    started: oneshot::Sender<Result<RunningShell, SpawnError>>,
) {
    let SpawnedCommand { live, ended, waiter } = match spawn(command, supervision, recording) {
        Ok(spawned) => spawned,
        Err(error) => return drop(started.send(Err(error))),
    };
    let tree = Arc::clone(&live.tree);
    drop(started.send(Ok(live)));
    drop(ended.send(tree.wait_and_end_left_overs(waiter).map_err(start_error)));
}

struct SpawnedCommand {
    live: RunningShell,
    ended: oneshot::Sender<Result<ProgramExit, SpawnError>>,
    waiter: ExitWaiter,
}

fn spawn(
    command: &ShellCommand,
    supervision: Supervision,
    recording: Option<Arc<Recording>>,
) -> Result<SpawnedCommand, SpawnError> {
    check_cwd_and_lengths(&command.cwd, &command.env, [command.line.as_str()])?;
    let (source, reading, end) = tree::open_output(command.streams.into()).map_err(start_error)?;
    let is_typed = matches!(command.streams, Streams::Interactive(_));
    let keys = is_typed.then(|| tree::terminal_writer(&source, &reading)).transpose();
    let keys = keys.map_err(start_error)?;
    let (sender, chunks) = channel::channel(recording);
    // The reader thread is started before the shell, because a failure to start the thread must not
    // leave a command running.
    thread::Builder::new()
        .name("output".into())
        .spawn(move || forward_output(source, &sender))
        .map_err(start_error)?;
    let (argv, mark) = (shell_argv(&command.line), new_command_id());
    let program = SpawnSpec {
        argv,
        cwd: &command.cwd,
        env: &command.env,
        command_id: &mark,
        sandbox: command.sandbox.as_ref(),
    };
    let (tree, waiter) = tree::start(&program, end, supervision).map_err(start_error)?;
    let (sender, ended) = oneshot::channel();
    let live = RunningShell {
        tree: Arc::new(tree),
        chunks,
        ended,
        stop_read_guard: Some(reading),
        terminal_writer: keys,
    };
    Ok(SpawnedCommand { live, ended: sender, waiter })
}

impl From<Streams> for StdioLayout {
    fn from(streams: Streams) -> Self {
        let terminal = |size: super::WindowSize, typed| Self::Terminal {
            cols: size.cols,
            rows: size.rows,
            typed,
        };
        match streams {
            Streams::Pipe => Self::Pipe,
            Streams::Terminal(size) => terminal(size, false),
            Streams::Interactive(size) => terminal(size, true),
        }
    }
}

/// Returns a precise error for commands that the system would reject. `words` are the arguments.
pub(super) fn check_cwd_and_lengths<'a>(
    cwd: &Path,
    env: &BTreeMap<String, String>,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<(), SpawnError> {
    fs::metadata(cwd.join("."))
        .map_err(|source| SpawnError::Cwd { path: cwd.to_owned(), source })?;
    let variables = env.iter().map(|(name, value)| (name.as_str(), name.len() + value.len()));
    let words = words.into_iter().map(|word| ("the command", word.len()));
    let mut strings = variables.chain(words);
    match strings.find(|(_, bytes)| *bytes > MAX_COMMAND_STRING_BYTES) {
        None => Ok(()),
        Some((what, bytes)) => Err(SpawnError::TooLong {
            what: what.to_owned(),
            bytes,
            limit: MAX_COMMAND_STRING_BYTES,
        }),
    }
}

/// Returns the arguments of the shell. The shell is never a login or interactive shell, because
/// profiles take time and print text.
fn shell_argv(line: &str) -> Vec<&str> {
    if cfg!(windows) {
        return vec!["cmd.exe", "/d", "/s", "/c", line];
    }
    match ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists()) {
        Some(bash) => vec![bash, "--noprofile", "--norc", "-c", line],
        None => vec!["/bin/sh", "-c", line],
    }
}

/// Returns a value that no other command and no other process uses.
pub(super) fn new_command_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{now}.{count}", std::process::id())
}

/// Reads output until all writers or the receiver are gone. While the buffer is full, no output is
/// read; the pipe or terminal fills up, and the command blocks.
fn forward_output(mut source: OutputReader, chunks: &channel::Sender) {
    let mut buffer = vec![0; OUTPUT_READ_BYTES];
    while let Ok(bytes @ 1..) = source.read(&mut buffer) {
        if !chunks.record_and_send(&buffer[..bytes]) {
            return;
        }
    }
}

pub(super) fn start_error(error: impl Into<Box<dyn Error + Send + Sync>>) -> SpawnError {
    SpawnError::Start(error.into())
}
