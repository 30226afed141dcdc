//! A transport of the SDK over two byte streams.
//!
//! This transport replaces the SDK's `Stdio`. It also handles lines that are too long, too deeply
//! nested or not text. It handles clients that send requests and never read, and clients that
//! disappear. Only two parts of ACP receive special handling: the `initialize` handshake, and the
//! cancel notifications that the SDK sends.
//!
//! The transport has three parts: a reader thread (`reader`), a writer thread (`writer`), and the
//! connection's future (`drive_connection`), which receives the SDK's frames. The three parts share
//! one `queue`. All limits are in `limits.rs`.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read, Write};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;

use agent_client_protocol::{
    Channel, ConnectTo, ConnectionDriver, Error, RawJsonRpcMessage, Result, Role, TransportFrame,
};
use futures::channel::{mpsc, oneshot};
use futures::future::{Either, select};
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::queue::{HangupProbe, OutgoingKind, OutgoingQueue};
use crate::reader::LineReaderThread;
use crate::writer::LineWriterThread;
use crate::{TransportCounters, encode, json_bounds, limits, sys};

#[cfg(test)]
mod tests;

/// A transport for an SDK connection over two byte streams.
///
/// The connection must run in a Tokio runtime with time enabled. The connection ends when the input
/// ends, or when the client closes its end of the output. Lines that were accepted before the end
/// are still written, for at most a second. Reading and writing block, so each has a separate
/// thread (`acp-read`, `acp-write`). A thread may still be in a blocking call after the connection
/// has ended.
///
/// The transport stops reading while 256 requests are unanswered or more than 1 MiB of responses
/// are unwritten. While the transport does not read, it cannot reach the end of the input either.
/// With [`stdio`], the transport detects the end anyway if the input is a pipe or a socket. With
/// other streams, the connection ends when the transport can read again, or when the output ends.
///
/// ```
/// use agent_client_protocol::Agent;
/// use acp_transport::Transport;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_client_protocol::Result<()> {
/// let transport = Transport::new(&b"not JSON\n"[..], std::io::sink());
/// let counters = transport.counters();
/// Agent.v1().connect_to(transport).await?;
/// assert_eq!(counters.snapshot().lines_malformed, 1);
/// # Ok(())
/// # }
/// ```
pub struct Transport {
    /// The reader thread and its input, until the thread starts.
    reader: Option<(LineReaderThread, Box<dyn Read + Send>)>,
    output: Box<dyn Write + Send>,
    /// The SDK's end of the channel.
    sdk_channel: Channel,
    outgoing: mpsc::UnboundedReceiver<TransportFrame>,
    incoming: mpsc::UnboundedSender<TransportFrame>,
    queue: CloseOnDrop,
    counters: Arc<TransportCounters>,
    ended: CancellationToken,
}

/// Takes the standard streams of this process for a [`Transport`].
///
/// On Unix, all other code in the process and its children then reads from `/dev/null` as standard
/// input and writes standard output to the standard error. Call this function once, before any
/// other thread starts. The reader thread starts immediately, so that the client's first line is
/// read and parsed while the agent is being created. If the transport is dropped before it is
/// connected, lines may be lost.
///
/// # Errors
///
/// Returns an error if the process is out of file descriptors or threads, or cannot open
/// `/dev/null`.
pub fn stdio() -> io::Result<Transport> {
    let (input, output) = sys::take_stdio()?;
    let same_input = input.try_clone()?;
    let hung_up = Box::new(move || sys::is_hung_up(&same_input));
    let mut transport = Transport::with_hangup_probe(Box::new(input), Box::new(output), hung_up);
    start_reader(transport.reader.take())?;
    Ok(transport)
}

impl Transport {
    /// Creates a transport from a stream to read and a stream to write. Nothing is read or written
    /// before the transport is connected.
    #[must_use]
    pub fn new(input: impl Read + Send + 'static, output: impl Write + Send + 'static) -> Self {
        Self::with_hangup_probe(Box::new(input), Box::new(output), Box::new(|| false))
    }

    fn with_hangup_probe(
        input: Box<dyn Read + Send>,
        output: Box<dyn Write + Send>,
        hung_up: HangupProbe,
    ) -> Self {
        let (sdk_channel, ours) = Channel::duplex();
        let (outgoing, incoming) = ours.into_parts();
        let (counters, ended) = (Arc::<TransportCounters>::default(), CancellationToken::new());
        let queue = Arc::new(OutgoingQueue::new(counters.clone(), hung_up));
        let reader =
            LineReaderThread::new(incoming.clone(), queue.clone(), counters.clone(), ended.clone());
        let (reader, queue) = (Some((reader, input)), CloseOnDrop(queue));
        Self { reader, output, sdk_channel, outgoing, incoming, queue, counters, ended }
    }

