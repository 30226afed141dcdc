//! The limits of this crate. Those that callers can use are public.

use std::time::Duration;

use callboard_process::limits::{
    MAX_KEPT_OUTPUT_BYTES, MAX_MODEL_OUTPUT_BYTES, MAX_TRUNCATION_NOTE_BYTES,
};

// Files and search

/// Maximum length of a path in bytes, as in most kernels.
pub(crate) const MAX_PATH_BYTES: usize = 4096;

/// Maximum size of a file that is read whole or edited.
pub(crate) const MAX_WHOLE_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of bytes of a file that are scanned for the requested lines. Skipped lines are
/// counted as fast as they are read.
pub(crate) const MAX_LINE_READ_FILE_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Bytes at the beginning of a file that decide whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

/// Default number of lines of a file excerpt.
pub(crate) const DEFAULT_READ_LINES: u32 = 2_000;

/// Maximum number of bytes of text in a file excerpt.
pub(crate) const MAX_READ_TEXT_BYTES: usize = 256 * 1024;

/// Maximum number of characters of one line in a file excerpt.
pub(crate) const MAX_READ_LINE_CHARS: usize = 2_000;

/// Maximum size of an image for the model. As Base64 this is 5 MiB, the limit of Anthropic's models
/// at most providers (<https://platform.claude.com/docs/en/build-with-claude/vision>). Other
/// providers accept more.
pub(crate) const MAX_IMAGE_BYTES: u64 = 3_932_160;

/// Maximum size of an image that is also sent to the client. As Base64 it fits into the content of
/// a call, which fits into a line of 1 MiB; some clients fail on longer lines. For a larger image
/// the client receives a link to the file, which it can open itself.
pub(crate) const MAX_CLIENT_IMAGE_BYTES: usize = 512 * 1024;

/// Size of the buffer that reads a file line by line.
pub(crate) const LINE_READ_BUFFER_BYTES: usize = 64 * 1024;

/// Maximum time to search other directories for a file with a missing name.
pub(crate) const MAX_SAME_NAME_SEARCH_TIME: Duration = Duration::from_millis(300);

/// Maximum number of similar names that are suggested for a missing one.
pub(crate) const MAX_SIMILAR_NAMES: usize = 3;

/// Maximum number of names of a directory that are compared to find similar ones.
pub(crate) const MAX_NAMES_COMPARED: usize = 2_000;

/// Maximum depth of a listing.
pub(crate) const MAX_LIST_DEPTH: u32 = 10;

/// Maximum number of entries that one listing or name search shows.
pub(crate) const MAX_ENTRIES_SHOWN: usize = 1_000;

/// Maximum number of entries that are collected and sorted before [`MAX_ENTRIES_SHOWN`] of them are
/// shown.
pub(crate) const MAX_ENTRIES_GATHERED: usize = 20_000;

/// Maximum length of a fuzzy pattern.
pub(crate) const MAX_FUZZY_PATTERN_BYTES: usize = 256;

/// Maximum depth of a walk, which keeps one directory open per level.
pub(crate) const MAX_WALK_DEPTH: usize = 128;

/// Maximum number of entries of one directory that a walk reads.
pub(crate) const MAX_DIRECTORY_ENTRIES: usize = 500_000;

/// Maximum number of bytes of one `.gitignore` that are applied.
pub(crate) const MAX_IGNORE_FILE_BYTES: u64 = 256 * 1024;

/// Maximum size of a git configuration file that is scanned for files that git executes.
pub(crate) const MAX_GIT_CONFIG_BYTES: u64 = 256 * 1024;

/// Maximum number of lines of one `.gitignore` that are applied.
pub(crate) const MAX_IGNORE_FILE_LINES: usize = 5_000;

/// Default number of matches that one content search shows.
pub(crate) const DEFAULT_MATCHES_SHOWN: u32 = 250;

/// Maximum number of matches that one content search shows.
pub const MAX_MATCHES_SHOWN: u32 = 2_000;

/// Maximum number of context lines on each side of a match.
pub(crate) const MAX_MATCH_CONTEXT_LINES: u32 = 20;

/// Maximum number of bytes shown of one matching line.
pub(crate) const MAX_MATCH_LINE_BYTES: usize = 500;

/// Maximum number of bytes of text that one content search shows.
pub(crate) const MAX_MATCHES_TEXT_BYTES: usize = 256 * 1024;

