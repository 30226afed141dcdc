//! Requests to the client that are about no permission.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_lifecycle::{ClientRequestId, SessionHandle};
use agent_client_protocol::JsonRpcRequest;
use agent_client_protocol::v1::SentRequest;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::lock::lock;
use crate::paced_connection::PacedConnection;

/// Asks the client of a session for something: a file, a terminal, a form. Cheap to clone.
///
/// Each request goes out behind all that the session sent before it and has a deadline from then on.
/// A request whose answer is not awaited any more is cancelled at the client.
#[derive(Clone)]
pub struct ClientRequests {
    handle: SessionHandle,
    line: Arc<PacedConnection>,
    waiting: Arc<Mutex<QueuedRequests>>,
}

/// Sends a request, and sees to its answer.
type SendRequest = Box<dyn FnOnce(&PacedConnection) + Send>;

#[derive(Default)]
struct QueuedRequests {
    /// By their numbers, and so in their order.
    queued: BTreeMap<ClientRequestId, (RequestKind, SendRequest)>,
    last_id: u64,
    /// Whether the session is over: then nothing is sent in its turn any more.
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    /// Somebody waits for its answer.
    AwaitsResult,
    /// It gives back what the client holds for us, and is sent even behind the session's end.
    Release,
}

/// Why a request to the client has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRequestError {
    /// The client answered by an error, with this message.
    #[error("{0}")]
    ErrorResponse(String),
    /// It did not answer in time. It may have done what it was asked for.
    #[error("the client did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The session was over before the request was sent, or the connection is gone.
    #[error("the client cannot be reached")]
    Disconnected,
}

impl ClientRequests {
    pub(crate) fn new(handle: SessionHandle, line: PacedConnection) -> Self {
        Self { handle, line: Arc::new(line), waiting: Arc::default() }
    }

    pub(crate) fn line(&self) -> &PacedConnection {
        &self.line
    }

    /// Sends a request, and waits for its result no longer than `deadline` from then on. Dropping
    /// this takes the request back.
    ///
    /// # Errors
    ///
    /// If there is no result: see [`ClientRequestError`].
    pub async fn send<T: JsonRpcRequest>(
        &self,
        request: T,
        deadline: Duration,
    ) -> Result<T::Response, ClientRequestError> {
        let (mut answer, answered) = oneshot::channel();
        let send = send_and_handle(request, move |asked| async move {
            let response = tokio::select! {
                response = with_deadline(deadline, asked.block_task()) => response,
                () = answer.closed() => return,
            };
            // Who does not wait any more has no use for it.
            drop(answer.send(response));
        });
        let _withdraw =
            self.enqueue(RequestKind::AwaitsResult, send).map(|number| self.remove_on_drop(number));
        answered.await.unwrap_or(Err(ClientRequestError::Disconnected))
    }

    /// Sends a request as [`send`](Self::send) does, for something that the client holds from then on.
    /// `make` makes of the result what [releases](Self::release) it when it is dropped. When nobody
    /// waits any more, the client is told, and what comes all the same within `patience` is made and
    /// dropped.
    ///
    /// # Errors
    ///
    /// If there is no result: see [`ClientRequestError`].
    pub async fn acquire<T: JsonRpcRequest, M: Send + 'static>(
        &self,
        request: T,
        deadline: Duration,
        patience: Duration,
        make: impl FnOnce(T::Response) -> M + Send + 'static,
    ) -> Result<M, ClientRequestError> {
        let (mut answer, answered) = oneshot::channel();
        let send = send_and_handle(request, move |asked| async move {
            let cancellation = asked.cancellation_handle();
            let mut asked = pin!(asked.block_task());
            tokio::select! {
                response = with_deadline(deadline, &mut asked) => match response {
                    Err(late @ ClientRequestError::TimedOut(_)) => drop(answer.send(Err(late))),
                    response => return drop(answer.send(response.map(make))),
                },
                () = answer.closed() => {}
            }
            // A client that is gone made nothing.
            drop(cancellation.cancel());
            drop(with_deadline(patience, asked).await.map(make));
        });
        let _withdraw =
            self.enqueue(RequestKind::AwaitsResult, send).map(|number| self.remove_on_drop(number));
        answered.await.unwrap_or(Err(ClientRequestError::Disconnected))
    }

    /// Sends a request that gives back what the client holds, and does not wait for its answer, which
    /// may take until `deadline`. It is sent at once where the session is over.
    pub fn release<T: JsonRpcRequest>(&self, request: T, deadline: Duration) {
        let send = send_and_handle(request, move |asked| async move {
            drop(with_deadline(deadline, asked.block_task()).await);
        });
        self.enqueue(RequestKind::Release, send);
    }

    /// Sends a request whose turn has come, unless its caller has gone.
    pub(crate) fn send_queued(&self, number: ClientRequestId) {
        if let Some(send) = self.take_queued(number) {
            send(&self.line);
        }
    }

    /// Says that the session is over: what gives something back is sent now, the rest is not sent any more.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut waiting = lock(&self.waiting);
            waiting.is_closed = true;
            take(&mut waiting.queued)
        };
        let releases = waiting.into_values().filter(|(kind, _)| *kind == RequestKind::Release);
        releases.for_each(|(_, send)| send(&self.line));
    }

    /// Has a request sent in its turn, and returns its number. There are no turns behind the
    /// session's end.
    fn enqueue(&self, kind: RequestKind, send: SendRequest) -> Option<ClientRequestId> {
        let number = {
            let mut waiting = lock(&self.waiting);
            if waiting.is_closed {
                drop(waiting);
                if kind == RequestKind::Release {
                    send(&self.line);
                }
                return None;
            }
            waiting.last_id += 1;
            let number = ClientRequestId::new(waiting.last_id);
            waiting.queued.insert(number, (kind, send));
            number
        };
        self.handle.update(|session, now| session.request_client(number, now));
        Some(number)
    }

    fn remove_on_drop(&self, number: ClientRequestId) -> RemoveOnDrop<'_> {
        RemoveOnDrop { requests: self, number }
    }

    fn take_queued(&self, number: ClientRequestId) -> Option<SendRequest> {
        lock(&self.waiting).queued.remove(&number).map(|(_, send)| send)
    }
}

/// Sends a request when it is called, and has its answer attended to.
fn send_and_handle<T: JsonRpcRequest, A: Future<Output = ()> + Send + 'static>(
    request: T,
    attend: impl FnOnce(SentRequest<T::Response>) -> A + Send + 'static,
) -> SendRequest {
    Box::new(move |line| {
        // In a runtime that ends, nobody attends to anything any more.
        let Ok(runtime) = Handle::try_current() else { return };
        drop(runtime.spawn(attend(line.request(request))));
    })
}

async fn with_deadline<T>(
    deadline: Duration,
    asked: impl Future<Output = agent_client_protocol::Result<T>>,
) -> Result<T, ClientRequestError> {
    let response = timeout(deadline, asked)
        .await
        .map_err(|_elapsed| ClientRequestError::TimedOut(deadline))?;
    response.map_err(|error| ClientRequestError::ErrorResponse(error.message))
}

impl fmt::Debug for ClientRequests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientRequests").finish_non_exhaustive()
    }
}

/// Forgets a request that nobody waits for any more, if it was not sent.
struct RemoveOnDrop<'a> {
    requests: &'a ClientRequests,
    number: ClientRequestId,
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        // What was sent is no longer in the outbox.
        drop(self.requests.take_queued(self.number));
        self.requests.handle.update(|session, _| session.withdraw_request(self.number));
    }
}
