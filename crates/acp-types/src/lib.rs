//! What a client sees of a tool call is a small document; everything sent about it is a patch.
//!
//! This crate is *only* that: the two documents ([`ToolCallReport`], [`TerminalReport`]), the small
//! ones of the session around them ([`Chunk`], [`Plan`], [`SessionState`]), the patches that change
//! the two and compose, the projections to the messages of the Agent Client Protocol ([`wire`]), and
//! the observers that fold such messages back ([`observe`]). It knows nothing of clocks, randomness, files, sockets, tools or models. To drive the life of
//! a call (announce, permit, run, end), use `acp-lifecycle`; for the wire types themselves, use
//! the schema crate, re-exported here as [`schema`].
//!
//! ```
//! use acp_types::{Status, ToolCallPatch, ToolKind, observe, wire};
//!
//! let mut sent = wire::v1::Sent::new(wire::v1::Surface::Text);
//! let mut client = observe::v1::Observer::new();
//! let announce = ToolCallPatch::announce("read_file", "Reading src/lib.rs", ToolKind::Read);
//! let start = ToolCallPatch::new().status(Status::InProgress);
//! let finish = ToolCallPatch::new().status(Status::Completed);
//! for patch in [announce, start, finish] {
//!     for update in sent.tool_call(&"turn1/call1".into(), &patch) {
//!         client.update(&update);
//!     }
//! }
//! assert_eq!(client.violations(), []);
//! assert!(client.tool_call("turn1/call1").is_some());
//! ```

pub mod change;
pub mod content;
pub mod diff;
pub mod id;
pub mod json;
pub mod limits;
pub mod location;
pub mod message;
pub mod meta;
pub mod observe;
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

/// The one version of the wire types that this crate projects to.
pub use agent_client_protocol_schema as schema;
/// Identifies a tool call in its session; the schema crate's own type.
pub use agent_client_protocol_schema::v1::ToolCallId;
/// The category of a tool call; the schema crate's own type, the same set in v1 and v2.
pub use agent_client_protocol_schema::v1::ToolKind;
/// Text, image, audio, resource or link; the schema crate's own type.
pub use agent_client_protocol_schema::v1::{ContentBlock, TerminalId};

pub use change::{FileChange, Hunk, HunkLine, LineTag, Operation};
pub use content::{Content, Image};
pub use id::TurnId;
pub use location::{Location, LocationError};
pub use message::{MessageChunk, Role};
pub use meta::{CallEndReason, CallMeta, OmittedCounts, Progress};
pub use patch::{ContentPatch, TerminalPatch, ToolCallPatch};
pub use permission::{PermissionOption, PermissionOptionKind};
pub use plan::{Plan, PlanEntry, PlanPriority, PlanStatus};
pub use report::{CallCapabilities, ToolCallReport};
pub use session::{
    AvailableCommand, Compaction, CompactionStatus, ConfigCategory, ConfigOption, ConfigValue,
    ContextUsage, Cost, SessionInfo, SessionMode, SessionModes, SessionState,
};
pub use status::Status;
pub use terminal::{TerminalExit, TerminalOutput, TerminalReport, TerminalSize};
pub use trace::TraceContext;

// The examples of the README are tested like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
