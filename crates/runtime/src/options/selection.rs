//! What can be chosen in a session, and what is chosen. Nobody is told of it here.

use std::sync::Arc;

use acp_types::{ConfigCategory, ConfigOption, ConfigValue, SessionMode, SessionModes};
use callboard_models::{Effort, Model, Traits};
use callboard_text::visible;

use crate::catalogue::{Catalogue, Choice};
use crate::limits::{MAX_LISTED_CHOICES, MAX_TAKEN_UP};
use crate::mode::Mode;

/// The ids of the options.
pub(crate) const MODEL: &str = "model";
const MODE: &str = "mode";
const THOUGHT_LEVEL: &str = "thought_level";

/// How much a model may be told to think: the value, its name, and what it is in a request.
pub(crate) const LEVELS: [(&str, &str, Option<Effort>); 5] = [
    ("default", "As the model does by itself", None),
    ("off", "Not at all", Some(Effort::Off)),
    ("low", "A little", Some(Effort::Low)),
    ("medium", "As most work needs", Some(Effort::Medium)),
    ("high", "As much as it can", Some(Effort::High)),
];

/// What a request to a model goes by.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) model: Arc<dyn Model>,
    /// What it takes. A model may have to look that up, so it is asked once.
    pub(crate) traits: Traits,
    /// How many models the session took up before this one: tells two times of the same apart.
    pub(crate) taken_up: u64,
    /// None where the model cannot be told.
    pub(crate) effort: Option<Effort>,
    /// None where the agent's embedder has a policy of its own.
    pub(crate) mode: Option<Mode>,
}

#[cfg(test)]
impl Chosen {
    /// A model, and nothing else.
    pub(crate) fn of(model: Arc<dyn Model>) -> Self {
        let traits = model.traits();
        Self { model, traits, taken_up: 0, effort: None, mode: None }
    }
}

/// A change of one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Model(String),
    Mode(Mode),
    Effort(Option<Effort>),
}

/// What can be chosen, and what is.
#[derive(Debug)]
pub(crate) struct Selection {
    catalogue: Arc<dyn Catalogue>,
    model: Arc<dyn Model>,
    taken_up: u64,
    effort: Option<Effort>,
    mode: Option<Mode>,
    /// The names of the models that the session has had, the newest last.
    had: Vec<String>,
}

impl Selection {
    /// Begins with a model, and with a mode unless there are none.
    pub(crate) fn new(
        catalogue: Arc<dyn Catalogue>,
        model: Arc<dyn Model>,
        mode: Option<Mode>,
    ) -> Self {
        let had = vec![model.name().to_owned()];
        Self { catalogue, model, taken_up: 0, effort: None, mode, had }
    }

    pub(crate) fn catalogue(&self) -> &Arc<dyn Catalogue> {
        &self.catalogue
    }

    pub(crate) fn chosen(&self) -> Chosen {
        let Self { model, taken_up, effort, mode, .. } = self;
        let traits = model.traits();
        let effort = effort.filter(|_| traits.efforts);
        Chosen { model: model.clone(), traits, taken_up: *taken_up, effort, mode: *mode }
    }

    /// Takes a model up.
    pub(crate) fn set_model(&mut self, model: Arc<dyn Model>) {
        let name = model.name().to_owned();
        self.had.retain(|other| *other != name);
        self.had.push(name);
        if self.had.len() > MAX_TAKEN_UP {
            self.had.remove(0);
        }
        self.model = model;
        self.taken_up += 1;
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.mode = Some(mode);
    }

    /// Sets how much to think; kept for later where the model cannot be told.
    pub(crate) fn set_effort(&mut self, effort: Option<Effort>) {
        self.effort = effort;
    }

