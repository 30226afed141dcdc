//! The life of an ACP tool call: announced, permitted, running, ended exactly once.
//!
//! This crate is *only* the state machine of that life, sans-IO: the [`Board`] knows which steps
//! are legal and makes the patches, the [`Outbox`] orders everything a session sends, [`Rules`]
//! and a [`Policy`] decide what may run, and a [`Grant`] is the only key to what was [`Pinned`].
//! [`Session`] is all of it for one session. Time comes in as an argument. It knows nothing of
//! files, processes, JSON-RPC or models; for tools, use `acp-tools`.
//!
//! With the feature `tokio` (on by default) there are async handles and a driver: see
//! [`SessionHandle`] and [`perform()`].
//!
//! ```
//! use acp_lifecycle::{End, Item, Moment, Session};
//! use acp_types::{ToolCallPatch, ToolKind};
//! # use std::time::{Instant, SystemTime};
//!
//! let now = Moment { at: Instant::now(), wall: SystemTime::now() };
//! let mut session = Session::new("/project");
//! session.announce(&"c".into(), &"turn1".into(), ToolCallPatch::announce("x", "Do x", ToolKind::Other), now);
//! session.start(&"c".into(), now);
//! session.finish(&"c".into(), End::completed(), now);
//! let mut sent = 0;
//! while let Some(Item::ToolCall(..)) = session.poll(now.at) {
//!     sent += 1;
//! }
//! assert_eq!(sent, 3);
//! ```

pub mod arriving;
pub mod board;
mod caught;
mod config;
pub mod effects;
pub mod history;
pub mod ids;
pub mod limits;
pub mod outbox;
pub mod permission;
pub mod rules;
pub mod sanitize;
pub mod schedule;
pub mod session;
mod speech;
mod terminals;
pub mod title;
pub mod usage;

#[cfg(feature = "tokio")]
pub mod driver;
#[cfg(feature = "tokio")]
pub mod handle;
#[cfg(feature = "tokio")]
pub mod middleware;
#[cfg(feature = "tokio")]
pub mod perform;
#[cfg(feature = "tokio")]
mod span;

pub use arriving::Arriving;
pub use board::{Board, Counters, End, Moment};
pub use config::SessionConfig;
pub use effects::{Effect, Effects};
pub use history::History;
pub use ids::{ClientRequestId, PermissionId, ResponseId};
pub use outbox::{Item, Outbox};
pub use permission::{
    Answer, AnyPlan, Denial, Grant, GrantMismatch, NoAnswer, Outcome, Permit, Pinned, Subject,
};
pub use rules::{
    AcceptEditsPolicy, AllowPolicy, AskAlwaysPolicy, AskPolicy, Matcher, Policy, ReadOnlyPolicy,
    Rule, RuleStore, Rules, Scope, Verdict, is_obeyed_beneath, is_protected, is_protected_beneath,
};
pub use sanitize::Secrets;
pub use schedule::{Footprint, Schedule};
pub use session::{Request, Session};
pub use title::Titles;
#[cfg(feature = "titles")]
pub use title::TitlesError;
pub use usage::{SessionUsage, Updates, Usage};

/// The token that cancels turns and calls; tokio-util's own type.
#[cfg(feature = "tokio")]
pub use tokio_util::sync::CancellationToken;

#[cfg(feature = "tokio")]
pub use driver::{Sink, Unreachable, drive};
#[cfg(feature = "tokio")]
pub use handle::{CallHandle, OpenCall, SessionHandle};
#[cfg(feature = "tokio")]
pub use middleware::{BatchCall, Middleware, progress};
#[cfg(feature = "tokio")]
pub use perform::{Ended, Executor, Failure, Preview, Success, perform};

// The examples of the README are tested like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
