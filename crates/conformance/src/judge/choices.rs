//! What can be chosen in a session, as it was told last: modes, and options with their values.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::bounded_map::key;
use super::calls::items;
use super::{Faults, Rule, excerpt};
use crate::limits::MAX_JUDGED_CHOICES;

/// The ids of what is offered; none where there is more than is judged.
type Offered = Option<HashSet<String>>;

/// What can be chosen in a session.
#[derive(Debug, Default)]
pub(super) struct Choices {
    modes: Offered,
    /// The options that have a list of values.
    options: Option<HashMap<String, Offered>>,
}

impl Choices {
    /// Takes in what a result or an update tells of the modes and the options, which it tells
    /// whole.
    pub(super) fn told(&mut self, told: &Value, faults: &mut Faults) {
        if let Some(modes) = told.get("modes").filter(|modes| modes.is_object()) {
            self.modes = offered(items(&modes["availableModes"]), "id");
            self.mode(&modes["currentModeId"], faults);
        }
        let Some(options) = told.get("configOptions").filter(|options| options.is_array()) else {
            return;
        };
        let lists = || items(options).filter(|option| option["type"] == "select");
        let mut all = HashMap::new();
        for option in lists().take(MAX_JUDGED_CHOICES) {
            let id = key(option["id"].as_str().unwrap_or_default()).to_owned();
            if all.insert(id, offered(values(option), "value")).is_some() {
                faults.add(Rule::NotOffered, format!("two options {}", excerpt(&option["id"])));
            }
        }
        self.options = Some(all).filter(|all| all.len() < MAX_JUDGED_CHOICES);
        for option in lists() {
            self.value(&option["id"], &option["currentValue"], faults);
        }
    }

    /// Judges a mode that is set, by whichever side.
    pub(super) fn mode(&self, mode: &Value, faults: &mut Faults) {
        if !is_offered(&self.modes, mode) {
            faults.add(Rule::NotOffered, format!("the mode {}", excerpt(mode)));
        }
    }

    /// Judges the parameters of a `session/set_config_option`.
    pub(super) fn set(&self, params: &Value, faults: &mut Faults) {
        if params["value"].is_string() {
            self.value(&params["configId"], &params["value"], faults);
        }
    }

    fn value(&self, option: &Value, value: &Value, faults: &mut Faults) {
        let Some(options) = &self.options else { return };
        match options.get(key(option.as_str().unwrap_or_default())) {
            None => faults.add(Rule::NotOffered, format!("the option {}", excerpt(option))),
            Some(values) if is_offered(values, value) => {}
            Some(_) => {
                let text = format!("the value {} of {}", excerpt(value), excerpt(option));
                faults.add(Rule::NotOffered, text);
            }
        }
    }
}

/// The values of an option, which may stand in groups.
fn values(option: &Value) -> impl Iterator<Item = &Value> {
    items(&option["options"]).flat_map(|item| match item.get("options") {
        Some(group) => items(group).collect::<Vec<_>>(),
        None => vec![item],
    })
}

fn offered<'a>(choices: impl Iterator<Item = &'a Value>, id: &str) -> Offered {
    let ids = choices.filter_map(|choice| choice[id].as_str());
    let ids: HashSet<_> = ids.take(MAX_JUDGED_CHOICES).map(|id| key(id).to_owned()).collect();
    Some(ids).filter(|ids| ids.len() < MAX_JUDGED_CHOICES)
}

fn is_offered(offered: &Offered, id: &Value) -> bool {
    let id = id.as_str().map(key);
    offered.as_ref().is_none_or(|offered| id.is_some_and(|id| offered.contains(id)))
}
