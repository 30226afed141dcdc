//! The uses of a tool in addition to the calls of the model: a role for the agent, and a usage
//! hint.

use std::borrow::Cow;

/// A purpose for which an agent itself calls a tool, in addition to the calls of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolRole {
    /// Undoes the last change of files. The tool needs no arguments.
    Undo,
    /// Shows how a background command has ended. The tool needs the `id` of the command.
    CommandEnd,
    /// Sets the plan of the session. The tool needs `todos`, each with `content` and `status`.
    Plan,
}

/// A usage hint for a tool, which is one line in the instructions of a model.
///
/// ```
/// let hint = acp_tools::ToolHint::new("- Ask `weather` before you plan a walk.");
/// // Omitted if the session has no `calendar`.
/// let hint = hint.with_tools(&["calendar"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolHint {
    /// The line of text, which is an item of a Markdown list.
    pub text: Cow<'static, str>,
    /// The other tools that the hint names.
    pub tools: &'static [&'static str],
}

impl ToolHint {
    /// Creates a hint that names no other tool.
    #[must_use]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), tools: &[] }
    }

    /// Sets the other tools that the hint names.
    #[must_use]
    pub fn with_tools(self, tools: &'static [&'static str]) -> Self {
        Self { tools, ..self }
    }
}
