//! The JSON-RPC errors created by the transport, and their common shape.

use agent_client_protocol::{Error, ErrorCode};
use callboard_text::{escape_invisible, head};
use serde_json::{Value, json};

use crate::limits::{MAX_DEPTH, MAX_ERROR_MESSAGE_BYTES, MAX_JSON_VALUES, MAX_LINE_BYTES};

/// Creates an error in the same shape as the errors that the transport creates.
///
/// `message` should state what happened and what to do next. The message is converted to one
/// visible line of at most 1 KiB that starts with a capital letter. `reason` is a stable word for
/// programs, sent as `data.reason`.
#[must_use]
pub fn jsonrpc_error_with_reason(code: ErrorCode, reason: &str, message: &str) -> Error {
    let shown = escape_invisible(message.trim());
    let shown = head(&shown, MAX_ERROR_MESSAGE_BYTES);
    let mut letters = shown.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let message: String = first.chain(letters).collect();
    Error::new(code, message).data(json!({ "reason": reason }))
}

/// The reason for rejecting a line or a request, sent as `data.reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransportErrorReason {
    /// A limit is reached. A later attempt may succeed.
    Busy,
    /// The client cancelled the request before it was processed.
    Cancelled,
    /// The agent failed.
    AgentFailure,
    /// The parameters do not match the method.
    InvalidParams,
    /// The line is not a message, or the message is not allowed at this time.
    InvalidRequest,
    /// The method does not exist.
    MethodNotFound,
    /// The line is not JSON, is not UTF-8, or exceeds a limit.
    ParseError,
}

impl TransportErrorReason {
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

/// The reason for rejecting a line. The display form of this type is the `message` of the error
/// response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineError {
    /// The line is too long.
    #[error("Parse error: the line is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    /// The line is not valid UTF-8.
    #[error("Parse error: the line is not UTF-8")]
    NotUtf8,
    /// The line is not exactly one JSON value.
    #[error("Parse error: the line is not JSON")]
    NotJson,
    /// The line is nested too deeply.
    #[error("Parse error: the line is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The line contains too many values.
    #[error("Parse error: the line holds more than {MAX_JSON_VALUES} values")]
    TooManyValues,
    /// The line is an array or a scalar.
    #[error("Invalid request: not an object (batches are not supported)")]
    NotAnObject,
    /// The object is not a request, notification or response, or has a duplicate key.
    #[error("Invalid request: not a JSON-RPC 2.0 message, or it has a duplicate key")]
    InvalidEnvelope,
    /// The unanswered requests take more than
    /// [`MAX_UNANSWERED_BYTES`](crate::limits::MAX_UNANSWERED_BYTES).
    #[error("Busy: requests before this one are large and not answered yet")]
    Busy,
}

impl LineError {
    /// Returns the `error` of the error response.
    pub(crate) fn to_error(self) -> Error {
        let reason = match self {
            Self::NotAnObject | Self::InvalidEnvelope => TransportErrorReason::InvalidRequest,
            Self::Busy => TransportErrorReason::Busy,
            _ => TransportErrorReason::ParseError,
        };
        transport_error(reason, &self.to_string())
    }
}

/// Creates an error of the transport itself.
pub(crate) fn transport_error(reason: TransportErrorReason, message: &str) -> Error {
    jsonrpc_error_with_reason(reason.code(), reason.as_str(), message)
}

/// Returns whether an error's data consists of a reason and a path.
pub(crate) fn is_reason_and_path(data: Option<&Value>) -> bool {
    let Some(Value::Object(data)) = data else { return false };
    data.len() == 2
        && ["reason", "path"].iter().all(|key| data.get(*key).is_some_and(Value::is_string))
}

