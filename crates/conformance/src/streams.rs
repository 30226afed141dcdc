//! The streams of an agent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acp_transport::MAX_LINE_BYTES;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use crate::limits::MAX_KEPT_LOG_BYTES;

/// The agent's standard input.
pub(crate) type AgentStdin = Box<dyn AsyncWrite + Send + Unpin>;

/// An event that the client must process.
#[derive(Debug)]
pub(crate) enum ClientEvent {
    /// The agent wrote this line.
    AgentLine(Vec<u8>),
    /// The client must send this message now.
    Send(Value),
    /// The agent closed its output.
    OutputClosed,
}

/// Reads lines until the end, with a pause after each line. While another task holds the lock
/// `reading`, no line is read.
pub(crate) async fn read_lines(
    output: impl AsyncRead + Unpin,
    events: Sender<ClientEvent>,
    reading: Arc<tokio::sync::Mutex<()>>,
    pause: Duration,
) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let most = MAX_LINE_BYTES as u64 + 1;
        let read = (&mut output).take(most).read_until(b'\n', &mut line).await;
        if !read.is_ok_and(|bytes| bytes > 0) {
            break;
        }
        if events.send(ClientEvent::AgentLine(line)).await.is_err() {
            return;
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
        drop(reading.lock().await);
    }
    drop(events.send(ClientEvent::OutputClosed).await);
}

/// Collects the agent's output to standard error.
pub(crate) async fn read_stderr(mut stderr: impl AsyncRead + Unpin, log: Arc<Mutex<String>>) {
    let mut bytes = vec![0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() < MAX_KEPT_LOG_BYTES {
            log.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }
}
