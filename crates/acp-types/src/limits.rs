//! All size limits of this crate.

/// Bytes kept of the beginning of a terminal's output.
pub(crate) const OUTPUT_HEAD_BYTES: usize = 8 * 1024;

/// Bytes kept of the end of a terminal's output.
pub(crate) const OUTPUT_TAIL_BYTES: usize = 40 * 1024;

/// Bytes of terminal output that are shown as text while the call runs. Each update resends the
/// whole text.
pub(crate) const MAX_RUNNING_OUTPUT_BYTES: usize = 4 * 1024;

/// Serialised bytes of the object that a call sends in `_meta`.
pub(crate) const MAX_META_BYTES: usize = 2 * 1024;

/// Serialised bytes of terminal output per message. Many clients drop lines of 64 KiB.
pub(crate) const MAX_OUTPUT_CHUNK_BYTES: usize = 48 * 1024;

/// Serialised bytes of a streamed update, i.e. an update between the first report and the end of a
/// call. Larger fields wait for the end of the call or for a permission request.
pub(crate) const MAX_STREAMED_UPDATE_BYTES: usize = 56 * 1024;

/// Serialised bytes that the streamed updates of a call may resend of growing or replaced values,
/// in addition to their current size. Above this limit, values wait for a report that is not
/// streamed. Values of up to [`MAX_RUNNING_OUTPUT_BYTES`] are always sent, because their rate is
/// limited.
pub(crate) const MAX_RESENT_BYTES: usize = 64 * 1024;

/// Largest sum of the bytes of old and new text for which a change is sent as whole files. Larger
/// changes are sent as hunks.
pub(crate) const MAX_WHOLE_FILE_DIFF_BYTES: usize = 16 * 1024;

/// Serialised bytes sent per change. Further lines are only counted.
pub const MAX_FILE_CHANGE_BYTES: usize = 256 * 1024;

/// Serialised bytes of a hunk without its lines and its path, with the longest key of `_meta`.
pub(crate) const HUNK_JSON_OVERHEAD_BYTES: usize = 160 + MAX_META_KEY_BYTES;

/// Serialised bytes of the key in `_meta`, which is repeated in every report and hunk. A longer key
/// is truncated.
pub(crate) const MAX_META_KEY_BYTES: usize = 64;

/// Largest number of lines of two texts for which their smallest difference is computed.
#[cfg(feature = "diff")]
pub(crate) const MAX_MINIMAL_DIFF_LINES: usize = 500_000;

/// Bytes of the lines listed in the hunks of one change, with [`HUNK_LINE_OVERHEAD_BYTES`] per
/// line. Further lines are only counted. This limit is larger than any display of a change.
pub(crate) const MAX_HUNKS_BYTES: usize = 1024 * 1024;

/// Bytes of a hunk's line without its text.
pub(crate) const HUNK_LINE_OVERHEAD_BYTES: usize = 48;

/// Characters of a model's call id that may be used as a part of our ids.
pub(crate) const MAX_MODEL_CALL_ID_CHARS: usize = 64;

/// Violations that an observer keeps. Further ones are discarded.
pub(crate) const MAX_VIOLATIONS: usize = 64;

/// Bytes of a `traceparent`. The current version has 55; a later one may be longer.
pub(crate) const MAX_TRACEPARENT_BYTES: usize = 256;

/// Bytes of a `tracestate`: the length that every participant should propagate according to
/// <https://www.w3.org/TR/trace-context/#tracestate-limits>.
pub(crate) const MAX_TRACESTATE_BYTES: usize = 512;

/// Members of a `tracestate`, from the same source.
pub(crate) const MAX_TRACESTATE_MEMBERS: usize = 32;

/// Bytes of `baggage`: the length that every participant should propagate according to
/// <https://www.w3.org/TR/baggage/#limits>.
pub(crate) const MAX_BAGGAGE_BYTES: usize = 8 * 1024;

/// Ids of finished calls that a projection remembers. The projection drops later updates of these
/// calls.
pub(crate) const MAX_REMEMBERED_ENDED_CALLS: usize = 4096;
