//! A bounded stdio transport for the SDK of the Agent Client Protocol (ACP): newline-delimited
//! JSON-RPC over two byte streams, and a limit on how many messages an agent may send before the
//! client reads them.
//!
//! This crate handles *only* the bytes, lines and frames of an SDK connection. For sessions and
//! documents use `acp-lifecycle`.
#![doc = include_str!("../README.md")]

mod counters;
mod decode;
mod encode;
mod errors;
mod framing;
mod json_bounds;
mod limits;
mod queue;
mod reader;
mod sys;
mod transport;
mod unique_keys;
mod writer;

/// The type of the token that ends a connection, from tokio-util.
pub use tokio_util::sync::CancellationToken;

pub use counters::{CounterSnapshot, TransportCounters};
pub use errors::jsonrpc_error_with_reason;
pub use limits::MAX_LINE_BYTES;
pub use transport::{Transport, is_within_json_bounds, stdio};
