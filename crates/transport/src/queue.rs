//! What the reader, the writer and the connection's future share: the lines not yet written, and
//! how much the client may still ask.
//!
//! Knows nothing of JSON and does no input or output.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol::RawJsonRpcId;

use crate::counters::{Counters, add};
use crate::limits::{
    HANDSHAKE_LOOK, KEPT_BUFFER_BYTES, MAX_QUEUED_ANSWER_BYTES, MAX_UNANSWERED_BYTES,
    MAX_UNANSWERED_REQUESTS, PARKED_LOOK, SMALL_REQUEST_BYTES,
};

/// The outgoing lines in order, and the room for more requests.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// The writer waits here for lines.
    filled: Condvar,
    /// The reader waits here for room.
    drained: Condvar,
    /// Tells whether nobody writes to the input any more.
    hung_up: HungUp,
    counters: Arc<Counters>,
}

/// Tells, without reading, whether nobody writes to the input any more.
pub(crate) type HungUp = Box<dyn Fn() -> bool + Send + Sync>;

/// What a line is to the bounds of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The response to a request.
    Answer,
    /// The error response to a line that was no message.
    Refusal,
    /// A request or notification of ours; bounded by whoever sends it.
    Ours,
    /// A `$/cancel_request` that the SDK sends for a request of ours that is dropped.
    Cancel,
}

impl Kind {
    /// Whether it counts for the bound of answers.
    fn is_answer(self) -> bool {
        matches!(self, Self::Answer | Self::Refusal)
    }
}

/// The queue takes no more lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// Whether a request may be handed over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may, and counts as unanswered under this number. A client may use an id twice.
    Admitted(u64),
    /// It is large, and so are those before it.
    Busy,
}

#[derive(Debug, Default)]
struct State {
    /// The lines that the writer has not taken, back to back.
    pending: Vec<u8>,
    /// Every line not wholly written, those that the writer has taken first.
    unwritten: VecDeque<(Kind, usize)>,
    /// Bytes written of the first of them.
    written: usize,
    /// Bytes of those that are answers or refusals.
    answer_bytes: usize,
    /// Requests admitted and not answered, oldest first.
    unanswered: VecDeque<Unanswered>,
    /// Bytes of those.
    unanswered_bytes: usize,
    /// The number of the request that was admitted last.
    last_number: u64,
    closed: bool,
}

#[derive(Debug)]
struct Unanswered {
    number: u64,
    id: RawJsonRpcId,
    /// Estimated bytes of its message.
    bytes: usize,
}

/// Lines that were wholly written.
#[derive(Debug, Default)]
struct Done {
    lines: usize,
    ours: usize,
    ours_bytes: usize,
}

impl Queue {
    pub(crate) fn new(counters: Arc<Counters>, hung_up: HungUp) -> Self {
        let (state, filled, drained) = Default::default();
        Self { state, filled, drained, hung_up, counters }
    }

    /// Waits until one more request may be handed over, and counts it as unanswered.
    ///
    /// It never waits for bytes: a large request that is answered only after a turn would hold
    /// back the cancel of that turn.
    pub(crate) fn admit(&self, id: &RawJsonRpcId, bytes: usize) -> Result<Admission, Closed> {
        let mut state = self.wait_for_room(State::has_room_for_request)?;
        if bytes > SMALL_REQUEST_BYTES && state.unanswered_bytes + bytes > MAX_UNANSWERED_BYTES {
            return Ok(Admission::Busy);
        }
        state.last_number += 1;
        let number = state.last_number;
        state.unanswered.push_back(Unanswered { number, id: id.clone(), bytes });
        state.unanswered_bytes += bytes;
        Ok(Admission::Admitted(number))
    }

    /// Waits until the request that was admitted under this number is answered.
    ///
    /// There is no deadline: a request that its handler drops is answered by the SDK.
    pub(crate) fn wait_for_answer(&self, number: u64) -> Result<(), Closed> {
        self.wait(HANDSHAKE_LOOK, |state| !state.is_unanswered(number)).map(drop)
    }

    /// Waits until one more answer may be queued, and queues it.
    pub(crate) fn refuse(&self, line: &[u8]) -> Result<(), Closed> {
        let state = self.wait_for_room(State::has_room_for_answer)?;
        self.append(state, line, Kind::Refusal);
        Ok(())
    }

    /// Queues the response to a request without waiting; drops it when the queue is closed.
    pub(crate) fn answer(&self, line: &[u8], id: &RawJsonRpcId) {
        self.lock().settle(id);
        self.push(line, Kind::Answer);
    }

    /// Queues a line without waiting; drops it when the queue is closed.
    pub(crate) fn push(&self, line: &[u8], kind: Kind) {
        let state = self.lock();
        if !state.closed {
            self.append(state, line, kind);
        }
    }

    /// Waits for lines and swaps all of them for the emptied `buffer`. Returns whether there are
    /// any, which is false only when the queue is closed and empty.
    pub(crate) fn take(&self, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        buffer.shrink_to(KEPT_BUFFER_BYTES);
        let mut state = self.lock();
        while state.pending.is_empty() && !state.closed {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.pending, buffer);
        !buffer.is_empty()
    }

