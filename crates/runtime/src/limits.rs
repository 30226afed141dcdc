//! Every limit of this crate, with its unit and the reason for its size.

use std::time::Duration;

// ---- Sessions and turns ----

/// Maximum number of open sessions of one connection; also the maximum number of sessions that are
/// being opened at the same time.
pub(crate) const MAX_SESSIONS: usize = 64;

/// Maximum time that an answer waits until its records are stored. A commit takes about a
/// millisecond, and a store waits for other processes for up to 0.9 s.
pub(crate) const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time that an answer waits for its records after a failed commit, until a commit
/// succeeds.
pub(crate) const RETRIED_COMMIT_TIMEOUT: Duration = Duration::from_millis(20);

/// Maximum number of writes that wait while the store is being opened.
pub(crate) const MAX_UNSTORED_CHANGES: usize = 1024;

/// Maximum bytes of large records that are replayed in full; older large records are replayed with
/// links instead of contents.
pub(crate) const REPLAY_BYTES: u64 = 8 << 20;

/// Bytes of content above which a replay beyond that budget has a link instead. Shorter content is
/// hardly longer than its link.
pub(crate) const MAX_BRIEF_CONTENT_BYTES: usize = 1 << 10;

/// Maximum number of messages of the model in one write. A store accepts 4,096 changes.
pub(crate) const MAX_WRITTEN_MESSAGES: usize = 2048;

/// Maximum number of paths that the answer to a rewind names.
pub(crate) const MAX_NAMED_PATHS: usize = 50;

/// Maximum number of prompts that `/rewind` lists: the newest.
pub(crate) const MAX_LISTED_PROMPTS: usize = 50;

/// Maximum number of stored documents in which a rewind looks for changed files without undo data.
pub(crate) const MAX_REWIND_DOCUMENTS: usize = 100_000;

/// Pause before a held session is tried again, and number of such pauses. A process that removes old
/// sessions holds each for about a millisecond.
pub(crate) const HELD_SESSION_PAUSE: Duration = Duration::from_millis(20);
pub(crate) const HELD_SESSION_TRIES: usize = 10;

/// Default time that a session is kept after its last update.
pub(crate) const SESSION_KEEP_TIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Default for the bytes of all sessions, their undo data and their outputs: as many as one session
/// may have.
pub(crate) const SESSION_BYTES: u64 = 4 << 30;

/// Longest time since old sessions were removed last after which they are removed at once. Later, the
/// first start only notes its time: the clock may be wrong.
pub(crate) const LONGEST_PRUNE_GAP: Duration = Duration::from_secs(14 * 24 * 3600);

/// Time between two removals of old sessions, by all processes of a user.
pub(crate) const PRUNE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of prompts of one session that wait for an earlier turn.
pub(crate) const MAX_WAITING_PROMPTS: usize = 8;

/// Maximum requests to the model in one turn.
pub(crate) const MAX_TURN_REQUESTS: usize = 1_000;

/// Maximum calls in one reply of the model. Further calls are omitted, and the model and the client
/// are notified.
pub(crate) const MAX_REPLY_CALLS: usize = 128;

/// Maximum calls of one reply that run at the same time.
pub(crate) const MAX_PARALLEL_CALLS: usize = 16;

/// Maximum bytes of one call's arguments. Longer arguments are discarded, and the call fails.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 << 20;

/// Maximum bytes of one reply: its text, its thoughts and the arguments of its calls. A longer
/// reply is truncated.
pub(crate) const MAX_REPLY_BYTES: usize = 16 << 20;

/// Maximum bytes of one call's result as the model reads it; the middle of a longer result is
/// omitted. The largest window of `read_file` fits into this limit, with its line numbers.
pub(crate) const MAX_RESULT_BYTES: usize = 320 << 10;

/// Maximum bytes of all results of one reply. If the limit is exceeded, the longest results are
/// truncated in their middle first.
pub(crate) const MAX_REPLY_RESULT_BYTES: usize = 1 << 20;

/// Maximum bytes of all images in one reply's results, in base64; images beyond this limit are only
/// named. One image of the largest size of `read_file` fits into this limit, and a smaller image.
pub(crate) const MAX_REPLY_IMAGE_BYTES: usize = 8 << 20;

/// Maximum bytes of all images in a session's results, in base64. If the limit is exceeded, the
/// oldest images are omitted until half of the limit remains. Each request contains all images of
/// the session, and providers refuse requests of more than 20 MB (Gemini) or 32 MB (Anthropic).
pub(crate) const MAX_HISTORY_IMAGE_BYTES: usize = 2 * MAX_REPLY_IMAGE_BYTES;

