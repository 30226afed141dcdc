//! Which model there is to talk to: by configuration, a key, a login, a server that answers.
//!
//! It knows nothing of sessions. The order is in [`Chooser::at_hand`] and, where the network has to
//! be asked, in `lazy.rs`.

mod deferred_model;
mod key_advice;
mod model_discovery;
mod model_network;
mod model_report;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_models::provider::{ApiKey, Provider, ProviderSettings};
use callboard_models::{
    Model, ModelCapabilities, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelSpecError,
    ReplyStream,
};
use futures::future::{BoxFuture, FutureExt as _, ready};
use futures::{StreamExt as _, stream};
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

/// The models that the user can be given, as they are configured.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredModels {
    selector: Arc<ModelSelector>,
    /// The model of every new session, once [`Choices::settle`] has found it.
    default_model: Option<DeferredModel>,
    /// Whether a list of models is shown.
    has_menu: bool,
    builtin: BuiltInModels,
}

/// What is known of the user's models, and how to reach them.
#[derive(Debug)]
struct ModelSelector {
    config: Config,
    keys: KeyStore,
    network: Box<dyn ModelNetwork>,
    /// The logins, as they were read last; none before that.
    logins: Mutex<Option<Result<Logins, KeyError>>>,
    /// Held by the one who reads them, so that a file that cannot be read holds up one thread only.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// Models that were opened, and how to reach those that no configuration tells of: on this
    /// machine.
    opened_models: Mutex<Vec<(String, Option<ProviderSettings>)>>,
    /// The models that servers listed.
    listed_servers: Mutex<Vec<ServerModels>>,
    /// Held by the one who asks for them.
    exploring: tokio::sync::Mutex<()>,
    /// The last logins whose keys the keyring gave.
    unlocked_logins: Mutex<Vec<Login>>,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoModelError {
    /// The user named one that there is not.
    #[error(transparent)]
    Spec(#[from] ModelSpecError),
    /// The one that was found cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Nothing is at hand, and the logins cannot be read: the user may have set one up.
    #[error("no model is found, and the logins cannot be read: {0}")]
    Logins(KeyError),
}

/// What there is at hand to choose without asking the network or a keyring.
#[derive(Debug, PartialEq, Eq)]
enum Candidate {
    /// The user said which model.
    Named(String),
    /// A provider; none as its model, if it has to be asked which ones it has.
    Provider {
        provider: Provider,
        model: Option<String>,
        why: String,
    },
    Nothing,
}

/// What it takes to be let in.
struct ProviderAccess {
    base_url: Option<String>,
    key: Option<ApiKey>,
    /// Where the key is from, if it was stored.
    login: Option<Login>,
}

impl ConfiguredModels {
    /// Takes what is configured, and where keys are stored.
    pub(crate) fn new(config: Config, keys: KeyStore, reach: impl ModelNetwork) -> Self {
        for provider in Provider::ALL {
            // A variable that the user named may have any name, and so look like no secret.
            config.provider(provider).key.iter().for_each(|key| secrets::add_key(&key.value));
        }
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
        let builtin = BuiltInModels::default().with_help(CONNECT_HELP);
        Self { selector: Arc::new(chooser), default_model: None, has_menu: true, builtin }
    }

    /// Asks no server for a menu, because nobody sees one.
    pub(crate) fn without_menu(self) -> Self {
        Self { has_menu: false, ..self }
    }

    /// Returns what is configured.
    pub(crate) fn config(&self) -> &Config {
        &self.selector.config
    }

    /// Looks now for the model that a prompt gets. `callboard exec` runs with it, and `callboard
    /// models` names it. None if nothing is set up: `direct` only stands in for a model.
    ///
    /// # Errors
    ///
    /// Why the model that was chosen cannot be used.
    pub(crate) async fn resolve_default(&mut self) -> Result<Option<Arc<dyn Model>>, NoModelError> {
        if let Some(named) = &self.selector.config.model {
            return Ok(Some(self.open_model(&named.value)?));
        }
        self.selector.read_logins().await;
        let lazy = self.deferred_model();
        let found = lazy.resolve().await?;
        self.default_model = Some(lazy.clone());
        if found {
            return Ok(Some(Arc::new(lazy)));
        }
        self.selector.logins().map(|_| None).map_err(NoModelError::Logins)
    }

    /// Makes the model that new sessions get. What has to be looked for is looked for at the first
    /// prompt. It reads the file of logins: it is for the start, before anybody is served.
    ///
    /// # Errors
    ///
    /// If the user named a model that there is not.
    pub(crate) fn session_model(&self) -> Result<Arc<dyn Model>, ModelSpecError> {
        match &self.selector.config.model {
            Some(named) => self.open_model(&named.value),
            None => {
                self.selector.set_logins(self.selector.keys.logins());
                Ok(Arc::new(self.deferred_model()))
            }
        }
    }

    /// Makes the model that the user did not name.
    fn deferred_model(&self) -> DeferredModel {
        let chooser = self.selector.clone();
        match chooser.candidate() {
            Candidate::Provider { provider, model: Some(model), why } => {
                DeferredModel::for_model(chooser, provider, model, Some(why))
            }
            _ => DeferredModel::first_available(chooser),
        }
    }
}

impl ModelCatalogue for ConfiguredModels {
    fn refresh(&self) -> BoxFuture<'_, ()> {
        self.selector.read_logins().boxed()
    }

    fn discover_models(&self) -> BoxFuture<'_, ()> {
        if self.has_menu { self.selector.discover_models().boxed() } else { ready(()).boxed() }
    }

