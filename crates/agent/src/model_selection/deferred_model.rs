//! A model that is resolved late: its key or its name is determined only when the model is needed.

use std::sync::{Arc, Mutex, OnceLock};

use callboard_models::direct::DirectModel;
use callboard_models::provider::{Provider, ProviderSettings};
use callboard_models::{
    Model, ModelCapabilities, ModelError, ModelErrorKind, ModelEvent, ModelRequest, PromptCommand,
    ReplyStream, ToolSpec,
};
use futures::future::{BoxFuture, FutureExt as _};
use futures::{StreamExt as _, stream};

use super::{CONNECT_HELP, ModelSelector, OfflineModelSelection, ProviderAccess, lock};
use crate::key_store::Login;
use crate::limits::MAX_FOUND_MODELS;

/// A model that is opened at the first prompt.
#[derive(Debug, Clone)]
pub(super) struct DeferredModel(Arc<DeferredModelState>);

#[derive(Debug)]
struct DeferredModelState {
    selector: Arc<ModelSelector>,
    /// The selected model. Until it is known, `direct` is used.
    chosen: OnceLock<ModelAndChoiceReason>,
    /// The selected model without its key. It provides the capabilities until the model is opened.
    keyless: OnceLock<Arc<dyn Model>>,
    direct: Arc<dyn Model>,
    state: Mutex<Option<Result<ModelAndItsLogin, ModelError>>>,
    /// Locked while the model is resolved.
    resolving: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct ModelAndChoiceReason {
    provider: Provider,
    model: String,
    /// Model spec, as in `--model`.
    name: String,
    /// Reason for the selection, if the user did not name the model.
    why: Option<String>,
}

#[derive(Debug, Clone)]
struct ModelAndItsLogin {
    model: Arc<dyn Model>,
    /// Provider of the model. `None` for `direct`.
    provider: Option<Provider>,
    /// The provider whose login determines the key, and this login, if there is one. `None` if the
    /// model does not depend on a login.
    login: Option<(Provider, Option<Login>)>,
}

impl DeferredModel {
    /// Creates a model of a provider. `why` is shown if the user did not name the model.
    pub(super) fn for_model(
        chooser: Arc<ModelSelector>,
        provider: Provider,
        model: String,
        why: Option<String>,
    ) -> Self {
        let lazy = Self::first_available(chooser);
        lazy.0.set_chosen_model_once(provider, model, why);
        lazy
    }

    /// Creates a model that resolves to the first available model. As long as no model is
    /// available, it resolves to `direct`.
    pub(super) fn first_available(chooser: Arc<ModelSelector>) -> Self {
        Self(Arc::new(DeferredModelState {
            selector: chooser,
            chosen: OnceLock::new(),
            keyless: OnceLock::new(),
            direct: Arc::new(DirectModel::with_text_after_help(CONNECT_HELP)),
            state: Mutex::default(),
            resolving: tokio::sync::Mutex::default(),
        }))
    }

    /// Opens the model, unless it is already open and current. Returns whether there is a model;
    /// `direct` does not count.
    pub(super) async fn open_unless_current(&self) -> Result<bool, ModelError> {
        let _one = self.0.resolving.lock().await;
        self.0.read_logins_unless_key_configured().await;
        if !self.0.is_open_model_current() {
            drop(self.0.open_and_store_model().await?);
        }
        Ok(self.0.chosen.get().is_some())
    }
}

impl Model for DeferredModel {
    fn name(&self) -> &str {
        self.0.chosen.get().map_or(self.0.direct.name(), |which| which.name.as_str())
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.0.best_known_model().capabilities()
    }

    fn commands(&self, tools: &[ToolSpec]) -> Vec<PromptCommand> {
        self.0.best_known_model().commands(tools)
    }

    fn help(&self, tools: &[ToolSpec]) -> Option<String> {
        self.0.best_known_model().help(tools)
    }

    fn prompt_error(&self, prompt: &str) -> Option<String> {
        self.0.best_known_model().prompt_error(prompt)
    }

    fn prepare_for_turn(&self) -> BoxFuture<'_, Option<String>> {
        async move {
            drop(self.open_unless_current().await);
            let ModelAndChoiceReason { name, why, .. } = self.0.chosen.get()?;
            let is_open = matches!(&*lock(&self.0.state), Some(Ok(_)));
            let why = why.as_ref().filter(|_| is_open)?;
            Some(format!("The model is `{name}`, because {why}."))
        }
        .boxed()
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let inner = self.0.clone();
        let reply = async move {
            let opened = lock(&inner.state).clone();
            let opened = match opened {
                Some(opened) => opened,
                None => {
                    let _one = inner.resolving.lock().await;
                    inner.read_logins_unless_key_configured().await;
                    inner.open_and_store_model().await
                }
            };
            match opened {
                Ok(ModelAndItsLogin { model, provider, .. }) => {
                    let advised = move |event| match (event, provider) {
                        (ModelEvent::Error(error), Some(of)) => {
                            ModelEvent::Error(inner.selector.add_key_advice(of, error))
                        }
                        (event, _) => event,
                    };
                    model.reply(request).map(advised).boxed()
                }
                Err(error) => {
                    // The state is cleared, so that a retry resolves the model again.
                    *lock(&inner.state) = None;
                    stream::iter([ModelEvent::Error(error)]).boxed()
                }
            }
        };
        stream::once(reply).flatten().boxed()
    }
}

