//! All size limits of this crate.

/// Maximum number of bytes that are kept from the beginning of a terminal's output.
pub(crate) const OUTPUT_HEAD_BYTES: usize = 8 * 1024;

/// Maximum number of bytes that are kept from the end of a terminal's output.
pub(crate) const OUTPUT_TAIL_BYTES: usize = 40 * 1024;

/// Maximum serialised size in bytes of a terminal that is shown as text while the call runs. The
/// limit is small because each update sends the whole text again.
pub(crate) const MAX_RUNNING_OUTPUT_BYTES: usize = 4 * 1024;

/// Number of bytes of [`MAX_RUNNING_OUTPUT_BYTES`] for the parts of such a text that are neither
/// command nor output, e.g. for the line about omitted output.
pub(crate) const RUNNING_OUTPUT_OVERHEAD_BYTES: usize = 256;

/// Maximum serialised size in bytes of the command that a terminal shows as text while the call
/// runs. The whole command is shown before the call runs and after it.
pub(crate) const MAX_RUNNING_COMMAND_BYTES: usize = 1024;

/// Maximum serialised size in bytes of the object that a call sends in `_meta`.
pub(crate) const MAX_META_BYTES: usize = 2 * 1024;

/// Maximum serialised size in bytes of the terminal output in one message. Many clients drop lines
/// of 64 KiB or more.
pub(crate) const MAX_OUTPUT_CHUNK_BYTES: usize = 48 * 1024;

/// Maximum serialised size in bytes of a streamed update, i.e. of an update between the first
/// report and the end of a call. Larger fields are sent with the end of the call or with a
/// permission request.
pub(crate) const MAX_STREAMED_UPDATE_BYTES: usize = 56 * 1024;

/// Maximum number of serialised bytes that the streamed updates of a call may spend on large
/// fields, in addition to the current size of these fields. A large field is sent again whenever
/// its value grows or is replaced. Beyond this limit, the field is sent with the next report that
/// is not streamed. Fields of up to [`MAX_RUNNING_OUTPUT_BYTES`], and the same size for each
/// terminal that the call shows, are always sent, because their rate is limited.
pub(crate) const MAX_RESENT_BYTES: usize = 64 * 1024;

/// Maximum total size in bytes of the old and the new text of a change that is sent as whole files.
/// A larger change is sent as hunks.
pub(crate) const MAX_WHOLE_FILE_DIFF_BYTES: usize = 16 * 1024;

/// Maximum serialised size in bytes of a change in a message. Lines beyond this size are only
/// counted.
pub const MAX_FILE_CHANGE_BYTES: usize = 256 * 1024;

/// Serialised size in bytes of a hunk without its lines and its path. The size includes a key of
/// `_meta` with the maximum length.
pub(crate) const HUNK_JSON_OVERHEAD_BYTES: usize = 160 + MAX_META_KEY_BYTES;

/// Maximum serialised size in bytes of the key in `_meta`. The size is limited because every report
/// and every hunk repeats the key. A longer key is truncated.
pub(crate) const MAX_META_KEY_BYTES: usize = 64;

/// Maximum total number of lines of two texts whose smallest difference is computed.
#[cfg(feature = "diff")]
pub(crate) const MAX_MINIMAL_DIFF_LINES: usize = 500_000;

/// Maximum size in bytes of all lines in the hunks of one change, including
/// [`HUNK_LINE_OVERHEAD_BYTES`] per line. Lines beyond this size are only counted. This size is
/// larger than any display of a change.
pub(crate) const MAX_HUNKS_BYTES: usize = 1024 * 1024;

/// Number of bytes that a line of a hunk takes in addition to its text.
pub(crate) const HUNK_LINE_OVERHEAD_BYTES: usize = 48;

/// Maximum number of characters of a model's call id that becomes a part of our call id.
pub(crate) const MAX_MODEL_CALL_ID_CHARS: usize = 64;

/// Maximum number of violations that a client state records. Further violations are discarded.
pub(crate) const MAX_VIOLATIONS: usize = 64;

/// Maximum size of a `traceparent` in bytes. A `traceparent` of the current version has 55 bytes; a
/// later version may be longer.
pub(crate) const MAX_TRACEPARENT_BYTES: usize = 256;

/// Maximum size of a `tracestate` in bytes. Every participant should propagate a `tracestate` of
/// this size, according to <https://www.w3.org/TR/trace-context/#tracestate-limits>.
pub(crate) const MAX_TRACESTATE_BYTES: usize = 512;

/// Maximum number of members of a `tracestate`, according to the W3C specification.
pub(crate) const MAX_TRACESTATE_MEMBERS: usize = 32;

/// Maximum size of `baggage` in bytes. Every participant should propagate `baggage` of this size,
/// according to <https://www.w3.org/TR/baggage/#limits>.
pub(crate) const MAX_BAGGAGE_BYTES: usize = 8 * 1024;

/// Maximum number of finished calls whose ids a projection remembers. The projection drops later
/// patches of these calls.
pub(crate) const MAX_REMEMBERED_ENDED_CALLS: usize = 4096;
