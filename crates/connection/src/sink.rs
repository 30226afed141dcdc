//! Where a session's items become messages of ACP v1.
//!
//! Each request to the client has a task of its own, which ends with the answer or when the request is
//! withdrawn; dropping the request cancels it at the client.

use std::fmt;
use std::sync::Arc;

use acp_lifecycle::limits::REASON_BYTES;
use acp_lifecycle::{Answer, Item, PermissionId, SessionHandle, Sink, Unreachable};
use acp_types::wire::v1::{Sent, Surface, Update};
use agent_client_protocol::v1::schema::{
    ClientCapabilities, CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    RequestPermissionOutcome, RequestPermissionResponse, SessionId, StringPropertySchema,
};
use futures::future::BoxFuture;

use crate::answers::{AnswerId, Answers};
use crate::notification::UpdateNotification;
use crate::requests::ClientRequests;
use crate::shows::Shows;

/// What is done after each answer to a permission request.
pub(crate) type AfterAnswer = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The client of one session.
pub(crate) struct ClientSink {
    session: SessionId,
    handle: SessionHandle,
    answers: Answers,
    requests: ClientRequests,
    sent: Sent,
    shows: Shows,
    after_answer: Option<AfterAnswer>,
}

impl ClientSink {
    pub(crate) fn new(
        session: SessionId,
        handle: SessionHandle,
        answers: Answers,
        requests: ClientRequests,
        capabilities: &ClientCapabilities,
        meta_key: String,
        after_answer: Option<AfterAnswer>,
    ) -> Self {
        let surface = Surface::of(capabilities);
        handle.with(|session, _| session.set_shows_terminals(surface == Surface::Meta));
        let sent = Sent::new(surface).with_meta_key(meta_key);
        let shows = Shows::of(capabilities);
        Self { session, handle, answers, requests, sent, shows, after_answer }
    }

    fn update(&self, update: Update) -> Result<(), Unreachable> {
        let notification = update.in_session(self.session.clone());
        self.requests.line().notify(UpdateNotification(notification)).map_err(|error| {
            tracing::debug!(code = ?error.code, "an update could not be sent");
            Unreachable
        })
    }

    fn updates(&self, updates: Vec<Update>) -> Result<(), Unreachable> {
        updates.into_iter().try_for_each(|update| self.update(update))
    }

    /// Puts a permission request to the client.
    fn ask(&mut self, id: PermissionId) -> Result<(), Unreachable> {
        let Some(request) = self.handle.request(id) else { return Ok(()) };
        let session = self.session.clone();
        let Some(request) = self.sent.permission(session, &request.call, request.options) else {
            return Err(Unreachable);
        };
        let asked = self.requests.line().request(request);
        let (handle, then) = (self.handle.clone(), self.after_answer.clone());
        let meta_key = self.sent.meta_key().to_owned();
        drop(tokio::spawn(async move {
            tokio::select! {
                response = asked.block_task() => handle.answer(id, answer(response, &meta_key)),
                () = handle.withdrawn(id) => return,
            }
            if let Some(then) = then {
                then().await;
            }
        }));
        Ok(())
    }

    /// Asks the client why it rejected a call, with a form of one field that may be left empty.
    fn ask_why(&self, id: PermissionId) {
        let Some(request) = self.handle.request(id) else { return };
        let scope = ElicitationSessionScope::new(self.session.clone()).tool_call_id(request.call);
        let form = ElicitationFormMode::new(scope, why_form());
        let asked = self.requests.line().request(CreateElicitationRequest::new(form, WHY));
        let handle = self.handle.clone();
        drop(tokio::spawn(async move {
            tokio::select! {
                response = asked.block_task() => {
                    handle.explain(id, said(response).as_deref());
                }
                () = handle.withdrawn(id) => {}
            }
        }));
    }
}

impl Sink for ClientSink {
    async fn ready(&mut self) {
        self.requests.line().ready().await;
    }

    fn deliver(&mut self, item: Item) -> Result<(), Unreachable> {
        match item {
            Item::ToolCall(id, patch) => {
                let updates = self.sent.tool_call(&id, patch);
                self.updates(updates)
            }
            Item::Terminal(id, patch) => {
                let updates = self.sent.terminal(&id, &patch);
                self.updates(updates)
            }
            Item::Chunk(chunk) => self.update(self.sent.chunk(&chunk)),
            Item::Plan(plan) => self.update(self.sent.plan(&plan)),
            Item::State(state) => self.update(self.shows.fit(&state, &self.sent)),
            Item::Permission(id) => self.ask(id),
            Item::Reason(id) => {
                self.ask_why(id);
                Ok(())
            }
            Item::Request(id) => {
                self.requests.hand_over(id);
                Ok(())
            }
            Item::Answer(turn) => self.answers.send(&AnswerId::Turn(turn)),
            Item::Response(id) => self.answers.send(&AnswerId::Response(id)),
            // The driver counts it as lost.
            item => {
                tracing::error!(?item, "this version cannot send an item of this kind");
                Err(Unreachable)
            }
        }
    }
}

impl Drop for ClientSink {
    /// The driver has sent all there is to send.
    fn drop(&mut self) {
        self.requests.end();
        self.answers.end();
    }
}

impl fmt::Debug for ClientSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientSink").field("session", &self.session).finish_non_exhaustive()
    }
}

fn why_form() -> ElicitationSchema {
    let length = u32::try_from(REASON_BYTES).unwrap_or(u32::MAX);
    let reason = StringPropertySchema::new().title("Reason".to_owned()).max_length(length);
    ElicitationSchema::new().property(REASON, reason, false)
}

/// What the user wrote; nothing of a form that was declined, cancelled, left empty or refused.
fn said(response: agent_client_protocol::Result<CreateElicitationResponse>) -> Option<String> {
    let ElicitationAction::Accept(accepted) = response.ok()?.action else { return None };
    match accepted.content?.remove(REASON)? {
        ElicitationContentValue::String(reason) => Some(reason),
        _ => None,
    }
}

fn answer(
    response: agent_client_protocol::Result<RequestPermissionResponse>,
    meta_key: &str,
) -> Answer {
    match response {
        Ok(response) => match response.outcome {
            RequestPermissionOutcome::Selected(selected) => {
                let reason = selected.meta.as_ref().and_then(|meta| meta.get(meta_key));
                let reason = reason.and_then(|ours| ours.get(REASON)?.as_str());
                Answer::Selected {
                    option_id: selected.option_id.to_string(),
                    reason: reason.map(str::to_owned),
                }
            }
            RequestPermissionOutcome::Cancelled => Answer::Cancelled,
            _ => Answer::Failed("the client answered in an unknown way".to_owned()),
        },
        Err(error) => {
            tracing::debug!(code = i32::from(error.code), "a permission request got an error");
            Answer::Failed(error.message)
        }
    }
}

/// The name of what a user says about a rejection, in the form and in `_meta`.
const REASON: &str = "reason";

const WHY: &str = "Why was it rejected? The model reads the answer. You may leave it empty.";
