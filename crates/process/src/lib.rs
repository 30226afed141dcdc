//! Runs one shell command with everything that it starts: live output, bounded, and over when it says
//! so.
//!
//! It knows nothing of tool calls, permissions, sessions or ACP: a [`Command`] goes in, bytes come out
//! while it runs, an [`Exit`] at the end. On Linux a program whose `main` begins with [`init_command_helper`]
//! keeps its commands by helpers: then nothing outlives a command, and no command outlives the
//! program, however that ends.
#![doc = include_str!("../README.md")]

pub mod env;
pub mod limits;
mod lock;
mod output;
mod program;
mod run;
#[cfg_attr(not(unix), path = "tree_portable.rs")]
mod tree;

/// The token that ends a command; tokio-util's own type.
pub use tokio_util::sync::CancellationToken;

pub use output::{OutputPiece, binary_kind, escapes, record, text};
pub use run::{
    CommandExit, CommandInput, ExitCause, ResourceUsage, ShellCommand, SpawnError, Streams,
    WindowSize, has_helper, init_command_helper, run, run_recorded,
};
