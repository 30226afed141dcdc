//! A program with which the caller exchanges data over its standard streams, e.g. a server.

use std::collections::BTreeMap;
use std::io::PipeReader;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::running::{
    check_cwd_and_lengths, new_command_id, signal_tree_without_blocking, start_error,
};
use super::{CommandExit, ExitCause, SpawnError, command_exit, end_processes};
use crate::program::{ProgramExit, SpawnSpec};
use crate::sandbox::CommandSandbox;
use crate::tree::{self, ExitWaiter, ProcessTree};

/// A program that is started without a shell, and exchanges data with its caller.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PipedCommand {
    /// Name or path of the program. A name is searched for in the `PATH` of `env`.
    pub program: String,
    /// The arguments, each shorter than 128 KiB.
    pub args: Vec<String>,
    /// The working directory, which must exist.
    pub cwd: PathBuf,
    /// The complete environment, see [`ShellCommand::env`](super::ShellCommand::env).
    pub env: BTreeMap<String, String>,
    /// The sandbox in which the program runs. A sandbox requires a [helper](super::has_helper).
    pub sandbox: Option<CommandSandbox>,
}

/// The caller's ends of the standard streams of a program.
#[derive(Debug)]
#[non_exhaustive]
pub struct PipedStreams {
    /// The standard input, which is written, and the standard output, which is read. If the writing
    /// side is shut down, the program reads the end of its input.
    pub data: UnixStream,
    /// The standard error.
    pub errors: PipeReader,
}

/// A running program. All of its processes are killed when the value is dropped.
#[derive(Debug)]
pub struct PipedProgram {
    tree: Arc<ProcessTree>,
    ended: oneshot::Receiver<Result<ProgramExit, SpawnError>>,
    /// The exit, after it was received.
    exit: Option<CommandExit>,
    begun: Instant,
}

impl PipedCommand {
    /// Creates a command without arguments and without a sandbox.
    #[must_use]
    pub fn new(
        program: impl Into<String>,
        cwd: impl Into<PathBuf>,
        env: BTreeMap<String, String>,
    ) -> Self {
        let (program, cwd) = (program.into(), cwd.into());
        Self { program, args: Vec::new(), cwd, env, sandbox: None }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn with_args(self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { args: args.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the sandbox, if there is one.
    #[must_use]
    pub fn with_sandbox(self, sandbox: impl Into<Option<CommandSandbox>>) -> Self {
        Self { sandbox: sandbox.into(), ..self }
    }

    /// Starts the program. With a [helper](super::has_helper), this function does not report a
    /// missing program; [`PipedProgram::wait`] returns that error.
    ///
    /// The streams are in blocking mode. Call this function inside a tokio runtime with time
    /// enabled.
    ///
    /// # Errors
    /// Returns [`SpawnError`] if nothing was started.
    pub async fn start(self) -> Result<(PipedProgram, PipedStreams), SpawnError> {
        let begun = Instant::now();
        let (started, running) = oneshot::channel();
        // The thread lives until the program ends, because the kernel would kill the program if the
        // thread ended.
        thread::Builder::new()
            .name("program".into())
            .spawn(move || self.run_thread(begun, started))
            .map_err(start_error)?;
        running.await.unwrap_or_else(|gone| Err(start_error(gone)))
    }

    fn run_thread(self, begun: Instant, started: oneshot::Sender<Started>) {
        let (tree, waiter, streams) = match self.spawn_on_current_thread() {
            Ok(spawned) => spawned,
            Err(error) => return drop(started.send(Err(error))),
        };
        let (sender, ended) = oneshot::channel();
        let tree = Arc::new(tree);
        let program = PipedProgram { tree: Arc::clone(&tree), ended, exit: None, begun };
        // Without a receiver, the program is dropped, which kills the processes.
        drop(started.send(Ok((program, streams))));
        drop(sender.send(tree.wait_and_end_left_overs(waiter).map_err(start_error)));
    }

    fn spawn_on_current_thread(
        &self,
    ) -> Result<(ProcessTree, ExitWaiter, PipedStreams), SpawnError> {
        let argv: Vec<_> =
            [&self.program].into_iter().chain(&self.args).map(String::as_str).collect();
        check_cwd_and_lengths(&self.cwd, &self.env, argv.iter().copied())?;
        let (data, errors, end) = tree::open_socket_and_error_pipe().map_err(start_error)?;
        let program = SpawnSpec {
            argv,
            cwd: &self.cwd,
            env: &self.env,
            command_id: &new_command_id(),
            sandbox: self.sandbox.as_ref(),
        };
        let (tree, waiter) =
            tree::start(&program, end, tree::best_supervision()).map_err(start_error)?;
        Ok((tree, waiter, PipedStreams { data, errors }))
    }
}

type Started = Result<(PipedProgram, PipedStreams), SpawnError>;

impl PipedProgram {
    /// Waits until the program has exited and all of its processes are gone. Processes that outlive
    /// the program are ended. Each later call returns the same exit at once.
    ///
    /// # Errors
    /// The first call returns [`SpawnError`] if the program was not started.
    pub async fn wait(&mut self) -> Result<CommandExit, SpawnError> {
        if let Some(exit) = &self.exit {
            return Ok(exit.clone());
        }
        let ended = (&mut self.ended).await.unwrap_or_else(|_gone| Ok(ProgramExit::default()));
        let (ended, error) = match ended {
            Ok(ended) => (ended, None),
            Err(error) => (ProgramExit::default(), Some(error)),
        };
        let cause = if ended.stopped { ExitCause::Cancelled } else { ExitCause::Exited };
        let exit = self.exit.insert(command_exit(ended, cause, self.begun)).clone();
        error.map_or(Ok(exit), Err)
    }

    /// Ends all processes of the program: SIGTERM, and SIGKILL after
    /// [`KILL_GRACE`](crate::limits::KILL_GRACE). Returns when they are gone, or after another
    /// [`REAP_DEADLINE`](crate::limits::REAP_DEADLINE).
    pub async fn stop(mut self) {
        let tree = Arc::clone(&self.tree);
        tokio::select! {
            _ = self.wait() => {}
            () = end_processes(&tree) => {}
        }
    }
}

impl Drop for PipedProgram {
    fn drop(&mut self) {
        drop(signal_tree_without_blocking(&self.tree, ProcessTree::kill));
    }
}
