//! The limits of this crate. A limit is only public if callers can use it.

use std::time::Duration;

use callboard_process::limits::{
    MAX_KEPT_OUTPUT_BYTES, MAX_MODEL_OUTPUT_BYTES, MAX_TRUNCATION_NOTE_BYTES,
};

// Commands

/// Maximum number of entries of directories that are read to find the guarded files that the
/// wildcards of a command line may match. If there are more entries, the command needs permission
/// each time.
pub(crate) const MAX_PATTERN_ENTRIES: usize = 20_000;

/// Minimum length of the known beginning of a wildcard that may match the name of a file with
/// instructions in an unknown folder, in bytes.
pub(crate) const MIN_KNOWN_NAME_BYTES: usize = 3;

// Files and search

/// Maximum length of a path in bytes. Most kernels have the same limit.
pub(crate) const MAX_PATH_BYTES: usize = 4096;

/// Maximum size of a file that is read as a whole, or that is edited.
pub(crate) const MAX_WHOLE_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of bytes of a file that are scanned to find the requested lines. The lines before
/// them are only counted, so the scan is as fast as reading the file.
pub(crate) const MAX_LINE_READ_FILE_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Number of bytes at the beginning of a file that decide whether the file is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

/// Default number of lines in an excerpt of a file.
pub(crate) const DEFAULT_READ_LINES: u32 = 2_000;

/// Maximum number of bytes of text in an excerpt of a file.
pub(crate) const MAX_READ_TEXT_BYTES: usize = 256 * 1024;

/// Maximum number of characters per line in an excerpt of a file.
pub(crate) const MAX_READ_LINE_CHARS: usize = 2_000;

/// Maximum size of an image that is sent to the model. Encoded as Base64, such an image has 5 MiB,
/// which is the limit of Anthropic's models at most providers
/// (<https://platform.claude.com/docs/en/build-with-claude/vision>). Other providers accept larger
/// images.
pub(crate) const MAX_IMAGE_BYTES: u64 = 3_932_160;

/// Maximum size of an image that is also sent to the client. Encoded as Base64, such an image fits
/// into the content of a call, which fits into a line of 1 MiB. Some clients fail on longer lines.
/// Instead of a larger image, the client receives a link to the file, which the client can open
/// itself.
pub(crate) const MAX_CLIENT_IMAGE_BYTES: usize = 512 * 1024;

/// Minimum number of bytes that are hashed on another thread while they are written. A thread takes
/// about as long as the hash of 100 kB.
pub(crate) const MIN_BYTES_HASHED_ASIDE: usize = 1 << 20;

/// Maximum size of a file that the preview of a read already reads.
pub(crate) const MAX_PREVIEW_READ_BYTES: u64 = 64 * 1024;

/// Size of the buffer with which a file is read line by line.
pub(crate) const LINE_READ_BUFFER_BYTES: usize = 64 * 1024;

/// Maximum time to search other directories for a file that has the same name as a missing file.
pub(crate) const MAX_SAME_NAME_SEARCH_TIME: Duration = Duration::from_millis(300);

/// Maximum number of similar names that are suggested for a missing file.
pub(crate) const MAX_SIMILAR_NAMES: usize = 3;

/// Maximum number of names in a directory that are compared with the name of a missing file.
pub(crate) const MAX_NAMES_COMPARED: usize = 2_000;

/// Maximum number of levels of a directory listing.
pub(crate) const MAX_LIST_DEPTH: u32 = 10;

/// Maximum number of entries that one directory listing or name search shows.
pub(crate) const MAX_ENTRIES_SHOWN: usize = 1_000;

/// Maximum number of entries that are collected and sorted. At most [`MAX_ENTRIES_SHOWN`] of them
/// are shown.
pub(crate) const MAX_ENTRIES_GATHERED: usize = 20_000;

/// Maximum length of a fuzzy pattern in bytes.
pub(crate) const MAX_FUZZY_PATTERN_BYTES: usize = 256;

