//! Limits of this crate, with their units and reasons.

use std::time::Duration;

/// Maximum number of bytes of standard input that become the context of a prompt. The rest is
/// dropped.
pub(crate) const MAX_PIPED_CONTEXT_BYTES: usize = 256 << 10;

/// Time without data on standard input after which the user is notified of the wait.
pub(crate) const STDIN_NOTE_DELAY: Duration = Duration::from_secs(5);

/// Time limit for each read of standard input after the user was notified of the wait. The limit is
/// long, because e.g. a test suite may print nothing for minutes.
pub(crate) const STDIN_IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Time limit for closing the session after the turn.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for the current write to the output after a signal.
pub(crate) const FINAL_PRINT_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum number of times that a question is asked until the answer is valid.
pub(crate) const MAX_QUESTION_ATTEMPTS: usize = 5;
