//! The rows of the ACP conformance kit for protocol version 1 that no other test covers.
//!
//! In every test, the client of the harness checks TRANSPORT-001/002, JSONRPC-001..003, ERROR-001,
//! SCHEMA-001/002, SESSION-002, PROMPT-002, CANCEL-002 and CLIENTCAP-001..003. `cancel.rs` covers
//! CANCEL-001 and CLOSE-001/002, and `shutdown.rs` covers SHUTDOWN-001.

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::{call, end, run, text};
use crate::harness::{Agent, Options, PermissionReply};

#[tokio::test]
async fn init_001_002_004_protocol_version_1_and_the_name_of_the_agent() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    let result = agent.initialize().await.unwrap();
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["agentInfo"]["name"], "callboard");
    assert_eq!(result["agentInfo"]["version"], env!("CARGO_PKG_VERSION"));
    agent.finish().await;
}

#[tokio::test]
async fn init_003_an_unknown_newer_version_is_answered_with_version_1() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    let params = json!({
        "protocolVersion": 65535,
        "clientCapabilities": {},
        "info": {"name": "it", "version": "0"},
        "capabilities": {},
    });
    let result = agent.request_unchecked("initialize", params).await.unwrap();
    assert_eq!(result["protocolVersion"], 1);
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn jsonrpc_001_a_response_has_the_unchanged_id_of_its_request() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    for id in [json!("a string"), json!("1"), json!(0), json!(-7), json!(i64::MAX)] {
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params});
        agent.raw(&request.to_string()).await;
        // This test checks only that each response has the id of its request.
        drop(agent.answer(&id).await);
    }
    agent.finish().await;
}

#[tokio::test]
async fn session_001_002_every_session_has_a_different_id() {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    let other = agent.new_session().await;
    assert_ne!(other, agent.session_id());
    agent.finish().await;
}

