//! Tests of the middleware example with the fault-injecting client. The example is an agent around
//! tools that do not use ACP.

use std::time::Duration;

use acp_conformance::{
    AgentTestError, AgentUnderTest, ClientBehaviour, FileService, PermissionReply,
    PermissionReplyTiming, Side, content_text,
};
use acp_connection::ClientSessions;
use acp_lifecycle::Session;
use acp_types::schema::v1::{PermissionOptionKind, ToolCall, ToolCallContent};
use agent_client_protocol::v1::schema::{
    InitializeRequest, InitializeResponse, NewSessionRequest, NewSessionResponse,
};
use agent_client_protocol::{Client, ConnectTo, on_receive_request};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

#[path = "../../examples/middleware_agent.rs"]
#[expect(dead_code, reason = "the program's `main` serves what is judged here")]
mod example;

/// Session ids of each agent.
const SESSIONS: [&str; 2] = ["session1", "session2"];

/// Returns the agent of the example.
fn agent() -> impl ConnectTo<Client> {
    let time_to_end = Duration::from_secs(1);
    let sessions = ClientSessions::default();
    sessions.prompt_agent_builder(
        example::info(),
        time_to_end,
        |session| session,
        example::run_turn,
    )
}

/// Starts the agent with two sessions, each with a note of two lines in its folder.
async fn start(
    behaviour: impl Into<ClientBehaviour>,
) -> Result<(AgentUnderTest, [TempDir; 2]), AgentTestError> {
    let folders = [TempDir::new()?, TempDir::new()?];
    let mut agent = AgentUnderTest::in_process(agent(), behaviour);
    let can = agent.initialize().await?;
    assert!(can["agentCapabilities"]["sessionCapabilities"]["close"].is_object(), "{can}");
    for (expected, folder) in SESSIONS.iter().zip(&folders) {
        std::fs::write(folder.path().join("note"), "one\ntwo\n")?;
        assert_eq!(agent.new_session(folder.path()).await?, *expected);
    }
    Ok((agent, folders))
}

/// Returns the note in a folder.
fn note(folder: &TempDir) -> Result<String, AgentTestError> {
    Ok(std::fs::read_to_string(folder.path().join("note"))?)
}

/// Returns the last text of each call that a session shows.
fn texts(agent: &AgentUnderTest, session: &str) -> Vec<String> {
    let calls = agent.client.session(session).calls();
    let text = |call: &&ToolCall| content_text(call.content.last()?).map(str::to_owned);
    calls.iter().filter_map(text).collect()
}

#[tokio::test]
async fn the_agent_is_served_on_standard_streams() -> Result<(), AgentTestError> {
    // Cargo builds the examples together with the tests.
    let program = std::env::current_exe()?.with_file_name("../examples/middleware_agent");
    let mut agent = AgentUnderTest::start(Command::new(program), PermissionReply::default())?;
    agent.initialize().await?;
    let folder = TempDir::new()?;
    std::fs::write(folder.path().join("note"), "one\n")?;
    let session = agent.new_session(folder.path()).await?;
    assert_eq!(agent.prompt_and_wait_for_stop(&session, "note").await?, "end_turn");
    assert_eq!(note(&folder)?, "one\none more line\n");
    let status = agent.close_input_and_wait_for_exit().await?;
    assert!(status.is_some_and(|status| status.success()), "{}", agent.stderr_log());
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    Ok(())
}

#[tokio::test]
async fn a_session_in_a_relative_folder_is_refused() -> Result<(), AgentTestError> {
    let mut agent = AgentUnderTest::in_process(agent(), PermissionReply::default());
    agent.initialize().await?;
    // This request breaks a rule of the protocol itself, so the test does not check for rule
    // violations.
    let refused = agent.new_session(std::path::Path::new("relative")).await;
    let error = refused.expect_err("the folder is relative").to_string();
    assert!(error.contains("must be an absolute path"), "{error}");
    Ok(())
}

