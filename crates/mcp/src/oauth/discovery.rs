//! Sends the requests of a login. The requests go to the endpoints in the metadata of the server,
//! and use TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use callboard_text::escape_invisible_truncated;
use oauth2::http::{self, HeaderValue};
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture,
    OAuthHttpRequest,
};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use url::Url;

use super::error::McpLoginError;
use crate::http::{build_client, is_loopback};
use crate::limits::{LOGIN_REQUEST_TIMEOUT, MAX_LOGIN_ERROR_BYTES, MAX_LOGIN_RESPONSE_BYTES};

/// The authorization server that is responsible for an MCP server.
pub(super) struct AuthorizationServer {
    pub(super) manager: AuthorizationManager,
    /// The issuer. The metadata was loaded from the address of this issuer.
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    is_client_refused: Arc<AtomicBool>,
}

impl AuthorizationServer {
    /// Returns whether the server has refused a request for tokens because it does not accept the
    /// client.
    pub(super) fn is_client_refused(&self) -> bool {
        self.is_client_refused.load(Ordering::Acquire)
    }
}

/// Finds the authorization server of an MCP server. Uses the metadata that both servers publish.
/// `challenge` is the header with which the MCP server refused a request.
pub(super) async fn discover(
    url: &str,
    challenge: Option<&str>,
) -> Result<AuthorizationServer, McpLoginError> {
    let base = Url::parse(url).map_err(|error| McpLoginError::Failed(error.to_string()))?;
    if !is_permitted(&base, &base) {
        return Err(McpLoginError::Insecure(url.to_owned()));
    }
    let is_client_refused = Arc::<AtomicBool>::default();
    let client = Arc::new(LoginHttpClient {
        base: base.clone(),
        clients: Default::default(),
        is_client_refused: is_client_refused.clone(),
    });
    let manager = AuthorizationManager::new_with_oauth_http_client(base.clone(), client).await;
    let mut manager = manager.map_err(|error| login_error_from_auth_error(&error))?;
    let found = manager.resolve_metadata_from_challenge(challenge).await;
    let found = found.map_err(|error| login_error_from_auth_error(&error))?;
    // If the server publishes no metadata, the SDK guesses the endpoints. Guessed endpoints are not
    // used.
    if !found.source.is_discovered() {
        return Err(McpLoginError::NoMetadata);
    }
    let metadata = &found.metadata;
    let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint].into_iter();
    for endpoint in endpoints.chain(&metadata.registration_endpoint).chain(&metadata.issuer) {
        if !Url::parse(endpoint).is_ok_and(|endpoint| is_permitted(&base, &endpoint)) {
            return Err(McpLoginError::Insecure(escape_and_truncate(endpoint)));
        }
    }
    let issuer = metadata.issuer.clone().ok_or(McpLoginError::NoMetadata)?;
    let token_endpoint = metadata.token_endpoint.clone();
    manager.set_metadata(found.metadata);
    Ok(AuthorizationServer { manager, issuer, token_endpoint, is_client_refused })
}

/// Returns the addresses at which an issuer may publish its metadata. RFC 8414 and `OpenID` Connect
/// define these addresses.
fn metadata_urls(issuer: &str) -> Option<[String; 3]> {
    let issuer = Url::parse(issuer).ok()?;
    if issuer.query().is_some() || issuer.fragment().is_some() {
        return None;
    }
    let path = issuer.path().trim_end_matches('/');
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url.to_string()
    };
    Some([
        at(format!("/.well-known/oauth-authorization-server{path}")),
        at(format!("/.well-known/openid-configuration{path}")),
        at(format!("{path}/.well-known/openid-configuration")),
    ])
}

/// Checks that the metadata of an authorization server was loaded from an address of the issuer
/// that it names. Without this check, a server could publish metadata with the issuer of another
/// login, and would then receive the refresh token of that login. The SDK checks only some forms of
/// addresses.
fn check_metadata_is_from_issuer(url: &Url, body: &[u8]) -> Result<(), OAuthHttpClientError> {
    // The metadata of an authorization server is only used if it has the field `token_endpoint`.
    // Documents without this field therefore need no check.
    let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(body) else { return Ok(()) };
    if !fields.contains_key("token_endpoint") {
        return Ok(());
    }
    let issuer = fields.get("issuer").and_then(Value::as_str).unwrap_or_default();
    if metadata_urls(issuer).is_some_and(|urls| urls.iter().any(|own| own == url.as_str())) {
        return Ok(());
    }
    Err(format!("the metadata at {url} are not those of their issuer `{issuer}`").into())
}

/// Returns whether a login to the server `base` may send a request to `url`. TLS is required,
/// because without TLS, other computers in the network could read the tokens.
fn is_permitted(base: &Url, url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => is_loopback(base.as_str()) && is_loopback(url.as_str()),
        _ => false,
    }
}

/// Converts an error. The text of the error may come from a server, so it is escaped and truncated.
pub(super) fn login_error_from_auth_error(error: &AuthError) -> McpLoginError {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    McpLoginError::Failed(escape_and_truncate(&text))
}

/// Escapes and truncates a text of a server, so that it can be shown to the user.
pub(super) fn escape_and_truncate(text: &str) -> String {
    escape_invisible_truncated(text.trim(), MAX_LOGIN_ERROR_BYTES).0
}

/// Sends the requests of a login.
struct LoginHttpClient {
    base: Url,
    /// The HTTP client for other computers, then the HTTP client for this computer.
    clients: [OnceCell<Client>; 2],
    is_client_refused: Arc<AtomicBool>,
}

impl OAuthHttpClient for LoginHttpClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move { self.send(request.request).await })
    }
}