/// Maximum depth of a walk. A walk keeps one open directory per level.
pub(crate) const MAX_WALK_DEPTH: usize = 128;

/// Maximum number of entries that a walk reads from one directory.
pub(crate) const MAX_DIRECTORY_ENTRIES: usize = 500_000;

/// Maximum number of bytes that are read from one `.gitignore` file. Rules after them do not apply.
pub(crate) const MAX_IGNORE_FILE_BYTES: u64 = 256 * 1024;

/// Maximum number of bytes of a git configuration file that are scanned for the names of files that
/// git executes.
pub(crate) const MAX_GIT_CONFIG_BYTES: u64 = 256 * 1024;

/// Maximum number of git repositories of a project folder that a sandbox protects. The repositories
/// of submodules and worktrees count too.
pub(crate) const MAX_GIT_FOLDERS: usize = 256;

/// Maximum number of git configuration files that are read for the paths that they name.
pub(crate) const MAX_GIT_CONFIGS: usize = 1024;

/// Number of paths named in git configuration files at which no further configuration file is read.
pub(crate) const MAX_GIT_NAMED_PATHS: usize = 4096;

/// Maximum number of lines that are read from one `.gitignore` file. Rules after them do not apply.
pub(crate) const MAX_IGNORE_FILE_LINES: usize = 5_000;

/// Default number of matches that one content search shows.
pub(crate) const DEFAULT_MATCHES_SHOWN: u32 = 250;

/// Maximum number of matches that one content search shows.
pub const MAX_MATCHES_SHOWN: u32 = 2_000;

/// Maximum number of context lines that are shown on each side of a match.
pub(crate) const MAX_MATCH_CONTEXT_LINES: u32 = 20;

/// Maximum number of bytes that are shown of one matching line.
pub(crate) const MAX_MATCH_LINE_BYTES: usize = 500;

/// Maximum number of bytes of text that one content search shows.
pub(crate) const MAX_MATCHES_TEXT_BYTES: usize = 256 * 1024;

/// Maximum number of matches that one content search skips before the first match that it shows.
pub const MAX_MATCH_OFFSET: u32 = 10_000;

/// Maximum number of bytes of buffered matches while a search skips matches. The limit applies to
/// each file, and also to the sum of all files that wait for an earlier file.
pub(crate) const MAX_GATHERED_MATCHES_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of files that wait in a queue until a thread searches them.
pub(crate) const MAX_QUEUED_FILES: usize = 64;

/// Minimum time between two progress reports.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of matches that are sent to the client as locations.
pub(crate) const MAX_MATCH_LOCATIONS: usize = 20;

/// Maximum length in bytes of a line that is searched.
pub(crate) const MAX_SEARCHED_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Number of bytes that a regular-expression search reads between two checks for cancellation. For
/// this number of bytes, the slowest expressions within [`MAX_COMPILED_REGEX_BYTES`] need some
/// milliseconds, and other expressions need microseconds. The check itself takes too little time to
/// be measured.
pub(crate) const BYTES_PER_SEARCH_CANCEL_CHECK: usize = 64 * 1024;

/// Maximum size of a file that is read into memory before it is searched. Larger files are
/// streamed.
pub(crate) const MAX_BUFFERED_SEARCH_FILE_BYTES: u64 = 1024 * 1024;

/// Maximum size of a file that is searched for multi-line matches.
pub(crate) const MAX_MULTILINE_FILE_BYTES: usize = 8 * 1024 * 1024;

/// Maximum length in bytes of a glob or a regular expression.
pub(crate) const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// Maximum size in bytes of a compiled regular expression.
pub(crate) const MAX_COMPILED_REGEX_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size in bytes of the cache that a regular expression uses for its states.
pub(crate) const MAX_REGEX_CACHE_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of threads that one walk or search uses.
pub const MAX_SEARCH_THREADS: usize = 8;

