//! Requests to the client other than permission requests.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_lifecycle::{AgentRequestId, SessionHandle};
use agent_client_protocol::v1::SentRequest;
use agent_client_protocol::{JsonRpcNotification, JsonRpcRequest, is_incoming_transport_closed};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::lock::lock;
use crate::paced_connection::PacedConnection;

/// Sends requests to the client of a session, e.g. for a file, a terminal or a form. Cheap to
/// clone.
///
/// Each request is sent after all earlier items of the session. The deadline of a request begins
/// when the request is sent. If the caller no longer waits for the response, the request is
/// cancelled at the client.
#[derive(Clone)]
pub struct ClientRequestSender {
    handle: SessionHandle,
    line: Arc<PacedConnection>,
    waiting: Arc<Mutex<QueuedRequests>>,
}

/// A function that sends a request and handles its response.
type SendRequest = Box<dyn FnOnce(&PacedConnection) + Send>;

#[derive(Default)]
struct QueuedRequests {
    /// Queued requests by number, i.e. in the order of their creation.
    queued: BTreeMap<AgentRequestId, (RequestKind, SendRequest)>,
    last_id: u64,
    /// Whether the session has ended, so that no queued request is sent any more.
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    /// A request whose response is awaited.
    AwaitsResult,
    /// A request that releases a resource of the client. Such a request is sent even after the
    /// session's end.
    Release,
}

/// The reason why a request to the client has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRequestError {
    /// The client answered with an error. The value is the message of the error.
    #[error("{0}")]
    ErrorResponse(String),
    /// The client did not answer in time. The client may have performed the request.
    #[error("the client did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The session ended before the request was sent, or the connection is closed.
    #[error("the client cannot be reached")]
    Disconnected,
}

impl ClientRequestSender {
    pub(crate) fn new(handle: SessionHandle, line: PacedConnection) -> Self {
        Self { handle, line: Arc::new(line), waiting: Arc::default() }
    }

    pub(crate) fn connection(&self) -> &PacedConnection {
        &self.line
    }

    /// Sends a request and waits for its result. `deadline` is the maximum wait after the request
    /// was sent. Dropping the future withdraws the request.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no result: see [`ClientRequestError`].
    pub async fn send_and_wait<T: JsonRpcRequest>(
        &self,
        request: T,
        deadline: Duration,
    ) -> Result<T::Response, ClientRequestError> {
        let (mut answer, answered) = oneshot::channel();
        let send = make_send_request_fn(request, move |asked| async move {
            let response = tokio::select! {
                response = await_response(deadline, asked.block_task()) => response,
                () = answer.closed() => return,
            };
            // Ignore the error: if the receiver was dropped, the result is not needed.
            drop(answer.send(response));
        });
        let _withdraw =
            self.enqueue(RequestKind::AwaitsResult, send).map(|number| self.remove_on_drop(number));
        answered.await.unwrap_or(Err(ClientRequestError::Disconnected))
    }

