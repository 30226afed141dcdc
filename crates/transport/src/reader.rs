//! The thread that reads the client's lines and hands them to the SDK.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::thread;

use agent_client_protocol::{RawJsonRpcId, RawJsonRpcMessage, TransportFrame};
use futures::channel::mpsc::UnboundedSender;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::counters::{TransportCounters, add_count};
use crate::decode::{RejectedLineHandling, check_line};
use crate::encode::encode;
use crate::errors::LineError;
use crate::framing::{BoundedLines, FramedLine};
use crate::limits::{MAX_HANDED_OVER_BYTES, MAX_HANDED_OVER_FRAMES, RETRY_PAUSE};
use crate::queue::{Admission, OutgoingQueue, QueueClosed};

/// The reader thread without its stream. Dropping this value ends the SDK's input. The input
/// therefore ends even if the thread panics.
pub(crate) struct LineReaderThread {
    handoff: BoundedSdkQueue,
    queue: Arc<OutgoingQueue>,
    counters: Arc<TransportCounters>,
    answer: Vec<u8>,
    _ended: DropGuard,
}

impl LineReaderThread {
    pub(crate) fn new(
        frames: UnboundedSender<TransportFrame>,
        queue: Arc<OutgoingQueue>,
        counters: Arc<TransportCounters>,
        ended: CancellationToken,
    ) -> Self {
        let (handoff, _ended) = (BoundedSdkQueue::new(frames), ended.drop_guard());
        Self { handoff, queue, counters, answer: Vec::new(), _ended }
    }

    /// Reads until the end of input, an error of the stream (handled like the end), or the end of
    /// the connection.
    pub(crate) fn read_until_end(mut self, input: impl Read) {
        let mut lines = BoundedLines::new(input);
        loop {
            let (line, bytes) = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return tracing::debug!("end of input"),
                Err(error) => return tracing::warn!(%error, "cannot read, input ends"),
            };
            add_count(&self.counters.lines_read, 1);
            add_count(&self.counters.bytes_read, bytes);
            if self.handle_line(&line) == Err(QueueClosed) {
                return;
            }
        }
    }

    fn handle_line(&mut self, line: &FramedLine<'_>) -> Result<(), QueueClosed> {
        let line = match line {
            FramedLine::Complete(bytes) if bytes.trim_ascii().is_empty() => return Ok(()),
            FramedLine::Complete(bytes) => bytes,
            FramedLine::TooLong => return self.reject_line(LineError::TooLong.into()),
        };
        let checked = match check_line(line) {
            Ok(checked) => checked,
            Err(fault) => return self.reject_line(fault.into()),
        };
        let size = checked.size;
        self.handoff.wait_for_room(size);
        match checked.decode() {
            Ok(message) => self.hand_over(message, size),
            Err(refused) => self.reject_line(refused),
        }
    }

    fn hand_over(&mut self, message: RawJsonRpcMessage, size: usize) -> Result<(), QueueClosed> {
        let RawJsonRpcMessage::Request(request) = &message else {
            return self.handoff.send(message, size);
        };
        let id = request.id.clone();
        let Admission::Admitted(number) = self.queue.wait_and_admit_request(&id, size)? else {
            drop(message);
            return self.reject_line(RejectedLineHandling::Respond(id, LineError::Busy));
        };
        let is_handshake = &*request.method == INITIALIZE;
        self.handoff.send(message, size)?;
        // Until the handshake is answered, the SDK rejects all requests. Some clients send requests
        // without waiting for this answer. The lines after the handshake therefore stay unread
        // until the handshake is answered.
        if is_handshake { self.queue.wait_for_answer(number) } else { Ok(()) }
    }

    fn reject_line(&mut self, refused: RejectedLineHandling) -> Result<(), QueueClosed> {
        if !matches!(refused, RejectedLineHandling::Respond(_, LineError::Busy)) {
            add_count(&self.counters.lines_malformed, 1);
        }
        tracing::debug!(?refused, "refused a line");
        match refused {
            RejectedLineHandling::Respond(id, fault) => {
                let mut answer = RawJsonRpcMessage::response(id, Err(fault.to_error()));
                match encode(&mut answer, &mut self.answer) {
                    Ok(()) => self.queue.wait_and_push_error_response(&self.answer),
                    Err(_) => Ok(()),
                }
            }
            RejectedLineHandling::EndRequest(RawJsonRpcId::Null) => Ok(()),
            RejectedLineHandling::EndRequest(id) => {
                let error = LineError::InvalidEnvelope.to_error();
                let response = RawJsonRpcMessage::response(id, Err(error));
                self.handoff.send(response, INVALID_RESPONSE_BYTES)
            }
        }
    }
}

