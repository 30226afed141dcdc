//! Bytes on their way from the thread that reads a terminal to whoever shows them.
//!
//! Where they are recorded too, showing them may lose some, and the command waits for nobody who
//! looks. Where they are not, all arrive. In both cases the command waits while nobody takes them.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::record::Recording;
use super::text::{HeadTail, ragged_prefix_len};
use super::{OutputPiece, complete_utf8_len};
use crate::limits::{
    LIVE_OUTPUT_INTERVAL, MAX_BUFFERED_READS, MAX_LIVE_OUTPUT_BYTES, OUTPUT_READ_BYTES,
};
use crate::lock::lock;

/// Makes the two ends. What is recorded is shown by its beginning and its end where it comes
/// faster than [`SHOWN_BYTES`] in [`SHOWN_INTERVAL`], with a count of the rest between them.
pub(crate) fn channel(recording: Option<Arc<Recording>>) -> (Sender, Receiver) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State::new(recording.is_some())),
        room: Condvar::new(),
        filled: Notify::new(),
        recording,
    });
    (Sender(Arc::clone(&shared)), Receiver { shared, due: None })
}

/// The end of the thread that reads.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Shared>);

/// The end of whoever shows.
#[derive(Debug)]
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    /// When the next bytes may be taken.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is room again, or nobody takes anything any more.
    room: Condvar,
    /// There is something to take, or nothing will come any more.
    filled: Notify,
    recording: Option<Arc<Recording>>,
}

#[derive(Debug)]
struct State {
    buffered: HeadTail,
    /// Somebody waits for bytes.
    is_receiver_waiting: bool,
    /// When somebody took some.
    last_taken_at: Option<Instant>,
    is_sender_closed: bool,
    is_receiver_closed: bool,
}

impl State {
    fn new(is_recorded: bool) -> Self {
        let buffered = new_buffer(is_recorded);
        Self {
            buffered,
            is_receiver_waiting: false,
            last_taken_at: None,
            is_sender_closed: false,
            is_receiver_closed: false,
        }
    }
}

/// What waits to be taken: all of it, or its beginning and its end.
fn new_buffer(is_recorded: bool) -> HeadTail {
    HeadTail::new(if is_recorded { MAX_LIVE_OUTPUT_BYTES } else { usize::MAX })
}

impl Shared {
    /// Whether the command has to wait. It does not for whoever has just taken something, and has to
    /// show it before taking more.
    fn is_full(&self, state: &State) -> bool {
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
    /// Records and passes on what was read, as soon as there is room. Tells whether there is
    /// anybody to take it.
    pub(crate) fn send(&self, bytes: &[u8]) -> bool {
        let Self(shared) = self;
        if let Some(recording) = &shared.recording {
            recording.push(bytes);
        }
        let mut state = lock(&shared.state);
        while shared.is_full(&state) {
            state = shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let was_empty = state.buffered.total() == 0;
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
    /// Takes what has come, once something has; nothing, when nothing will come any more. Bytes
    /// that are recorded come at intervals, the first of them at once. Loses nothing when dropped.
    pub(crate) async fn recv(&mut self) -> Option<OutputChunk> {
        loop {
            let is_empty = {
                let mut state = lock(&self.shared.state);
                state.is_receiver_waiting = true;
                self.shared.room.notify_one();
                let is_empty = state.buffered.total() == 0;
                let is_due =
                    state.is_sender_closed || self.due.is_none_or(|due| due <= Instant::now());
                if is_due && !is_empty {
                    (state.is_receiver_waiting, state.last_taken_at) =
                        (false, Some(Instant::now()));
                    let next = new_buffer(self.shared.recording.is_some());
                    let taken = mem::replace(&mut state.buffered, next);
                    self.shared.room.notify_one();
                    drop(state);
                    self.due = self
                        .shared
                        .recording
                        .as_ref()
                        .map(|_| Instant::now() + LIVE_OUTPUT_INTERVAL);
                    return Some(OutputChunk::from_buffer(&taken));
                }
                if is_empty && state.is_sender_closed {
                    return None;
                }
                is_empty
            };
            let filled = self.shared.filled.notified();
            match self.due {
                // Woken early only by the end.
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

/// What was taken: its beginning, how much is lost behind it, and its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutputChunk {
    head: Vec<u8>,
    omitted_bytes: u64,
    tail: Vec<u8>,
}

impl OutputChunk {
    fn from_buffer(taken: &HeadTail) -> Self {
        let (mut head, mut tail) = (taken.head().to_vec(), <[_; 2]>::from(taken.tail()).concat());
        if taken.total() == taken.kept_bytes() as u64 {
            head.append(&mut tail);
        } else {
            head.truncate(complete_utf8_len(&head));
            tail.drain(..ragged_prefix_len(&tail));
        }
        let omitted_bytes = taken.total() - (head.len() + tail.len()) as u64;
        Self { head, omitted_bytes, tail }
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Passes it on in its pieces.
    pub(crate) fn for_each_piece(&self, mut to: impl FnMut(OutputPiece<'_>)) {
        to(OutputPiece::Bytes(&self.head));
        if self.omitted_bytes > 0 {
            to(OutputPiece::Omitted(self.omitted_bytes));
            to(OutputPiece::Bytes(&self.tail));
        }
    }
}

#[cfg(test)]
mod tests;
