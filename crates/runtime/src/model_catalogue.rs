//! The models that a session can use, and how they are opened by name.

use std::fmt;
use std::sync::Arc;

use callboard_models::direct::{self, DirectModel};
use callboard_models::{Model, ModelCapabilities, ModelSpecError, open_model};
use futures::future::BoxFuture;

/// The models that a session can choose among. [`list`](Self::list) uses no network and reads no
/// file; [`discover_models`](Self::discover_models) does both beforehand.
pub trait ModelCatalogue: Send + Sync + fmt::Debug {
    /// Rereads state that another process may have changed, such as logins. This method is called
    /// before a session begins, and the session waits only briefly for the result.
    fn reread_external_state(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Asks servers for the models that they list, so that [`ModelCatalogue::list`] can include
    /// these models. Discovery may take seconds and runs concurrently with sessions: after a
    /// session has begun, and after its model was found.
    fn discover_models(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the models that users can choose, the default model first.
    fn list(&self) -> Vec<ModelChoice>;

    /// Returns the initial model of new sessions; `None` if new sessions always use the agent's own
    /// model.
    fn initial_model(&self) -> Option<Arc<dyn Model>> {
        None
    }

    /// Returns the capabilities that at least one of the models has; by default, no capabilities.
    /// The agent announces images and audio to clients if these capabilities, the agent's own model
    /// or the [initial model](Self::initial_model) support them. This method is called before the
    /// first session, so the result includes models that users can choose later.
    fn combined_capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
    }

    /// Returns how users connect another model, in Markdown. The answer of `/help` ends with this
    /// text.
    fn connect_help(&self) -> &str {
        ""
    }

    /// Opens a model by its name; the model need not be in the list. This method may read a file.
    ///
    /// # Errors
    /// Returns [`ModelSpecError`] if the model cannot be opened.
    fn open_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelSpecError>;
}

/// A model that users can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelChoice {
    /// The argument of [`ModelCatalogue::open_model`], such as `anthropic/NAME` or `direct`.
    pub value: String,
    /// Name of the model, as shown to the user.
    pub name: String,
    /// A description for the user, if there is one.
    pub description: Option<String>,
}

impl ModelChoice {
    /// Creates a choice without a description.
    pub fn new(value: impl Into<String>, name: impl Into<String>) -> Self {
        Self { value: value.into(), name: name.into(), description: None }
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }
}

/// The models of every build, and the models for which an environment has keys.
#[derive(Clone, Default)]
pub struct BuiltInModels {
    env: Arc<Vec<(String, String)>>,
    help: Arc<str>,
}

impl BuiltInModels {
    /// Creates a catalogue that uses the keys and addresses in these variables; the `default`
    /// catalogue has no variables.
    #[must_use]
    pub fn new(env: Arc<Vec<(String, String)>>) -> Self {
        Self { env, help: Arc::default() }
    }

    /// Sets the text that explains how users connect another model, in Markdown: see
    /// [`ModelCatalogue::connect_help`]. The help of the model `direct` ends with the same text.
    #[must_use]
    pub fn with_connect_help(self, help: impl Into<Arc<str>>) -> Self {
        Self { help: help.into(), ..self }
    }
}

impl fmt::Debug for BuiltInModels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may contain secrets.
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

    fn connect_help(&self) -> &str {
        &self.help
    }
}
