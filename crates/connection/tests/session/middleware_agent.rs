//! The middleware example, an agent around tools without ACP, behind the fault-injecting client.

use acp_conformance::{
    AgentTestError, AgentUnderTest, ClientBehaviour, PermissionReply, ReplyTiming, Side,
    content_text,
};
use acp_types::schema::v1::{PermissionOptionKind, ToolCall, ToolCallContent};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::NamedTempFile;

#[path = "../../examples/middleware_agent.rs"]
#[expect(dead_code, reason = "the program's `main` serves what is judged here")]
mod example;

/// Session ids of each agent.
const SESSIONS: [&str; 2] = ["note1", "note2"];

/// Starts the agent with two sessions and a note of two lines.
async fn start(
    behaviour: impl Into<ClientBehaviour>,
) -> Result<(AgentUnderTest, NamedTempFile), AgentTestError> {
    let note = NamedTempFile::new()?;
    std::fs::write(&note, "one\ntwo\n")?;
    let mut agent = AgentUnderTest::in_process(example::agent(None), behaviour);
    agent.initialize().await?;
    for expected in SESSIONS {
        assert_eq!(agent.new_session(&std::env::temp_dir()).await?, expected);
    }
    Ok((agent, note))
}

/// Returns the last text that each call of a session shows.
fn texts(agent: &AgentUnderTest, session: &str) -> Vec<String> {
    let calls = agent.client.session(session).calls();
    let text = |call: &&ToolCall| content_text(call.content.last()?).map(str::to_owned);
    calls.iter().filter_map(text).collect()
}

#[tokio::test]
async fn foreign_tools_live_the_whole_life_of_a_call() -> Result<(), AgentTestError> {
    let rejected = "Rejected by the user. It did not run.";
    for (permission, expected, lines) in [
        (PermissionOptionKind::AllowOnce, [["2 lines", "added"], ["3 lines", "added"]], 4),
        (PermissionOptionKind::RejectOnce, [["2 lines", rejected]; 2], 2),
    ] {
        let (mut agent, note) = start(PermissionReply::Select(permission)).await?;
        for (session, expected) in SESSIONS.iter().zip(expected) {
            let path = note.path().to_str().unwrap();
            assert_eq!(agent.prompt_and_wait_for_stop(session, path).await?, "end_turn");
            assert_eq!(texts(&agent, session), expected);
        }
        let text = std::fs::read_to_string(&note)?;
        assert_eq!(text.lines().count(), lines);
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
async fn a_yes_that_comes_after_the_cancel_changes_nothing() -> Result<(), AgentTestError> {
    let behaviour =
        ClientBehaviour { timing: ReplyTiming::AfterCancel, ..ClientBehaviour::default() };
    let (mut agent, note) = start(behaviour).await?;
    let prompt = agent.send_prompt("note1", note.path().to_str().unwrap()).await?;
    agent.wait_until(|client| !client.permission_requests.is_empty()).await?;
    agent.notify("session/cancel", json!({ "sessionId": "note2" })).await?;
    agent.cancel_and_send_deferred_replies("note1").await?;
    assert_eq!(agent.wait_for_stop_reason(&prompt).await?, "cancelled");
    agent.close_input_and_wait_for_exit().await?;
    let texts = texts(&agent, "note1");
    assert!(texts[1].starts_with("Cancelled "), "{texts:?}");
    assert_eq!(std::fs::read_to_string(&note)?, "one\ntwo\n");
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    Ok(())
}

#[tokio::test]
async fn a_session_that_is_closed_is_unknown_and_the_others_go_on() -> Result<(), AgentTestError> {
    let allow = PermissionReply::Select(PermissionOptionKind::AllowOnce);
    let (mut agent, note) = start(allow).await?;
    let path = note.path().to_str().unwrap();
    agent.send_request_and_wait("session/close", json!({ "sessionId": "note1" })).await?;
    for id in ["note1", "note3"] {
        let Err(AgentTestError::ErrorResponse(error)) =
            agent.prompt_and_wait_for_stop(id, path).await
        else {
            panic!("{id} is open")
        };
        assert_eq!(error["code"], -32002);
        let close = agent.send_request_and_wait("session/close", json!({ "sessionId": id })).await;
        assert!(
            matches!(close, Err(AgentTestError::ErrorResponse(error)) if error["code"] == -32002)
        );
    }
    assert_eq!(agent.prompt_and_wait_for_stop("note2", path).await?, "end_turn");
    agent.close_input_and_wait_for_exit().await?;
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    Ok(())
}
