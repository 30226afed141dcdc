//! Callboard: a small, fast, safe coding agent for every ACP client.
//!
//! This crate is *only* the program: command line, configuration, keys and model selection. To
//! embed the agent, use `callboard-runtime`.

mod check_wire;
mod cli;
mod config;
mod key_store;
mod limits;
mod log;
mod login;
mod model_selection;
mod secrets;
mod session_store;
mod telemetry;
mod user_folders;

pub use cli::main;

// Compiles the examples of the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDocTests;

// Also compiles the examples of the repository's documents as doctests. These examples need all
// crates. The published package does not include the documents.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct RepositoryReadmeDocTests;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct EmbeddingDocTests;
