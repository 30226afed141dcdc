//! A channel between the thread that reads a command's output and the task that shows it.
//!
//! If the output is also recorded, the display may skip some bytes, and the command does not wait
//! for a slow display. If the output is not recorded, all bytes arrive. In both cases the command
//! waits if the receiver stops receiving altogether.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::record::Recording;
use super::text::{HeadTail, bytes_to_omit_after_gap};
use super::{OutputBytesOrGap, complete_utf8_len};
use crate::limits::{
    LIVE_OUTPUT_INTERVAL, MAX_BUFFERED_READS, MAX_LIVE_OUTPUT_BYTES, OUTPUT_READ_BYTES,
};
use crate::lock::lock;

/// Creates the sender and the receiver. If recorded output exceeds [`MAX_LIVE_OUTPUT_BYTES`] per
/// [`LIVE_OUTPUT_INTERVAL`], the receiver gets only the beginning and the end of the output, with
/// the number of omitted bytes.
pub(crate) fn channel(recording: Option<Arc<Recording>>) -> (Sender, Receiver) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State::new(recording.is_some())),
        room: Condvar::new(),
        filled: Notify::new(),
        recording,
    });
    (Sender(Arc::clone(&shared)), Receiver { shared, due: None })
}

/// Sends output from the reading thread.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Shared>);

/// Receives output in the task that shows it.
#[derive(Debug)]
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    /// Earliest time at which the next bytes may be received.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when space is free or the receiver is closed.
    room: Condvar,
    /// Notified when bytes are available or the sender is closed.
    filled: Notify,
    recording: Option<Arc<Recording>>,
}

#[derive(Debug)]
struct State {
    buffered: HeadTail,
    /// Whether the receiver waits for bytes.
    is_receiver_waiting: bool,
    /// Time of the last receive.
    last_taken_at: Option<Instant>,
    is_sender_closed: bool,
    is_receiver_closed: bool,
}

impl State {
    fn new(is_recorded: bool) -> Self {
        let buffered = new_buffer_limited_if_recorded(is_recorded);
        Self {
            buffered,
            is_receiver_waiting: false,
            last_taken_at: None,
            is_sender_closed: false,
            is_receiver_closed: false,
        }
    }
}

/// Returns a buffer for bytes that the receiver has not received yet. If the output is recorded,
/// the buffer keeps only the beginning and the end.
fn new_buffer_limited_if_recorded(is_recorded: bool) -> HeadTail {
    HeadTail::new(if is_recorded { MAX_LIVE_OUTPUT_BYTES } else { usize::MAX })
}

impl Shared {
    /// Returns whether the command has to wait. The command does not wait while the receiver still
    /// shows a recorded chunk that it just received.
    fn must_sender_wait(&self, state: &State) -> bool {
        let is_busy =
            || state.last_taken_at.is_some_and(|taken| taken.elapsed() < LIVE_OUTPUT_INTERVAL);
        let (room, may_lose) = match self.recording {
            Some(_) => (MAX_LIVE_OUTPUT_BYTES, state.is_receiver_waiting || is_busy()),
            None => (MAX_BUFFERED_READS * OUTPUT_READ_BYTES, false),
        };
        !state.is_receiver_closed && !may_lose && state.buffered.kept_bytes() >= room
    }
}

impl Sender {
    /// Records and sends bytes, and blocks while the buffer is full. Returns whether the receiver
    /// still exists.
    pub(crate) fn record_and_send(&self, bytes: &[u8]) -> bool {
        let Self(shared) = self;
        if let Some(recording) = &shared.recording {
            recording.push(bytes);
        }
        let mut state = lock(&shared.state);
        while shared.must_sender_wait(&state) {
            state = shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let was_empty = state.buffered.total_bytes() == 0;
        state.buffered.push(bytes);
        if was_empty {
            shared.filled.notify_one();
        }
        !state.is_receiver_closed
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        lock(&self.0.state).is_sender_closed = true;
        self.0.filled.notify_one();
    }
}

impl Receiver {
    /// Receives the buffered bytes as soon as there are some; returns `None` after the last bytes.
    /// The first recorded bytes arrive at once, and all later ones at intervals. This method is
    /// cancel safe.
    pub(crate) async fn recv(&mut self) -> Option<OutputChunk> {
        loop {
            let is_empty = {
                let mut state = lock(&self.shared.state);
                state.is_receiver_waiting = true;
                self.shared.room.notify_one();
                let is_empty = state.buffered.total_bytes() == 0;
                let is_due =
                    state.is_sender_closed || self.due.is_none_or(|due| due <= Instant::now());
                if is_due && !is_empty {
                    (state.is_receiver_waiting, state.last_taken_at) =
                        (false, Some(Instant::now()));
                    let next = new_buffer_limited_if_recorded(self.shared.recording.is_some());
                    let taken = mem::replace(&mut state.buffered, next);
                    self.shared.room.notify_one();
                    drop(state);
                    self.due = self
                        .shared
                        .recording
                        .as_ref()
                        .map(|_| Instant::now() + LIVE_OUTPUT_INTERVAL);
                    return Some(OutputChunk::from_head_tail(&taken));
                }
                if is_empty && state.is_sender_closed {
                    return None;
                }
                is_empty
            };
            let filled = self.shared.filled.notified();
            match self.due {
                // Only the end of the output ends this pause early.
                Some(due) if !is_empty => drop(timeout_at(due, filled).await),
                _ => filled.await,
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        lock(&self.shared.state).is_receiver_closed = true;
        self.shared.room.notify_one();
    }
}

/// Received bytes: their beginning, the number of omitted bytes, and their end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutputChunk {
    head: Vec<u8>,
    omitted_bytes: u64,
    tail: Vec<u8>,
}

impl OutputChunk {
    fn from_head_tail(taken: &HeadTail) -> Self {
        let (mut head, mut tail) = (taken.head().to_vec(), <[_; 2]>::from(taken.tail()).concat());
        if taken.total_bytes() == taken.kept_bytes() as u64 {
            head.append(&mut tail);
        } else {
            head.truncate(complete_utf8_len(&head));
            tail.drain(..bytes_to_omit_after_gap(&tail));
        }
        let omitted_bytes = taken.total_bytes() - (head.len() + tail.len()) as u64;
        Self { head, omitted_bytes, tail }
    }

    /// Returns the number of bytes in this chunk.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Passes each piece to `to`, in order.
    pub(crate) fn for_each_piece(&self, mut to: impl FnMut(OutputBytesOrGap<'_>)) {
        to(OutputBytesOrGap::Bytes(&self.head));
        if self.omitted_bytes > 0 {
            to(OutputBytesOrGap::Omitted(self.omitted_bytes));
            to(OutputBytesOrGap::Bytes(&self.tail));
        }
    }
}

#[cfg(test)]
mod tests;
