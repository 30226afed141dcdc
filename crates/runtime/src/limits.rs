//! Every limit of this crate, with its unit and the reason for its size.

use std::time::Duration;

// ---- Sessions and turns ----

/// Maximum number of open sessions of one connection, and of sessions that one connection opens at
/// the same time.
pub(crate) const MAX_SESSIONS: usize = 64;

/// Time that the agent leaves for writing the response to `initialize` before it begins other work.
pub(crate) const RESPONSE_WRITE_TIME: Duration = Duration::from_millis(1);

/// Time from the start of a session until a thread tries the sandbox of commands, if the process
/// has only remembered that it works. The first response and the first prompt are not delayed.
pub(crate) const SANDBOX_CHECK_DELAY: Duration = Duration::from_millis(100);

/// Maximum time that an answer waits until its records are stored. A commit takes about a
/// millisecond, but a store waits up to 0.9 s for other processes.
pub(crate) const COMMIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time that a rewind waits until the removal of its prompts is stored. If the removal
/// takes longer, the session is no longer stored. A rewind therefore waits longer than an answer.
pub(crate) const REWIND_COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time that a request for stored sessions waits until the store is open. Opening takes
/// some milliseconds, or longer if the store is migrated.
pub(crate) const STORE_OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time that an answer waits until its records are stored, if an earlier commit of the
/// session has failed.
pub(crate) const RETRIED_COMMIT_TIMEOUT: Duration = Duration::from_millis(20);

/// Time between two checks whether a commit that failed has succeeded in the meantime.
pub(crate) const RETRIED_COMMIT_PAUSE: Duration = Duration::from_millis(100);

/// Time for which changes of a session wait for further changes before their commit, unless someone
/// waits for it. Most are then part of the commit of a final document, which is delivered
/// afterwards. If the process is killed, changes of this time that no client has seen as final may
/// be lost.
pub(crate) const UNSENT_CHANGES_TIME: Duration = Duration::from_millis(20);

/// Maximum number of writes that wait for further changes.
pub(crate) const MAX_UNSENT_WRITES: usize = 64;

/// Maximum number of writes that wait until the store is open.
pub(crate) const MAX_UNSTORED_CHANGES: usize = 1024;

/// Maximum number of bytes of large records that a replay sends in full. Older large records are
/// replayed with links instead of their contents.
pub(crate) const REPLAY_BYTES: u64 = 8 << 20;

/// Content of at most this number of bytes is never replaced by a link in a replay, because the
/// link would be hardly shorter.
pub(crate) const MAX_BRIEF_CONTENT_BYTES: usize = 1 << 10;

/// Maximum number of messages of the model in one write. A store accepts 4,096 changes.
pub(crate) const MAX_WRITTEN_MESSAGES: usize = 2048;

/// Maximum number of paths that the answer to a rewind names.
pub(crate) const MAX_NAMED_PATHS: usize = 50;

/// Maximum number of prompts that `/rewind` lists. The newest prompts are listed.
pub(crate) const MAX_LISTED_PROMPTS: usize = 50;

/// Maximum number of stored calls or plans that a rewind reads.
pub(crate) const MAX_REWIND_DOCUMENTS: usize = 100_000;

/// Delay before another attempt to open a session that another process holds. A process that
/// removes old sessions holds each of them for about a millisecond.
pub(crate) const HELD_SESSION_PAUSE: Duration = Duration::from_millis(20);
/// Number of delays of [`HELD_SESSION_PAUSE`] before the last attempt.
pub(crate) const HELD_SESSION_TRIES: usize = 10;

/// Default time for which a session is kept after its last update.
pub(crate) const SESSION_KEEP_TIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Default maximum number of bytes of all sessions together, with their undo data and outputs. A
/// single session may be as large as this limit.
pub(crate) const SESSION_BYTES: u64 = 4 << 30;

/// Maximum time since the last automatic removal of old sessions. If more time has passed, the
/// clock may be wrong. The first start then removes nothing, and only records the current time.
pub(crate) const LONGEST_PRUNE_GAP: Duration = Duration::from_secs(14 * 24 * 3600);

