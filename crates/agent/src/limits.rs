//! Every bound of this crate: what it limits, in which unit, and why it has that size.

use std::time::Duration;

// ---- The end ----

/// Time from the end of input, or a signal, to the end of the connection, whatever still runs.
/// With the 200 ms in which the runtime ends, the process is gone within 2 s.
pub(crate) const EXIT_DEADLINE: Duration = Duration::from_millis(1_700);

// ---- Telemetry, `exec` ----

/// Time for what is not exported yet to be sent when the process ends (feature `otlp`).
#[cfg(feature = "otlp")]
pub(crate) const EXPORT_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Bytes of standard input that `callboard exec` takes as the context of its prompt; the rest is cut
/// off.
pub(crate) const MAX_PIPED_CONTEXT_BYTES: usize = 256 << 10;

/// Time without a byte of that context after which the user is told that it is waited for.
pub(crate) const STDIN_NOTE_DELAY: Duration = Duration::from_secs(5);

/// Time for each piece of it from then on: a test suite may be silent for minutes.
pub(crate) const STDIN_IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Bytes of a collector's answer that are read (feature `otlp`).
#[cfg(feature = "otlp")]
pub(crate) const MAX_EXPORT_RESPONSE_BYTES: u64 = 64 << 10;

// ---- Choosing a model ----

/// Bytes of the configuration file; a larger one is refused.
pub(crate) const MAX_CONFIG_FILE_BYTES: u64 = 256 << 10;

/// Bytes of the file of stored keys; a larger one is refused.
pub(crate) const MAX_KEY_FILE_BYTES: u64 = 64 << 10;

/// Bytes of one answer at `callboard login`.
pub(crate) const MAX_LOGIN_ANSWER_BYTES: u64 = 4 << 10;

/// Time for the system's keyring to answer. It may be asking its user to unlock it.
#[cfg(feature = "keyring")]
pub(crate) const KEYRING_TIMEOUT: Duration = Duration::from_secs(20);

/// Models that were found by looking for them, and are offered from then on; further ones are not.
pub(crate) const MAX_FOUND_MODELS: usize = 64;

// ---- Judging transcripts ----

/// Faults of one file that are printed; all are counted.
pub(crate) const MAX_PRINTED_VIOLATIONS: u64 = 200;

// ---- Model selection ----

/// Time for which a server is not asked again for the models that it has listed.
pub(crate) const MODEL_LIST_MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// Time for the file of logins to be read, which may lie on a network.
pub(crate) const LOGIN_FILE_READ_TIMEOUT: Duration = Duration::from_secs(5);
