//! The client state of ACP v1, with and without the `_meta.terminal_*` convention.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{OrderRule, Violation, Violations};
use crate::schema::v1::{
    Meta, Plan, RequestPermissionRequest, SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};

/// The state of a v1 client for one session.
#[derive(Debug, Clone, Default)]
pub struct V1ClientState {
    calls: HashMap<String, ToolCall>,
    order: Vec<String>,
    started: HashSet<String>,
    terminals: HashMap<String, ObservedTerminal>,
    plan: Option<Plan>,
    violations: Violations,
}

/// A display-only terminal, built from its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedTerminal {
    /// Working directory of the command, as most recently sent.
    pub cwd: Option<String>,
    /// All output that was appended so far.
    pub output: String,
    /// Value of the exit event: `terminal_id`, `exit_code`, `signal`.
    pub exit: Option<Value>,
}

impl V1ClientState {
    /// Creates the state of a client that has received no message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one `session/update`.
    pub fn apply_session_update(&mut self, update: &SessionUpdate) {
        match update {
            SessionUpdate::ToolCall(call) => self.fold_announcement(call),
            SessionUpdate::ToolCallUpdate(update) => {
                self.fold_call_update(update, EmptyUpdatePolicy::CountAsEmpty);
            }
            SessionUpdate::Plan(plan) => self.plan = Some(plan.clone()),
            _ => {}
        }
    }

    /// Applies a `session/request_permission`. The `toolCall` of the request is applied like any
    /// other update.
    pub fn apply_permission_request(&mut self, request: &RequestPermissionRequest) {
        self.fold_call_update(&request.tool_call, EmptyUpdatePolicy::Allowed);
    }

    /// Records a violation for each call that is still open. Call this method when the turn was
    /// answered.
    pub fn check_calls_ended(&mut self) {
        for (id, call) in &self.calls {
            if !is_final(call.status) {
                self.violations.push_unless_full(OrderRule::OpenAtTurnEnd, id);
            }
        }
    }

    /// Returns a call in the state that the client holds.
    #[must_use]
    pub fn observed_call(&self, id: &str) -> Option<&ToolCall> {
        self.calls.get(id)
    }

