//! The limits of this crate.

use std::time::Duration;

/// Default minimum time between two streamed updates of one call, terminal or message.
pub(crate) const DEFAULT_UPDATE_INTERVAL: Duration = Duration::from_millis(50);

/// Smallest update interval that can be configured. With a smaller interval, updates would need too
/// much bandwidth, because each update may repeat a text of 4 KiB.
pub(crate) const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(10);

/// Largest update interval that can be configured.
pub(crate) const MAX_UPDATE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum time that the first report of a call waits for a title while its arguments stream.
pub(crate) const MAX_FIRST_REPORT_WAIT: Duration = Duration::from_millis(200);

/// Maximum number of bytes of message text in one merged chunk. Text beyond this limit starts a new
/// chunk.
pub(crate) const MAX_MESSAGE_CHUNK_BYTES: usize = 32 * 1024;

/// Maximum number of content items per call. Content items beyond this limit are dropped and
/// counted.
pub const MAX_CONTENT_ITEMS: usize = 128;

/// Maximum number of bytes of content per call. Content items beyond this limit are dropped and
/// counted.
pub(crate) const MAX_CONTENT_BYTES: usize = 768 * 1024;

/// Maximum serialized size of raw input or raw output, in bytes. Larger values are truncated and
/// keep their JSON shape.
pub(crate) const MAX_RAW_BYTES: usize = 64 * 1024;

/// Maximum nesting depth of raw input or raw output. Deeper arrays and objects are shown as empty.
pub(crate) const MAX_RAW_DEPTH: usize = 32;

/// Maximum number of known secrets to search for. Secrets beyond this limit are ignored and
/// counted.
pub(crate) const MAX_SECRETS: usize = 256;

/// Maximum total size of the known secrets, in bytes. Values beyond this limit are ignored and
/// counted. Each byte of a secret costs about 200 bytes of memory.
pub(crate) const MAX_SECRETS_BYTES: usize = 32 * 1024;

/// Maximum number of temporary secrets to search for, e.g. of access tokens, in addition to
/// [`MAX_SECRETS`]. If there are more, the oldest are forgotten.
pub(crate) const MAX_TEMPORARY_SECRETS: usize = 256;

/// Maximum total size of the temporary secrets, in bytes, in addition to [`MAX_SECRETS_BYTES`]. If
/// there are more, the oldest are forgotten.
pub(crate) const MAX_TEMPORARY_SECRETS_BYTES: usize = 32 * 1024;

/// Minimum size of a secret, in bytes. Shorter values are not redacted.
pub(crate) const MIN_SECRET_BYTES: usize = 8;

/// Maximum number of bytes that are shown at the end of a stream although these bytes may begin a
/// secret. A longer possible beginning of a secret is redacted.
pub(crate) const MAX_SHOWN_SECRET_BYTES: usize = 3;

/// Maximum serialized size, in bytes, of an argument that is reported while later arguments still
/// arrive. For a longer argument, only its length is reported.
pub(crate) const MAX_PARTIAL_FIELD_BYTES: usize = 1024;

/// Maximum total serialized size, in bytes, of the arguments that are reported while later
/// arguments still arrive.
pub(crate) const MAX_PARTIAL_FIELDS_BYTES: usize = 4 * 1024;

/// Maximum number of arguments whose lengths are reported while they arrive.
pub(crate) const MAX_PARTIAL_FIELDS: usize = 16;

/// Maximum number of messages whose redaction state is kept. The state is needed if a message is
/// interrupted in the middle of a secret and continues later.
pub(crate) const MAX_REMEMBERED_MESSAGE_ENDS: usize = 4;

/// Maximum number of locations per call. Locations beyond this limit are dropped and counted.
pub(crate) const MAX_LOCATIONS: usize = 20;

/// Maximum size of a command in a title, in bytes. A longer command is shown as its first line and
/// its line count.
pub(crate) const MAX_TITLE_COMMAND_BYTES: usize = 4 * 1024;

/// Maximum size of the command of a terminal, in bytes. A longer command is truncated and marked as
/// truncated, and the answer to a permission request for its call is not remembered.
pub(crate) const MAX_TERMINAL_COMMAND_BYTES: usize = 64 * 1024;

/// Maximum size of a title, in bytes. The limit leaves room for two commands of
/// [`MAX_TITLE_COMMAND_BYTES`] and the text around them. A longer title is truncated and marked as
/// truncated.
pub(crate) const MAX_TITLE_BYTES: usize = 3 * MAX_TITLE_COMMAND_BYTES;

/// Maximum size, in bytes, of the default title. The default title is used if the tool sets no
/// title. When this size is reached, no further arguments are added to the title.
pub(crate) const MAX_DEFAULT_TITLE_BYTES: usize = 1024;

/// Maximum size of one argument in a default title, in bytes. A longer value is truncated and
/// marked as truncated.
pub(crate) const MAX_DEFAULT_TITLE_VALUE_BYTES: usize = 256;

