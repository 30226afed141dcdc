//! The options of a session: their available values, and the selected values.

use std::sync::Arc;

use acp_types::{ConfigCategory, ConfigOption, ConfigValue, SessionMode, SessionModes};
use callboard_models::{Effort, Model, ModelCapabilities};
use callboard_text::escape_invisible;

use crate::command_sandbox::{SANDBOX_OPTION_ID, ShownSandbox};
use crate::limits::{MAX_CATALOGUE_CHOICES, MAX_USED_MODEL_CHOICES};
use crate::model_catalogue::{ModelCatalogue, ModelChoice};
use crate::permission_mode::PermissionMode;

/// The ids of the session options.
pub(crate) const MODEL_OPTION_ID: &str = "model";
const MODE_OPTION_ID: &str = "mode";
const THOUGHT_LEVEL_OPTION_ID: &str = "thought_level";

/// The thought levels. Each has a value, a description, and the effort in requests to the model.
pub(crate) const THOUGHT_LEVELS: [(&str, &str, Option<Effort>); 5] = [
    ("default", "The model's default", None),
    ("off", "Not at all", Some(Effort::Off)),
    ("low", "A little", Some(Effort::Low)),
    ("medium", "As most work needs", Some(Effort::Medium)),
    ("high", "As much as it can", Some(Effort::High)),
];

/// The selected options for a request to a model.
#[derive(Debug, Clone)]
pub(crate) struct ActiveOptions {
    pub(crate) model: Arc<dyn Model>,
    /// Capabilities of the model. The capabilities are stored here, because a model may need time
    /// to look them up.
    pub(crate) capabilities: ModelCapabilities,
    /// Number of earlier changes of the model. The number distinguishes two uses of the same model.
    pub(crate) model_generation: u64,
    /// The effort of the selected thought level. `None` if the model has no thought levels.
    pub(crate) effort: Option<Effort>,
    /// The permission mode. `None` if the agent's embedder has set a policy.
    pub(crate) mode: Option<PermissionMode>,
}

#[cfg(test)]
impl ActiveOptions {
    /// Creates the options for a model, with default values of the other options.
    pub(crate) fn defaults_for_model(model: Arc<dyn Model>) -> Self {
        let capabilities = model.capabilities();
        Self { model, capabilities, model_generation: 0, effort: None, mode: None }
    }
}

/// A change of one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OptionChange {
    Model(String),
    Mode(PermissionMode),
    Effort(Option<Effort>),
    /// The option has this value already.
    None,
}

/// The available values and the selected values of all options.
#[derive(Debug)]
pub(crate) struct OptionSelection {
    catalogue: Arc<dyn ModelCatalogue>,
    model: Arc<dyn Model>,
    model_generation: u64,
    effort: Option<Effort>,
    mode: Option<PermissionMode>,
    sandbox: ShownSandbox,
    /// Names of the models that the session has used. The newest is at the end.
    used_models: Vec<String>,
}

impl OptionSelection {
    /// Creates a selection with a model and a mode. `mode` is `None` if the agent has no modes. The
    /// value of `sandbox` is final: no later change of an option affects it.
    pub(crate) fn new(
        catalogue: Arc<dyn ModelCatalogue>,
        model: Arc<dyn Model>,
        mode: Option<PermissionMode>,
        sandbox: ShownSandbox,
    ) -> Self {
        let used_models = vec![model.name().to_owned()];
        Self { catalogue, model, model_generation: 0, effort: None, mode, sandbox, used_models }
    }

    pub(crate) fn shown_sandbox(&self) -> ShownSandbox {
        self.sandbox
    }

    pub(crate) fn catalogue(&self) -> &Arc<dyn ModelCatalogue> {
        &self.catalogue
    }

    pub(crate) fn active_options(&self) -> ActiveOptions {
        let Self { model, model_generation: taken_up, effort, mode, .. } = self;
        let traits = model.capabilities();
        let effort = effort.filter(|_| traits.efforts);
        ActiveOptions {
            model: model.clone(),
            capabilities: traits,
            model_generation: *taken_up,
            effort,
            mode: *mode,
        }
    }

    /// Selects another model, and records its name.
    pub(crate) fn set_model(&mut self, model: Arc<dyn Model>) {
        let name = model.name().to_owned();
        self.used_models.retain(|other| *other != name);
        self.used_models.push(name);
        if self.used_models.len() > MAX_USED_MODEL_CHOICES {
            self.used_models.remove(0);
        }
        self.model = model;
        self.model_generation += 1;
    }

    pub(crate) fn set_mode(&mut self, mode: PermissionMode) {
        self.mode = Some(mode);
    }

    /// Sets the effort. The effort is kept even if the current model has no thought levels.
    pub(crate) fn set_effort(&mut self, effort: Option<Effort>) {
        self.effort = effort;
    }

