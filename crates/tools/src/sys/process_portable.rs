//! Ends processes and reads terminals where there are no process groups to signal: only the shell
//! itself is killed, what it started may outlive it, and nothing is asked to stop before.
//!
//! Same interface as the Unix module.

use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use portable_pty::{Child, ChildKiller, MasterPty};

/// The environment variable that all processes of a command have, each command with its own value.
pub(crate) const MARK: &str = "ACP_TOOLS_COMMAND";

/// What there is to say of a command whose shell is gone.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<String>,
    pub(crate) stopped: bool,
    pub(crate) left_over: usize,
}

/// The shell of one command.
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

impl Tree {
    pub(crate) fn of(child: &dyn Child, _mark: &str) -> io::Result<Self> {
        let shell = Shell { killer: child.clone_killer(), stopped: false, gone: false };
        Ok(Self { shell: Mutex::new(shell) })
    }

    pub(crate) fn terminate(&self) {
        self.kill();
    }

    pub(crate) fn kill(&self) {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        if !shell.gone {
            shell.stopped = true;
            drop(shell.killer.kill());
        }
    }

    pub(crate) fn end(&self, mut child: Box<dyn Child + Send + Sync>) -> Ended {
        let status = child.wait().ok();
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        shell.gone = true;
        let code = status.map(|status| status.exit_code().cast_signed());
        Ended { code, stopped: shell.stopped, ..Ended::default() }
    }
}

/// Opens the reading side of a terminal.
pub(crate) fn open(master: Box<dyn MasterPty + Send>) -> io::Result<(Terminal, Reading)> {
    let reader = master.try_clone_reader().map_err(io::Error::other)?;
    Ok((Terminal(reader), Reading { _master: Mutex::new(master) }))
}

/// The side of a terminal that shows what was written.
pub(crate) struct Terminal(Box<dyn Read + Send>);

impl Terminal {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Keeps the terminal open: without its master its reader ends.
pub(crate) struct Reading {
    _master: Mutex<Box<dyn MasterPty + Send>>,
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reading")
    }
}
