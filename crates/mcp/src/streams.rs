//! The streams of a server that is a program. What it sends is read at a limited rate, so that it
//! cannot take the time of other servers and sessions, and not at all if it reads nothing itself,
//! because each of its requests needs memory until it is answered.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits::{
    MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES, MAX_UNREAD_MESSAGES, READ_BURST, READ_BYTES_PER_SECOND,
    READ_MESSAGES_PER_SECOND,
};
use crate::lock::lock;

/// The output of a server, without the ends of messages that are too large.
pub(crate) struct LimitedReader<R, F> {
    read: R,
    /// Called for each message that is too large.
    on_cut: F,
    message: MessageScan,
    rate: ReadRate,
    pause: Option<Pin<Box<Sleep>>>,
    unread: Arc<Mutex<UnreadMessages>>,
}

/// The input of a server.
pub(crate) struct ObservedWriter<W> {
    write: W,
    unread: Arc<Mutex<UnreadMessages>>,
}

/// The messages that a server has sent while it did not read its input.
#[derive(Default)]
struct UnreadMessages {
    /// Whether a write waits for the server.
    is_write_waiting: bool,
    /// Number of messages since then.
    count: usize,
    /// The reader, if it waits for the write.
    reader: Option<Waker>,
}

/// Limits the streams of a server. `on_cut` is called for each message that is too large.
pub(crate) fn limit_streams<R, W, F: Fn()>(
    read: R,
    write: W,
    on_cut: F,
) -> (LimitedReader<R, F>, ObservedWriter<W>) {
    let unread = Arc::<Mutex<UnreadMessages>>::default();
    let (message, rate) = (MessageScan::default(), ReadRate { paid_until: Instant::now() });
    let write = ObservedWriter { write, unread: unread.clone() };
    (LimitedReader { read, on_cut, message, rate, pause: None, unread }, write)
}

