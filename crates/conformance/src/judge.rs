//! The judge: finds every violation of the rules of order, shape and schema in a transcript.

use std::fmt;

use callboard_text::escape_invisible;
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

/// The sender of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The editor, or another program that drives the agent.
    Client,
    /// The agent.
    Agent,
}

impl Side {
    /// Returns the receiver of this side's messages.
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

/// A violation of a rule, with the line number, the side that broke the rule, and an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleViolation {
    /// The number of the line. The first line has the number 1. If a message is missing at the end
    /// of the transcript, this is the number of the last line.
    pub line: u64,
    /// The rule, whose name is stable.
    pub rule: ConformanceRule,
    /// The side that broke the rule. A malformed line of an unknown side counts as a line of the
    /// agent.
    pub side: Side,
    /// The id of the tool call that the violation concerns, if any.
    pub tool_call_id: Option<String>,
    /// Explanation of the violation, on one line that is safe to display.
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

/// The violations of the current line.
#[derive(Debug)]
struct LineViolations {
    line: u64,
    side: Side,
    violations: Vec<RuleViolation>,
}

impl LineViolations {
    fn report_violation(&mut self, rule: ConformanceRule, text: impl Into<String>) {
        self.push_violation(rule, None, text.into());
    }

    fn report_call_violation(&mut self, rule: ConformanceRule, id: &str, text: impl Into<String>) {
        self.push_violation(rule, Some(escaped_excerpt(id)), text.into());
    }

    fn push_violation(
        &mut self,
        rule: ConformanceRule,
        tool_call_id: Option<String>,
        text: String,
    ) {
        let Self { line, side, .. } = *self;
        self.violations.push(RuleViolation { line, rule, side, tool_call_id, text });
    }
}

/// Returns a text from the peer, truncated and safe to display.
fn escaped_excerpt(text: &str) -> String {
    let mut shown = escape_invisible(text);
    if let Some((at, _)) = shown.char_indices().nth(MAX_VIOLATION_EXCERPT_CHARS) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}

/// Returns a value from the peer, truncated and safe to display.
fn value_excerpt(value: &Value) -> String {
    escaped_excerpt(&value.to_string())
}
