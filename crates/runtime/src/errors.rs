//! The JSON-RPC errors of this agent. All of them have the same shape.
//!
//! | member | holds |
//! |---|---|
//! | `code` | the number that JSON-RPC or ACP assigns to it |
//! | `message` | what happened and what to do next, for people, in one line |
//! | `data.reason` | a stable word for programs, one of [`ErrorReason`] |
//! | `data.path` | the folder that cannot be used, only for `folder_unusable`, up to 512 bytes |
//!
//! Every error is created by [`error_with_reason`]. The transport converts the SDK's own errors to
//! the same shape. An error does not repeat data that the client sent, except the path of a folder.

use std::io;
use std::path::Path;

use acp_store::{SessionHolder, SessionStoreError};
use acp_tools::WorkspaceError;
use agent_client_protocol::{Error, ErrorCode};
use callboard_models::{ModelError, ModelErrorKind};
use callboard_text::{escape_invisible, head, path_text};
use serde_json::Value;

use crate::limits;

/// The reason of an error, which is the value of `data.reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorReason {
    /// A limit has been reached. The same request may succeed later.
    Busy,
    /// The client cancelled the request before the agent started it.
    Cancelled,
    /// The agent failed because of a fault in itself.
    Internal,
    /// A folder that the client named for a new session cannot be used.
    FolderUnusable,
    /// The parameters do not match the method, or name an object that does not exist.
    InvalidParams,
    /// The agent does not support a method of this name.
    MethodNotFound,
    /// The model has no API key, or the provider has rejected the key.
    ModelAuth,
    /// The session is too long for the model.
    ModelContextFull,
    /// The model failed for another reason.
    ModelError,
    /// The session cannot go back to a prompt.
    Rewind,
    /// The session is open in another process or by another client.
    SessionHeld,
    /// The agent cannot read or write the stored sessions.
    SessionStore,
    /// No session with this id is open.
    UnknownSession,
}

impl ErrorReason {
    fn code(self) -> ErrorCode {
        match self {
            Self::Busy
            | Self::Internal
            | Self::ModelContextFull
            | Self::ModelError
            | Self::Rewind
            | Self::SessionHeld
            | Self::SessionStore => ErrorCode::INTERNAL_ERROR,
            Self::Cancelled => ErrorCode::REQUEST_CANCELLED,
            Self::FolderUnusable | Self::InvalidParams => ErrorCode::INVALID_PARAMS,
            Self::MethodNotFound => ErrorCode::METHOD_NOT_FOUND,
            Self::ModelAuth => ErrorCode::AUTH_REQUIRED,
            Self::UnknownSession => ErrorCode::RESOURCE_NOT_FOUND,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::Internal => "fault",
            Self::FolderUnusable => "folder_unusable",
            Self::InvalidParams => "invalid_params",
            Self::MethodNotFound => "method_not_found",
            Self::ModelAuth => "model_auth",
            Self::ModelContextFull => "model_context_full",
            Self::ModelError => "model_error",
            Self::Rewind => "rewind",
            Self::SessionHeld => "session_held",
            Self::SessionStore => "session_store",
            Self::UnknownSession => "unknown_session",
        }
    }
}

/// Creates an error with a reason. The text is converted to one line that begins with a capital
/// letter and has no invisible characters.
pub(crate) fn error_with_reason(reason: ErrorReason, message: &str) -> Error {
    acp_transport::jsonrpc_error_with_reason(reason.code(), reason.as_str(), message)
}

/// Returns the error for parameters that do not match the method, or that name an object that does
/// not exist.
pub(crate) fn invalid_params_error(what: &str) -> Error {
    error_with_reason(ErrorReason::InvalidParams, what)
}

