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

use crate::line::Line;
use crate::lock::lock;

/// Asks the client of a session for something: a file, a terminal, a form. Cheap to clone.
///
/// Each request goes out behind all that the session sent before it and has a deadline from then on.
/// A request whose answer is not awaited any more is cancelled at the client.
#[derive(Clone)]
pub struct ClientRequests {
    handle: SessionHandle,
    line: Arc<Line>,
    waiting: Arc<Mutex<Waiting>>,
}

/// Sends a request, and sees to its answer.
type SendRequest = Box<dyn FnOnce(&Line) + Send>;

#[derive(Default)]
struct Waiting {
    /// By their numbers, and so in their order.
    send: BTreeMap<ClientRequestId, (Kind, SendRequest)>,
    last: u64,
    /// Whether the session is over: then nothing is sent in its turn any more.
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Somebody waits for its answer.
    Asked,
    /// It gives back what the client holds for us, and is sent even behind the session's end.
    Released,
}

/// Why a request to the client has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRequestError {
    /// The client answered by an error, with this message.
    #[error("{0}")]
    Refused(String),
    /// It did not answer in time. It may have done what it was asked for.
    #[error("the client did not answer within {} s", .0.as_secs())]
    Late(Duration),
    /// The session was over before the request was sent, or the connection is gone.
    #[error("the client cannot be reached")]
    Gone,
}

impl ClientRequests {
    pub(crate) fn new(handle: SessionHandle, line: Line) -> Self {
        Self { handle, line: Arc::new(line), waiting: Arc::default() }
    }

    pub(crate) fn line(&self) -> &Line {
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
        let send = sending(request, move |asked| async move {
            let response = tokio::select! {
                response = within(deadline, asked.block_task()) => response,
                () = answer.closed() => return,
            };
            // Who does not wait any more has no use for it.
            drop(answer.send(response));
        });
        let _withdraw = self.queue(Kind::Asked, send).map(|number| self.withdrawing(number));
        answered.await.unwrap_or(Err(ClientRequestError::Gone))
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
        let send = sending(request, move |asked| async move {
            let cancellation = asked.cancellation_handle();
            let mut asked = pin!(asked.block_task());
            tokio::select! {
                response = within(deadline, &mut asked) => match response {
                    Err(late @ ClientRequestError::Late(_)) => drop(answer.send(Err(late))),
                    response => return drop(answer.send(response.map(make))),
                },
                () = answer.closed() => {}
            }
            // A client that is gone made nothing.
            drop(cancellation.cancel());
            drop(within(patience, asked).await.map(make));
        });
        let _withdraw = self.queue(Kind::Asked, send).map(|number| self.withdrawing(number));
        answered.await.unwrap_or(Err(ClientRequestError::Gone))
    }

    /// Sends a request that gives back what the client holds, and does not wait for its answer, which
    /// may take until `deadline`. It is sent at once where the session is over.
    pub fn release<T: JsonRpcRequest>(&self, request: T, deadline: Duration) {
        let send = sending(request, move |asked| async move {
            drop(within(deadline, asked.block_task()).await);
        });
        self.queue(Kind::Released, send);
    }

    /// Sends a request whose turn has come, unless its caller has gone.
    pub(crate) fn hand_over(&self, number: ClientRequestId) {
        if let Some(send) = self.take(number) {
            send(&self.line);
        }
    }

    /// Says that the session is over: what gives something back is sent now, the rest is not sent any more.
    pub(crate) fn end(&self) {
        let waiting = {
            let mut waiting = lock(&self.waiting);
            waiting.is_over = true;
            take(&mut waiting.send)
        };
        let releases = waiting.into_values().filter(|(kind, _)| *kind == Kind::Released);
        releases.for_each(|(_, send)| send(&self.line));
    }

    /// Has a request sent in its turn, and returns its number. There are no turns behind the
    /// session's end.
    fn queue(&self, kind: Kind, send: SendRequest) -> Option<ClientRequestId> {
        let number = {
            let mut waiting = lock(&self.waiting);
            if waiting.is_over {
                drop(waiting);
                if kind == Kind::Released {
                    send(&self.line);
                }
                return None;
            }
            waiting.last += 1;
            let number = ClientRequestId::new(waiting.last);
            waiting.send.insert(number, (kind, send));
            number
        };
        self.handle.with(|session, now| session.request_client(number, now));
        Some(number)
    }

    fn withdrawing(&self, number: ClientRequestId) -> Withdraw<'_> {
        Withdraw { requests: self, number }
    }

    fn take(&self, number: ClientRequestId) -> Option<SendRequest> {
        lock(&self.waiting).send.remove(&number).map(|(_, send)| send)
    }
}

/// Sends a request when it is called, and has its answer attended to.
fn sending<T: JsonRpcRequest, A: Future<Output = ()> + Send + 'static>(
    request: T,
    attend: impl FnOnce(SentRequest<T::Response>) -> A + Send + 'static,
) -> SendRequest {
    Box::new(move |line| {
        // In a runtime that ends, nobody attends to anything any more.
        let Ok(runtime) = Handle::try_current() else { return };
        drop(runtime.spawn(attend(line.request(request))));
    })
}

async fn within<T>(
    deadline: Duration,
    asked: impl Future<Output = agent_client_protocol::Result<T>>,
) -> Result<T, ClientRequestError> {
    let response =
        timeout(deadline, asked).await.map_err(|_elapsed| ClientRequestError::Late(deadline))?;
    response.map_err(|error| ClientRequestError::Refused(error.message))
}

impl fmt::Debug for ClientRequests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientRequests").finish_non_exhaustive()
    }
}

/// Forgets a request that nobody waits for any more, if it was not sent.
struct Withdraw<'a> {
    requests: &'a ClientRequests,
    number: ClientRequestId,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        // What was sent is no longer in the outbox.
        drop(self.requests.take(self.number));
        self.requests.handle.with(|session, _| session.withdraw_request(self.number));
    }
}
