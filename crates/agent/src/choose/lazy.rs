//! A model that is looked for when it is needed: its key, or which one it is.
//!
//! It knows nothing of sessions.

use std::sync::{Arc, Mutex, OnceLock};

use callboard_models::direct::Direct;
use callboard_models::provider::{Provider, Settings};
use callboard_models::{
    Event, Fault, Model, ModelError, PromptCommand, Reply, Request, ToolSpec, Traits,
};
use futures::future::{BoxFuture, FutureExt as _};
use futures::{StreamExt as _, stream};

use super::{Access, AtHand, CONNECT, Chooser, lock};
use crate::keys::Login;
use crate::limits::MAX_FOUND_MODELS;

/// A model that opens itself at the first prompt.
#[derive(Debug, Clone)]
pub(super) struct Lazy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    chooser: Arc<Chooser>,
    /// Which model it is, once that is known; until then it is `direct`.
    which: OnceLock<Which>,
    /// That model without its key, for its traits.
    shut: OnceLock<Arc<dyn Model>>,
    direct: Arc<dyn Model>,
    state: Mutex<Option<Result<Open, ModelError>>>,
    /// Held by the one who looks.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Which {
    provider: Provider,
    model: String,
    /// As `--model` names it.
    name: String,
    /// Why it was chosen, if no name was given.
    why: Option<String>,
}

#[derive(Debug, Clone)]
struct Open {
    model: Arc<dyn Model>,
    /// Whose model it is; none for `direct`.
    provider: Option<Provider>,
    /// The provider whose login decides which key it has, and that login, if there was one; none
    /// where no login matters.
    login: Option<(Provider, Option<Login>)>,
}

impl Lazy {
    /// Makes a model of a provider; `why` is told if the user did not name it.
    pub(super) fn named(
        chooser: Arc<Chooser>,
        provider: Provider,
        model: String,
        why: Option<String>,
    ) -> Self {
        let lazy = Self::any(chooser);
        lazy.0.know(provider, model, why);
        lazy
    }

    /// Makes the model that is the first to be found, and `direct` while there is none.
    pub(super) fn any(chooser: Arc<Chooser>) -> Self {
        Self(Arc::new(Inner {
            chooser,
            which: OnceLock::new(),
            shut: OnceLock::new(),
            direct: Arc::new(Direct::with_closing(CONNECT)),
            state: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }))
    }

    /// Looks for the model, unless it is open. Returns whether there is one: `direct` only stands
    /// in.
    pub(super) async fn settle(&self) -> Result<bool, ModelError> {
        let _one = self.0.looking.lock().await;
        self.0.read_logins().await;
        if !self.0.is_current() {
            drop(self.0.look().await?);
        }
        Ok(self.0.which.get().is_some())
    }
}

impl Model for Lazy {
    fn name(&self) -> &str {
        self.0.which.get().map_or(self.0.direct.name(), |which| which.name.as_str())
    }

    fn traits(&self) -> Traits {
        self.0.known().traits()
    }

    fn commands(&self, tools: &[ToolSpec]) -> Vec<PromptCommand> {
        self.0.known().commands(tools)
    }

    fn help(&self, tools: &[ToolSpec]) -> Option<String> {
        self.0.known().help(tools)
    }

    fn misunderstood(&self, prompt: &str) -> Option<String> {
        self.0.known().misunderstood(prompt)
    }

    fn prepare(&self) -> BoxFuture<'_, Option<String>> {
        async move {
            drop(self.settle().await);
            let Which { name, why, .. } = self.0.which.get()?;
            let is_open = matches!(&*lock(&self.0.state), Some(Ok(_)));
            let why = why.as_ref().filter(|_| is_open)?;
            Some(format!("The model is `{name}`, because {why}."))
        }
        .boxed()
    }

    fn reply(&self, request: Request) -> Reply {
        let inner = self.0.clone();
        let reply = async move {
            let opened = lock(&inner.state).clone();
            let opened = match opened {
                Some(opened) => opened,
                None => {
                    let _one = inner.looking.lock().await;
                    inner.read_logins().await;
                    inner.look().await
                }
            };
            match opened {
                Ok(Open { model, provider, .. }) => {
                    let advised = move |event| match (event, provider) {
                        (Event::Error(error), Some(of)) => {
                            Event::Error(inner.chooser.advised(of, error))
                        }
                        (event, _) => event,
                    };
                    model.reply(request).map(advised).boxed()
                }
                Err(error) => {
                    // Another attempt looks anew.
                    *lock(&inner.state) = None;
                    stream::iter([Event::Error(error)]).boxed()
                }
            }
        };
        stream::once(reply).flatten().boxed()
    }
}

