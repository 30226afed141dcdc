//! Tests for agents of the Agent Client Protocol (ACP), in any language: a judge of transcripts,
//! and a fault-injecting client.
//!
//! This crate is *only* a test kit that observes an agent from outside. The crate shares no code
//! with the modules of `acp-types` that encode messages, because it must find faults in these
//! messages.
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

pub use agent::{AgentTestError, AgentUnderTest};
pub use behaviour::{
    ClientBehaviour, FileService, FormReply, OutputTruncation, PermissionReply,
    PermissionReplyTiming, ScriptedCommand, ServiceBehaviour, TerminalService,
};
pub use client::{JsonRpcResult, ReceivedPermissionRequest, TestClient};
pub use judge::{ConformanceRule, RuleViolation, Severity, Side, TranscriptJudge};
pub use malformed::MALFORMED_LINES;
pub use session::{
    ObservedSession, call_text, content_text, progress_in_meta, shown_diffs, shown_terminal_id,
};
