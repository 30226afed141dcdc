//! Tests of the messages that a session sends in addition to responses, and of its requests to the
//! client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use acp_conformance::{
    AgentTestError, ClientBehaviour, FileService, FormReply, PermissionReply, ScriptedCommand,
    ServiceBehaviour, Side, TerminalService,
};
use acp_transport::TransportCounters;
use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{start, start_with};

#[tokio::test]
async fn messages_thoughts_and_plans_are_sent_before_the_answer() -> Result<(), AgentTestError> {
    let mut agent = start(PermissionReply::NoReply).await?;
    assert_eq!(agent.prompt_and_wait_for_stop("s", "say").await?, "end_turn");
    let session = agent.client.session("s");
    assert_eq!(
        (session.message_text(), session.thought_text()),
        ("Agent ".into(), "Thought ".into())
    );
    let kinds: Vec<_> =
        session.updates.iter().map(|update| json!(update)["sessionUpdate"].clone()).collect();
    for kind in ["user_message_chunk", "plan"] {
        assert!(kinds.contains(&json!(kind)), "{kinds:?}");
    }
    agent.close_input_and_wait_for_exit().await?;
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    Ok(())
}

#[tokio::test]
async fn a_permission_is_asked_answered_and_withdrawn() -> Result<(), AgentTestError> {
    let rejected = "Rejected by the user. It did not run.";
    for (permission, said) in [
        (PermissionReply::Select(PermissionOptionKind::AllowOnce), "tool"),
        (PermissionReply::Select(PermissionOptionKind::RejectOnce), rejected),
        (PermissionReply::Cancelled, "Cancelled by the user before it ran."),
    ] {
        let mut agent = start(permission).await?;
        agent.prompt_and_wait_for_stop("s", "tool").await?;
        assert_eq!(agent.client.session("s").message_text(), said);
        agent.close_input_and_wait_for_exit().await?;
        assert_eq!(agent.client.violations_by(Side::Agent), []);
    }
    let mut agent = start(PermissionReply::NoReply).await?;
    let prompt = agent.send_prompt("s", "tool").await?;
    agent.wait_until(|client| !client.permission_requests.is_empty()).await?;
    agent.cancel_and_send_deferred_replies("s").await?;
    agent.wait_for_stop_reason(&prompt).await?;
    let asked = agent.client.permission_requests[0].id.clone();
    agent.wait_until(|client| client.cancelled_requests == [asked.clone()]).await
}

#[tokio::test]
async fn a_hook_runs_after_each_answer_and_a_form_requests_the_reason() -> Result<(), AgentTestError>
{
    static ANSWERS: AtomicUsize = AtomicUsize::new(0);
    let rejects = PermissionReply::Select(PermissionOptionKind::RejectOnce);
    let behaviour = ClientBehaviour::from(rejects).with_form(FormReply::Fill("use make"));
    let mut agent = start_with(behaviour, |builder| {
        builder.session_handle().update(|session, _| session.enable_rejection_reason_requests());
        builder.with_permission_answer_hook(async || {
            ANSWERS.fetch_add(1, Relaxed);
        })
    })
    .await?;
    agent.prompt_and_wait_for_stop("s", "tool").await?;
    let said = "Rejected by the user. It did not run. They said: use make";
    assert_eq!(agent.client.session("s").message_text(), said);
    assert_eq!(ANSWERS.load(Relaxed), 1);
    Ok(())
}

#[tokio::test]
async fn terminals_and_calls_are_sent_under_the_key_of_the_agent() -> Result<(), AgentTestError> {
    for shows_terminals in [false, true] {
        let capabilities = json!({ "_meta": { "terminal_output": shows_terminals } });
        let behaviour = ClientBehaviour::default().with_capabilities(capabilities);
        let mut agent = start_with(behaviour, |builder| builder.with_meta_key("mine")).await?;
        agent.prompt_and_wait_for_stop("s", "terminal").await?;
        let session = agent.client.session("s");
        let call = session.calls()[0];
        assert_eq!(call.status, ToolCallStatus::Completed);
        assert!(call.meta.as_ref().is_some_and(|meta| meta.contains_key("mine")), "{call:?}");
        assert!(session.any_call_shows_line("hello"), "{call:?}");
        assert_eq!(acp_conformance::shown_terminal_id(call).is_some(), shows_terminals);
        agent.close_input_and_wait_for_exit().await?;
        assert_eq!(agent.client.violations_by(Side::Agent), []);
    }
    Ok(())
}

#[tokio::test]
async fn a_request_is_sent_after_earlier_items() -> Result<(), AgentTestError> {
    let mut unsaved = FileService::default();
    unsaved.unsaved.insert("/file".into(), "text".to_owned());
    for (files, said) in [
        (Some(unsaved), "before text"),
        (None, "before Method not found"),
        (
            Some(FileService::default().with_read_behaviour(ServiceBehaviour::NoReply)),
            "before the client did not answer within 1 s",
        ),
    ] {
        let mut agent = start(ClientBehaviour::default().with_files(files)).await?;
        agent.prompt_and_wait_for_stop("s", "read").await?;
        assert_eq!(agent.client.session("s").message_text(), said);
        let lines = agent.client.transcript();
        assert!(lines.find("before ") < lines.find("fs/read_text_file"), "{lines}");
    }
    Ok(())
}

#[tokio::test]
async fn a_resource_of_the_client_is_released_even_if_it_arrives_late() -> Result<(), AgentTestError>
{
    for (service, ending) in [
        (ServiceBehaviour::Works, "session/cancel"),
        (ServiceBehaviour::Works, "session/close"),
        (ServiceBehaviour::Delayed(Duration::from_millis(100)), "session/cancel"),
    ] {
        let scripted = Some(ScriptedCommand::default());
        let terminals = Some(
            TerminalService::default()
                .with_behaviour(service)
                .with_script_for_every_command(scripted),
        );
        let mut agent = start(ClientBehaviour::default().with_terminals(terminals)).await?;
        let prompt = agent.send_prompt("s", "hold").await?;
        agent.wait_until(|client| client.transcript().contains("terminal/create")).await?;
        match ending {
            "session/cancel" => agent.cancel_and_send_deferred_replies("s").await?,
            ending => drop(agent.send_request(ending, json!({ "sessionId": "s" })).await?),
        }
        assert_eq!(agent.wait_for_stop_reason(&prompt).await?, "cancelled");
        agent.wait_until(|client| client.transcript().contains("terminal/release")).await?;
        assert_eq!(agent.open_terminal_count(), 0, "{service:?} {ending}");
    }
    Ok(())
}

#[tokio::test]
async fn a_session_sends_no_faster_than_its_counters_allow() -> Result<(), AgentTestError> {
    // No transport updates these counters, so the session soon has no credit left to send.
    let paced = |builder: acp_connection::ClientSessionBuilder| {
        builder.with_transport_counters(Arc::<TransportCounters>::default())
    };
    for (change, most) in [(paced as crate::agent::BuilderChange, 8), (|builder| builder, 24)] {
        let mut agent = start_with(PermissionReply::NoReply, change).await?;
        agent.send_prompt("s", "many").await?;
        let has = |count: usize| {
            move |client: &acp_conformance::TestClient| client.session("s").updates.len() > count
        };
        agent.wait_until(has(most - 1)).await?;
        let more =
            tokio::time::timeout(Duration::from_millis(300), agent.wait_until(has(most))).await;
        assert!(more.is_err() || most > 8, "more than {most} came");
    }
    Ok(())
}