/// Minimum time between two automatic removals of a user's old sessions, even by different
/// processes.
pub(crate) const PRUNE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of prompts of one session that wait for the turns before them.
pub(crate) const MAX_WAITING_PROMPTS: usize = 8;

/// Maximum number of requests to the model in one turn.
pub(crate) const MAX_TURN_REQUESTS: usize = 1_000;

/// Maximum number of calls in one reply of the model. Further calls are left out, and the agent
/// informs the model and the client.
pub(crate) const MAX_REPLY_CALLS: usize = 128;

/// Maximum number of calls of one reply that run at the same time.
pub(crate) const MAX_PARALLEL_CALLS: usize = 16;

/// Maximum number of bytes of the arguments of one call. Longer arguments are discarded, and the
/// call fails.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 << 20;

/// Maximum number of bytes of one reply: its text, its thoughts and the arguments of its calls. A
/// longer reply is interrupted with an error.
pub(crate) const MAX_REPLY_BYTES: usize = 16 << 20;

/// Maximum number of bytes of one result, as the model receives it. The middle of a longer result
/// is left out. The largest excerpt of `read_file`, with its line numbers, is smaller than this
/// limit.
pub(crate) const MAX_RESULT_BYTES: usize = 320 << 10;

/// Maximum number of bytes of all results of one reply. If the results exceed this limit, the
/// middle of the longest results is left out.
pub(crate) const MAX_REPLY_RESULT_BYTES: usize = 1 << 20;

/// Maximum number of bytes (in base64) of all images in the results of one reply. Other images are
/// only named. The largest image of `read_file` and a smaller image fit together.
pub(crate) const MAX_REPLY_IMAGE_BYTES: usize = 8 << 20;

/// Maximum number of bytes (in base64) of all images in the results of a session. If the images
/// exceed this limit, the oldest images are removed until half of the limit remains. Each request
/// contains all images of the session, and providers refuse requests of more than 20 MB (Gemini) or
/// 32 MB (Anthropic).
pub(crate) const MAX_HISTORY_IMAGE_BYTES: usize = 2 * MAX_REPLY_IMAGE_BYTES;

/// Maximum number of bytes of the messages that a session keeps for its model. If the messages
/// exceed this limit, the oldest are removed, but not the newest prompt.
pub(crate) const MAX_HISTORY_BYTES: usize = 32 << 20;

/// Maximum number of times that one turn shortens the session because the model has refused a
/// request as too long.
pub(crate) const MAX_TURN_COMPACTIONS: usize = 4;

/// Maximum number of retries of a request that failed before the model sent any output.
pub(crate) const MAX_RETRIES: usize = 5;

/// Maximum number of retries after a reply that reached the idle timeout, or that was interrupted
/// after a part of the reply had been shown.
pub(crate) const MAX_COSTLY_RETRIES: usize = 1;

/// Delay before the first retry, unless the provider asks for another delay. The delay doubles with
/// each further retry. A random time of up to the length of the delay is added.
pub(crate) const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Maximum delay before a retry. If the provider asks for a longer delay, the request is not
/// retried, and the turn ends.
pub(crate) const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Maximum sum of the delays before all retries of one request.
pub(crate) const MAX_TOTAL_RETRY_DELAY: Duration = Duration::from_secs(120);

/// Maximum number of bytes of a provider's error message that are shown.
pub(crate) const MAX_MODEL_ERROR_BYTES: usize = 1 << 10;

/// Maximum number of characters of the title that a session gets from its first prompt.
pub(crate) const MAX_TITLE_CHARS: usize = 80;

/// Maximum number of images and recordings in one prompt. Further images and recordings are only
/// named.
pub(crate) const MAX_PROMPT_MEDIA: usize = 20;

/// Maximum number of bytes (in base64) of one image or recording in a prompt. Providers refuse
/// larger media, so larger media are only named.
pub(crate) const MAX_MEDIA_BYTES: usize = 10 << 20;

/// Maximum number of linked files that are read for one prompt. Further files are only named.
pub(crate) const MAX_LINKED_FILES: usize = 16;

