//! Limits of this crate, with their units and reasons.

use std::time::Duration;

// ---- Shutdown ----

/// Time limit from the end of input, or from a signal, to the end of the connection. It applies
/// even if calls are still running. Shutting down the runtime takes at most another 200 ms, so the
/// process exits within 2 s.
pub(crate) const EXIT_DEADLINE: Duration = Duration::from_millis(1_700);

// ---- Telemetry ----

/// Time limit for exporting the remaining spans when the process exits (feature `otlp`).
#[cfg(feature = "otlp")]
pub(crate) const EXPORT_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum size of a collector's response in bytes (feature `otlp`).
#[cfg(feature = "otlp")]
pub(crate) const MAX_EXPORT_RESPONSE_BYTES: u64 = 64 << 10;

// ---- Configuration and keys ----

/// Maximum size of the configuration file in bytes; larger files are rejected.
pub(crate) const MAX_CONFIG_FILE_BYTES: u64 = 256 << 10;

/// Maximum size of the file of stored keys and logins in bytes; larger files are rejected.
pub(crate) const MAX_KEY_FILE_BYTES: u64 = 2 << 20;

/// Maximum size of one answer to `callboard login` in bytes.
pub(crate) const MAX_LOGIN_ANSWER_BYTES: u64 = 4 << 10;

/// Minimum length of a run that `callboard mcp add` treats as a token. A run consists of letters
/// and at least two digits.
pub(crate) const MIN_TOKEN_SHAPE_LENGTH: usize = 20;

/// Maximum size of the address that a user pastes at the end of `callboard mcp login`, in bytes.
pub(crate) const MAX_PASTED_ADDRESS_BYTES: u64 = 16 << 10;

/// Time limit for an operation of the system's keyring. The keyring may ask the user to unlock it.
#[cfg(feature = "keyring")]
pub(crate) const KEYRING_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of discovered models that are offered to the user; further models are ignored.
pub(crate) const MAX_FOUND_MODELS: usize = 64;

// ---- Checking transcripts ----

/// Maximum number of faults that are printed per file; all faults are counted.
pub(crate) const MAX_PRINTED_VIOLATIONS: u64 = 200;

// ---- Model selection ----

/// Maximum age of a server's list of models that is reused.
pub(crate) const MODEL_LIST_MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// Minimum time between two requests for the list of models to a server that answers with an error.
pub(crate) const MODEL_LIST_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Time limit for reading the file of logins, which may be on a network drive.
pub(crate) const LOGIN_FILE_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which the first prompt of `callboard exec` waits for MCP servers that are starting. The
/// first prompt is often the only prompt.
pub(crate) const EXEC_SERVER_WAIT: Duration = Duration::from_secs(10);

// ---- MCP servers ----

/// Maximum length of the description of a tool in the output of `callboard mcp test` in bytes. The
/// output as JSON has the whole description.
pub(crate) const MAX_SHOWN_DESCRIPTION_BYTES: usize = 160;

/// Maximum length of the reason of a failure in the output of `callboard mcp test` in bytes.
pub(crate) const MAX_SHOWN_FAILURE_BYTES: usize = 16 << 10;
