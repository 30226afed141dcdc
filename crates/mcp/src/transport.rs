//! A transport that limits the requests of a server. The SDK keeps each request until the answer is
//! written. If the server reads nothing, the answer is never written.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    JsonRpcMessage, JsonRpcNotification, RequestId, ServerNotification, ServerRequest,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::task::yield_now;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::{MAX_REQUEST_NAME_BYTES, MAX_UNANSWERED_REQUESTS};
use crate::lock::lock;

/// A transport that drops further requests of a server while too many requests are unanswered.
pub(crate) struct RequestLimitingTransport<T> {
    inner: T,
    unanswered: Arc<Mutex<HashSet<RequestId>>>,
    /// Whether a message was received since other tasks could run.
    yields: bool,
    /// Cancels a token when the connection is closed, because the SDK then drops the transport.
    _closing: DropGuard,
}

impl<T> RequestLimitingTransport<T> {
    /// Limits a transport. `closed` is cancelled when the connection is closed.
    pub(crate) fn new(inner: T, closed: &CancellationToken) -> Self {
        Self {
            inner,
            unanswered: Arc::default(),
            yields: false,
            _closing: closed.clone().drop_guard(),
        }
    }

    /// Returns whether a request is passed on. Too long, too many and repeated requests are
    /// dropped.
    fn record_request_if_allowed(&self, id: &RequestId, request: &ServerRequest) -> bool {
        let is_short = |text: &str| text.len() <= MAX_REQUEST_NAME_BYTES;
        let has_short_id = match id {
            RequestId::String(id) => is_short(id),
            RequestId::Number(_) => true,
        };
        let has_short_name = match request {
            ServerRequest::CustomRequest(request) => is_short(&request.method),
            _ => true,
        };
        let mut unanswered = lock(&self.unanswered);
        has_short_id
            && has_short_name
            && unanswered.len() < MAX_UNANSWERED_REQUESTS
            && unanswered.insert(id.clone())
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for RequestLimitingTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let answered =
            answered.map(|id| UnansweredRequestGuard { id, of: self.unanswered.clone() });
        let sent = self.inner.send(message);
        async move {
            let _answered = answered;
            sent.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // The messages of one server must not delay other sessions. The SDK drops this future
            // and calls the function again, so the flag is reset first.
            if mem::take(&mut self.yields) {
                yield_now().await;
            }
            let message = self.inner.receive().await?;
            self.yields = true;
            match &message {
                JsonRpcMessage::Request(request)
                    if !self.record_request_if_allowed(&request.id, &request.request) => {}
                JsonRpcMessage::Notification(JsonRpcNotification {
                    notification: ServerNotification::CancelledNotification(cancelled),
                    ..
                }) => {
                    // The SDK does not answer a cancelled request, so the request no longer counts.
                    if let Some(id) = &cancelled.params.request_id {
                        lock(&self.unanswered).remove(id);
                    }
                    return Some(message);
                }
                _ => return Some(message),
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// A request whose answer is being written. When this value is dropped, the request counts as
/// answered.
struct UnansweredRequestGuard {
    id: RequestId,
    of: Arc<Mutex<HashSet<RequestId>>>,
}

impl Drop for UnansweredRequestGuard {
    fn drop(&mut self) {
        lock(&self.of).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::future::pending;

    use futures::FutureExt as _;
    use pretty_assertions::assert_eq;
    use rmcp::model::{ClientResult, ErrorData};
    use serde_json::{Value, json};

    use super::*;

    /// A server that has sent some messages, and reads only error responses.
    struct DeafServer(VecDeque<Value>);

    impl Transport<RoleClient> for DeafServer {
        type Error = Infallible;

        fn send(
            &mut self,
            message: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
            let is_read = matches!(message, JsonRpcMessage::Error(_));
            async move { if is_read { Ok(()) } else { pending().await } }
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            Some(serde_json::from_value(self.0.pop_front()?).unwrap())
        }

        async fn close(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    fn ping(id: impl Into<Value>) -> Value {
        json!({"jsonrpc": "2.0", "id": id.into(), "method": "ping"})
    }

    async fn received(transport: &mut RequestLimitingTransport<DeafServer>) -> usize {
        let mut count = 0;
        while transport.receive().await.is_some() {
            count += 1;
        }
        count
    }

    #[tokio::test]
    async fn requests_are_dropped_while_too_many_are_unanswered() {
        let flood = (0..2 * MAX_UNANSWERED_REQUESTS).map(|id| ping(id as u64));
        let mut transport =
            RequestLimitingTransport::new(DeafServer(flood.collect()), &CancellationToken::new());
        assert_eq!(received(&mut transport).await, MAX_UNANSWERED_REQUESTS);
        let answer = |id| JsonRpcMessage::response(ClientResult::empty(()), RequestId::Number(id));
        // As long as the server does not read the answer, the request stays unanswered.
        let unread = transport.send(answer(0));
        transport.inner.0.push_back(ping(1000));
        assert_eq!(received(&mut transport).await, 0);
        drop(unread);
        let error = ErrorData::internal_error("", None);
        transport.send(JsonRpcMessage::error(error, Some(RequestId::Number(1)))).await.unwrap();
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 2}});
        transport.inner.0.extend([cancel, ping(1001), ping(1002), ping(1003), ping(1004)]);
        assert_eq!(received(&mut transport).await, 4);
    }

    #[tokio::test]
    async fn requests_with_long_or_repeated_names_are_dropped() {
        let long = "x".repeat(MAX_REQUEST_NAME_BYTES + 1);
        let method = json!({"jsonrpc": "2.0", "id": 1, "method": long});
        let messages = [ping(long), method, ping(2), ping(2)];
        let mut transport =
            RequestLimitingTransport::new(DeafServer(messages.into()), &CancellationToken::new());
        assert_eq!(received(&mut transport).await, 1);
    }

    #[tokio::test]
    async fn other_tasks_run_between_two_messages() {
        let server = DeafServer((0..3_u64).map(ping).collect());
        let mut transport = RequestLimitingTransport::new(server, &CancellationToken::new());
        let mut received = Vec::new();
        for _ in 0..4 {
            // The SDK may drop a future that waits. The next future receives the message.
            received.push(transport.receive().now_or_never().is_some());
        }
        assert_eq!(received, [true, false, true, false]);
    }

    #[test]
    fn the_end_of_a_transport_is_reported() {
        let closed = CancellationToken::new();
        let transport = RequestLimitingTransport::new(DeafServer(VecDeque::new()), &closed);
        assert!(!closed.is_cancelled());
        drop(transport);
        assert!(closed.is_cancelled());
    }
}
