//! The JSON-RPC errors that this agent answers with, all of one shape.
//!
//! | member | holds |
//! |---|---|
//! | `code` | the number that JSON-RPC or ACP has for it |
//! | `message` | what happened and what to do next, for people, in one line |
//! | `data.reason` | a stable word for programs, one of [`Reason`] |
//! | `data.path` | the folder that cannot be used, of `folder_unusable` only, up to 512 bytes |
//!
//! Every error is made by [`error`]. What the SDK answers by itself, the transport brings into the
//! same shape. Of what the client sent, none repeats more than the path of a folder.

use std::io;
use std::path::Path;

use acp_tools::WorkspaceError;
use agent_client_protocol::{Error, ErrorCode};
use callboard_models::{Fault, ModelError};
use callboard_text::{head, path_text, visible};
use serde_json::Value;

use crate::limits;

/// Why a request was not done: `data.reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A bound is reached; the same may work later.
    Busy,
    /// The client cancelled the request before anything was done for it.
    Cancelled,
    /// The agent failed.
    Fault,
    /// A folder of a new session cannot be worked in.
    FolderUnusable,
    /// The parameters do not fit the method, or name what there is not.
    InvalidParams,
    /// The model has no key, or a wrong one.
    ModelAuth,
    /// The conversation is too long for the model.
    ModelContextFull,
    /// The model failed in another way.
    ModelError,
    /// The session is not open.
    UnknownSession,
}

impl Reason {
    fn code(self) -> ErrorCode {
        match self {
            Self::Busy | Self::Fault | Self::ModelContextFull | Self::ModelError => {
                ErrorCode::INTERNAL_ERROR
            }
            Self::Cancelled => ErrorCode::REQUEST_CANCELLED,
            Self::FolderUnusable | Self::InvalidParams => ErrorCode::INVALID_PARAMS,
            Self::ModelAuth => ErrorCode::AUTH_REQUIRED,
            Self::UnknownSession => ErrorCode::RESOURCE_NOT_FOUND,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::Fault => "fault",
            Self::FolderUnusable => "folder_unusable",
            Self::InvalidParams => "invalid_params",
            Self::ModelAuth => "model_auth",
            Self::ModelContextFull => "model_context_full",
            Self::ModelError => "model_error",
            Self::UnknownSession => "unknown_session",
        }
    }
}

/// Makes an error. Its message is one visible line that begins with a capital letter.
pub(crate) fn error(reason: Reason, message: &str) -> Error {
    acp_transport::error(reason.code(), reason.as_str(), message)
}

/// The parameters do not fit the method, or name what there is not.
pub(crate) fn invalid_params(what: &str) -> Error {
    error(Reason::InvalidParams, what)
}

/// A folder that cannot be worked in.
pub(crate) fn folder(error: &WorkspaceError) -> Error {
    let (path, why) = match error {
        WorkspaceError::NotAbsolute { path } => {
            (path, "is not an absolute path; send an absolute one".to_owned())
        }
        WorkspaceError::Unusable { path, source } => (path, unusable(source)),
        error => return self::error(Reason::FolderUnusable, &error.to_string()),
    };
    let path = shown(path);
    let message = format!("The project folder \"{path}\" {why}");
    let mut error = self::error(Reason::FolderUnusable, &message);
    if let Some(Value::Object(data)) = &mut error.data {
        data.insert("path".to_owned(), path.into());
    }
    error
}

fn unusable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist; create it or choose another one".to_owned(),
        io::ErrorKind::NotADirectory => "is not a folder; choose a folder".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "may not be read; change its permissions or choose another one".to_owned()
        }
        _ => format!("cannot be used: {error}; choose another one"),
    }
}

/// A path in one visible line, within the bound of a message.
fn shown(path: &Path) -> String {
    head(&visible(&path_text(path)), limits::MAX_FAULT_BYTES / 2).to_owned()
}

/// A session that is not open.
pub(crate) fn unknown_session() -> Error {
    let what = "This session is not open on this connection. Open one by `session/new`";
    error(Reason::UnknownSession, what)
}

/// A session that is not open any more, or soon will not be.
pub(crate) fn session_closing() -> Error {
    busy("The session is closing; open another one")
}

