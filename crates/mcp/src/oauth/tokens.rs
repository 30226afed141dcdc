//! The tokens of one connection to a server. All requests share them, so the tokens are loaded only
//! once, and a renewal is not repeated by each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rmcp::transport::auth::{
    AuthError, CredentialStore as _, InMemoryCredentialStore, OAuthClientConfig,
};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::timeout;

use super::discovery::{AuthorizationServer, discover, login_error_from_auth_error};
use super::flow::ask_for_challenge;
use super::stored::{StoredLogin, blocking};
use crate::config::McpServerConfig;
use crate::limits::TOKEN_REFRESH_TIMEOUT;
use crate::login::McpLoginConfig;

/// The login of a connection to a server over HTTP.
pub(crate) struct ServerLogin {
    server: String,
    url: String,
    /// The configured headers of requests to the server.
    headers: Vec<(String, String)>,
    login: Option<McpLoginConfig>,
    /// Whether the configuration itself has an `Authorization` header.
    has_own_header: bool,
    tokens: Arc<Mutex<TokenCache>>,
    /// Maximum time that a request waits for a token.
    pub(super) patience: Duration,
    /// Number of attempts to renew the access token.
    attempts: AtomicU64,
    refusal: watch::Sender<Refusal>,
}

/// Whether the server has refused a request because there is no valid login.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    None,
    /// The request had no token.
    NoLogin,
    /// The server does not accept the tokens any more.
    LoginEnded,
}

#[derive(Default)]
struct TokenCache {
    is_loaded: bool,
    stored: Option<StoredLogin>,
    /// If `stored` could not be saved, the old text that is still in the store. The refresh token
    /// in this text was already used.
    replaced: Option<String>,
    /// The failure of the last attempt to renew the access token.
    failure: Option<RefreshError>,
}

/// A login that a request can use, or a prepared renewal of the login.
enum NewerLoginOrRenewal {
    Done(Box<StoredLogin>),
    Prepared(Box<PreparedRenewal>),
}

/// A prepared renewal. The request for new tokens was not sent yet.
struct PreparedRenewal {
    /// Prevents other processes from renewing the login.
    lock: Box<dyn Send>,
    server: AuthorizationServer,
    credentials: InMemoryCredentialStore,
    client_secret: Option<String>,
    /// The text of the login in the store.
    in_store: String,
}

/// The reason why there is no access token.
#[derive(Debug, Clone)]
pub(super) enum RefreshError {
    /// The login has ended.
    Ended,
    /// The tokens could not be loaded or renewed now. The text is the reason.
    Failed(String),
}

