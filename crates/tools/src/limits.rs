//! The limits of this crate. A limit is public if callers can use it.

use std::time::Duration;

use callboard_process::limits::{
    MAX_KEPT_OUTPUT_BYTES, MAX_MODEL_OUTPUT_BYTES, MAX_TRUNCATION_NOTE_BYTES,
};

// Files and search

/// Maximum length of a path in bytes, as in most kernels.
pub(crate) const MAX_PATH_BYTES: usize = 4096;

/// Maximum size of a file that is read as a whole or edited.
pub(crate) const MAX_WHOLE_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of bytes of a file that are scanned for the requested lines. Skipped lines are
/// only counted, which is as fast as reading the file.
pub(crate) const MAX_LINE_READ_FILE_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Bytes at the beginning of a file that decide whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

/// Default number of lines of a file excerpt.
pub(crate) const DEFAULT_READ_LINES: u32 = 2_000;

/// Maximum number of bytes of text in a file excerpt.
pub(crate) const MAX_READ_TEXT_BYTES: usize = 256 * 1024;

/// Maximum number of characters of one line in a file excerpt.
pub(crate) const MAX_READ_LINE_CHARS: usize = 2_000;

/// Maximum size of an image for the model. Encoded as Base64, such an image has 5 MiB, which is the
/// limit of Anthropic's models at most providers
/// (<https://platform.claude.com/docs/en/build-with-claude/vision>). Other providers accept larger
/// images.
pub(crate) const MAX_IMAGE_BYTES: u64 = 3_932_160;

/// Maximum size of an image that is also sent to the client. Encoded as Base64, such an image fits
/// into the content of a call. This content fits into a line of 1 MiB; some clients fail on longer
/// lines. For a larger image the client receives a link to the file, which the client can open
/// itself.
pub(crate) const MAX_CLIENT_IMAGE_BYTES: usize = 512 * 1024;

/// Size of the buffer for reading a file line by line.
pub(crate) const LINE_READ_BUFFER_BYTES: usize = 64 * 1024;

/// Maximum time to search other directories for a file with the name of a missing file.
pub(crate) const MAX_SAME_NAME_SEARCH_TIME: Duration = Duration::from_millis(300);

/// Maximum number of similar names that are suggested for a missing file.
pub(crate) const MAX_SIMILAR_NAMES: usize = 3;

/// Maximum number of names of a directory that are compared to find similar names.
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

/// Maximum depth of a walk. A walk keeps one directory open per level.
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

/// Maximum number of matches that one content search skips before the first match that it shows.
pub const MAX_MATCH_OFFSET: u32 = 10_000;

/// Maximum number of bytes of matches that are buffered while matches are skipped. The limit
/// applies to each file, and to all files that wait for an earlier file.
pub(crate) const MAX_GATHERED_MATCHES_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of files that are queued ahead of a search.
pub(crate) const MAX_QUEUED_FILES: usize = 64;

/// Minimum time between two progress reports.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of matches that are sent as locations for the client to follow.
pub(crate) const MAX_MATCH_LOCATIONS: usize = 20;

/// Maximum length of a line that is searched.
pub(crate) const MAX_SEARCHED_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes that a regular expression searches between two checks for cancellation. The slowest
/// expressions of [`MAX_COMPILED_REGEX_BYTES`] need some milliseconds for this number of bytes,
/// other expressions need microseconds. The cost of the check is too small to measure.
pub(crate) const BYTES_PER_SEARCH_CANCEL_CHECK: usize = 64 * 1024;

/// Maximum size of a file that is read as a whole before it is searched. Larger files are streamed.
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

/// Maximum duration of one listing or search. After this time, the results found so far are shown.
pub(crate) const MAX_SEARCH_TIME: Duration = Duration::from_secs(20);

/// Maximum time spent on a minimal diff of two texts. After this time, a larger diff is accepted.
pub(crate) const MAX_DIFF_TIME: Duration = Duration::from_millis(500);

/// Maximum number of matches of an edit that are counted.
pub(crate) const MAX_EDIT_MATCHES_COUNTED: usize = 1_000;

/// Maximum number of places that one edit with `replace_all` replaces.
pub(crate) const MAX_EDIT_REPLACEMENTS: usize = 100_000;

/// Maximum number of matches that are listed if the place of an edit is ambiguous.
pub(crate) const MAX_EDIT_MATCHES_SHOWN: usize = 10;

/// Maximum number of similar places that are shown if an edit has no match.
pub(crate) const MAX_NEAR_MISSES_SHOWN: usize = 3;

/// Maximum number of notes about the arguments of one call.
pub(crate) const MAX_ARGUMENT_NOTES: usize = 8;

/// Maximum number of bytes shown of the name of an unknown argument, and of the value of an
/// argument.
pub(crate) const MAX_ARGUMENT_NAME_BYTES: usize = 100;

