//! What a session asks its client: for permission, and why it was not given.
//!
//! Each request has a task of its own, which ends with the answer or when the request is
//! withdrawn; dropping the request cancels it at the client.

#![expect(clippy::disallowed_methods, reason = "this is where the outbox hands over")]

use acp_lifecycle::limits::REASON_BYTES;
use acp_lifecycle::{Answer, PermissionId, Unreachable};
use agent_client_protocol::Result;
use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    RequestPermissionOutcome, RequestPermissionResponse, StringPropertySchema,
};

use super::Wire;

impl Wire {
    /// Puts a permission request to the client, and saves what its answer leaves behind.
    pub(super) fn ask(&mut self, id: PermissionId) -> std::result::Result<(), Unreachable> {
        let Some(request) = self.handle.request(id) else { return Ok(()) };
        let session = self.session.clone();
        let Some(request) = self.sent.permission(session, &request.call, request.options) else {
            return Err(Unreachable);
        };
        let asked = self.client.send_request(request);
        self.hand_over();
        let (handle, keeper) = (self.handle.clone(), self.keeper.clone());
        let meta_key = self.sent.meta_key().to_owned();
        drop(tokio::spawn(async move {
            tokio::select! {
                response = asked.block_task() => handle.answer(id, answer(response, &meta_key)),
                () = handle.withdrawn(id) => return,
            }
            if let Some(keeper) = keeper {
                // What cannot be saved is logged, and listed for what it is.
                drop(keeper.save().await);
            }
        }));
        Ok(())
    }

    /// Asks the client why it rejected a call, with a form of one field that may be left empty.
    pub(super) fn ask_why(&self, id: PermissionId) {
        let Some(request) = self.handle.request(id) else { return };
        let scope = ElicitationSessionScope::new(self.session.clone()).tool_call_id(request.call);
        let form = ElicitationFormMode::new(scope, why_form());
        let asked = self.client.send_request(CreateElicitationRequest::new(form, WHY));
        self.hand_over();
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

fn why_form() -> ElicitationSchema {
    let length = u32::try_from(REASON_BYTES).unwrap_or(u32::MAX);
    let reason = StringPropertySchema::new().title("Reason".to_owned()).max_length(length);
    ElicitationSchema::new().property(REASON, reason, false)
}

/// What the user wrote; nothing of a form that was declined, cancelled, left empty or refused.
fn said(response: Result<CreateElicitationResponse>) -> Option<String> {
    let ElicitationAction::Accept(accepted) = response.ok()?.action else { return None };
    match accepted.content?.remove(REASON)? {
        ElicitationContentValue::String(reason) => Some(reason),
        _ => None,
    }
}

fn answer(response: Result<RequestPermissionResponse>, meta_key: &str) -> Answer {
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
