//! What went through a transport, as numbers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of one transport, written by its threads and read by whoever holds the handle.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) lines_read: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) lines_malformed: AtomicU64,
    pub(super) lines_queued: AtomicU64,
    pub(super) lines_written: AtomicU64,
    pub(super) bytes_written: AtomicU64,
}

/// The counts at one moment. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Lines of the client, blank and refused ones too.
    pub lines_read: u64,
    /// Bytes of those lines, newlines included.
    pub bytes_read: u64,
    /// Lines of the client that were refused.
    pub lines_malformed: u64,
    /// Lines accepted for writing.
    pub lines_queued: u64,
    /// Lines wholly written.
    pub lines_written: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Counters {
    /// Reads all counts, one after the other: a line may move on meanwhile.
    #[must_use]
    pub fn snapshot(&self) -> Counts {
        Counts {
            lines_read: self.lines_read.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            lines_malformed: self.lines_malformed.load(Relaxed),
            lines_written: self.lines_written.load(Relaxed),
            lines_queued: self.lines_queued.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }
}

impl Counts {
    /// Lines handed over to the transport and not yet wholly written.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.lines_queued.saturating_sub(self.lines_written)
    }
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Relaxed);
}
