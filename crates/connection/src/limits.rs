//! The bounds of this crate: unit, and reason of each size.

use std::time::Duration;

/// Default number of prompts of one session that may wait for the turn before them; a further one
/// is answered as busy.
pub(crate) const MAX_WAITING_PROMPTS: usize = 8;

/// Maximum number of waiting prompts that can be configured.
pub(crate) const WAITING_PROMPTS_BOUND: usize = 64;

/// Time for aborted turns to be dropped. A turn that blocks its thread takes longer, and its prompt
/// is answered without it.
pub(crate) const ABORTED_TURN_TIMEOUT: Duration = Duration::from_millis(100);

/// Time for an aborted session to send its last items; longer than [`ABORTED_TURN_TIMEOUT`].
pub(crate) const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_millis(300);
