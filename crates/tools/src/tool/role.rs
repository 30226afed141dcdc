//! Two uses of a tool apart from the calls of the model: a role for the agent, and a usage hint.

use std::borrow::Cow;

/// A purpose for which the agent itself calls a tool. The model may call the same tool too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolRole {
    /// Undoes the last change of files. Such a tool needs no arguments.
    Undo,
    /// Shows how a background command ended. Such a tool needs the `id` of the command.
    CommandEnd,
    /// Sets the plan of the session. Such a tool needs `todos`, each with `content` and `status`.
    Plan,
}

/// A usage hint for a tool, which is one line in the instructions of a model.
///
/// ```
/// let hint = acp_tools::ToolHint::new("- Ask `weather` before you plan a walk.");
/// // Omitted if the session has no `calendar`.
/// let hint = hint.with_mentioned_tools(&["calendar"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolHint {
    /// The text of the hint. The text is one line, and an item of a Markdown list.
    pub text: Cow<'static, str>,
    /// The names of other tools that the hint mentions.
    pub tools: &'static [&'static str],
}

impl ToolHint {
    /// Creates a hint that mentions no other tool.
    #[must_use]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), tools: &[] }
    }

    /// Sets the names of other tools that the hint mentions.
    #[must_use]
    pub fn with_mentioned_tools(self, tools: &'static [&'static str]) -> Self {
        Self { tools, ..self }
    }
}
