//! Every bound of this crate, in one place.

use std::time::Duration;

/// The least time between two streamed updates of one call, terminal or message.
pub(crate) const DEFAULT_UPDATE_INTERVAL: Duration = Duration::from_millis(50);

/// The largest interval that a session can be set to.
pub(crate) const MAX_UPDATE_INTERVAL: Duration = Duration::from_secs(10);

/// How long the first report of a call waits for the call's title while its arguments stream.
pub(crate) const MAX_FIRST_REPORT_WAIT: Duration = Duration::from_millis(200);

/// Bytes of message text joined into one chunk; what comes after starts another.
pub(crate) const MAX_MESSAGE_CHUNK_BYTES: usize = 32 * 1024;

/// Items of content that a call may have; what is over is counted.
pub const MAX_CONTENT_ITEMS: usize = 128;

/// Bytes of content that a call may have; what is over is counted.
pub(crate) const MAX_CONTENT_BYTES: usize = 768 * 1024;

/// Serialised bytes of raw input or raw output; a larger one is cut, in its own shape.
pub(crate) const MAX_RAW_BYTES: usize = 64 * 1024;

/// Depth of raw input or raw output; arrays and objects beneath are shown empty.
pub(crate) const MAX_RAW_DEPTH: usize = 32;

/// Known secrets that are looked for; what is over is counted.
pub(crate) const MAX_SECRETS: usize = 256;

/// Bytes of them all; what is over is counted. Each costs about 200 bytes of memory.
pub(crate) const MAX_SECRETS_BYTES: usize = 32 * 1024;

/// Bytes under which a value is no secret.
pub(crate) const MIN_SECRET_BYTES: usize = 8;

/// Bytes of the beginning of a secret that are shown where a stream ends; more are hidden.
pub(crate) const MAX_SHOWN_SECRET_BYTES: usize = 3;

/// Serialised bytes of an argument that is told while others still arrive; of a longer one, its
/// length is told.
pub(crate) const MAX_PARTIAL_FIELD_BYTES: usize = 1024;

/// Serialised bytes of all arguments that are told while others still arrive.
pub(crate) const MAX_PARTIAL_FIELDS_BYTES: usize = 4 * 1024;

/// Arguments whose lengths are told while they arrive.
pub(crate) const MAX_PARTIAL_FIELDS: usize = 16;

/// Messages of which it is remembered how they ended, in case that was within a secret.
pub(crate) const MAX_REMEMBERED_MESSAGE_ENDS: usize = 4;

/// Locations that a call may have; what is over is counted.
pub(crate) const MAX_LOCATIONS: usize = 20;

/// Bytes of a command that a title holds; above, its first line and the count of lines.
pub(crate) const MAX_TITLE_COMMAND_BYTES: usize = 4 * 1024;

/// Bytes of a title: two such arguments and the words around them; what is over is cut, and says
/// so.
pub(crate) const MAX_TITLE_BYTES: usize = 3 * MAX_TITLE_COMMAND_BYTES;

/// Bytes of the title of a call whose tool brings none, up to which arguments are added to it.
pub(crate) const MAX_DEFAULT_TITLE_BYTES: usize = 1024;

/// Bytes of one argument in such a title; what is over is cut, and says so.
pub(crate) const MAX_DEFAULT_TITLE_VALUE_BYTES: usize = 256;

/// Bytes of what follows a title while its call runs; what is over is cut, and says so.
pub(crate) const MAX_SUBTITLE_BYTES: usize = 160;

/// Bytes of the words of a progress that a document keeps.
pub(crate) const MAX_PROGRESS_MESSAGE_BYTES: usize = 1024;

/// Ids of ended calls that are remembered, so that late events are known to be late.
pub(crate) const MAX_ENDED_CALL_IDS: usize = 4096;

/// Calls that have ended whose documents are kept.
pub(crate) const MAX_HISTORY_CALLS: usize = 256;

/// Bytes of those documents.
pub(crate) const MAX_HISTORY_BYTES: usize = 4 * 1024 * 1024;

/// Calls that failed among which one that tries again finds what it repeats.
pub(crate) const MAX_FAILED_CALLS: usize = 16;

/// Tools over whose calls sums are kept; what models make up beyond is summed together.
pub(crate) const MAX_USAGE_TOOLS: usize = 128;

/// Names of answered turns that are remembered, so that nothing is posted in them any more.
pub(crate) const MAX_ENDED_TURNS: usize = 64;

/// Open turns whose trace is passed on to their calls.
pub(crate) const MAX_TRACED_TURNS: usize = 64;

/// Bytes of a tool's result that the middleware shows as text; the rest is counted.
pub(crate) const DEFAULT_RESULT_TEXT_BYTES: usize = 32 * 1024;

/// The most that they can be set to.
pub(crate) const MAX_RESULT_TEXT_BYTES: usize = 256 * 1024;

/// Bytes of a tool's name, which a model may make up.
pub(crate) const MAX_TOOL_NAME_BYTES: usize = 256;

/// Bytes of the words in which a permission option says what it remembers; above, the client can
/// allow or reject only once.
pub(crate) const MAX_OPTION_SCOPE_BYTES: usize = 256;

/// Rules that are kept for a project, and for the user; a further one is refused.
pub const MAX_STORED_RULES: usize = 1024;

/// Rules that hold in a session; where there is no room, an answer holds once.
pub(crate) const MAX_SESSION_RULES: usize = 4 * MAX_STORED_RULES;

/// Bytes of a pattern of a rule: of a glob, or of a command's first words.
pub(crate) const MAX_RULE_PATTERN_BYTES: usize = 1024;

/// Bytes of a command that rules read; above, none allows it, and one that may deny it asks.
pub(crate) const MAX_JUDGED_COMMAND_BYTES: usize = 4 * 1024;

/// Bytes of what a user said of a rejection, as the model reads it.
pub const MAX_REJECTION_REASON_BYTES: usize = 2 * 1024;

/// Bytes of a stream that were shown and are looked at again with what follows: a word that stands
/// before credentials may come in pieces.
pub(crate) const STREAM_CONTEXT_BYTES: usize = 32;

/// Longest escape sequence of a terminal that is waited for.
pub(crate) const MAX_ESCAPE_BYTES: usize = 256;

/// Files that were changed without a question which a session remembers.
pub(crate) const MAX_UNREVIEWED_FILES: usize = 256;

/// Those of them that a question names.
pub(crate) const MAX_NAMED_UNREVIEWED_FILES: usize = 12;

/// Policies that may follow each other while one effect is judged; after that, it is denied.
pub(crate) const MAX_POLICY_CHANGES: usize = 8;

/// Changes of stored rules that wait to be saved; what is over holds in the session only.
pub(crate) const MAX_UNSAVED_RULE_CHANGES: usize = 1024;

/// How long a cancelled call may take to end by itself before it is dropped.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// How often a call is previewed whose files are changed by something else each time before it runs.
pub(crate) const MAX_PREVIEWS: u32 = 3;

/// How long a client may take nothing before models and terminals are no longer read for it.
#[cfg(feature = "tokio")]
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(1);