    /// Counts the next `bytes` of what was taken as written.
    pub(crate) fn advance(&self, bytes: usize) {
        add(&self.counters.bytes_written, bytes);
        let done = self.lock().advance(bytes);
        add(&self.counters.lines_written, done.lines);
        add(&self.counters.ours_written, done.ours);
        self.counters.ours_bytes.fetch_sub(done.ours_bytes as u64, Relaxed);
        self.drained.notify_all();
        if done.lines > 0 {
            self.counters.written.notify_waiters();
        }
    }

    /// Takes no more lines and admits nothing; what is queued is still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }

    /// Closes the queue and forgets what is in it: nobody writes it any more.
    pub(crate) fn abandon(&self) {
        self.lock().pending = Vec::new();
        self.close();
    }

    fn append(&self, mut state: MutexGuard<'_, State>, line: &[u8], kind: Kind) {
        state.append(line, kind);
        add(&self.counters.lines_queued, 1);
        if kind == Kind::Ours {
            add(&self.counters.ours_bytes, line.len());
        }
        drop(state);
        self.filled.notify_all();
        self.drained.notify_all();
    }

    fn wait_for_room(&self, has_room: fn(&State) -> bool) -> Result<MutexGuard<'_, State>, Closed> {
        self.wait(PARKED_LOOK, has_room)
    }

    /// Waits for a state, but not for ever when nobody writes to the input any more: its end cannot
    /// be read from behind what is held back. `look` is the time between two looks at the input.
    fn wait(
        &self,
        look: Duration,
        is_met: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'_, State>, Closed> {
        let waits = |state: &mut State| !state.closed && !is_met(state);
        let mut state = self.lock();
        loop {
            let waited = self.drained.wait_timeout_while(state, look, waits);
            let timeout;
            (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.closed {
                return Err(Closed);
            }
            if !timeout.timed_out() {
                return Ok(state);
            }
            if (self.hung_up)() {
                tracing::warn!("the input has ended behind requests that cannot be answered");
                return Err(Closed);
            }
        }
    }

    /// No step leaves the state half changed, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room_for_answer(&self) -> bool {
        self.answer_bytes <= MAX_QUEUED_ANSWER_BYTES
    }

    fn has_room_for_request(&self) -> bool {
        self.has_room_for_answer() && self.unanswered.len() < MAX_UNANSWERED_REQUESTS
    }

    fn is_unanswered(&self, number: u64) -> bool {
        self.unanswered.iter().any(|request| request.number == number)
    }

    /// Forgets the newest request with this id: of two with the same id, the one that is waited for
    /// is the newest, and an older one may be answered only by a line that is behind it.
    fn settle(&mut self, id: &RawJsonRpcId) {
        let at = self.unanswered.iter().rposition(|request| request.id == *id);
        if let Some(request) = at.and_then(|at| self.unanswered.remove(at)) {
            self.unanswered_bytes -= request.bytes;
        }
    }

    fn append(&mut self, line: &[u8], kind: Kind) {
        self.pending.extend_from_slice(line);
        self.unwritten.push_back((kind, line.len()));
        if kind.is_answer() {
            self.answer_bytes += line.len();
        }
    }

    /// Returns what these bytes completed.
    fn advance(&mut self, bytes: usize) -> Done {
        self.written += bytes;
        let mut done = Done::default();
        while let Some(&(kind, length)) = self.unwritten.front()
            && length <= self.written
        {
            self.unwritten.pop_front();
            self.written -= length;
            if kind == Kind::Ours {
                done.ours += 1;
                done.ours_bytes += length;
            } else if kind.is_answer() {
                self.answer_bytes -= length;
            }
            done.lines += 1;
        }
        done
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Queue").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use pretty_assertions::assert_eq;

    use super::*;

    fn queue() -> (Queue, Arc<Counters>) {
        let counters = Arc::<Counters>::default();
        (Queue::new(counters.clone(), Box::new(|| false)), counters)
    }

    const ID: RawJsonRpcId = RawJsonRpcId::Number(1);

    fn admit(queue: &Queue) -> Result<Admission, Closed> {
        queue.admit(&ID, 10)
    }

    #[test]
    fn lines_count_as_written_when_their_last_byte_is() {
        let (queue, counters) = queue();
        queue.push(b"one\n", Kind::Ours);
        queue.push(b"three\n", Kind::Answer);
        let mut taken = Vec::new();
        assert!(queue.take(&mut taken));
        assert_eq!(taken, b"one\nthree\n");
        queue.push(b"x\n", Kind::Ours);

        let mut seen = Vec::new();
        for bytes in [3, 1, 5, 1, 2] {
            queue.advance(bytes);
            let counts = counters.snapshot();
            seen.push((counts.lines_written, counts.in_flight(), queue.lock().answer_bytes));
        }
        assert_eq!(seen, [(0, 3, 6), (1, 2, 6), (1, 2, 6), (2, 1, 0), (3, 0, 0)]);
    }

    #[test]
    fn requests_are_admitted_until_too_many_are_unanswered() {
        let (queue, _) = queue();
        for _ in 0..MAX_UNANSWERED_REQUESTS {
            assert!(queue.lock().has_room_for_request());
            assert!(admit(&queue).is_ok());
        }
        assert!(!queue.lock().has_room_for_request() && queue.lock().has_room_for_answer());
        queue.push(b"{}\n", Kind::Ours);
        queue.refuse(b"{}\n").unwrap();
        assert!(!queue.lock().has_room_for_request());

        thread::scope(|scope| {
            let waiting = scope.spawn(|| admit(&queue));
            queue.answer(b"{}\n", &ID);
            assert!(waiting.join().unwrap().is_ok());
        });
        assert!(!queue.lock().has_room_for_request());
    }

    #[test]
    fn of_requests_with_one_id_the_newest_is_the_one_that_is_answered() {
        let (queue, _) = queue();
        assert_eq!(admit(&queue), Ok(Admission::Admitted(1)));
        assert_eq!(admit(&queue), Ok(Admission::Admitted(2)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait_for_answer(2));
            queue.answer(b"{}\n", &ID);
            assert_eq!(waiting.join().unwrap(), Ok(()));
            assert!(queue.lock().is_unanswered(1));
            // It waits, or comes too late; only if it did neither would it pass.
            let waiting = scope.spawn(|| queue.wait_for_answer(1));
            queue.close();
            assert_eq!(waiting.join().unwrap(), Err(Closed));
        });
    }

    #[test]
    fn large_requests_are_turned_away_until_those_before_are_answered() {
        let (queue, _) = queue();
        let ids: [RawJsonRpcId; 3] = ["a", "b", "c"].map(|id| RawJsonRpcId::Str(id.to_owned()));
        let half = MAX_UNANSWERED_BYTES / 2;
        for (id, bytes, admission) in [
            (&ids[0], half, Admission::Admitted(1)),
            (&ids[1], half + 1, Admission::Busy),
            (&ids[1], half, Admission::Admitted(2)),
            (&ids[2], SMALL_REQUEST_BYTES + 1, Admission::Busy),
            (&ids[2], SMALL_REQUEST_BYTES, Admission::Admitted(3)),
        ] {
            assert_eq!(queue.admit(id, bytes), Ok(admission), "{id} {bytes}");
        }
        queue.answer(b"{}\n", &ids[2]);
        assert_eq!(queue.admit(&ids[2], half), Ok(Admission::Busy));
        queue.answer(b"{}\n", &ids[0]);
        assert_eq!(queue.admit(&ids[2], half), Ok(Admission::Admitted(4)));
    }

    #[test]
    fn the_end_of_input_is_noticed_while_there_is_no_room() {
        let hung_up = Box::new(|| true);
        let queue = Queue::new(Arc::default(), hung_up);
        (0..MAX_UNANSWERED_REQUESTS).for_each(|_| assert!(admit(&queue).is_ok()));
        assert_eq!(admit(&queue), Err(Closed));
        queue.answer(b"{}\n", &ID);
        assert!(admit(&queue).is_ok(), "with room, what was read is handed over");
    }

    #[test]
    fn unwritten_answers_hold_back_requests_and_refusals_and_ours_do_not() {
        let line = vec![b'a'; MAX_QUEUED_ANSWER_BYTES + 1];
        let (queue, _) = queue();
        queue.push(&line, Kind::Ours);
        assert!(queue.lock().has_room_for_request());
        queue.push(&line, Kind::Answer);
        assert!(!queue.lock().has_room_for_request() && !queue.lock().has_room_for_answer());

        let mut taken = Vec::new();
        queue.take(&mut taken);
        assert!(!queue.lock().has_room_for_answer(), "taken is not written");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.refuse(b"{}\n"));
            queue.advance(taken.len());
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn closing_wakes_the_reader_and_lets_the_writer_finish() {
        let (queue, counters) = queue();
        (0..MAX_UNANSWERED_REQUESTS).for_each(|_| assert!(admit(&queue).is_ok()));
        queue.push(b"kept\n", Kind::Ours);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| admit(&queue));
            queue.close();
            assert_eq!(waiting.join().unwrap(), Err(Closed));
        });
        queue.push(b"late\n", Kind::Ours);
        assert_eq!(queue.refuse(b"late\n"), Err(Closed));

        let mut taken = Vec::new();
        assert!(queue.take(&mut taken));
        assert_eq!(taken, b"kept\n");
        assert!(!queue.take(&mut taken));
        assert_eq!(counters.snapshot().lines_queued, 1);
    }

    #[test]
    fn an_abandoned_queue_is_empty_and_closed() {
        let (queue, _) = queue();
        queue.push(b"lost\n", Kind::Ours);
        queue.abandon();
        assert!(!queue.take(&mut Vec::new()));
        assert_eq!(admit(&queue), Err(Closed));
    }
}