impl ServerLogin {
    /// Creates the login of a connection. The tokens are loaded when they are first needed.
    pub(crate) fn new(config: &McpServerConfig, url: &str, headers: &[(String, String)]) -> Self {
        Self {
            server: config.name.clone(),
            url: url.to_owned(),
            headers: headers.to_vec(),
            login: config.login.clone(),
            has_own_header: headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("authorization")),
            tokens: Arc::default(),
            patience: TOKEN_REFRESH_TIMEOUT,
            attempts: AtomicU64::new(0),
            refusal: watch::Sender::new(Refusal::None),
        }
    }

    /// Returns the access token for the next request. If the token expires soon, it is renewed
    /// first.
    pub(super) async fn token(self: &Arc<Self>) -> Result<Option<String>, RefreshError> {
        if self.has_own_header || self.login.is_none() {
            return Ok(None);
        }
        self.await_token_with_timeout(async {
            let attempts = self.attempts.load(Ordering::Acquire);
            let mut tokens = self.tokens.clone().lock_owned().await;
            if !tokens.is_loaded {
                let loaded = self.load().await.map_err(RefreshError::Failed)?;
                tokens.stored = loaded.map(|(stored, _)| stored);
                tokens.is_loaded = true;
            }
            match &tokens.stored {
                None => Ok(None),
                Some(stored) if !stored.ends_soon(SystemTime::now()) => {
                    Ok(Some(stored.access_token().to_owned()))
                }
                Some(_) => {
                    self.clone().refresh_unless_already_failed(tokens, attempts).await.map(Some)
                }
            }
        })
        .await
    }

    /// Returns another access token after the server has refused the token `refused`.
    pub(super) async fn token_after(
        self: &Arc<Self>,
        refused: &str,
    ) -> Result<String, RefreshError> {
        self.await_token_with_timeout(async {
            let attempts = self.attempts.load(Ordering::Acquire);
            let tokens = self.tokens.clone().lock_owned().await;
            match &tokens.stored {
                // Another request has already renewed the token.
                Some(stored) if stored.access_token() != refused => {
                    Ok(stored.access_token().to_owned())
                }
                _ => self.clone().refresh_unless_already_failed(tokens, attempts).await,
            }
        })
        .await
    }

    async fn await_token_with_timeout<T>(
        &self,
        token: impl Future<Output = Result<T, RefreshError>>,
    ) -> Result<T, RefreshError> {
        timeout(self.patience, token).await.unwrap_or_else(|_elapsed| Err(no_answer()))
    }

    /// Renews the access token. If another request has tried this since `attempts` was read, and
    /// has failed, returns the same failure.
    async fn refresh_unless_already_failed(
        self: Arc<Self>,
        mut tokens: OwnedMutexGuard<TokenCache>,
        attempts: u64,
    ) -> Result<String, RefreshError> {
        match &tokens.failure {
            Some(failure @ RefreshError::Ended) => return Err(failure.clone()),
            Some(failure) if self.attempts.load(Ordering::Acquire) != attempts => {
                return Err(failure.clone());
            }
            _ => {}
        }
        // Renew in a separate task. If the call is cancelled or its wait times out, the new refresh
        // token must not be lost.
        let refresh = tokio::spawn(async move {
            let refreshed = self.refresh(&tokens).await;
            self.attempts.fetch_add(1, Ordering::Release);
            tokens.failure = refreshed.as_ref().err().cloned();
            let (stored, replaced) = refreshed?;
            let token = stored.access_token().to_owned();
            if let (Some(login), Some(old)) = (&self.login, &tokens.stored) {
                let is_replaced = |secret: &&str| stored.secrets().all(|other| other != *secret);
                let replaced = old.secrets().filter(is_replaced);
                replaced.for_each(|secret| login.store.mark_secret_replaced(secret));
            }
            tokens.stored = Some(stored);
            tokens.replaced = replaced;
            Ok(token)
        });
        refresh.await.unwrap_or_else(|error| Err(RefreshError::Failed(error.to_string())))
    }

    /// Requests new tokens from the authorization server, and stores them. If the new tokens could
    /// not be saved, also returns the old text that is still in the store.
    async fn refresh(
        &self,
        tokens: &TokenCache,
    ) -> Result<(StoredLogin, Option<String>), RefreshError> {
        let (Some(login), Some(old)) = (&self.login, &tokens.stored) else {
            return Err(RefreshError::Ended);
        };
        let prepared = self.load_newer_or_prepare_renewal(login, old, tokens.replaced.as_deref());
        let prepared = timeout(TOKEN_REFRESH_TIMEOUT, prepared).await;
        let renewal = match prepared.unwrap_or_else(|_elapsed| Err(no_answer()))? {
            NewerLoginOrRenewal::Done(stored) => return Ok((*stored, None)),
            NewerLoginOrRenewal::Prepared(renewal) => *renewal,
        };
        // From here on, only the HTTP request has a time limit. An authorization server that has
        // received the request has invalidated the old refresh token, so its response must not be
        // lost.
        let PreparedRenewal { lock, server, credentials, client_secret, in_store } = renewal;
        let new = self.request_tokens(server, &credentials, client_secret).await?;
        new.secrets().for_each(|secret| login.store.redact(secret));
        let saved = self.save_if_unchanged(login, new, in_store).await;
        drop(lock);
        saved
    }

    /// Returns the login in the store if this login is newer than `old`. Otherwise prepares a
    /// renewal.
    async fn load_newer_or_prepare_renewal(
        &self,
        login: &McpLoginConfig,
        old: &StoredLogin,
        replaced: Option<&str>,
    ) -> Result<NewerLoginOrRenewal, RefreshError> {
        let (store, server) = (login.store.clone(), self.server.clone());
        let lock = blocking(move || store.lock(&server)).await.map_err(RefreshError::Failed)?;
        let loaded = self.load().await.map_err(RefreshError::Failed)?;
        let (mut stored, in_store) = loaded.ok_or(RefreshError::Ended)?;
        if replaced == Some(&in_store) {
            stored = old.clone();
        }
        // Another process has already renewed the login, or the user has logged in again.
        if stored.access_token() != old.access_token() && !stored.ends_soon(SystemTime::now()) {
            return Ok(NewerLoginOrRenewal::Done(Box::new(stored)));
        }
        if !stored.can_refresh() {
            return Err(RefreshError::Ended);
        }
        let other = |error: &dyn std::fmt::Display| RefreshError::Failed(error.to_string());
        // The address of the metadata may be only in the challenge, as for the login itself.
        let challenge = ask_for_challenge(&self.url, &self.headers).await;
        let (_, challenge) = challenge.map_err(|error| other(&error))?;
        let server = discover(&self.url, challenge.as_deref()).await;
        let mut server = server.map_err(|error| other(&error))?;
        let client_id = stored.credentials.client_id.clone();
        let configured = login.client.as_ref().filter(|client| client.id == client_id);
        // The refresh token must not be sent to another authorization server, or to another address
        // of the same one.
        let is_registered = configured.is_none_or(|client| client.is_registered_at(&server.issuer));
        if !stored.is_issued_by(&server) || !is_registered {
            return Err(RefreshError::Ended);
        }
        let StoredLogin { client_secret, credentials: tokens, .. } = stored;
        let mut client = OAuthClientConfig::new(client_id, &self.url);
        client.client_secret =
            configured.and_then(|client| client.secret.clone()).or(client_secret.clone());
        let credentials = InMemoryCredentialStore::new();
        credentials.save(tokens).await.map_err(|error| other(&error))?;
        let manager = &mut server.manager;
        manager.set_credential_store(credentials.clone());
        if !manager
            .initialize_from_store()
            .await
            .map_err(|error| other(&login_error_from_auth_error(&error)))?
        {
            return Err(RefreshError::Ended);
        }
        manager
            .configure_client(client)
            .map_err(|error| other(&login_error_from_auth_error(&error)))?;
        let renewal = PreparedRenewal { lock, server, credentials, client_secret, in_store };
        Ok(NewerLoginOrRenewal::Prepared(Box::new(renewal)))
    }

    async fn request_tokens(
        &self,
        server: AuthorizationServer,
        credentials: &InMemoryCredentialStore,
        client_secret: Option<String>,
    ) -> Result<StoredLogin, RefreshError> {
        match server.manager.refresh_token().await {
            Ok(_) => {}
            Err(_) if server.is_client_refused() => return Err(RefreshError::Ended),
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => {
                return Err(RefreshError::Ended);
            }
            Err(error) => {
                return Err(RefreshError::Failed(login_error_from_auth_error(&error).to_string()));
            }
        }
        let new = credentials.load().await;
        let new = new.map_err(|error| RefreshError::Failed(error.to_string()))?;
        let new = new
            .and_then(|new| StoredLogin::new(&self.url, server.token_endpoint, client_secret, new));
        new.ok_or(RefreshError::Ended)
    }

    /// Saves a renewed login if the store still contains the old login `in_store`. If saving fails,
    /// the renewed login is used until the session ends.
    async fn save_if_unchanged(
        &self,
        login: &McpLoginConfig,
        new: StoredLogin,
        in_store: String,
    ) -> Result<(StoredLogin, Option<String>), RefreshError> {
        let (store, server, url) = (login.store.clone(), self.server.clone(), self.url.clone());
        let (text, expected) = (new.to_text(), in_store.clone());
        let saved = blocking(move || {
            let current = store.load(&server, &url)?;
            if current.as_ref() == Some(&expected) {
                store.save(&server, &url, &text?)?;
                return Ok(None);
            }
            Ok(Some(current))
        });
        match saved.await {
            Ok(None) => Ok((new, None)),
            // The store contains another login. The user has logged out or logged in again without
            // waiting for the lock.
            Ok(Some(current)) => {
                let current = current.and_then(|text| StoredLogin::parse_for_url(&text, &self.url));
                current.map(|current| (current, None)).ok_or(RefreshError::Ended)
            }
            Err(why) => {
                tracing::warn!(
                    server = self.server,
                    why,
                    "a renewed login cannot be stored, and is used until the session ends"
                );
                Ok((new, Some(in_store)))
            }
        }
    }

    /// Loads the login. Also returns the text in the store.
    async fn load(&self) -> Result<Option<(StoredLogin, String)>, String> {
        let Some(login) = &self.login else { return Ok(None) };
        let (store, server, url) = (login.store.clone(), self.server.clone(), self.url.clone());
        blocking(move || {
            let Some(text) = store.load(&server, &url)? else { return Ok(None) };
            let Some(stored) = StoredLogin::parse_for_url(&text, &url) else { return Ok(None) };
            stored.secrets().for_each(|secret| store.redact(secret));
            Ok(Some((stored, text)))
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
    pub(crate) async fn wait_until_ended(&self) {
        let mut refusal = self.refusal.subscribe();
        // The sender lives as long as this value.
        drop(refusal.wait_for(|refusal| *refusal == Refusal::LoginEnded).await);
    }

    /// Returns whether the login of the server has ended.
    pub(crate) fn has_ended(&self) -> bool {
        *self.refusal.borrow() == Refusal::LoginEnded
    }

    /// Returns the reason if the server refuses requests. The reason is the end of a sentence for
    /// the user.
    pub(crate) fn refusal_text(&self) -> Option<String> {
        (*self.refusal.borrow() != Refusal::None).then(|| self.need_text())
    }

    /// Returns a text that the server needs a login. The text is the end of a sentence for the
    /// user.
    pub(crate) fn need_text(&self) -> String {
        match &self.login {
            _ if self.has_own_header => {
                "it does not accept the `Authorization` header of its configuration".to_owned()
            }
            Some(login) => format!("it needs a login: {}", login.hint),
            None => "it needs a login".to_owned(),
        }
    }
}

fn no_answer() -> RefreshError {
    RefreshError::Failed("the authorization server does not answer".to_owned())
}
