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
use crate::program::{Ended, MARK, Program, Shape, Supervision};

pub(crate) fn init_command_helper() {}

/// There is no such limit.
pub(crate) fn survive_large_files() {}

/// The best way there is to keep processes together.
pub(crate) fn best_supervision() -> Supervision {
    Supervision::Outside
}

/// One program.
#[derive(Debug)]
pub(crate) struct Tree {
    shell: Mutex<Shell>,
}

#[derive(Debug)]
struct Shell {
    killer: Box<dyn ChildKiller + Send + Sync>,
    stopped: bool,
    gone: bool,
}

/// Whoever waits for the end of a [`Tree`].
pub(crate) struct Waiter {
    child: Box<dyn Child + Send + Sync>,
    _end: End,
}

/// Starts a program.
pub(crate) fn start(program: &Program<'_>, end: End, _: Supervision) -> io::Result<(Tree, Waiter)> {
    let argv = program.argv.iter().map(Into::into).collect();
    let mut builder = CommandBuilder::from_argv(argv);
    builder.cwd(program.cwd);
    builder.env_clear();
    for (name, value) in program.env {
        builder.env(name, value);
    }
    builder.env(MARK, program.mark);
    let child = end.0.spawn_command(builder).map_err(io::Error::other)?;
    let shell = Shell { killer: child.clone_killer(), stopped: false, gone: false };
    Ok((Tree { shell: Mutex::new(shell) }, Waiter { child, _end: end }))
}

impl Tree {
    pub(crate) fn waits_for_input(&self) -> bool {
        false
    }

    pub(crate) fn is_kept(&self) -> bool {
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

    pub(crate) fn abandon(&self) {}

    pub(crate) fn end(&self, mut waiter: Waiter) -> io::Result<Ended> {
        let status = waiter.child.wait().ok();
        let mut shell = lock(&self.shell);
        shell.gone = true;
        let code = status.map(|status| status.exit_code().cast_signed());
        Ok(Ended { code, stopped: shell.stopped, ..Ended::default() })
    }
}

/// The end that a program gets.
pub(crate) struct End(Box<dyn SlavePty + Send>);

/// Opens a terminal.
pub(crate) fn open(shape: Shape) -> io::Result<(Source, Reading, End)> {
    let size = match shape {
        Shape::Terminal { cols, rows, .. } => PtySize { cols, rows, ..PtySize::default() },
        Shape::Pipe => PtySize::default(),
    };
    let pair = native_pty_system().openpty(size).map_err(io::Error::other)?;
    let reader = pair.master.try_clone_reader().map_err(io::Error::other)?;
    Ok((Source(reader), Reading { master: Mutex::new(pair.master) }, End(pair.slave)))
}

/// The keyboard of a terminal.
pub(crate) struct Keys(Mutex<Box<dyn Write + Send>>);

/// Returns the keyboard of the terminal that is read.
pub(crate) fn keys(_: &Source, reading: &Reading) -> io::Result<Keys> {
    let master = lock(&reading.master);
    Ok(Keys(Mutex::new(master.take_writer().map_err(io::Error::other)?)))
}

impl Keys {
    /// Types bytes. Here it takes as long as the terminal likes.
    pub(crate) fn press(&self, bytes: &[u8], _: Duration) -> io::Result<usize> {
        let mut keys = lock(&self.0);
        keys.write_all(bytes)?;
        keys.flush()?;
        Ok(bytes.len())
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// The end that is read.
pub(crate) struct Source(Box<dyn Read + Send>);

impl Source {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Keeps the terminal open: without its master its reader ends.
pub(crate) struct Reading {
    master: Mutex<Box<dyn MasterPty + Send>>,
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reading")
    }
}
