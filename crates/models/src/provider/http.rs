//! The way to a provider: requests of the model library, sent by the process's HTTP client.
//!
//! Knows no dialect. It alone holds the key: what the library builds carries none.

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

use self::drain::DrainOnDrop;
use super::errors::{self, RequestFailure};
use super::{
    ApiKey, Provider, ProviderSettings, cached_prefix::PendingBody, encode_cache::EncodeCache,
};
use crate::{ModelErrorKind, limits};

/// Sends requests to one provider. Cheap to make and to clone: nothing of HTTP or TLS exists
/// before the first request.
#[derive(Clone, Debug)]
pub(super) struct HttpSender {
    endpoint: Arc<Endpoint>,
    /// What the one request is of that goes this way, if it is one of a session.
    pending_body: Arc<Mutex<Option<PendingBody>>>,
}

#[derive(Debug)]
struct Endpoint {
    provider: Provider,
    key: Option<ApiKey>,
    ca_file: Option<PathBuf>,
    cache: EncodeCache,
}

impl HttpSender {
    pub(super) fn new(settings: &ProviderSettings) -> Self {
        let ProviderSettings { provider, key, ca_file, .. } = settings.clone();
        let endpoint =
            Arc::new(Endpoint { provider, key, ca_file, cache: EncodeCache::new(provider) });
        Self { endpoint, pending_body: Arc::default() }
    }

    /// Returns the same way for one request of a session.
    pub(super) fn for_request(&self, telling: PendingBody) -> Self {
        Self { endpoint: self.endpoint.clone(), pending_body: Arc::new(Mutex::new(Some(telling))) }
    }

    /// Returns what is put into requests where its marks stand.
    pub(super) fn cache(&self) -> &EncodeCache {
        &self.endpoint.cache
    }

