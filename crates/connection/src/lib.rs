//! A session of `acp-lifecycle` on a connection of the Agent Client Protocol (ACP) SDK: its
//! updates, permission requests and prompt responses, in order.
//!
//! This crate *only* connects a session's outbox to a connection, and each prompt to its response.
//! It handles ACP methods only in [`ClientSessions::agent_builder_with_cancel_close`],
//! [`ClientSessions::prompt_agent_builder`] and [`serve_stdio`]. The agent decides which other
//! methods to serve. For the byte streams of a connection, use `acp-transport`. For a complete
//! agent, use `callboard-runtime`.
#![doc = include_str!("../README.md")]

mod errors;
mod limits;
mod lock;
mod notification;
mod paced_connection;
mod pending_responses;
mod permission_message;
mod prompts;
mod requests;
mod serve;
mod session;
mod sessions;
mod sink;
mod update_encoder;
mod update_support;

pub use pending_responses::OpenRequest;
pub use prompts::{OpenPrompt, Turn};
pub use requests::{ClientRequestError, ClientRequestSender};
pub use serve::{prompt_text, serve_stdio};
pub use session::{ClientSession, ClientSessionBuilder};
pub use sessions::ClientSessions;
pub use update_encoder::UpdateEncoder;
