//! Limits of this crate, with their units and reasons.

use std::time::Duration;

// ---- Replies in the form of a JSON Schema ----

/// Maximum number of bytes at the start of a reply from which the form of the reply (text or tool
/// call) is detected. These bytes are parsed again with each new piece. If the form is still
/// unknown after this number of bytes, the reply is parsed when it is complete.
pub(crate) const MAX_FORM_DETECTION_BYTES: usize = 4 << 10;

/// Maximum size of one call's arguments in bytes. Longer arguments are truncated, so they are
/// invalid JSON.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 << 20;

// ---- Requests ----

/// Time limit for connecting to a provider, including TLS.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for the start of a provider's response. `callboard` waits up to 300 s for the next
/// event. This limit is lower, so that the error can name the cause. A local server may process a
/// long prompt for minutes before it responds.
pub(crate) const RESPONSE_HEADERS_TIMEOUT: Duration = Duration::from_secs(240);

/// Maximum number of bytes that are read from the body of an error response, or from a response
/// that should have been a stream.
pub(crate) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// Time limit for reading the body of an error response.
pub(crate) const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size in bytes of a response that is not streamed: a reply that should have been a
/// stream, or a list of models.
pub(crate) const MAX_RESPONSE_BODY_BYTES: usize = 8 << 20;

/// Time limit for reading the rest of a response body after the end of a reply. If the limit is
/// reached, or if a reply is dropped before its end, the connection is closed.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum number of bytes that are read and discarded within [`DRAIN_TIMEOUT`].
pub(crate) const MAX_DRAINED_BYTES: usize = 4 << 10;

/// Maximum size of a streamed reply in bytes. A stream repeats much data, so its events contain
/// fewer bytes than the stream itself. The consumer of the events limits the size of the events.
pub(crate) const MAX_STREAM_BYTES: usize = 128 << 20;

/// Maximum number of bytes of a server's error text that an error message quotes.
pub(crate) const MAX_ERROR_TEXT_BYTES: usize = 500;

/// Maximum time that a provider may ask the client to wait. Longer times are reduced to this
/// maximum.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// Minimum size in bytes of a text whose JSON form is cached between requests.
pub(crate) const MIN_CACHED_TEXT_BYTES: usize = 256;

// ---- Lists of models ----

/// Time limit for loading a provider's complete list of models.
pub(crate) const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of listed models per provider; further models are omitted.
pub(crate) const MAX_LISTED_MODELS: usize = 1_000;

/// Time limit for probing a local server.
// A test server always responds, but may be slow on a busy machine.
pub(crate) const LOCAL_PROBE_TIMEOUT: Duration =
    Duration::from_millis(if cfg!(test) { 10_000 } else { 300 });

// ---- Clients ----

/// Time limit for reading a certificate file, which may be on a network drive.
pub(crate) const CA_FILE_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a certificate file in bytes; larger files are rejected.
pub(crate) const MAX_CA_FILE_BYTES: u64 = 4 << 20;

/// Maximum number of cached HTTP clients; each certificate file needs its own client. If the
/// maximum is exceeded, the cache is cleared.
pub(crate) const MAX_HTTP_CLIENTS: usize = 8;
