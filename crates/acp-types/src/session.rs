//! What a client may know of a session beside its messages, calls and plan: commands, modes,
//! options, title, usage, compactions.

use serde::{Deserialize, Serialize};

/// One part of what a client may know of a session, always whole but for [`SessionInfo`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionState {
    /// The slash commands that there are.
    Commands(Vec<AvailableCommand>),
    /// The id of the mode that is chosen, one of [`SessionModes`]. Draft v2 has no modes: there, it is
    /// an option.
    Mode(String),
    /// Every option with what is chosen.
    Options(Vec<ConfigOption>),
    /// What the session is called, and when it was used.
    Info(SessionInfo),
    /// How full the context is, and what the session cost.
    Usage(ContextUsage),
    /// Room that is made in the context.
    Compaction(Compaction),
}

impl SessionState {
    /// Returns what holds after `later`: that, with what it leaves as it was.
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

/// A slash command: what a prompt may begin with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AvailableCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may follow its name, for people; none if nothing does.
    pub hint: Option<String>,
}

impl AvailableCommand {
    /// Makes a command that nothing follows.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), hint: None }
    }

    /// Says what may follow its name.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The modes of a session, and the one that is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionModes {
    /// The id of the one that is chosen.
    pub current: String,
    /// All of them.
    pub available: Vec<SessionMode>,
}

impl SessionModes {
    /// Makes the modes of a session.
    #[must_use]
    pub fn new(current: impl Into<String>, available: Vec<SessionMode>) -> Self {
        Self { current: current.into(), available }
    }
}

/// A mode that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionMode {
    /// What the client sends to choose it.
    pub id: String,
    /// What people read.
    pub name: String,
    /// What it comes to.
    pub description: Option<String>,
}

impl SessionMode {
    /// Makes a mode.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), description: None }
    }

    /// Says what it comes to.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }
}

/// An option of a session that has one of several values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConfigOption {
    /// What the client sends to change it.
    pub id: String,
    /// What people read.
    pub name: String,
    /// What it is about.
    pub description: Option<String>,
    /// By which clients find the options that they have a place for.
    pub category: Option<ConfigCategory>,
    /// The value that is chosen.
    pub current: String,
    /// The values that can be chosen.
    pub values: Vec<ConfigValue>,
}

impl ConfigOption {
    /// Makes an option of no category.
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

    /// Says what it is about.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// Sets its category.
    #[must_use]
    pub fn with_category(self, category: ConfigCategory) -> Self {
        Self { category: Some(category), ..self }
    }
}

/// What an option is for, as clients know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConfigCategory {
    /// The mode.
    Mode,
    /// The model.
    Model,
    /// How much the model thinks.
    ThoughtLevel,
}

/// A value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConfigValue {
    /// What the client sends to choose it.
    pub value: String,
    /// What people read.
    pub name: String,
    /// What it comes to.
    pub description: Option<String>,
}

impl ConfigValue {
    /// Makes a value.
    #[must_use]
    pub fn new(value: impl Into<String>, name: impl Into<String>) -> Self {
        Self { value: value.into(), name: name.into(), description: None }
    }

    /// Says what it comes to, if there is more to say than its name does.
    #[must_use]
    pub fn with_description(self, description: impl Into<Option<String>>) -> Self {
        Self { description: description.into(), ..self }
    }
}

/// What a session is called, and when it was used. A field that is `None` leaves what was sent before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// What people find it by.
    pub title: Option<String>,
    /// When it was last used, as ISO 8601 has it.
    pub updated_at: Option<String>,
}

impl SessionInfo {
    /// Makes one that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what the session is called.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// Sets when it was last used, as ISO 8601 has it.
    #[must_use]
    pub fn with_updated_at(self, updated_at: impl Into<String>) -> Self {
        Self { updated_at: Some(updated_at.into()), ..self }
    }
}

/// How full the context of a session is, and what the session cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContextUsage {
    /// Tokens in the context.
    pub used: u64,
    /// Tokens that the model takes.
    pub size: u64,
    /// What the session cost so far, where that is known.
    pub cost: Option<Cost>,
}

impl ContextUsage {
    /// Makes a usage whose cost is not known.
    #[must_use]
    pub fn new(used: u64, size: u64) -> Self {
        Self { used, size, cost: None }
    }

    /// Sets what the session cost so far.
    #[must_use]
    pub fn with_cost(self, cost: Cost) -> Self {
        Self { cost: Some(cost), ..self }
    }
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cost {
    /// How much, in whole units of the currency.
    pub amount: f64,
    /// By ISO 4217: `USD`.
    pub currency: String,
}

impl Cost {
    /// Makes an amount.
    #[must_use]
    pub fn new(amount: f64, currency: impl Into<String>) -> Self {
        Self { amount, currency: currency.into() }
    }
}

/// Room that is made in the context of a session, by leaving out or summarising what is older.
///
/// Each update about one compaction has its id and is whole. Its sizes go into `_meta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compaction {
    /// Its id, unique in the session.
    pub id: String,
    /// How far it is.
    pub status: CompactionStatus,
    /// What happened, in one sentence for people, and behind it what stands in the place of what was
    /// left out.
    pub summary: Vec<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Tokens in the context before.
    pub tokens_before: Option<u64>,
    /// Tokens in the context after it; none before its end.
    pub tokens_after: Option<u64>,
    /// Tokens that the model takes.
    pub context_tokens: Option<u64>,
}

impl Compaction {
    /// Makes one of which no size is known.
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

/// How far a compaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionStatus {
    /// It is being made.
    InProgress,
    /// There is room.
    Completed,
    /// There is none.
    Failed,
    /// It was given up; the context is as it was.
    Cancelled,
}