impl Inner {
    fn know(&self, provider: Provider, model: String, why: Option<String>) {
        let name = provider.spec(&model);
        // The first that is known stays.
        drop(self.which.set(Which { provider, model, name, why }));
    }

    /// Returns the model as far as it is known.
    fn known(&self) -> Arc<dyn Model> {
        if let Some(Ok(open)) = &*lock(&self.state) {
            return open.model.clone();
        }
        let Some(Which { provider, model, .. }) = self.which.get() else {
            return self.direct.clone();
        };
        let connect = || {
            let login = self.chooser.login(*provider);
            let base_url = self.chooser.base_url(*provider, login.as_ref());
            let shut = Access { base_url, key: None, login };
            self.chooser.reach.connect(self.chooser.settings(*provider, model.clone(), &shut))
        };
        self.shut.get_or_init(connect).clone()
    }

    /// Whether what is open need not be looked for again: `direct` is only what is there meanwhile,
    /// and a login may have changed, also in another process.
    fn is_current(&self) -> bool {
        match &*lock(&self.state) {
            Some(Ok(Open { login: Some((provider, login)), .. })) => {
                self.chooser.login_used(*provider) == *login
            }
            Some(Ok(Open { login: None, .. })) => self.which.get().is_some(),
            _ => false,
        }
    }

    /// Reads which logins there are, where they matter.
    async fn read_logins(&self) {
        if self.which.get().is_none_or(|which| !self.chooser.has_key(which.provider)) {
            self.chooser.read_logins().await;
        }
    }

    async fn look(&self) -> Result<Open, ModelError> {
        let found = match self.which.get() {
            Some(Which { provider, model, .. }) => {
                self.open(*provider, Some(model.clone()), None).await
            }
            None => self.find().await,
        };
        *lock(&self.state) = Some(found.clone());
        found
    }

    /// Looks for what is at hand by now, then for a server on this machine.
    async fn find(&self) -> Result<Open, ModelError> {
        if let AtHand::Provider { provider, model, why } = self.chooser.at_hand() {
            return self.open(provider, model, Some(why)).await;
        }
        let Some(settings) = self.chooser.local().await.into_iter().next() else {
            return Ok(Open { model: self.direct.clone(), provider: None, login: None });
        };
        let why = format!("it answers at {}", settings.base_url.as_deref().unwrap_or("?"));
        Ok(self.connect(settings.clone(), None, Some(settings), Some(why)))
    }

    async fn open(
        &self,
        provider: Provider,
        model: Option<String>,
        why: Option<String>,
    ) -> Result<Open, ModelError> {
        let chooser = &self.chooser;
        let found = model.as_ref().and_then(|model| chooser.found_model(provider, model));
        if let Some(settings) = found {
            return Ok(self.connect(settings.clone(), None, Some(settings), why));
        }
        let access = chooser.access(provider).await?;
        let decides = (!chooser.has_key(provider)).then(|| (provider, access.login.clone()));
        let mut settings = chooser.settings(provider, model.unwrap_or_default(), &access);
        if settings.model.is_empty() {
            let models = chooser.reach.models(settings.clone()).await;
            let models = models.map_err(|error| chooser.advised(provider, error))?;
            settings.model = models.into_iter().next().ok_or_else(|| {
                let message = format!("{} lists no model; name one", provider.name());
                ModelError::new(Fault::Other, message)
            })?;
        }
        Ok(self.connect(settings, decides, None, why))
    }

    /// Connects, and remembers the model for those who choose; `found` is how to reach it again, if
    /// no configuration tells that.
    fn connect(
        &self,
        settings: Settings,
        login: Option<(Provider, Option<Login>)>,
        found: Option<Settings>,
        why: Option<String>,
    ) -> Open {
        let provider = settings.provider;
        let name = provider.spec(&settings.model);
        let mut known = lock(&self.chooser.found);
        if known.iter().all(|(other, _)| *other != name) && known.len() < MAX_FOUND_MODELS {
            known.push((name, found));
        }
        self.know(provider, settings.model.clone(), why);
        Open { model: self.chooser.reach.connect(settings), provider: Some(provider), login }
    }
}
