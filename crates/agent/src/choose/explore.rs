//! Fills the list of models from what servers list, beside everything else.

use futures::future::join_all;

use super::{Chooser, Provider, Server, Settings, lock, spec};
use crate::keys::Login;
use crate::limits::{MAX_CHOICES, MAX_FOUND_MODELS};

impl Chooser {
    /// Asks for their models: the servers that there is a key or an address for, that of the model
    /// which the user named, and those that were found on this machine. Each is asked until it has
    /// answered once, within [`limits::MODEL_LIST_DEADLINE`](crate::limits::MODEL_LIST_DEADLINE).
    pub(super) async fn explore(&self) {
        // Of two sessions that begin together, the second one finds what the first one learned.
        let _one = self.exploring.lock().await;
        let named = self.config.model.as_ref().and_then(|named| Provider::parse(&named.value));
        let is_asked =
            |of: &Provider| self.is_reported(*of) || named.is_some_and(|(named, _)| named == *of);
        let configured = Provider::ALL.into_iter().filter(is_asked);
        let configured = configured.map(|provider| self.explore_configured(provider));
        let found: Vec<_> = lock(&self.found).iter().filter_map(|(_, it)| it.clone()).collect();
        let found = found.into_iter().map(|it| self.explore_server(it.provider, it, None));
        futures::join!(join_all(configured), join_all(found));
    }

    async fn explore_configured(&self, provider: Provider) {
        // The keyring may ask its user to unlock it. That waits until a prompt needs the key.
        let is_locked =
            |login: &Login| login.needs_keyring() && !lock(&self.unlocked).contains(login);
        if self.login_used(provider).as_ref().is_some_and(is_locked) {
            return;
        }
        let Ok(access) = self.access(provider).await else { return };
        let settings = self.settings(provider, String::new(), &access);
        // The dialect that its models are used with.
        let by = self.model_of(provider).map_or(provider, |(by, _)| by);
        self.explore_server(by, settings, access.login).await;
    }

    async fn explore_server(&self, by: Provider, settings: Settings, login: Option<Login>) {
        let server: Server = (settings.provider, settings.base_url.clone(), login);
        if lock(&self.listed).iter().any(|(known, _)| *known == server) {
            return;
        }
        match self.reach.models(settings).await {
            Ok(models) => {
                let names = models.iter().take(MAX_CHOICES).map(|model| spec(by, model)).collect();
                let mut listed = lock(&self.listed);
                listed.retain(|(known, _)| (known.0, &known.1) != (server.0, &server.1));
                if listed.len() < MAX_FOUND_MODELS {
                    listed.push((server, names));
                }
            }
            Err(error) => tracing::debug!(%error, "a server did not list its models"),
        }
    }

    /// Returns the models that servers listed, but for those of a login that is gone.
    pub(super) fn listed_models(&self) -> Vec<String> {
        let listed = lock(&self.listed).clone();
        let is_current =
            |(provider, _, login): &Server| login.is_none() || self.login_used(*provider) == *login;
        listed.into_iter().filter(|(of, _)| is_current(of)).flat_map(|(_, names)| names).collect()
    }
}
