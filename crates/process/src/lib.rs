//! Runs one shell command with all the processes that it starts, with live and bounded output. The
//! crate does *only* that; to parse command lines, use `callboard-shell`.
//!
//! The caller passes a [`ShellCommand`], receives output while the command runs, and receives a
//! [`CommandExit`] at the end. On Linux, a program whose `main` begins with
//! [`run_if_command_helper`] runs its commands under helper processes. No process then outlives its
//! command, and no command outlives the program, even if the program is killed.
#![doc = include_str!("../README.md")]

pub mod env;
pub mod limits;
mod lock;
mod output;
mod program;
mod run;
mod sandbox;
#[cfg_attr(not(unix), path = "tree_portable.rs")]
mod tree;

/// The token that cancels a command; a re-export of tokio-util's type.
pub use tokio_util::sync::CancellationToken;

pub use output::{OutputBytesOrGap, binary_kind, escapes, record, text};
pub use program::COMMAND_ID_VARIABLE;
pub use run::{
    CommandExit, CommandInput, ExitCause, ResourceUsage, ShellCommand, SpawnError, Streams,
    WindowSize, has_helper, run_command, run_command_and_record, run_if_command_helper,
};
#[cfg(unix)]
pub use run::{PipedCommand, PipedProgram, PipedStreams};
pub use sandbox::CommandSandbox;
