//! The end of a server's standard error, for the notice about its failure.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use callboard_text::escape_invisible;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::limits::{MAX_STDERR_BYTES, SHOWN_STDERR_LINES};
use crate::lock::lock;

/// The last bytes of a standard error. Clones share the bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    /// Reads everything to its end, and keeps the last bytes.
    pub(crate) async fn read_all(self, mut from: impl AsyncRead + Unpin) {
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
            let mut tail = lock(&self.0);
            tail.extend(&buffer[..bytes]);
            let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
            drop(tail.drain(..surplus));
        }
    }

    /// Returns the last lines, in which invisible characters are escaped.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        let bytes: Vec<u8> = lock(&self.0).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let mut lines: Vec<_> = lines.map(escape_invisible).collect();
        lines.split_off(lines.len().saturating_sub(SHOWN_STDERR_LINES))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept() {
        let tail = StderrTail::default();
        let text = (0..10_000).map(|number| format!("line {number}\n")).collect::<String>();
        tail.clone().read_all(text.as_bytes()).await;
        tail.clone().read_all(&b"bad \x1b[2J\n\n"[..]).await;
        let lines = tail.last_lines();
        assert_eq!(lines.len(), SHOWN_STDERR_LINES);
        assert_eq!(lines[0], "line 9996");
        assert!(!lines[4].contains('\u{1b}'), "{}", lines[4]);
    }
}
