//! The running recordings of changes. A recording may go on after the end of its call.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::MAX_RECORDING_WAIT;
use crate::lock::lock;

/// Time between two checks whether a wait was cancelled.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The number of running recordings of a session.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    count: Mutex<usize>,
    ended: Condvar,
}

/// A recording that runs until this value is dropped.
#[derive(Debug)]
pub(crate) struct RunningRecording(Arc<Recordings>);

impl RunningRecording {
    pub(super) fn begin(recordings: &Arc<Recordings>) -> Self {
        *lock(&recordings.count) += 1;
        Self(recordings.clone())
    }
}

impl Drop for RunningRecording {
    fn drop(&mut self) {
        *lock(&self.0.count) -= 1;
        self.0.ended.notify_all();
    }
}

impl Recordings {
    /// Waits until all recordings have ended, but no longer than [`MAX_RECORDING_WAIT`].
    pub(super) fn wait(&self, is_cancelled: &dyn Fn() -> bool) {
        let deadline = Instant::now() + MAX_RECORDING_WAIT;
        let mut count = lock(&self.count);
        while *count > 0 && Instant::now() < deadline && !is_cancelled() {
            let waited = self.ended.wait_timeout(count, CANCEL_CHECK_INTERVAL);
            (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
