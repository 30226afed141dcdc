//! Every bound of this crate, in one place; those that a caller may give are public. It knows nothing
//! of what the lifecycle bounds.

use std::time::Duration;

use callboard_process::limits::{
    MAX_KEPT_OUTPUT_BYTES, MAX_MODEL_OUTPUT_BYTES, MAX_TRUNCATION_NOTE_BYTES,
};

// Files and search

/// Bytes of a path that is looked at, as in most kernels.
pub(crate) const MAX_PATH_BYTES: usize = 4096;

/// Bytes of a file that is read whole or edited.
pub(crate) const MAX_WHOLE_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of a file in which lines are looked for that are shown. What is passed over is counted as fast
/// as it is read.
pub(crate) const MAX_LINE_READ_FILE_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Bytes at the beginning of a file that tell whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

/// Lines in a window of a file, unless asked otherwise.
pub(crate) const DEFAULT_READ_LINES: u32 = 2_000;

/// Bytes of text in a window of a file.
pub(crate) const MAX_READ_TEXT_BYTES: usize = 256 * 1024;

/// Characters of one line in a window of a file.
pub(crate) const MAX_READ_LINE_CHARS: usize = 2_000;

/// Bytes of an image that a model is shown: as Base64 these are 5 MiB, which is what Anthropic's models
/// take of one image at most providers (<https://platform.claude.com/docs/en/build-with-claude/vision>).
/// Others take more.
pub(crate) const MAX_IMAGE_BYTES: u64 = 3_932_160;

/// Bytes of an image that the client is shown, too: as Base64 it fits in what a call may show, and
/// that in a line of 1 MiB, above which clients fail. Of a larger one it gets a link to the file,
/// which it can open itself because it has it; no other way leads around the length of a line.
pub(crate) const MAX_CLIENT_IMAGE_BYTES: usize = 512 * 1024;

/// Bytes of a file that are read at once for its lines.
pub(crate) const LINE_READ_BUFFER_BYTES: usize = 64 * 1024;

/// How long a missing name is looked for in other places.
pub(crate) const MAX_SAME_NAME_SEARCH_TIME: Duration = Duration::from_millis(300);

/// Similar names that are told for one that is missing.
pub(crate) const MAX_SIMILAR_NAMES: usize = 3;

/// Names of a directory among which similar ones are looked for.
pub(crate) const MAX_NAMES_COMPARED: usize = 2_000;

/// Levels of directories that one listing may show.
pub(crate) const MAX_LIST_DEPTH: u32 = 10;

/// Entries that one listing or one search for names shows.
pub(crate) const MAX_ENTRIES_SHOWN: usize = 1_000;

/// Entries that are gathered to be sorted before [`ENTRIES`] of them are shown.
pub(crate) const MAX_ENTRIES_GATHERED: usize = 20_000;

/// Bytes of letters that names are found by.
pub(crate) const MAX_FUZZY_PATTERN_BYTES: usize = 256;

/// Levels of directories that a walk goes down. It keeps each of them open.
pub(crate) const MAX_WALK_DEPTH: usize = 128;

/// Entries of one directory that a walk looks at.
pub(crate) const MAX_DIRECTORY_ENTRIES: usize = 500_000;

/// Bytes of one `.gitignore` that are heeded.
pub(crate) const MAX_IGNORE_FILE_BYTES: u64 = 256 * 1024;

/// Largest part of git's configuration in which files are looked for that git runs.
pub(crate) const MAX_GIT_CONFIG_BYTES: u64 = 256 * 1024;

/// Lines of one `.gitignore` that are heeded.
pub(crate) const MAX_IGNORE_FILE_LINES: usize = 5_000;

/// Matches that one search of contents shows, unless asked otherwise.
pub(crate) const DEFAULT_MATCHES_SHOWN: u32 = 250;

/// Matches that one search of contents shows at most.
pub const MAX_MATCHES_SHOWN: u32 = 2_000;

/// Lines of context on each side of a match.
pub(crate) const MAX_MATCH_CONTEXT_LINES: u32 = 20;

/// Bytes shown of one matching line.
pub(crate) const MAX_MATCH_LINE_BYTES: usize = 500;

