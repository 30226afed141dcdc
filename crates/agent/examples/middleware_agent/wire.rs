//! From the session's outbox to the SDK's connection.
//!
//! Updates, requests and answers come out of the session's driver one after the other, so that a
//! permission is never asked for before its call was told of, and an answer never overtakes a
//! status. Nothing else in this program sends. A production agent also waits here, in
//! `Sink::ready`, until its client has taken what it was sent.

use std::sync::Arc;

use acp_lifecycle::{Answer, Item, PermissionId, Sink, Unreachable};
use acp_types::wire::Message as _;
use acp_types::wire::v1::{Sent, Surface};
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{PromptResponse, RequestPermissionOutcome, StopReason};
use agent_client_protocol::{Client, Error, Result, UntypedMessage};

use super::{Open, SESSION};

/// The client. Only the session's driver calls it.
pub(crate) struct Wire {
    client: ConnectionTo<Client>,
    open: Arc<Open>,
    sent: Sent,
}

impl Sink for Wire {
    fn deliver(&mut self, item: Item) -> std::result::Result<(), Unreachable> {
        let sent = match item {
            Item::ToolCall(id, patch) => {
                let mut updates = self.sent.tool_call(&id, patch).into_iter();
                updates.try_for_each(|update| {
                    // In the projection's JSON: the SDK's type omits a status of `pending`.
                    let update = update.in_session(SESSION);
                    let message = UntypedMessage::new(update.method(), update.params()?)?;
                    self.client.send_notification(message)
                })
            }
            Item::Permission(id) => self.ask(id),
            Item::Answer(turn) => self.open.turns().remove(&turn).map_or(Ok(()), |turn| {
                let (responder, cancel) = turn;
                let is_over = cancel.is_cancelled();
                let stop = if is_over { StopReason::Cancelled } else { StopReason::EndTurn };
                responder.respond(PromptResponse::new(stop))
            }),
            // A session of this agent has no messages, terminals or plans.
            _ => Ok(()),
        };
        sent.or(Err(Unreachable))
    }
}

impl Wire {
    pub(crate) fn new(client: ConnectionTo<Client>, open: Arc<Open>) -> Self {
        Self { client, open, sent: Sent::new(Surface::Text) }
    }

    /// Puts a permission request. A task of its own waits for the answer: the driver goes on.
    fn ask(&mut self, id: PermissionId) -> Result<()> {
        let handle = self.open.handle.clone();
        let Some(request) = handle.request(id) else { return Ok(()) };
        let request = self.sent.permission(SESSION.into(), &request.call, request.options);
        let asked = self.client.send_request(request.ok_or_else(Error::internal_error)?);
        drop(tokio::spawn(async move {
            tokio::select! {
                response = asked.block_task() => handle.answer(id, match response {
                    Ok(response) => match response.outcome {
                        RequestPermissionOutcome::Selected(option) => Answer::Selected {
                            option_id: option.option_id.to_string(),
                            reason: None,
                        },
                        _ => Answer::Cancelled,
                    },
                    Err(error) => Answer::Failed(error.message),
                }),
                () = handle.withdrawn(id) => {}
            }
        }));
        Ok(())
    }
}
