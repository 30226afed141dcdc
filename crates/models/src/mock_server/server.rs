//! The server, which accepts connections, responds according to its script, and records requests.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::dialect::Dialect;
use super::http::{HttpRequest, RequestReader, ResponseWriter};
use super::limits::{MAX_RECORDED_BODY_BYTES, MAX_RECORDED_REQUESTS};
use super::script::{MockBody, MockReply, MockResponse};

/// A running model server on loopback. Dropping a `ModelServer` stops the server.
pub struct ModelServer {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<ServerState>,
    accepting: JoinHandle<()>,
}

/// A request that the server received.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// Dialect of the request, if the request is for a reply. `None` for any other request.
    pub dialect: Option<Dialect>,
    /// HTTP method, e.g. `POST`.
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// Headers in the order of the request. Their names are in lower case.
    pub headers: Vec<(String, String)>,
    /// Body of the request. The body is empty if the maximum total size of recorded bodies was
    /// reached before.
    pub body: Arc<[u8]>,
    /// Number of the connection, counted from 0.
    pub connection: usize,
    /// Time at which the complete request had been received.
    pub received_at: Instant,
    /// State of the response.
    pub progress: ResponseProgress,
}

/// The state of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseProgress {
    /// The response is being sent.
    Pending,
    /// The last byte was sent at this time.
    Sent(Instant),
    /// The client disconnected before the last byte was sent. The time is the moment at which the
    /// server detected the disconnection.
    Disconnected(Instant),
}

impl RecordedRequest {
    /// Returns the value of a header. The name of the header must be in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the body as JSON, or `null` if it is not JSON.
    #[must_use]
    pub fn body_json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The byte stream of a connection, plain or with TLS.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

type AcceptConnectionFn =
    Box<dyn Fn(TcpStream) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> + Send + Sync>;

impl ModelServer {
    /// Starts a server that answers each request for a reply with the next response of the script.
    /// When all responses are used, each further reply is a text which states that the script is
    /// used up.
    ///
    /// # Errors
    /// Returns an error if no port can be bound.
    pub async fn start(answers: impl IntoIterator<Item = MockResponse>) -> io::Result<Self> {
        let mut answers: VecDeque<_> = answers.into_iter().collect();
        let used_up = || MockReply::new().with_text("The script is used up.").into();
        Self::start_with_responder(move |_| answers.pop_front().unwrap_or_else(used_up)).await
    }

    /// Starts a server that computes each response from the request.
    ///
    /// # Errors
    /// Returns an error if no port can be bound.
    pub async fn start_with_responder(
        answer: impl FnMut(&RecordedRequest) -> MockResponse + Send + 'static,
    ) -> io::Result<Self> {
        let plain = |stream: TcpStream| -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
            Box::pin(async move { Ok(Box::new(stream) as Box<dyn ByteStream>) })
        };
        Self::start_listening("http", Box::new(plain), Box::new(answer)).await
    }

    /// Starts a server that performs a TLS handshake on each connection by calling `accept`. If the
    /// handshake fails, the connection is closed. The server's URLs begin with `https` and contain
    /// the host name `localhost`.
    ///
    /// # Errors
    /// Returns an error if no port can be bound.
    pub async fn start_with_tls_acceptor<F, S>(
        accept: impl Fn(TcpStream) -> F + Send + Sync + 'static,
        answer: impl FnMut(&RecordedRequest) -> MockResponse + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: ByteStream + 'static,
    {
        let accept =
            move |stream: TcpStream| -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
                let accepted = accept(stream);
                Box::pin(async move { Ok(Box::new(accepted.await?) as Box<dyn ByteStream>) })
            };
        Self::start_listening("https", Box::new(accept), Box::new(answer)).await
    }

    async fn start_listening(
        scheme: &'static str,
        accept: AcceptConnectionFn,
        script: RespondFn,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (asked, _) = watch::channel(Vec::new());
        let shared = Arc::new(ServerState { script: Mutex::new(script), asked, accept });
        let accepting = tokio::spawn(accept_connections(listener, Arc::clone(&shared)));
        Ok(Self { address, scheme, shared, accepting })
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL for clients of a dialect, without a trailing slash.
    #[must_use]
    pub fn base_url(&self, dialect: Dialect) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}{}", self.scheme, self.address.port(), dialect.base_path())
    }

    /// Returns all recorded requests in their order.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.asked.borrow().clone()
    }

    /// Passes all recorded requests to `look` without copying them.
    pub fn inspect_requests<T>(&self, look: impl FnOnce(&[RecordedRequest]) -> T) -> T {
        look(&self.shared.asked.borrow())
    }

    /// Returns the requests for replies, in order.
    #[must_use]
    pub fn reply_requests(&self) -> Vec<RecordedRequest> {
        let asked = self.shared.asked.borrow();
        asked.iter().filter(|asked| asked.dialect.is_some()).cloned().collect()
    }

    /// Waits until `has` returns true for the recorded requests, including their outcomes. There is
    /// no timeout. Returns false if the server stops before `has` returns true.
    pub async fn wait_until_requests_match(
        &self,
        mut has: impl FnMut(&[RecordedRequest]) -> bool,
    ) -> bool {
        self.shared.asked.subscribe().wait_for(|asked| has(asked)).await.is_ok()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ModelServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

type RespondFn = Box<dyn FnMut(&RecordedRequest) -> MockResponse + Send>;

struct ServerState {
    script: Mutex<RespondFn>,
    asked: watch::Sender<Vec<RecordedRequest>>,
    accept: AcceptConnectionFn,
}

/// Accepts connections until the task is aborted. Aborting the task also closes the open
/// connections.
async fn accept_connections(listener: TcpListener, shared: Arc<ServerState>) {
    let mut open = JoinSet::new();
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else { return };
        // Without `TCP_NODELAY`, the system could merge small writes.
        stream.set_nodelay(true).ok();
        open.spawn(serve_connection(stream, Arc::clone(&shared), connection));
        while open.try_join_next().is_some() {}
    }
}

