//! What choosing asks of the network.
//!
//! It knows no configuration.

use futures::future::BoxFuture;
use std::fmt::Debug;
use std::sync::Arc;

use crate::model::provider::{self, Settings};
use crate::model::{Model, ModelError};

/// What choosing asks of the network; something else in tests.
pub(crate) trait Reach: Debug + Send + Sync + 'static {
    /// Makes the model of some settings; nothing is sent yet.
    fn connect(&self, settings: Settings) -> Arc<dyn Model>;

    /// Lists the models that a provider has; `settings` name none.
    fn models(&self, settings: Settings) -> BoxFuture<'static, Result<Vec<String>, ModelError>>;

    /// Looks for a server on this machine that says what it is. `ollama` is where Ollama is, if
    /// that is configured.
    fn local(&self, ollama: Option<String>) -> BoxFuture<'static, Option<Settings>>;
}

/// The real one.
#[derive(Debug)]
pub(crate) struct Network;

impl Reach for Network {
    fn connect(&self, settings: Settings) -> Arc<dyn Model> {
        provider::connect(settings)
    }

    fn models(&self, _: Settings) -> BoxFuture<'static, Result<Vec<String>, ModelError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn local(&self, _: Option<String>) -> BoxFuture<'static, Option<Settings>> {
        Box::pin(std::future::ready(None))
    }
}
