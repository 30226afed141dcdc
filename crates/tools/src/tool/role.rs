//! What an agent does with a tool beside the calls of its model: it calls it, and says how it is used
//! well.

use std::borrow::Cow;

/// What an agent calls a tool for by itself, beside the calls of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolRole {
    /// It takes back the last change of files, without arguments.
    Undo,
    /// It shows how a command in the background has ended, by the `id` of the command.
    CommandEnd,
    /// It sets the session's plan: `todos`, each with `content` and `status`.
    Plan,
}

/// A line about how a tool is used well, for the instructions of a model.
///
/// ```
/// let hint = acp_tools::ToolHint::new("- Ask `weather` before you plan a walk.");
/// // Left out where the session has no `calendar`.
/// let hint = hint.with_tools(&["calendar"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolHint {
    /// The line, an item of a Markdown list.
    pub text: Cow<'static, str>,
    /// The other tools that it names.
    pub tools: &'static [&'static str],
}

impl ToolHint {
    /// Makes a line that names no other tool.
    #[must_use]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), tools: &[] }
    }

    /// Sets the other tools that it names.
    #[must_use]
    pub fn with_tools(self, tools: &'static [&'static str]) -> Self {
        Self { tools, ..self }
    }
}
