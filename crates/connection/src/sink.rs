//! Converts a session's items to messages of ACP v1.
//!
//! Each request to the client has a separate task. The task ends when the response arrives or when
//! the request is withdrawn. A request that is dropped is cancelled at the client.

use std::fmt;
use std::sync::Arc;

use acp_lifecycle::limits::MAX_REJECTION_REASON_BYTES;
use acp_lifecycle::{
    ClientUnreachable, OutboxItem, OutboxSink, PermissionAnswer, PermissionId, SessionHandle,
};
use acp_types::wire::v1::WireUpdate;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    RequestPermissionOutcome, RequestPermissionResponse, SessionId, StringPropertySchema,
};
use futures::future::BoxFuture;

use crate::notification::UpdateNotification;
use crate::pending_responses::{PendingResponseId, PendingResponses};
use crate::permission_message::PermissionRequestMessage;
use crate::requests::ClientRequestSender;
use crate::update_encoder::UpdateEncoder;

/// A hook that runs after each answer to a permission request.
pub(crate) type PermissionAnswerHook = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A hook that runs before each item is sent.
pub(crate) type DeliveryHook = Box<dyn FnMut(&OutboxItem) -> BoxFuture<'static, ()> + Send>;

/// The sink of one session. The sink sends the session's items to the client.
pub(crate) struct ClientSink {
    session: SessionId,
    handle: SessionHandle,
    answers: PendingResponses,
    requests: ClientRequestSender,
    encoder: UpdateEncoder,
    after_answer: Option<PermissionAnswerHook>,
    before_delivery: Option<DeliveryHook>,
}

impl ClientSink {
    #[expect(clippy::too_many_arguments, reason = "its one caller has them as fields")]
    pub(crate) fn new(
        session: SessionId,
        handle: SessionHandle,
        answers: PendingResponses,
        requests: ClientRequestSender,
        capabilities: &ClientCapabilities,
        meta_key: String,
        after_answer: Option<PermissionAnswerHook>,
        before_delivery: Option<DeliveryHook>,
    ) -> Self {
        let encoder = UpdateEncoder::new(capabilities).with_meta_key(meta_key);
        handle.update(|session, _| session.set_shows_terminals(encoder.shows_terminals()));
        Self { session, handle, answers, requests, encoder, after_answer, before_delivery }
    }

    fn send_update(&self, update: WireUpdate) -> Result<(), ClientUnreachable> {
        let notification = update.into_params(self.session.clone());
        self.requests.connection().send_notification_now(UpdateNotification(notification)).map_err(
            |error| {
                tracing::debug!(code = ?error.code, "an update could not be sent");
                ClientUnreachable
            },
        )
    }

    fn send_updates(&self, updates: Vec<WireUpdate>) -> Result<(), ClientUnreachable> {
        updates.into_iter().try_for_each(|update| self.send_update(update))
    }

    /// Sends a permission request to the client.
    fn send_permission_request(&mut self, id: PermissionId) -> Result<(), ClientUnreachable> {
        let Some(request) = self.handle.pending_permission_request(id) else { return Ok(()) };
        let session = self.session.clone();
        let Some(request) = self.encoder.projection.permission_request_for_call(
            session,
            &request.call,
            request.options,
        ) else {
            return Err(ClientUnreachable);
        };
        let asked = self.requests.connection().send_request_now(PermissionRequestMessage(request));
        let (handle, then) = (self.handle.clone(), self.after_answer.clone());
        let meta_key = self.encoder.projection.meta_key().to_owned();
        drop(tokio::spawn(async move {
            tokio::select! {
                response = asked.block_task() => handle.answer_permission(id, answer_from_response(response, &meta_key)),
                () = handle.wait_until_permission_withdrawn(id) => return,
            }
            if let Some(then) = then {
                then().await;
            }
        }));
        Ok(())
    }

