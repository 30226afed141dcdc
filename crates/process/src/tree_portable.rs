//! Starts programs, ends them and reads their output on systems without Unix process groups.
//!
//! Only the program itself is killed, without an earlier request to stop; processes that the
//! program started may outlive it. Output always goes to a terminal, because a blocked read of a
//! terminal can be ended: it returns when the terminal's master is closed.
//!
//! This module has the same interface as the Unix module.

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::time::Duration;

use portable_pty::{
    Child, ChildKiller, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system,
};

use crate::lock::lock;
use crate::program::{
    COMMAND_ID_VARIABLE, ProgramExit, SpawnSpec, StdioLayout, Supervision, refuse_sandbox,
};

pub(crate) fn run_if_command_helper() {}

/// Does nothing: this system has no file size limit.
pub(crate) fn ignore_file_size_signal() {}

/// Returns the best available kind of supervision.
pub(crate) fn best_supervision() -> Supervision {
    Supervision::Outside
}

/// A started program.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    shell: Mutex<ShellProcess>,
}

#[derive(Debug)]
struct ShellProcess {
    killer: Box<dyn ChildKiller + Send + Sync>,
    stopped: bool,
    gone: bool,
}

/// A handle that waits for the exit of a [`ProcessTree`].
pub(crate) struct ExitWaiter {
    child: Box<dyn Child + Send + Sync>,
    _end: ChildStdio,
}

/// Starts a program.
pub(crate) fn start(
    program: &SpawnSpec<'_>,
    end: ChildStdio,
    _: Supervision,
) -> io::Result<(ProcessTree, ExitWaiter)> {
    refuse_sandbox(program)?;
    let argv = program.argv.iter().map(Into::into).collect();
    let mut builder = CommandBuilder::from_argv(argv);
    builder.cwd(program.cwd);
    builder.env_clear();
    for (name, value) in program.env {
        builder.env(name, value);
    }
    builder.env(COMMAND_ID_VARIABLE, program.command_id);
    let child = end.0.spawn_command(builder).map_err(io::Error::other)?;
    let shell = ShellProcess { killer: child.clone_killer(), stopped: false, gone: false };
    Ok((ProcessTree { shell: Mutex::new(shell) }, ExitWaiter { child, _end: end }))
}

impl ProcessTree {
    pub(crate) fn waits_for_input(&self) -> bool {
        false
    }

    pub(crate) fn can_signal_without_search(&self) -> bool {
        true
    }

    pub(crate) fn terminate(&self) {
        self.kill();
    }

    pub(crate) fn kill(&self) {
        let mut shell = lock(&self.shell);
        if !shell.gone {
            shell.stopped = true;
            drop(shell.killer.kill());
        }
    }

    pub(crate) fn kill_helper(&self) {}

    pub(crate) fn wait_and_end_left_overs(
        &self,
        mut waiter: ExitWaiter,
    ) -> io::Result<ProgramExit> {
        let status = waiter.child.wait().ok();
        let mut shell = lock(&self.shell);
        shell.gone = true;
        let code = status.map(|status| status.exit_code().cast_signed());
        Ok(ProgramExit { code, stopped: shell.stopped, ..ProgramExit::default() })
    }
}

/// The program's end of the terminal.
pub(crate) struct ChildStdio(Box<dyn SlavePty + Send>);

/// Opens a terminal for output.
pub(crate) fn open_output(
    layout: StdioLayout,
) -> io::Result<(OutputReader, StopReadOnDrop, ChildStdio)> {
    let size = match layout {
        StdioLayout::Terminal { cols, rows, .. } => PtySize { cols, rows, ..PtySize::default() },
        StdioLayout::Pipe | StdioLayout::Socket => PtySize::default(),
    };
    let pair = native_pty_system().openpty(size).map_err(io::Error::other)?;
    let reader = pair.master.try_clone_reader().map_err(io::Error::other)?;
    Ok((
        OutputReader(reader),
        StopReadOnDrop { master: Mutex::new(pair.master) },
        ChildStdio(pair.slave),
    ))
}

/// A writer of terminal input.
pub(crate) struct TerminalWriter(Mutex<Box<dyn Write + Send>>);

/// Returns a writer of input to the terminal that the reader reads.
pub(crate) fn terminal_writer(
    _: &OutputReader,
    reading: &StopReadOnDrop,
) -> io::Result<TerminalWriter> {
    let master = lock(&reading.master);
    Ok(TerminalWriter(Mutex::new(master.take_writer().map_err(io::Error::other)?)))
}

impl TerminalWriter {
    /// Writes bytes to the terminal. On this system, the call blocks until the terminal accepts all
    /// bytes.
    pub(crate) fn write_within(&self, bytes: &[u8], _: Duration) -> io::Result<usize> {
        let mut keys = lock(&self.0);
        keys.write_all(bytes)?;
        keys.flush()?;
        Ok(bytes.len())
    }
}

impl std::fmt::Debug for TerminalWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TerminalWriter")
    }
}

/// The reader's end of the terminal.
pub(crate) struct OutputReader(Box<dyn Read + Send>);

impl OutputReader {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Keeps the terminal open: the reader ends when the terminal's master is closed.
pub(crate) struct StopReadOnDrop {
    master: Mutex<Box<dyn MasterPty + Send>>,
}

impl std::fmt::Debug for StopReadOnDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StopReadOnDrop")
    }
}
