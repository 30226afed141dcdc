//! One request to checked addresses, and its bounded response.
//!
//! The request is sent over a stream that the connector of this crate has opened. An HTTP client
//! that opens its own connections is not used, because tests could not observe its addresses.

use std::error::Error as _;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING,
    CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    PROXY_AUTHORIZATION, USER_AGENT,
};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::body::{Body, BodyCollector, BodyError};
use super::media_type::{MediaType, Representation};
use super::page_url::PageUrl;
use super::tls::system_config;
use crate::limits::{MAX_PROXY_HEAD_BYTES, MAX_PROXY_HEADERS};
use crate::network::{ConnectError, Connector, PlainHttpConnection, Route};
use crate::web::limits::{MAX_DOWNLOAD_TIME, MAX_PAGE_BYTES, MAX_STALL_TIME};

/// The value of the field `User-Agent`.
const PROGRAM: &str =
    concat!("callboard/", env!("CARGO_PKG_VERSION"), " (+", env!("CARGO_PKG_REPOSITORY"), ")");

const ACCEPTED_TYPES: &str = "text/html, application/xhtml+xml, text/markdown;q=0.9, \
                              text/plain;q=0.9, application/json;q=0.9, */*;q=0.5";

/// A request.
#[derive(Debug)]
pub(crate) struct WebRequest {
    pub(crate) url: PageUrl,
    /// The JSON to send. `None` means `GET`.
    pub(crate) json: Option<String>,
    /// A header field with a secret value.
    pub(crate) secret: Option<(HeaderName, HeaderValue)>,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct ReceivedResponse {
    pub(crate) status: u16,
    pub(crate) media_type: MediaType,
    /// The body. `None` if it was not downloaded, because the response is a redirect or cannot be
    /// shown.
    pub(crate) body: Option<Body>,
    /// The declared size in bytes of the body.
    pub(crate) declared_bytes: Option<u64>,
    /// The target of a redirect.
    pub(crate) location: Option<String>,
    /// Whether the response may be stored in a cache.
    pub(crate) may_store: bool,
}

/// The reason why a request has failed. Unless stated otherwise, each text is the end of a
/// sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DownloadError {
    /// The connection could not be opened. The text of this error is a whole sentence.
    Connect(ConnectError),
    /// The encryption could not be set up, e.g. because the certificate is not trusted.
    Tls(String),
    /// The response of the server violates HTTP.
    Protocol(String),
    /// The body cannot be decoded.
    Body(String),
    /// Nothing was received for [`MAX_STALL_TIME`].
    Stalled,
    /// The response was not complete after [`MAX_DOWNLOAD_TIME`].
    TooSlow,
}

impl WebRequest {
    pub(crate) fn get(url: PageUrl) -> Self {
        Self { url, json: None, secret: None }
    }
}

/// Receives the number of bytes that were received so far, and the declared total if there is one.
pub(crate) type OnBytes<'a> = dyn Fn(u64, Option<u64>) + Send + Sync + 'a;

/// Sends a request over a route of the connector, and receives the response. Redirects are not
/// followed. If `tls` is set, its certificate authorities replace those of the system.
pub(super) async fn download(
    connector: &Connector,
    route: &Route,
    tls: Option<&Arc<ClientConfig>>,
    request: WebRequest,
    on_bytes: &OnBytes<'_>,
) -> Result<ReceivedResponse, DownloadError> {
    let exchange = async {
        let url = request.url.clone();
        if url.is_https() {
            // `open` itself limits the time of each connection attempt.
            let stream = connector.open(route).await.map_err(DownloadError::Connect)?;
            let config = match tls {
                Some(config) => Arc::clone(config),
                None => system_config().await.map_err(DownloadError::Tls)?,
            };
            let name = ServerName::try_from(route.destination.host.clone());
            let name = name.map_err(|error| DownloadError::Tls(error.to_string()))?;
            let handshake = TlsConnector::from(config).connect(name, stream);
            let stream = unless_stalled(handshake).await?;
            let stream = stream.map_err(|error| DownloadError::Tls(error.to_string()))?;
            let target = url.path_and_query();
            exchange(stream, http_request(request, &target, None)?, on_bytes).await
        } else {
            let opened = connector.open_plain(route).await.map_err(DownloadError::Connect)?;
            let PlainHttpConnection { stream, is_proxied, authorization } = opened;
            let target = if is_proxied { url.to_string() } else { url.path_and_query() };
            let request = http_request(request, &target, authorization.as_deref())?;
            exchange(stream, request, on_bytes).await
        }
    };
    within_time(exchange).await
}

/// Waits for a whole exchange, at most [`MAX_DOWNLOAD_TIME`].
pub(super) async fn within_time<T>(
    exchange: impl Future<Output = Result<T, DownloadError>>,
) -> Result<T, DownloadError> {
    timeout(MAX_DOWNLOAD_TIME, exchange).await.unwrap_or(Err(DownloadError::TooSlow))
}