    /// Returns all calls in the order of their announcement.
    pub fn observed_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.order.iter().filter_map(|id| self.calls.get(id))
    }

    /// Returns whether a call has been in progress.
    #[must_use]
    pub fn has_run(&self, id: &str) -> bool {
        self.started.contains(id)
    }

    /// Returns a display-only terminal in the state that the client holds.
    #[must_use]
    pub fn observed_terminal(&self, id: &str) -> Option<&ObservedTerminal> {
        self.terminals.get(id)
    }

    /// Returns the most recent plan.
    #[must_use]
    pub fn latest_plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Returns the first 64 violations.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations.0
    }

    fn fold_announcement(&mut self, call: &ToolCall) {
        let id = call.tool_call_id.to_string();
        if call.title.trim().is_empty() {
            self.violations.push_unless_full(OrderRule::EmptyTitle, &id);
        }
        let mut call = call.clone();
        if let Some(meta) = &mut call.meta {
            self.fold_terminal_events(&id, meta, EventCarrier::FirstReport);
        }
        call.meta = call.meta.filter(|meta| !meta.is_empty());
        if call.status == ToolCallStatus::InProgress {
            self.started.insert(id.clone());
        }
        if self.calls.insert(id.clone(), call).is_some() {
            self.violations.push_unless_full(OrderRule::AnnouncedTwice, &id);
        } else {
            self.order.push(id);
        }
    }

    fn fold_call_update(&mut self, update: &ToolCallUpdate, repeat: EmptyUpdatePolicy) {
        let id = update.tool_call_id.to_string();
        let mut meta = update.meta.clone().unwrap_or_default();
        let before = meta.len();
        self.fold_terminal_events(&id, &mut meta, EventCarrier::Update);
        let had_events = meta.len() < before;
        let Some(call) = self.calls.get_mut(&id) else {
            self.violations.push_unless_full(OrderRule::Unannounced, &id);
            return;
        };
        let nothing = update.fields == ToolCallUpdateFields::new() && meta.is_empty();
        if nothing && !had_events && repeat == EmptyUpdatePolicy::CountAsEmpty {
            self.violations.push_unless_full(OrderRule::EmptyUpdate, &id);
        }
        if is_final(call.status) {
            self.violations.push_unless_full(OrderRule::AfterEnd, &id);
        } else if let Some(status) = update.fields.status {
            if !may_become(call.status, status) {
                self.violations.push_unless_full(OrderRule::IllegalTransition, &id);
            }
            if status == ToolCallStatus::InProgress {
                self.started.insert(id);
            }
        }
        call.update(update.fields.clone());
        // The v1 update function of the schema crate does not change metadata. Each key of the
        // metadata is always sent as a whole, so the new value replaces the old one.
        if !meta.is_empty() {
            call.meta.get_or_insert_default().extend(meta);
        }
    }

    /// Removes the terminal events from a call's metadata, and applies the events that are allowed.
    /// Only the first report of a call can open a terminal. The directory of a terminal may be sent
    /// again before its first output or its exit.
    fn fold_terminal_events(&mut self, id: &str, meta: &mut Meta, carrier: EventCarrier) {
        for name in TERMINAL_EVENTS {
            let Some(event) = meta.remove(name) else {
                continue;
            };
            let text = |key: &str| event[key].as_str().map(str::to_owned);
            let terminal_id = text("terminal_id").unwrap_or_default();
            let terminal = self.terminals.get_mut(&terminal_id);
            match (name, carrier, terminal) {
                (TERMINAL_INFO, EventCarrier::FirstReport, None) => {
                    let terminal =
                        ObservedTerminal { cwd: text("cwd"), ..ObservedTerminal::default() };
                    self.terminals.insert(terminal_id, terminal);
                }
                (TERMINAL_INFO, EventCarrier::Update, Some(terminal))
                    if terminal.output.is_empty() && terminal.exit.is_none() =>
                {
                    terminal.cwd = text("cwd");
                }
                (TERMINAL_OUTPUT, EventCarrier::Update, Some(terminal))
                    if terminal.exit.is_none() =>
                {
                    terminal.output.push_str(event["data"].as_str().unwrap_or_default());
                }
                (TERMINAL_EXIT, EventCarrier::Update, Some(terminal))
                    if terminal.exit.is_none() =>
                {
                    terminal.exit = Some(event);
                }
                _ => self.violations.push_unless_full(OrderRule::TerminalNotOpen, id),
            }
        }
    }
}

/// The message that carries terminal events.
#[derive(Debug, Clone, Copy)]
enum EventCarrier {
    FirstReport,
    Update,
}

/// Whether an update without any fields is a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmptyUpdatePolicy {
    CountAsEmpty,
    Allowed,
}

fn is_final(status: ToolCallStatus) -> bool {
    matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed)
}

/// Returns whether v1 allows this change of status. v1 defines no change back to pending, and no
/// call needs such a change.
fn may_become(from: ToolCallStatus, to: ToolCallStatus) -> bool {
    match to {
        ToolCallStatus::Pending => from == ToolCallStatus::Pending,
        ToolCallStatus::Completed => from == ToolCallStatus::InProgress,
        _ => true,
    }
}

const TERMINAL_INFO: &str = "terminal_info";
const TERMINAL_OUTPUT: &str = "terminal_output";
const TERMINAL_EXIT: &str = "terminal_exit";

/// The events of the terminal convention, in the order in which they may occur.
const TERMINAL_EVENTS: [&str; 3] = [TERMINAL_INFO, TERMINAL_OUTPUT, TERMINAL_EXIT];

