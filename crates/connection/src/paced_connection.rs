//! A connection that sends a session's messages no faster than the transport writes them.

#![expect(clippy::disallowed_methods, reason = "all else goes through the outbox, to here")]

use std::sync::Arc;

use acp_transport::TransportCounters;
use agent_client_protocol::v1::{ConnectionTo, SentRequest};
use agent_client_protocol::{Client, JsonRpcNotification, JsonRpcRequest, Result};

/// The connection to the client.
pub(crate) struct PacedConnection {
    client: ConnectionTo<Client>,
    counters: Option<Arc<TransportCounters>>,
}

impl PacedConnection {
    pub(crate) fn new(
        client: ConnectionTo<Client>,
        counters: Option<Arc<TransportCounters>>,
    ) -> Self {
        Self { client, counters }
    }

    /// Waits until the client has read enough for one more message.
    pub(crate) async fn wait_for_send_credit(&self) {
        if let Some(counters) = &self.counters {
            counters.wait_for_credit().await;
        }
    }

    pub(crate) fn send_notification_now(
        &self,
        notification: impl JsonRpcNotification,
    ) -> Result<()> {
        self.client.send_notification(notification)?;
        self.count_handed_over();
        Ok(())
    }

    pub(crate) fn send_request_now<T: JsonRpcRequest>(
        &self,
        request: T,
    ) -> SentRequest<T::Response> {
        let sent = self.client.send_request(request);
        self.count_handed_over();
        sent
    }

    fn count_handed_over(&self) {
        if let Some(counters) = &self.counters {
            counters.count_agent_message_to_sdk();
        }
    }
}
