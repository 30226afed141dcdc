//! The state shared by the reader, the writer and the connection's future: unwritten lines and
//! unanswered requests.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol::RawJsonRpcId;

use crate::counters::{TransportCounters, add_count};
use crate::limits::{
    HANDSHAKE_HANGUP_POLL_INTERVAL, HANGUP_POLL_INTERVAL, MAX_KEPT_BUFFER_BYTES,
    MAX_QUEUED_ANSWER_BYTES, MAX_SMALL_REQUEST_BYTES, MAX_UNANSWERED_BYTES,
    MAX_UNANSWERED_REQUESTS,
};

/// The outgoing lines in order, and the admission of requests.
pub(crate) struct OutgoingQueue {
    state: Mutex<QueueState>,
    /// Wakes the writer when lines are queued.
    filled: Condvar,
    /// Wakes the reader when there may be room for another line.
    drained: Condvar,
    /// Returns whether every writer of the input has closed it.
    is_hung_up: HangupProbe,
    counters: Arc<TransportCounters>,
}

/// A function that returns whether every writer of the input has closed it. The function does not
/// read from the input.
pub(crate) type HangupProbe = Box<dyn Fn() -> bool + Send + Sync>;

/// The kind of an outgoing line. The kind determines the limits that apply to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutgoingKind {
    /// The response to a request.
    Response,
    /// The error response to a line that was not a message.
    ErrorResponse,
    /// A request or notification of the agent. The number of these lines is limited by the sender,
    /// not by the queue.
    AgentMessage,
    /// A `$/cancel_request` that the SDK sends when a request of the agent is dropped.
    SdkCancel,
}

impl OutgoingKind {
    /// Returns whether the line counts against the limit of responses.
    fn is_answer(self) -> bool {
        matches!(self, Self::Response | Self::ErrorResponse)
    }
}

/// The queue is closed and accepts no more lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueClosed;

/// Whether a request may be handed over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The request may be handed over. The request counts as unanswered under this number and not
    /// under its id, because a client may reuse an id.
    Admitted(u64),
    /// The request may not be handed over, because it is large and the earlier requests are large
    /// too.
    Busy,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Lines that the writer has not taken, concatenated.
    pending: Vec<u8>,
    /// All lines that are not completely written. The lines that the writer has taken come first.
    unwritten: VecDeque<(OutgoingKind, usize)>,
    /// Number of bytes of the first line in `unwritten` that are already written.
    written: usize,
    /// Number of bytes of the responses and error responses in `unwritten`.
    answer_bytes: usize,
    /// Admitted requests without a response, oldest first.
    unanswered: VecDeque<UnansweredRequest>,
    /// Estimated bytes of the unanswered requests.
    unanswered_bytes: usize,
    /// Number of the last admitted request.
    last_number: u64,
    closed: bool,
}

#[derive(Debug)]
struct UnansweredRequest {
    number: u64,
    id: RawJsonRpcId,
    /// Estimated bytes of the message.
    bytes: usize,
}

/// Counts of completely written lines.
#[derive(Debug, Default)]
struct WrittenLineCounts {
    lines: usize,
    agent_lines: usize,
    agent_bytes: usize,
}

impl OutgoingQueue {
    pub(crate) fn new(counters: Arc<TransportCounters>, is_hung_up: HangupProbe) -> Self {
        let (state, filled, drained) = Default::default();
        Self { state, filled, drained, is_hung_up, counters }
    }

    /// Waits until one more request may be handed over, and counts the request as unanswered.
    ///
    /// This method does not wait if the limit of unanswered bytes is reached. If it did, the
    /// notification that cancels a turn could be read only after a large request of the turn was
    /// answered.
    pub(crate) fn wait_and_admit_request(
        &self,
        id: &RawJsonRpcId,
        bytes: usize,
    ) -> Result<Admission, QueueClosed> {
        let mut state = self.wait_for_room(QueueState::has_room_for_request)?;
        if bytes > MAX_SMALL_REQUEST_BYTES && state.unanswered_bytes + bytes > MAX_UNANSWERED_BYTES
        {
            return Ok(Admission::Busy);
        }
        state.last_number += 1;
        let number = state.last_number;
        state.unanswered.push_back(UnansweredRequest { number, id: id.clone(), bytes });
        state.unanswered_bytes += bytes;
        Ok(Admission::Admitted(number))
    }

