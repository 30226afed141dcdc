//! The server: takes connections, answers by its script, and keeps what it was asked.

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
use super::http::{Input, Output, Request};
use super::limits::{MAX_KEPT, MAX_KEPT_BODY_BYTES};
use super::script::{Answer, Body, Reply};

/// A running server of models on loopback. It ends when this is dropped.
pub struct ModelServer {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// A request that the server was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The dialect, of a request for a reply; none of any other.
    pub dialect: Option<Dialect>,
    /// `GET`, `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; empty where more bytes are kept already than the server keeps.
    pub body: Arc<[u8]>,
    /// Which connection it came on, counted from 0.
    pub connection: usize,
    /// When its headers and its body were there.
    pub asked_at: Instant,
    /// What became of its answer.
    pub fate: Fate,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is being told.
    Open,
    /// Its last byte went out then.
    Told(Instant),
    /// The client was gone before that, which was noticed then.
    Left(Instant),
}

impl Asked {
    /// Returns a header by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the body as JSON; `null` if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What carries a connection's bytes.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Wire for S {}

type Accept = Box<dyn Fn(TcpStream) -> BoxFuture<'static, io::Result<Box<dyn Wire>>> + Send + Sync>;

impl ModelServer {
    /// Starts a server that gives each request for a reply the next answer. When all are given, a
    /// reply says so.
    ///
    /// # Errors
    /// If there is no port to listen on.
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> io::Result<Self> {
        let mut answers: VecDeque<_> = answers.into_iter().collect();
        let used_up = || Reply::new().text("The script is used up.").into();
        Self::answering(move |_| answers.pop_front().unwrap_or_else(used_up)).await
    }

    /// Starts a server that makes its answers as it is asked.
    ///
    /// # Errors
    /// If there is no port to listen on.
    pub async fn answering(
        answer: impl FnMut(&Asked) -> Answer + Send + 'static,
    ) -> io::Result<Self> {
        let plain = |stream: TcpStream| -> BoxFuture<'static, io::Result<Box<dyn Wire>>> {
            Box::pin(async move { Ok(Box::new(stream) as Box<dyn Wire>) })
        };
        Self::bind("http", Box::new(plain), Box::new(answer)).await
    }

    /// Starts a server whose connections go through `accept` first: a handshake of TLS. Where that
    /// fails, the connection is closed. Its URLs begin with `https` and name `localhost`.
    ///
    /// # Errors
    /// If there is no port to listen on.
    pub async fn start_over<F, S>(
        accept: impl Fn(TcpStream) -> F + Send + Sync + 'static,
        answer: impl FnMut(&Asked) -> Answer + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: Wire + 'static,
    {
        let accept = move |stream: TcpStream| -> BoxFuture<'static, io::Result<Box<dyn Wire>>> {
            let accepted = accept(stream);
            Box::pin(async move { Ok(Box::new(accepted.await?) as Box<dyn Wire>) })
        };
        Self::bind("https", Box::new(accept), Box::new(answer)).await
    }

    async fn bind(scheme: &'static str, accept: Accept, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (asked, _) = watch::channel(Vec::new());
        let shared = Arc::new(Shared { script: Mutex::new(script), asked, accept });
        let accepting = tokio::spawn(take_connections(listener, Arc::clone(&shared)));
        Ok(Self { address, scheme, shared, accepting })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL that clients of a dialect take, without a slash at its end.
    #[must_use]
    pub fn base_url(&self, dialect: Dialect) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}{}", self.scheme, self.address.port(), dialect.base_path())
    }

    /// Returns all that it was asked, in order; requests for replies and others.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.borrow().clone()
    }

    /// Looks at all that it was asked, without a copy of it.
    pub fn look<T>(&self, look: impl FnOnce(&[Asked]) -> T) -> T {
        look(&self.shared.asked.borrow())
    }

    /// Returns the requests for replies, in order.
    #[must_use]
    pub fn replies(&self) -> Vec<Asked> {
        let asked = self.shared.asked.borrow();
        asked.iter().filter(|asked| asked.dialect.is_some()).cloned().collect()
    }

    /// Waits until what it was asked, and what became of that, is what the caller waits for. There
    /// is no deadline; returns whether it came before the server's end.
    pub async fn until(&self, mut has: impl FnMut(&[Asked]) -> bool) -> bool {
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

type Script = Box<dyn FnMut(&Asked) -> Answer + Send>;

struct Shared {
    script: Mutex<Script>,
    asked: watch::Sender<Vec<Asked>>,
    accept: Accept,
}

/// Takes connections until it is aborted; those that are open end with it.
async fn take_connections(listener: TcpListener, shared: Arc<Shared>) {
    let mut open = JoinSet::new();
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else { return };
        // Small writes are to arrive as they are made.
        stream.set_nodelay(true).ok();
        open.spawn(serve(stream, Arc::clone(&shared), connection));
        while open.try_join_next().is_some() {}
    }
}

