//! Every message against the JSON Schema that the schema crate generates of itself.

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

/// Checks the parameters of what the client sends.
///
/// # Panics
/// If they are not as the protocol wants them, or the method is not known here.
pub(crate) fn check_sent(method: &str, params: &Value) {
    match method {
        "initialize" => check::<v1::InitializeRequest>(params),
        "authenticate" => check::<v1::AuthenticateRequest>(params),
        "session/new" => check::<v1::NewSessionRequest>(params),
        "session/prompt" => check::<v1::PromptRequest>(params),
        "session/cancel" => check::<v1::CancelNotification>(params),
        "session/close" => check::<v1::CloseSessionRequest>(params),
        "$/cancel_request" => check::<v1::CancelRequestNotification>(params),
        other => panic!("no schema for {other}; send it unchecked"),
    }
}

/// Checks the client's result of a permission request.
///
/// # Panics
/// If it is not as the protocol wants it.
pub(crate) fn check_reply(result: &Value) {
    check::<v1::RequestPermissionResponse>(result);
}

/// Checks the result of a request of the client; those of methods unknown here may be anything.
///
/// # Panics
/// If it is not as the protocol wants it.
pub(crate) fn check_result(method: &str, result: &Value) {
    match method {
        "initialize" => check_whole::<v1::InitializeResponse>(result),
        "authenticate" => check_whole::<v1::AuthenticateResponse>(result),
        "session/new" => check_whole::<v1::NewSessionResponse>(result),
        "session/prompt" => check_whole::<v1::PromptResponse>(result),
        "session/close" => check_whole::<v1::CloseSessionResponse>(result),
        _ => {}
    }
}

/// Checks an error object.
///
/// # Panics
/// If it is none.
pub(crate) fn check_error(error: &Value) {
    check_whole::<v1::Error>(error);
}

/// Checks a value that the agent sent and returns it parsed. Nothing of it may be lost by that:
/// peers drop unknown keys and malformed optional fields in silence.
///
/// # Panics
/// If it is not what it should be.
pub(crate) fn parse<T>(value: &Value) -> T
where
    T: JsonSchema + Serialize + DeserializeOwned + 'static,
{
    check::<T>(value);
    let parsed: T = serde_json::from_value(value.clone()).expect("the schema allows it");
    let again = serde_json::to_value(&parsed).expect("a message is JSON");
    assert_eq!(&again, value, "SCHEMA-002: nothing is there that the protocol does not know");
    parsed
}

fn check_whole<T>(value: &Value)
where
    T: JsonSchema + Serialize + DeserializeOwned + 'static,
{
    parse::<T>(value);
}

fn check<T: JsonSchema + 'static>(value: &Value) {
    let validator = validator::<T>();
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "SCHEMA-001: {value}\n{errors:#?}");
}

fn validator<T: JsonSchema + 'static>() -> Arc<Validator> {
    static MADE: LazyLock<Mutex<HashMap<TypeId, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let make = || {
        let schema = serde_json::to_value(schema_for!(T)).expect("a schema is JSON");
        Arc::new(jsonschema::validator_for(&schema).expect("the generated schema is valid"))
    };
    let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Arc::clone(made.entry(TypeId::of::<T>()).or_insert_with(make))
}