    /// Waits until the request with this number is answered.
    ///
    /// There is no deadline, because the SDK answers every request, even if the handler drops the
    /// request.
    pub(crate) fn wait_for_answer(&self, number: u64) -> Result<(), QueueClosed> {
        self.wait_until_state(HANDSHAKE_HANGUP_POLL_INTERVAL, |state| !state.is_unanswered(number))
            .map(drop)
    }

    /// Waits until one more response may be queued, and queues this error response.
    pub(crate) fn wait_and_push_error_response(&self, line: &[u8]) -> Result<(), QueueClosed> {
        let state = self.wait_for_room(QueueState::has_room_for_answer)?;
        self.append_locked(state, line, OutgoingKind::ErrorResponse);
        Ok(())
    }

    /// Queues the response to a request without waiting, or drops it if the queue is closed.
    pub(crate) fn push_response(&self, line: &[u8], id: &RawJsonRpcId) {
        self.lock().remove_answered_request(id);
        self.push_unless_closed(line, OutgoingKind::Response);
    }

    /// Queues a line without waiting, or drops it if the queue is closed.
    pub(crate) fn push_unless_closed(&self, line: &[u8], kind: OutgoingKind) {
        let state = self.lock();
        if !state.closed {
            self.append_locked(state, line, kind);
        }
    }

    /// Clears `buffer`, waits for lines, and moves all queued lines into `buffer`. Returns false
    /// only if the queue is closed and empty.
    pub(crate) fn wait_and_take_lines(&self, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        buffer.shrink_to(MAX_KEPT_BUFFER_BYTES);
        let mut state = self.lock();
        while state.pending.is_empty() && !state.closed {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.pending, buffer);
        !buffer.is_empty()
    }

    /// Records that the writer has written the next `bytes` bytes of the taken lines.
    pub(crate) fn mark_written(&self, bytes: usize) {
        add_count(&self.counters.bytes_written, bytes);
        let done = self.lock().pop_written_lines(bytes);
        add_count(&self.counters.lines_written, done.lines);
        add_count(&self.counters.agent_frames_written, done.agent_lines);
        self.counters.agent_bytes_unwritten.fetch_sub(done.agent_bytes as u64, Relaxed);
        self.drained.notify_all();
        if done.lines > 0 {
            self.counters.write_notify.notify_waiters();
        }
    }

    /// Stops accepting lines and admitting requests. Queued lines are still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }

    /// Closes the queue and discards its lines, because the writer has ended.
    pub(crate) fn close_and_clear(&self) {
        self.lock().pending = Vec::new();
        self.close();
    }

    fn append_locked(
        &self,
        mut state: MutexGuard<'_, QueueState>,
        line: &[u8],
        kind: OutgoingKind,
    ) {
        state.append_line(line, kind);
        add_count(&self.counters.lines_queued, 1);
        if kind == OutgoingKind::AgentMessage {
            add_count(&self.counters.agent_bytes_unwritten, line.len());
        }
        drop(state);
        self.filled.notify_all();
        self.drained.notify_all();
    }

