//! The part of a stored session that is not in its records: the selected options, the usage, and
//! the number of turns.

use acp_lifecycle::ToolUsage;
use acp_store::{SessionChange, StoredParts};
use serde::{Deserialize, Serialize};

use crate::options::{ActiveOptions, thought_level_value};
use crate::usage_totals::UsageTotals;

const PART: &str = "settings.1";

/// The selected options of a session, and its usage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredSettings {
    /// Id of the mode.
    pub(crate) mode: Option<String>,
    /// Name of the model.
    pub(crate) model: Option<String>,
    /// Value of the thought level option.
    pub(crate) thought_level: Option<String>,
    /// Number of turns so far.
    pub(crate) turns: u64,
    pub(crate) usage: UsageTotals,
    /// For each tool, the ended calls of the session.
    pub(crate) calls: Vec<(String, ToolUsage)>,
    /// Whether the client received a title for the session.
    pub(crate) is_titled: bool,
}

impl StoredSettings {
    /// Copies the selected options.
    pub(crate) fn set_options(&mut self, chosen: &ActiveOptions) {
        self.mode = chosen.mode.map(|mode| mode.id().to_owned());
        self.model = Some(chosen.model.name().to_owned());
        self.thought_level = Some(thought_level_value(chosen.effort).to_owned());
    }

    /// Reads the stored settings; returns the defaults if no settings are stored, or if they cannot
    /// be parsed.
    pub(crate) fn read(parts: &StoredParts) -> Self {
        let part = parts.parts.get(PART).and_then(|json| serde_json::from_str(json).ok());
        part.unwrap_or_default()
    }

    pub(super) fn to_store_change(&self) -> SessionChange {
        SessionChange::Part { name: PART.to_owned(), json: serde_json::to_string(self).ok() }
    }
}