/// Waits for one step of an exchange, at most [`MAX_STALL_TIME`].
async fn unless_stalled<T>(step: impl Future<Output = T>) -> Result<T, DownloadError> {
    timeout(MAX_STALL_TIME, step).await.or(Err(DownloadError::Stalled))
}

pub(super) fn http_request(
    request: WebRequest,
    target: &str,
    proxy_authorization: Option<&str>,
) -> Result<Request<Full<Bytes>>, DownloadError> {
    let WebRequest { url, json, secret } = request;
    let method = if json.is_some() { Method::POST } else { Method::GET };
    let mut builder = Request::builder()
        .method(method)
        .uri(target)
        .header(HOST, url.authority())
        .header(USER_AGENT, PROGRAM)
        .header(ACCEPT, ACCEPTED_TYPES)
        .header(ACCEPT_ENCODING, "gzip")
        .header(CONNECTION, "close");
    if let Some(authorization) = proxy_authorization {
        builder = builder.header(PROXY_AUTHORIZATION, authorization);
    }
    if json.is_some() {
        builder = builder.header(CONTENT_TYPE, "application/json");
    }
    if let Some((name, value)) = secret {
        builder = builder.header(name, value);
    }
    let body = Full::new(Bytes::from(json.unwrap_or_default()));
    builder.body(body).map_err(|error| DownloadError::Protocol(error.to_string()))
}

pub(super) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    on_bytes: &OnBytes<'_>,
) -> Result<ReceivedResponse, DownloadError> {
    let handshake = http1::Builder::new()
        .max_buf_size(MAX_PROXY_HEAD_BYTES)
        .max_headers(MAX_PROXY_HEADERS)
        .handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| protocol_error(&error))?;
    // Dropping the set aborts the task, which closes the connection.
    let mut connections = JoinSet::new();
    connections.spawn(async move {
        // Ignore the error, because the sender and the body report it too.
        drop(connection.await);
    });
    let response = unless_stalled(sender.send_request(request)).await?;
    let response = response.map_err(|error| protocol_error(&error))?;
    receive_response(response, on_bytes).await
}

async fn receive_response(
    response: Response<Incoming>,
    on_bytes: &OnBytes<'_>,
) -> Result<ReceivedResponse, DownloadError> {
    let (head, mut incoming) = response.into_parts();
    let field = |name: HeaderName| header_as_ascii_text(&head.headers, &name);
    let media_type = MediaType::parse(&field(CONTENT_TYPE).unwrap_or_default());
    let declared_bytes = field(CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let is_redirect = matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let may_store =
        !field(CACHE_CONTROL).is_some_and(|value| value.to_ascii_lowercase().contains("no-store"));
    let mut received = ReceivedResponse {
        status: head.status.as_u16(),
        body: None,
        declared_bytes,
        location: field(LOCATION).filter(|_| is_redirect),
        may_store,
        media_type,
    };
    let is_shown = received.media_type.representation() != Some(Representation::Binary);
    if received.location.is_some() || !is_shown {
        return Ok(received);
    }
    let body_error = |BodyError(reason)| DownloadError::Body(reason);
    let encoding = field(CONTENT_ENCODING).unwrap_or_default();
    let mut collector = BodyCollector::try_new(&encoding, MAX_PAGE_BYTES).map_err(body_error)?;
    let mut is_complete = true;
    while !incoming.is_end_stream() {
        let Some(frame) = unless_stalled(incoming.frame()).await? else { break };
        let frame = frame.map_err(|error| protocol_error(&error))?;
        let Some(bytes) = frame.data_ref() else { continue };
        is_complete = collector.push(bytes).map_err(body_error)?;
        on_bytes(collector.len() as u64, declared_bytes.filter(|_| encoding.is_empty()));
        if !is_complete {
            break;
        }
    }
    received.body = Some(collector.finish(is_complete).map_err(body_error)?);
    Ok(received)
}

/// Returns the value of a field. Non-ASCII bytes are percent-encoded, because some servers send
/// them in the target of a redirect although HTTP forbids this.
fn header_as_ascii_text(fields: &HeaderMap, name: &HeaderName) -> Option<String> {
    let encode = |byte: &u8| match byte {
        0x20..=0x7e | b'\t' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    Some(fields.get(name)?.as_bytes().iter().map(encode).collect())
}

/// Returns the cause of an error, because the error itself only names the failed step.
fn protocol_error(error: &hyper::Error) -> DownloadError {
    let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    DownloadError::Protocol(cause)
}

/// Returns the field `Authorization` with a bearer token.
pub(crate) fn bearer(token: &str) -> Option<(HeaderName, HeaderValue)> {
    secret_field(AUTHORIZATION, &format!("Bearer {token}"))
}

/// Returns a field whose value is not logged. `None` if the value is invalid.
pub(crate) fn secret_field(name: HeaderName, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}
