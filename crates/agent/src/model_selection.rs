//! Selects the model by configuration, key, login or running server.
//!
//! [`ModelSelector::select_offline`] defines the order. Selections that need the network are in
//! `deferred_model.rs`.

mod deferred_model;
mod key_advice;
mod model_discovery;
mod model_network;
mod model_report;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_models::provider::{ApiKey, Provider, ProviderSettings};
use callboard_models::{Model, ModelCapabilities, ModelError, ModelErrorKind, ModelSpecError};
use futures::future::{BoxFuture, FutureExt as _, ready};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::config::{Config, ProviderConfig};
use crate::key_store::{KeyError, KeyStore, Login, Logins};
use crate::{limits, secrets};
use callboard_runtime::{
    BuiltInModels, MAX_CATALOGUE_CHOICES, ModelCatalogue, ModelChoice, spawn_blocking_exclusive,
};

use deferred_model::DeferredModel;
use model_discovery::ServerModels;
pub(crate) use model_network::{HttpNetwork, ModelNetwork};

/// The configured models, as a catalogue for sessions.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredModels {
    selector: Arc<ModelSelector>,
    /// Initial model of every session. `None` until [`ConfiguredModels::resolve_default_model`] or
    /// [`ConfiguredModels::open_and_set_default_model`] has found a model.
    default_model: Option<Arc<dyn Model>>,
    /// Whether the client shows a list of models.
    has_menu: bool,
    builtin: BuiltInModels,
}

/// The shared state of model selection: configuration, keys, and discovered models.
#[derive(Debug)]
struct ModelSelector {
    config: Config,
    keys: KeyStore,
    network: Box<dyn ModelNetwork>,
    /// The logins at the time of the last read. `None` before the first read.
    logins: Mutex<Option<Result<Logins, KeyError>>>,
    /// Locked while the logins are read, so that a file that cannot be read blocks only one thread.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// Models that were opened. For a model on this machine, the settings are stored too, because
    /// the configuration does not contain them.
    opened_models: Mutex<Vec<(String, Option<ProviderSettings>)>>,
    /// Servers, with the models that each of them listed.
    listed_servers: Mutex<Vec<ServerModels>>,
    /// Locked while the lists of models are requested from servers.
    exploring: tokio::sync::Mutex<()>,
    /// The most recent logins whose keys were read from the keyring.
    unlocked_logins: Mutex<Vec<Login>>,
}

/// The reason why no model can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoModelError {
    /// The user named a model that does not exist.
    #[error(transparent)]
    Spec(#[from] ModelSpecError),
    /// The selected model cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No model was found, and the list of logins cannot be read. A login might provide a model.
    #[error("found no model, and cannot read the logins: {0}")]
    Logins(KeyError),
}

/// The result of a selection that accesses neither the network nor the keyring.
#[derive(Debug, PartialEq, Eq)]
enum OfflineModelSelection {
    /// The user named a model.
    Named(String),
    /// A provider. The model is `None` if the list of models must be requested from the provider
    /// first.
    Provider {
        provider: Provider,
        model: Option<String>,
        why: String,
    },
    Nothing,
}

/// The URL and the key for requests to a provider.
struct ProviderAccess {
    base_url: Option<String>,
    key: Option<ApiKey>,
    /// The login with the key, if the key comes from a login.
    login: Option<Login>,
}

impl ConfiguredModels {
    /// Creates the catalogue from the configuration and the key store.
    pub(crate) fn new(config: Config, keys: KeyStore, reach: impl ModelNetwork) -> Self {
        config.redact_keys();
        let chooser = ModelSelector {
            config,
            keys,
            network: Box::new(reach),
            logins: Mutex::default(),
            reading: Arc::default(),
            opened_models: Mutex::default(),
            listed_servers: Mutex::default(),
            exploring: tokio::sync::Mutex::default(),
            unlocked_logins: Mutex::default(),
        };
        let builtin = BuiltInModels::default().with_connect_help(CONNECT_HELP);
        Self { selector: Arc::new(chooser), default_model: None, has_menu: true, builtin }
    }

    /// Disables the discovery of models for a menu. Call this method if no menu is shown.
    pub(crate) fn without_menu_discovery(self) -> Self {
        Self { has_menu: false, ..self }
    }

