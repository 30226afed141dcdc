//! The example of an agent whose tools know nothing of ACP, behind the SDK's own client.

use std::sync::{Arc, Mutex};

use acp_types::observe::v1::Observer;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, InitializeRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    PromptResponse, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, StopReason,
};
use agent_client_protocol::{Agent, Client, Error};
use pretty_assertions::assert_eq;
use tokio::time::timeout;

use crate::harness::DEADLINE;

#[path = "../../crates/agent/examples/middleware_agent/main.rs"]
#[expect(dead_code, reason = "the program's `main` serves what is judged here")]
mod example;

/// What the client does when it is asked for permission.
#[derive(Clone, Copy)]
enum Does {
    Chooses(PermissionOptionKind),
    CancelsTheTurn,
}

/// Plays two turns; returns how the last one stopped, and what the client holds.
async fn play(does: Does) -> (StopReason, Observer) {
    let observer = Arc::<Mutex<Observer>>::default();
    let (updates, permissions) = (observer.clone(), observer.clone());
    let client = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                updates.lock().unwrap().update(&notification.update);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, agent: ConnectionTo<_>| {
                permissions.lock().unwrap().permission(&request);
                let Does::Chooses(kind) = does else {
                    let cancel = CancelNotification::new(request.session_id);
                    agent.send_notification(cancel)?;
                    let outcome = RequestPermissionOutcome::Cancelled;
                    return responder.respond(RequestPermissionResponse::new(outcome));
                };
                let option = request.options.iter().find(|option| option.kind == kind);
                let chosen = SelectedPermissionOutcome::new(option.unwrap().option_id.clone());
                let outcome = RequestPermissionOutcome::Selected(chosen);
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            agent_client_protocol::on_receive_request!(),
        );
    let turns = async |agent: ConnectionTo<Agent>| two_turns(&agent, &observer).await;
    let response = timeout(DEADLINE, client.connect_with(example::agent(), turns)).await;
    let response = response.expect("it ends in time").unwrap();
    let observer = observer.lock().unwrap().clone();
    (response.stop_reason, observer)
}

async fn two_turns(
    agent: &ConnectionTo<Agent>,
    observer: &Mutex<Observer>,
) -> Result<PromptResponse, Error> {
    let initialize = InitializeRequest::new(ProtocolVersion::V1);
    agent.send_request(initialize).block_task().await?;
    let session = agent.send_request(NewSessionRequest::new("/p")).block_task().await?;
    let prompt = || PromptRequest::new(session.session_id.clone(), vec!["one two".into()]);
    agent.send_request(prompt()).block_task().await?;
    observer.lock().unwrap().turn_answered();
    let response = agent.send_request(prompt()).block_task().await?;
    observer.lock().unwrap().turn_answered();
    // What came late would come before this is answered.
    agent.send_request(NewSessionRequest::new("/p")).block_task().await?;
    Ok(response)
}

#[tokio::test]
async fn foreign_tools_live_the_whole_life_of_a_call() {
    for (does, stop, ends) in [
        (Does::Chooses(PermissionOptionKind::AllowOnce), StopReason::EndTurn, "published"),
        (
            Does::Chooses(PermissionOptionKind::RejectOnce),
            StopReason::EndTurn,
            "Rejected by the user. It did not run.",
        ),
        (Does::CancelsTheTurn, StopReason::Cancelled, "Cancelled "),
    ] {
        let (stopped, observer) = play(does).await;
        assert_eq!(observer.violations(), []);
        assert_eq!(stopped, stop);
        let calls: Vec<_> = observer.tool_calls().collect();
        let texts: Vec<_> = calls
            .iter()
            .filter_map(|call| crate::harness::session::text_of(&call.content[0]))
            .collect();
        assert_eq!(calls.len(), 4, "{texts:?}");
        for pair in texts.chunks(2) {
            assert_eq!(pair[0], "2 words");
            assert!(pair[1].starts_with(ends), "{}", pair[1]);
        }
    }
}
