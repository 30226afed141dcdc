//! The running recordings of changes. A recording may go on after the end of its call.

use std::sync::{Arc, Condvar, Mutex};

use crate::limits::MAX_RECORDING_WAIT;
use crate::lock::lock;

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
    pub(super) fn wait(&self) {
        let is_recording = |count: &mut usize| *count > 0;
        let count = lock(&self.count);
        drop(self.ended.wait_timeout_while(count, MAX_RECORDING_WAIT, is_recording));
    }
}