    /// Returns the models that can be chosen: the catalogue's, and those that the session has had.
    pub(crate) fn models(&self) -> Vec<Choice> {
        let mut choices = self.catalogue.list();
        choices.truncate(MAX_LISTED_CHOICES);
        // A model that is found late may have another name by now than when it was taken up.
        let current = self.model.name();
        for name in self.had.iter().map(String::as_str).chain([current]) {
            if choices.iter().all(|choice| choice.value != *name) {
                let choice =
                    Choice { value: name.to_owned(), name: visible(name), description: None };
                choices.push(choice);
            }
        }
        choices
    }

    /// Returns the modes as ACP's older clients know them.
    pub(crate) fn modes(&self) -> Option<SessionModes> {
        let mode = |mode: &Mode| {
            SessionMode::new(mode.id(), mode.name()).with_description(sentence(mode.description()))
        };
        let modes = Mode::all().iter().map(mode).collect();
        Some(SessionModes::new(self.mode?.id(), modes))
    }

    /// Returns every option with its values, which holds all that can be chosen, where this is
    /// what is.
    pub(crate) fn options(&self, chosen: &Chosen) -> Vec<ConfigOption> {
        let Chosen { model, traits, effort, mode, .. } = chosen;
        let models = self.models().into_iter().map(|choice| {
            let Choice { value, name, description } = choice;
            ConfigValue::new(value, name).with_description(description)
        });
        let model = ConfigOption::new(MODEL, "Model", model.name(), models.collect());
        let mut options = vec![model.with_category(ConfigCategory::Model)];
        if let Some(mode) = mode {
            let modes = Mode::all().iter().map(|mode| {
                ConfigValue::new(mode.id(), mode.name())
                    .with_description(sentence(mode.description()))
            });
            let option = ConfigOption::new(MODE, "Mode", mode.id(), modes.collect())
                .with_description("What runs without asking")
                .with_category(ConfigCategory::Mode);
            options.push(option);
        }
        if traits.efforts {
            let levels = LEVELS.iter().map(|(value, description, _)| {
                ConfigValue::new(*value, capital(value)).with_description((*description).to_owned())
            });
            let levels = levels.collect();
            let option = ConfigOption::new(THOUGHT_LEVEL, "Thinking", level(*effort), levels)
                .with_description("How much the model thinks before it speaks")
                .with_category(ConfigCategory::ThoughtLevel);
            options.push(option);
        }
        options
    }

    /// Reads a value of an option, as it is offered.
    ///
    /// # Errors
    /// What is wrong, without what was asked for.
    pub(crate) fn change(&self, option: &str, value: &str) -> Result<Change, &'static str> {
        match option {
            MODEL if self.models().iter().any(|choice| choice.value == value) => {
                Ok(Change::Model(value.to_owned()))
            }
            MODEL => Err("There is no such model among the option's values"),
            MODE => self.mode(value).map(Change::Mode),
            THOUGHT_LEVEL if self.model.traits().efforts => {
                parse_level(value).map(Change::Effort).ok_or(NO_LEVEL)
            }
            _ => Err("There is no such option in this session"),
        }
    }

    /// Reads the id of a mode.
    ///
    /// # Errors
    /// What is wrong, without what was asked for.
    pub(crate) fn mode(&self, id: &str) -> Result<Mode, &'static str> {
        if self.mode.is_none() {
            return Err("This session has no modes");
        }
        Mode::parse(id).ok_or(NO_MODE)
    }
}

/// Reads a level of thinking.
pub(crate) fn parse_level(value: &str) -> Option<Option<Effort>> {
    LEVELS.iter().find(|(name, ..)| *name == value).map(|(.., effort)| *effort)
}

/// Returns the level's value that an effort is.
pub(crate) fn level(effort: Option<Effort>) -> &'static str {
    LEVELS.iter().find(|(.., other)| *other == effort).map_or("default", |(value, ..)| value)
}

fn sentence(phrase: &str) -> String {
    format!("{}.", capital(phrase))
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

const NO_MODE: &str =
    "there is no such mode; there are read-only, ask-always, ask, accept-edits, auto";
const NO_LEVEL: &str = "there is no such level; there are default, off, low, medium, high";