    fn wait_for_room(
        &self,
        has_room: fn(&QueueState) -> bool,
    ) -> Result<MutexGuard<'_, QueueState>, QueueClosed> {
        self.wait_until_state(HANGUP_POLL_INTERVAL, has_room)
    }

    /// Waits until `is_met` returns true. Fails if every writer of the input has closed it. Without
    /// this check, the end of the input would stay undetected, because the reader does not read
    /// while it waits here. The parameter `look` is the interval between two checks of the input.
    fn wait_until_state(
        &self,
        look: Duration,
        is_met: impl Fn(&QueueState) -> bool,
    ) -> Result<MutexGuard<'_, QueueState>, QueueClosed> {
        let waits = |state: &mut QueueState| !state.closed && !is_met(state);
        let mut state = self.lock();
        loop {
            let waited = self.drained.wait_timeout_while(state, look, waits);
            let timeout;
            (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.closed {
                return Err(QueueClosed);
            }
            if !timeout.timed_out() {
                return Ok(state);
            }
            if (self.is_hung_up)() {
                tracing::warn!("the input was closed while earlier requests were unanswered");
                return Err(QueueClosed);
            }
        }
    }

    /// Locks the state, even if another thread panicked while it held the lock. No operation leaves
    /// the state half changed, so the state is valid after a panic.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn has_room_for_answer(&self) -> bool {
        self.answer_bytes <= MAX_QUEUED_ANSWER_BYTES
    }

    fn has_room_for_request(&self) -> bool {
        self.has_room_for_answer() && self.unanswered.len() < MAX_UNANSWERED_REQUESTS
    }

    fn is_unanswered(&self, number: u64) -> bool {
        self.unanswered.iter().any(|request| request.number == number)
    }

    /// Removes the newest request with this id. If the reader waits for an answer, it waits for the
    /// newest request. If an older request with the same id were removed instead, the reader could
    /// wait forever, because the older request may be answered only after a later line is read.
    fn remove_answered_request(&mut self, id: &RawJsonRpcId) {
        let at = self.unanswered.iter().rposition(|request| request.id == *id);
        if let Some(request) = at.and_then(|at| self.unanswered.remove(at)) {
            self.unanswered_bytes -= request.bytes;
        }
    }

    fn append_line(&mut self, line: &[u8], kind: OutgoingKind) {
        self.pending.extend_from_slice(line);
        self.unwritten.push_back((kind, line.len()));
        if kind.is_answer() {
            self.answer_bytes += line.len();
        }
    }

    /// Removes the lines that the next `bytes` written bytes complete, and returns their counts.
    fn pop_written_lines(&mut self, bytes: usize) -> WrittenLineCounts {
        self.written += bytes;
        let mut done = WrittenLineCounts::default();
        while let Some(&(kind, length)) = self.unwritten.front()
            && length <= self.written
        {
            self.unwritten.pop_front();
            self.written -= length;
            if kind == OutgoingKind::AgentMessage {
                done.agent_lines += 1;
                done.agent_bytes += length;
            } else if kind.is_answer() {
                self.answer_bytes -= length;
            }
            done.lines += 1;
        }
        done
    }
}

