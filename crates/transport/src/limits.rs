//! All limits of this crate, with their units and reasons.

use std::time::Duration;

// ---- Lines from the client ----

/// Maximum size of a line from the client in bytes, without its newline. A longer line is discarded
/// and answered with an error.
///
/// A prompt may contain images and whole files as Base64, so this limit is far larger than usual
/// lines. The constant also limits the size of the buffer that one line fills.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Maximum number of nesting levels of arrays and objects in a line, including the message itself.
///
/// Every ACP message needs less than a third of these levels. The limit protects every recursive
/// function on messages, here or in the SDK, against stack overflow.
pub(crate) const MAX_DEPTH: usize = 64;

/// Maximum number of JSON values in a line. A key counts as one value, and an array or object
/// counts as four values.
///
/// A parsed value takes tens of bytes of memory, but its text may take only two bytes. An array or
/// object with one value takes hundreds of bytes. [`MAX_LINE_BYTES`] alone therefore does not limit
/// the memory of a parsed line.
pub(crate) const MAX_JSON_VALUES: usize = 100_000;

/// Number of values that one array or object counts as.
pub(crate) const CONTAINER_VALUE_COUNT: usize = 4;

/// Estimated memory per value in bytes. For messages with the most values per byte, the memory is
/// close to this number times the number of values, plus the bytes of the line.
pub(crate) const ESTIMATED_VALUE_BYTES: usize = 128;

/// Maximum number of bytes of a message's id as JSON text: 256 plain characters and their quotes. A
/// longer id is invalid.
///
/// The error response repeats only the id of a rejected line. With this limit, the response stays
/// below 512 bytes.
pub(crate) const MAX_ID_BYTES: usize = 258;

/// Maximum number of client requests that are handed to the SDK and not answered yet. At this
/// number, the next request and all lines after that request wait.
pub(crate) const MAX_UNANSWERED_REQUESTS: usize = 256;

/// Maximum estimated size of all unanswered requests in bytes. A request beyond this limit is
/// answered with a `busy` error, so that the reader can still read a later cancel notification. The
/// limit is four times the maximum size of a line.
pub(crate) const MAX_UNANSWERED_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Maximum size in bytes of a request that is exempt from [`MAX_UNANSWERED_BYTES`]. If
/// [`MAX_UNANSWERED_REQUESTS`] requests of this size are unanswered, they take a quarter of
/// [`MAX_UNANSWERED_BYTES`].
pub(crate) const MAX_SMALL_REQUEST_BYTES: usize = 64 << 10;

/// Interval at which the reader checks its input for a hangup while there is no room for another
/// request.
pub(crate) const HANGUP_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of the hangup checks while `initialize` is unanswered. If a check detects a hangup, the
/// lines after `initialize` are discarded. `initialize` may be read while the agent is still being
/// created. This interval is longer than [`HANGUP_POLL_INTERVAL`], so that the agent can answer
/// `initialize` before the first check.
pub(crate) const HANDSHAKE_HANGUP_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of bytes of queued and unwritten responses. Beyond this limit, the next request
/// or rejected line waits. If a client sends requests and never reads responses, this limit is
/// reached, and then only this client has to wait.
pub(crate) const MAX_QUEUED_ANSWER_BYTES: usize = 1 << 20;

/// Maximum number of messages in the SDK's receive queue. The SDK itself does not limit the queue.
pub(crate) const MAX_HANDED_OVER_FRAMES: usize = 1024;

/// Maximum estimated size in bytes of the messages that [`MAX_HANDED_OVER_FRAMES`] counts. Beyond
/// this limit, the next line is not even parsed. A single larger message waits until the queue is
/// empty.
pub(crate) const MAX_HANDED_OVER_BYTES: usize = MAX_LINE_BYTES;

// ---- Lines to the client ----

/// Maximum number of bytes of an error's message, which is one line of text.
pub(crate) const MAX_ERROR_MESSAGE_BYTES: usize = 1 << 10;

/// Maximum number of bytes of an error's line, including the newline. In a longer line, `data` is
/// reduced to its `reason`, except if `data` is small: it has at most
/// [`MAX_SMALL_ERROR_DATA_BYTES`], or at most [`MAX_PATH_ERROR_DATA_BYTES`] if it consists of a
/// reason and a path.
pub(crate) const MAX_ERROR_LINE_BYTES: usize = 512;

/// Maximum serialised size in bytes of an error's `data` that is kept even if the line is too long.
/// Such small `data` is a word that programs depend on.
pub(crate) const MAX_SMALL_ERROR_DATA_BYTES: usize = 64;

/// Maximum serialised size in bytes of an error's `data` that consists of a reason and a path, and
/// that is kept even if the line is too long.
pub(crate) const MAX_PATH_ERROR_DATA_BYTES: usize = 2 << 10;

/// Maximum number of bytes per call of `write`: the capacity of a pipe on Linux. With this size,
/// each call can make progress, and lines are counted soon after they are written.
pub(crate) const MAX_WRITE_CALL_BYTES: usize = 64 << 10;

/// Time limit for writing the queued lines when the connection ends. When the time is over, the
/// remaining lines are dropped.
pub(crate) const FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Maximum number of session messages that are handed to the SDK and not written yet. At this
/// number, the next message waits in its session's outbox, where it is merged with later messages.
pub(crate) const MAX_UNWRITTEN_FRAMES: u64 = 8;

/// Maximum number of bytes of session messages that are queued and unwritten. Beyond this limit,
/// the next message waits.
pub(crate) const MAX_UNWRITTEN_BYTES: u64 = 256 << 10;

/// Time after which messages are written off. A message is written off if it was handed to the SDK
/// and did not reach the writer although the writer is idle.
pub(crate) const CREDIT_WRITE_OFF_TIMEOUT: Duration = Duration::from_secs(5);

// ---- Working memory ----

/// Maximum capacity in bytes that a reused line or output buffer keeps between two uses. Additional
/// capacity is released.
pub(crate) const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Number of bytes requested per call of `read`: the capacity of a pipe on Linux.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;

/// Pause before a thread of the transport retries a read or write of a descriptor that another
/// process made non-blocking, or checks again whether the SDK's queue has room.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(2);