/// Maximum number of matches that one content search skips before the first one it shows.
pub const MAX_MATCH_OFFSET: u32 = 10_000;

/// Maximum number of bytes of matches that are buffered while matches are skipped: per file, and
/// for all files that wait for an earlier one.
pub(crate) const MAX_GATHERED_MATCHES_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of files that are queued ahead of a search.
pub(crate) const MAX_QUEUED_FILES: usize = 64;

/// Minimum time between two progress reports.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of matches that are sent as locations for the client to follow.
pub(crate) const MAX_MATCH_LOCATIONS: usize = 20;

/// Maximum length of a line that is searched.
pub(crate) const MAX_SEARCHED_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes that an expression searches between two checks for cancellation. The slowest expressions
/// of [`MAX_COMPILED_REGEX_BYTES`] need some milliseconds for them, others microseconds. The cost
/// of the check is too small to measure.
pub(crate) const BYTES_PER_SEARCH_CANCEL_CHECK: usize = 64 * 1024;

/// Maximum size of a file that is read whole before it is searched. Longer ones are streamed.
pub(crate) const MAX_BUFFERED_SEARCH_FILE_BYTES: u64 = 1024 * 1024;

/// Maximum size of a file in a multi-line search.
pub(crate) const MAX_MULTILINE_FILE_BYTES: usize = 8 * 1024 * 1024;

/// Maximum length of a glob or a regular expression.
pub(crate) const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// Maximum size of a compiled regular expression.
pub(crate) const MAX_COMPILED_REGEX_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size of the state cache of a regular expression.
pub(crate) const MAX_REGEX_CACHE_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of threads of one walk or search.
pub const MAX_SEARCH_THREADS: usize = 8;

/// Maximum duration of one listing or search. Afterwards it shows what it has found.
pub(crate) const MAX_SEARCH_TIME: Duration = Duration::from_secs(20);

/// Maximum time spent on a minimal diff of two texts. Afterwards a larger diff is accepted.
pub(crate) const MAX_DIFF_TIME: Duration = Duration::from_millis(500);

/// Maximum number of matches of an edit that are counted.
pub(crate) const MAX_EDIT_MATCHES_COUNTED: usize = 1_000;

/// Maximum number of places that one edit with `replace_all` replaces.
pub(crate) const MAX_EDIT_REPLACEMENTS: usize = 100_000;

/// Maximum number of matches that are listed if an edit is ambiguous.
pub(crate) const MAX_EDIT_MATCHES_SHOWN: usize = 10;

/// Maximum number of similar places that are shown if an edit has no match.
pub(crate) const MAX_NEAR_MISSES_SHOWN: usize = 3;

/// Maximum number of notes about the arguments of one call.
pub(crate) const MAX_ARGUMENT_NOTES: usize = 8;

/// Maximum number of bytes shown of the name of an unknown argument, and of a value.
pub(crate) const MAX_ARGUMENT_NAME_BYTES: usize = 100;

/// Maximum number of candidate places that are compared to find the most similar ones.
pub(crate) const MAX_NEAR_MISS_CANDIDATES: usize = 8;

/// Maximum number of lines of the old text that are compared to find similar places.
pub(crate) const MAX_NEAR_MISS_OLD_TEXT_LINES: usize = 200;

/// Maximum number of bytes of the old text that are compared to find similar places.
pub(crate) const MAX_NEAR_MISS_OLD_TEXT_BYTES: usize = 64 * 1024;

/// Maximum number of lines of the old text that contain a word, for the word to vote for similar
/// places.
pub(crate) const MAX_LINES_PER_WORD: usize = 8;

/// Maximum number of lines shown of the most similar place.
pub(crate) const MAX_QUOTED_LINES: usize = 40;

/// Maximum number of bytes shown of the most similar place, and of a line that is compared to find
/// it.
pub(crate) const MAX_QUOTED_BYTES: usize = 16 * 1024;

/// Maximum duration of all edits of one call, before anything is written.
pub(crate) const MAX_EDIT_TIME: Duration = Duration::from_secs(20);

/// Bytes at the beginning of a file that are searched for similar places.
pub(crate) const MAX_NEAR_MISS_FILE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of bytes shown of a line next to the place of an edit, and on each side of a
/// similar part of a line.
pub(crate) const MAX_EDIT_CONTEXT_LINE_BYTES: usize = 200;

