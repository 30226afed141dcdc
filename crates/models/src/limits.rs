//! Limits of this crate, with their units and reasons.

use std::time::Duration;

// ---- Replies in the form of a JSON Schema ----

/// Bytes of a reply in which its form (text or tool call) is searched for with each new piece. If
/// the form is still unknown after them, the reply is parsed when it is complete.
pub(crate) const MAX_FORM_DETECTION_BYTES: usize = 4 << 10;

/// Maximum size of one call's arguments in bytes. The rest is dropped, so they are invalid JSON
/// then.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 << 20;

// ---- Requests ----

/// Time limit for connecting to a provider, TLS included.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for the start of a provider's response. Below the 300 s that `callboard` waits for
/// the next event, so that the error can name this cause. A local server may process a long prompt
/// for minutes before it responds.
pub(crate) const RESPONSE_HEADERS_TIMEOUT: Duration = Duration::from_secs(240);

/// Bytes read of an error response, or of a response that should have been a stream.
pub(crate) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// Time limit for reading those bytes.
pub(crate) const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size in bytes of a response that is not streamed: a reply that should have been a
/// stream, or a list of models.
pub(crate) const MAX_RESPONSE_BODY_BYTES: usize = 8 << 20;

/// Time limit for reading the rest of a body after the end of a reply. If it expires, or if a reply
/// is dropped early, the connection is closed.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_millis(20);

/// Maximum number of bytes drained in that time.
pub(crate) const MAX_DRAINED_BYTES: usize = 4 << 10;

/// Maximum size of a streamed reply in bytes. Dialects are redundant, so the events of the stream
/// hold less; their consumer limits those.
pub(crate) const MAX_STREAM_BYTES: usize = 128 << 20;

/// Bytes of a server's error text that an error message repeats.
pub(crate) const MAX_ERROR_TEXT_BYTES: usize = 500;

/// Maximum time that a provider may ask the client to wait. Longer times are reduced to it.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// Minimum size in bytes of a text whose JSON form is cached between requests.
pub(crate) const MIN_CACHED_TEXT_BYTES: usize = 256;

// ---- Lists of models ----

/// Time limit for loading a provider's complete list of models.
pub(crate) const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of models listed per provider; the rest is left out.
pub(crate) const MAX_LISTED_MODELS: usize = 1_000;

/// Time limit for probing a local server.
// Servers of tests always answer, but may be slow on a loaded machine.
pub(crate) const LOCAL_PROBE_TIMEOUT: Duration =
    Duration::from_millis(if cfg!(test) { 10_000 } else { 300 });

// ---- Clients ----

/// Time limit for reading a certificate file, which may be on a network drive.
pub(crate) const CA_FILE_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a certificate file in bytes; larger files are rejected.
pub(crate) const MAX_CA_FILE_BYTES: u64 = 4 << 20;

/// Number of cached HTTP clients, one per certificate file. Beyond it, the cache is cleared.
pub(crate) const MAX_HTTP_CLIENTS: usize = 8;
