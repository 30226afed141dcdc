//! The stored form of a login: the tokens, and the client to which they were issued.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oauth2::TokenResponse;
use rmcp::transport::auth::{OAuthTokenResponse, StoredCredentials};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::discovery::AuthorizationServer;
use crate::limits::{MAX_STORED_LOGIN_BYTES, TOKEN_REFRESH_MARGIN};

/// A stored login. The type has no `Debug`, because it consists of secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredLogin {
    /// The URL of the server. The access token is sent only to this server.
    url: String,
    /// The address that has issued the refresh token. The refresh token is sent only to this
    /// address.
    pub(super) token_endpoint: String,
    /// The secret of the client, if the login has registered the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) credentials: StoredCredentials,
}

impl StoredLogin {
    /// Creates a login. Returns `None` if the credentials contain no tokens or no issuer.
    pub(super) fn new(
        url: &str,
        token_endpoint: String,
        client_secret: Option<String>,
        credentials: StoredCredentials,
    ) -> Option<Self> {
        let login = Self { url: url.to_owned(), token_endpoint, client_secret, credentials };
        login.is_complete().then_some(login)
    }

    /// Parses a stored login for a URL.
    pub(super) fn parse_for_url(text: &str, url: &str) -> Option<Self> {
        let login: Self = serde_json::from_str(text).ok()?;
        (login.url == url && login.is_complete()).then_some(login)
    }

    fn is_complete(&self) -> bool {
        self.credentials.token_response.is_some() && self.credentials.issuer.is_some()
    }

    /// Returns whether this authorization server has issued the tokens.
    pub(super) fn is_issued_by(&self, server: &AuthorizationServer) -> bool {
        self.credentials.issuer.as_ref() == Some(&server.issuer)
            && self.token_endpoint == server.token_endpoint
    }

    /// Returns the text that is stored.
    pub(super) fn to_text(&self) -> Result<String, String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        match text.len() <= MAX_STORED_LOGIN_BYTES {
            true => Ok(text),
            false => Err("its tokens are too long".to_owned()),
        }
    }

    fn tokens(&self) -> Option<&OAuthTokenResponse> {
        self.credentials.token_response.as_ref()
    }

    pub(super) fn access_token(&self) -> &str {
        self.tokens().map_or("", |tokens| tokens.access_token().secret())
    }

    pub(super) fn can_refresh(&self) -> bool {
        self.tokens().is_some_and(|tokens| tokens.refresh_token().is_some())
    }

    /// Returns whether the access token expires soon. Returns `false` if its expiry is unknown.
    pub(super) fn ends_soon(&self, now: SystemTime) -> bool {
        let valid_for = self.tokens().and_then(TokenResponse::expires_in);
        let Some((valid_for, received)) = valid_for.zip(self.credentials.token_received_at) else {
            return false;
        };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let margin = TOKEN_REFRESH_MARGIN.min(valid_for / 2);
        now + margin >= Duration::from_secs(received) + valid_for
    }

    /// Returns the secrets of the login.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let refresh = self.tokens().and_then(TokenResponse::refresh_token);
        let refresh = refresh.map(|token| token.secret().as_str());
        [Some(self.access_token()), refresh, self.client_secret.as_deref()].into_iter().flatten()
    }
}

/// Runs a method of a store on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_ends_before_it_is_refused() {
        for (valid_for, age, expected) in [
            (Some(3600), 0, false),
            (Some(3600), 3569, false),
            (Some(3600), 3570, true),
            (Some(10), 4, false),
            (Some(10), 5, true),
            (Some(0), 0, true),
            (None, 9999, false),
        ] {
            let text = json!({"url": "https://a/", "token_endpoint": "t", "credentials": {
                "client_id": "c", "issuer": "i", "token_received_at": 1000,
                "token_response": {
                    "access_token": "t", "token_type": "bearer", "expires_in": valid_for}}});
            let login = StoredLogin::parse_for_url(&text.to_string(), "https://a/").unwrap();
            let now = UNIX_EPOCH + Duration::from_secs(1000 + age);
            assert_eq!(login.ends_soon(now), expected, "{valid_for:?} {age}");
            assert!(StoredLogin::parse_for_url(&text.to_string(), "https://a/mcp").is_none());
        }
    }
}
