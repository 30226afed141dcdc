//! Requests to the client that are about no permission: each goes out behind all that was offered
//! before it, has a deadline from then on, and is taken back when nobody waits for it any more.

#![expect(clippy::disallowed_methods, reason = "this is where the outbox hands over")]

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_lifecycle::{ClientRequestId, SessionHandle};
use acp_tools::ClientError;
use acp_transport::Counters;
use agent_client_protocol::v1::{ConnectionTo, SentRequest};
use agent_client_protocol::{Client, JsonRpcRequest};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Wire;
use crate::lock::lock;

/// The requests of one session that wait to be sent.
#[derive(Clone)]
pub(super) struct Requests {
    handle: SessionHandle,
    line: Arc<Line>,
    waiting: Arc<Mutex<Waiting>>,
}

/// The way to the client.
struct Line {
    client: ConnectionTo<Client>,
    counters: Option<Arc<Counters>>,
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
    Told,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
    /// The client answered by an error, with this message.
    #[error("{0}")]
    Refused(String),
    #[error("the client did not answer within {} s", .0.as_secs())]
    Late(Duration),
    #[error("the client cannot be reached")]
    Gone,
}

impl From<Unanswered> for ClientError {
    fn from(error: Unanswered) -> Self {
        Self::new(&error.to_string())
    }
}

impl Requests {
    pub(super) fn new(
        handle: SessionHandle,
        client: ConnectionTo<Client>,
        counters: Option<Arc<Counters>>,
    ) -> Self {
        Self { handle, line: Arc::new(Line { client, counters }), waiting: Arc::default() }
    }

    /// Sends a request, and waits for its answer no longer than `deadline` from then on. Dropping
    /// this takes the request back.
    pub(super) async fn ask<T: JsonRpcRequest>(
        &self,
        request: T,
        deadline: Duration,
    ) -> Result<T::Response, Unanswered> {
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
        answered.await.unwrap_or(Err(Unanswered::Gone))
    }

    /// Asks as [`ask`](Self::ask) does for what has to be given back. When nobody waits any more,
    /// the client is told, and what comes all the same within `patience` is made and dropped.
    pub(super) async fn ask_for<T: JsonRpcRequest, M: Send + 'static>(
        &self,
        request: T,
        deadline: Duration,
        patience: Duration,
        make: impl FnOnce(T::Response) -> M + Send + 'static,
    ) -> Result<M, Unanswered> {
        let (mut answer, answered) = oneshot::channel();
        let send = sending(request, move |asked| async move {
            let cancellation = asked.cancellation_handle();
            let mut asked = pin!(asked.block_task());
            tokio::select! {
                response = within(deadline, &mut asked) => match response {
                    Err(Unanswered::Late(_)) => drop(answer.send(Err(Unanswered::Late(deadline)))),
                    response => return drop(answer.send(response.map(make))),
                },
                () = answer.closed() => {}
            }
            // A client that is gone made nothing.
            drop(cancellation.cancel());
            drop(within(patience, asked).await.map(make));
        });
        let _withdraw = self.queue(Kind::Asked, send).map(|number| self.withdrawing(number));
        answered.await.unwrap_or(Err(Unanswered::Gone))
    }

    /// Sends a request whose answer, within `deadline`, nobody waits for: at once, where the session
    /// is over.
    pub(super) fn tell<T: JsonRpcRequest>(&self, request: T, deadline: Duration) {
        let send = sending(request, move |asked| async move {
            drop(within(deadline, asked.block_task()).await);
        });
        self.queue(Kind::Told, send);
    }

    /// Says that the session is over: what is only told is sent now, the rest is not sent any more.
    pub(super) fn end(&self) {
        let waiting = {
            let mut waiting = lock(&self.waiting);
            waiting.is_over = true;
            take(&mut waiting.send)
        };
        let told = waiting.into_values().filter(|(kind, _)| *kind == Kind::Told);
        told.for_each(|(_, send)| send(&self.line));
    }

    /// Has a request sent in its turn, and returns its number. There are no turns behind the
    /// session's end.
    fn queue(&self, kind: Kind, send: SendRequest) -> Option<ClientRequestId> {
        let number = {
            let mut waiting = lock(&self.waiting);
            if waiting.is_over {
                drop(waiting);
                if kind == Kind::Told {
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
        let asked = line.client.send_request(request);
        line.counters.iter().for_each(|counters| counters.hand_over());
        drop(runtime.spawn(attend(asked)));
    })
}

async fn within<T>(
    deadline: Duration,
    asked: impl Future<Output = agent_client_protocol::Result<T>>,
) -> Result<T, Unanswered> {
    let response = timeout(deadline, asked).await.map_err(|_elapsed| Unanswered::Late(deadline))?;
    response.map_err(|error| Unanswered::Refused(error.message))
}

impl fmt::Debug for Requests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Requests").finish_non_exhaustive()
    }
}

/// Forgets a request that nobody waits for any more, if it was not sent.
struct Withdraw<'a> {
    requests: &'a Requests,
    number: ClientRequestId,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        // What was sent is no longer in the outbox.
        drop(self.requests.take(self.number));
        self.requests.handle.with(|session, _| session.withdraw_request(self.number));
    }
}

impl Wire {
    /// Sends a request, unless nobody waits for it any more.
    pub(super) fn request(&self, number: ClientRequestId) {
        if let Some(send) = self.requests.take(number) {
            send(&self.requests.line);
        }
    }
}