/// Serves a connection to its end. An error is the client's, and ends it.
async fn serve(stream: TcpStream, shared: Arc<Shared>, connection: usize) -> io::Result<()> {
    let (read, write) = tokio::io::split((shared.accept)(stream).await?);
    let (mut input, mut output) = (Input::new(read), Output::new(write));
    while let Some(request) = input.request().await? {
        let (nth, asked) = shared.ask(request, connection);
        let told = tokio::select! {
            told = tell(&mut output, &shared, nth, &asked) => told,
            () = input.closed() => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let now = Instant::now();
        shared.end(nth, if told.is_ok() { Fate::Told(now) } else { Fate::Left(now) });
        if !told? {
            break;
        }
    }
    Ok(())
}

/// Answers a request; returns whether the connection goes on.
async fn tell<W: AsyncWrite + Unpin>(
    output: &mut Output<W>,
    shared: &Shared,
    nth: usize,
    asked: &Asked,
) -> io::Result<bool> {
    let Some(dialect) = asked.dialect else {
        let (status, body) = listing(asked);
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        output.whole(status, &headers, body.to_string().as_bytes()).await?;
        return Ok(true);
    };
    let Answer { status, mut headers, after_ms, body } = shared.answer(asked);
    // A timer of no time takes a whole tick of the runtime's clock.
    if after_ms > 0 {
        sleep(Duration::from_millis(after_ms)).await;
    }
    let mut default = |content_type: &str| {
        headers.entry("content-type".to_owned()).or_insert_with(|| content_type.to_owned());
        headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    match body {
        Body::Nothing => return Ok(false),
        Body::Reply(reply) => {
            output.write_bytes = reply.write_bytes;
            let headers = default(dialect.content_type());
            return output.pieces(status, &headers, dialect.tell(&reply, nth)).await;
        }
        Body::Error(message) => {
            let body = dialect.error(status, &message).to_string();
            output.whole(status, &default("application/json"), body.as_bytes()).await?;
        }
        Body::Raw(bytes) => output.whole(status, &default("text/plain"), &bytes).await?,
    }
    Ok(true)
}

/// What is said of the models that there are: there is one, named `scripted`.
fn listing(asked: &Asked) -> (u16, Value) {
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

impl Shared {
    /// Keeps a request; returns its place among all.
    fn ask(&self, request: Request, connection: usize) -> (usize, Asked) {
        let Request { method, path, headers, body } = request;
        let dialect = Dialect::of_path(&path).filter(|_| method == "POST");
        let (asked_at, fate) = (Instant::now(), Fate::Open);
        let body = body.into();
        let asked = Asked { dialect, method, path, headers, body, connection, asked_at, fate };
        let mut nth = 0;
        self.asked.send_modify(|all| {
            nth = all.len();
            if nth < MAX_KEPT {
                let kept: usize = all.iter().map(|asked| asked.body.len()).sum();
                let mut asked = asked.clone();
                if kept + asked.body.len() > MAX_KEPT_BODY_BYTES {
                    asked.body = Arc::default();
                }
                all.push(asked);
            }
        });
        (nth, asked)
    }

    fn answer(&self, asked: &Asked) -> Answer {
        (self.script.lock().unwrap_or_else(PoisonError::into_inner))(asked)
    }

    fn end(&self, nth: usize, fate: Fate) {
        self.asked.send_modify(|all| {
            if let Some(asked) = all.get_mut(nth) {
                asked.fate = fate;
            }
        });
    }
}
