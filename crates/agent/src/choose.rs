//! Which model there is to talk to: by configuration, a key, a login, a server that answers.
//!
//! It knows nothing of sessions. The order is in [`Chooser::at_hand`] and, where the network has to
//! be asked, in `lazy.rs`.

mod advice;
mod explore;
mod lazy;
mod reach;
mod report;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_models::provider::{Key, Provider, Settings};
use callboard_models::{Event, Fault, Model, ModelError, Reply, Request, SpecError, Traits};
use futures::future::{BoxFuture, FutureExt as _, ready};
use futures::{StreamExt as _, stream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::config::{Config, ProviderConfig};
use crate::keys::{KeyError, KeyStore, Login, Logins};
use crate::{limits, secrets};
use callboard_runtime::{BuiltIn, Catalogue, Choice, MAX_LISTED_CHOICES, one_at_a_time};

use explore::ServerModels;
use lazy::Lazy;
pub(crate) use reach::{Network, Reach};

/// The models that the user can be given, as they are configured.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    chooser: Arc<Chooser>,
    /// The model of every new session, once [`Choices::settle`] has found it.
    settled: Option<Lazy>,
    /// Whether a list of models is shown.
    has_menu: bool,
    builtin: BuiltIn,
}

/// What is known of the user's models, and how to reach them.
#[derive(Debug)]
struct Chooser {
    config: Config,
    keys: KeyStore,
    reach: Box<dyn Reach>,
    /// The logins, as they were read last; none before that.
    logins: Mutex<Option<Result<Logins, KeyError>>>,
    /// Held by the one who reads them, so that a file that cannot be read holds up one thread only.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// Models that were opened, and how to reach those that no configuration tells of: on this
    /// machine.
    found: Mutex<Vec<(String, Option<Settings>)>>,
    /// The models that servers listed.
    listed: Mutex<Vec<ServerModels>>,
    /// Held by the one who asks for them.
    exploring: tokio::sync::Mutex<()>,
    /// The last logins whose keys the keyring gave.
    unlocked: Mutex<Vec<Login>>,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoModel {
    /// The user named one that there is not.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The one that was found cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Nothing is at hand, and the logins cannot be read: the user may have set one up.
    #[error("no model is found, and the logins cannot be read: {0}")]
    Logins(KeyError),
}

/// What there is at hand to choose without asking the network or a keyring.
#[derive(Debug, PartialEq, Eq)]
enum AtHand {
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
struct Access {
    base_url: Option<String>,
    key: Option<Key>,
    /// Where the key is from, if it was stored.
    login: Option<Login>,
}

impl Choices {
    /// Takes what is configured, and where keys are stored.
    pub(crate) fn new(config: Config, keys: KeyStore, reach: impl Reach) -> Self {
        for provider in Provider::ALL {
            // A variable that the user named may have any name, and so look like no secret.
            config.provider(provider).key.iter().for_each(|key| secrets::learn(&key.value));
        }
        let chooser = Chooser {
            config,
            keys,
            reach: Box::new(reach),
            logins: Mutex::default(),
            reading: Arc::default(),
            found: Mutex::default(),
            listed: Mutex::default(),
            exploring: tokio::sync::Mutex::default(),
            unlocked: Mutex::default(),
        };
        let builtin = BuiltIn::default().with_help(CONNECT);
        Self { chooser: Arc::new(chooser), settled: None, has_menu: true, builtin }
    }

    /// Asks no server for a menu, because nobody sees one.
    pub(crate) fn without_menu(self) -> Self {
        Self { has_menu: false, ..self }
    }

    /// Returns what is configured.
    pub(crate) fn config(&self) -> &Config {
        &self.chooser.config
    }

    /// Looks now for the model that a prompt gets. `callboard exec` runs with it, and `callboard
    /// models` names it. None if nothing is set up: `direct` only stands in for a model.
    ///
    /// # Errors
    ///
    /// Why the model that was chosen cannot be used.
    pub(crate) async fn settle(&mut self) -> Result<Option<Arc<dyn Model>>, NoModel> {
        if let Some(named) = &self.chooser.config.model {
            return Ok(Some(self.open(&named.value)?));
        }
        self.chooser.read_logins().await;
        let lazy = self.lazy();
        let found = lazy.settle().await?;
        self.settled = Some(lazy.clone());
        if found {
            return Ok(Some(Arc::new(lazy)));
        }
        self.chooser.logins().map(|_| None).map_err(NoModel::Logins)
    }

