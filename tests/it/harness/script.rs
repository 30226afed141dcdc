//! Lines of a script for the model `script:FILE`.

use serde_json::{Value, json};

/// The model that the agent of a test uses.
#[derive(Debug, Clone)]
pub(crate) enum Model {
    /// The model `direct`. The text of the prompt lists the calls.
    Direct,
    /// A script that defines the calls. The model ignores the text of the prompt.
    Script(String),
}

impl<const N: usize> From<[Value; N]> for Model {
    fn from(lines: [Value; N]) -> Self {
        Self::from(lines.to_vec())
    }
}

impl From<Vec<Value>> for Model {
    fn from(lines: Vec<Value>) -> Self {
        Self::Script(lines.iter().map(|line| format!("{line}\n")).collect())
    }
}

/// Script line: the model calls a tool. Calls of the same reply run in parallel.
#[expect(clippy::needless_pass_by_value, reason = "called with json!")]
pub(crate) fn call(name: &str, args: Value) -> Value {
    json!({"call": {"name": name, "args": args}})
}

/// Script line: the model runs a command.
pub(crate) fn run(command: &str) -> Value {
    call("terminal", json!({"command": command}))
}

/// Script line: the model sends text.
pub(crate) fn text(text: &str) -> Value {
    json!({"text": text})
}

/// Script line: the reply ends, and the model waits for the results of its calls.
pub(crate) fn end() -> Value {
    json!({"end": "tool_calls"})
}
