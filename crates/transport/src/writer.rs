//! The thread that writes the queued lines to the client.
//!
//! Knows bytes only.

use std::io::{self, Write};
use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::framing::Patient;
use crate::limits::MAX_WRITE_BYTES;
use crate::queue::Queue;

/// Everything the thread works with but the stream. Dropped, it ends the connection, however the
/// thread ends: without a reader of our output there is nothing left to do.
pub(crate) struct Writer {
    queue: Arc<Queue>,
    _ended: DropGuard,
}

impl Writer {
    pub(crate) fn new(queue: Arc<Queue>, ended: CancellationToken) -> Self {
        Self { queue, _ended: ended.drop_guard() }
    }

    /// Writes until the queue is closed and empty, or until the stream fails.
    pub(crate) fn run(self, output: impl Write) -> io::Result<()> {
        let mut output = Patient(output);
        let mut lines = Vec::new();
        while self.queue.take(&mut lines) {
            self.write(&mut output, &lines)?;
            output.flush()?;
        }
        Ok(())
    }

    fn write(&self, output: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = output.write(&bytes[..bytes.len().min(MAX_WRITE_BYTES)])?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.queue.advance(written);
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::RawJsonRpcId;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::queue::{Closed, Kind};

    fn queue(lines: &[u8]) -> Arc<Queue> {
        let queue = Queue::new(Arc::default(), Box::new(|| false));
        queue.push(lines, Kind::Ours);
        Arc::new(queue)
    }

    #[test]
    fn a_failed_stream_closes_the_queue_and_ends_the_input() {
        let queue = queue(b"two bytes fit\n");
        let ended = CancellationToken::new();
        let mut room = [0; 2];
        let error = Writer::new(queue.clone(), ended.clone()).run(&mut room[..]).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        assert_eq!(&room, b"tw");
        assert_eq!(queue.admit(&RawJsonRpcId::Null, 0), Err(Closed));
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
        queue.push(b"two\n", Kind::Answer);
        queue.push(&[b'a'; MAX_WRITE_BYTES], Kind::Ours);
        queue.close();
        let mut calls = Calls(Vec::new());
        Writer::new(queue, CancellationToken::new()).run(&mut calls).unwrap();
        assert_eq!(calls.0, [MAX_WRITE_BYTES, 8, 0]);
    }
}