    /// Returns the configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.selector.config
    }

    /// Finds the model for prompts immediately, without waiting for a first prompt. `callboard
    /// exec` uses the model, and `callboard models` prints its name. Returns `None` if no model is
    /// set up; `direct` does not count.
    ///
    /// # Errors
    ///
    /// Returns the reason why the selected model cannot be used.
    pub(crate) async fn resolve_default_model(
        &mut self,
    ) -> Result<Option<Arc<dyn Model>>, NoModelError> {
        if let Some(named) = &self.selector.config.model {
            return Ok(Some(self.open_model(&named.value)?));
        }
        self.selector.read_logins_within_timeout().await;
        let lazy = self.create_deferred_model();
        let found = lazy.open_unless_current().await?;
        let model: Arc<dyn Model> = Arc::new(lazy);
        self.default_model = Some(model.clone());
        if found {
            return Ok(Some(model));
        }
        self.selector.last_read_logins().map(|_| None).map_err(NoModelError::Logins)
    }

    /// Opens the model of a stored session, which replaces the configured model. Returns `None` if
    /// the model cannot be opened.
    pub(crate) fn open_and_set_default_model(&mut self, name: &str) -> Option<Arc<dyn Model>> {
        let model = self.open_model(name).ok()?;
        self.default_model = Some(model.clone());
        Some(model)
    }

    /// Creates the model of new sessions. Slow steps are deferred until the first prompt. This
    /// method reads the file of logins without a timeout, so call it only at startup, before a
    /// client is served.
    ///
    /// # Errors
    ///
    /// Returns an error if the user named a model that does not exist.
    pub(crate) fn create_session_model(&self) -> Result<Arc<dyn Model>, ModelSpecError> {
        match &self.selector.config.model {
            Some(named) => self.open_model(&named.value),
            None => {
                self.selector.set_logins(self.selector.keys.read_logins_without_keyring());
                Ok(Arc::new(self.create_deferred_model()))
            }
        }
    }

    /// Creates the model for sessions in which the user did not name a model.
    fn create_deferred_model(&self) -> DeferredModel {
        let chooser = self.selector.clone();
        match chooser.select_offline() {
            OfflineModelSelection::Provider { provider, model: Some(model), why } => {
                DeferredModel::for_model(chooser, provider, model, Some(why))
            }
            _ => DeferredModel::first_available(chooser),
        }
    }
}

impl ModelCatalogue for ConfiguredModels {
    fn reread_external_state(&self) -> BoxFuture<'_, ()> {
        self.selector.read_logins_within_timeout().boxed()
    }

    fn discover_models(&self) -> BoxFuture<'_, ()> {
        if self.has_menu { self.selector.discover_models().boxed() } else { ready(()).boxed() }
    }

    fn list(&self) -> Vec<ModelChoice> {
        let chooser = &self.selector;
        let mut names: Vec<String> = match chooser.select_offline() {
            OfflineModelSelection::Named(name) => vec![name],
            OfflineModelSelection::Provider { provider, model, .. } => {
                model.iter().map(|model| provider.model_spec(model)).collect()
            }
            OfflineModelSelection::Nothing => Vec::new(),
        };
        names.extend(lock(&chooser.opened_models).iter().map(|(name, _)| name.clone()));
        for provider in Provider::ALL {
            let models = chooser.config.provider(provider).models.iter();
            names.extend(models.flat_map(|it| &it.value).map(|model| provider.model_spec(model)));
        }
        names.extend(chooser.providers_with_keys().filter_map(|provider| {
            chooser
                .provider_default_model(provider)
                .map(|(provider, model)| provider.model_spec(&model))
        }));
        let builtin = self.builtin.list();
        let room = MAX_CATALOGUE_CHOICES - builtin.len();
        names.extend(chooser.pick_models_evenly_from_servers(room.saturating_sub(names.len())));
        let mut choices = Vec::new();
        for name in names.into_iter().filter(|name| Provider::parse_model_spec(name).is_some()) {
            if choices.iter().all(|choice: &ModelChoice| choice.value != name) {
                choices.push(ModelChoice::new(name.clone(), name));
            }
        }
        choices.truncate(room);
        choices.extend(builtin);
        choices
    }

    fn initial_model(&self) -> Option<Arc<dyn Model>> {
        if let Some(model) = &self.default_model {
            return Some(model.clone());
        }
        if self.selector.config.model.is_some() {
            return None;
        }
        // A new deferred model is needed, because the user may have logged in since the last
        // session.
        Some(Arc::new(self.create_deferred_model()))
    }

    /// Returns the combined capabilities of all models that a later login may select.
    fn combined_capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::new().with_images().with_audio()
    }

    fn open_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelSpecError> {
        match Provider::parse_model_spec(name) {
            Some((provider, model)) => {
                let model = model.to_owned();
                Ok(Arc::new(DeferredModel::for_model(self.selector.clone(), provider, model, None)))
            }
            None => self.builtin.open_model(name),
        }
    }

    fn connect_help(&self) -> &str {
        self.builtin.connect_help()
    }
}

