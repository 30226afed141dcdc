//! Opens a pseudo-terminal, starts a shell in it, and owns both until the last process is gone.
//!
//! Knows nothing of timeouts, cancelling or what the output is for.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use portable_pty::{Child, CommandBuilder, PtySize, SlavePty, native_pty_system};
use tokio::sync::oneshot;

use super::chunks;
use super::record::Recording;
use super::{Command, SpawnError};
use crate::limits::{COMMAND_STRING_BYTES, READ_BYTES};
use crate::sys::process::{self, Ended, Reading, Terminal, Tree};

/// A command that was started. Dropping it kills what is left of it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) tree: Arc<Tree>,
    /// What the terminal says, until nobody can write to it any more.
    pub(super) chunks: chunks::Receiver,
    /// Comes when all processes are gone and the shell is reaped.
    pub(super) ended: oneshot::Receiver<Ended>,
    /// Without it the terminal is read no further than what it holds.
    pub(super) reading: Option<Reading>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.tree.kill();
    }
}

/// Starts a command on a thread that stays with it, so that whoever started it (a future, a
/// runtime) may go away at any time and the processes are still ended and reaped.
pub(super) async fn start(
    command: Command,
    recording: Option<Arc<Recording>>,
) -> Result<Live, SpawnError> {
    let (started, live) = oneshot::channel();
    thread::Builder::new()
        .name("command".into())
        .spawn(move || keep(&command, recording, started))
        .map_err(start_error)?;
    live.await.unwrap_or_else(|gone| Err(start_error(gone)))
}

/// The life of the thread that owns the command. What cannot be sent has no receiver any more;
/// a [`Live`] that cannot be sent is dropped, which kills.
fn keep(
    command: &Command,
    recording: Option<Arc<Recording>>,
    started: oneshot::Sender<Result<Live, SpawnError>>,
) {
    let Started { live, ended, child, slave } = match spawn(command, recording) {
        Ok(spawned) => spawned,
        Err(error) => return drop(started.send(Err(error))),
    };
    let tree = Arc::clone(&live.tree);
    drop(started.send(Ok(live)));
    let end = tree.end(child);
    // Held until now: a command may close its terminal and open it again.
    drop(slave);
    drop(ended.send(end));
}

struct Started {
    live: Live,
    ended: oneshot::Sender<Ended>,
    child: Box<dyn Child + Send + Sync>,
    slave: Box<dyn SlavePty + Send>,
}

fn spawn(command: &Command, recording: Option<Arc<Recording>>) -> Result<Started, SpawnError> {
    check(command)?;
    let size = PtySize { cols: command.size.cols, rows: command.size.rows, ..PtySize::default() };
    let pair = native_pty_system().openpty(size).map_err(start_error)?;
    let (terminal, reading) = process::open(pair.master).map_err(start_error)?;
    let (sender, chunks) = chunks::channel(recording);
    // Before the shell: a thread that cannot be had must not leave a command running.
    thread::Builder::new()
        .name("terminal".into())
        .spawn(move || read(terminal, &sender))
        .map_err(start_error)?;
    let mark = mark();
    let child = pair.slave.spawn_command(builder(command, &mark)).map_err(start_error)?;
    let tree = Arc::new(Tree::of(child.as_ref(), &mark).map_err(start_error)?);
    let (sender, ended) = oneshot::channel();
    let live = Live { tree, chunks, ended, reading: Some(reading) };
    Ok(Started { live, ended: sender, child, slave: pair.slave })
}

/// Refuses what `portable-pty` gets wrong: without the directory it runs the command in another
/// one, and a shell that the system refuses to execute looks like one that crashed.
fn check(command: &Command) -> Result<(), SpawnError> {
    fs::metadata(command.cwd.join("."))
        .map_err(|source| SpawnError::Cwd { path: command.cwd.clone(), source })?;
    let variables =
        command.env.iter().map(|(name, value)| (name.as_str(), name.len() + value.len()));
    let mut strings = variables.chain([("the command", command.line.len())]);
    match strings.find(|(_, bytes)| *bytes > COMMAND_STRING_BYTES) {
        None => Ok(()),
        Some((what, bytes)) => {
            Err(SpawnError::TooLong { what: what.to_owned(), bytes, limit: COMMAND_STRING_BYTES })
        }
    }
}

fn builder(command: &Command, mark: &str) -> CommandBuilder {
    let argv = argv(&command.line).into_iter().map(Into::into).collect();
    let mut builder = CommandBuilder::from_argv(argv);
    builder.cwd(&command.cwd);
    builder.env_clear();
    for (name, value) in &command.env {
        builder.env(name, value);
    }
    builder.env(process::MARK, mark);
    builder
}

/// The shell, never as a login or interactive one: profiles cost time and print things.
///
/// An outer shell gives the inner one an empty standard input and is replaced by it: the command
/// runs exactly as by `bash -c`, as the same process, and a program that reads finds the end
/// instead of waiting for an answer that nobody gives. (An end-of-file character written to the
/// terminal would serve one reader only.) The terminal stays the controlling one, so that all are
/// hung up on should this process be killed; what asks there, past its input, waits until the
/// timeout.
fn argv(line: &str) -> Vec<&str> {
    if cfg!(windows) {
        return vec!["cmd.exe", "/d", "/s", "/c", line];
    }
    let mut argv = vec!["/bin/sh", "-c", r#"exec "$@" </dev/null"#, "sh"];
    match ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists()) {
        Some(bash) => argv.extend([bash, "--noprofile", "--norc", "-c", line]),
        None => argv.extend(["/bin/sh", "-c", line]),
    }
    argv
}

/// A value that no other command has, of this process or another, now or later.
fn mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{now}.{count}", std::process::id())
}

/// Reads until the terminal is closed or nobody listens. While there is no room for more, nothing
/// is read, the terminal fills up, and the command waits.
fn read(mut terminal: Terminal, chunks: &chunks::Sender) {
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(bytes @ 1..) = terminal.read(&mut buffer) {
        if !chunks.send(&buffer[..bytes]) {
            return;
        }
    }
}

fn start_error(error: impl Into<Box<dyn Error + Send + Sync>>) -> SpawnError {
    SpawnError::Start(error.into())
}
