//! Counters of a transport, and the credit: the number of messages that an agent may still send
//! before the client reads earlier messages.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;

use crate::limits::{CREDIT_WRITE_OFF_TIMEOUT, MAX_UNWRITTEN_BYTES, MAX_UNWRITTEN_FRAMES};

/// The counters of one transport. The threads of the transport update the counters, and callers
/// read them through a shared handle.
#[derive(Debug, Default)]
pub struct TransportCounters {
    pub(crate) lines_read: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) lines_malformed: AtomicU64,
    pub(crate) lines_queued: AtomicU64,
    pub(crate) lines_written: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    /// Number of messages that sessions handed to the SDK, minus the number of messages that were
    /// written off (see [`CounterSnapshot::written_off`]).
    frames_handed_over: AtomicU64,
    /// Number of written messages of the agent, i.e. of its requests and notifications.
    pub(crate) agent_frames_written: AtomicU64,
    /// Number of bytes of the agent's messages that are queued and unwritten.
    pub(crate) agent_bytes_unwritten: AtomicU64,
    frames_written_off: AtomicU64,
    /// Notifies waiting tasks whenever lines were written.
    pub(crate) write_notify: Notify,
}

/// A snapshot of the values of all counters. A counter never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterSnapshot {
    /// Number of lines received from the client, including blank lines and rejected lines.
    pub lines_read: u64,
    /// Number of bytes of the lines received from the client, including newlines.
    pub bytes_read: u64,
    /// Number of rejected lines of the client.
    pub lines_malformed: u64,
    /// Number of lines accepted for writing.
    pub lines_queued: u64,
    /// Number of completely written lines.
    pub lines_written: u64,
    /// Number of bytes written.
    pub bytes_written: u64,
    /// Number of session messages that were written off. A message is written off, i.e. no longer
    /// counts as unwritten, if it did not reach the writer although the writer was idle.
    pub written_off: u64,
}

impl TransportCounters {
    /// Returns the values of all counters. The counters are read one after the other, so the
    /// threads may change some of them in between.
    #[must_use]
    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            lines_read: self.lines_read.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            lines_malformed: self.lines_malformed.load(Relaxed),
            lines_written: self.lines_written.load(Relaxed),
            lines_queued: self.lines_queued.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            written_off: self.frames_written_off.load(Relaxed),
        }
    }

    /// Counts a message that the agent is about to hand to the SDK. Call this method after
    /// [`wait_for_credit`](Self::wait_for_credit), once for each message that is not a response to
    /// the client.
    pub fn count_agent_message_to_sdk(&self) {
        add_count(&self.frames_handed_over, 1);
    }

    /// Waits until one more message may be handed over, i.e. until fewer than 8 messages and less
    /// than 256 KiB are unwritten. If the writer is idle for 5 seconds, the messages that have not
    /// reached the writer are written off: they no longer count as unwritten, because the SDK will
    /// not forward them.
    pub async fn wait_for_credit(&self) {
        loop {
            let written = self.write_notify.notified();
            if self.has_credit() {
                return;
            }
            let waited = tokio::time::timeout(CREDIT_WRITE_OFF_TIMEOUT, written).await;
            if waited.is_err() && self.snapshot().unwritten_line_count() == 0 {
                let lost = self.unwritten_frames();
                self.frames_handed_over.fetch_sub(lost, Relaxed);
                self.frames_written_off.fetch_add(lost, Relaxed);
            }
        }
    }

    fn has_credit(&self) -> bool {
        self.unwritten_frames() < MAX_UNWRITTEN_FRAMES
            && self.agent_bytes_unwritten.load(Relaxed) < MAX_UNWRITTEN_BYTES
    }

    fn unwritten_frames(&self) -> u64 {
        self.frames_handed_over
            .load(Relaxed)
            .saturating_sub(self.agent_frames_written.load(Relaxed))
    }
}

impl CounterSnapshot {
    /// Returns the number of queued lines that are not completely written.
    #[must_use]
    pub fn unwritten_line_count(&self) -> u64 {
        self.lines_queued.saturating_sub(self.lines_written)
    }
}

pub(crate) fn add_count(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::{TransportCounters, add_count};
    use crate::limits::{CREDIT_WRITE_OFF_TIMEOUT, MAX_UNWRITTEN_BYTES, MAX_UNWRITTEN_FRAMES};

    /// Waits for credit, but not long enough for a write-off. Returns whether credit was granted.
    async fn has_credit(counters: &TransportCounters) -> bool {
        timeout(Duration::from_millis(10), counters.wait_for_credit()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn credit_is_spent_by_frames_and_comes_back_as_they_are_written() {
        let counters = Arc::<TransportCounters>::default();
        for _ in 0..MAX_UNWRITTEN_FRAMES {
            assert!(has_credit(&counters).await);
            counters.count_agent_message_to_sdk();
        }
        assert!(!has_credit(&counters).await);
        let waiting = tokio::spawn({
            let counters = counters.clone();
            async move { counters.wait_for_credit().await }
        });
        tokio::task::yield_now().await;
        add_count(&counters.agent_frames_written, 1);
        counters.write_notify.notify_waiters();
        assert!(timeout(Duration::from_millis(10), waiting).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn credit_is_spent_by_bytes_too() {
        let counters = TransportCounters::default();
        counters.agent_bytes_unwritten.store(MAX_UNWRITTEN_BYTES, Relaxed);
        assert!(!has_credit(&counters).await);
        counters.agent_bytes_unwritten.store(MAX_UNWRITTEN_BYTES - 1, Relaxed);
        assert!(has_credit(&counters).await);
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_never_reach_an_idle_writer_are_written_off_and_counted() {
        let counters = TransportCounters::default();
        (0..MAX_UNWRITTEN_FRAMES).for_each(|_| counters.count_agent_message_to_sdk());
        // A queued and unwritten line prevents the write-off.
        add_count(&counters.lines_queued, 1);
        assert!(timeout(CREDIT_WRITE_OFF_TIMEOUT * 4, counters.wait_for_credit()).await.is_err());
        add_count(&counters.lines_written, 1);
        assert!(timeout(CREDIT_WRITE_OFF_TIMEOUT * 2, counters.wait_for_credit()).await.is_ok());
        assert_eq!(counters.snapshot().written_off, MAX_UNWRITTEN_FRAMES);
    }
}
