//! Which models a session can be given, and how one is opened by its name.
//!
//! Knows nothing of sessions.

use std::fmt;
use std::sync::Arc;

use callboard_models::direct::{self, DirectModel};
use callboard_models::{Model, ModelCapabilities, ModelSpecError, open_model};
use futures::future::BoxFuture;

/// The models that a session can choose among. Asking costs no network and reads no file: what has
/// to be looked for is found beforehand.
pub trait ModelCatalogue: Send + Sync + fmt::Debug {
    /// Looks at what may have changed since it was looked at last: logins of another process. It is
    /// called before a session begins, which waits for it only for a moment.
    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Asks servers which models they list, for [`Catalogue::list`]. It may take seconds, and runs
    /// beside the sessions: after one has begun, and after its model was found.
    fn discover_models(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Lists the models that can be chosen, the default one first.
    fn list(&self) -> Vec<ModelChoice>;

    /// Returns the model that a session begins with that is opened now; none where that is always
    /// the agent's own.
    fn initial_model(&self) -> Option<Arc<dyn Model>> {
        None
    }

    /// Returns what at least one of its models takes: of these traits, the images and the audio are
    /// announced to clients, beside those of the agent's own model and of the [first](Self::first).
    /// None by default. It is asked before there is a session, so it says what may be chosen later, too.
    fn takes(&self) -> ModelCapabilities {
        ModelCapabilities::default()
    }

    /// Returns how users connect another model, in Markdown: the last words of `/help`.
    fn help(&self) -> &str {
        ""
    }

    /// Opens a model by its name, also by one that is not in the list. It may read a file.
    ///
    /// # Errors
    /// See [`SpecError`].
    fn open_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelSpecError>;
}

/// A model that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelChoice {
    /// What [`Catalogue::open`] takes, such as `anthropic/NAME` or `direct`.
    pub value: String,
    /// What the user reads.
    pub name: String,
    /// What there is to say about it.
    pub description: Option<String>,
}

impl ModelChoice {
    /// Makes a choice of which there is nothing more to say.
    pub fn new(value: impl Into<String>, name: impl Into<String>) -> Self {
        Self { value: value.into(), name: name.into(), description: None }
    }

    /// Says something about it.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }
}

/// The models that are in every build, and those that an environment has keys for.
#[derive(Clone, Default)]
pub struct BuiltInModels {
    env: Arc<Vec<(String, String)>>,
    help: Arc<str>,
}

impl BuiltInModels {
    /// Opens models with the keys and addresses of these variables; `default` knows none.
    #[must_use]
    pub fn new(env: Arc<Vec<(String, String)>>) -> Self {
        Self { env, help: Arc::default() }
    }

    /// Says how users connect another model, in Markdown: see [`Catalogue::help`]. The help of the
    /// model `direct` ends with it, too.
    #[must_use]
    pub fn with_help(self, help: impl Into<Arc<str>>) -> Self {
        Self { help: help.into(), ..self }
    }
}

impl fmt::Debug for BuiltInModels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of the environment are nobody's business.
        formatter.debug_struct("BuiltInModels").finish_non_exhaustive()
    }
}

impl ModelCatalogue for BuiltInModels {
    fn list(&self) -> Vec<ModelChoice> {
        let direct = ModelChoice::new(direct::NAME, "Direct commands");
        vec![direct.with_description("Does what the prompt's commands say; no model")]
    }

    fn open_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelSpecError> {
        match name {
            direct::NAME => Ok(Arc::new(DirectModel::with_help_footer(self.help.clone()))),
            name => open_model(name, self.env.iter().cloned()),
        }
    }

    fn help(&self) -> &str {
        &self.help
    }
}
