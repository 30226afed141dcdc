//! The built program with the client of the SDK, instead of the client of the test kit.

use std::sync::{Arc, Mutex};

use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::ToolCallStatus;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    InitializeRequest, NewSessionRequest, PermissionOptionKind, PromptRequest, PromptResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, StopReason,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client, Error};
use pretty_assertions::assert_eq;
use tokio::time::timeout;

use crate::harness::scratch::Scratch;
use crate::harness::{CALLBOARD, DEADLINE};

/// Runs one turn with the model `direct`. Answers each permission request with the option of this
/// kind.
async fn turn(
    scratch: &Scratch,
    prompt: &str,
    kind: PermissionOptionKind,
) -> (StopReason, V1ClientState) {
    let config = AcpAgentConfig::new(CALLBOARD).args(["acp", "--no-sandbox", "--model", "direct"]);
    let agent = AcpAgent::new(config.envs(scratch.env()));
    let client_state = Arc::<Mutex<V1ClientState>>::default();
    let (updates, permissions) = (Arc::clone(&client_state), Arc::clone(&client_state));
    let (cwd, prompt) = (scratch.cwd(), prompt.to_owned());
    let client = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                updates.lock().unwrap().apply_session_update(&notification.update);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                permissions.lock().unwrap().apply_permission_request(&request);
                responder.respond(select(&request, kind))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(agent, async |agent| one_turn(&agent, cwd, prompt).await);
    let response = timeout(DEADLINE, client).await.expect("it ends in time").unwrap();
    let mut client_state = client_state.lock().unwrap().clone();
    client_state.check_calls_ended();
    (response.stop_reason, client_state)
}

async fn one_turn(
    agent: &ConnectionTo<Agent>,
    cwd: std::path::PathBuf,
    prompt: String,
) -> Result<PromptResponse, Error> {
    let initialize = InitializeRequest::new(ProtocolVersion::V1);
    agent.send_request(initialize).block_task().await?;
    let session = agent.send_request(NewSessionRequest::new(cwd)).block_task().await?;
    let prompt = PromptRequest::new(session.session_id, vec![prompt.into()]);
    agent.send_request(prompt).block_task().await
}

fn select(
    request: &RequestPermissionRequest,
    kind: PermissionOptionKind,
) -> RequestPermissionResponse {
    let option = request.options.iter().find(|option| option.kind == kind).expect("an option");
    let outcome = SelectedPermissionOutcome::new(option.option_id.clone());
    RequestPermissionResponse::new(RequestPermissionOutcome::Selected(outcome))
}

#[tokio::test]
async fn a_turn_without_permission_requests() {
    let scratch = Scratch::new();
    let prompt = "read notes.txt\ngrep three\nlist";
    let (stop, client_state) = turn(&scratch, prompt, PermissionOptionKind::RejectOnce).await;
    assert_eq!(stop, StopReason::EndTurn);
    assert_eq!(client_state.violations(), []);
    let statuses: Vec<_> = client_state.observed_calls().map(|call| call.status).collect();
    assert_eq!(statuses, [ToolCallStatus::Completed; 3]);
}

#[tokio::test]
async fn a_turn_with_a_permission_request() {
    for (kind, status) in [
        (PermissionOptionKind::AllowOnce, ToolCallStatus::Completed),
        (PermissionOptionKind::RejectOnce, ToolCallStatus::Failed),
    ] {
        let scratch = Scratch::new();
        let (stop, client_state) = turn(&scratch, "run touch made", kind).await;
        assert_eq!(stop, StopReason::EndTurn);
        assert_eq!(client_state.violations(), []);
        let statuses: Vec<_> = client_state.observed_calls().map(|call| call.status).collect();
        assert_eq!(statuses, [status]);
        let is_allowed = kind == PermissionOptionKind::AllowOnce;
        assert_eq!(scratch.path("made").exists(), is_allowed);
    }
}
