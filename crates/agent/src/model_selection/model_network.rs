//! What choosing asks of the network.
//!
//! It knows no configuration.

use std::fmt::Debug;
use std::sync::Arc;

use callboard_models::provider::{self, LocalServers, ProviderSettings};
use callboard_models::{Model, ModelError};
use futures::future::BoxFuture;

/// What choosing asks of the network; something else in tests.
pub(crate) trait ModelNetwork: Debug + Send + Sync + 'static {
    /// Makes the model of some settings; nothing is sent yet.
    fn connect(&self, settings: ProviderSettings) -> Arc<dyn Model>;

    /// Lists the models that a provider has, for a time that is bounded; `settings` name none.
    fn list_models(
        &self,
        settings: ProviderSettings,
    ) -> BoxFuture<'static, Result<Vec<String>, ModelError>>;

    /// Looks for the servers on this machine that say what they are, the one to choose first.
    /// `ollama` is where Ollama is, if that is configured.
    fn find_local_servers(
        &self,
        ollama: Option<String>,
    ) -> BoxFuture<'static, Vec<ProviderSettings>>;
}

/// The real one.
#[derive(Debug)]
pub(crate) struct HttpNetwork;

impl ModelNetwork for HttpNetwork {
    fn connect(&self, settings: ProviderSettings) -> Arc<dyn Model> {
        provider::connect(settings)
    }

    fn list_models(
        &self,
        settings: ProviderSettings,
    ) -> BoxFuture<'static, Result<Vec<String>, ModelError>> {
        Box::pin(async move {
            let listed = provider::list_models(&settings).await?;
            Ok(listed.into_iter().map(|model| model.name).collect())
        })
    }

    fn find_local_servers(
        &self,
        ollama: Option<String>,
    ) -> BoxFuture<'static, Vec<ProviderSettings>> {
        Box::pin(async move {
            let usual = LocalServers::default();
            LocalServers { ollama: ollama.unwrap_or(usual.ollama), ..usual }.probe().await
        })
    }
}
