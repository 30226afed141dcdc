//! Tools for agents that speak ACP: each one previewed, permitted, run, and shown as it goes.
//!
//! This crate is *only* the tools and what they stand on: the [`Tool`] trait and the [`Registry`],
//! the built-in tools ([`Registry::builtin`]), and the engines beneath them (read, list, find, search, edit,
//! write, run a command), which work alone too. It knows nothing of JSON-RPC, sessions or models;
//! `acp-lifecycle` drives a call, `callboard` is an agent made of it all.
//!
//! ```
//! use acp_tools::Registry;
//!
//! let registry = Registry::builtin();
//! assert!(registry.spec("read_file").is_some() && registry.spec("terminal").is_some());
//! # Ok::<(), acp_lifecycle::TitlesError>(())
//! ```

pub mod background;
mod builtin;
pub mod edit;
pub mod error;
pub mod files;
pub mod limits;
mod lock;
pub mod note;
mod progress;
pub mod registry;
pub mod search;
pub mod tool;

/// The token that cancels calls; tokio-util's own type.
pub use acp_lifecycle::CancellationToken;
pub use error::{ErrorCode, ToolError, ToolFailure};
pub use files::workspace::{Workspace, WorkspaceError};
pub use note::{CATALOGUES, Note};
pub use registry::{PreparedCall, Registry, ToolDefinition};
pub use tool::backend::{
    ClientCommand, ClientError, ClientOutput, ClientTerminal, TerminalBackend, TextBackend,
};
pub use tool::{
    CallDescription, Context, DynTool, Invocation, OutputDisplay, SideEffects, Spec, Tool,
    ToolHint, ToolOutput, ToolPreview, ToolRole,
};

// The examples of the README are tested like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
