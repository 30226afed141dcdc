//! The JSON-RPC errors that this agent answers with. None of them repeats what the client sent.

use acp_lifecycle::title;
use acp_tools::WorkspaceError;
use acp_types::text::head;
use agent_client_protocol::{Error, ErrorCode};
use serde_json::json;

use crate::limits;
use crate::model::{Fault, ModelError};

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
    error.message = format!("The agent failed: {}", title::visible(what));
    error.data(json!({ "reason": "fault" }))
}

/// The model cannot go on. -32000 where it has no key, or a wrong one; else -32603.
pub(crate) fn model(fault: &ModelError) -> Error {
    // One line, as clients show it; a provider may have said several, or a whole page.
    let said = title::visible(&fault.to_string());
    let mut message = format!("The model failed: {}", head(&said, limits::MAX_FAULT_BYTES));
    if let Some(pause) = fault.retry_after.filter(|pause| !pause.is_zero()) {
        message.push_str(&format!(". It may work again in {} s", pause.as_secs().max(1)));
    }
    let (error, reason) = match fault.fault {
        Fault::Auth => (Error::auth_required(), "model_auth"),
        Fault::TooLong => (Error::internal_error(), "model_context_full"),
        Fault::Transient | Fault::Idle | Fault::Other => (Error::internal_error(), "model_error"),
    };
    let mut error = error.data(json!({ "reason": reason }));
    error.message = message;
    error
}

#[cfg(test)]
mod tests {
    use super::model;

    use crate::model::{Fault, ModelError};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn a_fault_of_the_model_tells_what_to_do() {
        let ten = Some(Duration::from_secs(10));
        for (fault, status, retry_after, code, reason, message) in [
            (
                Fault::Auth,
                Some(401),
                None,
                -32000,
                "model_auth",
                "The model failed: no (status 401)",
            ),
            (Fault::TooLong, None, None, -32603, "model_context_full", "The model failed: no"),
            (Fault::Other, None, None, -32603, "model_error", "The model failed: no"),
            (
                Fault::Transient,
                Some(429),
                ten,
                -32603,
                "model_error",
                "The model failed: no (status 429). It may work again in 10 s",
            ),
        ] {
            let fault = ModelError { fault, message: "no".to_owned(), status, retry_after };
            let error = model(&fault);
            assert_eq!((i32::from(error.code), &*error.message), (code, message));
            assert_eq!(error.data, Some(json!({ "reason": reason })));
        }
    }
}
