//! The end of a server's standard error, for the notice about its failure.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use callboard_text::escape_invisible;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::limits::{MAX_STDERR_BYTES, SHOWN_STDERR_LINES, STDERR_WAIT};
use crate::lock::lock;
use crate::output::ReadRate;

/// The last bytes of a program's standard error. A task reads the standard error.
#[derive(Debug)]
pub(crate) struct StderrTail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    /// Changes when the task has read everything.
    is_read: watch::Receiver<()>,
}

impl StderrTail {
    /// Reads everything to its end in a task at a limited rate, and keeps the last bytes.
    pub(crate) fn read_in_background(mut from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let bytes = Arc::<Mutex<VecDeque<u8>>>::default();
        let (reading, is_read) = watch::channel(());
        let tail = bytes.clone();
        drop(tokio::spawn(async move {
            // Dropping the sender at the end of the task notifies the receiver.
            let _reading = reading;
            let mut buffer = [0; 4096];
            let mut rate = ReadRate::new(Instant::now());
            while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
                append_to_tail(&mut lock(&tail), &buffer[..bytes]);
                if let Some(resume) = rate.charge_and_get_resume_time(bytes, 0, Instant::now()) {
                    sleep_until(resume).await;
                }
            }
        }));
        Self { bytes, is_read }
    }

    /// Returns the last lines, with escaped invisible characters. Waits for a short time until the
    /// task has read everything that the program wrote.
    pub(crate) async fn last_lines(&self) -> Vec<String> {
        let mut is_read = self.is_read.clone();
        drop(timeout(STDERR_WAIT, is_read.changed()).await);
        let bytes: Vec<u8> = lock(&self.bytes).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let mut lines: Vec<_> = lines.map(escape_invisible).collect();
        lines.split_off(lines.len().saturating_sub(SHOWN_STDERR_LINES))
    }
}

fn append_to_tail(tail: &mut VecDeque<u8>, bytes: &[u8]) {
    tail.extend(bytes);
    let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
    drop(tail.drain(..surplus));
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use pretty_assertions::assert_eq;

    use crate::limits::{READ_BURST, READ_BYTES_PER_SECOND};

    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept() {
        let text = (0..10_000).map(|number| format!("line {number}\n")).collect::<String>();
        let text = text + "bad \x1b[2J\n\n";
        let lines = StderrTail::read_in_background(Cursor::new(text)).last_lines().await;
        assert_eq!(lines.len(), SHOWN_STDERR_LINES);
        assert_eq!(lines[0], "line 9996");
        assert!(!lines[4].contains('\u{1b}'), "{}", lines[4]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_at_a_limited_rate() {
        let seconds = READ_BURST.as_secs() + 3;
        let flood = tokio::io::repeat(b'x').take(seconds * READ_BYTES_PER_SECOND);
        let (begin, mut tail) = (Instant::now(), StderrTail::read_in_background(flood));
        // The sender is dropped at the end.
        assert!(tail.is_read.changed().await.is_err());
        assert_eq!(begin.elapsed().as_secs(), 3);
    }
}
