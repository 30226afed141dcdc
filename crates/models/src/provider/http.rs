//! Sends the model library's requests with the process's HTTP client.
//!
//! Only this module adds the key. The requests that the library builds contain no key.

pub(super) mod client;
mod drain;

use std::{
    error::Error as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures::stream;
use reqwest::StatusCode;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use rig_core::http_client::{
    self, BoxedStream, Error, HttpClientExt, LazyBody, MultipartForm, Request, Response,
    StreamingResponse,
};
use tokio::time::timeout;

use self::drain::{DrainOnDrop, OpenDrains};
use super::errors::{self, RequestFailure};
use super::{
    ApiKey, Provider, ProviderSettings, encode_cache::EncodeCache, encoded_prefix::PendingBody,
};
use crate::{ModelErrorKind, limits};

/// Sends requests to one provider. A sender is cheap to create and to clone, because HTTP and TLS
/// are set up only for the first request.
#[derive(Clone, Debug)]
pub(super) struct HttpSender {
    shared: Arc<SenderSettingsAndCache>,
    /// State of the one request that uses this sender. `None` if the request does not belong to a
    /// session.
    pending_body: Arc<Mutex<Option<PendingBody>>>,
}

#[derive(Debug)]
struct SenderSettingsAndCache {
    provider: Provider,
    key: Option<ApiKey>,
    ca_file: Option<PathBuf>,
    cache: EncodeCache,
    drains: OpenDrains,
}

impl HttpSender {
    pub(super) fn new(settings: &ProviderSettings) -> Self {
        let ProviderSettings { provider, key, ca_file, .. } = settings.clone();
        let shared = Arc::new(SenderSettingsAndCache {
            provider,
            key,
            ca_file,
            cache: EncodeCache::new(provider),
            drains: OpenDrains::default(),
        });
        Self { shared, pending_body: Arc::default() }
    }

    /// Returns a sender for one request of a session.
    pub(super) fn for_request(&self, pending_body: PendingBody) -> Self {
        Self { shared: self.shared.clone(), pending_body: Arc::new(Mutex::new(Some(pending_body))) }
    }

    /// Returns the cache with the texts of the placeholders.
    pub(super) fn cache(&self) -> &EncodeCache {
        &self.shared.cache
    }

    /// Sends a request and waits for the response headers. A response without a success status is
    /// an error.
    async fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> http_client::Result<reqwest::Response> {
        let (mut request, host) = self.build_request(request).map_err(Error::instance)?;
        self.add_key_header(request.headers_mut()).map_err(Error::instance)?;
        let client = client::client_for_url(request.url(), self.shared.ca_file.as_deref()).await;
        let client = client.map_err(Error::instance)?;
        let url = request.url().clone();
        self.shared.drains.wait_until_drained().await;
        let answer = timeout(limits::RESPONSE_HEADERS_TIMEOUT, client.execute(request)).await;
        let answer = answer.map_err(|_elapsed| {
            let seconds = limits::RESPONSE_HEADERS_TIMEOUT.as_secs();
            let text = format!("{host} did not start to respond within {seconds} s");
            Error::instance(RequestFailure::new(ModelErrorKind::IdleTimeout, text))
        })?;
        let response = answer.map_err(|error| {
            match is_connection_refused(&error) && client::is_loopback(&url) {
                true => Error::instance(server_not_running_error(
                    &host,
                    self.shared.provider,
                    url.port(),
                )),
                false => Error::instance(unanswered_request_error(&error, &host)),
            }
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let body = timeout(
            limits::ERROR_BODY_TIMEOUT,
            read_body_within_limit(
                response,
                limits::MAX_ERROR_BODY_BYTES,
                OnBodyOverLimit::Truncate,
            ),
        );
        let body = body.await.ok().and_then(Result::ok).unwrap_or_default();
        let body = String::from_utf8_lossy(&body).into_owned();
        Err(Error::non_success_with_details(status, headers, body))
    }

    /// Builds the HTTP request and returns it with its host. Some dialects put the key into the
    /// URL; this function removes the key from the URL.
    fn build_request(
        &self,
        request: Request<Bytes>,
    ) -> Result<(reqwest::Request, String), RequestFailure> {
        let (parts, body) = request.into_parts();
        let body = self.complete_body(body)?;
        let url = parts.uri.to_string();
        let invalid =
            |_| RequestFailure::new(ModelErrorKind::Other, "the provider's address is not a URL");
        let mut url = reqwest::Url::parse(&url).map_err(invalid)?;
        if self.shared.provider == Provider::Gemini {
            let kept: Vec<(String, String)> =
                url.query_pairs().into_owned().filter(|(name, _)| name != "key").collect();
            url.query_pairs_mut().clear().extend_pairs(kept);
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let host = format!("{}{port}", url.host_str().unwrap_or_default());
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = (!body.is_empty()).then(|| body.into());
        Ok((request, host))
    }

    /// Inserts the cached messages, and expands the placeholders.
    fn complete_body(&self, body: Bytes) -> Result<Bytes, RequestFailure> {
        let memory = &self.shared.cache;
        let pending_body = self.pending_body.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(pending_body) = pending_body else { return Ok(memory.expand_placeholders(body)) };
        let needs_it = pending_body.prefix_placeholder().is_some();
        match memory.complete_body(pending_body, &body) {
            Some(whole) => Ok(whole),
            None if needs_it => {
                // The failure is transient, because a retry encodes all messages again.
                Err(RequestFailure::new(
                    ModelErrorKind::Transient,
                    "the request could not be encoded",
                ))
            }
            None => Ok(memory.expand_placeholders(body)),
        }
    }

    /// Adds the key, marked as sensitive, to the header that this provider expects.
    fn add_key_header(&self, headers: &mut HeaderMap) -> Result<(), RequestFailure> {
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        let (name, prefix) = match self.shared.provider {
            Provider::Anthropic => (HeaderName::from_static("x-api-key"), ""),
            Provider::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
            Provider::OpenAi | Provider::OpenAiResponses | Provider::Ollama => {
                (AUTHORIZATION, "Bearer ")
            }
        };
        headers.remove(&name);
        if let Some(key) = &self.shared.key {
            let value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()));
            let mut value = value.map_err(|_invalid| {
                RequestFailure::new(ModelErrorKind::Auth, "the key contains invalid characters")
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }
}

const USER_AGENT_VALUE: &str = concat!("callboard/", env!("CARGO_PKG_VERSION"));

impl HttpClientExt for HttpSender {
    fn send<T, U>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = http_client::Result<Response<LazyBody<U>>>> + Send + 'static
    where
        T: Into<Bytes> + Send,
        U: From<Bytes> + Send + 'static,
    {
        let (http, request) = (self.clone(), request.map(Into::into));
        async move {
            let response = http.send_request(request).await?;
            let head = (response.status(), response.headers().clone());
            let body: LazyBody<U> = Box::pin(async move {
                let body = read_body_within_limit(
                    response,
                    limits::MAX_RESPONSE_BODY_BYTES,
                    OnBodyOverLimit::Fail,
                )
                .await?;
                Ok(U::from(Bytes::from(body)))
            });
            Ok(build_response(head, body))
        }
    }

    /// Model requests are never multipart.
    fn send_multipart<U>(
        &self,
        _: Request<MultipartForm>,
    ) -> impl Future<Output = http_client::Result<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        let error =
            RequestFailure::new(ModelErrorKind::Other, "multipart requests are not supported");
        std::future::ready(Err(Error::instance(error)))
    }

    fn send_streaming<T>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = http_client::Result<StreamingResponse>> + Send
    where
        T: Into<Bytes> + Send,
    {
        let (http, request) = (self.clone(), request.map(Into::into));
        async move {
            let wants_events =
                media_type_of_header(request.headers(), &ACCEPT) == "text/event-stream";
            let response = http.send_request(request).await?;
            let (status, mut headers) = (response.status(), response.headers().clone());
            let events = HeaderValue::from_static("text/event-stream");
            if media_type_of_header(&headers, &CONTENT_TYPE) == "text/html" {
                // The library does not check the content type of a stream of JSON lines.
                return Err(Error::InvalidContentType(HeaderValue::from_static("text/html")));
            }
            if wants_events && media_type_of_header(&headers, &CONTENT_TYPE) == "application/json" {
                // The server does not stream its response, or it reports an error.
                let body = read_body_within_limit(
                    response,
                    limits::MAX_RESPONSE_BODY_BYTES,
                    OnBodyOverLimit::Fail,
                )
                .await?;
                headers.insert(CONTENT_TYPE, events);
                let body: BoxedStream = Box::pin(stream::iter([Ok(json_as_sse_event(&body))]));
                return Ok(build_response((status, headers), body));
            }
            if wants_events {
                headers.entry(CONTENT_TYPE).or_insert(events);
            }
            let body = stream::try_unfold(
                (DrainOnDrop::new(response, http.shared.drains.clone()), 0),
                |(mut body, read)| async move {
                    let chunk =
                        body.next_chunk().await.map_err(|error| stream_broken_error(&error))?;
                    let read = read + chunk.as_ref().map_or(0, Bytes::len);
                    if read > limits::MAX_STREAM_BYTES {
                        return Err(stream_too_long_error());
                    }
                    Ok(chunk.map(|chunk| (chunk, (body, read))))
                },
            );
            let body: BoxedStream = Box::pin(body);
            Ok(build_response((status, headers), body))
        }
    }
}

fn build_response<B>((status, headers): (StatusCode, HeaderMap), body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Returns the media type from a header, without its parameters.
fn media_type_of_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Converts a JSON document into a stream with one event. In JSON, line breaks are only white
/// space, so they can be replaced.
fn json_as_sse_event(json: &[u8]) -> Bytes {
    let mut event = b"data: ".to_vec();
    event.extend(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    event.extend(b"\n\n");
    Bytes::from(event)
}

/// Action to take if a response body exceeds the size limit.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OnBodyOverLimit {
    Truncate,
    Fail,
}

pub(super) async fn read_body_within_limit(
    mut response: reqwest::Response,
    limit: usize,
    at_limit: OnBodyOverLimit,
) -> http_client::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| stream_broken_error(&error))? {
        let room = limit - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            if at_limit == OnBodyOverLimit::Truncate {
                break;
            }
            let text = format!("the response exceeds {limit} bytes");
            return Err(Error::instance(RequestFailure::new(ModelErrorKind::Other, text)));
        }
    }
    Ok(body)
}

/// Returns the message of an error's innermost cause, without addresses.
fn root_cause(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes.dedup();
    // The outer causes only state that an error occurred.
    causes
        .pop()
        .map_or_else(|| "unknown cause".to_owned(), |cause| errors::visible_single_line(&cause))
}

/// Returns whether the connection was refused, i.e. whether no server listens at the address.
fn is_connection_refused(error: &reqwest::Error) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        let io = cause.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = cause.source();
    }
    false
}

