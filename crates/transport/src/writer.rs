//! The thread that writes the queued lines to the client.

use std::io::{self, Write};
use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::framing::RetryWouldBlock;
use crate::limits::MAX_WRITE_CALL_BYTES;
use crate::queue::OutgoingQueue;

/// The writer thread without its stream. Dropping this value ends the connection. The connection
/// therefore ends even if the thread panics.
pub(crate) struct LineWriterThread {
    queue: Arc<OutgoingQueue>,
    _ended: DropGuard,
}

impl LineWriterThread {
    pub(crate) fn new(queue: Arc<OutgoingQueue>, ended: CancellationToken) -> Self {
        Self { queue, _ended: ended.drop_guard() }
    }

    /// Writes until the queue is closed and empty, or until the stream fails.
    pub(crate) fn write_until_closed(self, output: impl Write) -> io::Result<()> {
        let mut output = RetryWouldBlock(output);
        let mut lines = Vec::new();
        while self.queue.wait_and_take_lines(&mut lines) {
            self.write_all_and_mark_written(&mut output, &lines)?;
            output.flush()?;
        }
        Ok(())
    }

    fn write_all_and_mark_written(
        &self,
        output: &mut impl Write,
        mut bytes: &[u8],
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = output.write(&bytes[..bytes.len().min(MAX_WRITE_CALL_BYTES)])?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.queue.mark_written(written);
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

impl Drop for LineWriterThread {
    fn drop(&mut self) {
        self.queue.close_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::RawJsonRpcId;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::queue::{OutgoingKind, QueueClosed};

    fn queue(lines: &[u8]) -> Arc<OutgoingQueue> {
        let queue = OutgoingQueue::new(Arc::default(), Box::new(|| false));
        queue.push_unless_closed(lines, OutgoingKind::AgentMessage);
        Arc::new(queue)
    }

    #[test]
    fn a_failed_stream_closes_the_queue_and_ends_the_input() {
        let queue = queue(b"two bytes fit\n");
        let ended = CancellationToken::new();
        let mut room = [0; 2];
        let error = LineWriterThread::new(queue.clone(), ended.clone())
            .write_until_closed(&mut room[..])
            .unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        assert_eq!(&room, b"tw");
        assert_eq!(queue.wait_and_admit_request(&RawJsonRpcId::Null, 0), Err(QueueClosed));
        assert!(ended.is_cancelled());
    }

    #[test]
    fn several_lines_are_one_write_and_a_long_one_is_several() {
        struct Calls(Vec<usize>);
        impl Write for &mut Calls {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(bytes.len());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                self.0.push(0);
                Ok(())
            }
        }
        let queue = queue(b"one\n");
        queue.push_unless_closed(b"two\n", OutgoingKind::Response);
        queue.push_unless_closed(&[b'a'; MAX_WRITE_CALL_BYTES], OutgoingKind::AgentMessage);
        queue.close();
        let mut calls = Calls(Vec::new());
        LineWriterThread::new(queue, CancellationToken::new())
            .write_until_closed(&mut calls)
            .unwrap();
        assert_eq!(calls.0, [MAX_WRITE_CALL_BYTES, 8, 0]);
    }
}