/// Maximum number of attempts to open a path while its directories are being renamed.
pub(crate) const MAX_OPEN_TRIES: u32 = 8;

/// Maximum number of changes of a session that can be undone. Changes that could only be restored
/// in part count too.
pub(crate) const MAX_UNDO_ENTRIES: usize = 1_000;

/// Maximum number of bytes kept to undo the changes of a session. The last change is kept whatever
/// its size.
pub(crate) const MAX_UNDO_BYTES: u64 = 1024 * 1024 * 1024;

/// How long the data to undo changes is kept after the session.
pub(crate) const MAX_UNDO_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Maximum size of the journal of one call.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum number of files that are counted in a directory before it is moved or deleted.
pub(crate) const MAX_COUNTED_FILES: u64 = 100_000;

/// Maximum depth to which files are counted before a directory is moved or deleted.
pub(crate) const MAX_COUNTED_DEPTH: usize = 128;

/// Maximum number of replaced files that are watched for late writes by programs that still have
/// them open.
pub(crate) const MAX_LATE_WRITE_WATCHES: usize = 256;

/// Interval within which two writes may leave the same modification time on a file.
pub(crate) const MTIME_GRANULARITY: Duration = Duration::from_millis(20);

/// Maximum number of attempts to put a file back while another program keeps rewriting it.
pub(crate) const MAX_EXCHANGE_TRIES: u32 = 64;

/// Maximum number of files whose content hash a session remembers.
pub(crate) const MAX_KNOWN_HASHES: usize = 4_096;

/// Maximum number of changed places that are sent as locations for the client to follow.
pub(crate) const MAX_CHANGE_LOCATIONS: usize = 20;

/// Maximum number of files that one call edits.
pub(crate) const MAX_FILES_PER_EDIT_CALL: usize = 200;

/// Maximum number of edits of one call. An edit that replaces all occurrences in a file counts
/// once.
pub(crate) const MAX_EDITS_PER_CALL: usize = 500;

/// Maximum size of all files that one call edits, before and after the edits.
pub(crate) const MAX_EDITED_BYTES_PER_CALL: usize = 128 * 1024 * 1024;

// Terminal

/// Maximum number of reasons that are shown for a command that always requires permission. The rest
/// is counted.
pub(crate) const MAX_COMMAND_RISKS_SHOWN: usize = 4;

/// Maximum number of bytes of a path or word in such a reason.
pub(crate) const MAX_COMMAND_RISK_TEXT_BYTES: usize = 200;

/// Default time to wait for a command. Afterwards it continues in the background.
pub(crate) const DEFAULT_COMMAND_WAIT: Duration = Duration::from_secs(120);

/// Maximum timeout of a command that is not started in the background.
pub(crate) const MAX_COMMAND_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum number of commands of a session that run in the background at the same time.
pub(crate) const MAX_BACKGROUND_RUNNING: usize = 8;

/// Maximum number of ended background commands that a session remembers.
pub(crate) const MAX_BACKGROUND_ENDED_KEPT: usize = 32;

/// How long a call waits for output of a command that was started in the background or received
/// input.
pub(crate) const BACKGROUND_START_WAIT: Duration = Duration::from_millis(500);

/// Default time to wait for the end of a background command.
pub(crate) const DEFAULT_BACKGROUND_WAIT: Duration = Duration::from_secs(60);

/// Maximum number of bytes of one input to a command. A terminal accepts lines of 4,095 bytes.
pub(crate) const MAX_TERMINAL_INPUT_BYTES: usize = 4_000;

/// Size above which the result of a tool other than `terminal` is also stored in a file. The model
/// receives less of it if the results of one reply are too long.
pub(crate) const MAX_INLINE_RESULT_BYTES: usize = MAX_MODEL_OUTPUT_BYTES;

/// Maximum size of the file with the whole output of a command. Together with the line that reports
/// the omitted bytes, it can be read to its end.
pub(crate) const MAX_OUTPUT_FILE_BYTES: u64 = MAX_WHOLE_FILE_BYTES - MAX_TRUNCATION_NOTE_BYTES;

/// Maximum size of the state folder of all sessions: the maximum for one session's changes plus the
/// maximum for its outputs. The oldest files are deleted first, except those of a session that is
/// open in another process.
pub(crate) const MAX_STATE_BYTES: u64 = MAX_UNDO_BYTES + MAX_OUTPUT_FILES_BYTES;

