//! Limits of the scripted server.

/// Maximum size of a request's headers in bytes. If the headers are longer, the connection is
/// closed.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

/// Maximum size of a request body in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 20;

/// Size in bytes of the buffer space that is reserved for each `read`.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of recorded requests.
pub(crate) const MAX_RECORDED_REQUESTS: usize = 100_000;

/// Maximum total size of all recorded bodies in bytes. After this total is reached, bodies are not
/// recorded.
pub(crate) const MAX_RECORDED_BODY_BYTES: usize = 64 << 20;
