//! The JSON-RPC errors that the transport makes, and the one shape that they have.

use agent_client_protocol::{Error, ErrorCode};
use callboard_text::{head, visible};
use serde_json::{Value, json};

use crate::limits::{MAX_DEPTH, MAX_ERROR_MESSAGE_BYTES, MAX_JSON_VALUES, MAX_LINE_BYTES};

/// Makes an error in the shape of those that the transport makes.
///
/// Its message is one visible line of at most 1 KiB that begins with a capital letter: what
/// happened and what to do next. `reason` is a stable word for programs; it becomes `data.reason`.
#[must_use]
pub fn jsonrpc_error(code: ErrorCode, reason: &str, message: &str) -> Error {
    let shown = visible(message.trim());
    let shown = head(&shown, MAX_ERROR_MESSAGE_BYTES);
    let mut letters = shown.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let message: String = first.chain(letters).collect();
    Error::new(code, message).data(json!({ "reason": reason }))
}

/// Why a line or a request was refused: `data.reason` of the errors that are made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// A bound is reached; the same may work later.
    Busy,
    /// The client cancelled the request before anything was done for it.
    Cancelled,
    /// The agent failed.
    AgentFailure,
    /// The parameters do not fit the method.
    InvalidParams,
    /// The line is no message, or the message comes at the wrong time.
    InvalidRequest,
    /// There is no such method.
    MethodNotFound,
    /// The line is no JSON, or over a bound.
    ParseError,
}

impl RefusalReason {
    fn code(self) -> ErrorCode {
        match self {
            Self::Busy | Self::AgentFailure => ErrorCode::INTERNAL_ERROR,
            Self::Cancelled => ErrorCode::REQUEST_CANCELLED,
            Self::InvalidParams => ErrorCode::INVALID_PARAMS,
            Self::InvalidRequest => ErrorCode::INVALID_REQUEST,
            Self::MethodNotFound => ErrorCode::METHOD_NOT_FOUND,
            Self::ParseError => ErrorCode::PARSE_ERROR,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::AgentFailure => "fault",
            Self::InvalidParams => "invalid_params",
            Self::InvalidRequest => "invalid_request",
            Self::MethodNotFound => "method_not_found",
            Self::ParseError => "parse_error",
        }
    }
}

/// Why a line was refused; displayed, the `message` of the error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineError {
    /// Over the bound of a line.
    #[error("Parse error: the line is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    /// Some byte is not UTF-8.
    #[error("Parse error: the line is not UTF-8")]
    NotUtf8,
    /// Not one JSON value.
    #[error("Parse error: the line is not JSON")]
    NotJson,
    /// Over the bound of nesting.
    #[error("Parse error: the line is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// Over the bound of values.
    #[error("Parse error: the line holds more than {MAX_JSON_VALUES} values")]
    TooManyValues,
    /// An array; a scalar too.
    #[error("Invalid request: not an object (batches are not supported)")]
    NotAnObject,
    /// An object that is no request, notification or response, or has a key twice.
    #[error("Invalid request: not a JSON-RPC 2.0 message, or a key comes twice")]
    InvalidEnvelope,
    /// More than [`MAX_UNANSWERED_BYTES`](crate::limits::MAX_UNANSWERED_BYTES) are unanswered.
    #[error("Busy: requests before this one are large and not answered yet")]
    Busy,
}

impl LineError {
    /// The error response's `error`.
    pub(crate) fn to_error(self) -> Error {
        let reason = match self {
            Self::NotAnObject | Self::InvalidEnvelope => RefusalReason::InvalidRequest,
            Self::Busy => RefusalReason::Busy,
            _ => RefusalReason::ParseError,
        };
        transport_error(reason, &self.to_string())
    }
}

/// Makes an error of the transport's own.
pub(crate) fn transport_error(reason: RefusalReason, message: &str) -> Error {
    jsonrpc_error(reason.code(), reason.as_str(), message)
}

/// Whether an error's data is a reason and a path, and nothing else.
pub(crate) fn is_reason_and_path(data: Option<&Value>) -> bool {
    let Some(Value::Object(data)) = data else { return false };
    data.len() == 2
        && ["reason", "path"].iter().all(|key| data.get(*key).is_some_and(Value::is_string))
}

