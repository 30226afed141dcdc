//! A login of the user to a server.

use std::future::pending;
use std::pin::pin;

use futures::{Stream, StreamExt as _};
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use rmcp::transport::auth::{
    AuthError, CredentialStore as _, InMemoryCredentialStore, OAuthClientConfig,
};
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use super::callback::{Callback, CallbackListener};
use super::discovery::{
    AuthorizationServer, discover, escape_and_truncate, login_error_from_auth_error,
};
use super::error::McpLoginError;
use super::stored::{StoredLogin, blocking};
use crate::config::{McpServerConfig, McpTransport};
use crate::http::build_same_origin_client;
use crate::limits::{LOGIN_REQUEST_TIMEOUT, LOGIN_TIMEOUT};
use crate::login::McpLoginConfig;

/// A login of the user to a server. Dropping this value cancels the login.
///
/// The agent shows [`url`](Self::url) to the user, opens the URL in a browser if possible, and then
/// calls [`finish`](Self::finish).
pub struct McpLoginFlow {
    server: String,
    server_url: String,
    login: McpLoginConfig,
    authorization: AuthorizationServer,
    credentials: InMemoryCredentialStore,
    client_secret: Option<String>,
    pub(super) listener: CallbackListener,
    url: String,
    state: String,
    pub(super) deadline: Instant,
}

/// Omits the URL, because it contains the state, which is a secret.
impl std::fmt::Debug for McpLoginFlow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("McpLoginFlow").field("server", &self.server).finish_non_exhaustive()
    }
}

impl McpLoginFlow {
    /// Prepares a login: finds the authorization server, and registers the agent if the
    /// configuration has no client. `agent` is the name that the authorization server shows to the
    /// user.
    ///
    /// # Errors
    ///
    /// Returns an error if the server needs no login, or if a login is not possible.
    pub async fn start(config: &McpServerConfig, agent: &str) -> Result<Self, McpLoginError> {
        let McpTransport::Http { url: server_url, headers } = &config.transport else {
            return Err(McpLoginError::Program);
        };
        let login = config.login.clone().ok_or(McpLoginError::NoStore)?;
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            return Err(McpLoginError::Failed(OWN_HEADER.to_owned()));
        }
        let (status, challenge) = ask_for_challenge(server_url, headers).await?;
        let mut authorization = match discover(server_url, challenge.as_deref()).await {
            Err(McpLoginError::NoMetadata) if status.is_success() => {
                return Err(McpLoginError::NotNeeded);
            }
            Err(McpLoginError::NoMetadata) if status != StatusCode::UNAUTHORIZED => {
                return Err(McpLoginError::Failed(format!("it answered with HTTP {status}")));
            }
            found => found?,
        };
        let client = login.client.as_ref();
        if client.is_some_and(|client| !client.is_registered_at(&authorization.issuer)) {
            return Err(McpLoginError::OtherIssuer(escape_and_truncate(&authorization.issuer)));
        }
        let manager = &mut authorization.manager;
        let listener = CallbackListener::bind().await;
        let listener = listener.map_err(|error| McpLoginError::Failed(error.to_string()))?;
        let scopes = match login.scopes.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => login.scopes.clone(),
        };
        let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
        let client_secret = match &login.client {
            Some(client) => {
                let mut config = OAuthClientConfig::new(&client.id, listener.redirect_url());
                config.client_secret.clone_from(&client.secret);
                manager
                    .configure_client(config)
                    .map_err(|error| login_error_from_auth_error(&error))?;
                // The secret of a configured client is not stored, because each connection reads it
                // from the configuration.
                None
            }
            None => {
                let registered =
                    manager.register_client(agent, listener.redirect_url(), &scopes).await;
                registered.map_err(|error| registration_failed(&error))?.client_secret
            }
        };
        let credentials = InMemoryCredentialStore::new();
        manager.set_credential_store(credentials.clone());
        let url = manager
            .get_authorization_url(&scopes)
            .await
            .map_err(|error| login_error_from_auth_error(&error))?;
        let state = state_of(&url).ok_or_else(|| McpLoginError::Failed(NO_STATE.to_owned()))?;
        Ok(Self {
            server: config.name.clone(),
            server_url: server_url.clone(),
            login,
            authorization,
            credentials,
            client_secret,
            listener,
            url,
            state,
            deadline: Instant::now() + LOGIN_TIMEOUT,
        })
    }

    /// Returns the URL that the user has to open. It is an http or https URL without white space.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits for the user, and stores the login. If the browser is on another computer, the user
    /// can paste the address to which the browser was redirected. `pasted` are the lines that the
    /// user enters. `wrong` is called for each non-empty line that is not this address.
    ///
    /// # Errors
    ///
    /// Returns an error if the login was refused, if it was not finished in time, or if it cannot
    /// be stored.
    pub async fn finish(
        self,
        pasted: impl Stream<Item = String>,
        mut wrong: impl FnMut(),
    ) -> Result<(), McpLoginError> {
        let pasted = async {
            let mut pasted = pin!(pasted);
            while let Some(line) = pasted.next().await {
                let line = line.trim();
                if let Some(answer) =
                    Callback::parse_redirect_url(line, self.listener.redirect_url(), &self.state)
                {
                    return answer;
                }
                if !line.is_empty() {
                    wrong();
                }
            }
            pending().await
        };
        let answer = timeout_at(self.deadline, async {
            tokio::select! {
                callback = self.listener.wait(&self.state) => callback,
                callback = pasted => callback,
            }
        });
        match answer.await.map_err(|_elapsed| McpLoginError::TimedOut)? {
            Callback::Code { code, issuer } => {
                self.exchange_code_and_save_tokens(&code, issuer.as_deref()).await
            }
            Callback::Error { error, .. } if error == "access_denied" => {
                Err(McpLoginError::Refused("access was denied".to_owned()))
            }
            Callback::Error { error, description } => {
                Err(McpLoginError::Refused(escape_and_truncate(&description.unwrap_or(error))))
            }
        }
    }

    /// Exchanges the code for tokens, and stores them.
    async fn exchange_code_and_save_tokens(
        self,
        code: &str,
        issuer: Option<&str>,
    ) -> Result<(), McpLoginError> {
        // The code is useless without the verifier of this login, but it should not appear in logs
        // either.
        self.login.store.redact(code);
        let manager = &self.authorization.manager;
        let exchange = manager.exchange_code_for_token_with_issuer(code, &self.state, issuer);
        let exchange = timeout(LOGIN_REQUEST_TIMEOUT, exchange).await;
        drop(
            exchange
                .map_err(|_elapsed| McpLoginError::TimedOut)?
                .map_err(|error| login_error_from_auth_error(&error))?,
        );
        let credentials =
            self.credentials.load().await.map_err(|error| login_error_from_auth_error(&error))?;
        let login = credentials.and_then(|credentials| {
            let token_endpoint = self.authorization.token_endpoint;
            StoredLogin::new(&self.server_url, token_endpoint, self.client_secret, credentials)
        });
        let login = login.ok_or_else(|| McpLoginError::Failed("there are no tokens".to_owned()))?;
        let (store, server, url) = (self.login.store, self.server, self.server_url);
        blocking(move || {
            login.secrets().for_each(|secret| store.redact(secret));
            // A session may be renewing the tokens of the previous login at the same time.
            let _lock = store.lock(&server)?;
            store.save(&server, &url, &login.to_text()?)
        })
        .await
        .map_err(McpLoginError::Store)
    }
}

