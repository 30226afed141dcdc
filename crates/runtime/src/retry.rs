//! Waits for the next event of a reply, and determines the delay before a failed request is
//! retried.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

use callboard_models::{ModelError, ModelErrorKind, ModelEvent, ReplyStream};
use futures::StreamExt as _;
use tokio::time::timeout;

use crate::limits;

/// Waits for the next event of a reply. Returns an error if no event arrives within
/// [`limits::MODEL_IDLE_TIMEOUT`].
pub(crate) async fn next_event_within_idle_timeout(
    reply: &mut ReplyStream,
) -> Result<ModelEvent, ModelError> {
    match timeout(limits::MODEL_IDLE_TIMEOUT, reply.next()).await {
        Ok(Some(event)) => Ok(event),
        Ok(None) => Err(ModelError::new(ModelErrorKind::Transient, "its reply was cut off")),
        Err(_elapsed) => {
            let seconds = limits::MODEL_IDLE_TIMEOUT.as_secs();
            Err(ModelError::new(
                ModelErrorKind::IdleTimeout,
                format!("it said nothing for {seconds} s"),
            ))
        }
    }
}

/// The attempts at one request so far.
#[derive(Debug)]
pub(crate) struct RetryState {
    delays: ExponentialBackoff,
    /// Remaining number of retries with a cost for the user: output is shown a second time, or a
    /// wait of minutes is repeated.
    costly_attempts_left: usize,
    total_delay: Duration,
}

/// Whether a part of an interrupted reply was shown to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartialOutput {
    /// No part of the reply was shown.
    None,
    /// A part of the reply was shown, and a retry will show it again.
    Shown,
}

impl RetryState {
    pub(crate) fn new() -> Self {
        let delays = ExponentialBuilder::new()
            .with_min_delay(limits::FIRST_RETRY_DELAY)
            .with_max_delay(limits::MAX_RETRY_DELAY)
            .with_max_times(limits::MAX_RETRIES)
            .with_jitter()
            .build();
        Self {
            delays,
            costly_attempts_left: limits::MAX_COSTLY_RETRIES,
            total_delay: Duration::ZERO,
        }
    }

    /// Returns the delay before the request is retried. Returns `None` if the request must not be
    /// retried. If the provider asks for a delay of at most [`limits::MAX_RETRY_DELAY`], that delay
    /// is returned.
    pub(crate) fn next_retry_delay(
        &mut self,
        error: &ModelError,
        partial: PartialOutput,
    ) -> Option<Duration> {
        match (error.kind, partial) {
            (ModelErrorKind::Transient, PartialOutput::None) => {}
            (ModelErrorKind::Transient, PartialOutput::Shown)
            | (ModelErrorKind::IdleTimeout, _) => {
                self.costly_attempts_left = self.costly_attempts_left.checked_sub(1)?;
            }
            _ => return None,
        }
        let own = self.delays.next()?.min(limits::MAX_RETRY_DELAY);
        let pause = error.retry_after.filter(|asked| !asked.is_zero()).unwrap_or(own);
        self.total_delay += pause;
        let fits =
            pause <= limits::MAX_RETRY_DELAY && self.total_delay <= limits::MAX_TOTAL_RETRY_DELAY;
        fits.then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::{PartialOutput, RetryState};
    use crate::limits;
    use callboard_models::{ModelError, ModelErrorKind};
    use std::time::Duration;

    fn error(fault: ModelErrorKind, retry_after: Option<Duration>) -> ModelError {
        ModelError::new(fault, "busy").with_retry_after(retry_after)
    }

    /// Returns the delays before all retries of a request that always fails with the same error.
    fn pauses(error: &ModelError, partial: PartialOutput) -> Vec<Duration> {
        let mut retry = RetryState::new();
        std::iter::from_fn(|| retry.next_retry_delay(error, partial)).take(100).collect()
    }

    #[test]
    fn only_transient_errors_are_retried_and_within_limits() {
        for fault in [
            ModelErrorKind::Auth,
            ModelErrorKind::ContextTooLong,
            ModelErrorKind::Unreachable,
            ModelErrorKind::Other,
        ] {
            assert_eq!(pauses(&error(fault, None), PartialOutput::None).len(), 0);
        }
        let busy = pauses(&error(ModelErrorKind::Transient, None), PartialOutput::None);
        assert_eq!(busy.len(), limits::MAX_RETRIES);
        for (times, pause) in busy.iter().enumerate() {
            let least = limits::FIRST_RETRY_DELAY * (1 << times);
            assert!((least..=least * 2).contains(pause), "{times}: {pause:?}");
        }
        for (fault, partial) in [
            (ModelErrorKind::Transient, PartialOutput::Shown),
            (ModelErrorKind::IdleTimeout, PartialOutput::None),
        ] {
            let costly = pauses(&error(fault, None), partial);
            assert_eq!(costly.len(), limits::MAX_COSTLY_RETRIES, "{fault:?}");
        }
    }

    #[test]
    fn the_delay_of_the_provider_is_used_within_limits() {
        let asked = |seconds| {
            let error = error(ModelErrorKind::Transient, Some(Duration::from_secs(seconds)));
            pauses(&error, PartialOutput::None)
        };
        assert_eq!(asked(7), [Duration::from_secs(7); limits::MAX_RETRIES]);
        assert_eq!(asked(50), [Duration::from_secs(50); 2], "all pauses have a bound together");
        assert_eq!(asked(61).len(), 0);
        assert_eq!(asked(u64::MAX).len(), 0);
        assert_eq!(asked(0).len(), limits::MAX_RETRIES);
    }
}
