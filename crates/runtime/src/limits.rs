//! Every bound of this crate: what it limits, in which unit, and why it has that size.

use std::time::Duration;

// ---- Sessions and turns ----

/// Sessions of one connection that are open at once, and that are being opened at once.
pub(crate) const MAX_SESSIONS: usize = 64;

/// Prompts of one session that wait for the turn before them.
pub(crate) const MAX_WAITING_PROMPTS: usize = 8;

/// Requests to the model in one turn.
pub(crate) const MAX_TURN_REQUESTS: usize = 1_000;

/// Calls in one reply of the model; further ones are left out, and the model and the client are
/// told so.
pub(crate) const MAX_REPLY_CALLS: usize = 128;

/// Calls of one reply that run at the same time.
pub(crate) const MAX_PARALLEL_CALLS: usize = 16;

/// Bytes of one call's arguments; what is over is left out, and so is no JSON any more.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 << 20;

/// Bytes of one reply: its text, its thoughts and the arguments of its calls; a longer one is
/// broken off.
pub(crate) const MAX_REPLY_BYTES: usize = 16 << 20;

/// Bytes of one call's result as the model reads it; of a longer one the middle is left out. It
/// holds the largest window of `read_file` with its line numbers.
pub(crate) const MAX_RESULT_BYTES: usize = 320 << 10;

/// Bytes of all results of one reply; where they are more, the longest lose their middle first.
pub(crate) const MAX_REPLY_RESULT_BYTES: usize = 1 << 20;

/// Bytes of all images of one reply's results, in base64; those that do not fit are named only. One
/// of the largest that `read_file` reads fits, and a smaller one.
pub(crate) const MAX_REPLY_IMAGE_BYTES: usize = 8 << 20;

/// Bytes of all images of a session's results, in base64. Above it the oldest are left out, until half
/// of it is left: each request has all of them, and providers refuse one of more than 20 MB (Gemini)
/// or 32 MB (Anthropic).
pub(crate) const MAX_HISTORY_IMAGE_BYTES: usize = 2 * MAX_REPLY_IMAGE_BYTES;

/// Bytes of the messages that a session remembers for its model; beyond it the oldest are left
/// out, except for the newest prompt.
pub(crate) const MAX_HISTORY_BYTES: usize = 32 << 20;

/// How often one turn leaves the older half of its messages out because the model says that the
/// request is too long.
pub(crate) const MAX_TURN_COMPACTIONS: usize = 4;

/// How often a request is made again that failed before the model said anything.
pub(crate) const MAX_RETRIES: usize = 5;

/// How often a request is made again whose reply broke off after something of it was shown, or to
/// which nothing came for as long as is waited.
pub(crate) const MAX_COSTLY_RETRIES: usize = 1;

/// The first pause before a request is made again, where its provider asks for none; each further
/// one is twice as long, and all are up to that much longer by chance.
pub(crate) const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);

/// The longest pause before a request is made again; a provider that asks for a longer one ends
/// the turn.
pub(crate) const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// All pauses of one request together.
pub(crate) const MAX_TOTAL_RETRY_DELAY: Duration = Duration::from_secs(120);

/// Bytes of what a provider says of its fault that are told.
pub(crate) const MAX_MODEL_ERROR_BYTES: usize = 1 << 10;

/// Characters of the title that a session gets from its first prompt.
pub(crate) const MAX_TITLE_CHARS: usize = 80;

/// Images and recordings in one prompt; further ones are only named.
pub(crate) const MAX_PROMPT_MEDIA: usize = 20;

/// Bytes of one image or recording, in base64; a larger one is only named. Providers refuse more.
pub(crate) const MAX_MEDIA_BYTES: usize = 10 << 20;

/// Linked files of one prompt that are read; further ones are only named.
pub(crate) const MAX_LINKED_FILES: usize = 16;

/// Bytes of one linked file that is read with the prompt; a larger one is only named, and the
/// model can read it by a tool.
pub(crate) const MAX_LINKED_FILE_BYTES: u64 = 64 << 10;

/// Bytes of a call's arguments after which the client is told how much has come.
pub(crate) const ARGUMENTS_UPDATE_BYTES: usize = 1024;

/// Time for a model to say the next thing.
pub(crate) const MODEL_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

// ---- What a model is told beside the prompts ----

/// Bytes of one AGENTS.md that the model is told; the rest is left out, and that is said.
pub(crate) const MAX_INSTRUCTION_FILE_BYTES: usize = 32 << 10;

/// Bytes of all of them in one session, earlier versions too. A model with a small window is told
/// less: see [`INSTRUCTIONS_SHARE`].
pub(crate) const MAX_SESSION_INSTRUCTION_BYTES: usize = 96 << 10;

/// The part of a model's window that instructions may fill: one in so many.
pub(crate) const INSTRUCTIONS_WINDOW_DIVISOR: u64 = 8;

/// Files of instructions that a session heeds.
pub(crate) const MAX_INSTRUCTION_FILES: usize = 32;

/// Folders between two requests in which instructions are looked for.
pub(crate) const MAX_INSTRUCTION_FOLDERS: usize = 256;

/// Files of which a session notes what they looked like when the model read or wrote them; the
/// oldest is forgotten.
pub(crate) const MAX_TRACKED_FILES: usize = 128;