/// Returns the error for a local address on which no server listens. The error names the server
/// that the user should start.
fn server_not_running_error(host: &str, provider: Provider, port: Option<u16>) -> RequestFailure {
    let server = expected_server_name(provider, port);
    let text = format!("nothing listens at {host}: is {server} running?");
    RequestFailure::new(ModelErrorKind::Unreachable, text)
}

/// Returns the name of the server that is expected at a local address.
fn expected_server_name(provider: Provider, port: Option<u16>) -> &'static str {
    match (provider, port) {
        (Provider::Ollama, _) | (_, Some(11434)) => "Ollama",
        (_, Some(8080)) => "llama.cpp's server",
        (_, Some(1234)) => "LM Studio",
        _ => "the model server",
    }
}

/// Returns the error for a request that got no response. The error is transient unless a
/// certificate or the request itself is the cause.
fn unanswered_request_error(error: &reqwest::Error, host: &str) -> RequestFailure {
    let cause = root_cause(error);
    if cause.contains("certificate") || cause.contains("UnknownIssuer") {
        let text = format!(
            "the certificate of {host} is not trusted: {cause}. To trust it, set `ca_file` in the \
             configuration to a file with its authority's certificate (PEM)"
        );
        return RequestFailure::new(ModelErrorKind::Other, text);
    }
    let text = if error.is_builder() {
        return RequestFailure::new(
            ModelErrorKind::Other,
            format!("the request to {host} is invalid: {cause}"),
        );
    } else if error.is_connect() || error.is_timeout() {
        format!("cannot connect to {host}: {cause}")
    } else {
        format!("the connection to {host} failed: {cause}")
    };
    RequestFailure::new(ModelErrorKind::Transient, text)
}

fn stream_too_long_error() -> Error {
    let text = format!("the reply exceeds {} MiB", limits::MAX_STREAM_BYTES >> 20);
    Error::instance(RequestFailure::new(ModelErrorKind::Other, text))
}

fn stream_broken_error(error: &reqwest::Error) -> Error {
    let text = format!("the reply was cut off: {}", root_cause(error));
    Error::instance(RequestFailure::new(ModelErrorKind::Transient, text))
}
