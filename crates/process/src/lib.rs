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

pub use output::{Piece, binary_kind, escapes, record, text};
pub use run::{
    Command, End, Exit, Input, Size, SpawnError, Streams, Usage, has_helper, init_command_helper,
    run, run_recorded,
};