/// Bytes of a file up to which its content is compared; of a larger one, size and time are.
pub(crate) const MAX_HASHED_FILE_BYTES: u64 = 4 << 20;

/// Changed files that the model is told by name at once, and likewise files that are gone.
pub(crate) const MAX_LISTED_FILE_CHANGES: usize = 20;

// ---- The model's window ----

/// Bytes that a model is told of a command in the background that has ended, unasked.
pub(crate) const MAX_COMMAND_END_BYTES: usize = 8 << 10;

/// Tokens that a model is taken to take, if neither it nor the configuration says so.
pub(crate) const DEFAULT_CONTEXT_TOKENS: u64 = 128_000;

/// Bytes of text that one token is taken for until a provider has counted.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// Bytes of a request from which its count is learnt from; what stands around the messages blurs
/// that of a smaller one.
pub(crate) const MIN_CALIBRATION_BYTES: u64 = 4 << 10;

/// Bytes that a message is taken to have beside its texts.
pub(crate) const MESSAGE_OVERHEAD_BYTES: usize = 16;

/// Bytes of text that an image is taken for.
pub(crate) const IMAGE_ESTIMATED_BYTES: usize = 6_400;

/// How full of the window a request may be before the session is compacted, in percent; the reply
/// needs room too.
pub(crate) const COMPACT_AT_PERCENT: u64 = 80;

/// How full a request is after that at most, in percent.
pub(crate) const COMPACT_TO_PERCENT: u64 = 50;

/// Results of calls that a compaction leaves as they are, the newest ones.
pub(crate) const KEPT_NEWEST_RESULTS: usize = 8;

/// Bytes of a result from which it is worth leaving out.
pub(crate) const MIN_CLEARED_RESULT_BYTES: usize = 512;

/// Bytes that the newest results keep, however little room there is.
pub(crate) const MIN_TRUNCATED_RESULT_BYTES: usize = 512;

/// Bytes of a summary; what is over is left out of its middle.
pub(crate) const MAX_SUMMARY_BYTES: usize = 12 << 10;

/// Tokens that a model may use for a summary, its thoughts among them.
pub(crate) const MAX_SUMMARY_TOKENS: u32 = 8_192;

/// Bytes of one result or one call's arguments that a model is told for a summary; of what it said
/// twice as many, of a prompt four times.
pub(crate) const MAX_EXCERPT_BYTES: usize = 2 << 10;

/// Bytes of all that a model is told for a summary, though its window be larger.
pub(crate) const MAX_TRANSCRIPT_BYTES: usize = 1 << 20;

/// Bytes of the plan that stays beside a summary.
pub(crate) const MAX_KEPT_PLAN_BYTES: usize = 8 << 10;

/// Time for a session to end its calls and send their ends when it is closed.
pub(crate) const CLOSE_DEADLINE: Duration = Duration::from_millis(1_200);

/// Time after that for the ends of what did not end by itself.
pub(crate) const FINAL_SEND_TIMEOUT: Duration = Duration::from_millis(300);

/// Time for what was remembered in a turn to be stored before the turn is answered; a store that
/// takes longer goes on behind the answer.
pub(crate) const RULES_SAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a file of stored rules; a larger one is refused.
pub(crate) const MAX_RULE_FILE_BYTES: u64 = 4 << 20;

// ---- Choosing a model ----

/// Time that a new session waits for what may have been stored since the last one; later, it counts
/// from the first prompt on.
pub(crate) const LOGIN_REFRESH_TIMEOUT: Duration = Duration::from_millis(250);

/// Time for which nothing else is heard while a session is opened; one whose files take longer is
/// opened beside what else is asked for, and so are those that come meanwhile.
pub(crate) const SESSION_OPEN_WAIT: Duration = Duration::from_millis(500);

// ---- What the client holds of files ----

/// Time for the client to tell what it holds of a file, from when it was asked; then the disk counts.
pub(crate) const CLIENT_TEXT_READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for the client to take another text of a file, from when it was told it. It may save it.
pub(crate) const CLIENT_TEXT_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

// ---- Commands that the client runs ----

/// Time for the client to make a terminal, from when it was asked. It may ask its user first.
pub(crate) const CLIENT_TERMINAL_CREATE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a terminal that comes later is waited for, to be released.
pub(crate) const CLIENT_TERMINAL_LATE_CREATE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Time for the client to say that a command has ended: more than any command has.
pub(crate) const CLIENT_TERMINAL_WAIT_TIMEOUT: Duration = Duration::from_secs(3660);

/// Time for the client to tell the output of a command, to end it, or to release its terminal.
pub(crate) const CLIENT_TERMINAL_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

// ---- What can be chosen in a session ----

/// Models that a client is offered.
pub(crate) const MAX_MODEL_CHOICES: usize = 256;

/// Models beside the catalogue's among them: those that the session has had last.
pub(crate) const MAX_USED_MODEL_CHOICES: usize = 16;

/// Models of the catalogue among them; one more is what the session has.
pub const MAX_CATALOGUE_CHOICES: usize = MAX_MODEL_CHOICES - MAX_USED_MODEL_CHOICES - 1;

/// Bytes of the reason why a model cannot be had, in the answer to whoever asked for it; it leaves
/// the answer below 512 bytes, where the transport would shorten it.
pub(crate) const MAX_MODEL_OPEN_ERROR_BYTES: usize = 256;