    /// Returns the models that the user can choose: the models of the catalogue, and the models
    /// that the session has used.
    pub(crate) fn model_choices(&self) -> Vec<ModelChoice> {
        let mut choices = self.catalogue.list();
        choices.truncate(MAX_CATALOGUE_CHOICES);
        // The selected model may be a placeholder. Its name changes when the real model has been
        // found.
        let current = self.model.name();
        for name in self.used_models.iter().map(String::as_str).chain([current]) {
            if choices.iter().all(|choice| choice.value != *name) {
                let choice = ModelChoice {
                    value: name.to_owned(),
                    name: escape_invisible(name),
                    description: None,
                };
                choices.push(choice);
            }
        }
        choices
    }

    /// Returns the modes as session modes, for clients that do not support session options.
    pub(crate) fn session_modes(&self) -> Option<SessionModes> {
        let mode = |mode: &PermissionMode| {
            SessionMode::new(mode.id(), mode.name())
                .with_description(as_sentence(mode.description()))
        };
        let modes = PermissionMode::all().iter().map(mode).collect();
        Some(SessionModes::new(self.mode?.id(), modes))
    }

    /// Returns all options, each with its available values and with the value that is selected in
    /// `chosen`.
    pub(crate) fn config_options(&self, chosen: &ActiveOptions) -> Vec<ConfigOption> {
        let ActiveOptions { model, capabilities: traits, effort, mode, .. } = chosen;
        let models = self.model_choices().into_iter().map(|choice| {
            let ModelChoice { value, name, description } = choice;
            ConfigValue::new(value, name).with_description(description)
        });
        let model = ConfigOption::new(MODEL_OPTION_ID, "Model", model.name(), models.collect());
        let mut options = vec![model.with_category(ConfigCategory::Model)];
        if let Some(mode) = mode {
            let modes = PermissionMode::all().iter().map(|mode| {
                ConfigValue::new(mode.id(), mode.name())
                    .with_description(as_sentence(mode.description()))
            });
            let option = ConfigOption::new(MODE_OPTION_ID, "Mode", mode.id(), modes.collect())
                .with_description("What runs without asking")
                .with_category(ConfigCategory::Mode);
            options.push(option);
        }
        if traits.efforts {
            let levels = THOUGHT_LEVELS.iter().map(|(value, description, _)| {
                ConfigValue::new(*value, capitalize(value))
                    .with_description((*description).to_owned())
            });
            let levels = levels.collect();
            let option = ConfigOption::new(
                THOUGHT_LEVEL_OPTION_ID,
                "Thinking",
                thought_level_value(*effort),
                levels,
            )
            .with_description("How much the model thinks before it answers")
            .with_category(ConfigCategory::ThoughtLevel);
            options.push(option);
        }
        options.push(self.sandbox.config_option());
        options
    }

    /// Parses an option and its value, which must be among the values that are offered to clients.
    ///
    /// # Errors
    /// Returns a description of the violation, without the requested value.
    pub(crate) fn parse_change(
        &self,
        option: &str,
        value: &str,
    ) -> Result<OptionChange, &'static str> {
        match option {
            MODEL_OPTION_ID if self.model_choices().iter().any(|choice| choice.value == value) => {
                Ok(OptionChange::Model(value.to_owned()))
            }
            MODEL_OPTION_ID => Err("There is no such model among the option's values"),
            // The option has one value, which is the current one.
            SANDBOX_OPTION_ID if value == self.sandbox.id() => Ok(OptionChange::None),
            SANDBOX_OPTION_ID => Err("The sandbox is chosen when the agent is started"),
            MODE_OPTION_ID => self.parse_mode(value).map(OptionChange::Mode),
            THOUGHT_LEVEL_OPTION_ID if self.model.capabilities().efforts => {
                parse_thought_level(value).map(OptionChange::Effort).ok_or(UNKNOWN_THOUGHT_LEVEL)
            }
            _ => Err("There is no such option in this session"),
        }
    }

    /// Parses the id of a session mode.
    ///
    /// # Errors
    /// Returns a description of the violation, without the requested id.
    pub(crate) fn parse_mode(&self, id: &str) -> Result<PermissionMode, &'static str> {
        if self.mode.is_none() {
            return Err("This session has no modes");
        }
        PermissionMode::parse(id).ok_or(UNKNOWN_MODE)
    }
}

/// Parses the value of a thought level.
pub(crate) fn parse_thought_level(value: &str) -> Option<Option<Effort>> {
    THOUGHT_LEVELS.iter().find(|(name, ..)| *name == value).map(|(.., effort)| *effort)
}

/// Returns the value of the thought level with this effort.
pub(crate) fn thought_level_value(effort: Option<Effort>) -> &'static str {
    THOUGHT_LEVELS
        .iter()
        .find(|(.., other)| *other == effort)
        .map_or("default", |(value, ..)| value)
}

fn as_sentence(phrase: &str) -> String {
    format!("{}.", capitalize(phrase))
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

const UNKNOWN_MODE: &str =
    "there is no such mode; there are read-only, ask-always, ask, accept-edits, auto";
const UNKNOWN_THOUGHT_LEVEL: &str =
    "there is no such level; there are default, off, low, medium, high";
