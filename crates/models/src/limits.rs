//! Every bound of this crate: what it limits, in which unit, and why it has that size.

use std::time::Duration;

// ---- Replies in the form of a JSON Schema ----

/// Bytes of a reply in the form of a JSON Schema that are looked at, with each piece, for what it
/// is; one that does not tell by then is read when it is whole.
pub(crate) const MAX_FORM_DETECTION_BYTES: usize = 4 << 10;

/// Bytes of one call's arguments; what is over is left out, and so is no JSON any more.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 << 20;

// ---- Requests ----

/// Time for a connection to a provider to be made, TLS included.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Time for a provider to begin its answer. Below the 300 s that `callboard` waits for the next
/// event, so that the error can say what was waited for. A local server may read a long prompt for
/// minutes before it begins.
pub(crate) const RESPONSE_HEADERS_TIMEOUT: Duration = Duration::from_secs(240);

/// Bytes of a provider's error, or of an answer that should have been a stream, that are read.
pub(crate) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// Time for those bytes to come.
pub(crate) const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of an answer that comes as a whole: a reply that should have been a stream, or a list of
/// models.
pub(crate) const MAX_RESPONSE_BODY_BYTES: usize = 8 << 20;

/// Time for what follows the end of a reply in its body; without it, or when a reply is left in the
/// middle, the connection is closed.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_millis(20);

/// Bytes of that.
pub(crate) const MAX_DRAINED_BYTES: usize = 4 << 10;

/// Bytes of a reply that comes as a stream. Dialects repeat themselves, so the events of it
/// hold less; who reads them bounds those.
pub(crate) const MAX_STREAM_BYTES: usize = 128 << 20;

/// Bytes of a server's own text that an error repeats.
pub(crate) const MAX_ERROR_TEXT_BYTES: usize = 500;

/// The longest pause that a provider may ask for; a longer one is taken for this.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// Bytes of a text from which on it is kept as JSON from one request to the next.
pub(crate) const MIN_CACHED_TEXT_BYTES: usize = 256;

// ---- Lists of models ----

/// Time for all of a provider's list of models.
pub(crate) const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// Models of one provider that are listed; the rest is left out.
pub(crate) const MAX_LISTED_MODELS: usize = 1_000;

/// Time for a local server to say what it is.
// The tests' servers always answer, but perhaps late on a machine that does something else.
pub(crate) const LOCAL_PROBE_TIMEOUT: Duration =
    Duration::from_millis(if cfg!(test) { 10_000 } else { 300 });

// ---- Clients ----

/// Time for a file of certificates to be read, which may lie on a network.
pub(crate) const CA_FILE_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a file of certificates; a larger one is refused.
pub(crate) const MAX_CA_FILE_BYTES: u64 = 4 << 20;

/// HTTP clients that are kept, one for each file of certificates; at more, all are built anew.
pub(crate) const MAX_HTTP_CLIENTS: usize = 8;