/// Maximum number of bytes of a linked file that is read for a prompt. A larger file is only named,
/// and the model can read it with a tool.
pub(crate) const MAX_LINKED_FILE_BYTES: u64 = 64 << 10;

/// Number of bytes of a call's arguments after which the client receives a progress update.
pub(crate) const ARGUMENTS_UPDATE_BYTES: usize = 1024;

/// Idle timeout of a reply: the maximum time until the model's next event.
pub(crate) const MODEL_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

// ---- Context beyond the prompts ----

/// Maximum number of bytes of one AGENTS.md that the model receives. The rest of the file is left
/// out, with a note.
pub(crate) const MAX_INSTRUCTION_FILE_BYTES: usize = 32 << 10;

/// Maximum number of bytes of all AGENTS.md files in one session, including earlier versions of
/// these files. A model with a small window receives less: see [`INSTRUCTIONS_WINDOW_DIVISOR`].
pub(crate) const MAX_SESSION_INSTRUCTION_BYTES: usize = 96 << 10;

/// The part of a model's window that instructions may fill, as a divisor. For example, 8 stands for
/// one eighth.
pub(crate) const INSTRUCTIONS_WINDOW_DIVISOR: u64 = 8;

/// Maximum number of instruction files that one session sends.
pub(crate) const MAX_INSTRUCTION_FILES: usize = 32;

/// Maximum number of folders in which the agent looks for instructions between two requests.
pub(crate) const MAX_INSTRUCTION_FOLDERS: usize = 256;

/// Maximum number of files whose versions a session tracks. If the number is exceeded, the oldest
/// version is dropped.
pub(crate) const MAX_TRACKED_FILES: usize = 128;

/// Maximum number of bytes of a file that is compared by its content. Larger files are compared by
/// size and time.
pub(crate) const MAX_HASHED_FILE_BYTES: u64 = 4 << 20;

/// Maximum number of changed files that one message names, and maximum number of deleted files that
/// it names.
pub(crate) const MAX_LISTED_FILE_CHANGES: usize = 20;

// ---- The model's window ----

/// Maximum number of bytes of the message about the end of a background command.
pub(crate) const MAX_COMMAND_END_BYTES: usize = 8 << 10;

/// Assumed context window in tokens, if neither the model nor the configuration specifies one.
pub(crate) const DEFAULT_CONTEXT_TOKENS: u64 = 128_000;

/// Assumed number of bytes of text per token, until a provider has reported a token count.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// Minimum number of bytes of a request from which the number of tokens per byte is calculated. In
/// a smaller request, the parts around the messages have too much influence.
pub(crate) const MIN_CALIBRATION_BYTES: u64 = 4 << 10;

/// Assumed number of bytes of a message in addition to its texts.
pub(crate) const MESSAGE_OVERHEAD_BYTES: usize = 16;

/// Assumed number of bytes of a text that has as many tokens as an image.
pub(crate) const IMAGE_ESTIMATED_BYTES: usize = 6_400;

/// Percentage of the window that a request must exceed before the session is compacted. The rest of
/// the window is needed for the reply.
pub(crate) const COMPACT_AT_PERCENT: u64 = 80;

/// Maximum percentage of the window that a request fills after a compaction.
pub(crate) const COMPACT_TO_PERCENT: u64 = 50;

/// Number of newest results that a compaction does not clear.
pub(crate) const KEPT_NEWEST_RESULTS: usize = 8;

/// Minimum number of bytes of a result that a compaction clears. Shorter results stay.
pub(crate) const MIN_CLEARED_RESULT_BYTES: usize = 512;

/// Minimum number of bytes that remain of each result of the newest reply when these results are
/// truncated.
pub(crate) const MIN_TRUNCATED_RESULT_BYTES: usize = 512;

/// Maximum number of bytes of a summary. The middle of a longer summary is removed.
pub(crate) const MAX_SUMMARY_BYTES: usize = 12 << 10;

/// Maximum number of tokens that a model may use for a summary, including its thoughts.
pub(crate) const MAX_SUMMARY_TOKENS: u32 = 8_192;