/// Maximum bytes of the messages that a session stores for its model. If the limit is exceeded, the
/// oldest messages are removed, except for the newest prompt.
pub(crate) const MAX_HISTORY_BYTES: usize = 32 << 20;

/// Maximum number of times that one turn shortens the session because the model reports that the
/// request is too long.
pub(crate) const MAX_TURN_COMPACTIONS: usize = 4;

/// Maximum retries of a request that failed before the model sent anything.
pub(crate) const MAX_RETRIES: usize = 5;

/// Maximum retries of a request whose reply was interrupted after a part of it was shown, or that
/// reached the idle timeout.
pub(crate) const MAX_COSTLY_RETRIES: usize = 1;

/// First delay before a retry, unless the provider asks for another delay. The delay doubles with
/// each retry, and a random jitter of up to the same length is added.
pub(crate) const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Maximum delay before a retry; if a provider asks for a longer delay, the turn ends.
pub(crate) const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Maximum sum of all retry delays of one request.
pub(crate) const MAX_TOTAL_RETRY_DELAY: Duration = Duration::from_secs(120);

/// Maximum bytes of a provider's error message that are shown.
pub(crate) const MAX_MODEL_ERROR_BYTES: usize = 1 << 10;

/// Maximum characters of the title that a session gets from its first prompt.
pub(crate) const MAX_TITLE_CHARS: usize = 80;

/// Maximum images and recordings in one prompt; further media are only named.
pub(crate) const MAX_PROMPT_MEDIA: usize = 20;

/// Maximum bytes of one image or recording, in base64; larger media are only named. Providers
/// refuse larger media.
pub(crate) const MAX_MEDIA_BYTES: usize = 10 << 20;

/// Maximum linked files of one prompt that are read; further files are only named.
pub(crate) const MAX_LINKED_FILES: usize = 16;

/// Maximum bytes of a linked file that is read with the prompt. A larger file is only named, and
/// the model can read it with a tool.
pub(crate) const MAX_LINKED_FILE_BYTES: u64 = 64 << 10;

/// Bytes of a call's arguments after which the client receives an update of the progress.
pub(crate) const ARGUMENTS_UPDATE_BYTES: usize = 1024;

/// Idle timeout of a reply: time until the model's next event.
pub(crate) const MODEL_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

// ---- Context beyond the prompts ----

/// Maximum bytes of one AGENTS.md that the model receives. The rest of the file is omitted, with a
/// note.
pub(crate) const MAX_INSTRUCTION_FILE_BYTES: usize = 32 << 10;

/// Maximum bytes of all AGENTS.md files in one session, including earlier versions. A model with a
/// small window receives less: see [`INSTRUCTIONS_WINDOW_DIVISOR`].
pub(crate) const MAX_SESSION_INSTRUCTION_BYTES: usize = 96 << 10;

/// The share of a model's window that instructions may fill, as a divisor: 8 means one eighth.
pub(crate) const INSTRUCTIONS_WINDOW_DIVISOR: u64 = 8;

/// Maximum instruction files of a session.
pub(crate) const MAX_INSTRUCTION_FILES: usize = 32;

/// Maximum folders that are searched for instructions between two requests.
pub(crate) const MAX_INSTRUCTION_FOLDERS: usize = 256;

/// Maximum files whose versions a session tracks; if the limit is exceeded, the oldest version is
/// dropped.
pub(crate) const MAX_TRACKED_FILES: usize = 128;

/// Maximum bytes of a file that is compared by content; a larger file is compared by size and time.
pub(crate) const MAX_HASHED_FILE_BYTES: u64 = 4 << 20;

/// Maximum number of changed files, and of deleted files, that one message lists by name.
pub(crate) const MAX_LISTED_FILE_CHANGES: usize = 20;

// ---- The model's window ----

/// Maximum bytes of the message about a background command that has ended.
pub(crate) const MAX_COMMAND_END_BYTES: usize = 8 << 10;

/// Assumed context window in tokens, if neither the model nor the configuration sets one.
pub(crate) const DEFAULT_CONTEXT_TOKENS: u64 = 128_000;

/// Assumed bytes of text per token, until a provider has reported token counts.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// Minimum bytes of a request that is used to calibrate the tokens per byte. In a smaller request,
/// the parts around the messages distort the token count.
pub(crate) const MIN_CALIBRATION_BYTES: u64 = 4 << 10;

/// Assumed bytes of a message in addition to its texts.
pub(crate) const MESSAGE_OVERHEAD_BYTES: usize = 16;

