//! The parts of a session's state that are not messages, calls or plans: commands, modes, options,
//! title, usage, compactions.

use serde::{Deserialize, Serialize};

/// One part of a session's state. Each variant contains the whole part, except [`SessionInfo`],
/// which may contain only the changed fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionStatePart {
    /// The available slash commands.
    Commands(Vec<AvailableCommand>),
    /// Id of the current mode, one of [`SessionModes`]. Draft v2 has no modes: the mode is an
    /// option.
    Mode(String),
    /// All options with their current values.
    Options(Vec<ConfigOption>),
    /// Title and time of last use.
    Info(SessionInfo),
    /// Context usage and cost.
    Usage(ContextUsage),
    /// A compaction of the context.
    Compaction(Compaction),
}

impl SessionStatePart {
    /// Returns the state after the update `later`.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        match (self, later) {
            (Self::Info(info), Self::Info(later)) => Self::Info(SessionInfo {
                title: later.title.or(info.title),
                updated_at: later.updated_at.or(info.updated_at),
            }),
            (_, later) => later,
        }
    }
}

/// A slash command that a prompt may begin with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AvailableCommand {
    /// Name without the slash.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Hint for people about the text after the name; `None` if the command takes no such text.
    pub hint: Option<String>,
}

impl AvailableCommand {
    /// Creates a command without text after its name.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), hint: None }
    }

    /// Sets the hint about the text after the name.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The modes of a session, and the current mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionModes {
    /// Id of the current mode.
    pub current: String,
    /// All available modes.
    pub available: Vec<SessionMode>,
}

impl SessionModes {
    /// Creates the modes of a session.
    #[must_use]
    pub fn new(current: impl Into<String>, available: Vec<SessionMode>) -> Self {
        Self { current: current.into(), available }
    }
}

/// A mode of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionMode {
    /// Id that the client sends to select the mode.
    pub id: String,
    /// Label shown to people.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
}

impl SessionMode {
    /// Creates a mode.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), description: None }
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }
}

/// A session option with several possible values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConfigOption {
    /// Id that the client sends to change the option.
    pub id: String,
    /// Label shown to people.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
    /// Category of the option. Some clients have a dedicated control for some categories.
    pub category: Option<ConfigCategory>,
    /// Current value.
    pub current: String,
    /// Possible values.
    pub values: Vec<ConfigValue>,
}

impl ConfigOption {
    /// Creates an option without a category.
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        current: impl Into<String>,
        values: Vec<ConfigValue>,
    ) -> Self {
        let (description, category) = (None, None);
        Self {
            id: id.into(),
            name: name.into(),
            description,
            category,
            current: current.into(),
            values,
        }
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// Sets the category.
    #[must_use]
    pub fn with_category(self, category: ConfigCategory) -> Self {
        Self { category: Some(category), ..self }
    }
}

/// The purpose of an option. Clients recognise these purposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConfigCategory {
    /// The mode.
    Mode,
    /// The model.
    Model,
    /// The amount of reasoning.
    ThoughtLevel,
}

/// A value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConfigValue {
    /// Id that the client sends to select the value.
    pub value: String,
    /// Label shown to people.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
}

impl ConfigValue {
    /// Creates a value.
    #[must_use]
    pub fn new(value: impl Into<String>, name: impl Into<String>) -> Self {
        Self { value: value.into(), name: name.into(), description: None }
    }

    /// Sets the description, if the label is not sufficient.
    #[must_use]
    pub fn with_description(self, description: impl Into<Option<String>>) -> Self {
        Self { description: description.into(), ..self }
    }
}

/// Title and time of last use of a session. If a field is `None`, the client keeps the value that
/// was sent before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Title by which people recognise the session.
    pub title: Option<String>,
    /// Time of last use, in ISO 8601.
    pub updated_at: Option<String>,
}

impl SessionInfo {
    /// Creates session information that changes no field.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the title.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// Sets the time of last use, in ISO 8601.
    #[must_use]
    pub fn with_updated_at(self, updated_at: impl Into<String>) -> Self {
        Self { updated_at: Some(updated_at.into()), ..self }
    }
}

/// Usage of a session's context window, and the cost of the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContextUsage {
    /// Number of tokens in the context.
    pub used: u64,
    /// Size of the context window in tokens.
    pub size: u64,
    /// Cost of the session so far, if it is known.
    pub cost: Option<Cost>,
}

impl ContextUsage {
    /// Creates a usage without a cost.
    #[must_use]
    pub fn new(used: u64, size: u64) -> Self {
        Self { used, size, cost: None }
    }

    /// Sets the cost of the session so far.
    #[must_use]
    pub fn with_cost(self, cost: Cost) -> Self {
        Self { cost: Some(cost), ..self }
    }
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cost {
    /// Amount in the main unit of the currency, e.g. in dollars and not in cents.
    pub amount: f64,
    /// Currency code of ISO 4217, such as `USD`.
    pub currency: String,
}

impl Cost {
    /// Creates an amount.
    #[must_use]
    pub fn new(amount: f64, currency: impl Into<String>) -> Self {
        Self { amount, currency: currency.into() }
    }
}

/// A compaction of a session's context: older parts are omitted or summarised.
///
/// All updates of one compaction have the same id, and each update contains the whole state of the
/// compaction. The numbers of tokens are sent in `_meta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compaction {
    /// Id of the compaction, unique in the session.
    pub id: String,
    /// Status of the compaction.
    pub status: CompactionStatus,
    /// A sentence for people, followed by the text that replaces the omitted parts.
    pub summary: Vec<String>,
    /// Error message.
    pub error: Option<String>,
    /// Number of tokens in the context before the compaction.
    pub tokens_before: Option<u64>,
    /// Number of tokens in the context after the compaction; `None` while the compaction runs.
    pub tokens_after: Option<u64>,
    /// Size of the context window in tokens.
    pub context_tokens: Option<u64>,
}

impl Compaction {
    /// Creates a compaction without numbers of tokens.
    #[must_use]
    pub fn new(id: impl Into<String>, status: CompactionStatus, summary: Vec<String>) -> Self {
        Self {
            id: id.into(),
            status,
            summary,
            error: None,
            tokens_before: None,
            tokens_after: None,
            context_tokens: None,
        }
    }
}

/// The status of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionStatus {
    /// The compaction is running.
    InProgress,
    /// The compaction freed space in the context.
    Completed,
    /// The compaction freed no space.
    Failed,
    /// The compaction was cancelled, and the context is unchanged.
    Cancelled,
}