/// Bytes of text that one search of contents shows.
pub(crate) const MAX_MATCHES_TEXT_BYTES: usize = 256 * 1024;

/// Matches that one search of contents passes over before the first that it shows.
pub const MAX_MATCH_OFFSET: u32 = 10_000;

/// Bytes of text that are gathered where matches are passed over: of one file, and of those that
/// wait for one before them.
pub(crate) const MAX_GATHERED_MATCHES_BYTES: usize = 8 * 1024 * 1024;

/// Files that a search knows ahead of those that it has begun.
pub(crate) const MAX_QUEUED_FILES: usize = 64;

/// How often is told how far a search is.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Matches that are offered as locations for the client to follow.
pub(crate) const MAX_MATCH_LOCATIONS: usize = 20;

/// Bytes of the longest line that is searched.
pub(crate) const MAX_SEARCHED_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of lines that an expression looks through before a search asks whether to stop. The slowest
/// expressions of [`REGEX_BYTES`] take some milliseconds for them, others microseconds, of which asking
/// is no part that can be measured.
pub(crate) const BYTES_PER_SEARCH_CANCEL_CHECK: usize = 64 * 1024;

/// Bytes of a file that is read whole to be searched; longer ones are read bit by bit.
pub(crate) const MAX_BUFFERED_SEARCH_FILE_BYTES: u64 = 1024 * 1024;

/// Bytes of a file that is searched over several lines at once.
pub(crate) const MAX_MULTILINE_FILE_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of a glob or a regular expression.
pub(crate) const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// Bytes of a compiled regular expression.
pub(crate) const MAX_COMPILED_REGEX_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of the state cache of a regular expression.
pub(crate) const MAX_REGEX_CACHE_BYTES: usize = 8 * 1024 * 1024;

/// Threads that one walk or search uses.
pub const MAX_SEARCH_THREADS: usize = 8;

/// How long one listing or search may take; then it shows what it has.
pub(crate) const MAX_SEARCH_TIME: Duration = Duration::from_secs(20);

/// How long the smallest difference of two texts is looked for; then a larger one will do.
pub(crate) const MAX_DIFF_TIME: Duration = Duration::from_millis(500);

/// Matches of an edit that are counted.
pub(crate) const MAX_EDIT_MATCHES_COUNTED: usize = 1_000;

/// Places that one edit replaces when all are meant.
pub(crate) const MAX_EDIT_REPLACEMENTS: usize = 100_000;

/// Matches of an edit that are listed when one was meant.
pub(crate) const MAX_EDIT_MATCHES_SHOWN: usize = 10;

/// Similar places that are told when an edit matches nowhere.
pub(crate) const MAX_NEAR_MISSES_SHOWN: usize = 3;

/// Notes about the arguments of one call.
pub(crate) const MAX_ARGUMENT_NOTES: usize = 8;

/// Bytes shown of the name of an argument that is unknown, and of a value.
pub(crate) const MAX_ARGUMENT_NAME_BYTES: usize = 100;

/// Places that are compared to find the most similar ones.
pub(crate) const MAX_NEAR_MISS_CANDIDATES: usize = 8;

/// Lines of the text to be replaced that are compared to find similar places.
pub(crate) const MAX_NEAR_MISS_OLD_TEXT_LINES: usize = 200;

/// Bytes of these lines.
pub(crate) const MAX_NEAR_MISS_OLD_TEXT_BYTES: usize = 64 * 1024;

/// Lines of the text to be replaced that may have a word by which similar places are found.
pub(crate) const MAX_LINES_PER_WORD: usize = 8;

/// Lines of the most similar place that are shown.
pub(crate) const MAX_QUOTED_LINES: usize = 40;

/// Bytes of the most similar place that are shown, and of a line that are compared to find it.
pub(crate) const MAX_QUOTED_BYTES: usize = 16 * 1024;

/// How long the edits of one call may take, of all its files, before anything is written.
pub(crate) const MAX_EDIT_TIME: Duration = Duration::from_secs(20);

/// Bytes at the beginning of a file in which similar places are looked for.
pub(crate) const MAX_NEAR_MISS_FILE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes shown of a line beside a place of an edit, and on each side of a part of a line that is
/// similar.
pub(crate) const MAX_EDIT_CONTEXT_LINE_BYTES: usize = 200;