impl fmt::Debug for OutgoingQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OutgoingQueue").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use pretty_assertions::assert_eq;

    use super::*;

    fn queue() -> (OutgoingQueue, Arc<TransportCounters>) {
        let counters = Arc::<TransportCounters>::default();
        (OutgoingQueue::new(counters.clone(), Box::new(|| false)), counters)
    }

    const ID: RawJsonRpcId = RawJsonRpcId::Number(1);

    fn admit(queue: &OutgoingQueue) -> Result<Admission, QueueClosed> {
        queue.wait_and_admit_request(&ID, 10)
    }

    #[test]
    fn lines_count_as_written_when_their_last_byte_is() {
        let (queue, counters) = queue();
        queue.push_unless_closed(b"one\n", OutgoingKind::AgentMessage);
        queue.push_unless_closed(b"three\n", OutgoingKind::Response);
        let mut taken = Vec::new();
        assert!(queue.wait_and_take_lines(&mut taken));
        assert_eq!(taken, b"one\nthree\n");
        queue.push_unless_closed(b"x\n", OutgoingKind::AgentMessage);

        let mut states = Vec::new();
        for bytes in [3, 1, 5, 1, 2] {
            queue.mark_written(bytes);
            let counts = counters.snapshot();
            states.push((
                counts.lines_written,
                counts.unwritten_line_count(),
                queue.lock().answer_bytes,
            ));
        }
        assert_eq!(states, [(0, 3, 6), (1, 2, 6), (1, 2, 6), (2, 1, 0), (3, 0, 0)]);
    }

    #[test]
    fn requests_are_admitted_until_too_many_are_unanswered() {
        let (queue, _) = queue();
        for _ in 0..MAX_UNANSWERED_REQUESTS {
            assert!(queue.lock().has_room_for_request());
            assert!(admit(&queue).is_ok());
        }
        assert!(!queue.lock().has_room_for_request() && queue.lock().has_room_for_answer());
        queue.push_unless_closed(b"{}\n", OutgoingKind::AgentMessage);
        queue.wait_and_push_error_response(b"{}\n").unwrap();
        assert!(!queue.lock().has_room_for_request());

        thread::scope(|scope| {
            let waiting = scope.spawn(|| admit(&queue));
            queue.push_response(b"{}\n", &ID);
            assert!(waiting.join().unwrap().is_ok());
        });
        assert!(!queue.lock().has_room_for_request());
    }

    #[test]
    fn a_response_answers_the_newest_request_with_its_id() {
        let (queue, _) = queue();
        assert_eq!(admit(&queue), Ok(Admission::Admitted(1)));
        assert_eq!(admit(&queue), Ok(Admission::Admitted(2)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait_for_answer(2));
            queue.push_response(b"{}\n", &ID);
            assert_eq!(waiting.join().unwrap(), Ok(()));
            assert!(queue.lock().is_unanswered(1));
            // The thread either waits already, or starts to wait after the close. In both cases
            // `wait_for_answer` must fail.
            let waiting = scope.spawn(|| queue.wait_for_answer(1));
            queue.close();
            assert_eq!(waiting.join().unwrap(), Err(QueueClosed));
        });
    }

    #[test]
    fn large_requests_are_busy_until_earlier_ones_are_answered() {
        let (queue, _) = queue();
        let ids: [RawJsonRpcId; 3] = ["a", "b", "c"].map(|id| RawJsonRpcId::Str(id.to_owned()));
        let half = MAX_UNANSWERED_BYTES / 2;
        for (id, bytes, admission) in [
            (&ids[0], half, Admission::Admitted(1)),
            (&ids[1], half + 1, Admission::Busy),
            (&ids[1], half, Admission::Admitted(2)),
            (&ids[2], MAX_SMALL_REQUEST_BYTES + 1, Admission::Busy),
            (&ids[2], MAX_SMALL_REQUEST_BYTES, Admission::Admitted(3)),
        ] {
            assert_eq!(queue.wait_and_admit_request(id, bytes), Ok(admission), "{id} {bytes}");
        }
        queue.push_response(b"{}\n", &ids[2]);
        assert_eq!(queue.wait_and_admit_request(&ids[2], half), Ok(Admission::Busy));
        queue.push_response(b"{}\n", &ids[0]);
        assert_eq!(queue.wait_and_admit_request(&ids[2], half), Ok(Admission::Admitted(4)));
    }

    #[test]
    fn the_end_of_input_is_noticed_while_there_is_no_room() {
        let hung_up = Box::new(|| true);
        let queue = OutgoingQueue::new(Arc::default(), hung_up);
        (0..MAX_UNANSWERED_REQUESTS).for_each(|_| assert!(admit(&queue).is_ok()));
        assert_eq!(admit(&queue), Err(QueueClosed));
        queue.push_response(b"{}\n", &ID);
        assert!(admit(&queue).is_ok(), "with room, what was read is handed over");
    }

    #[test]
    fn unwritten_responses_delay_requests_and_error_responses() {
        let line = vec![b'a'; MAX_QUEUED_ANSWER_BYTES + 1];
        let (queue, _) = queue();
        queue.push_unless_closed(&line, OutgoingKind::AgentMessage);
        assert!(queue.lock().has_room_for_request());
        queue.push_unless_closed(&line, OutgoingKind::Response);
        assert!(!queue.lock().has_room_for_request() && !queue.lock().has_room_for_answer());

        let mut taken = Vec::new();
        queue.wait_and_take_lines(&mut taken);
        assert!(!queue.lock().has_room_for_answer(), "taken is not written");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait_and_push_error_response(b"{}\n"));
            queue.mark_written(taken.len());
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn closing_wakes_the_reader_and_lets_the_writer_finish() {
        let (queue, counters) = queue();
        (0..MAX_UNANSWERED_REQUESTS).for_each(|_| assert!(admit(&queue).is_ok()));
        queue.push_unless_closed(b"kept\n", OutgoingKind::AgentMessage);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| admit(&queue));
            queue.close();
            assert_eq!(waiting.join().unwrap(), Err(QueueClosed));
        });
        queue.push_unless_closed(b"late\n", OutgoingKind::AgentMessage);
        assert_eq!(queue.wait_and_push_error_response(b"late\n"), Err(QueueClosed));

        let mut taken = Vec::new();
        assert!(queue.wait_and_take_lines(&mut taken));
        assert_eq!(taken, b"kept\n");
        assert!(!queue.wait_and_take_lines(&mut taken));
        assert_eq!(counters.snapshot().lines_queued, 1);
    }

    #[test]
    fn an_abandoned_queue_is_empty_and_closed() {
        let (queue, _) = queue();
        queue.push_unless_closed(b"lost\n", OutgoingKind::AgentMessage);
        queue.close_and_clear();
        assert!(!queue.wait_and_take_lines(&mut Vec::new()));
        assert_eq!(admit(&queue), Err(QueueClosed));
    }
}
