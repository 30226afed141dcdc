//! The documents of ACP tool calls: everything that a client receives about a call is a patch of a
//! small document.
//!
//! This crate contains *only* documents, projections and client states. The documents are
//! [`ToolCallReport`] and [`TerminalReport`] with their composable patches, and the smaller
//! documents of a session ([`MessageChunk`], [`Plan`], [`SessionStatePart`]). The projections
//! ([`wire`]) convert patches to messages of the Agent Client Protocol. The client states
//! ([`client_state`]) apply such messages like a client. To drive a call through its lifecycle
//! (announce, permit, run, end), use `acp-lifecycle`. For the wire types themselves, use the schema
//! crate, which this crate re-exports as [`schema`].
//!
//! ```
//! use acp_types::{Status, ToolCallPatch, ToolKind, client_state, wire};
//!
//! let mut projection = wire::v1::V1Projection::new(wire::v1::TerminalDisplay::Text);
//! let mut client = client_state::v1::V1ClientState::new();
//! let announce = ToolCallPatch::for_new_call("read_file", "Reading src/lib.rs", ToolKind::Read);
//! let start = ToolCallPatch::new().with_status(Status::InProgress);
//! let finish = ToolCallPatch::new().with_status(Status::Completed);
//! for patch in [announce, start, finish] {
//!     for update in projection.updates_for_call_patch(&"turn1/call1".into(), &patch) {
//!         client.apply_session_update(&update);
//!     }
//! }
//! assert_eq!(client.violations(), []);
//! assert!(client.observed_call("turn1/call1").is_some());
//! ```

pub mod change;
pub mod client_state;
pub mod content;
pub mod diff;
pub mod id;
pub mod json;
pub mod limits;
pub mod location;
pub mod message;
pub mod meta;
pub mod patch;
pub mod path;
pub mod permission;
pub mod plan;
pub mod report;
pub mod session;
pub mod status;
pub mod terminal;
pub mod tool_kind;
pub mod trace;
pub mod wire;

/// The only version of the wire types that this crate supports.
pub use agent_client_protocol_schema as schema;
/// The id of a tool call in its session, from the schema crate.
pub use agent_client_protocol_schema::v1::ToolCallId;
/// The category of a tool call, from the schema crate. v1 and draft v2 have the same categories.
pub use agent_client_protocol_schema::v1::ToolKind;
/// A text, image, audio, resource or link, and the id of a terminal, from the schema crate.
pub use agent_client_protocol_schema::v1::{ContentBlock, TerminalId};

pub use change::{FileChange, FileChangeOperation, Hunk, HunkLine, LineTag};
pub use content::{Content, Image};
pub use id::TurnId;
pub use location::{Location, LocationError};
pub use message::{MessageChunk, ReplayedPromptBlock, Role};
pub use meta::{CallEndReason, CallMeta, OmittedCounts, Progress};
pub use patch::{ContentPatch, TerminalPatch, ToolCallPatch};
pub use permission::{PermissionOption, PermissionOptionKind};
pub use plan::{Plan, PlanEntry, PlanPriority, PlanStatus};
pub use report::{CallCapabilities, ToolCallReport};
pub use session::{
    AvailableCommand, Compaction, CompactionStatus, ConfigCategory, ConfigOption, ConfigValue,
    ContextUsage, Cost, SessionInfo, SessionMode, SessionModes, SessionStatePart,
};
pub use status::Status;
pub use terminal::{TerminalExit, TerminalOutput, TerminalReport, TerminalSize};
pub use trace::TraceContext;

// Tests the examples of the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
