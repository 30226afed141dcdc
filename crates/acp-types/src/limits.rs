//! Every bound of this crate, in one place. It knows nothing of rates and queues.

/// Bytes kept of the beginning of a terminal's output.
pub(crate) const OUTPUT_HEAD_BYTES: usize = 8 * 1024;

/// Bytes kept of the end of a terminal's output.
pub(crate) const OUTPUT_TAIL_BYTES: usize = 40 * 1024;

/// Bytes of terminal output shown as text while its call runs, where text must be resent whole.
pub(crate) const MAX_RUNNING_OUTPUT_BYTES: usize = 4 * 1024;

/// Serialised bytes of the one object a call sends in `_meta`.
pub(crate) const MAX_META_BYTES: usize = 2 * 1024;

/// Serialised bytes of one message's terminal output. Many clients drop lines of 64 KiB.
pub(crate) const MAX_OUTPUT_CHUNK_BYTES: usize = 48 * 1024;

/// Serialised bytes of a call's update that is neither its first report nor its end; what makes
/// it larger waits for one of those, or for a permission request.
pub(crate) const MAX_STREAMED_UPDATE_BYTES: usize = 56 * 1024;

/// Serialised bytes that a call's streamed updates may repeat of what grows or is replaced, beside
/// as much again as it has now. What is over waits for a report that is not streamed; up to
/// [`RUNNING_TEXT`] bytes always go, because their rate is bounded.
pub(crate) const MAX_RESENT_BYTES: usize = 64 * 1024;

/// Bytes of old and new text up to which a change is sent as whole files; above, as hunks.
pub(crate) const MAX_WHOLE_FILE_DIFF_BYTES: usize = 16 * 1024;

/// Serialised bytes sent for one change; the rest is counted.
pub const MAX_FILE_CHANGE_BYTES: usize = 256 * 1024;

/// Serialised bytes of a hunk beside its lines and its path, with a key of `_meta` of up to
/// [`META_KEY_BYTES`].
pub(crate) const HUNK_JSON_OVERHEAD_BYTES: usize = 192;

/// Serialised bytes of a key of `_meta` that are counted with each hunk; a longer key is counted by
/// its length.
pub(crate) const META_KEY_BYTES: usize = 32;

/// Lines of two texts up to which their smallest difference is looked for at all.
pub(crate) const MAX_MINIMAL_DIFF_LINES: usize = 500_000;

/// Bytes of the lines that the hunks of one change list, with [`HUNK_LINE_OVERHEAD_BYTES`] for each; what
/// is beyond is counted. More than is ever shown of a change.
pub(crate) const MAX_HUNKS_BYTES: usize = 1024 * 1024;

/// Bytes that a line of a hunk takes beside its text.
pub(crate) const HUNK_LINE_OVERHEAD_BYTES: usize = 48;

/// Characters of a model's own call id that is taken over.
pub(crate) const MAX_MODEL_CALL_ID_CHARS: usize = 64;

/// Violations an observer keeps; the rest is counted.
pub(crate) const MAX_VIOLATIONS: usize = 64;

/// Bytes of a `traceparent`. The version in use has 55; a later one may have more.
pub(crate) const MAX_TRACEPARENT_BYTES: usize = 256;

/// Bytes of a `tracestate`: what <https://www.w3.org/TR/trace-context/#tracestate-limits> asks
/// everybody to pass on.
pub(crate) const MAX_TRACESTATE_BYTES: usize = 512;

/// Members of a `tracestate`, from the same source.
pub(crate) const MAX_TRACESTATE_MEMBERS: usize = 32;

/// Bytes of `baggage`: what <https://www.w3.org/TR/baggage/#limits> asks everybody to pass on.
pub(crate) const MAX_BAGGAGE_BYTES: usize = 8 * 1024;

/// Ids of calls whose end was told which a projection remembers, so that nothing follows it.
pub(crate) const MAX_REMEMBERED_ENDED_CALLS: usize = 4096;