#[tokio::test]
async fn prompt_003_a_prompt_may_contain_resource_links() {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    let uri = format!("file://{}", agent.scratch.path("notes.txt").display());
    let prompt = json!([
        {"type": "text", "text": "What is this?"},
        {"type": "resource_link", "uri": uri, "name": "notes.txt"},
        {"type": "resource_link", "uri": "zed:///agent/thread/1", "name": "a thread"},
    ]);
    let params = json!({"sessionId": agent.session_id(), "prompt": prompt});
    let result = agent.request("session/prompt", params).await.unwrap();
    assert_eq!(result["stopReason"], "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn prompts_with_every_advertised_kind_of_content_are_accepted() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    let capabilities = agent.initialize().await.unwrap()["agentCapabilities"].clone();
    agent.new_session().await;
    let text = json!({"uri": "file:///x.txt", "text": "x"});
    for (name, block) in [
        ("image", json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="})),
        ("audio", json!({"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="})),
        ("embeddedContext", json!({"type": "resource", "resource": text})),
    ] {
        if capabilities["promptCapabilities"][name] == true {
            let params = json!({"sessionId": agent.session_id(), "prompt": [block]});
            let result = agent.request("session/prompt", params).await;
            assert_eq!(result.unwrap()["stopReason"], "end_turn", "{name}");
        }
    }
    agent.finish().await;
}

/// Stores a session of one turn. Returns its scratch folder and its id.
async fn stored_session() -> (Scratch, String) {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let stored = (agent.scratch.clone(), agent.session_id());
    agent.finish().await;
    stored
}

async fn agent_for(scratch: &Scratch) -> Agent {
    let args = ["acp", "--model", "direct"];
    let mut agent = Agent::start_in(scratch.clone(), &args, &[], Options::default());
    agent.initialize().await.unwrap();
    agent
}

#[tokio::test]
async fn load_001_002_003_a_load_replays_before_its_response_which_is_an_object() {
    let (scratch, id) = stored_session().await;
    let mut agent = agent_for(&scratch).await;
    let params = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    let loaded = agent.request("session/load", params).await.unwrap();
    assert!(loaded.is_object(), "{loaded}");
    assert_eq!(agent.client.session(&id).message_text(), "Hello.");
    let before = agent.client.session(&id).message_text();
    let prompt = agent.prompt_in(&id, "/help").await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    let after = agent.client.session(&id).message_text();
    assert_eq!(after.matches(&before).count(), 1, "the replay ends with the response: {after}");
    agent.finish().await;
}

#[tokio::test]
async fn resume_001_002_a_resume_replays_nothing() {
    let (scratch, id) = stored_session().await;
    let mut agent = agent_for(&scratch).await;
    let params = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    let resumed = agent.request("session/resume", params).await.unwrap();
    assert!(resumed.is_object(), "{resumed}");
    assert_eq!(agent.client.session(&id).message_text(), "");
    let prompt = agent.prompt_in(&id, "/help").await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert!(!agent.client.session(&id).message_text().contains("Hello."));
    agent.finish().await;
}

#[tokio::test]
async fn list_001_002_delete_001_002_sessions_are_listed_by_folder_and_deleted_twice() {
    let (scratch, id) = stored_session().await;
    let mut agent = agent_for(&scratch).await;
    let ids = |list: Value| -> Vec<String> {
        let sessions = list["sessions"].as_array().unwrap().iter();
        sessions.map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    let listed = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(ids(listed), std::slice::from_ref(&id));
    let elsewhere = agent.request("session/list", json!({"cwd": "/elsewhere"})).await.unwrap();
    assert_eq!(ids(elsewhere), [""; 0]);
    for session in [&*id, &id, "never-existed"] {
        let deleted = agent.request("session/delete", json!({"sessionId": session})).await;
        assert_eq!(deleted.unwrap(), json!({}));
    }
    let listed = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(ids(listed), [""; 0]);
    agent.finish().await;
}

#[tokio::test]
async fn meta_001_a_prompt_with_metadata_is_accepted() {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    let meta =
        json!({"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01", "x": 1});
    let params = json!({
        "sessionId": agent.session_id(),
        "prompt": [{"type": "text", "text": "go", "_meta": meta}],
        "_meta": meta,
    });
    let result = agent.request("session/prompt", params).await.unwrap();
    assert_eq!(result["stopReason"], "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn ext_001_an_unknown_extension_request_is_answered() {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    let error = agent.request_unchecked("_tck.test/ping", json!({"x": 1})).await.unwrap_err();
    assert_eq!(error["code"], -32601);
    agent.finish().await;
}

#[tokio::test]
async fn config_003_no_boolean_option_unless_the_client_knows_them() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    agent.initialize().await.unwrap();
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": []});
    let session = agent.request("session/new", params).await.unwrap();
    let options = session["configOptions"].as_array().cloned().unwrap_or_default();
    assert!(options.iter().all(|option| option["type"] == "select"), "{options:?}");
    agent.finish().await;
}

#[tokio::test]
async fn modes_001_config_001_each_current_value_is_among_the_offered_values() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    agent.initialize().await.unwrap();
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": []});
    let session = agent.request("session/new", params).await.unwrap();
    if let Some(modes) = session.get("modes") {
        let all = modes["availableModes"].as_array().unwrap();
        assert!(all.iter().any(|mode| mode["id"] == modes["currentModeId"]), "{modes}");
    }
    for option in session["configOptions"].as_array().into_iter().flatten() {
        let mut all = option["options"].as_array().unwrap().iter();
        assert!(all.any(|value| value["value"] == option["currentValue"]), "{option}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn auth_001_002_005_methods_have_unique_ids_and_no_login_is_required() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    let result = agent.initialize().await.unwrap();
    let methods = result["authMethods"].as_array().cloned().unwrap_or_default();
    let mut ids: Vec<_> = methods.iter().map(|method| method["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), methods.len(), "AUTH-001");
    assert!(methods.iter().all(|method| method["type"] != "terminal"), "AUTH-002: {methods:?}");
    // AUTH-005: if the agent required a login, it would answer with the error -32000.
    agent.new_session().await;
    agent.finish().await;
}

#[tokio::test]
async fn clientcap_001_002_003_every_tool_works_without_client_capabilities() {
    let capabilities = [
        json!({}),
        json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false}),
        json!({"elicitation": null}),
    ];
    for capabilities in capabilities {
        let script = [
            call("read_file", json!({"path": "notes.txt"})),
            call("write_file", json!({"path": "x", "content": "x"})),
            run("true"),
            end(),
        ];
        let options = Options::default().with_capabilities(capabilities);
        let mut agent = Agent::ready(script, options).await;
        assert_eq!(agent.turn("go").await, "end_turn");
        agent.finish().await;
    }
}

#[tokio::test]
async fn jsonrpc_004_005_the_agent_continues_after_an_error() {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    let error = agent.request_unchecked("session/dance", json!({})).await.unwrap_err();
    assert_eq!(error["code"], -32601);
    assert_eq!(agent.turn("go").await, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn auth_003_only_offered_methods_work() {
    let mut agent = Agent::start([text("Hello.")], Options::default());
    let methods = agent.initialize().await.unwrap()["authMethods"].clone();
    for method in methods.as_array().into_iter().flatten() {
        let params = json!({"methodId": method["id"]});
        assert_eq!(agent.request("authenticate", params).await, Ok(json!({})));
    }
    let error = agent.request("authenticate", json!({"methodId": "none"})).await.unwrap_err();
    assert_eq!(error["code"], -32602);
    agent.new_session().await;
    agent.finish().await;
}

#[tokio::test]
async fn auth_002_a_terminal_login_is_offered_only_to_clients_that_support_it() {
    for (capabilities, offered) in [(json!({}), 0), (json!({"auth": {"terminal": true}}), 1)] {
        let options = Options::default().with_capabilities(capabilities);
        let mut agent = Agent::start([text("Hello.")], options);
        let result = agent.initialize().await.unwrap();
        let methods = result["authMethods"].as_array().unwrap();
        let terminals = methods.iter().filter(|method| method["type"] == "terminal").count();
        assert_eq!(terminals, offered);
        agent.finish().await;
    }
}

#[tokio::test]
async fn adddirs_001_an_additional_directory_is_a_project_folder() {
    let (inside, outside) = (Scratch::new(), Scratch::new());
    let path = |scratch: &Scratch| json!({"path": scratch.path("notes.txt")});
    let script = [call("read_file", path(&inside)), call("read_file", path(&outside)), end()];
    let mut agent = Agent::start(script, PermissionReply::Select(PermissionOptionKind::RejectOnce));
    agent.initialize().await.unwrap();
    let params = json!({
        "cwd": agent.scratch.cwd(),
        "mcpServers": [],
        "additionalDirectories": [inside.cwd()],
    });
    agent.request("session/new", params).await.unwrap();
    agent.turn("go").await;
    let statuses: Vec<_> = agent.session().calls().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [ToolCallStatus::Completed, ToolCallStatus::Failed]);
    assert_eq!(agent.client.permission_requests.len(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn stdout_contains_only_messages_and_nothing_is_logged() {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    agent.turn("go").await;
    agent.finish().await;
    let log = agent.stderr_log();
    assert_eq!(log, "");
    assert_eq!(agent.client.unmatched_errors, [Value::Null; 0]);
}
