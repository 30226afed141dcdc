//! Every bound of this crate: what it limits, in which unit, and why it has that size.

use std::time::Duration;

/// Prompts of one session that wait for the turn before them, unless set otherwise; a further one is
/// answered as busy.
pub(crate) const MAX_WAITING_PROMPTS: usize = 8;

/// The most prompts that can be set to wait.
pub(crate) const WAITING_PROMPTS_BOUND: usize = 64;

/// Time for turns that were given up to be dropped. One that blocks its thread takes longer, and is
/// answered without it.
pub(crate) const ABORTED_TURN_TIMEOUT: Duration = Duration::from_millis(100);

/// Time for a session that was given up to send its last items; more than [`GIVEN_UP`].
pub(crate) const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_millis(300);
