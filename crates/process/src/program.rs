//! A program to start, and what becomes of it: the same on every system.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The environment variable that all processes of a command have, each command with its own value.
pub(crate) const COMMAND_ID_VARIABLE: &str = "ACP_TOOLS_COMMAND";

/// A program, and how it is started.
#[derive(Debug)]
pub(crate) struct SpawnSpec<'a> {
    /// Its path and its arguments.
    pub(crate) argv: Vec<&'a str>,
    pub(crate) cwd: &'a Path,
    pub(crate) env: &'a BTreeMap<String, String>,
    /// The value of [`MARK`].
    pub(crate) command_id: &'a str,
}

/// How the processes of a program are kept together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supervision {
    /// By a helper above them.
    Helper,
    /// By looking for them from outside.
    Outside,
}

/// What a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StdioKind {
    Pipe,
    /// A terminal, which it also reads if it is `typed` at; else its standard input is empty.
    Terminal {
        cols: u16,
        rows: u16,
        typed: bool,
    },
}

/// What there is to say of a program whose processes are gone.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProgramExit {
    /// Its exit code, if it exited.
    pub(crate) code: Option<i32>,
    /// The signal that ended it otherwise, as `SIGKILL`.
    pub(crate) signal: Option<String>,
    /// Whether it had been asked to stop before it ended.
    pub(crate) stopped: bool,
    /// How many processes did not end by themselves after it.
    pub(crate) left_over: usize,
    /// What all of them used, where that is known.
    pub(crate) usage: Option<RawResourceUsage>,
}

/// What the processes of a program used, without those that were not reaped.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RawResourceUsage {
    pub(crate) cpu_micros: u64,
    /// Of the largest of them.
    pub(crate) peak_bytes: u64,
}