    fn list(&self) -> Vec<ModelChoice> {
        let chooser = &self.selector;
        let mut names: Vec<String> = match chooser.candidate() {
            Candidate::Named(name) => vec![name],
            Candidate::Provider { provider, model, .. } => {
                model.iter().map(|model| provider.model_spec(model)).collect()
            }
            Candidate::Nothing => Vec::new(),
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
        names.extend(chooser.listed_models(room.saturating_sub(names.len())));
        let mut choices = Vec::new();
        for name in names.into_iter().filter(|name| Provider::parse(name).is_some()) {
            if choices.iter().all(|choice: &ModelChoice| choice.value != name) {
                choices.push(ModelChoice::new(name.clone(), name));
            }
        }
        choices.truncate(room);
        choices.extend(builtin);
        choices
    }

    fn initial_model(&self) -> Option<Arc<dyn Model>> {
        if self.selector.config.model.is_some() {
            return None;
        }
        // There may have been a login since the last one.
        Some(Arc::new(self.default_model.clone().unwrap_or_else(|| self.deferred_model())))
    }

    /// A login may come later, and with it a model of any kind.
    fn takes(&self) -> ModelCapabilities {
        ModelCapabilities::new().with_images().with_audio()
    }

    fn open_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelSpecError> {
        match Provider::parse(name) {
            Some((provider, model)) => {
                let model = model.to_owned();
                Ok(Arc::new(DeferredModel::for_model(self.selector.clone(), provider, model, None)))
            }
            None => self.builtin.open_model(name),
        }
    }

    fn help(&self) -> &str {
        self.builtin.help()
    }
}

/// The model of an agent whose configuration cannot be used: it says why, and breaks every reply off.
#[derive(Debug)]
pub(crate) struct BrokenConfigModel(pub(crate) String);

impl Model for BrokenConfigModel {
    fn name(&self) -> &'static str {
        "none"
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        let message = format!("{}; mend it, and restart the agent", self.0);
        stream::iter([ModelEvent::Error(ModelError::new(ModelErrorKind::Other, message))]).boxed()
    }
}

/// How to connect another model, in three lines.
pub(crate) const CONNECT_HELP: &str = "To connect a model:\n\n\
    - run `callboard login` in a terminal, or set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or \
    `GEMINI_API_KEY`;\n\
    - or start Ollama, llama.cpp or LM Studio on this machine: it is found at the next prompt;\n\
    - or name any model with `/model PROVIDER/NAME`, `--model`, `CALLBOARD_MODEL` or the configuration.";

impl ModelSelector {
    /// Chooses: what the user named; a key in the environment; a login; a server that the user
    /// named.
    fn candidate(&self) -> Candidate {
        if let Some(model) = &self.config.model {
            return Candidate::Named(model.value.clone());
        }
        let place = |source| self.config.file.describe_source(source);
        let of_key = |provider: &Provider| {
            let key = self.config.provider(*provider).key.as_ref()?;
            Some((*provider, format!("`{}` is set", place(&key.source))))
        };
        let of_login = |provider: &Provider| {
            let login = self.login(*provider)?;
            self.is_login_for_base_url(*provider, &login)
                .then(|| (*provider, format!("you are logged in to {}", provider.name())))
        };
        let of_server = |provider: &Provider| {
            let url = self.config.provider(*provider).base_url.as_ref()?;
            Some((*provider, format!("{} names its server", place(&url.source))))
        };
        let found = KEYED_PROVIDERS.iter().find_map(of_key);
        let found =
            found.or_else(|| KEYED_PROVIDERS.iter().chain([&Provider::Ollama]).find_map(of_login));
        let Some((provider, why)) = found.or_else(|| KEYED_PROVIDERS.iter().find_map(of_server))
        else {
            return Candidate::Nothing;
        };
        match self.provider_default_model(provider) {
            Some((provider, model)) => Candidate::Provider { provider, model: Some(model), why },
            None => Candidate::Provider { provider, model: None, why },
        }
    }

