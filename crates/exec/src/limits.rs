//! Limits of this crate, with their units and reasons.

use std::time::Duration;

/// Bytes of standard input that become the context of a prompt; the rest is dropped.
pub(crate) const MAX_PIPED_CONTEXT_BYTES: usize = 256 << 10;

/// Time without data on standard input after which the user is notified of the wait.
pub(crate) const STDIN_NOTE_DELAY: Duration = Duration::from_secs(5);

/// Time limit for each further read of standard input. The limit is long, because a test suite may
/// print nothing for minutes.
pub(crate) const STDIN_IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Time limit for closing the session after the turn.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for waiting for the current write after a signal.
pub(crate) const FINAL_PRINT_TIMEOUT: Duration = Duration::from_millis(200);

/// Number of times that an unanswered question is asked.
pub(crate) const MAX_QUESTION_ATTEMPTS: usize = 5;
