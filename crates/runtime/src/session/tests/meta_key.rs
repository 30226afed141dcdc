//! Tests that the embedder's key of `_meta` is used in all sent and received messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use acp_types::schema::v1::PermissionOptionKind;
use callboard_models::direct::DirectModel;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use acp_conformance::{AgentUnderTest, ClientBehaviour, PermissionReply, Side};

/// Starts the direct model's agent with a custom key, before its first turn.
async fn start(
    behaviour: impl Into<ClientBehaviour>,
) -> (AgentUnderTest, String, tempfile::TempDir) {
    let agent =
        crate::agent::CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
    let mut agent = AgentUnderTest::in_process(agent.with_meta_key("own"), behaviour);
    agent.initialize().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let session = agent.new_session(folder.path()).await.unwrap();
    (agent, session, folder)
}

/// Collects the keys of every `_meta`. Each key is preceded by the name of the field in which the
/// `_meta` was found.
fn meta_keys(value: &Value, place: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| meta_keys(item, place, keys)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if let ("_meta", Value::Object(meta)) = (name.as_str(), field) {
                    keys.extend(meta.keys().map(|key| format!("{place}: {key}")));
                }
                meta_keys(field, name, keys);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn an_embedded_agent_with_a_key_of_its_own_never_sends_ours() {
    let behaviour = ClientBehaviour::from(PermissionReply::Select(PermissionOptionKind::AllowOnce));
    let (mut agent, session, folder) = start(behaviour).await;
    std::fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
    for prompt in [
        "read a.txt",
        "write b.txt\n<<<\nthree\n>>>",
        "run echo four",
        "read missing.txt",
        r#"tool todo_write {"todos": [{"content": "Five", "id": "5"}]}"#,
        "/mode auto",
        "/usage",
    ] {
        assert_eq!(
            agent.prompt_and_wait_for_stop(&session, prompt).await.unwrap(),
            "end_turn",
            "{prompt}"
        );
    }
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    let mut keys = BTreeSet::new();
    for line in agent.client.transcript().lines() {
        meta_keys(&serde_json::from_str(line).unwrap(), "", &mut keys);
    }
    // The places are a diff, a step of the plan, a response, a call of a request, and a call of an
    // update.
    let expected = ["content: own", "entries: own", "result: own", "toolCall: own", "update: own"];
    assert_eq!(Vec::from_iter(keys), expected);
}

#[tokio::test]
async fn a_reason_is_read_under_the_agents_own_key_only() {
    for (key, expected) in [("own", "They said: not now"), ("callboard", "It did not run.")] {
        let (mut agent, session, _folder) = start(PermissionReply::NoReply).await;
        let prompt = agent.send_prompt(&session, "run touch made").await.unwrap();
        agent.wait_until(|client| !client.permission_requests.is_empty()).await.unwrap();
        let outcome = json!({
            "outcome": "selected", "optionId": "reject", "_meta": {key: {"reason": "not now"}},
        });
        let id = &agent.client.permission_requests[0].id;
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}});
        agent.send_raw_line(answer.to_string().as_bytes()).await.unwrap();
        assert_eq!(agent.wait_for_stop_reason(&prompt).await.unwrap(), "end_turn");
        let said = agent.client.session(&session).message_text();
        assert!(said.contains(expected), "{key}: {said}");
    }
}
