//! Rules for content that needs a capability, in methods that need no capability themselves.

use serde_json::Value;

use super::calls::array_objects;
use super::{ConformanceRule, LineViolations};

/// Returns whether a capability at a JSON pointer is declared; null and false do not count.
pub(super) fn has_capability(can: &Value, gate: &str) -> bool {
    can.pointer(gate).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
}

/// Judges the update of a `session/update`.
pub(super) fn check_update(client_can: &Value, update: &Value, faults: &mut LineViolations) {
    let has_event = |event: &&str| update["_meta"].get(event).is_some();
    let gate = match update["sessionUpdate"].as_str() {
        Some("notice") => "/session/notices",
        Some("compaction_update" | "compaction_summary_chunk") => "/session/compaction",
        Some("tool_call" | "tool_call_update") if TERMINAL_EVENTS.iter().any(has_event) => {
            "/_meta/terminal_output"
        }
        _ => return,
    };
    if !has_capability(client_can, gate) {
        faults.report_violation(ConformanceRule::Capability, format!("an update without {gate}"));
    }
}

/// Judges the blocks of a prompt.
pub(super) fn check_prompt(agent_can: &Value, params: &Value, faults: &mut LineViolations) {
    for block in array_objects(&params["prompt"]) {
        let gate = match block["type"].as_str() {
            Some("image") => "/promptCapabilities/image",
            Some("audio") => "/promptCapabilities/audio",
            Some("resource") => "/promptCapabilities/embeddedContext",
            _ => continue,
        };
        if !has_capability(agent_can, gate) {
            faults
                .report_violation(ConformanceRule::Capability, format!("a prompt without {gate}"));
        }
    }
}

/// Judges a result of the agent.
pub(super) fn check_result(client_can: &Value, result: &Value, faults: &mut LineViolations) {
    for (list, kind, gate) in [
        ("authMethods", "terminal", "/auth/terminal"),
        ("configOptions", "boolean", "/session/configOptions/boolean"),
    ] {
        if array_objects(&result[list]).any(|item| item["type"] == kind)
            && !has_capability(client_can, gate)
        {
            faults.report_violation(ConformanceRule::Capability, format!("{list} without {gate}"));
        }
    }
}

/// The `_meta` events for terminals that the client only displays.
const TERMINAL_EVENTS: [&str; 3] = ["terminal_info", "terminal_output", "terminal_exit"];
