//! The plan of a session: the steps that the agent intends to do.

use serde::{Deserialize, Serialize};

/// The whole plan.
///
/// Each update replaces the previous plan
/// (<https://agentclientprotocol.com/protocol/v1/agent-plan>). An empty plan is sent too, because
/// an empty plan removes the previous plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The steps, in order.
    pub entries: Vec<PlanEntry>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanEntry {
    /// Id assigned by the model. No protocol version has a field for this id yet, so it is sent in
    /// `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Description of the step.
    pub content: String,
    /// Importance of the step.
    #[serde(default)]
    pub priority: PlanPriority,
    /// Status of the step.
    #[serde(default)]
    pub status: PlanStatus,
}

impl Plan {
    /// Creates a plan.
    #[must_use]
    pub fn new(entries: Vec<PlanEntry>) -> Self {
        Self { entries }
    }
}

impl PlanEntry {
    /// Creates a step without an id.
    #[must_use]
    pub fn new(content: impl Into<String>, priority: PlanPriority, status: PlanStatus) -> Self {
        Self { id: None, content: content.into(), priority, status }
    }

    /// Sets the id that the model assigned, if any.
    #[must_use]
    pub fn with_id(self, id: impl Into<Option<String>>) -> Self {
        Self { id: id.into(), ..self }
    }
}

/// The importance of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanPriority {
    /// The plan fails without this step.
    High,
    /// Normal importance.
    #[default]
    Medium,
    /// The step can be omitted.
    Low,
}

/// The status of a step. The variants are those of draft v2. In v1 a cancelled step is sent as
/// completed, with a note in its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanStatus {
    /// Not started.
    #[default]
    Pending,
    /// In progress.
    InProgress,
    /// Done.
    Completed,
    /// The agent gave up the step.
    Cancelled,
}
