//! Starts programs, ends them and reads what they write where there are no process groups to
//! signal: only the program itself is killed, what it started may outlive it, and nothing is asked
//! to stop before. Everything writes to a terminal, as there is nothing else to hang up.
//!
//! Same interface as the Unix module.

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::time::Duration;

use portable_pty::{
    Child, ChildKiller, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system,
};

use crate::lock::lock;
use crate::program::{COMMAND_ID_VARIABLE, ProgramExit, SpawnSpec, StdioKind, Supervision};

pub(crate) fn init_command_helper() {}

/// There is no such limit.
pub(crate) fn ignore_file_size_signal() {}

/// The best way there is to keep processes together.
pub(crate) fn best_supervision() -> Supervision {
    Supervision::Outside
}

/// One program.
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

/// Whoever waits for the end of a [`ProcessTree`].
pub(crate) struct ExitWaiter {
    child: Box<dyn Child + Send + Sync>,
    _end: ChildOutput,
}

/// Starts a program.
pub(crate) fn start(
    program: &SpawnSpec<'_>,
    end: ChildOutput,
    _: Supervision,
) -> io::Result<(ProcessTree, ExitWaiter)> {
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

    pub(crate) fn can_signal_directly(&self) -> bool {
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

    pub(crate) fn wait_and_reap(&self, mut waiter: ExitWaiter) -> io::Result<ProgramExit> {
        let status = waiter.child.wait().ok();
        let mut shell = lock(&self.shell);
        shell.gone = true;
        let code = status.map(|status| status.exit_code().cast_signed());
        Ok(ProgramExit { code, stopped: shell.stopped, ..ProgramExit::default() })
    }
}

/// The end that a program gets.
pub(crate) struct ChildOutput(Box<dyn SlavePty + Send>);

/// Opens a terminal.
pub(crate) fn open_output(
    shape: StdioKind,
) -> io::Result<(OutputReader, StopReadOnDrop, ChildOutput)> {
    let size = match shape {
        StdioKind::Terminal { cols, rows, .. } => PtySize { cols, rows, ..PtySize::default() },
        StdioKind::Pipe => PtySize::default(),
    };
    let pair = native_pty_system().openpty(size).map_err(io::Error::other)?;
    let reader = pair.master.try_clone_reader().map_err(io::Error::other)?;
    Ok((
        OutputReader(reader),
        StopReadOnDrop { master: Mutex::new(pair.master) },
        ChildOutput(pair.slave),
    ))
}

/// The keyboard of a terminal.
pub(crate) struct TerminalWriter(Mutex<Box<dyn Write + Send>>);

/// Returns the keyboard of the terminal that is read.
pub(crate) fn terminal_writer(
    _: &OutputReader,
    reading: &StopReadOnDrop,
) -> io::Result<TerminalWriter> {
    let master = lock(&reading.master);
    Ok(TerminalWriter(Mutex::new(master.take_writer().map_err(io::Error::other)?)))
}

impl TerminalWriter {
    /// Types bytes. Here it takes as long as the terminal likes.
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

/// The end that is read.
pub(crate) struct OutputReader(Box<dyn Read + Send>);

impl OutputReader {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Keeps the terminal open: without its master its reader ends.
pub(crate) struct StopReadOnDrop {
    master: Mutex<Box<dyn MasterPty + Send>>,
}

impl std::fmt::Debug for StopReadOnDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StopReadOnDrop")
    }
}