/// Estimated size of the error that replaces an invalid response.
const INVALID_RESPONSE_BYTES: usize = 512;

/// The method of the handshake (<https://agentclientprotocol.com/protocol/v1/initialization>).
const INITIALIZE: &str = "initialize";

/// The SDK's unbounded queue of messages, to which this type adds limits.
struct BoundedSdkQueue {
    frames: UnboundedSender<TransportFrame>,
    /// Sizes of the messages that the SDK had not received at the last check, oldest first.
    sizes: VecDeque<usize>,
    /// Sum of `sizes` in bytes.
    size: usize,
}

impl BoundedSdkQueue {
    fn new(frames: UnboundedSender<TransportFrame>) -> Self {
        Self { frames, sizes: VecDeque::new(), size: 0 }
    }

    /// Waits until a message of this size may be sent, or until the SDK's receiver is closed.
    ///
    /// The SDK does not signal when it receives a message, so this method polls. The method only
    /// waits if the client sends very many messages or if the dispatch loop is blocked.
    fn wait_for_room(&mut self, size: usize) {
        while !self.has_room(size) && !self.frames.is_closed() {
            thread::sleep(RETRY_PAUSE);
        }
    }

    fn send(&mut self, message: RawJsonRpcMessage, size: usize) -> Result<(), QueueClosed> {
        self.sizes.push_back(size);
        self.size += size;
        self.frames.unbounded_send(TransportFrame::Single(message)).map_err(|_closed| QueueClosed)
    }

    fn has_room(&mut self, size: usize) -> bool {
        let waiting = self.frames.len();
        while self.sizes.len() > waiting {
            self.size -= self.sizes.pop_front().unwrap_or_default();
        }
        let fits = self.size + size <= MAX_HANDED_OVER_BYTES;
        waiting == 0 || (waiting < MAX_HANDED_OVER_FRAMES && fits)
    }
}

impl Drop for BoundedSdkQueue {
    fn drop(&mut self) {
        self.frames.close_channel();
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc::unbounded;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::limits::MAX_UNANSWERED_REQUESTS;

    fn notification() -> RawJsonRpcMessage {
        RawJsonRpcMessage::notification("m".into(), serde_json::Value::Null).unwrap()
    }

    #[test]
    fn a_request_waits_for_answers_to_others_and_a_notification_does_not() {
        let (frames, _taken) = unbounded();
        let counters = Arc::<TransportCounters>::default();
        let queue = Arc::new(OutgoingQueue::new(counters.clone(), Box::new(|| false)));
        let ended = CancellationToken::new();
        let mut reader = LineReaderThread::new(frames, queue.clone(), counters, ended.clone());
        let request = FramedLine::Complete(br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
        let notification = FramedLine::Complete(br#"{"jsonrpc":"2.0","method":"m"}"#);
        for _ in 0..MAX_UNANSWERED_REQUESTS {
            assert_eq!(reader.handle_line(&request), Ok(()));
        }
        assert_eq!(reader.handle_line(&notification), Ok(()));
        // The thread either waits already, or starts to wait after the close. In both cases, it
        // must fail.
        thread::scope(|scope| {
            let waiting = scope.spawn(|| reader.handle_line(&request));
            queue.close();
            assert_eq!(waiting.join().unwrap(), Err(QueueClosed));
        });
        assert!(!ended.is_cancelled());
        drop(reader);
        assert!(ended.is_cancelled(), "however the thread ends, that is told");
    }

    #[test]
    fn the_sdks_queue_is_bounded_in_messages_and_in_bytes() {
        let half = MAX_HANDED_OVER_BYTES / 2;
        for (size, fit) in [(0, MAX_HANDED_OVER_FRAMES), (half, 2), (half + 1, 1), (half * 3, 1)] {
            let (frames, mut taken) = unbounded();
            let mut handoff = BoundedSdkQueue::new(frames);
            for _ in 0..fit {
                assert!(handoff.has_room(size), "{size}");
                handoff.send(notification(), size).unwrap();
            }
            assert!(!handoff.has_room(size), "{size}");
            taken.try_recv().unwrap();
            assert!(handoff.has_room(size), "{size}");
        }
    }

    #[test]
    fn sending_fails_when_the_sdks_receiver_is_dropped() {
        let (frames, taken) = unbounded();
        let mut handoff = BoundedSdkQueue::new(frames);
        (0..MAX_HANDED_OVER_FRAMES).for_each(|_| handoff.send(notification(), 0).unwrap());
        drop(taken);
        handoff.wait_for_room(0);
        assert_eq!(handoff.send(notification(), 0), Err(QueueClosed));
    }
}
