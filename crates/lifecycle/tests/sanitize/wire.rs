//! Three clients of a session, which record every line that they receive.

use std::collections::BTreeMap;

use acp_lifecycle::{OutboxItem, Session};
use acp_types::client_state::{v1, v2};
use acp_types::wire::{self, v1::TerminalDisplay};
use serde::Serialize;

/// Three clients: one shows terminals as text, one shows terminals by `_meta`, and one uses draft
/// v2.
pub(crate) struct Clients {
    text: wire::v1::V1Projection,
    meta: (wire::v1::V1Projection, v1::V1ClientState),
    v2: (wire::v2::V2Projection, v2::V2ClientState),
    said: BTreeMap<String, String>,
    /// Every line that was sent to any client.
    pub(crate) lines: Vec<String>,
}

impl Clients {
    pub(crate) fn new() -> Self {
        Self {
            text: wire::v1::V1Projection::new(TerminalDisplay::Text),
            meta: (
                wire::v1::V1Projection::new(TerminalDisplay::MetaEvents),
                v1::V1ClientState::new(),
            ),
            v2: (wire::v2::V2Projection::new(), v2::V2ClientState::new()),
            said: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    pub(crate) fn deliver(&mut self, session: &Session, item: OutboxItem) {
        match item {
            OutboxItem::ToolCall(id, patch) => {
                let (text, meta) = (
                    self.text.updates_for_call_patch(&id, &patch),
                    self.meta.0.updates_for_call_patch(&id, &patch),
                );
                let v2 = self.v2.0.updates_for_call_patch(&id, &patch);
                self.updates(&text, &meta, &v2);
            }
            OutboxItem::Terminal(id, patch) => {
                let (text, meta) = (
                    self.text.updates_for_terminal_patch(&id, &patch),
                    self.meta.0.updates_for_terminal_patch(&id, &patch),
                );
                let v2 = self.v2.0.updates_for_terminal_patch(&id, &patch);
                self.updates(&text, &meta, &v2);
            }
            OutboxItem::Chunk(chunk) => {
                self.line(&self.text.update_for_chunk(&chunk));
                self.line(&self.v2.0.update_for_chunk(&chunk));
                self.said.entry(chunk.message).or_default().push_str(&chunk.text);
            }
            OutboxItem::Plan(plan) => {
                self.line(&self.text.update_for_plan(&plan));
                self.line(&self.v2.0.update_for_plan("p", &plan));
            }
            OutboxItem::State(state) => {
                self.line(&self.text.update_for_state(&state));
                self.line(&self.v2.0.update_for_state(&state));
            }
            OutboxItem::PermissionRequest(number) => {
                let request =
                    session.pending_permission_request(number).expect("a delivered request waits");
                let options = || request.options.clone();
                let v1 =
                    self.text.permission_request_for_call("s".into(), &request.call, options());
                self.line(&v1.expect("the call is told"));
                let v2 =
                    self.v2.0.permission_request_for_call("s".into(), &request.call, options());
                self.line(&v2.expect("the call is told"));
            }
            _ => {}
        }
    }

    fn updates(
        &mut self,
        text: &[wire::v1::WireUpdate],
        meta: &[wire::v1::WireUpdate],
        v2: &[acp_types::schema::v2::SessionUpdate],
    ) {
        text.iter().chain(meta).for_each(|update| self.line(update));
        v2.iter().for_each(|update| self.line(update));
        meta.iter().for_each(|update| self.meta.1.apply_session_update(update));
        v2.iter().for_each(|update| self.v2.1.apply_session_update(update));
    }

    fn line(&mut self, message: &impl Serialize) {
        self.lines.push(serde_json::to_string(message).expect("a message is JSON"));
    }

    /// Returns the streamed texts, each joined from its chunks.
    pub(crate) fn streams(&self, terminal: &str) -> Vec<String> {
        let meta = self.meta.1.observed_terminal(terminal).map(|terminal| terminal.output.clone());
        let v2 = self.v2.1.observed_terminal(terminal);
        let v2 = v2.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned());
        self.said.values().cloned().chain(meta).chain(v2).collect()
    }
}