impl<R: AsyncRead + Unpin, F: Fn() + Unpin> AsyncRead for LimitedReader<R, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let start = buffer.filled().len();
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(context));
                this.pause = None;
            }
            let mut unread = lock(&this.unread);
            if unread.is_write_waiting && unread.count >= MAX_UNREAD_MESSAGES {
                unread.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            drop(unread);
            ready!(Pin::new(&mut this.read).poll_read(context, buffer))?;
            let received = &mut buffer.filled_mut()[start..];
            if received.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let bytes = received.len();
            let Scanned { kept, messages, cut } = this.message.remove_surplus(received);
            buffer.set_filled(start + kept);
            (0..cut).for_each(|_| (this.on_cut)());
            lock(&this.unread).count += messages;
            let resume = this.rate.charge(bytes, messages, Instant::now());
            this.pause = resume.map(|at| Box::pin(sleep_until(at)));
            // No bytes would mean the end.
            if kept > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// The part of a message that was read.
#[derive(Default)]
struct MessageScan {
    bytes: usize,
    values: usize,
    is_in_string: bool,
    is_escaped: bool,
}

/// The result of scanning some bytes.
#[derive(Default)]
struct Scanned {
    /// Number of bytes that are left.
    kept: usize,
    /// Number of messages that ended.
    messages: usize,
    /// Number of messages that became too large.
    cut: usize,
}

impl MessageScan {
    fn is_too_large(&self) -> bool {
        self.bytes > MAX_MESSAGE_BYTES || self.values > MAX_MESSAGE_VALUES
    }

    /// Removes the rest of each message that is too large, so that it is no JSON any more.
    fn remove_surplus(&mut self, bytes: &mut [u8]) -> Scanned {
        let mut scanned = Scanned::default();
        for at in 0..bytes.len() {
            let byte = bytes[at];
            let was_too_large = self.is_too_large();
            self.bytes += 1;
            match byte {
                b'\n' => {
                    *self = Self::default();
                    scanned.messages += 1;
                }
                _ if mem::take(&mut self.is_escaped) => {}
                b'\\' => self.is_escaped = self.is_in_string,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'[' | b'{' => self.values += 4,
                b',' | b':' => self.values += 1,
                _ => {}
            }
            match self.is_too_large() {
                true => scanned.cut += usize::from(!was_too_large),
                false => {
                    bytes[scanned.kept] = byte;
                    scanned.kept += 1;
                }
            }
        }
        scanned
    }
}

/// The rate at which a server is read.
struct ReadRate {
    /// Time until which the bytes and messages that were read are allowed.
    paid_until: Instant,
}

impl ReadRate {
    /// Counts bytes and messages. Returns the time at which the next may be read, if it is later.
    fn charge(&mut self, bytes: usize, messages: usize, now: Instant) -> Option<Instant> {
        let cost = |count: usize, per_second: u64| {
            Duration::from_nanos((count as u64).saturating_mul(1_000_000_000) / per_second)
        };
        let cost = cost(bytes, READ_BYTES_PER_SECOND).max(cost(messages, READ_MESSAGES_PER_SECOND));
        self.paid_until = self.paid_until.max(now) + cost;
        let resume = self.paid_until.checked_sub(READ_BURST)?;
        (resume > now).then_some(resume)
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for ObservedWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.write).poll_write(context, bytes);
        let mut unread = lock(&self.unread);
        if written.is_pending() != unread.is_write_waiting || written.is_ready() {
            unread.is_write_waiting = written.is_pending();
            unread.count = 0;
            unread.reader.take().into_iter().for_each(Waker::wake);
        }
        drop(unread);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pretty_assertions::assert_eq;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn only_messages_that_are_too_large_are_cut() {
        let dense = format!("[{}0]", "0,".repeat(MAX_MESSAGE_VALUES));
        let long = "\"x".repeat(MAX_MESSAGE_BYTES / 2 + 1);
        let text = format!("[\"\\\"{}\"]", "[,:".repeat(MAX_MESSAGE_VALUES));
        let sent = format!("{dense}\n{text}\n{long}\n[]\n");
        let cut = AtomicUsize::new(0);
        let on_cut = || {
            cut.fetch_add(1, Ordering::Relaxed);
        };
        let (mut read, _write) = limit_streams(sent.as_bytes(), tokio::io::sink(), on_cut);
        let mut received = String::new();
        read.read_to_string(&mut received).await.unwrap();
        let lines: Vec<_> = received.lines().collect();
        assert!(lines[0].len() < dense.len() && dense.starts_with(lines[0]));
        assert_eq!(lines[2], &long[..MAX_MESSAGE_BYTES]);
        assert_eq!([lines[1], lines[3]], [text.as_str(), "[]"]);
        assert_eq!(cut.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_flood_is_slowed_down_after_a_burst() {
        let now = Instant::now();
        for (bytes, messages) in
            [(READ_BYTES_PER_SECOND as usize, 1), (1, READ_MESSAGES_PER_SECOND as usize)]
        {
            let mut rate = ReadRate { paid_until: now };
            for _ in 0..READ_BURST.as_secs() {
                assert_eq!(rate.charge(bytes, messages, now), None);
            }
            let second = Duration::from_secs(1);
            assert_eq!(rate.charge(bytes, messages, now), Some(now + second));
            assert_eq!(rate.charge(bytes, messages, now + 2 * second), None);
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_read_is_not_read_until_it_does() {
        let (ours, server) = duplex(64);
        let (ours_read, ours_write) = tokio::io::split(ours);
        let (mut read, mut write) = limit_streams(ours_read, ours_write, || ());
        let (mut server_read, mut server_write) = tokio::io::split(server);
        let writing = tokio::spawn(async move {
            write.write_all(&[b'x'; 100]).await.unwrap();
            write
        });
        let messages = 2 * MAX_UNREAD_MESSAGES;
        let flood = tokio::spawn(async move {
            server_write.write_all("{}\n".repeat(messages).as_bytes()).await.unwrap();
            server_write
        });
        let waits = |unread: &Mutex<UnreadMessages>| lock(unread).is_write_waiting;
        let unread = read.unread.clone();
        while !waits(&unread) {
            tokio::task::yield_now().await;
        }
        let mut received = vec![0; 3 * messages];
        let mut reading = Box::pin(read.read_exact(&mut received));
        while lock(&unread).reader.is_none() {
            let polled = futures::poll!(&mut reading);
            assert!(polled.is_pending());
            tokio::task::yield_now().await;
        }
        assert!(lock(&unread).count >= MAX_UNREAD_MESSAGES && !flood.is_finished());
        server_read.read_exact(&mut [0; 100]).await.unwrap();
        reading.await.unwrap();
        drop((writing.await.unwrap(), flood.await.unwrap()));
    }
}
