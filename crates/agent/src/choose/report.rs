//! What can be reached: for `callboard models`, and for a key that is tried.
//!
//! It knows nothing of how it is printed but its text.

use std::fmt;

use callboard_models::ModelError;
use callboard_models::provider::{Key, Provider, Settings};
use callboard_text::counted;
use futures::future::join_all;
use serde::Serialize;

use super::{Access, Choices, Chooser, bare};
use crate::config::ProviderConfig;
use crate::keys::{KeyError, Place};

/// What providers and local servers say.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The model that `callboard exec` runs with; none if nothing is set up.
    default: Option<String>,
    /// Why that model cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    providers: Vec<Listed>,
}

/// What one of them says.
#[derive(Debug, Serialize)]
struct Listed {
    provider: &'static str,
    /// None for the provider's own.
    base_url: Option<String>,
    /// As `--model` names them.
    models: Vec<String>,
    error: Option<String>,
}

impl Listed {
    fn new(
        provider: Provider,
        base_url: Option<String>,
        models: Result<Vec<String>, ModelError>,
    ) -> Self {
        let error = models.as_ref().err().map(ToString::to_string);
        let models = models.iter().flatten().map(|model| provider.spec(model)).collect();
        Self { provider: provider.name(), base_url, models, error }
    }
}

impl Choices {
    /// Asks everybody at once that there is a key or an address for, and all servers on this machine.
    pub(crate) async fn report(&mut self) -> Report {
        let settled = self.settle().await;
        let chooser = &self.chooser;
        chooser.read_logins().await;
        let asked = Provider::ALL.into_iter().filter(|provider| chooser.is_reported(*provider));
        let asked = join_all(asked.map(|provider| chooser.list(provider)));
        let (mut providers, local) = futures::join!(asked, chooser.local());
        let is_new = |found: &&Settings| {
            let at = found.base_url.as_deref().map(bare);
            providers.iter().all(|it| it.base_url.as_deref().map(bare) != at)
        };
        let found = join_all(local.iter().filter(is_new).map(|it| chooser.listed(it))).await;
        providers.extend(found);
        let (default, error) = match settled {
            Ok(model) => (model.map(|model| model.name().to_owned()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Report { default, error, providers }
    }

    /// Asks a provider for its models, with a key or without one.
    pub(crate) async fn models(
        &self,
        provider: Provider,
        base_url: Option<String>,
        key: Option<Key>,
    ) -> Result<Vec<String>, ModelError> {
        let access = Access { base_url, key, login: None };
        self.chooser.reach.models(self.chooser.settings(provider, String::new(), &access)).await
    }

    /// Stores a key for one address of a provider.
    pub(crate) async fn store(
        &self,
        provider: Provider,
        base_url: Option<String>,
        key: Key,
    ) -> Result<Place, KeyError> {
        let keys = self.chooser.keys.clone();
        let stored = tokio::task::spawn_blocking(move || keys.store(provider, base_url, key));
        stored.await.unwrap_or_else(|_| Err(KeyError::new("storing the key failed")))
    }

    /// Returns the address that is configured for a provider, if it is not its own.
    pub(crate) fn base_url(&self, provider: Provider) -> Option<String> {
        self.chooser.base_url(provider, None)
    }
}

impl Chooser {
    /// Whether there is a key or an address to ask a provider with.
    pub(super) fn is_reported(&self, provider: Provider) -> bool {
        let configured = self.config.provider(provider);
        let url = |of: &ProviderConfig| of.base_url.as_ref().map(|url| bare(&url.value).to_owned());
        if provider == Provider::OpenAiResponses {
            // Else OpenAI's two dialects have one key and one list.
            return url(configured) != url(self.config.provider(Provider::OpenAi));
        }
        let is_own = configured.key.is_some() || self.login(provider).is_some();
        is_own || configured.base_url.is_some()
    }

    async fn list(&self, provider: Provider) -> Listed {
        match self.access(provider).await {
            Ok(access) => self.listed(&self.settings(provider, String::new(), &access)).await,
            Err(error) => Listed::new(provider, None, Err(error)),
        }
    }

    async fn listed(&self, settings: &Settings) -> Listed {
        let provider = settings.provider;
        let models = self.reach.models(settings.clone()).await;
        let models = models.map_err(|error| self.advised(provider, error));
        Listed::new(provider, settings.base_url.clone(), models)
    }

    /// Looks for the servers on this machine, the one to choose first.
    pub(super) async fn local(&self) -> Vec<Settings> {
        let ollama = self.config.provider(Provider::Ollama).base_url.as_ref();
        let found = self.reach.local(ollama.map(|url| bare(&url.value).to_owned())).await;
        found.into_iter().map(|found| self.laid_over(found)).collect()
    }

    /// Lays what is configured over what a server on this machine told of itself.
    fn laid_over(&self, found: Settings) -> Settings {
        let Settings { provider, model, base_url, context_tokens, .. } = found;
        let models = self.config.provider(provider).models.as_ref();
        // With OpenAI's dialect it is any server: which models OpenAI has to offer says nothing of it.
        let named = models.filter(|_| provider == Provider::Ollama);
        let named = named.and_then(|named| named.value.first()).unwrap_or(&model);
        let told = context_tokens.filter(|_| *named == model);
        let open = Access { base_url, key: None, login: None };
        let settings = self.settings(provider, named.clone(), &open);
        Settings { context_tokens: settings.context_tokens.or(told), ..settings }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Listed { provider, base_url, models, error } in &self.providers {
            let at = base_url.as_ref().map(|url| format!(" at {url}")).unwrap_or_default();
            match error {
                Some(error) => writeln!(formatter, "{provider}{at}: {error}")?,
                None => {
                    let models = counted(models.len() as u64, "model", "models");
                    writeln!(formatter, "{provider}{at}: {models}")?;
                }
            }
            models.iter().try_for_each(|model| writeln!(formatter, "  {model}"))?;
        }
        if self.providers.is_empty() {
            writeln!(formatter, "Nothing is set up: run `callboard login`, or set a key.")?;
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
