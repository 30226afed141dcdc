//! Validates every message against the JSON Schema that the schema crate generates.

use std::sync::LazyLock;

use acp_types::schema::{v1, v2};
use acp_types::wire::v1::WireUpdate;
use jsonschema::Validator;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde_json::Value;

static V1: LazyLock<Validator> = LazyLock::new(validator::<v1::SessionUpdate>);
static V2: LazyLock<Validator> = LazyLock::new(validator::<v2::SessionUpdate>);
static V1_PERMISSION: LazyLock<Validator> =
    LazyLock::new(validator::<v1::RequestPermissionRequest>);
static V2_PERMISSION: LazyLock<Validator> =
    LazyLock::new(validator::<v2::RequestPermissionRequest>);

/// Validates a v1 update. The update must also contain the values that a client cannot infer: the
/// kind and the status of a call.
pub(crate) fn check_v1(update: &WireUpdate) {
    let value = check(&V1, update);
    if value["sessionUpdate"] == "tool_call" {
        assert!(value["kind"].is_string() && value["status"].is_string(), "{value}");
    }
    let parsed: v1::SessionUpdate = serde_json::from_value(value).expect("the schema allows it");
    assert_eq!(parsed, **update);
}

pub(crate) fn check_v2(update: &v2::SessionUpdate) {
    drop(check(&V2, update));
}

pub(crate) fn check_v1_permission(request: &v1::RequestPermissionRequest) {
    let value = check(&V1_PERMISSION, request);
    let call = &value["toolCall"];
    assert!(call["kind"].is_string() && call["status"].is_string(), "{value}");
}

pub(crate) fn check_v2_permission(request: &v2::RequestPermissionRequest) {
    drop(check(&V2_PERMISSION, request));
}

fn validator<T: JsonSchema>() -> Validator {
    let schema = serde_json::to_value(schema_for!(T)).expect("a schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema crate generates a valid schema")
}

fn check(validator: &Validator, message: &impl Serialize) -> Value {
    let value = serde_json::to_value(message).expect("a message is JSON");
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{value}\n{errors:#?}");
    value
}