/// Assumed bytes of text with as many tokens as an image.
pub(crate) const IMAGE_ESTIMATED_BYTES: usize = 6_400;

/// Fill level of the window at which the session is compacted, in percent. The remaining space is
/// needed for the reply.
pub(crate) const COMPACT_AT_PERCENT: u64 = 80;

/// Maximum fill level of the window after a compaction, in percent.
pub(crate) const COMPACT_TO_PERCENT: u64 = 50;

/// Number of newest call results that a compaction leaves unchanged.
pub(crate) const KEPT_NEWEST_RESULTS: usize = 8;

/// Minimum bytes of a result that is worth clearing.
pub(crate) const MIN_CLEARED_RESULT_BYTES: usize = 512;

/// Minimum bytes that the newest results keep.
pub(crate) const MIN_TRUNCATED_RESULT_BYTES: usize = 512;

/// Maximum bytes of a summary; the middle of a longer summary is removed.
pub(crate) const MAX_SUMMARY_BYTES: usize = 12 << 10;

/// Maximum tokens that a model may use for a summary, including its thoughts.
pub(crate) const MAX_SUMMARY_TOKENS: u32 = 8_192;

/// Maximum bytes of one result or one call's arguments in the request for a summary. The model's
/// own texts may have twice as many bytes, prompts four times as many.
pub(crate) const MAX_EXCERPT_BYTES: usize = 2 << 10;

/// Maximum bytes of the messages in the request for a summary, even for a larger window.
pub(crate) const MAX_TRANSCRIPT_BYTES: usize = 1 << 20;

/// Maximum bytes of the plan that is kept in addition to a summary.
pub(crate) const MAX_KEPT_PLAN_BYTES: usize = 8 << 10;

/// Time for a closing session to end its calls and send their final updates.
pub(crate) const CLOSE_DEADLINE: Duration = Duration::from_millis(1_200);

/// Additional time for the final updates of calls that did not end before [`CLOSE_DEADLINE`].
pub(crate) const FINAL_SEND_TIMEOUT: Duration = Duration::from_millis(300);

/// Time for the remembered rules of a turn to be stored before its answer is sent. If the store is
/// slower, it continues after the answer was sent.
pub(crate) const RULES_SAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum bytes of a file of stored rules; a larger file is refused.
pub(crate) const MAX_RULE_FILE_BYTES: u64 = 4 << 20;

// ---- Choosing a model ----

/// Time that a new session waits to reread the stored logins. Logins that are read later apply from
/// the first prompt on.
pub(crate) const LOGIN_REFRESH_TIMEOUT: Duration = Duration::from_millis(250);

/// Time for which opening a session blocks other requests. If the files of a session take longer,
/// the session is opened concurrently with other requests, and so are the sessions requested after
/// it.
pub(crate) const SESSION_OPEN_WAIT: Duration = Duration::from_millis(500);

// ---- The client's copies of files ----

/// Time for the client to return its text of a file; after this time the file on disk is used.
pub(crate) const CLIENT_TEXT_READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for the client to accept the new text of a file. The client may also save the text in this
/// time.
pub(crate) const CLIENT_TEXT_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

// ---- Commands that the client runs ----

/// Time for the client to create a terminal. The client may ask its user first.
pub(crate) const CLIENT_TERMINAL_CREATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for the client to create a terminal after the timeout, so that this late terminal can be
/// released.
pub(crate) const CLIENT_TERMINAL_LATE_CREATE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Time for the client to report the end of a command; longer than the maximum run time of a
/// command.
pub(crate) const CLIENT_TERMINAL_WAIT_TIMEOUT: Duration = Duration::from_secs(3660);

/// Time for the client to return the output of a command, to kill it, or to release its terminal.
pub(crate) const CLIENT_TERMINAL_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

// ---- Session options ----

/// Maximum number of models that a client is offered.
pub(crate) const MAX_MODEL_CHOICES: usize = 256;

/// Maximum number of offered models that are not in the catalogue: the models that the session used
/// most recently.
pub(crate) const MAX_USED_MODEL_CHOICES: usize = 16;

/// Maximum number of offered models from the catalogue. The client is also offered the session's
/// current model.
pub const MAX_CATALOGUE_CHOICES: usize = MAX_MODEL_CHOICES - MAX_USED_MODEL_CHOICES - 1;

/// Maximum bytes of the reason why a model cannot be opened, in the response to the request. This
/// limit keeps the response below 512 bytes, above which the transport would shorten the response.
pub(crate) const MAX_MODEL_OPEN_ERROR_BYTES: usize = 256;