    /// Asks the client why the user rejected the call, with a form that has one optional field.
    fn send_rejection_form(&self, id: PermissionId) {
        let Some(request) = self.handle.pending_permission_request(id) else { return };
        let scope = ElicitationSessionScope::new(self.session.clone()).tool_call_id(request.call);
        let form = ElicitationFormMode::new(scope, rejection_form());
        let asked = self
            .requests
            .connection()
            .send_request_now(CreateElicitationRequest::new(form, REJECTION_QUESTION));
        let handle = self.handle.clone();
        drop(tokio::spawn(async move {
            tokio::select! {
                response = asked.block_task() => {
                    handle.apply_rejection_reason(id, reason_from_form_response(response).as_deref());
                }
                () = handle.wait_until_permission_withdrawn(id) => {}
            }
        }));
    }
}

impl OutboxSink for ClientSink {
    async fn wait_until_ready(&mut self) {
        self.requests.connection().wait_for_send_credit().await;
    }

    async fn before_deliver(&mut self, item: &OutboxItem) {
        if let Some(hook) = &mut self.before_delivery {
            hook(item).await;
        }
    }

    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        let item = match self.encoder.encode(item) {
            Ok(updates) => return self.send_updates(updates),
            Err(item) => *item,
        };
        match item {
            OutboxItem::PermissionRequest(id) => self.send_permission_request(id),
            OutboxItem::RejectionReasonRequest(id) => {
                self.send_rejection_form(id);
                Ok(())
            }
            OutboxItem::AgentRequest(id) => {
                self.requests.send_queued_request(id);
                Ok(())
            }
            OutboxItem::PromptResponse(turn) => {
                self.answers.send_response_if_available(&PendingResponseId::Turn(turn))
            }
            OutboxItem::AgentResponse(id) => {
                self.answers.send_response_if_available(&PendingResponseId::Response(id))
            }
            // Return an error, so that the driver counts the item as undelivered.
            item => {
                tracing::error!(?item, "items of this kind cannot be sent by this version");
                Err(ClientUnreachable)
            }
        }
    }
}

impl Drop for ClientSink {
    /// Closes the queues of requests and responses. When the sink is dropped, the driver has
    /// already sent every item.
    fn drop(&mut self) {
        self.requests.close_and_send_releases();
        self.answers.respond_all_and_close();
    }
}

impl fmt::Debug for ClientSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientSink").field("session", &self.session).finish_non_exhaustive()
    }
}

fn rejection_form() -> ElicitationSchema {
    let length = u32::try_from(MAX_REJECTION_REASON_BYTES).unwrap_or(u32::MAX);
    let reason = StringPropertySchema::new().title("Reason".to_owned()).max_length(length);
    ElicitationSchema::new().property(REASON_FIELD, reason, false)
}

/// Returns the user's text, or `None` if the form was declined, cancelled, left empty or failed.
fn reason_from_form_response(
    response: agent_client_protocol::Result<CreateElicitationResponse>,
) -> Option<String> {
    let ElicitationAction::Accept(accepted) = response.ok()?.action else { return None };
    match accepted.content?.remove(REASON_FIELD)? {
        ElicitationContentValue::String(reason) => Some(reason),
        _ => None,
    }
}

fn answer_from_response(
    response: agent_client_protocol::Result<RequestPermissionResponse>,
    meta_key: &str,
) -> PermissionAnswer {
    match response {
        Ok(response) => match response.outcome {
            RequestPermissionOutcome::Selected(selected) => {
                let reason = selected.meta.as_ref().and_then(|meta| meta.get(meta_key));
                let reason = reason.and_then(|ours| ours.get(REASON_FIELD)?.as_str());
                PermissionAnswer::Selected {
                    option_id: selected.option_id.to_string(),
                    reason: reason.map(str::to_owned),
                }
            }
            RequestPermissionOutcome::Cancelled => PermissionAnswer::Cancelled,
            _ => PermissionAnswer::Failed("the client answered with an unknown outcome".to_owned()),
        },
        Err(error) => {
            tracing::debug!(code = i32::from(error.code), "a permission request got an error");
            PermissionAnswer::Failed(error.message)
        }
    }
}

/// The name of the field with the user's reason for a rejection, in the form and in `_meta`.
const REASON_FIELD: &str = "reason";

const REJECTION_QUESTION: &str =
    "Why did you reject the call? The model reads your answer. You may leave it empty.";