/// Tries to open a path while its directories are being renamed.
pub(crate) const MAX_OPEN_TRIES: u32 = 8;

/// Changes of a session that can be undone, and those of which something is left that could not be.
pub(crate) const MAX_UNDO_ENTRIES: usize = 1_000;

/// Bytes that are kept of what a session changed; what it changed last is kept however large.
pub(crate) const MAX_UNDO_BYTES: u64 = 1024 * 1024 * 1024;

/// How long it is kept after the session.
pub(crate) const MAX_UNDO_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Bytes of the journal of one call.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 4 * 1024 * 1024;

/// Files of a directory that are counted before it is moved or deleted.
pub(crate) const MAX_COUNTED_FILES: u64 = 100_000;

/// Levels of directories in which they are counted.
pub(crate) const MAX_COUNTED_DEPTH: usize = 128;

/// Files that were replaced of which is noticed what programs still write that had them open.
pub(crate) const MAX_LATE_WRITE_WATCHES: usize = 256;

/// How long after a write another one may leave the same time on a file.
pub(crate) const MTIME_GRANULARITY: Duration = Duration::from_millis(20);

/// Tries to give a file back its place while somebody else writes it again and again.
pub(crate) const MAX_EXCHANGE_TRIES: u32 = 64;

/// Files of which a session remembers what they held when it saw them.
pub(crate) const MAX_KNOWN_HASHES: usize = 4_096;

/// Changed places of files that are offered as locations for the client to follow.
pub(crate) const MAX_CHANGE_LOCATIONS: usize = 20;

/// Files that one call edits.
pub(crate) const MAX_FILES_PER_EDIT_CALL: usize = 200;

/// Replacements that one call makes, each in one place or all of a file.
pub(crate) const MAX_EDITS_PER_CALL: usize = 500;

/// Bytes of all files that one call edits, before and likewise after it.
pub(crate) const MAX_EDITED_BYTES_PER_CALL: usize = 128 * 1024 * 1024;

// Terminal

/// Reasons that are told why a command is asked about each time; the rest is counted.
pub(crate) const MAX_COMMAND_RISKS_SHOWN: usize = 4;

/// Bytes of a path or word that one of them names.
pub(crate) const MAX_COMMAND_RISK_TEXT_BYTES: usize = 200;

/// How long a command is waited for, unless asked otherwise; then it goes on in the background.
pub(crate) const DEFAULT_COMMAND_WAIT: Duration = Duration::from_secs(120);

/// How long a command may run at most that was not sent to the background from the start.
pub(crate) const MAX_COMMAND_TIMEOUT: Duration = Duration::from_secs(3600);

/// Commands of a session that run in the background at once.
pub(crate) const MAX_BACKGROUND_RUNNING: usize = 8;

/// Commands of a session that ran in the background and have ended that are remembered.
pub(crate) const MAX_BACKGROUND_ENDED_KEPT: usize = 32;

/// How long a command that is sent to the background is watched first, and one that was typed at.
pub(crate) const BACKGROUND_START_WAIT: Duration = Duration::from_millis(500);

/// How long the end of a command in the background is waited for, unless asked otherwise.
pub(crate) const DEFAULT_BACKGROUND_WAIT: Duration = Duration::from_secs(60);

/// Bytes that are typed at a command at once. A terminal takes lines of 4,095 bytes.
pub(crate) const MAX_TERMINAL_INPUT_BYTES: usize = 4_000;

/// Bytes of any other tool's result above which it is kept whole in a file: where the results of a
/// reply are too many, the model gets less of it.
pub(crate) const MAX_INLINE_RESULT_BYTES: usize = MAX_MODEL_OUTPUT_BYTES;

/// Bytes of a command's output in the file that holds the whole of it: with the line that tells what
/// has no room there, it can be read to its end.
pub(crate) const MAX_OUTPUT_FILE_BYTES: u64 = MAX_WHOLE_FILE_BYTES - MAX_TRUNCATION_NOTE_BYTES;

/// Bytes of all that is kept in the state folder, of all sessions: as much as one may keep of changes
/// and of outputs. The oldest goes first, but nothing that an open session of another process keeps.
pub(crate) const MAX_STATE_BYTES: u64 = MAX_UNDO_BYTES + MAX_OUTPUT_FILES_BYTES;

