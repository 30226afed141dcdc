//! The limits of this crate, with their units and reasons.

// ---- Judging transcripts ----

/// Maximum size of an agent's line in bytes. Some clients fail at longer lines.
pub(crate) const MAX_AGENT_LINE_BYTES: usize = 1 << 20;

/// Maximum size of a streamed update in bytes. Many clients fail at a line of 64 KiB.
pub(crate) const MAX_STREAMED_UPDATE_BYTES: usize = 60 << 10;

/// Maximum number of sessions that are kept per transcript. If there are more, the oldest session
/// is dropped, and from then on, messages of unknown sessions are not judged.
pub(crate) const MAX_JUDGED_SESSIONS: usize = 64;

/// Maximum number of calls, and of terminals, that are kept per session. If there are more, the
/// oldest call or terminal is dropped, and from then on, unknown ones are not reported.
pub(crate) const MAX_JUDGED_CALLS: usize = 4096;

/// Maximum number of unanswered requests per side; further requests are not judged.
pub(crate) const MAX_OPEN_REQUESTS: usize = 4096;

/// Maximum number of answered ids that are kept per side. The ids are needed to distinguish a
/// second response from a response without a request.
pub(crate) const MAX_REMEMBERED_ANSWERS: usize = 4096;

/// Maximum number of options that are kept per permission request. Later options of the request
/// count as unknown.
pub(crate) const MAX_JUDGED_OPTIONS: usize = 64;

/// Maximum number of modes, of options, and of values per option that are kept per session. If
/// there are more, selections are not judged.
pub(crate) const MAX_JUDGED_CHOICES: usize = 1024;

/// Maximum number of bytes that are kept of an id. Longer ids with the same beginning count as
/// equal.
pub(crate) const MAX_KEY_BYTES: usize = 256;

/// Maximum number of characters of a message that are repeated in a violation.
pub(crate) const MAX_VIOLATION_EXCERPT_CHARS: usize = 200;

// ---- The fault-injecting client ----

/// Maximum number of updates that the client keeps per session. The same limit applies to
/// violations, responses, permission requests, errors, and events that arrive during a write.
pub(crate) const MAX_KEPT_ITEMS: usize = 100_000;

/// Maximum number of bytes that are kept of a transcript. If there are more, the oldest lines are
/// dropped.
pub(crate) const MAX_KEPT_TRANSCRIPT_BYTES: usize = 64 << 20;

/// Maximum number of bytes that are kept of an agent's standard error. Further bytes are read and
/// dropped.
pub(crate) const MAX_KEPT_LOG_BYTES: usize = 1 << 20;

/// Maximum number of bytes that are buffered, in each direction, between the client and an agent in
/// the same process. A pipe on Linux has the same size.
pub(crate) const IN_PROCESS_BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of lines that are read but not yet processed.
pub(crate) const MAX_UNREAD_LINES: usize = 4096;

/// Maximum number of bytes that are kept of a terminal's output. Further bytes are read and
/// dropped.
pub(crate) const MAX_TERMINAL_OUTPUT_BYTES: usize = 16 << 20;