/// Instructions for connecting another model, as a list of three items.
pub(crate) const CONNECT_HELP: &str = "To connect a model:\n\n\
    - run `callboard login` in a terminal, or set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or \
    `GEMINI_API_KEY`;\n\
    - or start Ollama, llama.cpp or LM Studio on this machine, which the next prompt detects;\n\
    - or name any model with `/model PROVIDER/NAME`, `--model`, `CALLBOARD_MODEL` or the configuration.";

impl ModelSelector {
    /// Selects the first of these that exists: the model that the user named, a provider with a key
    /// in the environment, a provider with a login, a configured server.
    fn select_offline(&self) -> OfflineModelSelection {
        if let Some(model) = &self.config.model {
            return OfflineModelSelection::Named(model.value.clone());
        }
        let place = |source| self.config.file.describe_source(source);
        let of_key = |provider: &Provider| {
            let key = self.config.provider(*provider).key.as_ref()?;
            Some((*provider, format!("`{}` is set", place(&key.source))))
        };
        let of_login = |provider: &Provider| {
            let login = self.last_read_login(*provider)?;
            self.is_login_for_base_url(*provider, &login)
                .then(|| (*provider, format!("you are logged in to {}", provider.name())))
        };
        let of_server = |provider: &Provider| {
            let url = self.config.provider(*provider).base_url.as_ref()?;
            Some((*provider, format!("{} names its server", place(&url.source))))
        };
        let keyed = || KEYED_PROVIDERS.iter();
        let found = keyed().find_map(of_key);
        let found = found.or_else(|| keyed().chain([&Provider::Ollama]).find_map(of_login));
        let Some((provider, why)) = found.or_else(|| keyed().find_map(of_server)) else {
            return OfflineModelSelection::Nothing;
        };
        let (provider, model) = match self.provider_default_model(provider) {
            Some((provider, model)) => (provider, Some(model)),
            None => (provider, None),
        };
        OfflineModelSelection::Provider { provider, model, why }
    }

    /// Returns the default model of a provider: the first configured model, or else the built-in
    /// default. If the provider's URL is not the default, a server there may not have the built-in
    /// default. In this case, returns `None`, and the server's list of models must be requested.
    fn provider_default_model(&self, provider: Provider) -> Option<(Provider, String)> {
        let configured = self.config.provider(provider);
        if let Some(model) = configured.models.as_ref().and_then(|models| models.value.first()) {
            return Some((provider, model.clone()));
        }
        let elsewhere =
            || self.last_read_login(provider).is_some_and(|login| login.base_url.is_some());
        if configured.base_url.is_some() || (configured.key.is_none() && elsewhere()) {
            return None;
        }
        let (by, model) = provider.default_model()?;
        // The default model may use the provider's other dialect, if that dialect has the same
        // server and key.
        let other = self.config.provider(by);
        let key = |of: &ProviderConfig| of.key.as_ref().map(|key| key.value.clone());
        let is_same = other.base_url.is_none() && key(other) == key(configured);
        is_same.then(|| (by, model.to_owned()))
    }

    /// Returns the providers that have a key in the environment or a stored key.
    fn providers_with_keys(&self) -> impl Iterator<Item = Provider> {
        KEYED_PROVIDERS.into_iter().filter(|provider| {
            self.has_configured_key(*provider) || self.last_read_login(*provider).is_some()
        })
    }

    /// Reads the logins. After the time limit, the read continues in the background.
    async fn read_logins_within_timeout(self: &Arc<Self>) {
        let chooser = self.clone();
        let read =
            move |(): &mut ()| chooser.set_logins(chooser.keys.read_logins_without_keyring());
        let read = spawn_blocking_exclusive(&self.reading, read);
        drop(timeout(limits::LOGIN_FILE_READ_TIMEOUT, read).await);
    }

    fn set_logins(&self, logins: Result<Logins, KeyError>) {
        *lock(&self.logins) = Some(logins);
    }

    /// Returns the logins at the time of the last read.
    fn last_read_logins(&self) -> Result<Logins, KeyError> {
        let unread = || Err(KeyError::new("the stored logins could not be read in time"));
        lock(&self.logins).clone().unwrap_or_else(unread)
    }