/// Serves a connection until the connection ends. Errors are caused by the client and close the
/// connection.
async fn serve_connection(
    stream: TcpStream,
    shared: Arc<ServerState>,
    connection: usize,
) -> io::Result<()> {
    let (read, write) = tokio::io::split((shared.accept)(stream).await?);
    let (mut input, mut output) = (RequestReader::new(read), ResponseWriter::new(write));
    while let Some(request) = input.read_request().await? {
        let (nth, asked) = shared.record_request(request, connection);
        let result = tokio::select! {
            result = write_response(&mut output, &shared, nth, &asked) => result,
            () = input.wait_for_disconnect() => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let now = Instant::now();
        shared.record_progress(
            nth,
            if result.is_ok() {
                ResponseProgress::Sent(now)
            } else {
                ResponseProgress::Disconnected(now)
            },
        );
        if !result? {
            break;
        }
    }
    Ok(())
}

/// Responds to a request. Returns whether the connection can be reused.
async fn write_response<W: AsyncWrite + Unpin>(
    output: &mut ResponseWriter<W>,
    shared: &ServerState,
    nth: usize,
    asked: &RecordedRequest,
) -> io::Result<bool> {
    let Some(dialect) = asked.dialect else {
        let (status, body) = model_list_response(asked);
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        output.write_response_with_length(status, &headers, body.to_string().as_bytes()).await?;
        return Ok(true);
    };
    let MockResponse { status, mut headers, after_ms, body } = shared.response_for_request(asked);
    // Even a sleep of 0 ms would wait for the next tick of the runtime's clock.
    if after_ms > 0 {
        sleep(Duration::from_millis(after_ms)).await;
    }
    let mut default = |content_type: &str| {
        headers.entry("content-type".to_owned()).or_insert_with(|| content_type.to_owned());
        headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    match body {
        MockBody::Nothing => return Ok(false),
        MockBody::Reply(reply) => {
            output.write_bytes = reply.write_bytes;
            let headers = default(dialect.content_type());
            return output
                .write_chunked_response(status, &headers, dialect.encode_reply(&reply, nth))
                .await;
        }
        MockBody::Error(message) => {
            let body = dialect.error_body(status, &message).to_string();
            output
                .write_response_with_length(status, &default("application/json"), body.as_bytes())
                .await?;
        }
        MockBody::Raw(bytes) => {
            output.write_response_with_length(status, &default("text/plain"), &bytes).await?;
        }
    }
    Ok(true)
}

/// Returns the list of models, which contains one model named `scripted`.
fn model_list_response(asked: &RecordedRequest) -> (u16, Value) {
    let path = asked.path.split('?').next().unwrap_or_default();
    let listed = match path {
        _ if asked.method != "GET" => return (404, json!({"error": {"message": "not scripted"}})),
        "/api/version" => json!({"version": "0.0.0-scripted"}),
        "/api/tags" => json!({"models": [{"name": "scripted", "model": "scripted"}]}),
        _ if path.ends_with("v1beta/models") => json!({"models": [{
            "name": "models/scripted", "displayName": "Scripted",
            "supportedGenerationMethods": ["generateContent"],
        }]}),
        _ if path.ends_with("/models") => json!({"object": "list", "has_more": false, "data": [{
            "id": "scripted", "object": "model", "type": "model", "display_name": "Scripted",
            "created": 0, "created_at": "2026-01-01T00:00:00Z", "owned_by": "callboard",
        }]}),
        _ => return (404, json!({"error": {"message": "not scripted"}})),
    };
    (200, listed)
}

impl ServerState {
    /// Records a request. Returns the request, and its number among all requests.
    fn record_request(&self, request: HttpRequest, connection: usize) -> (usize, RecordedRequest) {
        let HttpRequest { method, path, headers, body } = request;
        let dialect = Dialect::from_request_path(&path).filter(|_| method == "POST");
        let (asked_at, progress) = (Instant::now(), ResponseProgress::Pending);
        let body = body.into();
        let asked = RecordedRequest {
            dialect,
            method,
            path,
            headers,
            body,
            connection,
            received_at: asked_at,
            progress,
        };
        let mut nth = 0;
        self.asked.send_modify(|all| {
            nth = all.len();
            if nth < MAX_RECORDED_REQUESTS {
                let kept: usize = all.iter().map(|asked| asked.body.len()).sum();
                let mut asked = asked.clone();
                if kept + asked.body.len() > MAX_RECORDED_BODY_BYTES {
                    asked.body = Arc::default();
                }
                all.push(asked);
            }
        });
        (nth, asked)
    }

    fn response_for_request(&self, asked: &RecordedRequest) -> MockResponse {
        (self.script.lock().unwrap_or_else(PoisonError::into_inner))(asked)
    }

    fn record_progress(&self, nth: usize, progress: ResponseProgress) {
        self.asked.send_modify(|all| {
            if let Some(asked) = all.get_mut(nth) {
                asked.progress = progress;
            }
        });
    }
}