/// Maximum number of bytes of one result, or of one call's arguments, in the request for a summary.
/// The model's own texts may have twice as many bytes, and prompts four times as many.
pub(crate) const MAX_EXCERPT_BYTES: usize = 2 << 10;

/// Maximum number of bytes of the messages in the request for a summary, even if the window is
/// larger.
pub(crate) const MAX_TRANSCRIPT_BYTES: usize = 1 << 20;

/// Maximum number of bytes of the plan that is kept in addition to a summary.
pub(crate) const MAX_KEPT_PLAN_BYTES: usize = 8 << 10;

/// Time that a closing session has to end its calls and to send their final updates.
pub(crate) const CLOSE_DEADLINE: Duration = Duration::from_millis(1_200);

/// Additional time for the final updates of calls that have not ended before [`CLOSE_DEADLINE`].
pub(crate) const FINAL_SEND_TIMEOUT: Duration = Duration::from_millis(300);

/// Maximum time that the answer of a turn waits until the turn's remembered rules are stored. After
/// this time, the answer is sent, and the rules are stored later.
pub(crate) const RULES_SAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of bytes of a file of stored rules. A larger file is refused.
pub(crate) const MAX_RULE_FILE_BYTES: u64 = 4 << 20;

// ---- Choosing a model ----

/// Maximum time that a new session waits until the stored logins have been read again. Logins that
/// are read later apply from the first prompt on.
pub(crate) const LOGIN_REFRESH_TIMEOUT: Duration = Duration::from_millis(250);

/// Maximum time for which opening a session delays other requests. A session that takes longer to
/// open is opened while other requests are handled, and so are the sessions that are requested
/// after it.
pub(crate) const SESSION_OPEN_WAIT: Duration = Duration::from_millis(500);

// ---- The client's copies of files ----

/// Maximum time that the agent waits for the client's text of a file. After this time, the agent
/// uses the file on the disk.
pub(crate) const CLIENT_TEXT_READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time that the agent waits until the client has accepted the new text of a file. A client
/// may also save the file in this time.
pub(crate) const CLIENT_TEXT_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

// ---- Commands that the client runs ----

/// Maximum time that the agent waits until the client has created a terminal. The client may ask
/// its user first.
pub(crate) const CLIENT_TERMINAL_CREATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Additional time in which a terminal that the client creates too late is still released.
pub(crate) const CLIENT_TERMINAL_LATE_CREATE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Maximum time that the agent waits until the client reports the end of a command. This time is
/// longer than the maximum run time of a command.
pub(crate) const CLIENT_TERMINAL_WAIT_TIMEOUT: Duration = Duration::from_secs(3660);

/// Maximum time that the agent waits until the client has returned the output of a command, killed
/// the command, or released its terminal.
pub(crate) const CLIENT_TERMINAL_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

// ---- Session options ----

/// Maximum number of models that the client can choose from.
pub(crate) const MAX_MODEL_CHOICES: usize = 256;

/// Maximum number of offered models that are not in the catalogue. These are the models that the
/// session has used most recently.
pub(crate) const MAX_USED_MODEL_CHOICES: usize = 16;

/// Maximum number of models from the catalogue that the client can choose from. The session's
/// current model is offered in addition to these.
pub const MAX_CATALOGUE_CHOICES: usize = MAX_MODEL_CHOICES - MAX_USED_MODEL_CHOICES - 1;

/// Maximum number of bytes of the reason why a model cannot be opened, in the response to the
/// client's request. This limit keeps the response below 512 bytes, because the transport shortens
/// longer responses.
pub(crate) const MAX_MODEL_OPEN_ERROR_BYTES: usize = 256;

/// Default maximum time that the first prompt of a session waits for MCP servers that are starting.
pub(crate) const SERVER_WAIT: Duration = Duration::from_secs(2);

/// Time after which a notice shows that a prompt waits for MCP servers.
pub(crate) const SERVER_NOTICE_DELAY: Duration = Duration::from_millis(300);

/// Maximum time that a question of an MCP server waits for the user.
pub(crate) const ELICITATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum length of a reply of the model to an MCP server in bytes. The rest is left out.
pub(crate) const MAX_SAMPLE_BYTES: usize = 64 << 10;