/// Maximum size, in bytes, of the subtitle that is shown after the title while the call runs. A
/// longer subtitle is truncated and marked as truncated.
pub(crate) const MAX_SUBTITLE_BYTES: usize = 160;

/// Maximum size of a progress message, in bytes. A longer message is truncated.
pub(crate) const MAX_PROGRESS_MESSAGE_BYTES: usize = 1024;

/// Maximum number of remembered ids of ended calls. The ids are needed to detect late events.
pub(crate) const MAX_ENDED_CALL_IDS: usize = 4096;

/// Maximum number of ended calls whose reports are kept.
pub(crate) const MAX_HISTORY_CALLS: usize = 256;

/// Maximum total size of the reports of ended calls, in bytes.
pub(crate) const MAX_HISTORY_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of remembered failed calls. A retry names the failed call that it repeats, so the
/// failed calls must be remembered.
pub(crate) const MAX_FAILED_CALLS: usize = 16;

/// Maximum number of tools with separate usage counters. Models may invent tool names. Calls with
/// further tool names therefore share one entry.
pub(crate) const MAX_USAGE_TOOLS: usize = 128;

/// Maximum number of remembered ids of ended turns. The ids are needed to refuse a new call of an
/// ended turn.
pub(crate) const MAX_ENDED_TURNS: usize = 64;

/// Maximum number of open turns whose trace context is added to their calls.
pub(crate) const MAX_TRACED_TURNS: usize = 64;

/// Default for the maximum number of bytes of a result or an error that are shown as text. The
/// omitted bytes are counted.
pub(crate) const DEFAULT_RESULT_TEXT_BYTES: usize = 32 * 1024;

/// Largest value that can be configured for the limit of [`DEFAULT_RESULT_TEXT_BYTES`].
pub(crate) const MAX_RESULT_TEXT_BYTES: usize = 256 * 1024;

/// Maximum size of a tool name, in bytes. Models may invent long tool names.
pub(crate) const MAX_TOOL_NAME_BYTES: usize = 256;

/// Maximum size, in bytes, of the text that names the scope of a permission option. If the text is
/// longer, the client can only allow or reject once.
pub(crate) const MAX_OPTION_SCOPE_BYTES: usize = 256;

/// Maximum number of stored rules per project, and maximum number of stored rules for the user.
/// Further rules are refused.
pub const MAX_STORED_RULES: usize = 1024;

/// Maximum number of rules in a session. When the limit is reached, an answer applies only once.
pub(crate) const MAX_SESSION_RULES: usize = 4 * MAX_STORED_RULES;

/// Maximum size of a rule's pattern, in bytes. A pattern is a glob, or the first words of a
/// command.
pub(crate) const MAX_RULE_PATTERN_BYTES: usize = 1024;

/// Maximum size of a command that rules parse, in bytes. No rule allows a longer command. If a rule
/// may deny a longer command, the client is asked.
pub(crate) const MAX_JUDGED_COMMAND_BYTES: usize = 4 * 1024;

/// Maximum size, in bytes, of the user's reason for a rejection in the form that is sent to the
/// model.
pub const MAX_REJECTION_REASON_BYTES: usize = 2 * 1024;

/// Maximum number of shown bytes of a stream that are scanned again with the next piece. The second
/// scan is needed because a keyword before credentials may be split between two pieces.
pub(crate) const STREAM_CONTEXT_BYTES: usize = 32;

/// Maximum size of an escape sequence, in bytes. A longer escape sequence is treated as text.
pub(crate) const MAX_ESCAPE_BYTES: usize = 256;

/// Maximum number of files that a session remembers because they were changed without a person's
/// approval.
pub(crate) const MAX_UNREVIEWED_FILES: usize = 256;

/// Maximum number of files that a permission request names because they were changed without a
/// person's approval.
pub(crate) const MAX_NAMED_UNREVIEWED_FILES: usize = 12;

/// Maximum number of attempts to judge a call. An attempt fails if the policy is replaced during
/// the attempt. If all attempts fail, the call is denied.
#[cfg(feature = "tokio")]
pub(crate) const MAX_POLICY_CHANGES: usize = 8;

/// Maximum number of unsaved changes of stored rules. If there are more changes, added rules apply
/// to this session only.
pub(crate) const MAX_UNSAVED_RULE_CHANGES: usize = 1024;

/// Time that a cancelled call has to stop. When this time is over, the future of the call is
/// dropped.
#[cfg(feature = "tokio")]
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Maximum number of previews of a call whose files change before it runs.
#[cfg(feature = "tokio")]
pub(crate) const MAX_PREVIEWS: u32 = 3;

/// Time after which a client that reads nothing counts as stalled. Models and terminals are not
/// read while the client is stalled.
#[cfg(feature = "tokio")]
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum time between two records of a document, e.g. of a message or a call, that may still
/// change. A change of the status is recorded at once. If the process is killed, the last changes
/// within this time may be missing in the record.
pub const OPEN_DOCUMENT_INTERVAL: Duration = Duration::from_secs(1);