/// Maximum duration of one listing or search. After this time, the results that were found so far
/// are shown.
pub(crate) const MAX_SEARCH_TIME: Duration = Duration::from_secs(20);

/// Maximum time to compute a minimal diff of two texts. After this time, a larger diff is accepted.
pub(crate) const MAX_DIFF_TIME: Duration = Duration::from_millis(500);

/// Maximum number of matching places that are counted for one edit.
pub(crate) const MAX_EDIT_MATCHES_COUNTED: usize = 1_000;

/// Maximum number of places that one edit with `replace_all` replaces.
pub(crate) const MAX_EDIT_REPLACEMENTS: usize = 100_000;

/// Maximum number of matching places that are listed if an edit matches several places.
pub(crate) const MAX_EDIT_MATCHES_SHOWN: usize = 10;

/// Maximum number of similar places that are shown if the old text of an edit has no match.
pub(crate) const MAX_NEAR_MISSES_SHOWN: usize = 3;

/// Maximum number of notes about the arguments of one call.
pub(crate) const MAX_ARGUMENT_NOTES: usize = 8;

/// Maximum number of bytes that a note shows of the name or the value of an argument.
pub(crate) const MAX_ARGUMENT_NAME_BYTES: usize = 100;

/// Maximum number of candidates that are compared to find the places most similar to an old text.
pub(crate) const MAX_NEAR_MISS_CANDIDATES: usize = 8;

/// Maximum number of lines of an old text that are compared to find similar places.
pub(crate) const MAX_NEAR_MISS_OLD_TEXT_LINES: usize = 200;

/// Maximum number of bytes of an old text that are compared to find similar places.
pub(crate) const MAX_NEAR_MISS_OLD_TEXT_BYTES: usize = 64 * 1024;

/// Maximum number of lines of the old text in which a word may occur. A word that occurs in more
/// lines is not used to find similar places.
pub(crate) const MAX_LINES_PER_WORD: usize = 8;

/// Maximum number of lines that are quoted from the most similar place.
pub(crate) const MAX_QUOTED_LINES: usize = 40;

/// Maximum number of bytes that are quoted from the most similar place. Also the maximum number of
/// bytes of a line that are compared to find this place.
pub(crate) const MAX_QUOTED_BYTES: usize = 16 * 1024;

/// Maximum time to apply all edits of one call in memory, before anything is written.
pub(crate) const MAX_EDIT_TIME: Duration = Duration::from_secs(20);

/// Number of bytes at the beginning of a file that are searched for similar places.
pub(crate) const MAX_NEAR_MISS_FILE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of bytes that are shown of a line near an edited place. Also the maximum number
/// of bytes that are shown on each side of a similar part of a line.
pub(crate) const MAX_EDIT_CONTEXT_LINE_BYTES: usize = 200;

/// Maximum number of attempts to open a path while other programs rename its directories.
pub(crate) const MAX_OPEN_TRIES: u32 = 8;

/// Maximum number of changes of a session that can be undone. The number includes changes that can
/// only be restored in part.
pub(crate) const MAX_UNDO_ENTRIES: usize = 1_000;

/// Maximum total size of the backups for undoing the changes of a session. The backup of the last
/// change is kept regardless of its size.
pub(crate) const MAX_UNDO_BYTES: u64 = 1024 * 1024 * 1024;

/// Maximum size of the undo log of a session. A later process of the session reads this log to undo
/// earlier changes. If the log is larger, only the process that made the changes can undo them.
pub(crate) const MAX_UNDO_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of files and folders in the project folders if the changes of commands are
/// recorded. Ignored files and generated folders do not count.
pub(crate) const MAX_SNAPSHOT_ENTRIES: usize = 10_000;

/// Maximum size of a file whose changes by a command can be undone.
pub(crate) const MAX_SNAPSHOT_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum total size of the copies of project files that a session keeps for undoing the changes
/// of its next command.
pub(crate) const MAX_SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum time for reading the project folders before a command, and again after the command. If
/// the copies have become full of outdated contents, the folders are read twice before the command.
pub(crate) const MAX_SNAPSHOT_TIME: Duration = Duration::from_millis(300);

