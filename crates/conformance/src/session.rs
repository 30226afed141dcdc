//! What a client holds of one session.

use acp_types::observe::v1::V1Observer;
use acp_types::schema::v1::{
    ContentBlock, ContentChunk, SessionConfigKind, SessionConfigOption, SessionModeId,
    SessionModeState, SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus,
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::limits::MAX_KEPT_ITEMS;

/// Everything that was told about one session.
#[derive(Debug, Default)]
pub struct ObservedSession {
    /// All updates, in order; after 100,000, what they come to is kept and they are not.
    pub updates: Vec<SessionUpdate>,
    /// What they come to.
    pub observer: V1Observer,
    /// The ids of prompts that are not answered, in order.
    pub prompts: Vec<Value>,
    /// The modes, as they were told last, if there are any.
    pub modes: Option<SessionModeState>,
    /// The options, as they were told last.
    pub options: Vec<SessionConfigOption>,
    /// Whether it was closed.
    pub is_closed: bool,
}

impl ObservedSession {
    pub(crate) fn apply_update(&mut self, update: SessionUpdate) {
        self.observer.update(&update);
        match &update {
            SessionUpdate::CurrentModeUpdate(update) => self.set_mode(&update.current_mode_id),
            SessionUpdate::ConfigOptionUpdate(update) => {
                self.options.clone_from(&update.config_options);
            }
            _ => {}
        }
        if self.updates.len() < MAX_KEPT_ITEMS {
            self.updates.push(update);
        }
    }

    /// Takes in what is chosen now, as the answer to `session/new` or to a change tells it.
    pub(crate) fn apply_choices(&mut self, result: &Value) {
        if let Ok(modes) = SessionModeState::deserialize(&result["modes"]) {
            self.modes = Some(modes);
        }
        if let Ok(options) = Vec::deserialize(&result["configOptions"]) {
            self.options = options;
        }
    }

    pub(crate) fn set_mode(&mut self, mode: &SessionModeId) {
        if let Some(modes) = &mut self.modes {
            modes.current_mode_id = mode.clone();
        }
    }

    /// Returns the id of the current mode, if there are modes.
    #[must_use]
    pub fn current_mode(&self) -> Option<&str> {
        Some(&self.modes.as_ref()?.current_mode_id.0)
    }

    /// Returns the current value of an option that is chosen from a list, if there is such a one.
    #[must_use]
    pub fn option_value(&self, id: &str) -> Option<&str> {
        let option = self.options.iter().find(|option| &*option.id.0 == id)?;
        match &option.kind {
            SessionConfigKind::Select(select) => Some(&select.current_value.0),
            _ => None,
        }
    }

    /// Takes the answer to a prompt in. Only the one of the first ends a turn.
    pub(crate) fn finish_prompt(&mut self, prompt: &Value) {
        let Some(at) = self.prompts.iter().position(|waiting| waiting == prompt) else { return };
        self.prompts.remove(at);
        if at == 0 {
            self.observer.end_turn();
        }
    }

    /// Returns all calls, in the order of their announcement.
    #[must_use]
    pub fn calls(&self) -> Vec<&ToolCall> {
        self.observer.tool_calls().collect()
    }

    /// Returns the only call of a tool; none if there are several.
    #[must_use]
    pub fn call_of_tool(&self, name: &str) -> Option<&ToolCall> {
        let is_named = |call: &&ToolCall| call.name.as_deref() == Some(name);
        let mut calls = self.observer.tool_calls().filter(is_named);
        let call = calls.next();
        call.filter(|_| calls.next().is_none())
    }

    /// Returns whether a call shows this line, as text or in its terminal.
    #[must_use]
    pub fn shows_line(&self, line: &str) -> bool {
        let in_terminal = |call: &ToolCall| {
            let terminal = self.observer.terminal(&shown_terminal_id(call)?)?;
            Some(terminal.output.lines().any(|shown| shown == line))
        };
        self.observer.tool_calls().any(|call| {
            call_text(call).lines().any(|shown| shown == line) || in_terminal(call) == Some(true)
        })
    }

    /// Returns the statuses that a call was reported with, repeated ones once.
    #[must_use]
    pub fn statuses(&self, call: &ToolCall) -> Vec<ToolCallStatus> {
        let status = |update: &SessionUpdate| match update {
            SessionUpdate::ToolCall(told) if told.tool_call_id == call.tool_call_id => {
                Some(told.status)
            }
            SessionUpdate::ToolCallUpdate(told) if told.tool_call_id == call.tool_call_id => {
                told.fields.status
            }
            _ => None,
        };
        let mut statuses: Vec<_> = self.updates.iter().filter_map(status).collect();
        statuses.dedup();
        statuses
    }

    /// Returns what the agent said.
    #[must_use]
    pub fn message_text(&self) -> String {
        let said = |update: &SessionUpdate| match update {
            SessionUpdate::AgentMessageChunk(chunk) => chunk_text(chunk).map(str::to_owned),
            _ => None,
        };
        self.updates.iter().filter_map(said).collect()
    }

    /// Returns what the agent thought.
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

/// Returns the text that an item of content is, if it is one.
#[must_use]
pub fn content_text(content: &ToolCallContent) -> Option<&str> {
    match content {
        ToolCallContent::Content(content) => block_text(&content.content),
        _ => None,
    }
}

/// Returns the id of the terminal that a call shows, if it shows one.
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
