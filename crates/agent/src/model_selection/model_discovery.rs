//! Discovers models in the background, by requesting the lists of servers.

use std::time::Instant;

use callboard_runtime::MAX_CATALOGUE_CHOICES;
use futures::future::join_all;

use super::{ModelSelector, OfflineModelSelection, Provider, ProviderSettings, lock};
use crate::key_store::Login;
use crate::limits::{MAX_FOUND_MODELS, MODEL_LIST_MAX_AGE, MODEL_LIST_RETRY_INTERVAL};

/// The models that a server lists.
#[derive(Debug, Clone)]
pub(super) struct ServerModels {
    /// Dialect for requests to the models of this server.
    dialect: Provider,
    settings: ProviderSettings,
    /// The login whose key was used for the request.
    login: Option<Login>,
    /// Whether the server was found on this machine. The configuration does not describe such a
    /// server.
    is_found: bool,
    models: Vec<String>,
    asked_at: Instant,
    /// Whether the server answered the last request with an error.
    is_failed: bool,
}

impl ServerModels {
    fn new(
        dialect: Provider,
        settings: ProviderSettings,
        login: Option<Login>,
        is_found: bool,
    ) -> Self {
        Self {
            dialect,
            settings,
            login,
            is_found,
            models: Vec::new(),
            asked_at: Instant::now(),
            is_failed: false,
        }
    }

    fn is_same_server(&self, other: &Self) -> bool {
        let address = |it: &Self| (it.settings.provider, it.settings.base_url.clone());
        address(self) == address(other)
    }
}

impl ModelSelector {
    /// Requests the lists of models from these servers: all servers with a key or a URL, the server
    /// of the model that the user named, and servers that were found on this machine. The search
    /// for servers on this machine is done only if no other model is available. A list is reused
    /// for [`MODEL_LIST_MAX_AGE`]. A server that answers with an error is not asked again for
    /// [`MODEL_LIST_RETRY_INTERVAL`].
    pub(super) async fn discover_models(&self) {
        // If two sessions start at the same time, the second session uses the results of the first
        // session.
        let _one = self.exploring.lock().await;
        let named =
            self.config.model.as_ref().and_then(|named| Provider::parse_model_spec(&named.value));
        let is_asked = |of: &Provider| {
            self.has_key_or_base_url(*of) || named.is_some_and(|(named, _)| named == *of)
        };
        let configured = Provider::ALL.into_iter().filter(is_asked);
        let configured = configured.map(|provider| self.discover_models_of_provider(provider));
        let is_none = self.select_offline() == OfflineModelSelection::Nothing;
        let found = async {
            let mut found: Vec<_> =
                lock(&self.opened_models).iter().filter_map(|(_, it)| it.clone()).collect();
            if is_none {
                found.extend(self.find_local_servers().await);
            }
            let found = found.into_iter().map(|it| ServerModels::new(it.provider, it, None, true));
            join_all(found.map(|it| self.refresh_server_models_if_stale(it))).await;
        };
        futures::join!(join_all(configured), found);
    }

    async fn discover_models_of_provider(&self, provider: Provider) {
        // The keyring may ask the user to unlock it. Therefore it is not accessed before a prompt
        // needs the key.
        let is_locked =
            |login: &Login| login.needs_keyring() && !lock(&self.unlocked_logins).contains(login);
        if self.active_login(provider).as_ref().is_some_and(is_locked) {
            return;
        }
        let Ok(access) = self.resolve_access(provider).await else { return };
        let settings = self.build_provider_settings(provider, String::new(), &access);
        // Dialect for requests to the models of this provider.
        let by = self.provider_default_model(provider).map_or(provider, |(by, _)| by);
        self.refresh_server_models_if_stale(ServerModels::new(by, settings, access.login, false))
            .await;
    }

    /// Requests the list of a server's models, unless a recent list exists.
    async fn refresh_server_models_if_stale(&self, server: ServerModels) {
        let is_known = |known: &ServerModels| {
            let max_age = match known.is_failed {
                true => MODEL_LIST_RETRY_INTERVAL,
                false => MODEL_LIST_MAX_AGE,
            };
            let is_fresh = known.asked_at.elapsed() < max_age;
            is_fresh && known.is_same_server(&server) && known.login == server.login
        };
        if lock(&self.listed_servers).iter().any(is_known) {
            return;
        }
        let answer = self.network.list_models(server.settings.clone()).await;
        let mut listed = lock(&self.listed_servers);
        let earlier = listed.iter().position(|known| known.is_same_server(&server));
        let earlier = earlier.map(|at| listed.remove(at));
        let server = match answer {
            // The server may still load a model.
            Ok(models) if models.is_empty() => return listed.extend(earlier),
            Ok(mut models) => {
                models.truncate(MAX_CATALOGUE_CHOICES);
                ServerModels { models, ..server }
            }
            Err(error) => {
                tracing::debug!(%error, "a server did not list its models");
                // An earlier list is kept, although it is outdated.
                let earlier = earlier.filter(|earlier| earlier.login == server.login);
                let models = earlier.map_or_else(Vec::new, |earlier| earlier.models);
                ServerModels { models, is_failed: true, ..server }
            }
        };
        if listed.len() < MAX_FOUND_MODELS {
            listed.push(server);
        }
    }

    /// Returns at most `room` listed models, distributed over the servers.
    pub(super) fn pick_models_evenly_from_servers(&self, room: usize) -> Vec<String> {
        let servers = self.listed_servers_with_current_login();
        let taken =
            |share: usize| servers.iter().map(|it| it.models.len().min(share)).sum::<usize>();
        let share = (0..=room).rev().find(|share| taken(*share) <= room).unwrap_or(0);
        let first = |it: ServerModels| {
            it.models.into_iter().take(share).map(move |model| it.dialect.model_spec(&model))
        };
        servers.into_iter().flat_map(first).collect()
    }

    /// Returns the settings of a model that the configuration does not describe: a model that was
    /// found on this machine, or another model that its server lists.
    pub(super) fn local_model_settings(
        &self,
        provider: Provider,
        model: &str,
    ) -> Option<ProviderSettings> {
        let name = provider.model_spec(model);
        let opened = lock(&self.opened_models).iter().find(|(known, _)| *known == name).cloned();
        if let Some((_, Some(settings))) = opened {
            return Some(settings);
        }
        let lists =
            |it: &ServerModels| it.dialect == provider && it.models.iter().any(|it| it == model);
        let server = self
            .listed_servers_with_current_login()
            .into_iter()
            .find(lists)
            .filter(|it| it.is_found)?;
        // The reported context size applies only to the model that was found, and not to other
        // models of the server.
        let context_tokens = match server.settings.model == model {
            true => server.settings.context_tokens,
            false => self.configured_context_tokens(provider),
        };
        let mut settings = server.settings;
        (settings.model, settings.context_tokens) = (model.to_owned(), context_tokens);
        Some(settings)
    }

    /// Returns the servers with lists of models, except servers whose login was removed.
    fn listed_servers_with_current_login(&self) -> Vec<ServerModels> {
        let mut servers = lock(&self.listed_servers).clone();
        servers.retain(|server| {
            server.login.is_none() || self.active_login(server.settings.provider) == server.login
        });
        servers
    }
}
