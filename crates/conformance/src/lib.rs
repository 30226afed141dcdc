//! Tests for agents of the Agent Client Protocol (ACP), of whatever make: a judge of what an agent
//! and its client said, and a client that injects faults.
//!
//! This crate is *only* a test kit that sees an agent from outside. It has no model and no tools,
//! and shares no code with the projections of `acp-types`, so it can judge them.
#![doc = include_str!("../README.md")]

mod agent;
mod behaviour;
mod client;
mod client_files;
mod client_terminals;
mod judge;
mod limits;
mod malformed;
mod service_reply;
mod services;
mod session;
mod streams;
#[cfg(test)]
mod tests;

pub use agent::{AgentUnderTest, Error};
pub use behaviour::{
    ClientBehaviour, FileService, FormReply, OutputTruncation, PermissionReply, ReplyTiming,
    ScriptedCommand, ServiceBehaviour, TerminalService,
};
pub use client::{JsonRpcResult, ReceivedPermissionRequest, TestClient};
pub use judge::{ConformanceRule, RuleViolation, Severity, Side, TranscriptJudge};
pub use malformed::MALFORMED_LINES;
pub use session::{ObservedSession, call_text, content_text, shown_terminal_id};
