//! The standard output of a server's program. The output is read at a limited rate, so that a
//! server cannot use up the time of other servers and sessions.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{io, mem};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits::{
    MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES, READ_BURST, READ_BYTES_PER_SECOND,
    READ_MESSAGES_PER_SECOND,
};

/// A reader of a server's output. If a message is too large, its end is removed.
pub(crate) struct LimitedReader<R, F> {
    read: R,
    /// Called for each message that is too large.
    on_cut: F,
    message: MessageScan,
    rate: ReadRate,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<R, F> LimitedReader<R, F> {
    /// Creates a reader that limits the output of a server. `on_cut` is called for each message
    /// that is too large.
    pub(crate) fn new(read: R, on_cut: F) -> Self {
        let (message, rate) = (MessageScan::default(), ReadRate::new(Instant::now()));
        Self { read, on_cut, message, rate, pause: None }
    }
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
            ready!(Pin::new(&mut this.read).poll_read(context, buffer))?;
            let received = &mut buffer.filled_mut()[start..];
            if received.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let bytes = received.len();
            let Scanned { kept, messages, cut } = this.message.remove_surplus(received);
            buffer.set_filled(start + kept);
            (0..cut).for_each(|_| (this.on_cut)());
            let resume = this.rate.charge_and_get_resume_time(bytes, messages, Instant::now());
            this.pause = resume.map(|at| Box::pin(sleep_until(at)));
            // If all received bytes were removed, read more: a read of zero bytes would mean the
            // end of the stream.
            if kept > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// The state of scanning the current message, of which a part was already read.
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
    /// Number of bytes that remain after the removal.
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

    /// Removes the rest of each message that is too large. The remaining part is then not valid
    /// JSON.
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

/// Limits the rate at which the output of a server is read.
pub(crate) struct ReadRate {
    /// The time at which a server that writes at the maximum rate would have written the bytes and
    /// messages that were read so far.
    paid_until: Instant,
}

impl ReadRate {
    pub(crate) fn new(now: Instant) -> Self {
        Self { paid_until: now }
    }

    /// Counts bytes and messages. If the limit is exceeded, returns the time at which reading may
    /// continue.
    pub(crate) fn charge_and_get_resume_time(
        &mut self,
        bytes: usize,
        messages: usize,
        now: Instant,
    ) -> Option<Instant> {
        let cost = |count: usize, per_second: u64| {
            Duration::from_nanos((count as u64).saturating_mul(1_000_000_000) / per_second)
        };
        let cost = cost(bytes, READ_BYTES_PER_SECOND).max(cost(messages, READ_MESSAGES_PER_SECOND));
        self.paid_until = self.paid_until.max(now) + cost;
        let resume = self.paid_until.checked_sub(READ_BURST)?;
        (resume > now).then_some(resume)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pretty_assertions::assert_eq;
    use tokio::io::AsyncReadExt as _;

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
        let mut read = LimitedReader::new(sent.as_bytes(), on_cut);
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
            let mut rate = ReadRate::new(now);
            for _ in 0..READ_BURST.as_secs() {
                assert_eq!(rate.charge_and_get_resume_time(bytes, messages, now), None);
            }
            let second = Duration::from_secs(1);
            assert_eq!(rate.charge_and_get_resume_time(bytes, messages, now), Some(now + second));
            assert_eq!(rate.charge_and_get_resume_time(bytes, messages, now + 2 * second), None);
        }
    }
}
