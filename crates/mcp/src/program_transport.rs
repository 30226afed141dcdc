//! The transport of a server that is a program: each line is a message.

use std::mem;

use futures::StreamExt as _;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, JsonRpcMessageCodec};
use tokio::io::{AsyncRead, AsyncWrite, Empty, empty};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking, yield_now};
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::{AnyDelimiterCodec, Decoder as _, FramedRead};

use crate::limits::{MAX_MESSAGE_BYTES, MAX_SHORT_MESSAGE_BYTES};

type Message = RxJsonRpcMessage<RoleClient>;

/// Held while a long message is parsed. A parsed message takes much more memory than its line.
static PARSING: Semaphore = Semaphore::const_new(1);

/// Reads messages from a program, and writes messages to it. Other tasks of the thread run between
/// two messages, and while a long message is parsed.
pub(crate) struct ProgramTransport<R, W: AsyncWrite> {
    lines: FramedRead<R, AnyDelimiterCodec>,
    parsing: Option<JoinHandle<Option<Message>>>,
    /// Whether a line was read since other tasks could run.
    yields: bool,
    /// Writes the messages, and reads none.
    writer: AsyncRwTransport<RoleClient, Empty, W>,
}

impl<R, W> ProgramTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(read: R, write: W) -> Self {
        let codec =
            AnyDelimiterCodec::new_with_max_length(b"\n".into(), b"\n".into(), MAX_MESSAGE_BYTES);
        let (lines, writer) = (FramedRead::new(read, codec), AsyncRwTransport::new(empty(), write));
        Self { lines, parsing: None, yields: false, writer }
    }
}

impl<R, W> Transport<RoleClient> for ProgramTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.writer.send(message)
    }

    /// The SDK drops this future and calls the function again while it waits. Nothing is lost then.
    async fn receive(&mut self) -> Option<Message> {
        loop {
            if let Some(parsing) = &mut self.parsing {
                let message = parsing.await;
                self.parsing = None;
                if let Ok(Some(message)) = message {
                    return Some(message);
                }
            }
            if mem::take(&mut self.yields) {
                yield_now().await;
            }
            let line = self.lines.next().await?.ok()?;
            self.yields = true;
            if line.len() > MAX_SHORT_MESSAGE_BYTES {
                self.parsing = Some(tokio::spawn(parse_on_thread(line)));
            } else if let Some(message) = parse(line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.writer.close().await
    }
}

async fn parse_on_thread(line: Bytes) -> Option<Message> {
    let _one = PARSING.acquire().await;
    spawn_blocking(|| parse(line)).await.ok().flatten()
}

/// Returns the message of a line, or `None` if the line is none. The SDK writes the reason to the
/// log.
fn parse(line: Bytes) -> Option<Message> {
    JsonRpcMessageCodec::default().decode_eof(&mut BytesMut::from(line)).ok().flatten()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rmcp::model::JsonRpcMessage;
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn messages_are_received_in_order_although_others_wait_or_are_wrong() {
        let result = |id: u64, bytes: usize| json!({"jsonrpc": "2.0", "id": id, "result": {"x": "x".repeat(bytes)}});
        let lines = [
            result(1, 2).to_string(),
            result(2, MAX_SHORT_MESSAGE_BYTES).to_string(),
            "{".repeat(MAX_SHORT_MESSAGE_BYTES + 1),
            "no message".to_owned(),
            String::new(),
            json!({"jsonrpc": "2.0", "method": "notifications/unknown"}).to_string(),
            json!({"id": 3}).to_string(),
            result(4, 2).to_string() + "\r",
        ];
        let sent = lines.join("\n") + "\n";
        let mut transport = ProgramTransport::new(sent.as_bytes(), tokio::io::sink());
        let mut received: Vec<Value> = Vec::new();
        loop {
            let next = transport.receive();
            tokio::select! {
                biased;
                // Drops the other future whenever it waits.
                () = yield_now() => {}
                message = next => match message {
                    Some(JsonRpcMessage::Response(response)) => {
                        received.push(serde_json::to_value(response.id).unwrap());
                    }
                    Some(other) => assert!(matches!(other, JsonRpcMessage::Notification(_))),
                    None => break,
                },
            }
        }
        assert_eq!(received, [1, 2, 4].map(Value::from));
    }
}