/// Maximum number of candidate places that are compared to find the most similar places.
pub(crate) const MAX_NEAR_MISS_CANDIDATES: usize = 8;

/// Maximum number of lines of the old text that are compared to find similar places.
pub(crate) const MAX_NEAR_MISS_OLD_TEXT_LINES: usize = 200;

/// Maximum number of bytes of the old text that are compared to find similar places.
pub(crate) const MAX_NEAR_MISS_OLD_TEXT_BYTES: usize = 64 * 1024;

/// Maximum number of lines of the old text that contain a word. A word in more lines does not vote
/// for similar places.
pub(crate) const MAX_LINES_PER_WORD: usize = 8;

/// Maximum number of lines shown of the most similar place.
pub(crate) const MAX_QUOTED_LINES: usize = 40;

/// Maximum number of bytes shown of the most similar place. Also the maximum number of bytes of a
/// line that are compared to find this place.
pub(crate) const MAX_QUOTED_BYTES: usize = 16 * 1024;

/// Maximum duration of all edits of one call, before anything is written.
pub(crate) const MAX_EDIT_TIME: Duration = Duration::from_secs(20);

/// Bytes at the beginning of a file that are searched for similar places.
pub(crate) const MAX_NEAR_MISS_FILE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of bytes shown of a line next to the place of an edit. Also the maximum number of
/// bytes shown on each side of a similar part of a line.
pub(crate) const MAX_EDIT_CONTEXT_LINE_BYTES: usize = 200;

/// Maximum number of attempts to open a path while its directories are being renamed.
pub(crate) const MAX_OPEN_TRIES: u32 = 8;

/// Maximum number of changes of a session that can be undone. Changes that could be restored only
/// in part are counted too.
pub(crate) const MAX_UNDO_ENTRIES: usize = 1_000;

/// Maximum number of bytes kept to undo the changes of a session. The last change is kept
/// regardless of its size.
pub(crate) const MAX_UNDO_BYTES: u64 = 1024 * 1024 * 1024;

/// Maximum size of the log from which a later process of a session continues to undo. The changes of
/// a session with a larger log can be undone only by the process that made them.
pub(crate) const MAX_UNDO_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of paths that the preview of a rewind compares. The rewind itself has no limit.
pub(crate) const MAX_REWIND_PATHS: usize = 10_000;

/// How long the data for undoing changes is kept after the session.
pub(crate) const MAX_UNDO_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Maximum size of the journal of one call.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum number of files that are counted in a directory before it is moved or deleted.
pub(crate) const MAX_COUNTED_FILES: u64 = 100_000;

/// Maximum depth to which files are counted before a directory is moved or deleted.
pub(crate) const MAX_COUNTED_DEPTH: usize = 128;

/// Maximum number of replaced files that are watched for late writes. A late write comes from a
/// program that still has the old file open.
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

/// Maximum number of reasons that are shown for a command that always requires permission. Only the
/// number of the other reasons is shown.
pub(crate) const MAX_COMMAND_RISKS_SHOWN: usize = 4;

/// Maximum number of bytes of a path or word in the reason why a command requires permission.
pub(crate) const MAX_COMMAND_RISK_TEXT_BYTES: usize = 200;

/// Default time to wait for a command. After this time, the command continues in the background.
pub(crate) const DEFAULT_COMMAND_WAIT: Duration = Duration::from_secs(120);

/// Maximum timeout of a command that is not started in the background.
pub(crate) const MAX_COMMAND_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum number of commands of a session that run in the background at the same time.
pub(crate) const MAX_BACKGROUND_RUNNING: usize = 8;

/// Maximum number of finished background commands that a session remembers.
pub(crate) const MAX_BACKGROUND_ENDED_KEPT: usize = 32;

/// How long a call waits for output of a background command that was just started or has just
/// received input.
pub(crate) const BACKGROUND_START_WAIT: Duration = Duration::from_millis(500);

/// Default time to wait for the end of a background command.
pub(crate) const DEFAULT_BACKGROUND_WAIT: Duration = Duration::from_secs(60);

/// Maximum number of bytes of one input to a command. A terminal accepts lines of 4,095 bytes.
pub(crate) const MAX_TERMINAL_INPUT_BYTES: usize = 4_000;

/// Size above which the result of a tool other than `terminal` is also stored in a file. If the
/// results of one reply are too long, the model receives only a part of this result.
pub(crate) const MAX_INLINE_RESULT_BYTES: usize = MAX_MODEL_OUTPUT_BYTES;

/// Maximum size of the file with the whole output of a command. The file stays readable to its end,
/// even with the additional line that reports the omitted bytes.
pub(crate) const MAX_OUTPUT_FILE_BYTES: u64 = MAX_WHOLE_FILE_BYTES - MAX_TRUNCATION_NOTE_BYTES;

