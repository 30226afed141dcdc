//! All errors of the program have the same structure: a sentence for the user, and a stable reason
//! for programs.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::normalized::normalized;
use crate::harness::script::Model;
use crate::harness::{Agent, Options};

/// Checks the structure of an error, and returns its reason and its message.
fn check_error(error: &Value) -> (String, String) {
    let message = error["message"].as_str().expect("a message");
    let names = [
        "Parse error",
        "Invalid request",
        "Method not found",
        "Invalid params",
        "Internal error",
        "Resource not found",
        "Request cancelled",
    ];
    assert!(!names.contains(&message) && message.split(' ').count() > 3, "{error}");
    assert!(message.starts_with(char::is_uppercase) && !message.contains('\n'), "{error}");
    let data = error["data"].as_object().unwrap_or_else(|| panic!("no data: {error}"));
    assert!(data.keys().all(|key| ["reason", "path"].contains(&key.as_str())), "{error}");
    let reason = data["reason"].as_str().expect("a reason");
    assert!(reason.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'), "{error}");
    (reason.to_owned(), message.to_owned())
}

#[tokio::test]
async fn every_failed_request_is_answered_with_a_sentence_and_a_reason() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    let (session, cwd) = (agent.session_id(), agent.scratch.cwd());
    let none = "sess_none";
    let blocks = json!([{"type": "text", "text": "list"}]);
    let mut errors = String::new();
    for (method, params) in [
        ("nope", json!({})),
        ("session/load", json!({})),
        ("session/new", json!({})),
        ("session/new", json!({"cwd": 5, "mcpServers": []})),
        ("session/prompt", json!({"sessionId": session})),
        ("session/prompt", json!([1])),
        ("session/prompt", json!({"sessionId": none, "prompt": blocks})),
        ("session/close", json!({"sessionId": none})),
        ("session/set_mode", json!({"sessionId": none, "modeId": "ask"})),
        (
            "session/set_config_option",
            json!({"sessionId": none, "configId": "mode", "value": "ask"}),
        ),
        ("session/set_mode", json!({"sessionId": session, "modeId": "yolo"})),
        (
            "session/set_config_option",
            json!({"sessionId": session, "configId": "colour", "value": "red"}),
        ),
        ("authenticate", json!({"methodId": "magic"})),
    ] {
        let error = agent.request_unchecked(method, params.clone()).await.unwrap_err();
        check_error(&error);
        errors += &format!("{method} {params}\n{error}\n\n");
    }
    insta::assert_snapshot!(normalized(&agent.scratch, &errors));
    assert!(cwd.exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_session_needs_existing_folders_with_absolute_paths() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    let cwd = agent.scratch.cwd();
    let here = |name: &str| cwd.join(name).to_str().unwrap().to_owned();
    let whole = here("");
    for (path, what) in [
        ("".to_owned(), "absolute"),
        ("here".to_owned(), "absolute"),
        ("./".to_owned(), "absolute"),
        (here("missing"), "does not exist"),
        (here("missing/.."), "does not exist"),
        (here("missing/../notes.txt"), "does not exist"),
        (here("notes.txt"), "is not a folder"),
        (here("notes.txt/.."), "is not a folder"),
        (here("nul\0"), "cannot be used"),
    ] {
        for params in [
            json!({"cwd": path, "mcpServers": []}),
            json!({"cwd": whole, "additionalDirectories": [whole, path], "mcpServers": []}),
        ] {
            let error = agent.request_unchecked("session/new", params.clone()).await.unwrap_err();
            let (reason, message) = check_error(&error);
            assert_eq!((&*reason, &error["code"]), ("folder_unusable", &json!(-32602)), "{params}");
            assert!(message.contains(what), "{params}: {error}");
            let shown = error["data"]["path"].as_str().unwrap();
            assert!(message.contains(&format!("\"{shown}\"")), "{params}: {error}");
            assert!(path.contains('\0') || shown == path, "{error}");
        }
    }
    agent.finish().await;
}

#[tokio::test]
async fn the_error_names_the_limit_that_is_reached() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": []});
    let mut errors = Vec::new();
    for _ in 0..64 {
        errors.extend(agent.request("session/new", params.clone()).await.err());
    }
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert_eq!(
        check_error(error),
        ("busy".to_owned(), "This agent has 64 sessions open; close one first".to_owned())
    );
    assert_eq!(error["code"], -32603);
    agent.finish().await;
}
