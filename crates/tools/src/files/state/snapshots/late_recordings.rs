//! The recordings of changes that go on after the end of their calls.

use std::sync::{Arc, Condvar, Mutex};

use crate::limits::MAX_LATE_RECORDING_TIME;
use crate::lock::lock;

/// The number of late recordings of a session.
#[derive(Debug, Default)]
pub(super) struct LateRecordings {
    count: Mutex<usize>,
    ended: Condvar,
}

/// A recording that goes on after the end of its call, until this value is dropped.
#[derive(Debug)]
pub(crate) struct LateRecording(Arc<LateRecordings>);

impl LateRecording {
    pub(super) fn begin(recordings: &Arc<LateRecordings>) -> Self {
        *lock(&recordings.count) += 1;
        Self(recordings.clone())
    }
}

impl Drop for LateRecording {
    fn drop(&mut self) {
        *lock(&self.0.count) -= 1;
        self.0.ended.notify_all();
    }
}

impl LateRecordings {
    /// Waits until all recordings have ended, but no longer than [`MAX_LATE_RECORDING_TIME`].
    pub(super) fn wait(&self) {
        let is_recording = |count: &mut usize| *count > 0;
        let count = lock(&self.count);
        drop(self.ended.wait_timeout_while(count, MAX_LATE_RECORDING_TIME, is_recording));
    }
}
