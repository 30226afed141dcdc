//! Sessions behind the fault-injecting client: each request is answered once, in its order.

mod agent;
mod answers;
mod items;

use acp_conformance::{Agent, Behaviour, Error};
use serde_json::{Value, json};

/// The agent of these tests, initialized and with the session `s`.
async fn start(behaviour: impl Into<Behaviour>) -> Result<Agent, Error> {
    start_with(behaviour, |builder| builder).await
}

/// The same, of a session that is changed before it is opened.
async fn start_with(
    behaviour: impl Into<Behaviour>,
    change: agent::Change,
) -> Result<Agent, Error> {
    let mut agent = Agent::in_process(agent::agent(change), behaviour);
    agent.initialize().await?;
    agent.new_session(&std::env::temp_dir()).await?;
    Ok(agent)
}

/// Has the agent do something at once, and not in a turn; returns the request's id.
async fn send_mode(agent: &mut Agent, mode: &str) -> Result<Value, Error> {
    agent.send("session/set_mode", json!({ "sessionId": "s", "modeId": mode })).await
}

/// How a request was answered, in a word.
fn outcome(agent: &Agent, id: &Value) -> String {
    match agent.client.answer(id) {
        Some(Ok(result)) => result["stopReason"].as_str().unwrap_or("done").to_owned(),
        Some(Err(error)) => error["message"].as_str().unwrap_or_default().to_owned(),
        None => "nothing".to_owned(),
    }
}
