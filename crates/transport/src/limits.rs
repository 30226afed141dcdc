//! Every bound of this crate: what it limits, in which unit, and why it has that size.

use std::time::Duration;

// ---- Lines from the client ----

/// Bytes of one line from the client, without its newline; a longer one is discarded and answered.
///
/// A prompt may carry images and whole files as base64, so it is far above what a client usually
/// sends; it is what one line can make this process allocate.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Levels of arrays and objects in one line, the message itself being the first.
///
/// No ACP message needs a third of it. It keeps every recursive walk of a message, here or in the
/// SDK, far from the end of the stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// JSON values in one line, where a key counts as one too, and an array or object as four.
///
/// A parsed value takes tens of bytes where its text took two, and an array or object of one value
/// hundreds; this bounds what [`MAX_LINE_BYTES`] alone does not.
pub(crate) const MAX_JSON_VALUES: usize = 100_000;

/// How many values an array or object counts as.
pub(crate) const CONTAINER_VALUE_COUNT: usize = 4;

/// Bytes that one value is taken for when the memory of a message is estimated; with the bytes of
/// its line, that is near to what the densest messages take.
pub(crate) const ESTIMATED_VALUE_BYTES: usize = 128;

/// Bytes of a message's id as JSON text: 256 plain characters and their quotes; a longer one is
/// invalid.
///
/// The id is the only thing of a refused line that its answer repeats, and that answer stays
/// below 512 bytes.
pub(crate) const MAX_ID_BYTES: usize = 258;

/// Requests of the client that are handed over and unanswered; at this many, the next one waits
/// and with it everything behind it.
pub(crate) const MAX_UNANSWERED_REQUESTS: usize = 256;

/// Estimated bytes of those requests; one that is over is answered as busy, so that a cancel still
/// gets through. As many as four of the largest lines take.
pub(crate) const MAX_UNANSWERED_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Bytes of a request that [`MAX_UNANSWERED_BYTES`] does not hold back: as many of these as may be
/// unanswered take a quarter of it.
pub(crate) const MAX_SMALL_REQUEST_BYTES: usize = 64 << 10;

/// Time without room for another request after which the reader looks whether anyone still writes
/// to its input.
pub(crate) const HANGUP_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The same without an answer to `initialize`. Longer, because what is behind it is lost then: the
/// first `initialize` is read while the agent is still made.
pub(crate) const HANDSHAKE_HANGUP_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of answers that are queued and unwritten; above it, the next request or refused line
/// waits. A client that asks and never reads fills this and then stalls itself.
pub(crate) const MAX_QUEUED_ANSWER_BYTES: usize = 1 << 20;

/// Messages handed to the SDK that it has not taken from its queue, which has no bound of its own.
pub(crate) const MAX_HANDED_OVER_FRAMES: usize = 1024;

/// Estimated bytes of the messages that [`MAX_HANDED_OVER_FRAMES`] counts; beyond it, the next
/// line is not even parsed. A message that is larger alone waits until there is no other.
pub(crate) const MAX_HANDED_OVER_BYTES: usize = MAX_LINE_BYTES;

// ---- Lines to the client ----

/// Bytes of an error's message: one line of text.
pub(crate) const MAX_ERROR_MESSAGE_BYTES: usize = 1 << 10;

/// Bytes of an error's line, newline included; from a longer one its `data` is left out, unless
/// that is at most [`SMALL_DATA_BYTES`], or a reason and a path of at most [`PATH_DATA_BYTES`].
pub(crate) const MAX_ERROR_LINE_BYTES: usize = 512;

/// Serialised bytes of an error's `data` that goes even with a long message: a word that programs
/// act on.
pub(crate) const MAX_SMALL_ERROR_DATA_BYTES: usize = 64;

/// Serialised bytes of an error's `data` that names a reason and a path.
pub(crate) const MAX_PATH_ERROR_DATA_BYTES: usize = 2 << 10;

/// Bytes of one call of `write`: what a pipe holds on Linux, so that each call can make progress
/// and lines are counted as written soon after they are.
pub(crate) const MAX_WRITE_CALL_BYTES: usize = 64 << 10;

/// Time for a client to take what is still queued when the connection ends; the rest is dropped.
pub(crate) const FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Messages of sessions that are handed over and unwritten; at this many, the next one waits in
/// its session's outbox, where it is joined with what follows.
pub(crate) const MAX_UNWRITTEN_FRAMES: u64 = 8;

/// Bytes of such messages that are queued and unwritten; above it, the next one waits.
pub(crate) const MAX_UNWRITTEN_BYTES: u64 = 256 << 10;

/// Time after which messages are written off that were handed over and never reached the writer,
/// although it has nothing to do.
pub(crate) const CREDIT_WRITE_OFF_TIMEOUT: Duration = Duration::from_secs(5);

// ---- Working memory ----

/// Bytes that a reused line or output buffer keeps between uses; after a larger line the surplus
/// goes back.
pub(crate) const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Bytes asked of one `read`: what a pipe holds on Linux.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;

/// Pause of a transport thread before it tries again what cannot be waited for: a descriptor that
/// another process made non-blocking, or the SDK's queue.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(2);
