//! The JSON-RPC errors that this agent answers with. None of them repeats what the client sent.

use acp_tools::WorkspaceError;
use agent_client_protocol::{Error, ErrorCode};
use serde_json::json;

/// -32602: what is wrong with the parameters.
pub(crate) fn invalid_params(what: impl Into<String>) -> Error {
    Error::invalid_params().data(json!({ "reason": what.into() }))
}

/// -32602: a root that cannot be worked in.
pub(crate) fn root(error: &WorkspaceError) -> Error {
    invalid_params(match error {
        WorkspaceError::NotAbsolute { .. } => "a root has to be an absolute path".to_owned(),
        WorkspaceError::Unusable { source, .. } => {
            format!("a root cannot be used: {}", source.kind())
        }
        _ => "a root cannot be used".to_owned(),
    })
}

/// -32002: a session that is not open.
pub(crate) fn unknown_session() -> Error {
    let code = ErrorCode::RESOURCE_NOT_FOUND;
    Error::new(code, "Resource not found").data(json!({ "reason": "unknown_session" }))
}

/// -32603: a bound is reached; the same may work later.
pub(crate) fn busy(what: impl Into<String>) -> Error {
    let data = json!({ "reason": "busy", "message": what.into() });
    Error::internal_error().data(data)
}

/// -32800: the client cancelled its request before anything was done for it.
pub(crate) fn request_cancelled() -> Error {
    agent_client_protocol::v1::schema::Error::request_cancelled().into()
}

/// -32603: a fault of the agent itself.
pub(crate) fn fault(what: &str) -> Error {
    let mut error = Error::internal_error();
    error.message = format!("The agent failed: {}", acp_lifecycle::title::visible(what));
    error.data(json!({ "reason": "fault" }))
}

/// -32603: the model cannot go on.
pub(crate) fn model(what: &str) -> Error {
    // One line, as clients show it; a provider may have said several.
    let what = acp_lifecycle::title::visible(what);
    let mut error = Error::internal_error();
    error.message = format!("The model failed: {what}");
    error.data(json!({ "reason": "model_error" }))
}