/// The shape of ours for an error that the SDK made, and none for one that an agent made itself.
///
/// The SDK's `message` is the name of the code. What happened is in `data`, beside what the client
/// sent: its method, its parameters, or a value of them in the parser's complaint, which may be
/// large, or a secret. Only words of the SDK's own are taken over.
pub(crate) fn from_sdk_error(code: i32, message: &str, data: Option<&Value>) -> Option<Error> {
    let said = data.and_then(Value::as_str).filter(|said| !said.contains('`'));
    let complaint = data.filter(|data| data["phase"] == "deserialization");
    let is_bare = data.is_none() || data.is_some_and(Value::is_string);
    if complaint.is_none() && (!is_bare || !SDK_MESSAGES.contains(&(code, message))) {
        return None;
    }
    let about = |what: &str| match said {
        Some(said) => format!("{what}: {said}"),
        None => what.to_owned(),
    };
    Some(match ErrorCode::new(code) {
        ErrorCode::METHOD_NOT_FOUND => {
            let what = "This agent does not have the method; what it has, the answer to \
                        `initialize` says";
            transport_error(RefusalReason::MethodNotFound, what)
        }
        ErrorCode::INVALID_PARAMS => {
            let expected =
                complaint.and_then(|data| data["error"].as_str()).and_then(expected_type);
            match expected {
                Some(expected) => transport_error(
                    RefusalReason::InvalidParams,
                    &format!("The parameters do not fit: {expected}"),
                ),
                None => transport_error(
                    RefusalReason::InvalidParams,
                    &about("The parameters do not fit the method"),
                ),
            }
        }
        ErrorCode::INVALID_REQUEST if is_before_initialize(data) => {
            let what = "The connection is not initialized; send `initialize` first";
            transport_error(RefusalReason::InvalidRequest, what)
        }
        ErrorCode::INVALID_REQUEST => {
            transport_error(RefusalReason::InvalidRequest, &about("The request is not valid"))
        }
        ErrorCode::PARSE_ERROR => {
            transport_error(RefusalReason::ParseError, "The line is not a JSON-RPC message")
        }
        ErrorCode::REQUEST_CANCELLED => {
            transport_error(RefusalReason::Cancelled, "The request was cancelled")
        }
        // It may have words of the system's.
        _ => transport_error(
            RefusalReason::AgentFailure,
            "The agent failed: it has a fault of its own. Please report it",
        ),
    })
}

/// What the SDK says where a request comes before `initialize` was answered.
fn is_before_initialize(data: Option<&Value>) -> bool {
    data.and_then(Value::as_str).is_some_and(|said| said.contains(" before `"))
}

/// The messages of the errors that the SDK makes.
const SDK_MESSAGES: [(i32, &str); 6] = [
    (-32700, "Parse error"),
    (-32600, "Invalid request"),
    (-32601, "Method not found"),
    (-32602, "Invalid params"),
    (-32603, "Internal error"),
    (-32800, "Request cancelled"),
];

