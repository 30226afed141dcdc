//! A model that is looked for when it is needed: its key, or which one it is.
//!
//! It knows nothing of sessions.

use std::sync::{Arc, Mutex, OnceLock};

use futures::future::{BoxFuture, FutureExt as _};
use futures::{StreamExt as _, stream};

use super::{Access, AtHand, Chooser, lock, spec};
use crate::keys::Login;
use crate::limits::MAX_FOUND_MODELS;
use crate::model::direct::{self, Direct};
use crate::model::provider::{Provider, Settings};
use crate::model::{Event, Fault, Model, ModelError, Reply, Request, Traits};

/// A model that opens itself at the first prompt.
#[derive(Debug, Clone)]
pub(super) struct Lazy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    chooser: Arc<Chooser>,
    /// The model, once it is known which; until then it is `direct`.
    name: OnceLock<String>,
    /// Why it was chosen, if nobody named it.
    why: OnceLock<String>,
    state: Mutex<Option<Result<Open, ModelError>>>,
    /// Held by the one who looks.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct Open {
    /// As `--model` names it.
    name: String,
    model: Arc<dyn Model>,
    /// The login whose key it has.
    login: Option<(Provider, Login)>,
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
        lazy.0.know(spec(provider, &model), why);
        lazy
    }

    /// Makes the model that is the first to be found, and `direct` while there is none.
    pub(super) fn any(chooser: Arc<Chooser>) -> Self {
        Self(Arc::new(Inner {
            chooser,
            name: OnceLock::new(),
            why: OnceLock::new(),
            state: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }))
    }
}

impl Model for Lazy {
    fn name(&self) -> &str {
        self.0.name.get().map_or(direct::NAME, String::as_str)
    }

    fn traits(&self) -> Traits {
        match &*lock(&self.0.state) {
            Some(Ok(open)) => open.model.traits(),
            _ => self.0.expected(),
        }
    }

    fn prepare(&self) -> BoxFuture<'_, Option<String>> {
        async move {
            let _one = self.0.looking.lock().await;
            if !self.0.is_current() {
                drop(self.0.look().await);
            }
            let (name, why) = (self.0.name.get()?, self.0.why.get()?);
            let is_open = matches!(&*lock(&self.0.state), Some(Ok(_)));
            is_open.then(|| format!("The model is `{name}`, because {why}."))
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
                    inner.look().await
                }
            };
            match opened {
                Ok(open) => open.model.reply(request),
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
    fn know(&self, name: String, why: Option<String>) {
        // The first that is known stays.
        drop(self.name.set(name));
        if let Some(why) = why {
            drop(self.why.set(why));
        }
    }

    /// Whether what is open need not be looked for again: `direct` is only what is there meanwhile,
    /// and a login may have changed, also in another process.
    fn is_current(&self) -> bool {
        match &*lock(&self.state) {
            Some(Ok(Open { login: Some((provider, login)), .. })) => {
                self.chooser.login(*provider).as_ref() == Some(login)
            }
            Some(Ok(Open { login: None, .. })) => self.name.get().is_some(),
            _ => false,
        }
    }

    /// What a model takes, as far as its name tells.
    fn expected(&self) -> Traits {
        let named = self.name.get().and_then(|name| Provider::parse(name));
        let Some((provider, model)) = named else { return Traits::default() };
        let nowhere = Access { base_url: None, key: None, login: None };
        let settings = self.chooser.settings(provider, model.to_owned(), &nowhere);
        self.chooser.reach.connect(settings).traits()
    }

    async fn look(&self) -> Result<Open, ModelError> {
        let found = match self.name.get().and_then(|name| Provider::parse(name)) {
            Some((provider, model)) => self.open(provider, Some(model.to_owned())).await,
            None => self.find().await,
        };
        *lock(&self.state) = Some(found.clone());
        found
    }

    /// Looks for what is at hand by now, then for a server on this machine.
    async fn find(&self) -> Result<Open, ModelError> {
        let at_hand = self.chooser.at_hand();
        if let AtHand::Provider { provider, model, why } = at_hand {
            let open = self.open(provider, model).await?;
            self.know(open.name.clone(), Some(why));
            return Ok(open);
        }
        match self.chooser.local().await {
            Some(settings) => {
                let why = format!("it answers at {}", settings.base_url.as_deref().unwrap_or("?"));
                let open = self.connect(settings, None);
                self.know(open.name.clone(), Some(why));
                Ok(open)
            }
            None => {
                let name = direct::NAME.to_owned();
                Ok(Open { name, model: Arc::new(Direct), login: None })
            }
        }
    }

    async fn open(&self, provider: Provider, model: Option<String>) -> Result<Open, ModelError> {
        let chooser = &self.chooser;
        let access = chooser.access(provider).await?;
        let mut settings = chooser.settings(provider, model.unwrap_or_default(), &access);
        if settings.model.is_empty() {
            let models = chooser.reach.models(settings.clone()).await?;
            settings.model = models.into_iter().next().ok_or_else(|| ModelError {
                fault: Fault::Other,
                message: format!("{} lists no model; name one", provider.name()),
                status: None,
                retry_after: None,
            })?;
        }
        Ok(self.connect(settings, access.login.map(|login| (provider, login))))
    }

    /// Connects, and remembers the model for those who choose.
    fn connect(&self, settings: Settings, login: Option<(Provider, Login)>) -> Open {
        let name = spec(settings.provider, &settings.model);
        let mut found = lock(&self.chooser.found);
        if !found.contains(&name) && found.len() < MAX_FOUND_MODELS {
            found.push(name.clone());
        }
        Open { name, model: self.chooser.reach.connect(settings), login }
    }
}