/// Maximum time for which an undo or a command waits until the changes of earlier commands are
/// recorded.
pub(crate) const MAX_RECORDING_WAIT: Duration = Duration::from_secs(2);

/// Maximum total size of the old and new contents of the files that one command changes if their
/// changes are recorded.
pub(crate) const MAX_RECORDED_BYTES: u64 = 32 * 1024 * 1024;

/// Number of bytes at the beginning of `HEAD` and other files of a repository that are compared to
/// detect a change of its branch or commit.
pub(crate) const MAX_REPOSITORY_STATE_BYTES: u64 = 1024;

/// Maximum number of paths that one command changes if its changes are recorded.
pub(crate) const MAX_RECORDED_CHANGES: usize = 1_000;

/// Maximum number of files whose recorded changes the card of a command shows. A patch file
/// contains all changes.
pub(crate) const MAX_RECORDED_CHANGES_SHOWN: usize = 20;

/// Maximum number of paths that a rewind changes.
pub(crate) const MAX_REWIND_PATHS: usize = 10_000;

/// Time after the end of a session until the data for undoing its changes is deleted.
pub(crate) const MAX_UNDO_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Maximum size of the journal of one call. The journal of [`MAX_JOURNAL_ENTRIES`] entries has this
/// size if their paths have about 1,000 bytes.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of entries of one journal: files, links, directories and removed entries. A call
/// also creates the missing parent folders of its paths.
pub(crate) const MAX_JOURNAL_ENTRIES: usize = 2 * MAX_PATHS_PER_APPLIED_PREVIEW;

/// Maximum number of files that are counted in a directory before the directory is moved or
/// deleted.
pub(crate) const MAX_COUNTED_FILES: u64 = 100_000;

/// Maximum depth of the subdirectories in which files are counted before a directory is moved or
/// deleted.
pub(crate) const MAX_COUNTED_DEPTH: usize = 128;

/// Maximum number of replaced files that are checked for late writes. A late write is made by a
/// program that opened the old file before it was replaced.
pub(crate) const MAX_LATE_WRITE_WATCHES: usize = 256;

/// Maximum time between two writes to a file after which the file may have the same modification
/// time.
pub(crate) const MTIME_GRANULARITY: Duration = Duration::from_millis(20);

/// Maximum number of attempts to put a file back. If another program replaces the file again,
/// another attempt is needed.
pub(crate) const MAX_EXCHANGE_TRIES: u32 = 64;

/// Maximum number of files for which a session stores the hash of the content.
pub(crate) const MAX_KNOWN_HASHES: usize = 4_096;

/// Maximum number of changed places that are sent to the client as locations.
pub(crate) const MAX_CHANGE_LOCATIONS: usize = 20;

/// Maximum number of files that one call edits.
pub(crate) const MAX_FILES_PER_EDIT_CALL: usize = 200;

/// Maximum number of paths that the application of one previewed command changes. A removed folder
/// counts as one path.
pub(crate) const MAX_PATHS_PER_APPLIED_PREVIEW: usize = 2_000;

/// Maximum number of edits in one call. An edit that replaces all occurrences in a file counts as
/// one.
pub(crate) const MAX_EDITS_PER_CALL: usize = 500;

/// Maximum total size of all files that one call edits, before the edits and after the edits.
pub(crate) const MAX_EDITED_BYTES_PER_CALL: usize = 128 * 1024 * 1024;

// Terminal

/// Maximum number of reasons that are shown for a call that requires permission each time. For
/// further reasons, only their number is shown.
pub(crate) const MAX_ASK_REASONS_SHOWN: usize = 4;

/// Maximum number of bytes of a path or word that the reason for a permission request shows.
pub(crate) const MAX_ASK_REASON_TEXT_BYTES: usize = 200;

