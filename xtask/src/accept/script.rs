//! Replies of a written model, for `--model script:FILE`.

use serde_json::{Value, json};

/// A reply that makes one call.
pub(super) fn call(name: &str, args: &Value) -> String {
    let call = json!({"call": {"id": "c1", "name": name, "args": args}});
    format!("{call}\n{}\n", json!({"end": "tool_calls"}))
}

/// A reply that ends the turn.
pub(super) fn end() -> String {
    format!("{}\n{}\n", json!({"text": "done"}), json!({"end": "end_turn"}))
}
