//! The models that a session can use, and a trait that opens them by their names.

use std::fmt;
use std::sync::Arc;

use callboard_models::direct::{self, DirectModel};
use callboard_models::{Model, ModelCapabilities, ModelSpecError, open_model};
use futures::future::BoxFuture;

/// The models that users can choose for a session. [`list`](Self::list) must not use the network or
/// read files. [`discover_models`](Self::discover_models) requests the lists of models in advance.
pub trait ModelCatalogue: Send + Sync + fmt::Debug {
    /// Rereads the state that another process may have changed, such as logins. The agent calls
    /// this method before a session begins, and waits only briefly for the result.
    fn reread_external_state(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Requests the lists of models from servers, so that [`ModelCatalogue::list`] can include
    /// these models. The requests may take seconds, and run at the same time as a session. The
    /// agent calls this method after a session has begun, and after the session's model has been
    /// found.
    fn discover_models(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the models that users can choose. The default model comes first.
    fn list(&self) -> Vec<ModelChoice>;

    /// Returns the model with which new sessions begin. Returns `None` if they always begin with
    /// the agent's own model.
    fn initial_model(&self) -> Option<Arc<dyn Model>> {
        None
    }

    /// Returns the capabilities that at least one of the models has. The default is no
    /// capabilities.
    ///
    /// The agent announces to clients that it supports images (or audio) if they are among these
    /// capabilities, or if the agent's own model or the [initial model](Self::initial_model)
    /// supports them. This method is called before the first session, so the result must include
    /// models that users can choose later.
    fn combined_capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
    }

    /// Returns a text in Markdown that explains how users connect another model. The answer to
    /// `/help` ends with this text.
    fn connect_help(&self) -> &str {
        ""
    }

    /// Opens a model by its name, which need not be in the list. This method may read files.
    ///
    /// # Errors
    /// Returns [`ModelSpecError`] if the model cannot be opened.
    fn open_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelSpecError>;
}

/// A model that users can choose for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelChoice {
    /// The name that is passed to [`ModelCatalogue::open_model`], such as `anthropic/NAME` or
    /// `direct`.
    pub value: String,
    /// The name that is shown to the user.
    pub name: String,
    /// A description that is shown to the user, if there is one.
    pub description: Option<String>,
}

impl ModelChoice {
    /// Creates a choice that has no description.
    pub fn new(value: impl Into<String>, name: impl Into<String>) -> Self {
        Self { value: value.into(), name: name.into(), description: None }
    }

    /// Sets the description that is shown to the user.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }
}

/// The built-in models, and the models for which an environment contains keys.
#[derive(Clone, Default)]
pub struct BuiltInModels {
    env: Arc<Vec<(String, String)>>,
    help: Arc<str>,
}

impl BuiltInModels {
    /// Creates a catalogue that uses the keys and addresses in these environment variables. The
    /// `default` catalogue uses no variables.
    #[must_use]
    pub fn new(env: Arc<Vec<(String, String)>>) -> Self {
        Self { env, help: Arc::default() }
    }

    /// Sets the text in Markdown that explains how users connect another model: see
    /// [`ModelCatalogue::connect_help`]. The help of the model `direct` ends with the same text.
    #[must_use]
    pub fn with_connect_help(self, help: impl Into<Arc<str>>) -> Self {
        Self { help: help.into(), ..self }
    }
}

impl fmt::Debug for BuiltInModels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment is not printed, because it may contain secrets.
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
            direct::NAME => Ok(Arc::new(DirectModel::with_text_after_help(self.help.clone()))),
            name => open_model(name, self.env.iter().cloned()),
        }
    }

    fn connect_help(&self) -> &str {
        &self.help
    }
}
