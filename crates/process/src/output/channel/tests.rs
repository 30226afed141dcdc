//! Tests of delivery, skipped bytes and back-pressure of the channel.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use tokio::time::advance;

use super::super::record::Recording;
use super::{OutputChunk, channel};
use crate::limits::{
    LIVE_OUTPUT_INTERVAL, MAX_BUFFERED_READS, MAX_LIVE_OUTPUT_BYTES, OUTPUT_READ_BYTES,
};
use crate::lock::lock;

fn recording() -> Arc<Recording> {
    Arc::new(Recording::new(0, || Ok(None)))
}

/// A chunk without omitted bytes.
fn all(bytes: &[u8]) -> OutputChunk {
    OutputChunk { head: bytes.to_vec(), omitted_bytes: 0, tail: Vec::new() }
}

#[tokio::test(start_paused = true)]
async fn the_first_bytes_arrive_at_once_and_the_next_at_intervals() {
    let recording = recording();
    let (sender, mut receiver) = channel(Some(recording));
    assert!(receiver.recv().now_or_never().is_none(), "there is nothing yet");
    assert!(sender.record_and_send(b"a"));
    assert_eq!(receiver.recv().now_or_never().flatten().unwrap(), all(b"a"));
    assert!(sender.record_and_send(b"b") && sender.record_and_send(b"c"));
    assert!(receiver.recv().now_or_never().is_none(), "it is too soon");
    advance(LIVE_OUTPUT_INTERVAL).await;
    assert_eq!(receiver.recv().now_or_never().flatten().unwrap(), all(b"bc"));
    // The last bytes are received without a pause.
    sender.record_and_send(b"d");
    drop(sender);
    assert_eq!(receiver.recv().now_or_never().flatten().unwrap(), all(b"d"));
    assert_eq!(receiver.recv().now_or_never(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn a_recorded_flood_is_shown_by_its_ends_and_does_not_wait_for_a_slow_display() {
    let recording = recording();
    let (sender, mut receiver) = channel(Some(Arc::clone(&recording)));
    // The receiver waits for the interval to pass.
    sender.record_and_send(b"first\n");
    receiver.recv().await.unwrap();
    // The receiver still shows the first chunk.
    sender.record_and_send(b"second\n");
    let line = [&[b'x'; 1_023][..], b"\n"].concat();
    for _ in 0..500 {
        sender.record_and_send(&line);
    }
    assert!(receiver.recv().now_or_never().is_none());
    advance(LIVE_OUTPUT_INTERVAL / 2).await;
    for _ in 0..500 {
        sender.record_and_send(&line);
    }
    sender.record_and_send(b"last\n");
    advance(LIVE_OUTPUT_INTERVAL).await;
    let shown = receiver.recv().await.unwrap();
    let OutputChunk { head, omitted_bytes, tail } = &shown;
    assert!(head.starts_with(b"second\nxxx") && tail.ends_with(b"xxx\nlast\n"));
    assert!(shown.len() <= MAX_LIVE_OUTPUT_BYTES, "{}", shown.len());
    // All bytes are counted, and the tail begins at a line start.
    let sent = 7 + 1_000 * 1_024 + 5;
    assert_eq!(shown.len() as u64 + omitted_bytes, sent);
    assert!(tail.starts_with(&line));
    assert_eq!(recording.finish().bytes, 6 + sent);
}

/// Sends more bytes than the buffer can hold, on a separate thread. Returns the number of received
/// bytes.
async fn slowly(recording: Option<Arc<Recording>>, room: usize) -> usize {
    let (sender, mut receiver) = channel(recording);
    let bytes = room * 3;
    let thread = thread::spawn(move || {
        for chunk in vec![b'x'; bytes].chunks(OUTPUT_READ_BYTES) {
            assert!(sender.record_and_send(chunk));
        }
    });
    while lock(&receiver.shared.state).buffered.kept_bytes() < room {
        tokio::task::yield_now().await;
    }
    assert!(!thread.is_finished(), "nobody takes anything, so it waits");
    assert!(
        lock(&receiver.shared.state).buffered.total_bytes() <= (room + OUTPUT_READ_BYTES) as u64
    );
    let mut arrived = 0;
    while let Some(chunk) = receiver.recv().await {
        arrived += chunk.len();
    }
    thread.join().unwrap();
    arrived
}

#[tokio::test]
async fn unrecorded_output_arrives_completely_and_waits_for_space() {
    let room = MAX_BUFFERED_READS * OUTPUT_READ_BYTES;
    assert_eq!(slowly(None, room).await, room * 3);
}

#[tokio::test]
async fn recorded_output_waits_too_if_the_receiver_stops_receiving() {
    assert!(slowly(Some(recording()), MAX_LIVE_OUTPUT_BYTES).await <= MAX_LIVE_OUTPUT_BYTES * 3);
}

#[tokio::test]
async fn a_waiting_sender_returns_when_the_receiver_is_dropped() {
    let (sender, receiver) = channel(None);
    let thread = thread::spawn(move || while sender.record_and_send(&[0; OUTPUT_READ_BYTES]) {});
    let deadline = Instant::now() + Duration::from_secs(20);
    while lock(&receiver.shared.state).buffered.kept_bytes()
        < MAX_BUFFERED_READS * OUTPUT_READ_BYTES
    {
        assert!(Instant::now() < deadline, "the sender does not come so far");
        thread::yield_now();
    }
    drop(receiver);
    thread.join().unwrap();
}