    /// Makes the model that new sessions get. What has to be looked for is looked for at the first
    /// prompt. It reads the file of logins: it is for the start, before anybody is served.
    ///
    /// # Errors
    ///
    /// If the user named a model that there is not.
    pub(crate) fn chosen(&self) -> Result<Arc<dyn Model>, SpecError> {
        match &self.chooser.config.model {
            Some(named) => self.open(&named.value),
            None => {
                self.chooser.take_in(self.chooser.keys.logins());
                Ok(Arc::new(self.lazy()))
            }
        }
    }

    /// Makes the model that the user did not name.
    fn lazy(&self) -> Lazy {
        let chooser = self.chooser.clone();
        match chooser.at_hand() {
            AtHand::Provider { provider, model: Some(model), why } => {
                Lazy::named(chooser, provider, model, Some(why))
            }
            _ => Lazy::any(chooser),
        }
    }
}

impl Catalogue for Choices {
    fn refresh(&self) -> BoxFuture<'_, ()> {
        self.chooser.read_logins().boxed()
    }

    fn explore(&self) -> BoxFuture<'_, ()> {
        if self.has_menu { self.chooser.explore().boxed() } else { ready(()).boxed() }
    }

    fn list(&self) -> Vec<Choice> {
        let chooser = &self.chooser;
        let mut names: Vec<String> = match chooser.at_hand() {
            AtHand::Named(name) => vec![name],
            AtHand::Provider { provider, model, .. } => {
                model.iter().map(|model| provider.spec(model)).collect()
            }
            AtHand::Nothing => Vec::new(),
        };
        names.extend(lock(&chooser.found).iter().map(|(name, _)| name.clone()));
        for provider in Provider::ALL {
            let models = chooser.config.provider(provider).models.iter();
            names.extend(models.flat_map(|it| &it.value).map(|model| provider.spec(model)));
        }
        names.extend(chooser.with_keys().filter_map(|provider| {
            chooser.model_of(provider).map(|(provider, model)| provider.spec(&model))
        }));
        let builtin = self.builtin.list();
        let room = MAX_LISTED_CHOICES - builtin.len();
        names.extend(chooser.listed_models(room.saturating_sub(names.len())));
        let mut choices = Vec::new();
        for name in names.into_iter().filter(|name| Provider::parse(name).is_some()) {
            if choices.iter().all(|choice: &Choice| choice.value != name) {
                choices.push(Choice::new(name.clone(), name));
            }
        }
        choices.truncate(room);
        choices.extend(builtin);
        choices
    }

    fn first(&self) -> Option<Arc<dyn Model>> {
        if self.chooser.config.model.is_some() {
            return None;
        }
        // There may have been a login since the last one.
        Some(Arc::new(self.settled.clone().unwrap_or_else(|| self.lazy())))
    }

    /// A login may come later, and with it a model of any kind.
    fn takes(&self) -> Traits {
        Traits::new().with_images().with_audio()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Model>, SpecError> {
        match Provider::parse(name) {
            Some((provider, model)) => {
                let model = model.to_owned();
                Ok(Arc::new(Lazy::named(self.chooser.clone(), provider, model, None)))
            }
            None => self.builtin.open(name),
        }
    }

    fn help(&self) -> &str {
        self.builtin.help()
    }
}

/// The model of an agent whose configuration cannot be used: it says why, and breaks every reply off.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl Model for Broken {
    fn name(&self) -> &'static str {
        "none"
    }

    fn reply(&self, _: Request) -> Reply {
        let message = format!("{}; mend it, and restart the agent", self.0);
        stream::iter([Event::Error(ModelError::new(Fault::Other, message))]).boxed()
    }
}

/// How to connect another model, in three lines.
pub(crate) const CONNECT: &str = "To connect a model:\n\n\
    - run `callboard login` in a terminal, or set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or \
    `GEMINI_API_KEY`;\n\
    - or start Ollama, llama.cpp or LM Studio on this machine: it is found at the next prompt;\n\
    - or name any model with `/model PROVIDER/NAME`, `--model`, `CALLBOARD_MODEL` or the configuration.";

