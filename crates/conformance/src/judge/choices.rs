//! The most recently reported modes and options of a session.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::bounded_map::truncate_key;
use super::calls::array_objects;
use super::{ConformanceRule, LineViolations, value_excerpt};
use crate::limits::MAX_JUDGED_CHOICES;

/// The offered ids, or `None` if their number exceeds the limit of the judge.
type OfferedIds = Option<HashSet<String>>;

/// The modes and options of a session.
#[derive(Debug, Default)]
pub(super) struct SessionChoices {
    modes: OfferedIds,
    /// The options that have a list of values, by id.
    options: Option<HashMap<String, OfferedIds>>,
}

impl SessionChoices {
    /// Updates the modes and options from a result or an update, which always contains complete
    /// lists.
    pub(super) fn update_offered(&mut self, source: &Value, faults: &mut LineViolations) {
        if let Some(modes) = source.get("modes").filter(|modes| modes.is_object()) {
            self.modes = collect_offered_ids(array_objects(&modes["availableModes"]), "id");
            self.check_mode(&modes["currentModeId"], faults);
        }
        let Some(options) = source.get("configOptions").filter(|options| options.is_array()) else {
            return;
        };
        let lists = || array_objects(options).filter(|option| option["type"] == "select");
        let mut all = HashMap::new();
        for option in lists().take(MAX_JUDGED_CHOICES) {
            let id = truncate_key(option["id"].as_str().unwrap_or_default()).to_owned();
            if all.insert(id, collect_offered_ids(option_values(option), "value")).is_some() {
                faults.report_violation(
                    ConformanceRule::NotOffered,
                    format!("two options {}", value_excerpt(&option["id"])),
                );
            }
        }
        self.options = Some(all).filter(|all| all.len() < MAX_JUDGED_CHOICES);
        for option in lists() {
            self.check_option_value(&option["id"], &option["currentValue"], faults);
        }
    }

    /// Judges a mode that the client sets or the agent reports.
    pub(super) fn check_mode(&self, mode: &Value, faults: &mut LineViolations) {
        if !is_offered(&self.modes, mode) {
            faults.report_violation(
                ConformanceRule::NotOffered,
                format!("the mode {}", value_excerpt(mode)),
            );
        }
    }

    /// Judges the parameters of a `session/set_config_option`.
    pub(super) fn check_set_config_option(&self, params: &Value, faults: &mut LineViolations) {
        if params["value"].is_string() {
            self.check_option_value(&params["configId"], &params["value"], faults);
        }
    }

    fn check_option_value(&self, option: &Value, value: &Value, faults: &mut LineViolations) {
        let Some(options) = &self.options else { return };
        match options.get(truncate_key(option.as_str().unwrap_or_default())) {
            None => faults.report_violation(
                ConformanceRule::NotOffered,
                format!("the option {}", value_excerpt(option)),
            ),
            Some(values) if is_offered(values, value) => {}
            Some(_) => {
                let text =
                    format!("the value {} of {}", value_excerpt(value), value_excerpt(option));
                faults.report_violation(ConformanceRule::NotOffered, text);
            }
        }
    }
}

/// Returns the values of an option, which may be in groups.
fn option_values(option: &Value) -> impl Iterator<Item = &Value> {
    array_objects(&option["options"]).flat_map(|item| match item.get("options") {
        Some(group) => array_objects(group).collect::<Vec<_>>(),
        None => vec![item],
    })
}

fn collect_offered_ids<'a>(choices: impl Iterator<Item = &'a Value>, id: &str) -> OfferedIds {
    let ids = choices.filter_map(|choice| choice[id].as_str());
    let ids: HashSet<_> =
        ids.take(MAX_JUDGED_CHOICES).map(|id| truncate_key(id).to_owned()).collect();
    Some(ids).filter(|ids| ids.len() < MAX_JUDGED_CHOICES)
}

fn is_offered(offered: &OfferedIds, id: &Value) -> bool {
    let id = id.as_str().map(truncate_key);
    offered.as_ref().is_none_or(|offered| id.is_some_and(|id| offered.contains(id)))
}