const OWN_HEADER: &str =
    "its configuration has an `Authorization` header, which is sent instead of a login";

const NO_STATE: &str = "the URL of the login has no state";

/// Returns the state of a login. The last parameter `state` of the URL is the right one, because
/// the address of the authorization server may already contain a parameter of this name.
fn state_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let parts = url.query_pairs().filter(|(name, _)| name == "state");
    parts.last().map(|(_, state)| state.into_owned())
}

fn registration_failed(error: &AuthError) -> McpLoginError {
    match error {
        AuthError::RegistrationFailed(why) => McpLoginError::Registration(escape_and_truncate(why)),
        error => login_error_from_auth_error(error),
    }
}

/// Sends the first request of a connection without a token. Returns the status of the response. If
/// the server refuses the request, also returns the header with the challenge.
pub(super) async fn ask_for_challenge(
    url: &str,
    headers: &[(String, String)],
) -> Result<(StatusCode, Option<String>), McpLoginError> {
    let request = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "login", "version": "1"}}});
    let client = build_same_origin_client(url).await.map_err(McpLoginError::Failed)?;
    let post = client.post(url).timeout(LOGIN_REQUEST_TIMEOUT);
    let post = headers.iter().fold(post, |post, (name, value)| post.header(name, value));
    let post = post.header(ACCEPT, "application/json, text/event-stream");
    let post = post.header(CONTENT_TYPE, "application/json").body(request.to_string());
    let answer = post.send().await;
    let answer =
        answer.map_err(|error| McpLoginError::Failed(escape_and_truncate(&error.to_string())))?;
    let mut challenges = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    let challenge = challenges.find_map(|header| {
        let text = header.to_str().ok()?;
        let kind = text.get(.."bearer".len())?;
        kind.eq_ignore_ascii_case("bearer").then(|| text.to_owned())
    });
    Ok((answer.status(), challenge.filter(|_| answer.status() == StatusCode::UNAUTHORIZED)))
}

#[cfg(test)]
mod tests {
    use super::state_of;

    #[test]
    fn the_state_is_the_last_one() {
        assert_eq!(state_of("https://a/?state=x&a=b&state=y%20z").as_deref(), Some("y z"));
        assert_eq!(state_of("https://a/?a=state"), None);
    }
}
