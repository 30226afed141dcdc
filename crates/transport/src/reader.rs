//! The thread that reads the client's lines and hands them to the SDK.
//!
//! Of ACP's methods it knows only the handshake, behind which it waits.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::thread;

use agent_client_protocol::{RawJsonRpcMessage, TransportFrame};
use futures::channel::mpsc::UnboundedSender;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::counters::{Counters, add};
use crate::decode::{Refused, check};
use crate::encode::encode;
use crate::errors::Fault;
use crate::framing::{Line, Lines};
use crate::limits::{MAX_HANDED_OVER_BYTES, MAX_HANDED_OVER_FRAMES, RETRY_PAUSE};
use crate::queue::{Admission, Closed, Queue};

/// Everything the thread works with but the stream. Dropped, it ends the SDK's input, however the
/// thread ends.
pub(crate) struct Reader {
    handoff: Handoff,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    answer: Vec<u8>,
    _ended: DropGuard,
}

impl Reader {
    pub(crate) fn new(
        frames: UnboundedSender<TransportFrame>,
        queue: Arc<Queue>,
        counters: Arc<Counters>,
        ended: CancellationToken,
    ) -> Self {
        let (handoff, _ended) = (Handoff::new(frames), ended.drop_guard());
        Self { handoff, queue, counters, answer: Vec::new(), _ended }
    }

    /// Reads until the end of input, an error of the stream (which is as good as the end) or the
    /// end of the connection.
    pub(crate) fn run(mut self, input: impl Read) {
        let mut lines = Lines::new(input);
        loop {
            let (line, bytes) = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return tracing::debug!("end of input"),
                Err(error) => return tracing::warn!(%error, "cannot read, input ends"),
            };
            add(&self.counters.lines_read, 1);
            add(&self.counters.bytes_read, bytes);
            if self.handle(&line) == Err(Closed) {
                return;
            }
        }
    }

    fn handle(&mut self, line: &Line<'_>) -> Result<(), Closed> {
        let line = match line {
            Line::Whole(bytes) if bytes.trim_ascii().is_empty() => return Ok(()),
            Line::Whole(bytes) => bytes,
            Line::TooLong => return self.refuse(Fault::TooLong.into()),
        };
        let checked = match check(line) {
            Ok(checked) => checked,
            Err(fault) => return self.refuse(fault.into()),
        };
        let size = checked.size;
        self.handoff.wait_for_room(size);
        match checked.decode() {
            Ok(message) => self.hand_over(message, size),
            Err(refused) => self.refuse(refused),
        }
    }

    fn hand_over(&mut self, message: RawJsonRpcMessage, size: usize) -> Result<(), Closed> {
        let RawJsonRpcMessage::Request(request) = &message else {
            return self.handoff.send(message, size);
        };
        let id = request.id.clone();
        let Admission::Admitted(number) = self.queue.admit(&id, size)? else {
            drop(message);
            return self.refuse(Refused::Answered(id, Fault::Busy));
        };
        let is_handshake = &*request.method == INITIALIZE;
        self.handoff.send(message, size)?;
        // Until the handshake is answered the SDK refuses all requests, those of a client that does
        // not wait for it too. What such a client sends meanwhile stays in its pipe.
        if is_handshake { self.queue.wait_for_answer(number) } else { Ok(()) }
    }

    fn refuse(&mut self, refused: Refused) -> Result<(), Closed> {
        if !matches!(refused, Refused::Answered(_, Fault::Busy)) {
            add(&self.counters.lines_malformed, 1);
        }
        tracing::debug!(?refused, "refused a line");
        let Refused::Answered(id, fault) = refused else {
            return Ok(());
        };
        let mut answer = RawJsonRpcMessage::response(id, Err(fault.to_error()));
        match encode(&mut answer, &mut self.answer) {
            Ok(()) => self.queue.refuse(&self.answer),
            Err(_) => Ok(()),
        }
    }
}

/// (<https://agentclientprotocol.com/protocol/v1/initialization>)
const INITIALIZE: &str = "initialize";

/// The SDK's queue of messages, held to a bound that it does not have itself.
struct Handoff {
    frames: UnboundedSender<TransportFrame>,
    /// The size of each message that the SDK had not taken when last looked at, oldest first.
    sizes: VecDeque<usize>,
    /// Their sum.
    size: usize,
}

impl Handoff {
    fn new(frames: UnboundedSender<TransportFrame>) -> Self {
        Self { frames, sizes: VecDeque::new(), size: 0 }
    }

    /// Waits until a message of this size may be sent, or until nobody takes any.
    ///
    /// The SDK does not say when it takes a message, so this looks again after a pause. Only a
    /// flood, or a dispatch loop that stands still, ever gets that far.
    fn wait_for_room(&mut self, size: usize) {
        while !self.has_room(size) && !self.frames.is_closed() {
            thread::sleep(RETRY_PAUSE);
        }
    }

    fn send(&mut self, message: RawJsonRpcMessage, size: usize) -> Result<(), Closed> {
        self.sizes.push_back(size);
        self.size += size;
        self.frames.unbounded_send(TransportFrame::Single(message)).map_err(|_closed| Closed)
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

impl Drop for Handoff {
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
        let counters = Arc::<Counters>::default();
        let queue = Arc::new(Queue::new(counters.clone(), Box::new(|| false)));
        let ended = CancellationToken::new();
        let mut reader = Reader::new(frames, queue.clone(), counters, ended.clone());
        let request = Line::Whole(br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
        let notification = Line::Whole(br#"{"jsonrpc":"2.0","method":"m"}"#);
        for _ in 0..MAX_UNANSWERED_REQUESTS {
            assert_eq!(reader.handle(&request), Ok(()));
        }
        assert_eq!(reader.handle(&notification), Ok(()));
        // It waits, or comes too late; only if it did neither would it pass.
        thread::scope(|scope| {
            let waiting = scope.spawn(|| reader.handle(&request));
            queue.close();
            assert_eq!(waiting.join().unwrap(), Err(Closed));
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
            let mut handoff = Handoff::new(frames);
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
    fn a_full_queue_that_nobody_takes_from_any_more_is_closed() {
        let (frames, taken) = unbounded();
        let mut handoff = Handoff::new(frames);
        (0..MAX_HANDED_OVER_FRAMES).for_each(|_| handoff.send(notification(), 0).unwrap());
        drop(taken);
        handoff.wait_for_room(0);
        assert_eq!(handoff.send(notification(), 0), Err(Closed));
    }
}
