//! An ACP agent as a library: a model and tools become sessions that any client can use.
//!
//! It contains only the internals of an agent: connections, sessions, turns, context, modes and
//! slash commands. It reads no configuration, no key and no command line, and it stores data only
//! in the folder that the embedder sets. The crates beneath it serve other designs: `acp-lifecycle`
//! manages the tool calls of a custom agent loop, `acp-tools` provides the tools alone.

mod agent;
mod authenticator;
mod backends;
mod blocking;
mod commands;
mod context;
mod errors;
mod limits;
mod lock;
mod model_catalogue;
mod options;
mod permission;
mod permission_mode;
pub mod private_files;
mod prompt;
mod retry;
mod rule_store;
mod secrets;
mod session;
mod spans;
mod stored_sessions;
mod turn;
mod usage_totals;

pub use agent::{CodingAgent, serve};
pub use authenticator::Authenticator;
pub use blocking::spawn_blocking_exclusive;
pub use commands::{CommandContext, SlashCommand};
pub use limits::MAX_CATALOGUE_CHOICES;
pub use model_catalogue::{BuiltInModels, ModelCatalogue, ModelChoice};
pub use permission_mode::PermissionMode;
pub use rule_store::FileRuleStore;
pub use secrets::LiveSecrets;

// The examples of the README are tested as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDocTests;
