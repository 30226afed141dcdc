//! Bytes on their way from the thread that reads a terminal to whoever shows them.
//!
//! Where they are recorded too, showing them may lose some, and the command waits for nobody who
//! looks. Where they are not, all arrive. In both cases the command waits while nobody takes them.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::record::Recording;
use super::text::{HeadTail, after_gap};
use super::{Piece, whole};
use crate::limits::{OUTPUT_CHUNKS, READ_BYTES, SHOWN_BYTES, SHOWN_INTERVAL};
use crate::lock::lock;

/// Makes the two ends. What is recorded is shown by its beginning and its end where it comes
/// faster than [`SHOWN_BYTES`] in [`SHOWN_INTERVAL`], with a count of the rest between them.
pub(crate) fn channel(recording: Option<Arc<Recording>>) -> (Sender, Receiver) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State::of(recording.is_some())),
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
    waiting: HeadTail,
    /// Somebody waits for bytes.
    is_heard: bool,
    /// When somebody took some.
    taken: Option<Instant>,
    is_over: bool,
    is_left: bool,
}

impl State {
    fn of(is_recorded: bool) -> Self {
        let waiting = waiting(is_recorded);
        Self { waiting, is_heard: false, taken: None, is_over: false, is_left: false }
    }
}

/// What waits to be taken: all of it, or its beginning and its end.
fn waiting(is_recorded: bool) -> HeadTail {
    HeadTail::new(if is_recorded { SHOWN_BYTES } else { usize::MAX })
}

impl Shared {
    /// Whether the command has to wait. It does not for whoever has just taken something, and has to
    /// show it before taking more.
    fn is_full(&self, state: &State) -> bool {
        let is_busy = || state.taken.is_some_and(|taken| taken.elapsed() < SHOWN_INTERVAL);
        let (room, may_lose) = match self.recording {
            Some(_) => (SHOWN_BYTES, state.is_heard || is_busy()),
            None => (OUTPUT_CHUNKS * READ_BYTES, false),
        };
        !state.is_left && !may_lose && state.waiting.kept() >= room
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
        let was_empty = state.waiting.total() == 0;
        state.waiting.push(bytes);
        if was_empty {
            shared.filled.notify_one();
        }
        !state.is_left
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        lock(&self.0.state).is_over = true;
        self.0.filled.notify_one();
    }
}

impl Receiver {
    /// Takes what has come, once something has; nothing, when nothing will come any more. Bytes
    /// that are recorded come at intervals, the first of them at once. Loses nothing when dropped.
    pub(crate) async fn recv(&mut self) -> Option<Taken> {
        loop {
            let is_empty = {
                let mut state = lock(&self.shared.state);
                state.is_heard = true;
                self.shared.room.notify_one();
                let is_empty = state.waiting.total() == 0;
                let is_due = state.is_over || self.due.is_none_or(|due| due <= Instant::now());
                if is_due && !is_empty {
                    (state.is_heard, state.taken) = (false, Some(Instant::now()));
                    let next = waiting(self.shared.recording.is_some());
                    let taken = mem::replace(&mut state.waiting, next);
                    self.shared.room.notify_one();
                    drop(state);
                    self.due =
                        self.shared.recording.as_ref().map(|_| Instant::now() + SHOWN_INTERVAL);
                    return Some(Taken::of(&taken));
                }
                if is_empty && state.is_over {
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
        lock(&self.shared.state).is_left = true;
        self.shared.room.notify_one();
    }
}

/// What was taken: its beginning, how much is lost behind it, and its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    head: Vec<u8>,
    lost: u64,
    tail: Vec<u8>,
}

impl Taken {
    fn of(taken: &HeadTail) -> Self {
        let (mut head, mut tail) = (taken.head().to_vec(), <[_; 2]>::from(taken.tail()).concat());
        if taken.total() == taken.kept() as u64 {
            head.append(&mut tail);
        } else {
            head.truncate(whole(&head));
            tail.drain(..after_gap(&tail));
        }
        let lost = taken.total() - (head.len() + tail.len()) as u64;
        Self { head, lost, tail }
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Passes it on in its pieces.
    pub(crate) fn pass(&self, mut to: impl FnMut(Piece<'_>)) {
        to(Piece::Bytes(&self.head));
        if self.lost > 0 {
            to(Piece::LeftOut(self.lost));
            to(Piece::Bytes(&self.tail));
        }
    }
}

#[cfg(test)]
mod tests;
