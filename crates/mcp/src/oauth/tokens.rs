//! The tokens of one connection to a server: loaded once, renewed once, and given up together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rmcp::transport::auth::{
    AuthError, CredentialStore as _, InMemoryCredentialStore, OAuthClientConfig,
};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::timeout;

use super::discovery::{discover, failed};
use super::stored::{StoredLogin, blocking};
use crate::config::{McpServerConfig, McpTransport};
use crate::limits::TOKEN_REFRESH_TIMEOUT;
use crate::login::McpLogin;

/// The login of a connection to a server over HTTP.
pub(crate) struct ServerLogin {
    server: String,
    url: String,
    login: Option<McpLogin>,
    /// Whether the configuration has its own header with a token.
    has_own_header: bool,
    tokens: Arc<Mutex<Tokens>>,
    /// Number of attempts to renew the access token.
    attempts: AtomicU64,
    refusal: watch::Sender<Refusal>,
}

/// Whether the server has refused a request for want of a valid login.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    None,
    /// The request had no token.
    NoLogin,
    /// The server does not accept the tokens any more.
    LoginEnded,
}

#[derive(Default)]
struct Tokens {
    is_loaded: bool,
    stored: Option<StoredLogin>,
    /// The failure of the last attempt to renew the access token.
    failure: Option<RefreshError>,
}

/// Why there is no access token.
#[derive(Debug, Clone)]
pub(super) enum RefreshError {
    /// The login has ended.
    Ended,
    /// The tokens could not be loaded or renewed now, with the reason.
    Failed(String),
}

