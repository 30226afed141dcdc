//! A report of the available models, for `callboard models` and for testing a key.

use std::fmt;

use callboard_models::ModelError;
use callboard_models::provider::{ApiKey, Provider, ProviderSettings};
use callboard_text::count_with_noun;
use futures::future::join_all;
use serde::Serialize;

use super::{ConfiguredModels, ModelSelector, ProviderAccess, without_trailing_slash};
use crate::config::ProviderConfig;
use crate::key_store::{KeyError, KeyLocation};

/// The models of all providers and local servers.
#[derive(Debug, Serialize)]
pub(crate) struct ModelReport {
    /// Model that `callboard exec` uses. `None` if no model is set up.
    default: Option<String>,
    /// Reason why the default model cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    providers: Vec<ProviderReport>,
}

/// The models of one provider or server.
#[derive(Debug, Serialize)]
struct ProviderReport {
    provider: &'static str,
    /// The base URL. `None` for the provider's own URL.
    base_url: Option<String>,
    /// Specs of the models, as in `--model`.
    models: Vec<String>,
    error: Option<String>,
}

impl ProviderReport {
    fn from_model_list_result(
        provider: Provider,
        base_url: Option<String>,
        models: Result<Vec<String>, ModelError>,
    ) -> Self {
        let error = models.as_ref().err().map(ToString::to_string);
        let models = models.iter().flatten().map(|model| provider.model_spec(model)).collect();
        Self { provider: provider.name(), base_url, models, error }
    }
}

