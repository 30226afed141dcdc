//! Tests for agents of the Agent Client Protocol (ACP), of whatever make: a judge of what an agent
//! and its client said, and a client that injects faults.
//!
//! This crate is *only* a test kit that sees an agent from outside. It has no model and no tools,
//! and shares no code with the projections of `acp-types`, so it can judge them.
#![doc = include_str!("../README.md")]

mod agent;
mod behaviour;
mod client;
mod files;
mod judge;
mod limits;
mod malformed;
mod served;
mod services;
mod session;
mod streams;
mod terminals;
#[cfg(test)]
mod tests;

pub use agent::{Agent, Error};
pub use behaviour::{
    Behaviour, Cut, Files, Form, Permission, Scripted, Service, Terminals, Timing,
};
pub use client::{Answer, Asked, Client};
pub use judge::{Fault, Rule, Severity, Side, Transcript};
pub use malformed::MALFORMED_LINES;
pub use session::{Session, shown, terminal_id, text_of};
