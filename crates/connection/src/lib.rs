//! One session of `acp-lifecycle` on a connection of the SDK of the Agent Client Protocol (ACP): its
//! updates, permission requests and prompt answers, in their order.
//!
//! This crate is *only* the way from a session's outbox to a connection, and from a prompt to its
//! answer. It has no tools, models, files or processes, and no handlers: which methods an agent
//! serves is yours to say. For the bytes beneath a connection use `acp-transport`; for a whole agent,
//! `callboard-runtime`.
#![doc = include_str!("../README.md")]

mod errors;
mod limits;
mod lock;
mod notification;
mod paced_connection;
mod pending_responses;
mod prompts;
mod requests;
mod session;
mod sessions;
mod sink;
mod update_support;

pub use pending_responses::OpenRequest;
pub use prompts::{OpenPrompt, Turn};
pub use requests::{ClientRequestError, ClientRequests};
pub use session::{ClientSession, ClientSessionBuilder};
pub use sessions::ClientSessions;
