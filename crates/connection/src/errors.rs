//! The JSON-RPC errors of a session. These errors have the same structure as the errors of the
//! transport.

use acp_transport::jsonrpc_error_with_reason;
use agent_client_protocol::{Error, ErrorCode};

/// Returns the error for a session that is closed or closing.
pub(crate) fn session_closing_error() -> Error {
    retry_later_error("The session is closing; open another one")
}

/// Returns the error for an unknown session id.
pub(crate) fn unknown_session_error() -> Error {
    let what = "This session is not open on this connection. Open one by `session/new`";
    jsonrpc_error_with_reason(ErrorCode::RESOURCE_NOT_FOUND, "unknown_session", what)
}

/// Returns the error for a session in a relative folder.
pub(crate) fn relative_cwd_error() -> Error {
    jsonrpc_error_with_reason(
        ErrorCode::INVALID_PARAMS,
        "invalid_params",
        "`cwd` must be an absolute path",
    )
}

/// Returns the error for a request that exceeds a limit. A later attempt may succeed.
pub(crate) fn retry_later_error(what: &str) -> Error {
    jsonrpc_error_with_reason(ErrorCode::INTERNAL_ERROR, "busy", what)
}

/// Returns the error for a request that the client cancelled before it was processed.
pub(crate) fn request_cancelled_error() -> Error {
    jsonrpc_error_with_reason(
        ErrorCode::REQUEST_CANCELLED,
        "cancelled",
        "The request was cancelled",
    )
}

/// Returns the error for a request whose handler task panicked.
pub(crate) fn panicked_error() -> Error {
    jsonrpc_error_with_reason(
        ErrorCode::INTERNAL_ERROR,
        "fault",
        "The agent failed: something panicked",
    )
}