    /// Returns the login of a provider. Read errors are reported when the key is needed.
    fn last_read_login(&self, provider: Provider) -> Option<Login> {
        self.last_read_logins().ok()?.for_provider(provider).cloned()
    }

    /// Returns the login whose key is sent to a provider, if there is such a login. A configured
    /// key takes precedence.
    fn active_login(&self, provider: Provider) -> Option<Login> {
        let login = self.last_read_login(provider).filter(|_| !self.has_configured_key(provider));
        login.filter(|login| self.is_login_for_base_url(provider, login))
    }

    /// Returns whether a provider's key is configured. A configured key takes precedence over
    /// logins.
    fn has_configured_key(&self, provider: Provider) -> bool {
        self.config.provider(provider).key.is_some()
    }

    /// Returns whether a login's key belongs to the configured base URL. The key is sent to no
    /// other URL.
    fn is_login_for_base_url(&self, provider: Provider, login: &Login) -> bool {
        let configured = self.config.provider(provider).base_url.as_ref();
        configured.is_none_or(|url| {
            login.base_url.as_deref().map(without_trailing_slash)
                == Some(without_trailing_slash(&url.value))
        })
    }

    /// Returns the URL and the key of a provider. Accesses the keyring only if the key is in the
    /// keyring.
    async fn resolve_access(&self, provider: Provider) -> Result<ProviderAccess, ModelError> {
        if let Some(key) = &self.config.provider(provider).key {
            let base_url = self.configured_or_login_base_url(provider, None);
            return Ok(ProviderAccess { base_url, key: Some(key.value.clone()), login: None });
        }
        let login = self.last_read_logins().map_err(auth_error)?.for_provider(provider).cloned();
        let base_url = self.configured_or_login_base_url(provider, login.as_ref());
        match login {
            Some(login) if self.is_login_for_base_url(provider, &login) => {
                let (keys, of) = (self.keys.clone(), login.clone());
                let key = spawn_blocking(move || keys.read_key(provider, &of)).await;
                let key = key.map_err(|_panic| auth_error("reading the key failed"))?;
                let key = key.map_err(auth_error)?;
                secrets::add_key_to_redact(&key);
                let mut unlocked = lock(&self.unlocked_logins);
                if !unlocked.contains(&login) {
                    unlocked.truncate(Provider::ALL.len() - 1);
                    unlocked.insert(0, login.clone());
                }
                Ok(ProviderAccess { base_url, key: Some(key), login: Some(login) })
            }
            _ if !provider.needs_key(base_url.as_deref()) => {
                Ok(ProviderAccess { base_url, key: None, login: None })
            }
            _ => {
                let how = self.key_instructions(provider);
                let address = provider.url_variables().join(" or ");
                Err(auth_error(format!(
                    "there is no key for {}: {how}. If your server needs no key, set {address} to \
                     its address",
                    provider.name()
                )))
            }
        }
    }

    /// Returns the base URL of a provider: the configured base URL, or else the base URL of the
    /// login.
    fn configured_or_login_base_url(
        &self,
        provider: Provider,
        login: Option<&Login>,
    ) -> Option<String> {
        let configured = self.config.provider(provider).base_url.as_ref();
        let configured = configured.map(|url| url.value.clone());
        configured.or_else(|| login?.base_url.clone())
    }

    /// Returns the configured context size of a provider.
    fn configured_context_tokens(&self, provider: Provider) -> Option<u64> {
        self.config.provider(provider).context_tokens.as_ref().map(|tokens| tokens.value.get())
    }

    fn build_provider_settings(
        &self,
        provider: Provider,
        model: String,
        access: &ProviderAccess,
    ) -> ProviderSettings {
        let configured = self.config.provider(provider);
        let mut settings =
            ProviderSettings::new(provider, model).with_base_url(access.base_url.clone());
        settings.key = access.key.clone();
        settings.ca_file = configured.ca_file.as_ref().map(|file| file.value.clone());
        settings.tools = configured.tools.as_ref().map(|tools| tools.value).unwrap_or_default();
        settings.context_tokens = self.configured_context_tokens(provider);
        settings
    }
}

/// Providers that are selected by a key or a configured server, in this order. Ollama is not in
/// this list, because it is selected only if its server is running.
const KEYED_PROVIDERS: [Provider; 4] =
    [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiResponses, Provider::Gemini];

/// Returns a URL in the form in which URLs are compared.
fn without_trailing_slash(url: &str) -> &str {
    url.trim_end_matches('/')
}

fn auth_error(message: impl ToString) -> ModelError {
    ModelError::new(ModelErrorKind::Auth, message.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