    /// Returns the token that is cancelled when the input has ended, or when writing the output has
    /// failed, e.g. because the client closed its end. If a caller cancels the token, the
    /// connection ends in the same way as at the end of the input.
    #[must_use]
    pub fn ended_token(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Returns the handle to the counters of this transport. The handle outlives the transport.
    #[must_use]
    pub fn counters(&self) -> Arc<TransportCounters> {
        self.counters.clone()
    }

    /// Returns the SDK's end of the channel, and the driver that moves frames through it.
    fn into_channel_and_driver(self) -> (Channel, ConnectionDriver) {
        let Self { reader, output, sdk_channel: sdk, mut outgoing, incoming, queue, ended, .. } =
            self;
        let (finish, mut finished) = oneshot::channel();
        // After `finish` is sent, no more frames are accepted, but the frames already accepted are
        // still received.
        let frames = stream::poll_fn(move |context| {
            if let Poll::Ready(Ok(())) = finished.poll_unpin(context) {
                outgoing.close();
            }
            outgoing.poll_next_unpin(context)
        });
        let finish = move || {
            let _ = finish.send(());
        };
        let moved = drive_connection(reader, output, incoming, frames, queue, ended);
        (sdk, ConnectionDriver::with_finish(moved, finish))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Transport")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<R: Role> ConnectTo<R> for Transport {
    async fn connect_to(self, client: impl ConnectTo<R::Counterpart>) -> Result<()> {
        let (channel, mut driver) = self.into_channel_and_driver();
        let client = Box::pin(ConnectTo::<R>::connect_to(channel, client));
        match select(client, &mut driver).await {
            Either::Left((result, _)) => result?,
            Either::Right((result, _)) => return result,
        }
        let _finishes = driver.request_finish();
        driver.await
    }

    fn into_channel_and_future(self) -> (Channel, Option<ConnectionDriver>) {
        let (channel, driver) = self.into_channel_and_driver();
        (channel, Some(driver))
    }
}

/// Queues the SDK's frames until there are no more, then waits for the writer.
///
/// If the writer fails first, or `ended` is cancelled, the SDK's input is closed, and the SDK
/// finishes in the same way as at the end of the input. After a failure of the writer, the SDK's
/// frames are dropped.
async fn drive_connection(
    reader: Option<(LineReaderThread, Box<dyn Read + Send>)>,
    output: Box<dyn Write + Send>,
    incoming: mpsc::UnboundedSender<TransportFrame>,
    frames: impl Stream<Item = TransportFrame>,
    closing: CloseOnDrop,
    ended: CancellationToken,
) -> Result<()> {
    let queue = closing.0.clone();
    let (done, written) = oneshot::channel();

    // The reader starts before the writer, because there is nothing to write before a line was
    // read.
    start_reader(reader).map_err(Error::into_internal_error)?;
    let writer = LineWriterThread::new(queue.clone(), ended.clone());
    spawn_thread("acp-write", move || drop(done.send(writer.write_until_closed(output))))
        .map_err(Error::into_internal_error)?;

    let ending = async {
        ended.cancelled().await;
        incoming.close_channel();
        std::future::pending::<Infallible>().await
    };
    match select(pin!(queue_frames(frames, &queue)), pin!(ending)).await {
        Either::Left((pumped, _)) => pumped?,
        Either::Right((never, _)) => match never {},
    }
    drop(closing);
    match timeout(limits::FLUSH_DEADLINE, written).await {
        Ok(Ok(Err(error))) if !is_client_hangup(&error) => Err(Error::into_internal_error(error)),
        Ok(_) => Ok(()),
        Err(_) => {
            tracing::warn!("the client does not read; dropping the rest of the output");
            Ok(())
        }
    }
}

async fn queue_frames(
    frames: impl Stream<Item = TransportFrame>,
    queue: &OutgoingQueue,
) -> Result<()> {
    let mut frames = pin!(frames);
    let mut line = Vec::new();
    while let Some(frame) = frames.next().await {
        // Any other frame is malformed, and only a relay sends malformed frames.
        let TransportFrame::Single(mut message) = frame else {
            continue;
        };
        encode::encode(&mut message, &mut line).map_err(Error::into_internal_error)?;
        match message.response_id() {
            Some(id) => queue.push_response(&line, id),
            None => queue.push_unless_closed(&line, kind_of_non_response(&message)),
        }
    }
    Ok(())
}

/// Returns the kind of a message that is not a response.
fn kind_of_non_response(message: &RawJsonRpcMessage) -> OutgoingKind {
    match message {
        RawJsonRpcMessage::Notification(it) if &*it.method == CANCEL_REQUEST => {
            OutgoingKind::SdkCancel
        }
        _ => OutgoingKind::AgentMessage,
    }
}

/// The notification that cancels a request.
const CANCEL_REQUEST: &str = "$/cancel_request";

/// Closes the queue when the transport or the connection's future is dropped, so that the threads
/// end.
struct CloseOnDrop(Arc<OutgoingQueue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Starts the reader thread, if it has not started yet.
fn start_reader(reader: Option<(LineReaderThread, Box<dyn Read + Send>)>) -> io::Result<()> {
    let Some((reader, input)) = reader else { return Ok(()) };
    spawn_thread("acp-read", move || reader.read_until_end(input))
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Returns whether a line is within the limits of nesting (64 levels) and values (100,000, where an
/// array or object counts as 4). The length of the line is not checked.
#[must_use]
pub fn is_within_json_bounds(line: &[u8]) -> bool {
    json_bounds::check_bounds_and_estimate_size(line).is_ok()
}

/// Returns whether the client closed its end, which is a regular end of a connection.
fn is_client_hangup(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
