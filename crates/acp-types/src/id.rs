//! Names of turns and ids of tool calls.

use std::fmt;
use std::sync::Arc;

use crate::{ToolCallId, limits::MAX_MODEL_CALL_ID_CHARS};

/// The name of a turn, unique in its session. Cheap to clone.
///
/// ACP has no ids of turns. This name is only used as a part of call ids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(Arc<str>);

impl TurnId {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for TurnId {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for TurnId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Returns the id of a new call. The id is `{turn}/{model id}` if the model's id consists of 1 to
/// 64 safe characters, and if no other call has this id. Otherwise, the id is `call_` followed by a
/// new ULID.
///
/// Models repeat their ids across turns and even within one reply. The turn prefix and the check
/// with `is_taken` keep ids unique in the session, as the protocol requires
/// (<https://agentclientprotocol.com/protocol/v1/tool-calls#creating>).
pub fn unique_tool_call_id(
    turn: &TurnId,
    model_id: &str,
    is_taken: impl Fn(&str) -> bool,
    fresh_ulid: impl FnOnce() -> String,
) -> ToolCallId {
    if is_safe_model_call_id(model_id) {
        let id = format!("{turn}/{model_id}");
        if !is_taken(&id) {
            return ToolCallId::new(id);
        }
    }
    ToolCallId::new(format!("call_{}", fresh_ulid()))
}

fn is_safe_model_call_id(model_id: &str) -> bool {
    (1..=MAX_MODEL_CALL_ID_CHARS).contains(&model_id.len())
        && model_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::unique_tool_call_id;

    #[test]
    fn a_models_id_is_kept_when_safe_and_free() {
        let long = "x".repeat(65);
        for (model_id, taken, expected) in [
            ("toolu_01", false, "t1/toolu_01"),
            ("toolu_01", true, "call_ULID"),
            ("", false, "call_ULID"),
            ("a b", false, "call_ULID"),
            ("a/b", false, "call_ULID"),
            ("ä", false, "call_ULID"),
            ("a\nb", false, "call_ULID"),
            (&long, false, "call_ULID"),
            (&long[..64], false, &format!("t1/{}", &long[..64])),
        ] {
            let id = unique_tool_call_id(&"t1".into(), model_id, |_| taken, || "ULID".to_owned());
            assert_eq!(&*id.0, expected, "{model_id:?}");
        }
    }
}
