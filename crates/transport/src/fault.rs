//! Why a line is refused.

use agent_client_protocol::Error;

use crate::errors::{self, Reason};
use crate::limits::{MAX_DEPTH, MAX_JSON_VALUES, MAX_LINE_BYTES};

/// Why a line was refused; displayed, the `message` of the error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
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

impl Fault {
    /// The error response's `error`.
    pub(crate) fn to_error(self) -> Error {
        let reason = match self {
            Self::NotAnObject | Self::InvalidEnvelope => Reason::InvalidRequest,
            Self::Busy => Reason::Busy,
            _ => Reason::ParseError,
        };
        errors::own(reason, &self.to_string())
    }
}