/// Bytes that a session adds to the state folder before it checks the total size again.
pub(crate) const STATE_SWEEP_INTERVAL_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes that must stay free in the state folder in addition to the data to be kept. They are
/// written to check that the folder is writable.
pub(crate) const STATE_PROBE_BYTES: usize = 4096;

/// Maximum number of files with whole outputs that a session keeps. The oldest are deleted first.
pub(crate) const MAX_OUTPUT_FILES: usize = 200;

/// Maximum total size of the files with whole outputs when another one is created.
pub(crate) const MAX_OUTPUT_FILES_BYTES: u64 = 1024 * 1024 * 1024;

/// How long the files with whole outputs are kept after their session.
pub(crate) const MAX_OUTPUT_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

// Unsaved texts of the client

/// Maximum size of a file whose text is requested from the client. As JSON, the text fits into one
/// line of the transport.
pub(crate) const MAX_CLIENT_TEXT_BYTES: u64 = 2 * 1024 * 1024;

/// Maximum number of concurrent requests to the client for the texts of one call.
pub(crate) const MAX_CONCURRENT_CLIENT_TEXTS: usize = 8;

/// Maximum length of a client's error message.
pub(crate) const MAX_CLIENT_ERROR_BYTES: usize = 256;

// Commands that the client runs

/// Maximum number of bytes of a command's output that the client keeps. The model receives less,
/// and the rest is in a file.
pub(crate) const MAX_CLIENT_OUTPUT_BYTES: u64 = MAX_KEPT_OUTPUT_BYTES as u64;

/// Maximum length of a client's terminal id.
pub(crate) const MAX_CLIENT_TERMINAL_ID_BYTES: usize = 256;

/// Maximum length of a client's signal name.
pub(crate) const MAX_CLIENT_SIGNAL_BYTES: usize = 32;

/// How long after the start of a command its status is polled for the first time, in case the
/// client does not report the end.
pub(crate) const CLIENT_EXIT_POLL_DELAY: Duration = Duration::from_secs(10);

/// How long after a failed wait request the status of the command is polled.
pub(crate) const CLIENT_EXIT_POLL_DELAY_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Maximum interval between two polls of a command's status. Each interval is twice as long as the
/// one before.
pub(crate) const MAX_CLIENT_EXIT_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Time limit for a client to end a cancelled command, and again for its output request. Both end
/// before a cancelled call is dropped.
pub(crate) const CLIENT_CANCEL_GRACE: Duration = Duration::from_millis(300);

/// How long the end of a cancelled command may follow the client's answer that it was killed.
pub(crate) const CLIENT_CANCEL_LINGER: Duration = Duration::from_millis(20);

/// Time limit for a client to end a command after its timeout, and again for its output request.
pub(crate) const CLIENT_KILL_DEADLINE: Duration = Duration::from_secs(5);

/// Delay before the output is requested again if a command has ended and the client may still
/// receive output.
pub(crate) const CLIENT_OUTPUT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of repeated output requests.
pub(crate) const MAX_CLIENT_OUTPUT_RETRIES: u32 = 2;

// Plans and thoughts

/// Maximum number of steps of a plan.
pub(crate) const MAX_TODOS: usize = 200;

/// Maximum length of one step of a plan.
pub(crate) const MAX_TODO_BYTES: usize = 2 * 1024;

/// Maximum number of bytes of a thought that its title shows.
pub(crate) const MAX_THOUGHT_TITLE_BYTES: usize = 80;

/// How long a call with a known title waits for further arguments before it is reported. Data that
/// arrives in one piece is often read as several, and an optional argument may change the title.
pub(crate) const TITLE_DEBOUNCE: Duration = Duration::from_millis(3);

/// Maximum number of changes in a permission request. A truncated change needs a second item for
/// the note about the omitted part, and a call has at most
/// [`MAX_CONTENT_ITEMS`](acp_lifecycle::limits::MAX_CONTENT_ITEMS). The rest is counted and linked.
pub(crate) const MAX_CHANGES_SHOWN: usize = 96;

/// Maximum number of files that are named without their changes.
pub(crate) const MAX_CHANGES_NAMED: usize = 20;

/// Maximum number of notes of a call. Further notes are joined into the last one.
pub(crate) const MAX_NOTES_SHOWN: usize = 16;