/// Default maximum time that a call waits for a command. After this time, the command continues in
/// the background.
pub(crate) const DEFAULT_COMMAND_WAIT: Duration = Duration::from_secs(120);

/// Maximum timeout of a command that is not started in the background.
pub(crate) const MAX_COMMAND_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum number of commands that one session runs in the background at the same time.
pub(crate) const MAX_BACKGROUND_RUNNING: usize = 8;

/// Maximum number of finished background commands that a session keeps in its list.
pub(crate) const MAX_BACKGROUND_ENDED_KEPT: usize = 32;

/// Time that a call waits for output after it started a background command or typed input into one.
pub(crate) const BACKGROUND_START_WAIT: Duration = Duration::from_millis(500);

/// Maximum number of bytes of one input to a command. A terminal accepts lines of up to 4,095
/// bytes.
pub(crate) const MAX_TERMINAL_INPUT_BYTES: usize = 4_000;

/// Maximum size of a result that is not stored in a file. A larger result is stored, unless it is a
/// result of `terminal`. The model may receive only a part of a result if the results of one reply
/// are too long together.
pub(crate) const MAX_INLINE_RESULT_BYTES: usize = MAX_MODEL_OUTPUT_BYTES;

/// Maximum size of the file that contains the whole output of a command. If output was omitted, the
/// file has an additional line. Even with this line, the file can be read to its end.
pub(crate) const MAX_OUTPUT_FILE_BYTES: u64 = MAX_WHOLE_FILE_BYTES - MAX_TRUNCATION_NOTE_BYTES;

/// Maximum total size of the files that a previewed command changes: the sum of their sizes before
/// and after the changes. Files in generated folders do not count.
pub(crate) const MAX_PREVIEWED_BYTES: u64 = 32 * 1024 * 1024;

/// Maximum number of entries of one layer, i.e. of changed paths in one project folder. Entries in
/// generated folders count.
pub(crate) const MAX_LAYER_ENTRIES: usize = 200_000;

/// Time for which a previewed command may still run after it could not connect to a host.
pub(crate) const PREVIEW_NETWORK_GRACE: Duration = Duration::from_secs(3);

/// Maximum number of runs of a command for its preview. The command runs again if other programs
/// change the same files.
pub(crate) const MAX_PREVIEW_RUNS: u32 = 3;

/// Maximum number of processes and threads that a command in a sandbox may have.
pub(crate) const MAX_SANDBOX_PROCESSES: u64 = 4096;

/// Maximum size of a file that a command in a sandbox may write.
pub(crate) const MAX_SANDBOX_FILE_BYTES: u64 = 32 << 30;

/// Maximum number of executable files and of names with a dot that the result of a sandboxed
/// command lists.
pub(crate) const MAX_MADE_NAMES: usize = 20;

/// Maximum time that the search for these files may take when the command has ended.
pub(crate) const MADE_NAMES_DEADLINE: Duration = Duration::from_millis(50);

/// Maximum number of bytes of the model's reason in a permission request for a command outside of
/// the sandbox.
pub(crate) const MAX_SANDBOX_REASON_BYTES: usize = 500;

/// Maximum number of files and folders that are checked before each sandboxed command against the
/// rules that deny reading. Only rules with wildcards need this check.
pub(crate) const MAX_ENTRIES_FOR_DENIED_READS: usize = 50_000;

/// Maximum number of files and folders with protected names that are copied before a command whose
/// sandbox cannot protect them.
pub(crate) const MAX_PROTECTED_COPY_ENTRIES: usize = 5_000;

/// Maximum total size of the files that are copied before such a command.
pub(crate) const MAX_PROTECTED_COPY_BYTES: u64 = 32 << 20;

/// Maximum number of tries to create the folder for the temporary files of a session.
pub(crate) const MAX_PRIVATE_FOLDER_TRIES: u32 = 8;

