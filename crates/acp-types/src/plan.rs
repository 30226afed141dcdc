//! The plan of a session: what the agent means to do. Always sent whole, an empty one too.

use serde::{Deserialize, Serialize};

/// The whole plan.
///
/// Each update replaces the one before
/// (<https://agentclientprotocol.com/protocol/v1/agent-plan>), so an empty plan is sent too: it
/// is how a plan goes away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its steps, in order.
    pub entries: Vec<PlanEntry>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// The model's own id of it. No protocol has a place for it yet; it goes into `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What is to be done.
    pub content: String,
    /// How much it matters.
    #[serde(default)]
    pub priority: PlanPriority,
    /// How far it is.
    #[serde(default)]
    pub status: PlanStatus,
}

/// How much a step matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanPriority {
    /// The plan fails without it.
    High,
    /// As any other.
    #[default]
    Medium,
    /// It can be left out.
    Low,
}

/// How far a step is; the set of draft v2. In v1 a cancelled step is completed and says so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
    /// Given up.
    Cancelled,
}
