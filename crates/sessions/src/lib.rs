//! The subcommand `sessions` for agents on the Agent Client Protocol (ACP). It lists, shows,
//! searches, exports and deletes stored sessions.
//!
//! This crate is *only* this subcommand: its arguments and its output. To read stored sessions in a
//! program, use `SessionArchive` of `callboard-runtime`. To store sessions, use `acp-store`.
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
pub use resume::{FoundSession, ResumeArgs, SelectedSession};