impl LoginHttpClient {
    async fn send(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let mut request = reqwest::Request::try_from(request)?;
        *request.timeout_mut() = Some(LOGIN_REQUEST_TIMEOUT);
        let url = request.url().clone();
        if !is_permitted(&self.base, &url) {
            return Err(format!("{url} is not used, because it has no TLS").into());
        }
        let is_local = is_loopback(url.as_str());
        // The client follows no redirects. The SDK follows them, and compares the origins.
        let client = self.clients[usize::from(is_local)]
            .get_or_try_init(|| build_client(is_local, Policy::none()))
            .await?;
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let gets = request.method() == http::Method::GET;
        let asks_for_tokens = request.headers().get(CONTENT_TYPE) == Some(&form);
        let mut response = client.execute(request).await?;
        let mut copy = http::Response::builder().status(response.status());
        if let Some(headers) = copy.headers_mut() {
            headers.clone_from(response.headers());
        }
        let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|content| {
            content.to_str().is_ok_and(|content| content.starts_with("text/event-stream"))
        });
        let mut body = Vec::new();
        // Do not read an event stream. A server that needs no login may answer a request for
        // metadata with its endless stream of messages.
        while !is_stream && let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_LOGIN_RESPONSE_BYTES {
                return Err(format!("a response has over {MAX_LOGIN_RESPONSE_BYTES} bytes").into());
            }
            body.extend_from_slice(&chunk);
        }
        if gets {
            check_metadata_is_from_issuer(&url, &body)?;
        }
        if asks_for_tokens && refuses_client(&body) {
            self.is_client_refused.store(true, Ordering::Release);
        }
        Ok(copy.body(if asks_for_tokens { remove_unknown_token_fields(body) } else { body })?)
    }
}

/// Returns whether a response to a request for tokens has an error code of RFC 6749 that means that
/// the client is not accepted. The SDK does not return the error code.
fn refuses_client(body: &[u8]) -> bool {
    let fields = serde_json::from_slice::<Map<String, Value>>(body).unwrap_or_default();
    let error = fields.get("error").and_then(Value::as_str);
    matches!(error, Some("invalid_client" | "unauthorized_client"))
}

/// Removes the unknown fields of a response with tokens. These fields may contain other tokens, and
/// the SDK would log and keep them.
fn remove_unknown_token_fields(body: Vec<u8>) -> Vec<u8> {
    const KNOWN: [&str; 8] = [
        "access_token",
        "token_type",
        "expires_in",
        "refresh_token",
        "scope",
        "error",
        "error_description",
        "error_uri",
    ];
    let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(&body) else { return body };
    fields.retain(|name, _| KNOWN.contains(&name.as_str()));
    Value::Object(fields).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_only_sent_by_tls_or_inside_this_computer() {
        for (base, url, expected) in [
            ("https://a.example/", "https://b.example/token", true),
            ("https://a.example/", "http://b.example/token", false),
            ("https://a.example/", "http://10.0.0.1/token", false),
            ("https://a.example/", "http://localhost/token", false),
            ("http://localhost:1/", "http://127.0.0.1:2/token", true),
            ("http://localhost:1/", "http://10.0.0.1/token", false),
            ("http://a.example/", "http://a.example/", false),
            ("https://a.example/", "file:///etc/passwd", false),
        ] {
            let [base, url] = [base, url].map(|url| Url::parse(url).unwrap());
            assert_eq!(is_permitted(&base, &url), expected, "{base} {url}");
        }
    }

    #[test]
    fn metadata_of_an_authorization_server_come_from_their_issuer() {
        for (url, issuer, expected) in [
            ("https://a/.well-known/oauth-authorization-server", "https://a", true),
            ("https://a/.well-known/oauth-authorization-server", "https://a/", true),
            ("https://a/.well-known/oauth-authorization-server/t/u", "https://a/t/u", true),
            ("https://a/.well-known/oauth-authorization-server/t", "https://a/t/", true),
            ("https://a/.well-known/openid-configuration/t", "https://a/t", true),
            ("https://a/t/.well-known/openid-configuration", "https://a/t", true),
            ("https://a/.well-known/openid-configuration", "https://a", true),
            ("https://e/x/.well-known/oauth-authorization-server", "https://a", false),
            ("https://e/.well-known/oauth-authorization-server", "https://a", false),
            ("https://a/x/.well-known/oauth-authorization-server", "https://a", false),
            ("https://a/.well-known/oauth-authorization-server/t", "https://a", false),
            ("https://a/.well-known/oauth-authorization-server?x", "https://a", false),
            ("https://a/.well-known/oauth-authorization-server", "https://a?x", false),
            ("http://a/.well-known/oauth-authorization-server", "https://a", false),
            ("https://a/.well-known/oauth-authorization-server", "", false),
        ] {
            let body = json!({"issuer": issuer, "token_endpoint": "https://e/token"}).to_string();
            let checked = check_metadata_is_from_issuer(&Url::parse(url).unwrap(), body.as_bytes());
            assert_eq!(checked.is_ok(), expected, "{url} {issuer}");
        }
        let url = Url::parse("https://a/.well-known/oauth-protected-resource").unwrap();
        assert!(check_metadata_is_from_issuer(&url, br#"{"resource": "https://a/"}"#).is_ok());
        assert!(
            check_metadata_is_from_issuer(&url, br#"{"token_endpoint": "https://a/"}"#).is_err()
        );
    }

    #[test]
    fn other_tokens_are_removed() {
        let body = br#"{"access_token": "a", "id_token": "secret"}"#.to_vec();
        assert_eq!(remove_unknown_token_fields(body), br#"{"access_token":"a"}"#);
        assert_eq!(remove_unknown_token_fields(b"<html>".to_vec()), b"<html>");
    }
}
