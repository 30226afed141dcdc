//! Callboard: a small, fast, safe coding agent for every ACP client.
//!
//! This crate is *thin*: the connection over the ACP SDK, sessions and turns, and the command line.
//! What a tool call is, lives in `acp-types`; how it lives, in `acp-lifecycle`; what it does, in
//! `acp-tools`; how lines come and go, in `acp-transport`; models, in `callboard-models`. Those are the
//! crates to build another agent on; this one is for running and for embedding the whole.

pub mod agent;
mod attempt;
mod blocking;
pub mod catalogue;
mod check_wire;
mod choose;
pub mod cli;
mod commands;
mod config;
mod context;
mod errors;
pub mod exec;
mod keys;
pub mod limits;
mod log;
mod login;
pub mod mode;
mod options;
mod permission;
mod prompt;
pub mod rule_store;
mod secrets;
mod session;
mod sys;
mod telemetry;
mod turn;
pub mod ui;
mod wire;

// The examples of the README are tested like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
