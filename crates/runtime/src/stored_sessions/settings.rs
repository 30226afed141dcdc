//! The part of a stored session beside its records: choices, usage, the number of its turns.

use acp_store::{SessionChange, StoredParts};
use serde::{Deserialize, Serialize};

use crate::options::{ActiveOptions, thought_level_value};
use crate::usage_totals::UsageTotals;

const PART: &str = "settings.1";

/// The choices in a session, and its usage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredSettings {
    /// The id of the mode.
    pub(crate) mode: Option<String>,
    /// The name of the model.
    pub(crate) model: Option<String>,
    /// The value of the option.
    pub(crate) thought_level: Option<String>,
    /// How many turns there were.
    pub(crate) turns: u64,
    pub(crate) usage: UsageTotals,
    /// Whether the client was sent a title.
    pub(crate) is_titled: bool,
}

impl StoredSettings {
    /// Takes over what is chosen.
    pub(crate) fn set_options(&mut self, chosen: &ActiveOptions) {
        self.mode = chosen.mode.map(|mode| mode.id().to_owned());
        self.model = Some(chosen.model.name().to_owned());
        self.thought_level = Some(thought_level_value(chosen.effort).to_owned());
    }

    /// Reads them; the defaults if there are none that can be read.
    pub(super) fn read(parts: &StoredParts) -> Self {
        let part = parts.parts.get(PART).and_then(|json| serde_json::from_str(json).ok());
        part.unwrap_or_default()
    }

    pub(super) fn to_change(&self) -> SessionChange {
        SessionChange::Part { name: PART.to_owned(), json: serde_json::to_string(self).ok() }
    }
}