/// Returns the error for a folder that cannot be used for a session.
pub(crate) fn folder_unusable_error(error: &WorkspaceError) -> Error {
    let (path, why) = match error {
        WorkspaceError::NotAbsolute { path } => {
            (path, "is not an absolute path; send an absolute one".to_owned())
        }
        WorkspaceError::Unusable { path, source } => (path, explain_unusable_folder(source)),
        error => return error_with_reason(ErrorReason::FolderUnusable, &error.to_string()),
    };
    let path = display_path(path);
    let message = format!("The project folder \"{path}\" {why}");
    let mut error = error_with_reason(ErrorReason::FolderUnusable, &message);
    if let Some(Value::Object(data)) = &mut error.data {
        data.insert("path".to_owned(), path.into());
    }
    error
}

fn explain_unusable_folder(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist; create it or choose another one".to_owned(),
        io::ErrorKind::NotADirectory => "is not a folder; choose a folder".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "may not be read; change its permissions or choose another one".to_owned()
        }
        _ => format!("cannot be used: {error}; choose another one"),
    }
}

/// Formats a path as one line without invisible characters, short enough for an error message.
fn display_path(path: &Path) -> String {
    head(&escape_invisible(&path_text(path)), limits::MAX_MODEL_ERROR_BYTES / 2).to_owned()
}

/// Returns the error for a request that names a session which is not open.
pub(crate) fn unknown_session_error() -> Error {
    let what = "This session is not open on this connection. Open one by `session/new`";
    error_with_reason(ErrorReason::UnknownSession, what)
}

/// Returns the error for a request to a session that is closed or is being closed.
pub(crate) fn session_closing_error() -> Error {
    retry_later_error("The session is closing; open another one")
}

/// Returns the error for a request that exceeds a limit. The same request may succeed later.
pub(crate) fn retry_later_error(what: &str) -> Error {
    error_with_reason(ErrorReason::Busy, what)
}

/// Returns the error for a prompt that would exceed the maximum number of waiting prompts.
pub(crate) fn too_many_waiting_prompts_error() -> Error {
    let waiting = limits::MAX_WAITING_PROMPTS;
    retry_later_error(&format!(
        "The limit of waiting prompts is {waiting}; wait for the turn to end"
    ))
}

/// Returns the error for a rewind that is impossible.
pub(crate) fn rewind_failed_error(why: &str) -> Error {
    let text = escape_invisible(why);
    let text = head(&text, limits::MAX_MODEL_ERROR_BYTES / 2);
    error_with_reason(ErrorReason::Rewind, &format!("The session cannot go back: {text}"))
}

/// Returns the error for stored sessions that cannot be listed, restored or deleted.
pub(crate) fn session_store_error(failure: &SessionStoreError) -> Error {
    let text = escape_invisible(&failure.to_string());
    match failure {
        SessionStoreError::UnknownSession(_) => {
            let message = "There is no stored session of this id; `session/list` lists them";
            error_with_reason(ErrorReason::UnknownSession, message)
        }
        SessionStoreError::Held { holder, .. } => {
            let holder = match holder {
                Some(SessionHolder { pid, host, .. }) => {
                    format!("process {pid} on {}", head(&escape_invisible(host), 256))
                }
                None => "another process".to_owned(),
            };
            let message = format!("The session is open in {holder}; close it there first");
            error_with_reason(ErrorReason::SessionHeld, &message)
        }
        SessionStoreError::UnknownPrompt { prompt, .. } => {
            invalid_params_error(&format!("The session has no prompt {prompt}"))
        }
        SessionStoreError::Invalid(what) => {
            invalid_params_error(&format!("The request cannot be done: {what}"))
        }
        _ => {
            let text = head(&text, limits::MAX_MODEL_ERROR_BYTES / 2);
            error_with_reason(
                ErrorReason::SessionStore,
                &format!("The stored sessions cannot be used: {text}"),
            )
        }
    }
}

/// Returns the error for a request that needs stored sessions, although the user has chosen not to
/// store sessions.
pub(crate) fn sessions_not_stored_error() -> Error {
    error_with_reason(ErrorReason::MethodNotFound, "Sessions are not stored by this process")
}

