//! Reasons for rejected calls. If the client supports forms, the agent requests a reason with a
//! form. The reason is passed to the model.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::ToolCallStatus;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ContentBlock, CreateElicitationRequest,
    CreateElicitationResponse, ElicitationAcceptAction, ElicitationAction, ElicitationCapabilities,
    ElicitationFormCapabilities, ElicitationMode, ElicitationScope, InitializeRequest,
    NewSessionRequest, PermissionOptionKind, PromptRequest, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome,
    SessionNotification, SessionUpdate, StopReason,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client, Error};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::harness::scratch::Scratch;
use crate::harness::{CALLBOARD, DEADLINE};

/// The client's answer to the form that requests a reason.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FormAnswer {
    Fill(&'static str),
    LeaveEmpty,
    Decline,
    Cancel,
    Err,
    /// The client does not answer the form, and cancels the turn.
    Ignore,
}

/// All messages that the client received.
#[derive(Debug, Default)]
struct FormClientRecord {
    client_state: V1ClientState,
    said: String,
    forms: Vec<CreateElicitationRequest>,
    withdrawn: usize,
}

/// Runs a turn of the model `direct` that calls a command, and rejects the call once. The client
/// sends `reason` in `_meta`, and answers a form with `form`.
async fn reject(
    scratch: &Scratch,
    reason: Option<&'static str>,
    form: Option<FormAnswer>,
) -> (StopReason, FormClientRecord) {
    let config = AcpAgentConfig::new(CALLBOARD).args(["acp", "--model", "direct"]);
    let agent = AcpAgent::new(config.envs(scratch.env()));
    let (seen, shown) = (Arc::<Mutex<FormClientRecord>>::default(), Arc::new(Notify::new()));
    let (updates, permissions, forms) = (seen.clone(), seen.clone(), seen.clone());
    let (cwd, is_shown) = (scratch.cwd(), shown.clone());
    let client = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                let mut seen = updates.lock().unwrap();
                if let SessionUpdate::AgentMessageChunk(chunk) = &notification.update
                    && let ContentBlock::Text(text) = &chunk.content
                {
                    seen.said.push_str(&text.text);
                }
                seen.client_state.apply_session_update(&notification.update);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                permissions.lock().unwrap().client_state.apply_permission_request(&request);
                responder.respond(rejection(&request, reason))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CreateElicitationRequest, responder, client: ConnectionTo<_>| {
                forms.lock().unwrap().forms.push(request);
                match answer(form.expect("a method without its capability")) {
                    Some(answer) => responder.respond_with_result(answer),
                    None => {
                        is_shown.notify_one();
                        let forms = forms.clone();
                        client.spawn(async move {
                            responder.cancellation().cancelled().await;
                            forms.lock().unwrap().withdrawn += 1;
                            responder.respond_with_error(Error::request_cancelled())
                        })
                    }
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(agent, async |agent| {
            let capabilities = ElicitationCapabilities::new();
            let capabilities = form.map(|_| capabilities.form(ElicitationFormCapabilities::new()));
            let capabilities = ClientCapabilities::new().elicitation(capabilities);
            let initialize =
                InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities);
            agent.send_request(initialize).block_task().await?;
            let session = agent.send_request(NewSessionRequest::new(cwd)).block_task().await?;
            let id = session.session_id;
            let prompt = PromptRequest::new(id.clone(), vec!["run touch made".into()]);
            let turn = one_turn(&agent, prompt);
            if form == Some(FormAnswer::Ignore) {
                let cancel = async {
                    shown.notified().await;
                    agent.send_notification(CancelNotification::new(id))
                };
                let (stop, cancelled) = tokio::join!(turn, cancel);
                cancelled?;
                return stop;
            }
            turn.await
        });
    let stop = timeout(DEADLINE, client).await.expect("it ends in time").unwrap();
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.client_state.check_calls_ended();
    (stop, seen)
}

async fn one_turn(agent: &ConnectionTo<Agent>, prompt: PromptRequest) -> Result<StopReason, Error> {
    Ok(agent.send_request(prompt).block_task().await?.stop_reason)
}

fn rejection(
    request: &RequestPermissionRequest,
    reason: Option<&'static str>,
) -> RequestPermissionResponse {
    let is_once = |kind| kind == PermissionOptionKind::RejectOnce;
    let option = request.options.iter().find(|option| is_once(option.kind)).expect("an option");
    let mut outcome = SelectedPermissionOutcome::new(option.option_id.clone());
    if let Some(reason) = reason {
        let meta = json!({"callboard": {"reason": reason}});
        outcome = outcome.meta(meta.as_object().cloned());
    }
    RequestPermissionResponse::new(RequestPermissionOutcome::Selected(outcome))
}

fn answer(form: FormAnswer) -> Option<Result<CreateElicitationResponse, Error>> {
    let action = match form {
        FormAnswer::Fill(reason) => {
            let content = BTreeMap::from([("reason".to_owned(), reason.to_owned().into())]);
            ElicitationAction::Accept(ElicitationAcceptAction::new().content(content))
        }
        FormAnswer::LeaveEmpty => ElicitationAction::Accept(ElicitationAcceptAction::new()),
        FormAnswer::Decline => ElicitationAction::Decline,
        FormAnswer::Cancel => ElicitationAction::Cancel,
        FormAnswer::Err => return Some(Err(Error::internal_error())),
        FormAnswer::Ignore => return None,
    };
    Some(Ok(CreateElicitationResponse::new(action)))
}

#[tokio::test]
async fn a_reason_reaches_the_model() {
    let fill = Some(FormAnswer::Fill("use \u{202e}make\n"));
    for (reason, form, forms, said) in [
        (None, fill, 1, Some("They said: use \\u{202e}make")),
        (Some("in meta"), fill, 0, Some("They said: in meta")),
        (Some("in meta"), None, 0, Some("They said: in meta")),
        (None, None, 0, None),
        (None, Some(FormAnswer::LeaveEmpty), 1, None),
        (None, Some(FormAnswer::Fill("")), 1, None),
        (None, Some(FormAnswer::Decline), 1, None),
        (None, Some(FormAnswer::Cancel), 1, None),
        (None, Some(FormAnswer::Err), 1, None),
    ] {
        let scratch = Scratch::new();
        let (stop, seen) = reject(&scratch, reason, form).await;
        let case = format!("{reason:?} {form:?}");
        assert_eq!(stop, StopReason::EndTurn, "{case}");
        assert_eq!(seen.client_state.violations(), [], "{case}");
        assert_eq!(seen.forms.len(), forms, "{case}");
        let call = seen.client_state.observed_calls().next().expect("a call");
        assert_eq!(call.status, ToolCallStatus::Failed, "{case}");
        let output = call.raw_output.as_ref().unwrap();
        assert_eq!(output["code"], "rejected", "{case}");
        // The model `direct` repeats the error of a failed call in its message.
        let expected = said.unwrap_or("It did not run.");
        assert!(output["error"].as_str().unwrap().ends_with(expected), "{case}: {output}");
        assert!(seen.said.contains(expected), "{case}: {}", seen.said);
        assert!(!scratch.path("made").exists(), "{case}");
    }
}

#[tokio::test]
async fn the_form_belongs_to_its_call_and_has_one_field_that_may_be_left_empty() {
    let scratch = Scratch::new();
    let (_, seen) = reject(&scratch, None, Some(FormAnswer::Decline)).await;
    let ElicitationMode::Form(form) = &seen.forms[0].mode else { panic!("{:?}", seen.forms) };
    let ElicitationScope::Session(scope) = &form.scope else { panic!("{form:?}") };
    let call = seen.client_state.observed_calls().next().expect("a call");
    assert_eq!(scope.tool_call_id.as_ref(), Some(&call.tool_call_id));
    let schema = serde_json::to_value(&form.requested_schema).unwrap();
    let reason = json!({"type": "string", "title": "Reason", "maxLength": 2048});
    assert_eq!(schema, json!({"type": "object", "properties": {"reason": reason}}));
}

#[tokio::test]
async fn a_form_that_is_never_answered_is_withdrawn_with_the_turn() {
    let scratch = Scratch::new();
    let (stop, seen) = reject(&scratch, None, Some(FormAnswer::Ignore)).await;
    assert_eq!(stop, StopReason::Cancelled);
    assert_eq!((seen.forms.len(), seen.withdrawn), (1, 1));
    assert_eq!(seen.client_state.violations(), []);
    assert!(!scratch.path("made").exists());
}
