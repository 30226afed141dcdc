//! The three clients of one session: v1 with text, v1 with terminals and draft v2. Each client has
//! a projection, and must have the expected state (guarantees G1, G2, G3 and G5).

use acp_lifecycle::{OutboxItem, PermissionRequest};
use acp_types::client_state::{self, Violation};
use acp_types::schema::MaybeUndefined;
use acp_types::schema::v1::Meta;
use acp_types::schema::v2::ToolCallUpdate;
use acp_types::wire::{self, v1::TerminalDisplay};
use acp_types::{TerminalReport, ToolCallReport};
use pretty_assertions::assert_eq;

const KEY: &str = "callboard";

/// All clients of a session.
pub(crate) struct Clients {
    text: V1,
    terminals: V1,
    v2: (wire::v2::V2Projection, client_state::v2::V2ClientState),
}

struct V1 {
    surface: TerminalDisplay,
    sent: wire::v1::V1Projection,
    client_state: client_state::v1::V1ClientState,
}

impl Clients {
    pub(crate) fn new() -> Self {
        let v1 = |surface| V1 {
            surface,
            sent: wire::v1::V1Projection::new(surface),
            client_state: client_state::v1::V1ClientState::new(),
        };
        Self {
            text: v1(TerminalDisplay::Text),
            terminals: v1(TerminalDisplay::MetaEvents),
            v2: (wire::v2::V2Projection::new(), client_state::v2::V2ClientState::new()),
        }
    }

    pub(crate) fn take(&mut self, item: &OutboxItem) {
        self.text.take(item);
        self.terminals.take(item);
        let (sent, client_state) = &mut self.v2;
        let updates = match item {
            OutboxItem::ToolCall(id, patch) => sent.updates_for_call_patch(id, patch),
            OutboxItem::Terminal(id, patch) => sent.updates_for_terminal_patch(id, patch),
            OutboxItem::Plan(plan) => vec![sent.update_for_plan("plan", plan)],
            OutboxItem::PromptResponse(_) => return client_state.check_calls_ended(|_| false),
            _ => return,
        };
        updates.iter().for_each(|update| client_state.apply_session_update(update));
    }

    /// Sends a permission request to each client.
    pub(crate) fn ask(&mut self, request: &PermissionRequest) {
        self.text.ask(request);
        self.terminals.ask(request);
        let asked = self.v2.0.permission_request_for_call("s".into(), &request.call, Vec::new());
        self.v2.1.apply_permission_request(&asked.expect("the call is told"));
    }

    /// Asserts that no ordering rule was violated.
    pub(crate) fn check_order(&self) {
        let none: [Violation; 0] = [];
        assert_eq!(self.text.client_state.violations(), none);
        assert_eq!(self.terminals.client_state.violations(), none);
        assert_eq!(self.v2.1.violations(), none);
    }

    /// Asserts that every client has the current state of a call.
    pub(crate) fn check(&self, document: &ToolCallReport, terminal: Option<&TerminalReport>) {
        self.text.check(document, terminal);
        self.terminals.check(document, terminal);
        let held = self.v2.1.observed_call(&document.id.0).expect("every call is told");
        let expected = wire::v2::tool_call_from_report(document, KEY);
        assert_eq!(normal(held.clone()), normal(expected));
        let Some(terminal) = terminal else { return };
        let (shown, output) =
            self.v2.1.observed_terminal(&terminal.id.0).expect("every terminal is told");
        assert_eq!(output, terminal.output.to_bytes_with_omission_line());
        assert_eq!(shown.exit_status.value().is_some(), terminal.exit.is_some());
    }

    /// Asserts that every client has the last plan.
    pub(crate) fn check_plan(&self, steps: usize) {
        for client_state in [&self.text.client_state, &self.terminals.client_state] {
            assert_eq!(client_state.latest_plan().map(|plan| plan.entries.len()), Some(steps));
        }
        assert!(self.v2.1.latest_plan().is_some());
    }
}

impl V1 {
    fn take(&mut self, item: &OutboxItem) {
        let updates = match item {
            OutboxItem::ToolCall(id, patch) => self.sent.updates_for_call_patch(id, patch),
            OutboxItem::Terminal(id, patch) => self.sent.updates_for_terminal_patch(id, patch),
            OutboxItem::Plan(plan) => vec![self.sent.update_for_plan(plan)],
            OutboxItem::PromptResponse(_) => return self.client_state.check_calls_ended(),
            _ => return,
        };
        updates.iter().for_each(|update| self.client_state.apply_session_update(update));
    }

    fn ask(&mut self, request: &PermissionRequest) {
        let asked = self.sent.permission_request_for_call(
            "s".into(),
            &request.call,
            request.options.clone(),
        );
        self.client_state.apply_permission_request(&asked.expect("the call is told"));
    }

    fn check(&self, document: &ToolCallReport, terminal: Option<&TerminalReport>) {
        // A terminal that was attached after the first report is shown as text.
        let shown =
            terminal.and_then(|terminal| self.client_state.observed_terminal(&terminal.id.0));
        let surface = if shown.is_some() { self.surface } else { TerminalDisplay::Text };
        let expected = wire::v1::tool_call_from_report(document, surface, KEY, |_| terminal);
        let mut held =
            self.client_state.observed_call(&document.id.0).expect("every call is told").clone();
        held.meta = held.meta.filter(|meta| !is_empty_meta(meta));
        assert_eq!(held, expected);
        // Compare only after the exit, because the first bytes of an incomplete character may be
        // buffered until then.
        if let (Some(shown), Some(terminal)) = (shown, terminal)
            && terminal.exit.is_some()
        {
            assert_eq!(
                shown.output,
                String::from_utf8_lossy(&terminal.output.to_bytes_with_omission_line())
            );
            assert!(shown.exit.is_some());
        }
    }
}

/// Sets fields that were never sent to their defaults.
fn normal(mut call: ToolCallUpdate) -> ToolCallUpdate {
    call.content = MaybeUndefined::Value(call.content.take().unwrap_or_default());
    call.locations = MaybeUndefined::Value(call.locations.take().unwrap_or_default());
    call.capabilities = MaybeUndefined::Value(call.capabilities.take().unwrap_or_default());
    if call.meta.value().is_none_or(is_empty_meta) {
        call.meta = MaybeUndefined::Undefined;
    }
    call
}

/// Returns whether metadata is empty. Empty metadata counts as missing metadata.
fn is_empty_meta(meta: &Meta) -> bool {
    meta[KEY] == serde_json::json!({})
}
