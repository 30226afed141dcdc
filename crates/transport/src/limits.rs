//! All limits of this crate, with their units and reasons.

use std::time::Duration;

// ---- Lines from the client ----

/// Maximum size of a line from the client in bytes, without its newline. A longer line is discarded
/// and answered with an error.
///
/// A prompt may contain images and whole files as Base64, so this is far larger than usual lines.
/// It is the most memory that one line can make this process allocate.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Nesting levels of arrays and objects in a line, including the message itself.
///
/// No ACP message needs a third of it. It protects every recursive traversal of a message, here or
/// in the SDK, against stack overflow.
pub(crate) const MAX_DEPTH: usize = 64;

/// JSON values in a line. A key counts as one, an array or object as four.
///
/// A parsed value takes tens of bytes where its text takes two, and an array or object with one
/// value takes hundreds. This limits the memory that [`MAX_LINE_BYTES`] alone does not.
pub(crate) const MAX_JSON_VALUES: usize = 100_000;

/// Number of values that an array or object counts as.
pub(crate) const CONTAINER_VALUE_COUNT: usize = 4;

/// Estimated memory per value in bytes. Together with the bytes of the line, this is close to the
/// memory that the densest messages take.
pub(crate) const ESTIMATED_VALUE_BYTES: usize = 128;

/// Bytes of a message's id as JSON text: 256 plain characters and their quotes. A longer id is
/// invalid.
///
/// The id is the only part of a rejected line that the error response repeats, and the response
/// stays below 512 bytes.
pub(crate) const MAX_ID_BYTES: usize = 258;

/// Requests of the client that are handed over and unanswered. At this number, the next request
/// waits, and so do all lines after it.
pub(crate) const MAX_UNANSWERED_REQUESTS: usize = 256;

/// Estimated bytes of those requests. A request beyond it is answered as busy, so that a cancel
/// still gets through. As large as four lines of maximum size.
pub(crate) const MAX_UNANSWERED_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Bytes of a request that is exempt from [`MAX_UNANSWERED_BYTES`]. The maximum number of
/// unanswered requests of this size takes a quarter of that limit.
pub(crate) const MAX_SMALL_REQUEST_BYTES: usize = 64 << 10;

/// Interval at which the reader checks its input for a hangup while there is no room for another
/// request.
pub(crate) const HANGUP_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The same interval while `initialize` is unanswered. It is longer because a hangup discards the
/// lines after it: the first `initialize` may be read before the agent is created.
pub(crate) const HANDSHAKE_HANGUP_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of queued and unwritten responses. Beyond it, the next request or rejected line waits. A
/// client that sends requests and never reads reaches this limit and then stalls itself.
pub(crate) const MAX_QUEUED_ANSWER_BYTES: usize = 1 << 20;

/// Messages in the SDK's receive queue, which itself is unbounded.
pub(crate) const MAX_HANDED_OVER_FRAMES: usize = 1024;

/// Estimated bytes of the messages counted by [`MAX_HANDED_OVER_FRAMES`]. Beyond it, the next line
/// is not even parsed. A single larger message waits until the queue is empty.
pub(crate) const MAX_HANDED_OVER_BYTES: usize = MAX_LINE_BYTES;

// ---- Lines to the client ----

/// Bytes of an error's message, which is one line of text.
pub(crate) const MAX_ERROR_MESSAGE_BYTES: usize = 1 << 10;

/// Bytes of an error's line, including the newline. A longer line loses its `data`, unless that is
/// at most [`MAX_SMALL_ERROR_DATA_BYTES`], or a reason and a path of at most
/// [`MAX_PATH_ERROR_DATA_BYTES`].
pub(crate) const MAX_ERROR_LINE_BYTES: usize = 512;

/// Serialised bytes of an error's `data` that is kept with a long message: a word that programs
/// depend on.
pub(crate) const MAX_SMALL_ERROR_DATA_BYTES: usize = 64;

/// Serialised bytes of an error's `data` that consists of a reason and a path.
pub(crate) const MAX_PATH_ERROR_DATA_BYTES: usize = 2 << 10;

/// Bytes per call of `write`: the capacity of a pipe on Linux. Each call can make progress, and
/// lines are counted soon after they are written.
pub(crate) const MAX_WRITE_CALL_BYTES: usize = 64 << 10;

/// Time limit for writing the queued lines when the connection ends. The rest is dropped.
pub(crate) const FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Messages of sessions that are handed over and unwritten. At this number, the next one waits in
/// its session's outbox, where it is merged with later ones.
pub(crate) const MAX_UNWRITTEN_FRAMES: u64 = 8;

/// Bytes of such messages that are queued and unwritten. Beyond it, the next one waits.
pub(crate) const MAX_UNWRITTEN_BYTES: u64 = 256 << 10;

/// Time after which messages are written off that were handed over and never reached the writer
/// although it is idle.
pub(crate) const CREDIT_WRITE_OFF_TIMEOUT: Duration = Duration::from_secs(5);

// ---- Working memory ----

/// Bytes that a reused line or output buffer keeps between uses. Capacity beyond it is released.
pub(crate) const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Bytes requested per `read`: the capacity of a pipe on Linux.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;

/// Pause before a transport thread retries an operation that cannot be waited for: on a descriptor
/// that another process made non-blocking, or on the SDK's queue.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(2);