#[cfg(test)]
mod tests {
    use super::V1ClientState;
    use crate::client_state::OrderRule::{
        self, AfterEnd, AnnouncedTwice, EmptyTitle, EmptyUpdate, IllegalTransition, OpenAtTurnEnd,
        TerminalNotOpen, Unannounced,
    };
    use crate::schema::v1::SessionUpdate;
    use serde_json::{Value, json};

    fn call(status: &str) -> Value {
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "status": status})
    }

    fn change(fields: Value) -> Value {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
        update.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        update
    }

    fn check(updates: &[Value], expected: &[OrderRule]) {
        let mut client_state = V1ClientState::new();
        for update in updates {
            let update: SessionUpdate = serde_json::from_value(update.clone()).unwrap();
            client_state.apply_session_update(&update);
        }
        client_state.check_calls_ended();
        let rules: Vec<_> =
            client_state.violations().iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, expected, "{updates:?}");
    }

    #[test]
    fn a_complete_lifecycle_breaks_no_rule() {
        let running = change(json!({"status": "in_progress"}));
        let done = change(json!({"status": "completed", "rawOutput": {"a": 1}}));
        check(&[call("pending"), running, done], &[]);
    }

    #[test]
    fn every_broken_rule_is_recorded() {
        let running = change(json!({"status": "in_progress"}));
        let failed = change(json!({"status": "failed"}));
        let titled = change(json!({"title": "U"}));
        let output =
            change(json!({"_meta": {"terminal_output": {"terminal_id": "t", "data": "x"}}}));
        let untitled = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": " "});
        check(std::slice::from_ref(&titled), &[Unannounced]);
        check(&[call("pending"), call("pending"), failed.clone()], &[AnnouncedTwice]);
        check(&[call("pending"), failed.clone(), titled], &[AfterEnd]);
        check(&[call("pending"), change(json!({"status": "completed"}))], &[IllegalTransition]);
        let back = change(json!({"status": "pending"}));
        check(&[call("pending"), running, back, failed.clone()], &[IllegalTransition]);
        check(&[call("pending"), change(json!({})), failed.clone()], &[EmptyUpdate]);
        check(&[call("pending")], &[OpenAtTurnEnd]);
        check(&[untitled, failed.clone()], &[EmptyTitle]);
        check(&[call("pending"), output.clone(), failed.clone()], &[TerminalNotOpen]);
        let info = json!({"_meta": {"terminal_info": {"terminal_id": "t", "cwd": "/"}}});
        let mut opens = call("pending");
        opens["_meta"] = info["_meta"].clone();
        check(&[call("pending"), change(info.clone()), failed.clone()], &[TerminalNotOpen]);
        check(&[opens, output, change(info), failed], &[TerminalNotOpen]);
    }

    #[test]
    fn terminal_events_are_appended_and_end() {
        let mut client_state = V1ClientState::new();
        let mut first = call("pending");
        first["_meta"] = json!({"terminal_info": {"terminal_id": "t", "cwd": "/"}});
        let updates = [
            first,
            change(json!({"_meta": {"terminal_info": {"terminal_id": "t", "cwd": "/a"}}})),
            change(json!({"_meta": {"terminal_output": {"terminal_id": "t", "data": "a"}}})),
            change(json!({"_meta": {"terminal_output": {"terminal_id": "t", "data": "b"}}})),
            change(json!({"_meta": {"terminal_exit": {"terminal_id": "t", "exit_code": 0}}})),
        ];
        for update in updates {
            client_state.apply_session_update(&serde_json::from_value(update).unwrap());
        }
        let terminal = client_state.observed_terminal("t").unwrap();
        assert_eq!((terminal.cwd.as_deref(), terminal.output.as_str()), (Some("/a"), "ab"));
        assert_eq!(terminal.exit.as_ref().unwrap()["exit_code"], 0);
        assert_eq!(client_state.violations(), []);
        assert_eq!(client_state.observed_call("c").unwrap().meta, None);
    }
}
