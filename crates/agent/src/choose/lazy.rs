//! A model that is looked for when it is needed: its key, or which one it is.
//!
//! It knows nothing of sessions.

use std::sync::{Arc, Mutex, OnceLock};

use callboard_models::direct::{self, Direct};
use callboard_models::provider::{Provider, Settings};
use callboard_models::{Event, Fault, Model, ModelError, Reply, Request, Traits};
use futures::future::{BoxFuture, FutureExt as _};
use futures::{StreamExt as _, stream};

use super::{Access, AtHand, CONNECT, Chooser, lock, spec};
use crate::keys::Login;
use crate::limits::MAX_FOUND_MODELS;

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
    /// What its name tells of what it takes.
    expected: OnceLock<Traits>,
    state: Mutex<Option<Result<Open, ModelError>>>,
    /// Held by the one who looks.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct Open {
    /// As `--model` names it.
    name: String,
    model: Arc<dyn Model>,
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
        lazy.0.know(spec(provider, &model), why);
        lazy
    }

    /// Makes the model that is the first to be found, and `direct` while there is none.
    pub(super) fn any(chooser: Arc<Chooser>) -> Self {
        Self(Arc::new(Inner {
            chooser,
            name: OnceLock::new(),
            why: OnceLock::new(),
            expected: OnceLock::new(),
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
        Ok(self.0.name.get().is_some())
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
            drop(self.settle().await);
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
                    inner.read_logins().await;
                    inner.look().await
                }
            };
            match opened {
                Ok(open) => {
                    let of = Provider::parse(&open.name).map(|(provider, _)| provider);
                    let advised = move |event| match (event, of) {
                        (Event::Error(error), Some(of)) => {
                            Event::Error(inner.chooser.advised(of, error))
                        }
                        (event, _) => event,
                    };
                    open.model.reply(request).map(advised).boxed()
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
                self.chooser.login_used(*provider) == *login
            }
            Some(Ok(Open { login: None, .. })) => self.name.get().is_some(),
            _ => false,
        }
    }

    /// Reads which logins there are, where they matter.
    async fn read_logins(&self) {
        let named = self.name.get().and_then(|name| Provider::parse(name));
        if named.is_none_or(|(provider, _)| !self.chooser.has_key(provider)) {
            self.chooser.read_logins().await;
        }
    }

    /// What a model takes, as far as its name tells.
    fn expected(&self) -> Traits {
        let named = self.name.get().and_then(|name| Provider::parse(name));
        let Some((provider, model)) = named else {
            return Traits { scripted: true, ..Traits::default() };
        };
        *self.expected.get_or_init(|| {
            let login = self.chooser.login(provider);
            let base_url = self.chooser.base_url(provider, login.as_ref());
            let shut = Access { base_url, key: None, login };
            let settings = self.chooser.settings(provider, model.to_owned(), &shut);
            self.chooser.reach.connect(settings).traits()
        })
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
        match self.chooser.local().await.into_iter().next() {
            Some(settings) => {
                let why = format!("it answers at {}", settings.base_url.as_deref().unwrap_or("?"));
                let open = self.connect(settings.clone(), None, Some(settings));
                self.know(open.name.clone(), Some(why));
                Ok(open)
            }
            None => {
                let name = direct::NAME.to_owned();
                Ok(Open { name, model: Arc::new(Direct::with_closing(CONNECT)), login: None })
            }
        }
    }

    async fn open(&self, provider: Provider, model: Option<String>) -> Result<Open, ModelError> {
        let chooser = &self.chooser;
        let found = model.as_ref().and_then(|model| chooser.found_model(provider, model));
        if let Some(settings) = found {
            return Ok(self.connect(settings.clone(), None, Some(settings)));
        }
        let access = chooser.access(provider).await?;
        let decides = (!chooser.has_key(provider)).then(|| (provider, access.login.clone()));
        let mut settings = chooser.settings(provider, model.unwrap_or_default(), &access);
        if settings.model.is_empty() {
            let models = chooser.reach.models(settings.clone()).await;
            let models = models.map_err(|error| chooser.advised(provider, error))?;
            settings.model = models.into_iter().next().ok_or_else(|| ModelError {
                fault: Fault::Other,
                message: format!("{} lists no model; name one", provider.name()),
                status: None,
                retry_after: None,
            })?;
        }
        Ok(self.connect(settings, decides, None))
    }

    /// Connects, and remembers the model for those who choose; `found` is how to reach it again, if
    /// no configuration tells that.
    fn connect(
        &self,
        settings: Settings,
        login: Option<(Provider, Option<Login>)>,
        found: Option<Settings>,
    ) -> Open {
        let name = spec(settings.provider, &settings.model);
        let mut known = lock(&self.chooser.found);
        if known.iter().all(|(other, _)| *other != name) && known.len() < MAX_FOUND_MODELS {
            known.push((name.clone(), found));
        }
        Open { name, model: self.chooser.reach.connect(settings), login }
    }
}