    /// Sends a request and waits for its headers. An answer that is no success is an error.
    async fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> http_client::Result<reqwest::Response> {
        let (mut request, host) = self.build_request(request).map_err(Error::instance)?;
        self.authorize(request.headers_mut()).map_err(Error::instance)?;
        let client = client::client_for(request.url(), self.endpoint.ca_file.as_deref()).await;
        let client = client.map_err(Error::instance)?;
        let url = request.url().clone();
        let answer = timeout(limits::RESPONSE_HEADERS_TIMEOUT, client.execute(request)).await;
        let answer = answer.map_err(|_elapsed| {
            let seconds = limits::RESPONSE_HEADERS_TIMEOUT.as_secs();
            let text = format!("{host} did not begin to answer within {seconds} s");
            Error::instance(RequestFailure::new(ModelErrorKind::IdleTimeout, text))
        })?;
        let response = answer.map_err(|error| {
            match is_connection_refused(&error) && client::is_loopback(&url) {
                true => {
                    Error::instance(server_not_running(&host, self.endpoint.provider, url.port()))
                }
                false => Error::instance(send_failure(&error, &host)),
            }
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let body = timeout(
            limits::ERROR_BODY_TIMEOUT,
            read_body(response, limits::MAX_ERROR_BODY_BYTES, OverLimit::Truncate),
        );
        let body = body.await.ok().and_then(Result::ok).unwrap_or_default();
        let body = String::from_utf8_lossy(&body).into_owned();
        Err(Error::non_success_with_details(status, headers, body))
    }

    /// Takes keys out of the address, where some dialects put them, and names the host.
    fn build_request(
        &self,
        request: Request<Bytes>,
    ) -> Result<(reqwest::Request, String), RequestFailure> {
        let (parts, body) = request.into_parts();
        let body = self.complete_body(body)?;
        let url = parts.uri.to_string();
        let invalid =
            |_| RequestFailure::new(ModelErrorKind::Other, "the provider's address is no URL");
        let mut url = reqwest::Url::parse(&url).map_err(invalid)?;
        if self.endpoint.provider == Provider::Gemini {
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

    /// Puts what is kept and what is long where its marks stand.
    fn complete_body(&self, body: Bytes) -> Result<Bytes, RequestFailure> {
        let memory = &self.endpoint.cache;
        let telling = self.pending_body.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(telling) = telling else { return Ok(memory.expand_placeholders(body)) };
        let needs_it = telling.placeholder().is_some();
        match memory.encode_body(telling, &body) {
            Some(whole) => Ok(whole),
            None if needs_it => {
                // The next attempt tells all anew.
                Err(RequestFailure::new(
                    ModelErrorKind::Transient,
                    "the request could not be written",
                ))
            }
            None => Ok(memory.expand_placeholders(body)),
        }
    }

    /// Puts the key, marked as secret, where this provider wants it.
    fn authorize(&self, headers: &mut HeaderMap) -> Result<(), RequestFailure> {
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        let (name, prefix) = match self.endpoint.provider {
            Provider::Anthropic => (HeaderName::from_static("x-api-key"), ""),
            Provider::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
            Provider::OpenAi | Provider::OpenAiResponses | Provider::Ollama => {
                (AUTHORIZATION, "Bearer ")
            }
        };
        headers.remove(&name);
        if let Some(key) = &self.endpoint.key {
            let value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()));
            let mut value = value.map_err(|_invalid| {
                RequestFailure::new(
                    ModelErrorKind::Auth,
                    "the key holds characters that no key has",
                )
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
                let body =
                    read_body(response, limits::MAX_RESPONSE_BODY_BYTES, OverLimit::Fail).await?;
                Ok(U::from(Bytes::from(body)))
            });
            Ok(build_response(head, body))
        }
    }

    /// No request of a model is one.
    fn send_multipart<U>(
        &self,
        _: Request<MultipartForm>,
    ) -> impl Future<Output = http_client::Result<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        let error =
            RequestFailure::new(ModelErrorKind::Other, "a request in several parts cannot be sent");
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
            let wants_events = media_type(request.headers(), &ACCEPT) == "text/event-stream";
            let response = http.send_request(request).await?;
            let (status, mut headers) = (response.status(), response.headers().clone());
            let events = HeaderValue::from_static("text/event-stream");
            if media_type(&headers, &CONTENT_TYPE) == "text/html" {
                // For a stream of lines of JSON the library does not look.
                return Err(Error::InvalidContentType(HeaderValue::from_static("text/html")));
            }
            if wants_events && media_type(&headers, &CONTENT_TYPE) == "application/json" {
                // A server that streams nothing, or says at once what is wrong.
                let body =
                    read_body(response, limits::MAX_RESPONSE_BODY_BYTES, OverLimit::Fail).await?;
                headers.insert(CONTENT_TYPE, events);
                let body: BoxedStream = Box::pin(stream::iter([Ok(json_as_sse_event(&body))]));
                return Ok(build_response((status, headers), body));
            }
            if wants_events {
                headers.entry(CONTENT_TYPE).or_insert(events);
            }
            let body = stream::try_unfold(
                (DrainOnDrop::new(response), 0),
                |(mut body, read)| async move {
                    let chunk = body.chunk().await.map_err(|error| stream_broken(&error))?;
                    let read = read + chunk.as_ref().map_or(0, Bytes::len);
                    if read > limits::MAX_STREAM_BYTES {
                        return Err(stream_too_long());
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

/// The media type that a header names, without its parameters.
fn media_type<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// A JSON document as a stream of one event. Line breaks in JSON are nothing but white space.
fn json_as_sse_event(json: &[u8]) -> Bytes {
    let mut event = b"data: ".to_vec();
    event.extend(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    event.extend(b"\n\n");
    Bytes::from(event)
}

/// What becomes of a body that is longer than wanted.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OverLimit {
    Truncate,
    Fail,
}

pub(super) async fn read_body(
    mut response: reqwest::Response,
    limit: usize,
    at_limit: OverLimit,
) -> http_client::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| stream_broken(&error))? {
        let room = limit - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            if at_limit == OverLimit::Truncate {
                break;
            }
            let text = format!("the answer is longer than {limit} bytes");
            return Err(Error::instance(RequestFailure::new(ModelErrorKind::Other, text)));
        }
    }
    Ok(body)
}

/// What the causes of an error say, from the outermost to the innermost, without any address.
fn root_cause(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes.dedup();
    // The outer ones only say that there was an error.
    causes.pop().map_or_else(|| "no cause is known".to_owned(), |cause| errors::single_line(&cause))
}

/// Whether nothing listens where a request was to go.
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

/// Says that no server runs at an address of this machine, and which one was expected there.
fn server_not_running(host: &str, provider: Provider, port: Option<u16>) -> RequestFailure {
    let server = expected_server(provider, port);
    let text = format!("nothing listens at {host}: is {server} running?");
    RequestFailure::new(ModelErrorKind::Unreachable, text)
}

/// Names the server that is expected at an address of this machine.
fn expected_server(provider: Provider, port: Option<u16>) -> &'static str {
    match (provider, port) {
        (Provider::Ollama, _) | (_, Some(11434)) => "Ollama",
        (_, Some(8080)) => "llama.cpp's server",
        (_, Some(1234)) => "LM Studio",
        _ => "the model server",
    }
}

/// Says why a request got no answer. Everything but a certificate may be better the next time.
fn send_failure(error: &reqwest::Error, host: &str) -> RequestFailure {
    let cause = root_cause(error);
    if cause.contains("certificate") || cause.contains("UnknownIssuer") {
        let text = format!(
            "the certificate of {host} is not trusted: {cause}. If it is meant to be, name a file \
             with its authority's certificate (PEM) as `ca_file` in the configuration"
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
        format!("the connection to {host} broke: {cause}")
    };
    RequestFailure::new(ModelErrorKind::Transient, text)
}

fn stream_too_long() -> Error {
    let text = format!("the reply is over {} MiB", limits::MAX_STREAM_BYTES >> 20);
    Error::instance(RequestFailure::new(ModelErrorKind::Other, text))
}

fn stream_broken(error: &reqwest::Error) -> Error {
    let text = format!("the reply was cut off: {}", root_cause(error));
    Error::instance(RequestFailure::new(ModelErrorKind::Transient, text))
}
