//! Tests of sessions with the fault-injecting client: each request is answered once and in order.

mod agent;
mod answers;
mod items;
mod middleware_agent;

use acp_conformance::{AgentTestError, AgentUnderTest, ClientBehaviour};
use serde_json::{Value, json};

/// Starts the agent of these tests, initializes it and opens the session `s`.
async fn start(behaviour: impl Into<ClientBehaviour>) -> Result<AgentUnderTest, AgentTestError> {
    start_with(behaviour, |builder| builder).await
}

/// Starts the agent in the same way as [`start`], and changes the settings of the session before it
/// is opened.
async fn start_with(
    behaviour: impl Into<ClientBehaviour>,
    change: agent::BuilderChange,
) -> Result<AgentUnderTest, AgentTestError> {
    let mut agent = AgentUnderTest::in_process(agent::agent(change), behaviour);
    agent.initialize().await?;
    agent.new_session(&std::env::temp_dir()).await?;
    Ok(agent)
}

/// Makes the agent execute an instruction immediately, outside of a turn. Returns the id of the
/// request.
async fn send_mode(agent: &mut AgentUnderTest, mode: &str) -> Result<Value, AgentTestError> {
    agent.send_request("session/set_mode", json!({ "sessionId": "s", "modeId": mode })).await
}

/// Returns the outcome of a request as one word.
fn outcome(agent: &AgentUnderTest, id: &Value) -> String {
    match agent.client.response(id) {
        Some(Ok(result)) => result["stopReason"].as_str().unwrap_or("done").to_owned(),
        Some(Err(error)) => error["message"].as_str().unwrap_or_default().to_owned(),
        None => "nothing".to_owned(),
    }
}