/// Returns the error for a request to open a session while too many sessions are being opened.
pub(crate) fn too_many_opening_error() -> Error {
    retry_later_error("Too many sessions are being opened; try again in a moment")
}

/// Returns the error for a request to open a session that is already open on this connection.
pub(crate) fn already_open_on_connection_error() -> Error {
    let message = "The session is open on this connection; close it first";
    error_with_reason(ErrorReason::SessionHeld, message)
}

/// Returns the error for a request that the client cancelled before the agent started it.
pub(crate) fn request_cancelled_error() -> Error {
    error_with_reason(ErrorReason::Cancelled, "The request was cancelled")
}

/// Returns the error for a fault in the agent itself.
pub(crate) fn internal_error(what: &str) -> Error {
    error_with_reason(ErrorReason::Internal, &format!("The agent failed: {what}"))
}

/// Returns the error for a failure of the model.
pub(crate) fn model_failed_error(fault: &ModelError) -> Error {
    // Clients show one line, but the message of a provider may contain several lines or a whole
    // page.
    let said = escape_invisible(&fault.to_string());
    let pause = fault.retry_after.filter(|pause| !pause.is_zero());
    let later = pause.map(|pause| format!(". It may work again in {} s", pause.as_secs().max(1)));
    let later = later.unwrap_or_default();
    let said = head(&said, limits::MAX_MODEL_ERROR_BYTES - later.len() - MODEL_FAILED.len());
    let reason = match fault.kind {
        ModelErrorKind::Auth => ErrorReason::ModelAuth,
        ModelErrorKind::ContextTooLong => ErrorReason::ModelContextFull,
        _ => ErrorReason::ModelError,
    };
    error_with_reason(reason, &format!("{MODEL_FAILED}{said}{later}"))
}

const MODEL_FAILED: &str = "The model failed: ";

