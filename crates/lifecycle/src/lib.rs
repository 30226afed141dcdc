//! The lifecycle of an ACP tool call: announced, permitted, running, ended exactly once.
//!
//! This crate is *only* the sans-IO state machine of that lifecycle. The [`CallBoard`] checks which
//! steps are legal and creates the patches. The [`Outbox`] orders everything that a session sends.
//! [`Rules`] and a [`Policy`] decide which calls may run, and only a [`Grant`] releases a
//! [`PinnedPlan`]. A [`Session`] combines these parts. The time is passed as an argument. For
//! tools, use `acp-tools`.
//!
//! The feature `tokio` (on by default) adds async handles and a driver: see [`SessionHandle`] and
//! [`execute_call()`].
//!
//! ```
//! use acp_lifecycle::{CallEnd, OutboxItem, Session, Timestamp};
//! use acp_types::{ToolCallPatch, ToolKind};
//! # use std::time::{Instant, SystemTime};
//!
//! let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::now() };
//! let mut session = Session::new("/project");
//! let patch = ToolCallPatch::for_new_call("x", "Do x", ToolKind::Other);
//! session.announce_call(&"c".into(), &"turn1".into(), patch, now);
//! session.start_call(&"c".into(), now);
//! session.finish_call(&"c".into(), CallEnd::completed(), now);
//! let mut sent = 0;
//! while let Some(OutboxItem::ToolCall(..)) = session.poll(now.monotonic) {
//!     sent += 1;
//! }
//! assert_eq!(sent, 3);
//! ```

pub mod board;
pub mod call_history;
mod catch_panic;
mod config;
pub mod effects;
pub mod ids;
pub mod limits;
mod message_stream;
pub mod outbox;
pub mod partial_arguments;
pub mod permission;
pub mod rules;
pub mod sanitize;
pub mod schedule;
pub mod session;
mod terminals;
pub mod title;
pub mod transcript;
pub mod usage;

#[cfg(feature = "tokio")]
mod call_span;
#[cfg(feature = "tokio")]
pub mod driver;
#[cfg(feature = "tokio")]
pub mod execute_call;
#[cfg(feature = "tokio")]
pub mod handle;
#[cfg(feature = "tokio")]
pub mod middleware;

pub use board::{CallBoard, CallEnd, RejectedChangeCounters, Timestamp};
pub use call_history::CallHistory;
pub use config::SessionConfig;
pub use effects::{Effect, Effects};
pub use ids::{AgentRequestId, AgentResponseId, PermissionId};
pub use outbox::{Outbox, OutboxItem};
pub use partial_arguments::PartialArguments;
pub use permission::{
    ErasedPlan, Grant, GrantMismatch, PermissionAnswer, PermissionOutcome, PermissionSubject,
    PermitDecision, PinnedPlan, UnansweredReason, UnaskedDenialReason,
};
pub use rules::{
    AcceptEditsPolicy, AllowInProjectPolicy, AskAlwaysPolicy, AskExceptReadsPolicy, Matcher,
    Policy, ReadOnlyPolicy, Rule, RuleScope, RuleStore, Rules, Verdict, is_executed_or_config_path,
    is_protected, is_protected_in_root,
};
pub use sanitize::Secrets;
pub use schedule::{Footprint, Schedule};
pub use session::{PermissionMemory, PermissionRequest, Session};
pub use title::Titles;
#[cfg(feature = "titles")]
pub use title::TitlesError;
pub use transcript::{
    CallDocument, ChangedDocument, PromptDocument, SessionDocument, TranscriptFold,
};
pub use usage::{SessionCallUsage, ToolUsage, UpdateCounts};

/// The type of the token that cancels turns and calls, from tokio-util.
#[cfg(feature = "tokio")]
pub use tokio_util::sync::CancellationToken;

#[cfg(feature = "tokio")]
pub use driver::{ClientUnreachable, OutboxSink, drive_session};
#[cfg(feature = "tokio")]
pub use execute_call::{
    CallExecutor, CallFailure, CallOutcome, CallPreview, CallSuccess, execute_call,
};
#[cfg(feature = "tokio")]
pub use handle::{CallHandle, OpenCall, SessionHandle};
#[cfg(feature = "tokio")]
pub use middleware::{BatchCall, ToolMiddleware, report_progress};

// The examples of the README are tested like the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
