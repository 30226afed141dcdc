//! Schema checks. A value is parsed as a protocol type, and lost fields are reported.
//!
//! Like other agents and clients, the types of the schema crate silently drop unknown keys and
//! malformed optional fields. A JSON Schema would find the same fields, but needs a validator as a
//! dependency.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{ConformanceRule, LineViolations, escaped_excerpt, value_excerpt};

/// A function that checks a value against one type. `what` is the name of the value in violations.
pub(super) type SchemaCheck = fn(value: &Value, what: &str, faults: &mut LineViolations);

/// Maximum number of lost fields that are reported per value. One lost field is enough to find the
/// cause.
const MAX_REPORTED_LOST_FIELDS: usize = 3;

/// Checks that a value can be parsed, and that no field is lost by parsing.
pub(super) fn check_schema<T: Serialize + DeserializeOwned>(
    value: &Value,
    what: &str,
    faults: &mut LineViolations,
) {
    // Some peers send null instead of an empty object.
    let empty = Value::Object(Map::new());
    let value = if value.is_null() { &empty } else { value };
    let again = match T::deserialize(value).and_then(serde_json::to_value) {
        Ok(again) => again,
        Err(error) => {
            return faults.report_violation(
                ConformanceRule::Schema,
                escaped_excerpt(&format!("{what}: {error}")),
            );
        }
    };
    let mut lost = Vec::new();
    collect_lost_fields(value, &again, &mut String::new(), &mut lost);
    for lost in lost {
        faults.report_violation(ConformanceRule::LostField, format!("{what}: {lost}"));
    }
}

/// Lists the fields of a value that are missing after the value was parsed.
fn collect_lost_fields(value: &Value, again: &Value, path: &mut String, lost: &mut Vec<String>) {
    if lost.len() >= MAX_REPORTED_LOST_FIELDS || value == again {
        return;
    }
    let length = path.len();
    match (value, again) {
        (Value::Object(value), Value::Object(again)) => {
            for (key, value) in value {
                path.push('/');
                path.push_str(key);
                match again.get(key) {
                    Some(again) => collect_lost_fields(value, again, path, lost),
                    None if is_omitted_default(key, value) => {}
                    None => collect_lost_fields(value, &Value::Null, path, lost),
                }
                path.truncate(length);
            }
        }
        (Value::Array(value), Value::Array(again)) if value.len() == again.len() => {
            for (at, (value, again)) in value.iter().zip(again).enumerate() {
                path.push('/');
                path.push_str(&at.to_string());
                collect_lost_fields(value, again, path, lost);
                path.truncate(length);
            }
        }
        (Value::Number(value), Value::Number(again)) if value.as_f64() == again.as_f64() => {}
        _ => lost.push(format!("{} is lost: {}", escaped_excerpt(path), value_excerpt(value))),
    }
}

/// Returns whether a serialiser omits this value because it is the default value.
fn is_omitted_default(key: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => matches!((key, &**text), ("kind", "other") | ("status", "pending")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use acp_types::schema::v1::{CreateTerminalRequest, ToolCall};
    use serde_json::{Value, json};

    use super::super::{ConformanceRule, LineViolations, Side};
    use super::{SchemaCheck, check_schema};

    fn rules(check: SchemaCheck, value: &Value) -> Vec<ConformanceRule> {
        let mut faults = LineViolations { line: 1, side: Side::Agent, violations: Vec::new() };
        check(value, "x", &mut faults);
        faults.violations.iter().map(|fault| fault.rule).collect()
    }

    #[test]
    fn dropped_fields_are_reported_and_omitted_defaults_are_not() {
        let call = check_schema::<ToolCall>;
        let rows = [
            (json!({"toolCallId": "c", "title": "T"}), &[][..]),
            (
                json!({"toolCallId": "c", "title": "T", "kind": "other", "status": "pending",
                    "content": [], "rawInput": null, "_meta": {"x": 1}}),
                &[],
            ),
            (json!({"toolCallId": "c", "title": "T", "rawInput": {"a": 1.0, "b": [null]}}), &[]),
            (json!({"title": "T"}), &[ConformanceRule::Schema]),
            (json!({"toolCallId": "c", "title": 1}), &[ConformanceRule::Schema]),
            (
                json!({"toolCallId": "c", "title": "T", "kind": "dance"}),
                &[ConformanceRule::LostField],
            ),
            (
                json!({"toolCallId": "c", "title": "T", "status": "cancelled"}),
                &[ConformanceRule::LostField],
            ),
            (
                json!({"toolCallId": "c", "title": "T", "colour": "red"}),
                &[ConformanceRule::LostField],
            ),
            (
                json!({"toolCallId": "c", "title": "T", "content": [{"type": "text"}]}),
                &[ConformanceRule::LostField],
            ),
            (
                json!({"toolCallId": "c", "title": "T", "locations": [{"path": "/x", "line": -1}]}),
                &[ConformanceRule::LostField],
            ),
        ];
        for (value, expected) in rows {
            assert_eq!(rules(call, &value), expected, "{value}");
        }
        let terminal = json!({"sessionId": "s", "command": "x", "outputByteLimit": "many"});
        assert_eq!(rules(check_schema::<CreateTerminalRequest>, &terminal).len(), 1);
    }
}