    /// Requests a resource that the client then holds, e.g. a terminal. The request is sent in the
    /// same way as with [`send_and_wait`](Self::send_and_wait). `make` converts the result into a
    /// guard. When the guard is dropped, it should [release](Self::release_resource) the resource.
    ///
    /// If the future is dropped or times out, the request is cancelled at the client. A result that
    /// still arrives within `patience` is passed to `make`, and the guard is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no result: see [`ClientRequestError`].
    pub async fn acquire_resource<T: JsonRpcRequest, M: Send + 'static>(
        &self,
        request: T,
        deadline: Duration,
        patience: Duration,
        make: impl FnOnce(T::Response) -> M + Send + 'static,
    ) -> Result<M, ClientRequestError> {
        let (mut answer, answered) = oneshot::channel();
        let send = make_send_request_fn(request, move |asked| async move {
            let cancellation = asked.cancellation_handle();
            let mut asked = pin!(asked.block_task());
            tokio::select! {
                response = await_response(deadline, &mut asked) => match response {
                    Err(late @ ClientRequestError::TimedOut(_)) => drop(answer.send(Err(late))),
                    response => return drop(answer.send(response.map(make))),
                },
                () = answer.closed() => {}
            }
            // Ignore the error: a disconnected client holds no resource.
            drop(cancellation.cancel());
            drop(await_response(patience, asked).await.map(make));
        });
        let _withdraw =
            self.enqueue(RequestKind::AwaitsResult, send).map(|number| self.remove_on_drop(number));
        answered.await.unwrap_or(Err(ClientRequestError::Disconnected))
    }

    /// Sends a request that releases a resource of the client. This method does not wait for the
    /// response. If there is no response within `deadline`, the request is cancelled at the client.
    /// After the session's end, the request is sent at once.
    pub fn release_resource<T: JsonRpcRequest>(&self, request: T, deadline: Duration) {
        let send = make_send_request_fn(request, move |asked| async move {
            drop(await_response(deadline, asked.block_task()).await);
        });
        self.enqueue(RequestKind::Release, send);
    }

    /// Sends a notification at once, i.e. before items of the session that wait.
    pub fn send_notification_now(&self, notification: impl JsonRpcNotification) {
        // Ignore the error: a disconnected client needs no notification.
        drop(self.line.send_notification_now(notification));
    }

    /// Sends a queued request, unless its caller has dropped it. Called when the outbox has sent
    /// all earlier items.
    pub(crate) fn send_queued_request(&self, number: AgentRequestId) {
        if let Some(send) = self.take_queued_request(number) {
            send(&self.line);
        }
    }

    /// Closes the queue. Requests that release resources are sent now, and other queued requests
    /// are dropped.
    pub(crate) fn close_and_send_releases(&self) {
        let waiting = {
            let mut waiting = lock(&self.waiting);
            waiting.is_closed = true;
            take(&mut waiting.queued)
        };
        let releases = waiting.into_values().filter(|(kind, _)| *kind == RequestKind::Release);
        releases.for_each(|(_, send)| send(&self.line));
    }

    /// Queues a request and returns its number. After the session's end, queues nothing and returns
    /// `None`.
    fn enqueue(&self, kind: RequestKind, send: SendRequest) -> Option<AgentRequestId> {
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
            let number = AgentRequestId::new(waiting.last_id);
            waiting.queued.insert(number, (kind, send));
            number
        };
        self.handle.update(|session, now| session.enqueue_agent_request(number, now));
        Some(number)
    }

    fn remove_on_drop(&self, number: AgentRequestId) -> RemoveOnDrop<'_> {
        RemoveOnDrop { requests: self, number }
    }

    fn take_queued_request(&self, number: AgentRequestId) -> Option<SendRequest> {
        lock(&self.waiting).queued.remove(&number).map(|(_, send)| send)
    }
}

/// Returns a function that sends a request and spawns the handler of its response.
fn make_send_request_fn<T: JsonRpcRequest, A: Future<Output = ()> + Send + 'static>(
    request: T,
    attend: impl FnOnce(SentRequest<T::Response>) -> A + Send + 'static,
) -> SendRequest {
    Box::new(move |line| {
        // While the runtime shuts down, no task can handle the response.
        let Ok(runtime) = Handle::try_current() else { return };
        drop(runtime.spawn(attend(line.send_request_now(request))));
    })
}

async fn await_response<T>(
    deadline: Duration,
    asked: impl Future<Output = agent_client_protocol::Result<T>>,
) -> Result<T, ClientRequestError> {
    let response = timeout(deadline, asked)
        .await
        .map_err(|_elapsed| ClientRequestError::TimedOut(deadline))?;
    response.map_err(|error| match is_incoming_transport_closed(&error) {
        true => ClientRequestError::Disconnected,
        false => ClientRequestError::ErrorResponse(error.message),
    })
}

impl fmt::Debug for ClientRequestSender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientRequests").finish_non_exhaustive()
    }
}

/// A guard that, when it is dropped, removes a queued request, because the caller no longer waits
/// for it.
struct RemoveOnDrop<'a> {
    requests: &'a ClientRequestSender,
    number: AgentRequestId,
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        // A request that was already sent is no longer queued, so removing it has no effect.
        drop(self.requests.take_queued_request(self.number));
        self.requests.handle.update(|session, _| session.drop_unsent_agent_request(self.number));
    }
}