/// Checks the shape of an error, on which clients rely. Returns a description of the violation, if
/// there is one.
#[cfg(test)]
pub(crate) fn check_error_shape(error: &Value) -> Result<(), String> {
    let message = error["message"].as_str().ok_or("no message")?;
    if message.len() < 12 || !message.starts_with(char::is_uppercase) {
        return Err(format!("{message:?} does not say what happened"));
    }
    if message.contains(char::is_control) || message.len() > limits::MAX_MODEL_ERROR_BYTES {
        return Err(format!("{message:?} is not one line within its bound"));
    }
    let data = error["data"].as_object().ok_or("its data is no object")?;
    let reason = data.get("reason").and_then(Value::as_str).unwrap_or_default();
    let Some(known) = tests::ALL.iter().find(|known| known.as_str() == reason) else {
        return Err(format!("{reason:?} is no reason: {error}"));
    };
    if error["code"] != i32::from(known.code()) {
        return Err(format!("{reason} has another code: {error}"));
    }
    let is_known =
        |key: &String| key == "reason" || (key == "path" && *known == ErrorReason::FolderUnusable);
    match data.keys().find(|key| !is_known(key)) {
        None => Ok(()),
        Some(key) => Err(format!("{key} is not documented: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use acp_tools::WorkspaceError;
    use agent_client_protocol::Error;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::{
        ErrorReason, check_error_shape, folder_unusable_error, internal_error,
        invalid_params_error, model_failed_error, request_cancelled_error, retry_later_error,
        unknown_session_error,
    };
    use crate::limits;
    use callboard_models::{ModelError, ModelErrorKind};

    pub(super) const ALL: [ErrorReason; 13] = [
        ErrorReason::Busy,
        ErrorReason::Cancelled,
        ErrorReason::Internal,
        ErrorReason::FolderUnusable,
        ErrorReason::InvalidParams,
        ErrorReason::MethodNotFound,
        ErrorReason::ModelAuth,
        ErrorReason::ModelContextFull,
        ErrorReason::ModelError,
        ErrorReason::Rewind,
        ErrorReason::SessionHeld,
        ErrorReason::SessionStore,
        ErrorReason::UnknownSession,
    ];

    fn model_error(fault: ModelErrorKind, message: &str) -> ModelError {
        ModelError::new(fault, message)
    }

    fn check(error: &Error) {
        let error = serde_json::to_value(error).unwrap();
        assert_eq!(check_error_shape(&error), Ok(()));
    }

    #[test]
    fn every_error_has_the_one_shape() {
        let hostile = format!("a\u{202e}\n{}", "x".repeat(limits::MAX_MODEL_ERROR_BYTES * 2));
        for text in ["too many sessions are open", &*hostile] {
            [retry_later_error(text), internal_error(text), invalid_params_error(text)]
                .iter()
                .for_each(check);
            for fault in [
                ModelErrorKind::Auth,
                ModelErrorKind::ContextTooLong,
                ModelErrorKind::Transient,
                ModelErrorKind::IdleTimeout,
                ModelErrorKind::Other,
            ] {
                let retry_after = Some(Duration::from_secs(10));
                check(&model_failed_error(&model_error(fault, text).with_retry_after(retry_after)));
            }
            let path = std::path::PathBuf::from(text);
            check(&folder_unusable_error(&WorkspaceError::NotAbsolute { path: path.clone() }));
            let source = io::Error::other(text);
            check(&folder_unusable_error(&WorkspaceError::Unusable { path, source }));
        }
        [unknown_session_error(), request_cancelled_error()].iter().for_each(check);
    }

    #[test]
    fn every_reason_is_documented() {
        let page = include_str!("../../../docs/errors.md");
        for reason in ALL {
            let row = format!("| `{}` | {} |", reason.as_str(), i32::from(reason.code()));
            assert!(page.contains(&row), "docs/errors.md has no row that begins with {row}");
        }
    }

    #[test]
    fn an_error_about_a_folder_names_its_fault_and_the_next_step() {
        for (kind, message) in [
            (
                io::ErrorKind::NotFound,
                "The project folder \"/a b\" does not exist; create it or choose another one",
            ),
            (
                io::ErrorKind::NotADirectory,
                "The project folder \"/a b\" is not a folder; choose a folder",
            ),
            (
                io::ErrorKind::PermissionDenied,
                "The project folder \"/a b\" may not be read; change its permissions or choose \
                 another one",
            ),
        ] {
            let error = WorkspaceError::Unusable { path: "/a b".into(), source: kind.into() };
            let error = folder_unusable_error(&error);
            assert_eq!(error.message, message);
            assert_eq!(error.data, Some(json!({"reason": "folder_unusable", "path": "/a b"})));
        }
    }

    #[test]
    fn an_error_of_the_model_explains_the_next_step() {
        let ten = Some(Duration::from_secs(10));
        for (fault, status, retry_after, code, reason, message) in [
            (
                ModelErrorKind::Auth,
                Some(401),
                None,
                -32000,
                "model_auth",
                "The model failed: no (status 401)",
            ),
            (
                ModelErrorKind::ContextTooLong,
                None,
                None,
                -32603,
                "model_context_full",
                "The model failed: no",
            ),
            (ModelErrorKind::Other, None, None, -32603, "model_error", "The model failed: no"),
            (
                ModelErrorKind::Transient,
                Some(429),
                ten,
                -32603,
                "model_error",
                "The model failed: no (status 429). It may work again in 10 s",
            ),
        ] {
            let fault = model_error(fault, "no").with_status(status).with_retry_after(retry_after);
            let error = model_failed_error(&fault);
            assert_eq!((i32::from(error.code), &*error.message), (code, message));
            assert_eq!(error.data, Some::<Value>(json!({ "reason": reason })));
        }
    }
}
