//! Validates the agent's messages a second time, with the JSON Schema that the schema crate
//! generates. The wire validator of the test kit does not use this schema.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use acp_types::schema::v1;
use jsonschema::Validator;
use pretty_assertions::assert_eq;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Checks every line that the agent sent, in a transcript of the test kit.
///
/// # Panics
///
/// Panics if a line violates the protocol, or if it contains a field that the protocol does not
/// define.
pub(crate) fn judge(transcript: &str) {
    let mut asked = HashMap::new();
    for line in transcript.lines() {
        let line: Value = serde_json::from_str(line).expect("the kit writes JSON");
        let message = &line["msg"];
        let (id, method) = (message["id"].to_string(), message["method"].as_str());
        match (line["dir"] == "out", method) {
            (true, Some(method)) => check_request(method, &message["params"]),
            (true, None) => check_response(asked.get(&id), message),
            (false, Some(method)) => drop(asked.insert(id, method.to_owned())),
            (false, None) => {}
        }
    }
}

fn check_request(method: &str, params: &Value) {
    match method {
        "session/update" => check::<v1::SessionNotification>(params),
        "session/request_permission" => check::<v1::RequestPermissionRequest>(params),
        "fs/read_text_file" => check::<v1::ReadTextFileRequest>(params),
        "fs/write_text_file" => check::<v1::WriteTextFileRequest>(params),
        "terminal/create" => check::<v1::CreateTerminalRequest>(params),
        "terminal/output" => check::<v1::TerminalOutputRequest>(params),
        "terminal/wait_for_exit" => check::<v1::WaitForTerminalExitRequest>(params),
        "terminal/kill" => check::<v1::KillTerminalRequest>(params),
        "terminal/release" => check::<v1::ReleaseTerminalRequest>(params),
        "elicitation/create" => check::<v1::CreateElicitationRequest>(params),
        "elicitation/complete" => check::<v1::CompleteElicitationNotification>(params),
        "$/cancel_request" => check::<v1::CancelRequestNotification>(params),
        other => panic!("the agent sends {other}; give it a schema here"),
    }
}

fn check_response(method: Option<&String>, message: &Value) {
    let result = &message["result"];
    if let Some(error) = message.get("error") {
        return check::<v1::Error>(error);
    }
    match method.map(String::as_str) {
        Some("initialize") => check::<v1::InitializeResponse>(result),
        Some("logout") => check::<v1::LogoutResponse>(result),
        Some("authenticate") => check::<v1::AuthenticateResponse>(result),
        Some("session/new") => check::<v1::NewSessionResponse>(result),
        Some("session/load") => check::<v1::LoadSessionResponse>(result),
        Some("session/resume") => check::<v1::ResumeSessionResponse>(result),
        Some("session/fork") => check::<v1::ForkSessionResponse>(result),
        // A method of this agent; its tests check the response.
        Some("_callboard/rewind") => {}
        Some("session/list") => check::<v1::ListSessionsResponse>(result),
        Some("session/delete") => check::<v1::DeleteSessionResponse>(result),
        Some("session/prompt") => check::<v1::PromptResponse>(result),
        Some("session/set_mode") => check::<v1::SetSessionModeResponse>(result),
        Some("session/set_config_option") => {
            check::<v1::SetSessionConfigOptionResponse>(result);
        }
        Some("session/close") => check::<v1::CloseSessionResponse>(result),
        other => panic!("the agent answers {other:?}; give it a schema here"),
    }
}

fn check<T>(value: &Value)
where
    T: JsonSchema + Serialize + DeserializeOwned + 'static,
{
    let validator = validator::<T>();
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "SCHEMA-001: {value}\n{errors:#?}");
    let parsed: T = serde_json::from_value(value.clone()).expect("the schema allows it");
    let mut again = serde_json::to_value(&parsed).expect("a message is JSON");
    if again["update"]["sessionUpdate"] == "tool_call" {
        // The schema crate omits a kind or a status that has the default value. The agent sends
        // both, because a client would not know the default value.
        let call = again["update"].as_object_mut().expect("an update is an object");
        call.entry("kind").or_insert_with(|| "other".into());
        call.entry("status").or_insert_with(|| "pending".into());
    }
    for content in ["/update/content", "/toolCall/content"] {
        // For a new file, the field for the old text is null. The schema crate omits this field,
        // but the agent sends it, because some clients would show no diff without it.
        let items = again.pointer_mut(content).and_then(Value::as_array_mut);
        let diffs = items.into_iter().flatten().filter(|item| item["type"] == "diff");
        for diff in diffs.filter_map(Value::as_object_mut) {
            diff.entry("oldText").or_insert(Value::Null);
        }
    }
    assert_eq!(&again, value, "SCHEMA-002: nothing is there that the protocol does not know");
}

fn validator<T: JsonSchema + 'static>() -> Arc<Validator> {
    static VALIDATORS: LazyLock<Mutex<HashMap<TypeId, Arc<Validator>>>> =
        LazyLock::new(Mutex::default);
    let make = || {
        let schema = serde_json::to_value(schema_for!(T)).expect("a schema is JSON");
        Arc::new(jsonschema::validator_for(&schema).expect("the generated schema is valid"))
    };
    let mut made = VALIDATORS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Arc::clone(made.entry(TypeId::of::<T>()).or_insert_with(make))
}
