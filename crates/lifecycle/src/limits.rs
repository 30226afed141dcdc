//! Every bound of this crate, in one place.

use std::time::Duration;

/// The least time between two streamed updates of one call, terminal or message.
pub const UPDATE_INTERVAL: Duration = Duration::from_millis(50);

/// Bytes of message text joined into one chunk; what comes after starts another.
pub const CHUNK_BYTES: usize = 32 * 1024;

/// Items of content that a call may have; what is over is counted.
pub const CONTENT_ITEMS: usize = 128;

/// Bytes of content that a call may have; what is over is counted.
pub const CONTENT_BYTES: usize = 768 * 1024;

/// Serialised bytes of raw input or raw output; a larger one is replaced by its size.
pub const RAW_BYTES: usize = 64 * 1024;

/// Serialised bytes of an argument that is told while others still arrive; of a longer one, its
/// length is told.
pub const ARRIVING_FIELD_BYTES: usize = 1024;

/// Serialised bytes of all arguments that are told while others still arrive.
pub const ARRIVING_BYTES: usize = 4 * 1024;

/// Arguments whose lengths are told while they arrive.
pub const ARRIVING_FIELDS: usize = 16;

/// Locations that a call may have; what is over is left out.
pub const LOCATIONS: usize = 20;

/// Bytes of a command that a title holds; above, its first line and the count of lines.
pub const TITLE_BYTES: usize = 4 * 1024;

/// Ids of ended calls that are remembered, so that late events are known to be late.
pub const ENDED_CALLS: usize = 4096;

/// Calls that have ended whose documents are kept.
pub const HISTORY_CALLS: usize = 256;

/// Bytes of those documents.
pub const HISTORY_BYTES: usize = 4 * 1024 * 1024;

/// Calls that failed among which one that tries again finds what it repeats.
pub const FAILED_CALLS: usize = 16;

/// Tools over whose calls sums are kept; what models make up beyond is summed together.
pub const USAGE_TOOLS: usize = 128;

/// Names of answered turns that are remembered, so that nothing is posted in them any more.
pub const ENDED_TURNS: usize = 64;

/// Open turns whose trace is passed on to their calls.
pub const TRACED_TURNS: usize = 64;

/// Bytes of a tool's result that the middleware shows as text; the rest is counted.
pub const RESULT_TEXT_BYTES: usize = 32 * 1024;

/// Bytes of a tool's name, which a model may make up.
pub const NAME_BYTES: usize = 256;

/// Bytes of the words in which a permission option says what it remembers; above, the client can
/// allow or reject only once.
pub const OPTION_BYTES: usize = 256;

/// Rules that a session remembers; a further one is not remembered, and so asked about again.
pub const RULES: usize = 1024;

/// How long a cancelled call may take to end by itself before it is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// How long a client may take nothing before models and terminals are no longer read for it.
pub const STALL: Duration = Duration::from_secs(1);
