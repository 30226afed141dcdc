//! The state of a session, as observed by the client.

use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::{
    ContentBlock, ContentChunk, Diff, SessionConfigKind, SessionConfigOption, SessionModeId,
    SessionModeState, SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus,
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::limits::MAX_KEPT_ITEMS;

/// The observed state of one session.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ObservedSession {
    /// The first 100,000 updates, in order. Later updates are not kept, but change the other
    /// fields.
    pub updates: Vec<SessionUpdate>,
    /// The state that results from all updates.
    pub client_state: V1ClientState,
    /// The ids of the unanswered prompts, in order.
    pub prompts: Vec<Value>,
    /// The most recently reported modes, if any.
    pub modes: Option<SessionModeState>,
    /// The most recently reported options.
    pub options: Vec<SessionConfigOption>,
    /// Whether the session was closed.
    pub is_closed: bool,
}

impl ObservedSession {
    pub(crate) fn apply_update(&mut self, update: SessionUpdate) {
        self.client_state.apply_session_update(&update);
        match &update {
            SessionUpdate::CurrentModeUpdate(update) => {
                self.record_current_mode(&update.current_mode_id);
            }
            SessionUpdate::ConfigOptionUpdate(update) => {
                self.options.clone_from(&update.config_options);
            }
            _ => {}
        }
        if self.updates.len() < MAX_KEPT_ITEMS {
            self.updates.push(update);
        }
    }

    /// Updates the modes and options from the response to `session/new`, or to a request that
    /// changes an option.
    pub(crate) fn apply_modes_and_options(&mut self, result: &Value) {
        if let Ok(modes) = SessionModeState::deserialize(&result["modes"]) {
            self.modes = Some(modes);
        }
        if let Ok(options) = Vec::deserialize(&result["configOptions"]) {
            self.options = options;
        }
    }

    pub(crate) fn record_current_mode(&mut self, mode: &SessionModeId) {
        if let Some(modes) = &mut self.modes {
            modes.current_mode_id = mode.clone();
        }
    }

    /// Returns the id of the current mode, if there are modes.
    #[must_use]
    pub fn current_mode(&self) -> Option<&str> {
        Some(&self.modes.as_ref()?.current_mode_id.0)
    }

    /// Returns the current value of a select option, if the option exists.
    #[must_use]
    pub fn option_value(&self, id: &str) -> Option<&str> {
        let option = self.options.iter().find(|option| &*option.id.0 == id)?;
        match &option.kind {
            SessionConfigKind::Select(select) => Some(&select.current_value.0),
            _ => None,
        }
    }

    /// Records the response to a prompt. Only the response to the oldest unanswered prompt ends a
    /// turn.
    pub(crate) fn record_prompt_response(&mut self, prompt: &Value) {
        let Some(at) = self.prompts.iter().position(|waiting| waiting == prompt) else { return };
        self.prompts.remove(at);
        if at == 0 {
            self.client_state.check_calls_ended();
        }
    }

    /// Returns all calls, in the order of their announcement.
    #[must_use]
    pub fn calls(&self) -> Vec<&ToolCall> {
        self.client_state.observed_calls().collect()
    }

    /// Returns the only call of a tool. Returns `None` if the tool has no call or several calls.
    #[must_use]
    pub fn only_call_of_tool(&self, name: &str) -> Option<&ToolCall> {
        let is_named = |call: &&ToolCall| call.name.as_deref() == Some(name);
        let mut calls = self.client_state.observed_calls().filter(is_named);
        let call = calls.next();
        call.filter(|_| calls.next().is_none())
    }

    /// Returns whether a call shows this line, as text or in its terminal.
    #[must_use]
    pub fn any_call_shows_line(&self, line: &str) -> bool {
        let in_terminal = |call: &ToolCall| {
            let terminal = self.client_state.observed_terminal(&shown_terminal_id(call)?)?;
            Some(terminal.output.lines().any(|shown| shown == line))
        };
        self.client_state.observed_calls().any(|call| {
            call_text(call).lines().any(|shown| shown == line) || in_terminal(call) == Some(true)
        })
    }

    /// Returns the statuses with which a call was reported, without consecutive duplicates.
    #[must_use]
    pub fn reported_statuses(&self, call: &ToolCall) -> Vec<ToolCallStatus> {
        let status = |update: &SessionUpdate| match update {
            SessionUpdate::ToolCall(report) if report.tool_call_id == call.tool_call_id => {
                Some(report.status)
            }
            SessionUpdate::ToolCallUpdate(report) if report.tool_call_id == call.tool_call_id => {
                report.fields.status
            }
            _ => None,
        };
        let mut statuses: Vec<_> = self.updates.iter().filter_map(status).collect();
        statuses.dedup();
        statuses
    }

    /// Returns the text of the agent's messages.
    #[must_use]
    pub fn message_text(&self) -> String {
        let said = |update: &SessionUpdate| match update {
            SessionUpdate::AgentMessageChunk(chunk) => chunk_text(chunk).map(str::to_owned),
            _ => None,
        };
        self.updates.iter().filter_map(said).collect()
    }

    /// Returns the text of the agent's thoughts.
    #[must_use]
    pub fn thought_text(&self) -> String {
        let thought = |update: &SessionUpdate| match update {
            SessionUpdate::AgentThoughtChunk(chunk) => chunk_text(chunk).map(str::to_owned),
            _ => None,
        };
        self.updates.iter().filter_map(thought).collect()
    }
}

/// Returns all text that a call shows.
#[must_use]
pub fn call_text(call: &ToolCall) -> String {
    call.content.iter().filter_map(content_text).collect()
}

/// Returns the changes of files that a call shows.
pub fn shown_diffs(call: &ToolCall) -> impl Iterator<Item = &Diff> {
    call.content.iter().filter_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff),
        _ => None,
    })
}

/// Returns the progress that a call shows in its `_meta`, under any key:
/// `{"progress": {"current": …}}`.
#[must_use]
pub fn progress_in_meta(call: &ToolCall) -> Option<f64> {
    let mut parts = call.meta.iter().flat_map(|meta| meta.values());
    parts.find_map(|part| part["progress"]["current"].as_f64())
}

/// Returns the text of a content item, or `None` if the item is not text.
#[must_use]
pub fn content_text(content: &ToolCallContent) -> Option<&str> {
    match content {
        ToolCallContent::Content(content) => block_text(&content.content),
        _ => None,
    }
}

/// Returns the id of the terminal that a call shows, if any.
#[must_use]
pub fn shown_terminal_id(call: &ToolCall) -> Option<String> {
    call.content.iter().find_map(|content| match content {
        ToolCallContent::Terminal(terminal) => Some(terminal.terminal_id.to_string()),
        _ => None,
    })
}

fn chunk_text(chunk: &ContentChunk) -> Option<&str> {
    block_text(&chunk.content)
}

fn block_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}
