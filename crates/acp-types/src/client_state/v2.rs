//! The client state of draft ACP v2.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{OrderRule, Violation, Violations};
use crate::schema::MaybeUndefined;
use crate::schema::v2::{
    PlanUpdateContent, RequestPermissionRequest, RequestPermissionSubject, SessionUpdate,
    TerminalOutputChunk, TerminalUpdate, ToolCallContentChunk, ToolCallStatus, ToolCallUpdate,
};

/// The state of a v2 client for one session.
#[derive(Debug, Clone, Default)]
pub struct V2ClientState {
    calls: HashMap<String, ToolCallUpdate>,
    terminals: HashMap<String, (TerminalUpdate, Vec<u8>)>,
    plan: Option<PlanUpdateContent>,
    violations: Violations,
}

impl V2ClientState {
    /// Creates the state of a client that has received no message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one `session/update`.
    pub fn apply_session_update(&mut self, update: &SessionUpdate) {
        match update {
            SessionUpdate::ToolCallUpdate(update) => self.fold_call_update(update),
            SessionUpdate::ToolCallContentChunk(chunk) => self.append_content(chunk),
            SessionUpdate::TerminalUpdate(update) => self.fold_terminal_update(update),
            SessionUpdate::TerminalOutputChunk(chunk) => self.append_output(chunk),
            SessionUpdate::PlanUpdate(update) => self.plan = Some(update.plan.clone()),
            _ => {}
        }
    }

    /// Applies a `session/request_permission`. The tool call of the request is applied like any
    /// other update.
    pub fn apply_permission_request(&mut self, request: &RequestPermissionRequest) {
        if let Some(RequestPermissionSubject::ToolCall(subject)) = &request.subject {
            let id = subject.tool_call.tool_call_id.to_string();
            if !self.calls.contains_key(&id) {
                self.violations.push_unless_full(OrderRule::Unannounced, &id);
            }
            self.fold_call_update(&subject.tool_call);
        }
    }

    /// Records a violation for each open call that does not run in the background. Call this method
    /// when the turn has ended.
    pub fn check_calls_ended(&mut self, is_background: impl Fn(&str) -> bool) {
        for (id, call) in &self.calls {
            if !is_final(call) && !is_background(id) {
                self.violations.push_unless_full(OrderRule::OpenAtTurnEnd, id);
            }
        }
    }

    /// Returns a call in the state that the client holds.
    #[must_use]
    pub fn observed_call(&self, id: &str) -> Option<&ToolCallUpdate> {
        self.calls.get(id)
    }

    /// Returns a terminal in the state that the client holds, and all bytes of its output.
    #[must_use]
    pub fn observed_terminal(&self, id: &str) -> Option<(&TerminalUpdate, &[u8])> {
        self.terminals.get(id).map(|(update, output)| (update, output.as_slice()))
    }

    /// Returns the most recent plan.
    #[must_use]
    pub fn latest_plan(&self) -> Option<&PlanUpdateContent> {
        self.plan.as_ref()
    }

    /// Returns the first 64 violations.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations.0
    }

    fn fold_call_update(&mut self, update: &ToolCallUpdate) {
        let id = update.tool_call_id.to_string();
        let Some(call) = self.calls.get_mut(&id) else {
            if update.title.value().is_none_or(|title| title.trim().is_empty()) {
                self.violations.push_unless_full(OrderRule::EmptyTitle, &id);
            }
            self.calls.insert(id, update.clone());
            return;
        };
        if *update == ToolCallUpdate::new(update.tool_call_id.clone()) {
            self.violations.push_unless_full(OrderRule::EmptyUpdate, &id);
        }
        if is_final(call) {
            self.violations.push_unless_full(OrderRule::AfterEnd, &id);
        } else if let Some(status) = update.status.value()
            && !may_become(call.status.value().unwrap_or(&ToolCallStatus::Pending), status)
        {
            self.violations.push_unless_full(OrderRule::IllegalTransition, &id);
        }
        call.apply_update(update.clone());
    }

    fn append_content(&mut self, chunk: &ToolCallContentChunk) {
        let id = chunk.tool_call_id.to_string();
        let Some(call) = self.calls.get_mut(&id) else {
            self.violations.push_unless_full(OrderRule::Unannounced, &id);
            return;
        };
        if is_final(call) {
            self.violations.push_unless_full(OrderRule::AfterEnd, &id);
        }
        match &mut call.content {
            MaybeUndefined::Value(content) => content.push(chunk.content.clone()),
            content => *content = MaybeUndefined::Value(vec![chunk.content.clone()]),
        }
    }

    fn fold_terminal_update(&mut self, update: &TerminalUpdate) {
        let id = update.terminal_id.to_string();
        let snapshot = update.output.value();
        let snapshot = snapshot.map(|output| BASE64.decode(&output.data).unwrap_or_default());
        if let Some((terminal, output)) = self.terminals.get_mut(&id) {
            if terminal.exit_status.value().is_some() {
                self.violations.push_unless_full(OrderRule::TerminalNotOpen, &id);
            }
            terminal.apply_update(update.clone());
            if let Some(snapshot) = snapshot {
                *output = snapshot;
            }
        } else {
            self.terminals.insert(id, (update.clone(), snapshot.unwrap_or_default()));
        }
    }

    fn append_output(&mut self, chunk: &TerminalOutputChunk) {
        let id = chunk.terminal_id.to_string();
        match (self.terminals.get_mut(&id), BASE64.decode(&chunk.data)) {
            (Some((terminal, output)), Ok(bytes)) if terminal.exit_status.value().is_none() => {
                output.extend(bytes);
            }
            _ => self.violations.push_unless_full(OrderRule::TerminalNotOpen, &id),
        }
    }
}

fn is_final(call: &ToolCallUpdate) -> bool {
    matches!(
        call.status.value(),
        Some(ToolCallStatus::Completed | ToolCallStatus::Failed | ToolCallStatus::Cancelled)
    )
}

fn may_become(from: &ToolCallStatus, to: &ToolCallStatus) -> bool {
    use ToolCallStatus::{Completed, InProgress, Paused, Pending};
    match (from, to) {
        (from, to) if from == to => true,
        (_, Pending) | (Pending, Paused) => false,
        (from, Completed) => *from == InProgress,
        _ => true,
    }
}