/// Returns the part of the parser's complaint that is about our types and not the client's bytes.
fn expected_type(complaint: &str) -> Option<String> {
    if complaint.starts_with("missing field `") {
        return Some(complaint.to_owned());
    }
    let (_found, expected) = complaint.rsplit_once(", expected ")?;
    Some(format!("expected {expected}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::{
        RefusalReason, SDK_MESSAGES, from_sdk_error, is_reason_and_path, jsonrpc_error,
        transport_error,
    };
    use crate::limits::MAX_ERROR_MESSAGE_BYTES;

    const ALL: [RefusalReason; 7] = [
        RefusalReason::Busy,
        RefusalReason::Cancelled,
        RefusalReason::AgentFailure,
        RefusalReason::InvalidParams,
        RefusalReason::InvalidRequest,
        RefusalReason::MethodNotFound,
        RefusalReason::ParseError,
    ];

    /// What clients may rely on of any error that is made here: fails with what is wrong.
    pub(crate) fn check_shape(error: &Value) -> Result<(), String> {
        let message = error["message"].as_str().ok_or("no message")?;
        let is_name = SDK_MESSAGES.iter().any(|(_, name)| *name == message);
        if is_name || message.len() < 12 || !message.starts_with(char::is_uppercase) {
            return Err(format!("{message:?} does not say what happened"));
        }
        if message.contains(char::is_control) || message.len() > MAX_ERROR_MESSAGE_BYTES {
            return Err(format!("{message:?} is not one line within its bound"));
        }
        let known = ALL.iter().find(|known| error["data"] == json!({"reason": known.as_str()}));
        let known = known.ok_or_else(|| format!("its data holds no reason alone: {error}"))?;
        let is_right = error["code"] == i32::from(known.code());
        if is_right { Ok(()) } else { Err(format!("{known:?} has another code: {error}")) }
    }

    fn check(error: &agent_client_protocol::Error) {
        assert_eq!(check_shape(&serde_json::to_value(error).unwrap()), Ok(()));
    }

    #[test]
    fn every_error_has_the_one_shape() {
        let hostile = format!("a\u{202e}\n{}", "x".repeat(MAX_ERROR_MESSAGE_BYTES * 2));
        for text in ["too much is open", &*hostile] {
            ALL.iter().for_each(|reason| check(&transport_error(*reason, text)));
        }
        for (code, name) in SDK_MESSAGES {
            for data in [None, Some(json!("The SDK's own words")), Some(json!("of `a`"))] {
                check(&from_sdk_error(code, name, data.as_ref()).unwrap());
            }
        }
        let foreign = jsonrpc_error(7.into(), "own_word", "it is full");
        assert_eq!((i32::from(foreign.code), &*foreign.message), (7, "It is full"));
        assert_eq!(foreign.data, Some(json!({"reason": "own_word"})));
    }

    #[test]
    fn every_reason_is_documented() {
        let readme = include_str!("../README.md");
        for reason in ALL {
            let row = format!("| `{}` | {} |", reason.as_str(), i32::from(reason.code()));
            assert!(readme.contains(&row), "the README has no row that begins with {row}");
        }
    }

    #[test]
    fn a_path_is_named_with_a_reason_and_nothing_else() {
        assert!(is_reason_and_path(Some(&json!({"reason": "a", "path": "/b"}))));
        for data in [json!({"path": "/b"}), json!({"reason": "a", "path": 1}), json!("/b")] {
            assert!(!is_reason_and_path(Some(&data)), "{data}");
        }
        assert!(!is_reason_and_path(Some(&json!({"reason": "a", "path": "/b", "more": 1}))));
    }

    #[test]
    fn an_error_of_the_sdk_holds_nothing_of_the_message_that_it_answers() {
        let params =
            |error: &str| json!({"error": error, "json": {"k": "S"}, "phase": "deserialization"});
        for (code, name, data, told) in [
            (-32601, "Method not found", json!("S/method"), "This agent does not have the method"),
            (
                -32602,
                "Invalid params",
                params("missing field `cwd`"),
                "The parameters do not fit: missing field `cwd`",
            ),
            (
                -32602,
                "Invalid params",
                params("invalid type: string \"S, expected S\", expected u16"),
                "The parameters do not fit: expected u16",
            ),
            (-32602, "Invalid params", params("S"), "The parameters do not fit the method"),
            (
                -32600,
                "Invalid request",
                json!("ACP initialization must complete before `S` can be used"),
                "The connection is not initialized; send `initialize` first",
            ),
            (
                -32600,
                "Invalid request",
                json!("It is done already"),
                "The request is not valid: It is done already",
            ),
            (-32603, "Internal error", json!("of `S` without responding"), "The agent failed: it"),
        ] {
            let error = from_sdk_error(code, name, Some(&data)).unwrap();
            assert!(error.message.starts_with(told), "{}", error.message);
            let whole = serde_json::to_string(&error).unwrap();
            assert!(!whole.contains("S/") && !whole.contains("\"S") && !whole.contains("`S`"));
        }
        // What an agent says itself is its own.
        for (code, message, data) in [
            (1, "m", json!([1])),
            (-32603, "Too busy", json!("x")),
            (-32603, "Internal error", json!({"reason": "busy"})),
        ] {
            assert_eq!(from_sdk_error(code, message, Some(&data)), None);
        }
    }
}