/// Maximum size of the state folder of all sessions. The value is the sum of the limits for the
/// changes and for the outputs of one session. The oldest files are deleted first, except files of
/// a session that is open in another process.
pub(crate) const MAX_STATE_BYTES: u64 = MAX_UNDO_BYTES + MAX_OUTPUT_FILES_BYTES;

/// Bytes that a session adds to the state folder before it checks the total size again.
pub(crate) const STATE_SWEEP_INTERVAL_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes that must stay free in the state folder, in addition to the data to be kept. The same
/// number of bytes is written to check that the folder is writable.
pub(crate) const STATE_PROBE_BYTES: usize = 4096;

/// Maximum number of files with whole outputs that a session keeps. The oldest files are deleted
/// first.
pub(crate) const MAX_OUTPUT_FILES: usize = 200;

/// Maximum total size of the files with whole outputs. The limit is enforced when another file is
/// created.
pub(crate) const MAX_OUTPUT_FILES_BYTES: u64 = 1024 * 1024 * 1024;

/// How long the files with whole outputs are kept after their session.
pub(crate) const MAX_OUTPUT_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

// Unsaved texts of the client

/// Maximum size of a file whose text is requested from the client. Encoded as JSON, the text fits
/// into one line of the transport.
pub(crate) const MAX_CLIENT_TEXT_BYTES: u64 = 2 * 1024 * 1024;

/// Maximum number of concurrent requests to the client for the texts of one call.
pub(crate) const MAX_CONCURRENT_CLIENT_TEXTS: usize = 8;

/// Maximum length of a client's error message.
pub(crate) const MAX_CLIENT_ERROR_BYTES: usize = 256;

// Commands that the client runs

/// Maximum number of bytes of a command's output that the client keeps. The model receives only a
/// part of this output; the rest is in a file.
pub(crate) const MAX_CLIENT_OUTPUT_BYTES: u64 = MAX_KEPT_OUTPUT_BYTES as u64;

/// Maximum length of a client's terminal id.
pub(crate) const MAX_CLIENT_TERMINAL_ID_BYTES: usize = 256;

/// Maximum length of a client's signal name.
pub(crate) const MAX_CLIENT_SIGNAL_BYTES: usize = 32;

/// How long after the start of a command its status is polled for the first time. The poll is
/// needed because some clients do not report the end of a command.
pub(crate) const CLIENT_EXIT_POLL_DELAY: Duration = Duration::from_secs(10);

/// Time between a failed wait request and the first poll for the status of the command.
pub(crate) const CLIENT_EXIT_POLL_DELAY_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Maximum interval between two polls for the status of a command. Each interval is twice as long
/// as the previous interval.
pub(crate) const MAX_CLIENT_EXIT_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Time limit for a client to end a cancelled command. The same limit applies to the following
/// request for the output. Both requests end before a cancelled call is dropped.
pub(crate) const CLIENT_CANCEL_GRACE: Duration = Duration::from_millis(300);

/// How long a call waits for the end of a cancelled command after the client has answered that the
/// command was killed.
pub(crate) const CLIENT_CANCEL_LINGER: Duration = Duration::from_millis(20);

/// Time limit for a client to end a command after its timeout. The same limit applies to the
/// following request for the output.
pub(crate) const CLIENT_KILL_DEADLINE: Duration = Duration::from_secs(5);

/// Delay before a repeated request for the output of a finished command. The client may still
/// receive output during this time.
pub(crate) const CLIENT_OUTPUT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of repeated requests for the output.
pub(crate) const MAX_CLIENT_OUTPUT_RETRIES: u32 = 2;

// Plans and thoughts

/// Maximum number of steps of a plan.
pub(crate) const MAX_TODOS: usize = 200;

/// Maximum length of one step of a plan.
pub(crate) const MAX_TODO_BYTES: usize = 2 * 1024;

/// Maximum number of bytes of a thought that its title shows.
pub(crate) const MAX_THOUGHT_TITLE_BYTES: usize = 80;

/// How long a call with a known title waits for further arguments before the call is reported. Data
/// that a provider sent in one piece is often received in several pieces, and an optional argument
/// may change the title.
pub(crate) const TITLE_DEBOUNCE: Duration = Duration::from_millis(3);

/// Maximum number of changes in a permission request. A truncated change needs a second item for
/// the note about the omitted part, and a call has at most
/// [`MAX_CONTENT_ITEMS`](acp_lifecycle::limits::MAX_CONTENT_ITEMS). The permission request contains
/// the number of further changes and a link to them.
pub(crate) const MAX_CHANGES_SHOWN: usize = 96;

/// Maximum number of files that a permission request names without showing their changes.
pub(crate) const MAX_CHANGES_NAMED: usize = 20;

/// Maximum number of notes of a call. Further notes are joined into the last one.
pub(crate) const MAX_NOTES_SHOWN: usize = 16;
