//! The limits of this crate.

use std::time::Duration;

/// Minimum time between two streamed updates of one call, terminal or message.
pub(crate) const DEFAULT_UPDATE_INTERVAL: Duration = Duration::from_millis(50);

/// Smallest update interval that a session can be configured with: an update may repeat a text of 4
/// KiB.
pub(crate) const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(10);

/// Largest update interval that a session can be configured with.
pub(crate) const MAX_UPDATE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum time that the first report of a call waits for a title while its arguments stream.
pub(crate) const MAX_FIRST_REPORT_WAIT: Duration = Duration::from_millis(200);

/// Maximum bytes of message text that are merged into one chunk. Further text starts a new chunk.
pub(crate) const MAX_MESSAGE_CHUNK_BYTES: usize = 32 * 1024;

/// Maximum number of content items per call. Further items are dropped and counted.
pub const MAX_CONTENT_ITEMS: usize = 128;

/// Bytes of content kept per call. Items that exceed them are dropped and counted.
pub(crate) const MAX_CONTENT_BYTES: usize = 768 * 1024;

/// Serialized bytes of raw input or raw output. Larger values are truncated and keep their JSON
/// shape.
pub(crate) const MAX_RAW_BYTES: usize = 64 * 1024;

/// Maximum depth of raw input or raw output. Deeper arrays and objects are shown empty.
pub(crate) const MAX_RAW_DEPTH: usize = 32;

/// Maximum number of known secrets to search for. Further values are ignored and counted.
pub(crate) const MAX_SECRETS: usize = 256;

/// Maximum total bytes of the known secrets. Values that exceed it are ignored and counted. Each
/// byte of a secret costs about 200 bytes of memory.
pub(crate) const MAX_SECRETS_BYTES: usize = 32 * 1024;

/// Minimum bytes of a secret. Shorter values are not redacted.
pub(crate) const MIN_SECRET_BYTES: usize = 8;

/// Maximum bytes of a secret's beginning that are shown at the end of a stream. A longer beginning
/// is redacted.
pub(crate) const MAX_SHOWN_SECRET_BYTES: usize = 3;

/// Maximum serialized bytes of an argument that is reported while later arguments still arrive. For
/// a longer argument, only its length is reported.
pub(crate) const MAX_PARTIAL_FIELD_BYTES: usize = 1024;

/// Maximum serialized bytes of all arguments that are reported while others still arrive.
pub(crate) const MAX_PARTIAL_FIELDS_BYTES: usize = 4 * 1024;

/// Maximum number of arguments whose lengths are reported while they arrive.
pub(crate) const MAX_PARTIAL_FIELDS: usize = 16;

/// Number of messages whose redaction state is kept, in case a message ended within a secret and
/// continues.
pub(crate) const MAX_REMEMBERED_MESSAGE_ENDS: usize = 4;

/// Maximum number of locations per call. Further locations are dropped and counted.
pub(crate) const MAX_LOCATIONS: usize = 20;

/// Maximum bytes of a command in a title. A longer command is shown as its first line and its line
/// count.
pub(crate) const MAX_TITLE_COMMAND_BYTES: usize = 4 * 1024;

/// Maximum bytes of a title: two such arguments and the text around them. A longer title is
/// truncated and marked as such.
pub(crate) const MAX_TITLE_BYTES: usize = 3 * MAX_TITLE_COMMAND_BYTES;

/// Maximum bytes of the default title of a call whose tool sets none. No more arguments are added
/// beyond it.
pub(crate) const MAX_DEFAULT_TITLE_BYTES: usize = 1024;

/// Maximum bytes of one argument in a default title. A longer value is truncated and marked as
/// such.
pub(crate) const MAX_DEFAULT_TITLE_VALUE_BYTES: usize = 256;

/// Maximum bytes of the subtitle that follows a title while its call runs. A longer one is
/// truncated and marked as such.
pub(crate) const MAX_SUBTITLE_BYTES: usize = 160;

