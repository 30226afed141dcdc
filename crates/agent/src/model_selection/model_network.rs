//! The network operations of model selection.

use std::fmt::Debug;
use std::sync::Arc;

use callboard_models::provider::{self, LocalServerAddresses, ProviderSettings};
use callboard_models::{Model, ModelError};
use futures::future::BoxFuture;

/// The network operations of model selection. Tests have their own implementation.
pub(crate) trait ModelNetwork: Debug + Send + Sync + 'static {
    /// Creates a model from its settings, without sending a request.
    fn create_model(&self, settings: ProviderSettings) -> Arc<dyn Model>;

    /// Requests the list of a provider's models, within a time limit. The model in `settings` is
    /// empty.
    fn list_models(
        &self,
        settings: ProviderSettings,
    ) -> BoxFuture<'static, Result<Vec<String>, ModelError>>;

    /// Finds model servers on this machine, in order of preference. `ollama` are the configured
    /// settings of Ollama. The model in `ollama` is empty.
    fn find_local_servers(
        &self,
        ollama: ProviderSettings,
    ) -> BoxFuture<'static, Vec<ProviderSettings>>;
}

/// The implementation over HTTP.
#[derive(Debug)]
pub(crate) struct HttpNetwork;

impl ModelNetwork for HttpNetwork {
    fn create_model(&self, settings: ProviderSettings) -> Arc<dyn Model> {
        provider::create_model(settings)
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
        ollama: ProviderSettings,
    ) -> BoxFuture<'static, Vec<ProviderSettings>> {
        Box::pin(async move {
            let mut servers = LocalServerAddresses::default();
            if let Some(url) = ollama.base_url {
                servers.ollama = url;
            }
            servers.ollama_key = ollama.key;
            servers.ollama_ca_file = ollama.ca_file;
            servers.probe().await
        })
    }
}