/// Maximum depth of folders that are made removable when the session ends.
#[cfg(unix)]
pub(crate) const MAX_PRIVATE_FOLDER_DEPTH: usize = 128;

/// Maximum number of hosts to which a command in a sandbox may try to connect.
pub(crate) const MAX_COMMAND_HOSTS: usize = 256;

/// Maximum number of refused hosts that the result of a command lists.
pub(crate) const MAX_REFUSED_HOSTS_SHOWN: usize = 16;

/// Maximum number of simultaneous connections to the proxy of the sandbox. Further connections wait
/// in the backlog of the listener.
pub(crate) const MAX_PROXY_CONNECTIONS: usize = 256;

/// Maximum size of the head of a request or of an upstream proxy's response. The proxy also buffers
/// about this number of bytes that a client sends before its connection is open.
pub(crate) const MAX_PROXY_HEAD_BYTES: usize = 64 * 1024;

/// Maximum number of fields in the head of a request or a response.
pub(crate) const MAX_PROXY_HEADERS: usize = 128;

/// Time in which a client must have sent its whole request, without the body.
pub(crate) const PROXY_HEAD_TIME: Duration = Duration::from_secs(30);

/// Time limit for the resolution of a name.
pub(crate) const RESOLVE_TIME: Duration = Duration::from_secs(10);

/// Time limit for a connection to one address, and for the answer of an upstream proxy.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Maximum number of addresses of a name that are tried.
pub(crate) const MAX_CONNECT_ATTEMPTS: usize = 6;

/// Time in which a client can receive a refusal before its connection is closed.
pub(crate) const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Interval at which the proxy checks whether a client is still connected. This check is only
/// needed for a client that has filled its buffer before its connection is open.
pub(crate) const DISCONNECT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after a failure to accept a connection, e.g. for lack of file descriptors.
pub(crate) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of stopped commands for which a session keeps the reason why the sandbox stopped
/// them. The oldest reason is removed first.
pub(crate) const MAX_STOPPED_COMMANDS: usize = 32;

/// Maximum total size of the state folder, which all sessions share. The value is the limit for the
/// backups of one session plus the limit for its outputs. The oldest files are deleted first. Files
/// of a session that is open in another process are not deleted.
pub(crate) const MAX_STATE_BYTES: u64 = MAX_UNDO_BYTES + MAX_OUTPUT_FILES_BYTES;

/// Number of bytes that a session adds to the state folder before it checks the total size again.
pub(crate) const STATE_SWEEP_INTERVAL_BYTES: u64 = 64 * 1024 * 1024;

/// Number of bytes that must stay free in the state folder after the data is stored. The check also
/// writes this number of bytes if it must find out whether the folder is writable.
pub(crate) const STATE_PROBE_BYTES: usize = 4096;

/// Maximum number of files with complete outputs that a session keeps. The oldest files are deleted
/// first.
pub(crate) const MAX_OUTPUT_FILES: usize = 200;

/// Maximum total size of the files with complete outputs of a session. The total size is checked
/// when another file is created.
pub(crate) const MAX_OUTPUT_FILES_BYTES: u64 = 1024 * 1024 * 1024;

/// Time after the end of a session until its files with complete outputs are deleted.
pub(crate) const MAX_OUTPUT_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

// Unsaved texts of the client

/// Maximum size of a file whose text is requested from the client. Encoded as JSON, such a text
/// fits into one line of the transport.
pub(crate) const MAX_CLIENT_TEXT_BYTES: u64 = 2 * 1024 * 1024;

/// Maximum number of requests for texts that one call sends to the client at the same time.
pub(crate) const MAX_CONCURRENT_CLIENT_TEXTS: usize = 8;

/// Maximum length in bytes of an error message from the client.
pub(crate) const MAX_CLIENT_ERROR_BYTES: usize = 256;

// Commands that the client runs