/// Bytes kept of a progress message.
pub(crate) const MAX_PROGRESS_MESSAGE_BYTES: usize = 1024;

/// Number of ids of ended calls that are remembered, so that late events are detected.
pub(crate) const MAX_ENDED_CALL_IDS: usize = 4096;

/// Number of ended calls whose reports are kept.
pub(crate) const MAX_HISTORY_CALLS: usize = 256;

/// Bytes of those reports.
pub(crate) const MAX_HISTORY_BYTES: usize = 4 * 1024 * 1024;

/// Number of failed calls among which the original of a retry is searched for.
pub(crate) const MAX_FAILED_CALLS: usize = 16;

/// Number of tools with separate usage counters. Calls of further names, which models may invent,
/// share one entry.
pub(crate) const MAX_USAGE_TOOLS: usize = 128;

/// Number of ids of ended turns that are remembered, so that no call is announced in them.
pub(crate) const MAX_ENDED_TURNS: usize = 64;

/// Maximum number of open turns whose trace context is passed on to their calls.
pub(crate) const MAX_TRACED_TURNS: usize = 64;

/// Bytes of a result or an error that are shown as text by default. The rest is counted.
pub(crate) const DEFAULT_RESULT_TEXT_BYTES: usize = 32 * 1024;

/// Largest value that this limit can be configured to.
pub(crate) const MAX_RESULT_TEXT_BYTES: usize = 256 * 1024;

/// Maximum bytes of a tool name, which a model may invent.
pub(crate) const MAX_TOOL_NAME_BYTES: usize = 256;

/// Maximum bytes of the text that names the scope of a permission option. Above it, the client can
/// only allow or reject once.
pub(crate) const MAX_OPTION_SCOPE_BYTES: usize = 256;

/// Maximum number of rules stored per project, and for the user. Further rules are refused.
pub const MAX_STORED_RULES: usize = 1024;

/// Maximum number of rules in a session. When they are full, an answer applies once.
pub(crate) const MAX_SESSION_RULES: usize = 4 * MAX_STORED_RULES;

/// Maximum bytes of a rule's pattern: of a glob, or of the first words of a command.
pub(crate) const MAX_RULE_PATTERN_BYTES: usize = 1024;

/// Maximum bytes of a command that rules parse. No rule allows a longer command, and a rule that
/// may deny it asks.
pub(crate) const MAX_JUDGED_COMMAND_BYTES: usize = 4 * 1024;

/// Maximum bytes of the user's reason for a rejection, as sent to the model.
pub const MAX_REJECTION_REASON_BYTES: usize = 2 * 1024;

/// Bytes of a stream that were already shown and are scanned again with the next piece: a keyword
/// before credentials may be split.
pub(crate) const STREAM_CONTEXT_BYTES: usize = 32;

/// Maximum bytes of an escape sequence. A longer one is treated as text.
pub(crate) const MAX_ESCAPE_BYTES: usize = 256;

/// Number of files that a session remembers as changed without asking a person.
pub(crate) const MAX_UNREVIEWED_FILES: usize = 256;

/// Number of those files that a permission request names.
pub(crate) const MAX_NAMED_UNREVIEWED_FILES: usize = 12;

/// Number of times that the policy may be replaced while one effect is judged. After that, the
/// effect is denied.
pub(crate) const MAX_POLICY_CHANGES: usize = 8;

/// Maximum number of unsaved changes of stored rules. Further rules apply to this session only.
pub(crate) const MAX_UNSAVED_RULE_CHANGES: usize = 1024;

/// Grace period for a cancelled call. After it, the call is dropped.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Maximum number of previews of a call whose files change before it runs.
pub(crate) const MAX_PREVIEWS: u32 = 3;

/// Time without progress of the client, after which models and terminals are no longer read for it.
#[cfg(feature = "tokio")]
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Least time between two records of a document that is open and changes without a step: so much
/// of it may be missing after a kill.
pub const OPEN_DOCUMENT_INTERVAL: Duration = Duration::from_secs(1);
