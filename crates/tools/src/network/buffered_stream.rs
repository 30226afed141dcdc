//! A TCP connection with a buffer for bytes that were received before they are needed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::limits::{DISCONNECT_CHECK_INTERVAL, MAX_PROXY_HEAD_BYTES};

/// Maximum number of bytes that one read adds to the buffer.
const FILL_BYTES: u64 = 8 * 1024;

/// A TCP connection. Readers receive the buffered bytes first.
#[derive(Debug)]
pub(crate) struct BufferedStream {
    stream: TcpStream,
    /// Bytes that were received and not read, at most [`MAX_PROXY_HEAD_BYTES`] + [`FILL_BYTES`].
    buffer: Vec<u8>,
    /// Number of bytes that readers may still receive. `None` if this number is not limited.
    remaining: Option<u64>,
}

impl BufferedStream {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new(), remaining: None }
    }

    /// Limits the number of bytes that readers still receive. All further bytes are discarded, so a
    /// second request on the connection has no effect. Reaching the limit does not end the stream:
    /// a server that receives the end of the stream may assume that the client has disconnected,
    /// and cancel the request.
    pub(crate) fn limit_reading(&mut self, bytes: Option<u64>) {
        self.remaining = bytes;
    }

    /// Returns the first byte without removing it from the stream.
    pub(crate) async fn peek_first_byte(&mut self) -> io::Result<u8> {
        if self.buffer.is_empty() {
            self.fill().await?;
        }
        self.buffer.first().copied().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads an HTTP head, up to and including the empty line at its end.
    pub(crate) async fn read_head(&mut self) -> io::Result<Vec<u8>> {
        let mut scanned = 0;
        loop {
            if let Some(end) = find_head_end(&self.buffer, scanned) {
                let rest = self.buffer.split_off(end);
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            scanned = self.buffer.len();
            if scanned >= MAX_PROXY_HEAD_BYTES {
                let message = format!("the head is larger than {MAX_PROXY_HEAD_BYTES} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Resolves when the other side has closed its half of the connection. Bytes that the other
    /// side sends before that are buffered.
    ///
    /// The end of a stream is received after all of its bytes. If the buffers of the proxy and the
    /// system are full (together some 100 KiB), only a reset of the connection is detected.
    pub(crate) async fn wait_for_disconnect(&mut self) {
        while self.buffer.len() < MAX_PROXY_HEAD_BYTES {
            if matches!(self.fill().await, Ok(0) | Err(_)) {
                return;
            }
        }
        // As long as bytes are unread, `ready` returns at once, so the state of the stream is
        // checked at intervals.
        while let Ok(ready) = self.stream.ready(Interest::READABLE).await
            && !ready.is_read_closed()
        {
            sleep(DISCONNECT_CHECK_INTERVAL).await;
        }
    }

    /// Receives bytes into the buffer. Returns 0 at the end of the stream. Cancel safe.
    async fn fill(&mut self) -> io::Result<usize> {
        (&mut self.stream).take(FILL_BYTES).read_buf(&mut self.buffer).await
    }
}

/// Returns the index after the first empty line. No empty line ends before `scanned`.
fn find_head_end(bytes: &[u8], scanned: usize) -> Option<usize> {
    (scanned..bytes.len()).map(|last| last + 1).find(|&end| {
        let head = &bytes[..end];
        head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n")
    })
}

impl AsyncRead for BufferedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = target.filled().len();
        loop {
            if this.buffer.is_empty() {
                ready!(Pin::new(&mut this.stream).poll_read(context, target))?;
            } else {
                let count = this.buffer.len().min(target.remaining());
                target.put_slice(&this.buffer[..count]);
                this.buffer.drain(..count);
            }
            let received = target.filled().len() - start;
            let Some(remaining) = &mut this.remaining else { return Poll::Ready(Ok(())) };
            let kept = received.min(usize::try_from(*remaining).unwrap_or(usize::MAX));
            *remaining -= kept as u64;
            target.set_filled(start + kept);
            // If all received bytes were discarded, receive more: a read of zero bytes would mean
            // the end of the stream.
            if kept > 0 || received == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for BufferedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
