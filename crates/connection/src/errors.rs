//! The JSON-RPC errors that a session answers with, in the shape of those of the transport.

use acp_transport::jsonrpc_error;
use agent_client_protocol::{Error, ErrorCode};

/// A session that is not open any more, or soon will not be.
pub(crate) fn session_closing() -> Error {
    busy("The session is closing; open another one")
}

/// There is no session of the id that a request names.
pub(crate) fn unknown_session() -> Error {
    let what = "This session is not open on this connection. Open one by `session/new`";
    jsonrpc_error(ErrorCode::RESOURCE_NOT_FOUND, "unknown_session", what)
}

/// A bound is reached; the same may work later.
pub(crate) fn busy(what: &str) -> Error {
    jsonrpc_error(ErrorCode::INTERNAL_ERROR, "busy", what)
}

/// The client cancelled its request before anything was done for it.
pub(crate) fn request_cancelled() -> Error {
    jsonrpc_error(ErrorCode::REQUEST_CANCELLED, "cancelled", "The request was cancelled")
}

/// The task that was to answer panicked.
pub(crate) fn panicked() -> Error {
    jsonrpc_error(ErrorCode::INTERNAL_ERROR, "fault", "The agent failed: something panicked")
}