#[tokio::test]
async fn foreign_tools_have_the_complete_lifecycle_of_a_call() -> Result<(), AgentTestError> {
    let rejected = "Rejected by the user. It did not run.";
    for (permission, expected, lines) in [
        (PermissionOptionKind::AllowOnce, ["2 lines", "added"], 3),
        (PermissionOptionKind::RejectOnce, ["2 lines", rejected], 2),
    ] {
        let (mut agent, folders) = start(PermissionReply::Select(permission)).await?;
        for (session, folder) in SESSIONS.iter().zip(&folders) {
            assert_eq!(agent.prompt_and_wait_for_stop(session, "note").await?, "end_turn");
            assert_eq!(texts(&agent, session), expected);
            assert_eq!(note(folder)?.lines().count(), lines);
        }
        assert_eq!(agent.client.permission_requests.len(), 2);
        let asked = agent.client.permission_requests[0].request.tool_call.fields.content.as_deref();
        let Some([ToolCallContent::Diff(diff)]) = asked else { panic!("{asked:?}") };
        assert_eq!(diff.old_text.as_deref(), Some("one\ntwo\n"));
        assert_eq!(diff.new_text, "one\ntwo\none more line\n");
        let is_done = |line: &str| line.contains(r#""message":"counting","percent":100"#);
        assert!(agent.client.transcript().lines().any(is_done));
        agent.close_input_and_wait_for_exit().await?;
        assert_eq!(agent.client.violations_by(Side::Agent), []);
    }
    Ok(())
}

#[tokio::test]
async fn an_approval_after_the_cancellation_changes_nothing() -> Result<(), AgentTestError> {
    let behaviour =
        ClientBehaviour::default().with_permission_reply_timing(PermissionReplyTiming::AfterCancel);
    let (mut agent, folders) = start(behaviour).await?;
    let prompt = agent.send_prompt("session1", "note").await?;
    agent.wait_until(|client| !client.permission_requests.is_empty()).await?;
    agent.notify("session/cancel", json!({ "sessionId": "session2" })).await?;
    agent.cancel_and_send_deferred_replies("session1").await?;
    assert_eq!(agent.wait_for_stop_reason(&prompt).await?, "cancelled");
    agent.close_input_and_wait_for_exit().await?;
    let texts = texts(&agent, "session1");
    assert!(texts[1].starts_with("Cancelled "), "{texts:?}");
    assert_eq!(note(&folders[0])?, "one\ntwo\n");
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    Ok(())
}

#[tokio::test]
async fn a_note_outside_of_the_folder_is_neither_shown_nor_changed() -> Result<(), AgentTestError> {
    let (mut agent, folders) = start(PermissionReply::default()).await?;
    std::os::unix::fs::symlink(folders[1].path(), folders[0].path().join("link"))?;
    let absolute = folders[1].path().join("note");
    for path in ["link/note", absolute.to_str().unwrap()] {
        assert_eq!(agent.prompt_and_wait_for_stop("session1", path).await?, "end_turn");
    }
    agent.close_input_and_wait_for_exit().await?;
    assert_eq!(note(&folders[1])?, "one\ntwo\n");
    assert!(!agent.client.transcript().contains("2 lines"));
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    Ok(())
}

#[tokio::test]
async fn a_session_has_the_capabilities_of_its_client() -> Result<(), AgentTestError> {
    let sessions = ClientSessions::default();
    let agent = sessions
        .agent_builder_with_cancel_close(Duration::ZERO)
        .on_receive_request(
            async |request: InitializeRequest, responder, _| {
                responder.respond(InitializeResponse::new(request.protocol_version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, client| {
                let session =
                    sessions.session_builder("s", Session::new(request.cwd), client).open();
                let reads = session.capabilities().fs.read_text_file;
                responder.respond(NewSessionResponse::new(format!("reads files: {reads}")))
            },
            on_receive_request!(),
        );
    let files = Some(FileService::default());
    let behaviour = ClientBehaviour::default().with_files(files);
    let mut agent = AgentUnderTest::in_process(agent, behaviour);
    agent.initialize().await?;
    assert_eq!(agent.new_session(&std::env::temp_dir()).await?, "reads files: true");
    Ok(())
}

#[tokio::test]
async fn a_closed_session_is_unknown_and_other_sessions_continue() -> Result<(), AgentTestError> {
    let allow = PermissionReply::Select(PermissionOptionKind::AllowOnce);
    let (mut agent, _folders) = start(allow).await?;
    agent.send_request_and_wait("session/close", json!({ "sessionId": "session1" })).await?;
    for id in ["session1", "session3"] {
        let Err(AgentTestError::ErrorResponse(error)) =
            agent.prompt_and_wait_for_stop(id, "note").await
        else {
            panic!("{id} is open")
        };
        assert_eq!(error["code"], -32002);
        let close = agent.send_request_and_wait("session/close", json!({ "sessionId": id })).await;
        assert!(
            matches!(close, Err(AgentTestError::ErrorResponse(error)) if error["code"] == -32002)
        );
    }
    assert_eq!(agent.prompt_and_wait_for_stop("session2", "note").await?, "end_turn");
    agent.close_input_and_wait_for_exit().await?;
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    Ok(())
}
