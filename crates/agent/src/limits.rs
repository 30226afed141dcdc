//! Every bound of this crate: what it limits, in which unit, and why it has that size.

use std::time::Duration;

// ---- The transport: lines from the client ----

/// Bytes of one line from the client, without its newline; a longer one is discarded and answered.
///
/// A prompt may carry images and whole files as base64, so it is far above what a client usually
/// sends; it is what one line can make this process allocate.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Levels of arrays and objects in one line, the message itself being the first.
///
/// No ACP message needs a third of it. It keeps every recursive walk of a message, here or in the
/// SDK, far from the end of the stack.
pub const MAX_DEPTH: usize = 64;

/// Commas and opening brackets in one line, which is at least its number of JSON values less one.
///
/// A parsed value takes tens of bytes where its text took two; this bounds what [`MAX_LINE_BYTES`]
/// alone does not.
pub const MAX_JSON_VALUES: usize = 100_000;

/// Bytes of a message's id as JSON text: 256 plain characters and their quotes; a longer one is
/// invalid.
///
/// The id is the only thing of a refused line that its answer repeats, and that answer stays
/// below 512 bytes.
pub const MAX_ID_BYTES: usize = 258;

/// Requests of the client that are handed over and unanswered; at this many, the next one waits
/// and with it everything behind it.
pub const MAX_UNANSWERED_REQUESTS: usize = 256;

/// Bytes of answers that are queued and unwritten; above it, the next request or refused line
/// waits. A client that asks and never reads fills this and then stalls itself.
pub const MAX_QUEUED_ANSWER_BYTES: usize = 1 << 20;

/// Messages handed to the SDK that it has not taken from its queue, which has no bound of its own.
pub const MAX_HANDED_OVER_FRAMES: usize = 1024;

/// Bytes, as lines, of the messages that [`MAX_HANDED_OVER_FRAMES`] counts: one largest line may
/// wait while the next one is parsed.
pub const MAX_HANDED_OVER_BYTES: usize = MAX_LINE_BYTES;

// ---- The transport: lines to the client ----

/// Serialised bytes of an outgoing error's `data`; a larger one is left out of the answer.
///
/// The SDK puts the client's own parameters there, which may be 16 MiB or a secret.
pub const MAX_ERROR_DATA_BYTES: usize = 512;

/// Bytes of one call of `write`: what a pipe holds on Linux, so that each call can make progress
/// and lines are counted as written soon after they are.
pub const MAX_WRITE_BYTES: usize = 64 << 10;

/// Time for a client to take what is still queued when the connection ends; the rest is dropped.
pub const FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Messages of sessions that are handed over and unwritten; at this many, the next one waits in
/// its session's outbox, where it is joined with what follows.
pub const CREDIT_FRAMES: u64 = 8;

/// Bytes of such messages that are queued and unwritten; above it, the next one waits.
pub const CREDIT_BYTES: u64 = 256 << 10;

/// Time after which messages are written off that were handed over and never reached the writer,
/// although it has nothing to do.
pub const CREDIT_WRITE_OFF: Duration = Duration::from_secs(5);

// ---- The transport: its own working memory ----

/// Bytes that a reused line or output buffer keeps between uses; after a larger line the surplus
/// goes back.
pub const KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Bytes asked of one `read`: what a pipe holds on Linux.
pub const READ_BUFFER_BYTES: usize = 64 << 10;

/// Pause of a transport thread before it tries again what cannot be waited for: a descriptor that
/// another process made non-blocking, or the SDK's queue.
pub const RETRY_PAUSE: Duration = Duration::from_millis(2);

// ---- Sessions and turns ----

/// Sessions of one connection that are open at once.
pub const MAX_SESSIONS: usize = 64;

/// Prompts of one session that wait for the turn before them.
pub const MAX_WAITING_PROMPTS: usize = 8;

/// Requests to the model in one turn.
pub const MAX_TURN_REQUESTS: usize = 1_000;

/// Calls in one reply of the model; further ones are left out.
pub const MAX_REPLY_CALLS: usize = 128;

/// Calls of one reply that run at the same time.
pub const MAX_PARALLEL_CALLS: usize = 16;

/// Bytes of one call's arguments; what is over is left out, and so is no JSON any more.
pub const MAX_ARGUMENT_BYTES: usize = 8 << 20;

/// Bytes of a call's arguments after which the client is told how much has come.
pub(crate) const ARGUMENTS_TOLD_EVERY: usize = 1024;

/// Time for a model to say the next thing.
pub const MODEL_IDLE: Duration = Duration::from_secs(300);

/// Time for a session to end its calls and send their ends when it is closed.
pub const CLOSE_DEADLINE: Duration = Duration::from_millis(1_200);

/// Time after that for the ends of what did not end by itself.
pub const LAST_WORDS: Duration = Duration::from_millis(300);

/// Bytes of a file of stored rules; a larger one is refused.
pub const MAX_RULES_BYTES: u64 = 4 << 20;
