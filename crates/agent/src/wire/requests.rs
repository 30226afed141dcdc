//! Requests to the client that are about no permission: each goes out behind all that was offered
//! before it, has a deadline from then on, and is taken back when nobody waits for it any more.

#![expect(clippy::disallowed_methods, reason = "this is where the outbox hands over")]

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acp_lifecycle::SessionHandle;
use acp_tools::ClientError;
use agent_client_protocol::JsonRpcRequest;
use agent_client_protocol::v1::SentRequest;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Wire;

/// The requests of one session that wait to be sent.
#[derive(Clone)]
pub(super) struct Requests {
    handle: SessionHandle,
    waiting: Arc<Mutex<Waiting>>,
}

/// Sends a request, and sees to its answer.
type SendRequest = Box<dyn FnOnce(&Wire) + Send>;

#[derive(Default)]
struct Waiting {
    send: HashMap<u64, SendRequest>,
    last: u64,
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
    pub(super) fn new(handle: SessionHandle) -> Self {
        Self { handle, waiting: Arc::default() }
    }

    /// Sends a request, and waits for its answer no longer than `deadline` from then on. Dropping
    /// this takes the request back.
    pub(super) async fn ask<T: JsonRpcRequest>(
        &self,
        request: T,
        deadline: Duration,
    ) -> Result<T::Response, Unanswered> {
        let (mut answer, answered) = oneshot::channel();
        let number = self.send(request, move |asked| async move {
            let response = tokio::select! {
                response = within(deadline, asked.block_task()) => response,
                () = answer.closed() => return,
            };
            // Who does not wait any more has no use for it.
            drop(answer.send(response));
        });
        let _withdraw = Withdraw { requests: self, number };
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
        let number = self.send(request, move |asked| async move {
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
        let _withdraw = Withdraw { requests: self, number };
        answered.await.unwrap_or(Err(Unanswered::Gone))
    }

    /// Sends a request whose answer, within `deadline`, nobody waits for.
    pub(super) fn tell<T: JsonRpcRequest>(&self, request: T, deadline: Duration) {
        self.send(request, move |asked| async move {
            drop(within(deadline, asked.block_task()).await);
        });
    }

    /// Has a request sent in its turn, and its answer attended to.
    fn send<T: JsonRpcRequest, A: Future<Output = ()> + Send + 'static>(
        &self,
        request: T,
        attend: impl FnOnce(SentRequest<T::Response>) -> A + Send + 'static,
    ) -> u64 {
        let send = move |wire: &Wire| {
            wire.hand_over();
            drop(tokio::spawn(attend(wire.client.send_request(request))));
        };
        let number = {
            let mut waiting = self.lock();
            waiting.last += 1;
            let number = waiting.last;
            waiting.send.insert(number, Box::new(send));
            number
        };
        self.handle.with(|session, now| session.request_client(number, now));
        number
    }

    fn take(&self, number: u64) -> Option<SendRequest> {
        self.lock().send.remove(&number)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    number: u64,
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
    pub(super) fn request(&self, number: u64) {
        if let Some(send) = self.requests.take(number) {
            send(self);
        }
    }
}