    /// Returns the model that stands for a provider: the first that is configured, else our choice.
    /// None where only its server knows, because it is not the provider's own.
    fn provider_default_model(&self, provider: Provider) -> Option<(Provider, String)> {
        let configured = self.config.provider(provider);
        if let Some(model) = configured.models.as_ref().and_then(|models| models.value.first()) {
            return Some((provider, model.clone()));
        }
        let elsewhere = || self.login(provider).is_some_and(|login| login.base_url.is_some());
        if configured.base_url.is_some() || (configured.key.is_none() && elsewhere()) {
            return None;
        }
        let (by, model) = provider.default_model()?;
        // The model of a provider's other dialect, if that leads to the same place with the same key.
        let other = self.config.provider(by);
        let key = |of: &ProviderConfig| of.key.as_ref().map(|key| key.value.clone());
        let is_same = other.base_url.is_none() && key(other) == key(configured);
        is_same.then(|| (by, model.to_owned()))
    }

    /// Lists the providers whose keys are in the environment or stored.
    fn providers_with_keys(&self) -> impl Iterator<Item = Provider> {
        KEYED_PROVIDERS
            .into_iter()
            .filter(|provider| self.has_key(*provider) || self.login(*provider).is_some())
    }

    /// Reads which logins there are by now. Where that takes too long, it is known later.
    async fn read_logins(self: &Arc<Self>) {
        let chooser = self.clone();
        let read = move |(): &mut ()| chooser.set_logins(chooser.keys.logins());
        let read = spawn_blocking_exclusive(&self.reading, read);
        drop(timeout(limits::LOGIN_FILE_READ_TIMEOUT, read).await);
    }

    fn set_logins(&self, logins: Result<Logins, KeyError>) {
        *lock(&self.logins) = Some(logins);
    }

    /// Returns the logins, as they were read last.
    fn logins(&self) -> Result<Logins, KeyError> {
        let unread = || Err(KeyError::new("the stored logins could not be read in time"));
        lock(&self.logins).clone().unwrap_or_else(unread)
    }

    /// Returns the login of a provider. One that cannot be read is told where its key is needed.
    fn login(&self, provider: Provider) -> Option<Login> {
        self.logins().ok()?.for_provider(provider).cloned()
    }

    /// Returns the login whose key a provider is told, or none: a configured key comes before it.
    fn active_login(&self, provider: Provider) -> Option<Login> {
        let login =
            self.login(provider).filter(|login| self.is_login_for_base_url(provider, login));
        login.filter(|_| !self.has_key(provider))
    }

    /// Whether a provider's key is configured, so that no login matters.
    fn has_key(&self, provider: Provider) -> bool {
        self.config.provider(provider).key.is_some()
    }

    /// Whether a login's key is for the address that is configured: it goes to no other.
    fn is_login_for_base_url(&self, provider: Provider, login: &Login) -> bool {
        let configured = self.config.provider(provider).base_url.as_ref();
        configured.is_none_or(|url| {
            login.base_url.as_deref().map(without_trailing_slash)
                == Some(without_trailing_slash(&url.value))
        })
    }

    /// Finds what it takes to be let in. Asks the keyring only if it holds the key.
    async fn resolve_access(&self, provider: Provider) -> Result<ProviderAccess, ModelError> {
        if let Some(key) = &self.config.provider(provider).key {
            let base_url = self.base_url(provider, None);
            return Ok(ProviderAccess { base_url, key: Some(key.value.clone()), login: None });
        }
        let login = self.logins().map_err(auth_error)?.for_provider(provider).cloned();
        let base_url = self.base_url(provider, login.as_ref());
        match login {
            Some(login) if self.is_login_for_base_url(provider, &login) => {
                let (keys, of) = (self.keys.clone(), login.clone());
                let key = spawn_blocking(move || keys.key(provider, &of)).await;
                let key = key.map_err(|_panic| auth_error("asking for the key failed"))?;
                let key = key.map_err(auth_error)?;
                secrets::add_key(&key);
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
                Err(auth_error(format!("there is no key for {}: {how}", provider.name())))
            }
        }
    }

    /// Returns where a provider answers: as configured, else where a login's key belongs.
    fn base_url(&self, provider: Provider, login: Option<&Login>) -> Option<String> {
        let configured = self.config.provider(provider).base_url.as_ref();
        let configured = configured.map(|url| url.value.clone());
        configured.or_else(|| login?.base_url.clone())
    }

    /// Returns the size of a provider's context, as configured.
    fn context_tokens(&self, provider: Provider) -> Option<u64> {
        self.config.provider(provider).context_tokens.as_ref().map(|tokens| tokens.value.get())
    }

    fn settings(
        &self,
        provider: Provider,
        model: String,
        access: &ProviderAccess,
    ) -> ProviderSettings {
        let configured = self.config.provider(provider);
        ProviderSettings {
            provider,
            model,
            base_url: access.base_url.clone(),
            key: access.key.clone(),
            ca_file: configured.ca_file.as_ref().map(|file| file.value.clone()),
            tools: configured.tools.as_ref().map(|tools| tools.value).unwrap_or_default(),
            context_tokens: self.context_tokens(provider),
        }
    }
}

/// The providers that are looked for by a key or a server's address, in this order. Ollama is not
/// among them: it is looked for where it runs.
const KEYED_PROVIDERS: [Provider; 4] =
    [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiResponses, Provider::Gemini];

/// Returns an address as it is compared.
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
