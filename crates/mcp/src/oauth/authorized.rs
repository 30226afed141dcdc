//! An HTTP client that sends an access token with each request. If the server refuses the token,
//! the client renews it once.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use callboard_text::escape_invisible;
use futures::stream::BoxStream;
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use super::discovery::escape_and_truncate;
use super::tokens::{RefreshError, ServerLogin};

/// An HTTP client with the login to one server. Clones share the login.
#[derive(Clone)]
pub(crate) struct AuthorizedClient {
    client: reqwest::Client,
    login: Arc<ServerLogin>,
}

type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

impl AuthorizedClient {
    pub(crate) fn new(client: reqwest::Client, login: Arc<ServerLogin>) -> Self {
        Self { client, login }
    }

    /// Sends a request with the access token. If the server refuses the token, the request is sent
    /// once more with another token.
    ///
    /// The client of the SDK is not used, because it would request new tokens for each refused
    /// request. An authorization server may treat the second use of a refresh token as a theft.
    async fn send<T, F: Future<Output = Result<T, HttpError>>>(
        &self,
        send: impl Fn(Option<String>) -> F,
    ) -> Result<T, HttpError> {
        let token =
            self.login.token().await.map_err(|error| self.http_error_from_refresh_error(error))?;
        let refused = match send(token.clone()).await {
            Err(error) if is_unauthorized(&error) => error,
            answer => return answer,
        };
        let Some(token) = token else {
            self.login.set_login_missing();
            return Err(refused);
        };
        let token = self
            .login
            .token_after(&token)
            .await
            .map_err(|error| self.http_error_from_refresh_error(error))?;
        let answer = send(Some(token)).await;
        if answer.as_ref().is_err_and(is_unauthorized) {
            self.login.set_ended();
        }
        answer
    }

    fn http_error_from_refresh_error(&self, error: RefreshError) -> HttpError {
        HttpError::Auth(match error {
            RefreshError::Ended => {
                self.login.set_ended();
                AuthError::AuthorizationRequired
            }
            RefreshError::Failed(why) => AuthError::TokenRefreshFailed(why),
        })
    }
}

fn is_unauthorized(error: &HttpError) -> bool {
    match error {
        HttpError::AuthRequired(_) => true,
        HttpError::Client(error) => error.status() == Some(StatusCode::UNAUTHORIZED),
        // `AuthRequired` requires a header that some servers do not send.
        HttpError::UnexpectedServerResponse(text) => text.starts_with("HTTP 401"),
        _ => false,
    }
}

/// Returns the message about a call that failed because of the login of a server.
pub(crate) fn call_login_error_text(
    server: &str,
    login: &ServerLogin,
    error: &ServiceError,
) -> Option<String> {
    let needs_login =
        || Some(format!("The server {server} cannot be used: {}.", login.need_text()));
    // After the first refused request, the connection ends, and all other requests fail with other
    // errors.
    if login.has_ended() && !matches!(error, ServiceError::McpError(_)) {
        return needs_login();
    }
    match find_http_error_cause(error)? {
        HttpError::Auth(AuthError::TokenRefreshFailed(why)) => Some(format!(
            "The login to the server {server} cannot be renewed: {}.",
            escape_and_truncate(why)
        )),
        HttpError::InsufficientScope(error) => {
            let scope =
                error.required_scope.as_deref().map(escape_and_truncate).unwrap_or_default();
            Some(format!(
                "The login to the server {server} does not cover this. Scopes that the server asks \
                 for: {scope}"
            ))
        }
        HttpError::Auth(AuthError::AuthorizationRequired) => needs_login(),
        error if is_unauthorized(error) => needs_login(),
        _ => None,
    }
}

/// Returns the reason why a server has not started, as the end of a sentence for the user.
pub(crate) fn start_error_text(login: &ServerLogin, error: &(dyn Error + 'static)) -> String {
    match (login.refusal_text(), find_http_error_cause(error)) {
        (Some(refusal), _) => refusal,
        (None, Some(HttpError::Auth(AuthError::TokenRefreshFailed(why)))) => {
            format!("its login cannot be renewed: {}", escape_and_truncate(why))
        }
        (None, Some(HttpError::HttpStatus(error))) => {
            format!("it answers with {}", escape_and_truncate(&error.to_string()))
        }
        (None, Some(HttpError::Client(error))) => {
            let mut cause: &dyn Error = error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            format!("it cannot be reached: {}", escape_and_truncate(&cause.to_string()))
        }
        (None, Some(error)) => escape_and_truncate(&error.to_string()),
        _ => escape_invisible(&error.to_string()),
    }
}

/// Returns how a server has answered a failed request, as the end of a sentence for the user.
/// Returns `None` if there was no HTTP answer, or if the answer is known to have ended the
/// MCP session.
pub(crate) fn http_answer_text(error: &(dyn Error + 'static)) -> Option<String> {
    match find_http_error_cause(error)? {
        HttpError::HttpStatus(error) => {
            Some(format!("it answers with {}", escape_and_truncate(&error.to_string())))
        }
        HttpError::Client(error) => Some(format!("it answers with HTTP {}", error.status()?)),
        error @ (HttpError::UnexpectedServerResponse(_)
        | HttpError::UnexpectedContentType(_)
        | HttpError::ResponseBodyTooLarge { .. }) => Some(escape_and_truncate(&error.to_string())),
        _ => None,
    }
}

/// Returns the HTTP error that caused an error, if there is one.
fn find_http_error_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a HttpError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // `ClientInitializeError` does not return this cause from `source`.
        cause = match error.downcast_ref::<ClientInitializeError>() {
            Some(ClientInitializeError::TransportError { error, .. }) => Some(error),
            _ => error.source(),
        };
    }
    None
}

impl StreamableHttpClient for AuthorizedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(url, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.send(|token| {
            let (url, message, session) = (url.clone(), message.clone(), session.clone());
            let headers = headers.clone();
            self.client
                .post_message_with_response_limits(url, message, session, token, headers, limits)
        })
        .await
    }

    async fn delete_session(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.send(|token| {
            self.client.delete_session(url.clone(), session.clone(), token, headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        self.send(|token| {
            let (url, session, last_event) = (url.clone(), session.clone(), last_event.clone());
            self.client.get_stream(url, session, last_event, token, headers.clone())
        })
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        self.send(|token| {
            let (url, session, last_event) = (url.clone(), session.clone(), last_event.clone());
            let headers = headers.clone();
            self.client
                .get_stream_with_max_sse_event_size(url, session, last_event, token, headers, max)
        })
        .await
    }
}