impl ConfiguredModels {
    /// Requests the models of all providers with a key or a URL, and of all servers on this
    /// machine. All requests are sent at the same time.
    pub(crate) async fn request_report(&mut self) -> ModelReport {
        let settled = self.resolve_default_model().await;
        let chooser = &self.selector;
        chooser.read_logins_within_timeout().await;
        let asked =
            Provider::ALL.into_iter().filter(|provider| chooser.has_key_or_base_url(*provider));
        let asked = join_all(asked.map(|provider| chooser.request_provider_report(provider)));
        let (mut providers, local) = futures::join!(asked, chooser.find_local_servers());
        let is_new = |found: &&ProviderSettings| {
            let at = found.base_url.as_deref().map(without_trailing_slash);
            providers.iter().all(|it| it.base_url.as_deref().map(without_trailing_slash) != at)
        };
        let found =
            join_all(local.iter().filter(is_new).map(|it| chooser.request_server_report(it))).await;
        providers.extend(found);
        let (default, error) = match settled {
            Ok(model) => (model.map(|model| model.name().to_owned()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        ModelReport { default, error, providers }
    }

    /// Requests the models of a provider, with or without a key.
    pub(crate) async fn request_model_list(
        &self,
        provider: Provider,
        base_url: Option<String>,
        key: Option<ApiKey>,
    ) -> Result<Vec<String>, ModelError> {
        let access = ProviderAccess { base_url, key, login: None };
        self.selector
            .network
            .list_models(self.selector.build_provider_settings(provider, String::new(), &access))
            .await
    }

    /// Stores a key for one base URL of a provider.
    pub(crate) async fn store_key(
        &self,
        provider: Provider,
        base_url: Option<String>,
        key: ApiKey,
    ) -> Result<KeyLocation, KeyError> {
        let keys = self.selector.keys.clone();
        let stored = tokio::task::spawn_blocking(move || keys.store_key(provider, base_url, key));
        stored.await.unwrap_or_else(|_| Err(KeyError::new("storing the key failed")))
    }

    /// Returns the configured base URL of a provider, if it differs from the provider's own URL.
    pub(crate) fn custom_base_url(&self, provider: Provider) -> Option<String> {
        self.selector.configured_or_login_base_url(provider, None)
    }
}

impl ModelSelector {
    /// Returns whether a provider has a key or a configured URL.
    pub(super) fn has_key_or_base_url(&self, provider: Provider) -> bool {
        let configured = self.config.provider(provider);
        let url = |of: &ProviderConfig| {
            of.base_url.as_ref().map(|url| without_trailing_slash(&url.value).to_owned())
        };
        if provider == Provider::OpenAiResponses {
            // If OpenAI's two dialects have the same URL, they have the same key and the same list
            // of models. The list is then requested only once.
            return url(configured) != url(self.config.provider(Provider::OpenAi));
        }
        let is_own = configured.key.is_some() || self.last_read_login(provider).is_some();
        is_own || configured.base_url.is_some()
    }

    async fn request_provider_report(&self, provider: Provider) -> ProviderReport {
        match self.resolve_access(provider).await {
            Ok(access) => {
                self.request_server_report(&self.build_provider_settings(
                    provider,
                    String::new(),
                    &access,
                ))
                .await
            }
            Err(error) => ProviderReport::from_model_list_result(provider, None, Err(error)),
        }
    }

    async fn request_server_report(&self, settings: &ProviderSettings) -> ProviderReport {
        let provider = settings.provider;
        let models = self.network.list_models(settings.clone()).await;
        let models = models.map_err(|error| self.add_key_advice(provider, error));
        ProviderReport::from_model_list_result(provider, settings.base_url.clone(), models)
    }

    /// Finds servers on this machine, in order of preference.
    pub(super) async fn find_local_servers(&self) -> Vec<ProviderSettings> {
        let ollama = self.config.provider(Provider::Ollama);
        let base_url = ollama.base_url.as_ref();
        let base_url = base_url.map(|url| without_trailing_slash(&url.value).to_owned());
        let key = ollama.key.as_ref().map(|key| key.value.clone());
        let access = ProviderAccess { base_url, key, login: None };
        let ollama = self.build_provider_settings(Provider::Ollama, String::new(), &access);
        let found = self.network.find_local_servers(ollama).await;
        found.into_iter().map(|found| self.apply_config_to_local_server(found)).collect()
    }

    /// Applies the configuration to a local server: configured values override the values that the
    /// server reported.
    fn apply_config_to_local_server(&self, found: ProviderSettings) -> ProviderSettings {
        let ProviderSettings { provider, model, base_url, key, context_tokens, .. } = found;
        let models = self.config.provider(provider).models.as_ref();
        // A local server with OpenAI's dialect has other models than OpenAI, so the models that are
        // configured for OpenAI do not apply.
        let named = models.filter(|_| provider == Provider::Ollama);
        let named = named.and_then(|named| named.value.first()).unwrap_or(&model);
        let reported = context_tokens.filter(|_| *named == model);
        let access = ProviderAccess { base_url, key, login: None };
        let mut settings = self.build_provider_settings(provider, named.clone(), &access);
        settings.context_tokens = settings.context_tokens.or(reported);
        settings
    }
}

impl fmt::Display for ModelReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ProviderReport { provider, base_url, models, error } in &self.providers {
            let at = base_url.as_ref().map(|url| format!(" at {url}")).unwrap_or_default();
            match error {
                Some(error) => writeln!(formatter, "{provider}{at}: {error}")?,
                None => {
                    let models = count_with_noun(models.len() as u64, "model", "models");
                    writeln!(formatter, "{provider}{at}: {models}")?;
                }
            }
            models.iter().try_for_each(|model| writeln!(formatter, "  {model}"))?;
        }
        if self.providers.is_empty() {
            writeln!(
                formatter,
                "Nothing is set up: run `callboard login`, set a key, or set OPENAI_BASE_URL to \
                 the address of a server."
            )?;
        }
        writeln!(formatter, "direct: needs nothing")?;
        match (&self.default, &self.error) {
            (Some(default), _) => write!(formatter, "New sessions begin with {default}."),
            (None, Some(error)) => write!(formatter, "No session can begin: {error}"),
            (None, None) => write!(
                formatter,
                "New sessions in an editor begin with direct. `callboard exec` needs a model, or \
                 `--model direct`."
            ),
        }
    }
}