/// Converts an error created by the SDK to our shape. Returns `None` for an error created by an
/// agent.
///
/// In an error of the SDK, `message` is the name of the error code. `data` contains the cause. It
/// may also repeat data of the client, e.g. the method, the parameters, or a value that the parser
/// rejected. This repeated data may be large or secret, so only the SDK's own text is kept.
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
            let what = "This agent does not have the method; the response to `initialize` \
                        lists its capabilities";
            transport_error(TransportErrorReason::MethodNotFound, what)
        }
        ErrorCode::INVALID_PARAMS => {
            let expected =
                complaint.and_then(|data| data["error"].as_str()).and_then(expected_type);
            match expected {
                Some(expected) => transport_error(
                    TransportErrorReason::InvalidParams,
                    &format!("The parameters do not fit: {expected}"),
                ),
                None => transport_error(
                    TransportErrorReason::InvalidParams,
                    &about("The parameters do not fit the method"),
                ),
            }
        }
        ErrorCode::INVALID_REQUEST if is_refused_before_initialize(data) => {
            let what = "The connection is not initialized; send `initialize` first";
            transport_error(TransportErrorReason::InvalidRequest, what)
        }
        ErrorCode::INVALID_REQUEST => transport_error(
            TransportErrorReason::InvalidRequest,
            &about("The request is not valid"),
        ),
        ErrorCode::PARSE_ERROR => {
            transport_error(TransportErrorReason::ParseError, "The line is not a JSON-RPC message")
        }
        ErrorCode::REQUEST_CANCELLED => {
            transport_error(TransportErrorReason::Cancelled, "The request was cancelled")
        }
        // The data is omitted, because it may contain messages of the operating system.
        _ => transport_error(
            TransportErrorReason::AgentFailure,
            "The agent failed: an internal error occurred. Please report it",
        ),
    })
}

/// Returns whether the SDK rejected a request because it was received before the response to
/// `initialize`.
fn is_refused_before_initialize(data: Option<&Value>) -> bool {
    data.and_then(Value::as_str).is_some_and(|said| said.contains(" before `"))
}

/// The messages of errors created by the SDK.
const SDK_MESSAGES: [(i32, &str); 6] = [
    (-32700, "Parse error"),
    (-32600, "Invalid request"),
    (-32601, "Method not found"),
    (-32602, "Invalid params"),
    (-32603, "Internal error"),
    (-32800, "Request cancelled"),
];

/// Returns the part of a parser error that describes the expected type, without the client's data.
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
        SDK_MESSAGES, TransportErrorReason, from_sdk_error, is_reason_and_path,
        jsonrpc_error_with_reason, transport_error,
    };
    use crate::limits::MAX_ERROR_MESSAGE_BYTES;

    const ALL: [TransportErrorReason; 7] = [
        TransportErrorReason::Busy,
        TransportErrorReason::Cancelled,
        TransportErrorReason::AgentFailure,
        TransportErrorReason::InvalidParams,
        TransportErrorReason::InvalidRequest,
        TransportErrorReason::MethodNotFound,
        TransportErrorReason::ParseError,
    ];

    /// Checks the properties that clients may rely on in all errors created here.
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
        let foreign = jsonrpc_error_with_reason(7.into(), "own_word", "it is full");
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
    fn a_converted_sdk_error_contains_no_client_data() {
        let params =
            |error: &str| json!({"error": error, "json": {"k": "S"}, "phase": "deserialization"});
        for (code, name, data, start) in [
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
            (-32603, "Internal error", json!("of `S` without responding"), "The agent failed: an"),
        ] {
            let error = from_sdk_error(code, name, Some(&data)).unwrap();
            assert!(error.message.starts_with(start), "{}", error.message);
            let whole = serde_json::to_string(&error).unwrap();
            assert!(!whole.contains("S/") && !whole.contains("\"S") && !whole.contains("`S`"));
        }
        // Errors of an agent are not converted.
        for (code, message, data) in [
            (1, "m", json!([1])),
            (-32603, "Too busy", json!("x")),
            (-32603, "Internal error", json!({"reason": "busy"})),
        ] {
            assert_eq!(from_sdk_error(code, message, Some(&data)), None);
        }
    }
}