/// Maximum number of bytes of a command's output that the client is asked to keep. The model
/// receives only a part of this output. The whole output is in a file.
pub(crate) const MAX_CLIENT_OUTPUT_BYTES: u64 = MAX_KEPT_OUTPUT_BYTES as u64;

/// Maximum length in bytes of a terminal id from the client.
pub(crate) const MAX_CLIENT_TERMINAL_ID_BYTES: usize = 256;

/// Maximum length in bytes of a signal name from the client.
pub(crate) const MAX_CLIENT_SIGNAL_BYTES: usize = 32;

/// Time between the start of a command and the first poll for its status. Polling is needed because
/// some clients do not report the end of a command.
pub(crate) const CLIENT_EXIT_POLL_DELAY: Duration = Duration::from_secs(10);

/// Time between a failed wait request and the first poll for the status of the command.
pub(crate) const CLIENT_EXIT_POLL_DELAY_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Maximum time between two polls for the status of a command. The time is doubled after each poll.
pub(crate) const MAX_CLIENT_EXIT_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum time that a client has to kill a cancelled command. The same limit applies to the
/// request for the output, which follows. The kill request and the request for the output end
/// before the cancelled call is dropped.
pub(crate) const CLIENT_CANCEL_GRACE: Duration = Duration::from_millis(300);

/// Maximum time that a call waits for the exit status of a cancelled command, after the client has
/// confirmed the kill request.
pub(crate) const CLIENT_CANCEL_LINGER: Duration = Duration::from_millis(20);

/// Maximum time that a client has to kill a command after its timeout. The same limit applies to
/// the request for the output, which follows.
pub(crate) const CLIENT_KILL_DEADLINE: Duration = Duration::from_secs(5);

/// Time before the request for the output of a finished command is repeated. During this time, the
/// client may still receive output.
pub(crate) const CLIENT_OUTPUT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of times that the request for the output is repeated.
pub(crate) const MAX_CLIENT_OUTPUT_RETRIES: u32 = 2;

// Plans and thoughts

/// Maximum number of steps in a plan.
pub(crate) const MAX_TODOS: usize = 200;

/// Maximum length in bytes of one step of a plan.
pub(crate) const MAX_TODO_BYTES: usize = 2 * 1024;

/// Maximum number of bytes of a thought that the title of the call shows.
pub(crate) const MAX_THOUGHT_TITLE_BYTES: usize = 80;

/// Time between the moment when the title of a call is known and the report of the call. Data that
/// a provider sent in one piece is often received in several pieces. Arguments that are received
/// during this time may still change the title.
pub(crate) const TITLE_DEBOUNCE: Duration = Duration::from_millis(3);

/// Maximum number of changes that a permission request shows. A call has at most
/// [`MAX_CONTENT_ITEMS`](acp_lifecycle::limits::MAX_CONTENT_ITEMS) items, and a truncated change
/// needs a second item for the note about its omitted part. If there are more changes, the
/// permission request contains their number and a link to them.
pub(crate) const MAX_CHANGES_SHOWN: usize = 96;

/// Maximum number of files that a permission request names without showing their changes.
pub(crate) const MAX_CHANGES_NAMED: usize = 20;

/// Maximum number of notes of a call. If there are more, they are merged into the last note.
pub(crate) const MAX_NOTES_SHOWN: usize = 16;

// Tools that come and go

/// Maximum length of the definitions of all live tools (name, description and schema) that a model
/// receives, in bytes. If the definitions are larger in total, the model finds tools with
/// `find_tool`.
pub const MAX_LIVE_TOOLS_BYTES: usize = 48 << 10;

/// Maximum length of the list of tools in the description of `find_tool`, in bytes.
pub(crate) const MAX_TOOL_LIST_BYTES: usize = 8 << 10;

/// Maximum length of the description of one tool in that list, in bytes.
pub(crate) const MAX_LISTED_TOOL_BYTES: usize = 100;

/// Maximum number of tools that one call of `find_tool` finds.
pub(crate) const MAX_FOUND_TOOLS: usize = 8;