/// Bytes that a session adds to it before it looks again how much there is.
pub(crate) const STATE_SWEEP_INTERVAL_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes that have to be free in the state folder beside what is to be kept, and that are written to
/// find out whether it takes any.
pub(crate) const STATE_PROBE_BYTES: usize = 4096;

/// Files with whole outputs that a session keeps; the oldest go first.
pub(crate) const MAX_OUTPUT_FILES: usize = 200;

/// Bytes that they have when one more is made.
pub(crate) const MAX_OUTPUT_FILES_BYTES: u64 = 1024 * 1024 * 1024;

/// How long they are kept after their session.
pub(crate) const MAX_OUTPUT_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

// Texts that the client holds

/// Bytes of a file that the client is asked about: as JSON, its text is a line that a transport takes.
pub(crate) const MAX_CLIENT_TEXT_BYTES: u64 = 2 * 1024 * 1024;

/// Files of one call that the client is asked about at once.
pub(crate) const MAX_CONCURRENT_CLIENT_TEXTS: usize = 8;

/// Bytes of what a client says of a request that failed.
pub(crate) const MAX_CLIENT_ERROR_BYTES: usize = 256;

// Commands that the client runs

/// Bytes of a command's output that the client is to keep; the model is told less, and the rest is
/// in a file.
pub(crate) const MAX_CLIENT_OUTPUT_BYTES: u64 = MAX_KEPT_OUTPUT_BYTES as u64;

/// Bytes of what a client calls a terminal.
pub(crate) const MAX_CLIENT_TERMINAL_ID_BYTES: usize = 256;

/// Bytes of what a client calls a signal.
pub(crate) const MAX_CLIENT_SIGNAL_BYTES: usize = 32;

/// How long after its start is looked whether a command has ended without the client saying so.
pub(crate) const CLIENT_EXIT_POLL_DELAY: Duration = Duration::from_secs(10);

/// How long after the client failed to wait for a command is looked whether it has ended.
pub(crate) const CLIENT_EXIT_POLL_DELAY_AFTER_ERROR: Duration = Duration::from_millis(100);

/// How long apart such looks are at most: each is twice as far from the last one as that was.
pub(crate) const MAX_CLIENT_EXIT_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// How long a client has to end a command that was cancelled, and again to tell its output: both
/// are over before a cancelled call is dropped.
pub(crate) const CLIENT_CANCEL_GRACE: Duration = Duration::from_millis(300);

/// How long the end of a command that was cancelled may take behind the client's answer that it is
/// killed.
pub(crate) const CLIENT_CANCEL_LINGER: Duration = Duration::from_millis(20);

/// How long a client has to end a command after its timeout, and again to tell its output.
pub(crate) const CLIENT_KILL_DEADLINE: Duration = Duration::from_secs(5);

/// How long output may be on its way at the client when its command has ended.
pub(crate) const CLIENT_OUTPUT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// How often is looked whether it has come.
pub(crate) const MAX_CLIENT_OUTPUT_RETRIES: u32 = 2;

// Plans and thoughts

/// Steps of a plan.
pub(crate) const MAX_TODOS: usize = 200;

/// Bytes of one step of a plan.
pub(crate) const MAX_TODO_BYTES: usize = 2 * 1024;

/// Bytes of a thought that its title shows.
pub(crate) const MAX_THOUGHT_TITLE_BYTES: usize = 80;

/// How long a call whose title is known waits for further arguments before it is reported. What
/// arrives in one piece is often read as several, and an optional argument may change the title.
pub(crate) const TITLE_DEBOUNCE: Duration = Duration::from_millis(3);

/// Changes that a permission request shows. Each may take a second item that says how much of it is
/// cut, and a call has room for [`CONTENT_ITEMS`](acp_lifecycle::limits::CONTENT_ITEMS); the rest is
/// counted and linked.
pub(crate) const MAX_CHANGES_SHOWN: usize = 96;

/// Further files that are named where their changes are not shown.
pub(crate) const MAX_CHANGES_NAMED: usize = 20;

/// Items that say something else about a call; what is over shares the last one.
pub(crate) const MAX_NOTES_SHOWN: usize = 16;
