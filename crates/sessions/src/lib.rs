//! The subcommand `sessions` of an agent on the Agent Client Protocol (ACP): it lists, shows,
//! searches, exports and deletes stored sessions.
//!
//! This crate is *only* that command line: its arguments, and what it prints. To read stored
//! sessions in a program, use `SessionArchive` of `callboard-runtime`; to store them, `acp-store`.
#![doc = include_str!("../README.md")]

mod args;
mod command;
mod context;
mod error;
mod export;
mod listing;
mod resume;
mod show;

pub use args::{ExportFormat, SessionsArgs};
pub use command::run_sessions_command;
pub use context::{SessionsContext, SessionsTerminal};
pub use error::SessionsError;
pub use resume::{ResumeArgs, SelectedSession};