impl ServerLogin {
    /// Creates the login of a connection. Nothing is loaded yet.
    pub(crate) fn new(config: &McpServerConfig) -> Self {
        let (url, headers) = match &config.transport {
            McpTransport::Http { url, headers } => (url.clone(), headers.as_slice()),
            McpTransport::Stdio { .. } => (String::new(), [].as_slice()),
        };
        Self {
            server: config.name.clone(),
            url,
            login: config.login.clone(),
            has_own_header: headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("authorization")),
            tokens: Arc::default(),
            attempts: AtomicU64::new(0),
            refusal: watch::Sender::new(Refusal::None),
        }
    }

    /// Returns the access token for the next request. It is renewed first if it ends soon.
    pub(super) async fn token(self: &Arc<Self>) -> Result<Option<String>, RefreshError> {
        if self.has_own_header || self.login.is_none() {
            return Ok(None);
        }
        let attempts = self.attempts.load(Ordering::Acquire);
        let mut tokens = self.tokens.clone().lock_owned().await;
        if !tokens.is_loaded {
            tokens.stored = self.load().await.map_err(RefreshError::Failed)?;
            tokens.is_loaded = true;
        }
        match &tokens.stored {
            None => Ok(None),
            Some(stored) if !stored.ends_soon(SystemTime::now()) => {
                Ok(Some(stored.access_token().to_owned()))
            }
            Some(_) => self.clone().refresh_once(tokens, attempts).await.map(Some),
        }
    }

    /// Returns another access token after the server has refused this one.
    pub(super) async fn token_after(
        self: &Arc<Self>,
        refused: &str,
    ) -> Result<String, RefreshError> {
        let attempts = self.attempts.load(Ordering::Acquire);
        let tokens = self.tokens.clone().lock_owned().await;
        match &tokens.stored {
            // Another request was faster.
            Some(stored) if stored.access_token() != refused => {
                Ok(stored.access_token().to_owned())
            }
            _ => self.clone().refresh_once(tokens, attempts).await,
        }
    }

    /// Renews the access token, unless another request has tried it since `attempts` was read.
    async fn refresh_once(
        self: Arc<Self>,
        mut tokens: OwnedMutexGuard<Tokens>,
        attempts: u64,
    ) -> Result<String, RefreshError> {
        match &tokens.failure {
            Some(failure @ RefreshError::Ended) => return Err(failure.clone()),
            Some(failure) if self.attempts.load(Ordering::Acquire) != attempts => {
                return Err(failure.clone());
            }
            _ => {}
        }
        // A call that is cancelled must not lose a new refresh token.
        let refresh = tokio::spawn(async move {
            let refreshed = timeout(TOKEN_REFRESH_TIMEOUT, self.refresh(&tokens)).await;
            let refreshed = refreshed.unwrap_or_else(|_elapsed| {
                Err(RefreshError::Failed("the authorization server does not answer".to_owned()))
            });
            self.attempts.fetch_add(1, Ordering::Release);
            tokens.failure = refreshed.as_ref().err().cloned();
            let stored = refreshed?;
            let token = stored.access_token().to_owned();
            tokens.stored = Some(stored);
            Ok(token)
        });
        refresh.await.unwrap_or_else(|error| Err(RefreshError::Failed(error.to_string())))
    }

    /// Asks the authorization server for new tokens, and stores them.
    async fn refresh(&self, tokens: &Tokens) -> Result<StoredLogin, RefreshError> {
        let (Some(login), Some(old)) = (&self.login, &tokens.stored) else {
            return Err(RefreshError::Ended);
        };
        let (store, server) = (login.store.clone(), self.server.clone());
        let _lock = blocking(move || store.lock(&server)).await.map_err(RefreshError::Failed)?;
        let stored = self.load().await.map_err(RefreshError::Failed)?.ok_or(RefreshError::Ended)?;
        // Another process was faster, or the user has logged in again.
        if stored.access_token() != old.access_token() && !stored.ends_soon(SystemTime::now()) {
            return Ok(stored);
        }
        if !stored.can_refresh() {
            return Err(RefreshError::Ended);
        }
        let new = self.request_tokens(stored, login).await?;
        let (store, server, url) = (login.store.clone(), self.server.clone(), self.url.clone());
        new.secrets().for_each(|secret| store.redact(secret));
        if let Ok(text) = new.to_text() {
            // If it fails, the tokens are used until the session ends.
            drop(blocking(move || store.save(&server, &url, &text)).await);
        }
        Ok(new)
    }

    async fn request_tokens(
        &self,
        stored: StoredLogin,
        login: &McpLogin,
    ) -> Result<StoredLogin, RefreshError> {
        let other = |error: &dyn std::fmt::Display| RefreshError::Failed(error.to_string());
        let mut server = discover(&self.url, None).await.map_err(|error| other(&error))?;
        let client_id = stored.credentials.client_id.clone();
        let configured = login.client.as_ref().filter(|client| client.id == client_id);
        // Another authorization server, or another address of it, must not get the refresh token.
        let is_registered = configured.is_none_or(|client| client.is_registered_at(&server.issuer));
        if !stored.is_of(&server) || !is_registered {
            return Err(RefreshError::Ended);
        }
        let StoredLogin { client_secret, credentials, .. } = stored;
        let mut client = OAuthClientConfig::new(client_id, &self.url);
        client.client_secret =
            configured.and_then(|client| client.secret.clone()).or(client_secret.clone());
        let memory = InMemoryCredentialStore::new();
        memory.save(credentials).await.map_err(|error| other(&error))?;
        let manager = &mut server.manager;
        manager.set_credential_store(memory.clone());
        if !manager.initialize_from_store().await.map_err(|error| other(&failed(&error)))? {
            return Err(RefreshError::Ended);
        }
        manager.configure_client(client).map_err(|error| other(&failed(&error)))?;
        match server.manager.refresh_token().await {
            Ok(_) => {}
            Err(_) if server.is_client_refused() => return Err(RefreshError::Ended),
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => {
                return Err(RefreshError::Ended);
            }
            Err(error) => return Err(other(&failed(&error))),
        }
        let new = memory.load().await.map_err(|error| other(&error))?;
        let new = new
            .and_then(|new| StoredLogin::new(&self.url, server.token_endpoint, client_secret, new));
        new.ok_or(RefreshError::Ended)
    }

    async fn load(&self) -> Result<Option<StoredLogin>, String> {
        let Some(login) = &self.login else { return Ok(None) };
        let (store, server, url) = (login.store.clone(), self.server.clone(), self.url.clone());
        blocking(move || {
            let stored = store.load(&server, &url)?;
            let stored = stored.and_then(|text| StoredLogin::parse(&text, &url));
            stored.iter().flat_map(StoredLogin::secrets).for_each(|secret| store.redact(secret));
            Ok(stored)
        })
        .await
    }

    /// Records that the server has refused a request without a token.
    pub(super) fn set_login_missing(&self) {
        self.refusal.send_replace(Refusal::NoLogin);
    }

    /// Records that the server does not accept the tokens any more.
    pub(super) fn set_ended(&self) {
        self.refusal.send_replace(Refusal::LoginEnded);
    }

    /// Waits until the login of the server has ended.
    pub(crate) async fn ended(&self) {
        let mut refusal = self.refusal.subscribe();
        // The sender lives as long as this value.
        drop(refusal.wait_for(|refusal| *refusal == Refusal::LoginEnded).await);
    }

    /// Returns whether the login of the server has ended.
    pub(crate) fn has_ended(&self) -> bool {
        *self.refusal.borrow() == Refusal::LoginEnded
    }

    /// Returns why the server refuses requests, as the end of a sentence for the user, if it does.
    pub(crate) fn refusal(&self) -> Option<String> {
        (*self.refusal.borrow() != Refusal::None).then(|| self.need())
    }

    /// Returns that the server needs a login, as the end of a sentence for the user.
    pub(crate) fn need(&self) -> String {
        match &self.login {
            _ if self.has_own_header => {
                "it does not accept the `Authorization` header of its configuration".to_owned()
            }
            Some(login) => format!("it needs a login: {}", login.hint),
            None => "it needs a login".to_owned(),
        }
    }
}
