//! Every bound of this crate: what it limits, in which unit, and why it has that size.

// ---- Judging transcripts ----

/// Bytes of one line of an agent, above which clients are known to fail.
pub(crate) const MAX_AGENT_LINE_BYTES: usize = 1 << 20;

/// Bytes of an update that is streamed: many clients end at a line of 64 KiB.
pub(crate) const MAX_STREAMED_UPDATE_BYTES: usize = 60 << 10;

/// Sessions of one transcript that are remembered; the oldest is forgotten.
pub(crate) const MAX_JUDGED_SESSIONS: usize = 64;

/// Calls of one session that are remembered, and its terminals; the oldest is forgotten.
pub(crate) const MAX_JUDGED_CALLS: usize = 4096;

/// Requests of one side that may wait for their answers; further ones are not judged.
pub(crate) const MAX_OPEN_REQUESTS: usize = 4096;

/// Answers of one side that are remembered, to tell a second answer from one that nobody asked.
pub(crate) const MAX_REMEMBERED_ANSWERS: usize = 4096;

/// Options of a permission request that are remembered; the answer to one behind them is taken for
/// unknown.
pub(crate) const MAX_JUDGED_OPTIONS: usize = 64;

/// Modes of a session that are remembered, its options, and the values of each; where there are
/// more, what is chosen is not judged.
pub(crate) const MAX_JUDGED_CHOICES: usize = 1024;

/// Bytes of an id that are kept; longer ones that begin alike are taken for one.
pub(crate) const MAX_KEY_BYTES: usize = 256;

/// Characters of a peer's text that a fault repeats.
pub(crate) const MAX_VIOLATION_EXCERPT_CHARS: usize = 200;

// ---- The fault-injecting client ----

/// Updates of a session that the client keeps; likewise faults, answers, questions, errors, and lines
/// that come while it writes.
pub(crate) const MAX_KEPT_ITEMS: usize = 100_000;

/// Bytes of a transcript that it keeps; the oldest lines go.
pub(crate) const MAX_KEPT_TRANSCRIPT_BYTES: usize = 64 << 20;

/// Bytes of an agent's standard error that it keeps; the rest is read and dropped.
pub(crate) const MAX_KEPT_LOG_BYTES: usize = 1 << 20;

/// Bytes between the client and an agent in the same process, in each direction: what a pipe holds on
/// Linux.
pub(crate) const IN_PROCESS_BUFFER_BYTES: usize = 64 << 10;

/// Lines that it has read and not looked at; then it reads no more.
pub(crate) const MAX_UNREAD_LINES: usize = 4096;

/// Bytes of output that one of its terminals keeps; the rest is read and dropped.
pub(crate) const MAX_TERMINAL_OUTPUT_BYTES: usize = 16 << 20;
