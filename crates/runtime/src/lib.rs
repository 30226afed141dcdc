//! An ACP agent as a library: a model and tools become sessions that any client can use.
//!
//! It is *only* the agent's inside: connections, sessions, turns, context, modes, slash commands. It
//! reads no configuration, no key and no command line; what it keeps lies where it is told to keep it.
//! The parts beneath it serve other designs: `acp-lifecycle` for the tool calls of a loop of your own,
//! `acp-tools` for the tools alone.

mod agent;
mod authenticator;
mod backends;
mod blocking;
mod catalogue;
mod commands;
mod context;
mod errors;
mod limits;
mod lock;
mod mode;
mod options;
mod permission;
pub mod private_files;
mod prompt;
mod retry;
mod rule_store;
mod secrets;
mod session;
mod spans;
mod turn;

pub use agent::{Agent, serve};
pub use authenticator::Authenticator;
pub use blocking::one_at_a_time;
pub use catalogue::{BuiltIn, Catalogue, Choice};
pub use commands::{CommandContext, SlashCommand};
pub use limits::MAX_LISTED_CHOICES;
pub use mode::Mode;
pub use rule_store::StateStore;
pub use secrets::LiveSecrets;

// The examples of the README are tested like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
