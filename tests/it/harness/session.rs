//! What a client holds of one session.

use acp_types::observe::v1::Observer;
use acp_types::schema::v1::{
    ContentBlock, ContentChunk, Diff, SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus,
};
use serde_json::Value;

use super::Answer;

/// Everything that was told about one session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// All updates, in order.
    pub(crate) updates: Vec<SessionUpdate>,
    /// What they come to.
    pub(crate) observer: Observer,
    /// The ids of prompts that are not answered, in order.
    pub(crate) prompts: Vec<Value>,
    /// Whether it was closed.
    pub(crate) is_closed: bool,
}

impl Session {
    /// Takes an update in.
    ///
    /// # Panics
    /// If it comes after the answer of its turn (CANCEL-002) or of `session/close`.
    pub(crate) fn update(&mut self, update: SessionUpdate) {
        let is_of_turn = !matches!(
            update,
            SessionUpdate::AvailableCommandsUpdate(_)
                | SessionUpdate::ConfigOptionUpdate(_)
                | SessionUpdate::CurrentModeUpdate(_)
                | SessionUpdate::SessionInfoUpdate(_)
        );
        assert!(!self.is_closed, "an update of a closed session: {update:?}");
        let is_in_turn = !self.prompts.is_empty();
        assert!(is_in_turn || !is_of_turn, "an update outside of a turn: {update:?}");
        self.observer.update(&update);
        self.updates.push(update);
    }

    /// Takes the answer to a prompt in. Only one that was refused may overtake.
    ///
    /// # Panics
    /// If the turns before it are not answered.
    pub(crate) fn answered(&mut self, prompt: &Value, answer: &Answer) {
        let at = self.prompts.iter().position(|waiting| waiting == prompt);
        self.prompts.remove(at.expect("it was noted"));
        match at {
            Some(0) => self.observer.turn_answered(),
            _ => assert!(answer.is_err(), "prompts are answered in order"),
        }
    }

    /// All calls, in the order of their announcement.
    pub(crate) fn calls(&self) -> Vec<&ToolCall> {
        self.observer.tool_calls().collect()
    }

    /// The only call of a tool.
    ///
    /// # Panics
    /// If there is none, or another one.
    pub(crate) fn call(&self, name: &str) -> &ToolCall {
        let is_named = |call: &&ToolCall| call.name.as_deref() == Some(name);
        let mut calls = self.observer.tool_calls().filter(is_named);
        let call = calls.next().unwrap_or_else(|| panic!("no call of {name}"));
        assert!(calls.next().is_none(), "another call of {name}");
        call
    }

    /// Whether a call shows this line, as text or in its terminal.
    pub(crate) fn shows(&self, line: &str) -> bool {
        let in_terminal = |call: &ToolCall| {
            let terminal = self.observer.terminal(&terminal_id(call)?)?;
            Some(terminal.output.lines().any(|shown| shown == line))
        };
        self.observer.tool_calls().any(|call| {
            shown(call).lines().any(|shown| shown == line) || in_terminal(call) == Some(true)
        })
    }

    /// The statuses that a call was reported with, repeated ones once.
    pub(crate) fn statuses(&self, call: &ToolCall) -> Vec<ToolCallStatus> {
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

    /// What the agent said.
    pub(crate) fn said(&self) -> String {
        let said = |update: &SessionUpdate| match update {
            SessionUpdate::AgentMessageChunk(chunk) => Some(chunk_text(chunk).to_owned()),
            _ => None,
        };
        self.updates.iter().filter_map(said).collect()
    }

    /// What the agent thought.
    pub(crate) fn thought(&self) -> String {
        let thought = |update: &SessionUpdate| match update {
            SessionUpdate::AgentThoughtChunk(chunk) => Some(chunk_text(chunk).to_owned()),
            _ => None,
        };
        self.updates.iter().filter_map(thought).collect()
    }
}

/// All text that a call shows.
pub(crate) fn shown(call: &ToolCall) -> String {
    call.content.iter().filter_map(text_of).collect()
}

/// The text that an item of content is, if it is one.
pub(crate) fn text_of(content: &ToolCallContent) -> Option<&str> {
    match content {
        ToolCallContent::Content(content) => Some(block_text(&content.content)),
        _ => None,
    }
}

/// The id of the terminal that a call shows, if it shows one.
pub(crate) fn terminal_id(call: &ToolCall) -> Option<String> {
    call.content.iter().find_map(|content| match content {
        ToolCallContent::Terminal(terminal) => Some(terminal.terminal_id.to_string()),
        _ => None,
    })
}

/// The change that a call shows.
pub(crate) fn diff(content: &[ToolCallContent]) -> &Diff {
    let diff = content.iter().find_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff),
        _ => None,
    });
    diff.expect("the change itself")
}

/// What a call tells beside the protocol's own fields.
pub(crate) fn meta(call: &ToolCall) -> &Value {
    &call.meta.as_ref().expect("metadata")["callboard"]
}

fn chunk_text(chunk: &ContentChunk) -> &str {
    block_text(&chunk.content)
}

fn block_text(block: &ContentBlock) -> &str {
    match block {
        ContentBlock::Text(text) => &text.text,
        other => panic!("{other:?} is no text"),
    }
}
