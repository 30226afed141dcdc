//! The limits of this crate, with their units and reasons.

use std::time::Duration;

/// Default number of prompts of one session that may wait for earlier turns. A further prompt is
/// answered as busy.
pub(crate) const MAX_WAITING_PROMPTS: usize = 8;

/// Largest value that can be configured for the number of waiting prompts.
pub(crate) const WAITING_PROMPTS_BOUND: usize = 64;

/// Time limit for dropping aborted turns. A turn that blocks its thread cannot be dropped in time,
/// so its prompt is answered before the turn ends.
pub(crate) const ABORTED_TURN_TIMEOUT: Duration = Duration::from_millis(100);

/// Time limit for an aborted session to send its last items. The limit is longer than
/// [`ABORTED_TURN_TIMEOUT`], because it includes the time for dropping the aborted turns, whose
/// items are sent last.
pub(crate) const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_millis(300);

/// Time that turns have to end when a session or the connection closes, for an agent that is served
/// by [`serve_stdio`](crate::serve_stdio).
pub(crate) const STDIO_GRACE: Duration = Duration::from_secs(1);