impl DeferredModelState {
    fn set_chosen_model_once(&self, provider: Provider, model: String, why: Option<String>) {
        let name = provider.model_spec(&model);
        // If `chosen` was set before, it keeps its first value.
        drop(self.chosen.set(ModelAndChoiceReason { provider, model, name, why }));
    }

    /// Returns the open model. If no model is open, returns the best model that is known so far.
    fn best_known_model(&self) -> Arc<dyn Model> {
        if let Some(Ok(open)) = &*lock(&self.state) {
            return open.model.clone();
        }
        let Some(ModelAndChoiceReason { provider, model, .. }) = self.chosen.get() else {
            return self.direct.clone();
        };
        let connect = || {
            let login = self.selector.last_read_login(*provider);
            let base_url = self.selector.configured_or_login_base_url(*provider, login.as_ref());
            let shut = ProviderAccess { base_url, key: None, login };
            self.selector.network.create_model(self.selector.build_provider_settings(
                *provider,
                model.clone(),
                &shut,
            ))
        };
        self.keyless.get_or_init(connect).clone()
    }

    /// Returns whether the open model is still valid. The model must be resolved again if it is
    /// `direct`, which is only temporary. It must also be resolved again if the login has changed,
    /// possibly in another process.
    fn is_open_model_current(&self) -> bool {
        match &*lock(&self.state) {
            Some(Ok(ModelAndItsLogin { login: Some((provider, login)), .. })) => {
                self.selector.active_login(*provider) == *login
            }
            Some(Ok(ModelAndItsLogin { login: None, .. })) => self.chosen.get().is_some(),
            _ => false,
        }
    }

    /// Reads the logins, if the model depends on a login.
    async fn read_logins_unless_key_configured(&self) {
        if self.chosen.get().is_none_or(|which| !self.selector.has_configured_key(which.provider)) {
            self.selector.read_logins_within_timeout().await;
        }
    }

    async fn open_and_store_model(&self) -> Result<ModelAndItsLogin, ModelError> {
        let found = match self.chosen.get() {
            Some(ModelAndChoiceReason { provider, model, .. }) => {
                self.open_provider_model(*provider, Some(model.clone()), None).await
            }
            None => self.find_and_open_model().await,
        };
        *lock(&self.state) = Some(found.clone());
        found
    }

    /// Selects a model from keys and logins. If there is none, searches for servers on this
    /// machine.
    async fn find_and_open_model(&self) -> Result<ModelAndItsLogin, ModelError> {
        if let OfflineModelSelection::Provider { provider, model, why } =
            self.selector.select_offline()
        {
            return self.open_provider_model(provider, model, Some(why)).await;
        }
        let Some(settings) = self.selector.find_local_servers().await.into_iter().next() else {
            return Ok(ModelAndItsLogin {
                model: self.direct.clone(),
                provider: None,
                login: None,
            });
        };
        let why = format!("it answers at {}", settings.base_url.as_deref().unwrap_or("?"));
        Ok(self.choose_and_create_model(settings.clone(), None, Some(settings), Some(why)))
    }

    async fn open_provider_model(
        &self,
        provider: Provider,
        model: Option<String>,
        why: Option<String>,
    ) -> Result<ModelAndItsLogin, ModelError> {
        let chooser = &self.selector;
        let found = model.as_ref().and_then(|model| chooser.local_model_settings(provider, model));
        if let Some(settings) = found {
            return Ok(self.choose_and_create_model(settings.clone(), None, Some(settings), why));
        }
        let access = chooser.resolve_access(provider).await?;
        let decides =
            (!chooser.has_configured_key(provider)).then(|| (provider, access.login.clone()));
        let mut settings =
            chooser.build_provider_settings(provider, model.unwrap_or_default(), &access);
        if settings.model.is_empty() {
            let models = chooser.network.list_models(settings.clone()).await;
            let models = models.map_err(|error| chooser.add_key_advice(provider, error))?;
            settings.model = models.into_iter().next().ok_or_else(|| {
                let message = format!("{} lists no model; name one", provider.name());
                ModelError::new(ModelErrorKind::Other, message)
            })?;
        }
        Ok(self.choose_and_create_model(settings, decides, None, why))
    }

    /// Connects to a model, and adds it to the list of choices. If the configuration does not
    /// describe the model, `found` contains the settings for later connections.
    fn choose_and_create_model(
        &self,
        settings: ProviderSettings,
        login: Option<(Provider, Option<Login>)>,
        found: Option<ProviderSettings>,
        why: Option<String>,
    ) -> ModelAndItsLogin {
        let provider = settings.provider;
        let name = provider.model_spec(&settings.model);
        let mut known = lock(&self.selector.opened_models);
        if known.iter().all(|(other, _)| *other != name) && known.len() < MAX_FOUND_MODELS {
            known.push((name, found));
        }
        self.set_chosen_model_once(provider, settings.model.clone(), why);
        ModelAndItsLogin {
            model: self.selector.network.create_model(settings),
            provider: Some(provider),
            login,
        }
    }
}
