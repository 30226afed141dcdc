//! Every bound of the scripted server.

/// Bytes of the headers of a request ; longer ones end the connection.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

/// Bytes of the body of a request.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 20;

/// Bytes asked of one `read`.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;

/// Requests that are kept.
pub(crate) const MAX_RECORDED_REQUESTS: usize = 100_000;

/// Bytes of their bodies that are kept; later bodies are dropped.
pub(crate) const MAX_RECORDED_BODY_BYTES: usize = 64 << 20;
