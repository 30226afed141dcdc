//! An ACP agent as a library: from a model and tools it creates sessions that any client can use.
//!
//! The crate contains *only* the internals of an agent: connections, sessions, turns, context,
//! modes and slash commands. The crate reads no configuration, no key and no command line, and it
//! stores data only in the folder that the embedder sets. Use the lower-level crates for other
//! designs: `acp-lifecycle` manages the tool calls of a custom agent loop, and `acp-tools` provides
//! only the tools.

mod agent;
mod authenticator;
mod backends;
mod blocking;
mod command_sandbox;
mod commands;
mod context;
mod errors;
mod limits;
mod lock;
mod model_catalogue;
mod offered_tools;
mod options;
mod permission;
mod permission_mode;
pub mod private_files;
mod prompt;
mod retry;
mod rewind;
mod rule_store;
mod secrets;
mod session;
mod session_archive;
mod spans;
mod stored_sessions;
mod turn;
mod usage_totals;

pub use agent::{CodingAgent, serve};
pub use authenticator::Authenticator;
pub use blocking::spawn_blocking_exclusive;
pub use commands::{SlashCommand, SlashCommandContext};
pub use limits::MAX_CATALOGUE_CHOICES;
pub use model_catalogue::{BuiltInModels, ModelCatalogue, ModelChoice};
pub use permission_mode::{PermissionMode, RestoredModeLimit};
pub use rule_store::FileRuleStore;
pub use secrets::LiveSecrets;
pub use session_archive::{
    PrunableData, PrunedData, SessionArchive, SessionArchiveError, SessionRetention,
};

// Doctests check the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDocTests;
