//! A program to start, and its exit, in the same form for every system.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::sandbox::CommandSandbox;

/// Name of the environment variable that all processes of a command have. Its value is unique per
/// command.
pub const COMMAND_ID_VARIABLE: &str = "ACP_TOOLS_COMMAND";

/// A program and its start parameters.
#[derive(Debug)]
pub(crate) struct SpawnSpec<'a> {
    /// Path of the program and its arguments.
    pub(crate) argv: Vec<&'a str>,
    pub(crate) cwd: &'a Path,
    pub(crate) env: &'a BTreeMap<String, String>,
    /// Value of [`COMMAND_ID_VARIABLE`].
    pub(crate) command_id: &'a str,
    pub(crate) sandbox: Option<&'a CommandSandbox>,
}

/// How the processes of a program are tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supervision {
    /// By a helper process that is their ancestor.
    Helper,
    /// By a search through the system's processes.
    Outside,
}

/// The standard streams of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StdioLayout {
    /// One pipe for the output and the errors. Standard input is empty.
    Pipe,
    /// A stream socket for the input and the output, and a pipe for the errors.
    Socket,
    /// A terminal. If `typed`, the terminal is also standard input; otherwise standard input is
    /// empty.
    Terminal { cols: u16, rows: u16, typed: bool },
}

/// The exit of a program after all of its processes are gone.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProgramExit {
    /// Exit code of the program, if it exited by itself.
    pub(crate) code: Option<i32>,
    /// Signal that ended the program, e.g. `SIGKILL`.
    pub(crate) signal: Option<String>,
    /// Whether a stop was requested before the program exited.
    pub(crate) stopped: bool,
    /// Number of processes that outlived the program and did not exit by themselves.
    pub(crate) left_over: usize,
    /// Resource usage of all processes of the program, if known.
    pub(crate) usage: Option<RawResourceUsage>,
}

/// Resource usage of a program's processes, except those that were not reaped.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RawResourceUsage {
    pub(crate) cpu_micros: u64,
    /// Peak memory of the largest process.
    pub(crate) peak_bytes: u64,
}

/// Returns an error for a program with a sandbox. Only a helper starts a sandbox.
pub(crate) fn refuse_sandbox(program: &SpawnSpec<'_>) -> io::Result<()> {
    match program.sandbox {
        None => Ok(()),
        Some(_) => Err(io::Error::other(
            "the command has a sandbox, but there is no helper process to start it",
        )),
    }
}