/// A bound is reached; the same may work later.
pub(crate) fn busy(what: &str) -> Error {
    error(Reason::Busy, what)
}

/// The client cancelled its request before anything was done for it.
pub(crate) fn request_cancelled() -> Error {
    error(Reason::Cancelled, "The request was cancelled")
}

/// A fault of the agent itself.
pub(crate) fn fault(what: &str) -> Error {
    error(Reason::Fault, &format!("The agent failed: {what}"))
}

/// The model cannot go on.
pub(crate) fn model(fault: &ModelError) -> Error {
    // One line, as clients show it; a provider may have said several, or a whole page.
    let said = visible(&fault.to_string());
    let pause = fault.retry_after.filter(|pause| !pause.is_zero());
    let later = pause.map(|pause| format!(". It may work again in {} s", pause.as_secs().max(1)));
    let later = later.unwrap_or_default();
    let said = head(&said, limits::MAX_FAULT_BYTES - later.len() - MODEL_FAILED.len());
    let reason = match fault.fault {
        Fault::Auth => Reason::ModelAuth,
        Fault::TooLong => Reason::ModelContextFull,
        _ => Reason::ModelError,
    };
    error(reason, &format!("{MODEL_FAILED}{said}{later}"))
}

const MODEL_FAILED: &str = "The model failed: ";

/// What clients may rely on of any error: fails with what is wrong. For tests.
#[cfg(test)]
pub(crate) fn check_shape(error: &Value) -> Result<(), String> {
    let message = error["message"].as_str().ok_or("no message")?;
    if message.len() < 12 || !message.starts_with(char::is_uppercase) {
        return Err(format!("{message:?} does not say what happened"));
    }
    if message.contains(char::is_control) || message.len() > limits::MAX_FAULT_BYTES {
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
        |key: &String| key == "reason" || (key == "path" && *known == Reason::FolderUnusable);
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
        Reason, busy, check_shape, fault, folder, invalid_params, model, request_cancelled,
        unknown_session,
    };
    use crate::limits;
    use callboard_models::{Fault, ModelError};

    pub(super) const ALL: [Reason; 9] = [
        Reason::Busy,
        Reason::Cancelled,
        Reason::Fault,
        Reason::FolderUnusable,
        Reason::InvalidParams,
        Reason::ModelAuth,
        Reason::ModelContextFull,
        Reason::ModelError,
        Reason::UnknownSession,
    ];

    fn model_error(fault: Fault, message: &str) -> ModelError {
        ModelError::new(fault, message)
    }

    fn check(error: &Error) {
        let error = serde_json::to_value(error).unwrap();
        assert_eq!(check_shape(&error), Ok(()));
    }

    #[test]
    fn every_error_has_the_one_shape() {
        let hostile = format!("a\u{202e}\n{}", "x".repeat(limits::MAX_FAULT_BYTES * 2));
        for text in ["too many sessions are open", &*hostile] {
            [busy(text), fault(text), invalid_params(text)].iter().for_each(check);
            for fault in [Fault::Auth, Fault::TooLong, Fault::Transient, Fault::Idle, Fault::Other]
            {
                let retry_after = Some(Duration::from_secs(10));
                check(&model(&ModelError { retry_after, ..model_error(fault, text) }));
            }
            let path = std::path::PathBuf::from(text);
            check(&folder(&WorkspaceError::NotAbsolute { path: path.clone() }));
            let source = io::Error::other(text);
            check(&folder(&WorkspaceError::Unusable { path, source }));
        }
        [unknown_session(), request_cancelled()].iter().for_each(check);
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
    fn a_folder_is_named_with_what_is_wrong_and_what_to_do() {
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
            let error = folder(&error);
            assert_eq!(error.message, message);
            assert_eq!(error.data, Some(json!({"reason": "folder_unusable", "path": "/a b"})));
        }
    }

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
            let fault = ModelError { status, retry_after, ..model_error(fault, "no") };
            let error = model(&fault);
            assert_eq!((i32::from(error.code), &*error.message), (code, message));
            assert_eq!(error.data, Some::<Value>(json!({ "reason": reason })));
        }
    }
}
