//! Tools for agents that speak ACP. Each tool call is previewed, permitted and run, and its
//! progress is sent to the client.
//!
//! This crate contains *only* the tools and the functions behind them. The tools are the [`Tool`]
//! trait, the [`Registry`], and the built-in tools ([`Registry::builtin`]). The functions read,
//! list, find, search, edit and write files, and run commands. These functions can also be used
//! without the tools. The crate `acp-lifecycle` runs a tool call, and `callboard` is a complete
//! agent that uses these crates.
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
mod host_permission;
pub mod limits;
mod lock;
mod network;
pub mod note;
mod progress;
pub mod registry;
pub mod sandbox;
mod schema;
pub mod search;
mod shown_changes;
pub mod tool;
#[cfg(feature = "web")]
mod web;

/// The token that cancels calls, re-exported from tokio-util.
pub use acp_lifecycle::CancellationToken;
pub use error::{ErrorCode, ToolError, ToolFailure};
pub use files::workspace::{Workspace, WorkspaceError};
pub use note::{CATALOGUES, Note};
pub use registry::{LiveTools, PreparedCall, Registry, ToolDefinition};
pub use tool::backend::{
    ClientCommand, ClientError, ClientOutput, ClientTerminal, TerminalBackend, UnsavedTextBackend,
};
pub use tool::{
    CallDescription, CommandOutputStream, Context, DynTool, Invocation, OutputDisplay, SideEffects,
    Spec, Tool, ToolHint, ToolOutput, ToolPreview, ToolRole,
};

#[cfg(feature = "web")]
pub use web::{WebSearchSettings, WebSearchSettingsError, WebSearchShape};

// The examples in the README are run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
