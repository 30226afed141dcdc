//! The judge: every broken rule of order, shape and schema in what an agent and its client said,
//! with its line.

use std::fmt;

use callboard_text::visible;
use serde_json::Value;

mod bounded_map;
mod calls;
mod capabilities;
mod choices;
mod methods;
mod requests;
mod rule;
mod schema;
mod session;
#[cfg(test)]
mod tests;
mod transcript;

pub use rule::{ConformanceRule, Severity};
pub use transcript::TranscriptJudge;

use crate::limits::MAX_VIOLATION_EXCERPT_CHARS;

/// Who said a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The editor, or whatever else drives the agent.
    Client,
    /// The agent.
    Agent,
}

impl Side {
    /// Returns the side that hears what this one says.
    fn opposite(self) -> Self {
        match self {
            Self::Client => Self::Agent,
            Self::Agent => Self::Client,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Client => "client",
            Self::Agent => "agent",
        })
    }
}

/// A broken rule: where, whose fault it is, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleViolation {
    /// The number of the line, from 1; of the last one for what is missing at the end.
    pub line: u64,
    /// The rule. Its name is stable.
    pub rule: ConformanceRule,
    /// Who broke it. A line of an unknown side that is no message counts as the agent's.
    pub side: Side,
    /// The tool call that it is about, if it is about one.
    pub tool_call_id: Option<String>,
    /// What is wrong, on one line that is safe to show.
    pub text: String,
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, rule, side, tool_call_id, text } = self;
        write!(formatter, "{line}: {rule}: {side}: ")?;
        if let Some(id) = tool_call_id {
            write!(formatter, "call {id}: ")?;
        }
        formatter.write_str(text)
    }
}

/// The faults of the line that is judged.
#[derive(Debug)]
struct ViolationLog {
    line: u64,
    side: Side,
    violations: Vec<RuleViolation>,
}

impl ViolationLog {
    fn add(&mut self, rule: ConformanceRule, text: impl Into<String>) {
        self.push(rule, None, text.into());
    }

    fn add_to_call(&mut self, rule: ConformanceRule, id: &str, text: impl Into<String>) {
        self.push(rule, Some(escaped_excerpt(id)), text.into());
    }

    fn push(&mut self, rule: ConformanceRule, tool_call_id: Option<String>, text: String) {
        let Self { line, side, .. } = *self;
        self.violations.push(RuleViolation { line, rule, side, tool_call_id, text });
    }
}

/// A text of the peer, short and safe to show.
fn escaped_excerpt(text: &str) -> String {
    let mut shown = visible(text);
    if let Some((at, _)) = shown.char_indices().nth(MAX_VIOLATION_EXCERPT_CHARS) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}

/// A value of the peer, short and safe to show.
fn value_excerpt(value: &Value) -> String {
    escaped_excerpt(&value.to_string())
}