impl Chooser {
    /// Chooses: what the user named; a key in the environment; a login; a server that the user
    /// named.
    fn at_hand(&self) -> AtHand {
        if let Some(model) = &self.config.model {
            return AtHand::Named(model.value.clone());
        }
        let place = |source| self.config.file.place(source);
        let of_key = |provider: &Provider| {
            let key = self.config.provider(*provider).key.as_ref()?;
            Some((*provider, format!("`{}` is set", place(&key.source))))
        };
        let of_login = |provider: &Provider| {
            let login = self.login(*provider)?;
            self.fits(*provider, &login)
                .then(|| (*provider, format!("you are logged in to {}", provider.name())))
        };
        let of_server = |provider: &Provider| {
            let url = self.config.provider(*provider).base_url.as_ref()?;
            Some((*provider, format!("{} names its server", place(&url.source))))
        };
        let found = KEYED.iter().find_map(of_key);
        let found = found.or_else(|| KEYED.iter().chain([&Provider::Ollama]).find_map(of_login));
        let Some((provider, why)) = found.or_else(|| KEYED.iter().find_map(of_server)) else {
            return AtHand::Nothing;
        };
        match self.model_of(provider) {
            Some((provider, model)) => AtHand::Provider { provider, model: Some(model), why },
            None => AtHand::Provider { provider, model: None, why },
        }
    }

    /// Returns the model that stands for a provider: the first that is configured, else our choice.
    /// None where only its server knows, because it is not the provider's own.
    fn model_of(&self, provider: Provider) -> Option<(Provider, String)> {
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
    fn with_keys(&self) -> impl Iterator<Item = Provider> {
        KEYED
            .into_iter()
            .filter(|provider| self.has_key(*provider) || self.login(*provider).is_some())
    }

    /// Reads which logins there are by now. Where that takes too long, it is known later.
    async fn read_logins(self: &Arc<Self>) {
        let chooser = self.clone();
        let read = move |(): &mut ()| chooser.take_in(chooser.keys.logins());
        let read = one_at_a_time(&self.reading, read);
        drop(timeout(limits::FILE_DEADLINE, read).await);
    }

    fn take_in(&self, logins: Result<Logins, KeyError>) {
        *lock(&self.logins) = Some(logins);
    }

    /// Returns the logins, as they were read last.
    fn logins(&self) -> Result<Logins, KeyError> {
        let unread = || Err(KeyError::new("the stored logins could not be read in time"));
        lock(&self.logins).clone().unwrap_or_else(unread)
    }

    /// Returns the login of a provider. One that cannot be read is told where its key is needed.
    fn login(&self, provider: Provider) -> Option<Login> {
        self.logins().ok()?.of(provider).cloned()
    }

    /// Returns the login whose key a provider is told, or none: a configured key comes before it.
    fn login_used(&self, provider: Provider) -> Option<Login> {
        let login = self.login(provider).filter(|login| self.fits(provider, login));
        login.filter(|_| !self.has_key(provider))
    }

    /// Whether a provider's key is configured, so that no login matters.
    fn has_key(&self, provider: Provider) -> bool {
        self.config.provider(provider).key.is_some()
    }

    /// Whether a login's key is for the address that is configured: it goes to no other.
    fn fits(&self, provider: Provider, login: &Login) -> bool {
        let configured = self.config.provider(provider).base_url.as_ref();
        configured.is_none_or(|url| login.base_url.as_deref().map(bare) == Some(bare(&url.value)))
    }

    /// Finds what it takes to be let in. Asks the keyring only if it holds the key.
    async fn access(&self, provider: Provider) -> Result<Access, ModelError> {
        if let Some(key) = &self.config.provider(provider).key {
            let base_url = self.base_url(provider, None);
            return Ok(Access { base_url, key: Some(key.value.clone()), login: None });
        }
        let login = self.logins().map_err(denied)?.of(provider).cloned();
        let base_url = self.base_url(provider, login.as_ref());
        match login {
            Some(login) if self.fits(provider, &login) => {
                let (keys, of) = (self.keys.clone(), login.clone());
                let key = spawn_blocking(move || keys.key(provider, &of)).await;
                let key = key.map_err(|_panic| denied("asking for the key failed"))?;
                let key = key.map_err(denied)?;
                secrets::learn(&key);
                let mut unlocked = lock(&self.unlocked);
                if !unlocked.contains(&login) {
                    unlocked.truncate(Provider::ALL.len() - 1);
                    unlocked.insert(0, login.clone());
                }
                Ok(Access { base_url, key: Some(key), login: Some(login) })
            }
            _ if !provider.needs_key(base_url.as_deref()) => {
                Ok(Access { base_url, key: None, login: None })
            }
            _ => {
                let how = self.how_to_set_key(provider);
                Err(denied(format!("there is no key for {}: {how}", provider.name())))
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

    fn settings(&self, provider: Provider, model: String, access: &Access) -> Settings {
        let configured = self.config.provider(provider);
        Settings {
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
const KEYED: [Provider; 4] =
    [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiResponses, Provider::Gemini];

/// Returns an address as it is compared.
fn bare(url: &str) -> &str {
    url.trim_end_matches('/')
}

fn denied(message: impl ToString) -> ModelError {
    ModelError::new(Fault::Auth, message.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
