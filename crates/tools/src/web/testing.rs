//! A simulated network for tests: names can have any addresses, and all of them lead to one server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::network::NetworkFunctions;

/// The answer of a server to one request.
pub(crate) enum Answer {
    /// Sends all bytes, then closes the connection.
    Whole(Vec<u8>),
    /// Sends the first bytes once, then the second bytes again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// Sends the bytes, and keeps the connection open without sending more.
    Stalled(Vec<u8>),
}

/// A server at loopback. It is stopped when the value is dropped.
pub(crate) struct TestServer {
    pub(crate) port: u16,
    /// The requests with their bodies, in the order in which they were received.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    _connections: JoinSet<()>,
}

impl TestServer {
    pub(crate) async fn start(respond: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (received, respond) = (requests.clone(), Arc::new(respond));
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (received, respond) = (received.clone(), respond.clone());
                open.spawn(async move {
                    let Some(request) = read_request(&mut stream).await else { return };
                    received.lock().unwrap().push(request.clone());
                    send_answer(&mut stream, respond(&request)).await;
                });
            }
        });
        Self { port, requests, _connections: connections }
    }

    /// Starts a server. `pages` contains the response for each path.
    pub(crate) async fn with_pages(pages: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self::start(move |request| {
            let path = request.split(' ').nth(1).unwrap();
            let page = pages.iter().find(|(name, _)| *name == path);
            Answer::Whole(page.map_or_else(|| response(404, "", b"none"), |(_, page)| page.clone()))
        })
        .await
    }

    pub(crate) fn request_count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut received = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        if stream.read_buf(&mut received).await.ok()? == 0 {
            return None;
        }
    }
}

async fn send_answer(stream: &mut TcpStream, answer: Answer) {
    // Ignore errors, because the client may close the connection at any time.
    let sent = async {
        match answer {
            Answer::Whole(bytes) => {
                stream.write_all(&bytes).await?;
                stream.shutdown().await?;
            }
            Answer::Endless(first, again) => {
                stream.write_all(&first).await?;
                loop {
                    stream.write_all(&again).await?;
                }
            }
            Answer::Stalled(first) => {
                stream.write_all(&first).await?;
                std::future::pending::<()>().await;
            }
        }
        io::Result::Ok(())
    };
    drop(sent.await);
}

/// Returns a response whose fields are lines that end with `\r\n`.
pub(crate) fn response(status: u16, fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{fields}\r\n");
    [head.as_bytes(), body].concat()
}

/// Returns a response with a page.
pub(crate) fn page(media_type: &str, body: &[u8]) -> Vec<u8> {
    response(200, &format!("Content-Type: {media_type}\r\n"), body)
}

/// Returns a redirect.
pub(crate) fn redirect(location: &str) -> Vec<u8> {
    response(302, &format!("Location: {location}\r\n"), b"")
}

/// A network that records the resolved names and the connected addresses. All connections lead to
/// one server.
pub(crate) struct TestNetwork {
    pub(crate) network: Arc<NetworkFunctions>,
    pub(crate) resolved: Arc<Mutex<Vec<String>>>,
    pub(crate) connected: Arc<Mutex<Vec<IpAddr>>>,
}

impl TestNetwork {
    /// Creates a network with a server. `answer` returns the addresses of a name. Its second
    /// argument is the number of names that were resolved before.
    pub(crate) fn new(
        server: &TestServer,
        answer: impl Fn(&str, usize) -> Vec<&'static str> + Send + Sync + 'static,
    ) -> Self {
        let resolved = Arc::<Mutex<Vec<String>>>::default();
        let connected = Arc::<Mutex<Vec<IpAddr>>>::default();
        let (names, addresses, port) = (resolved.clone(), connected.clone(), server.port);
        let network = Arc::new(NetworkFunctions {
            resolve: Box::new(move |name| {
                let mut names = names.lock().unwrap();
                let answer = answer(&name.host, names.len());
                names.push(name.host.clone());
                let to_socket =
                    |address: &&str| SocketAddr::new(address.parse().unwrap(), name.port);
                let answer: Vec<_> = answer.iter().map(to_socket).collect();
                Box::pin(async move { Ok(answer) })
            }),
            connect: Box::new(move |address| {
                addresses.lock().unwrap().push(address.ip());
                Box::pin(TcpStream::connect(("127.0.0.1", port)))
            }),
            is_own_address: Box::new(|address| address.to_string() == "203.0.113.99"),
        });
        Self { network, resolved, connected }
    }

    /// Creates a network in which every name has a public address.
    pub(crate) fn public(server: &TestServer) -> Self {
        Self::new(server, |_, _| vec!["203.0.113.1"])
    }

    pub(crate) fn connected(&self) -> Vec<String> {
        self.connected.lock().unwrap().iter().map(IpAddr::to_string).collect()
    }

    pub(crate) fn resolved(&self) -> Vec<String> {
        self.resolved.lock().unwrap().clone()
    }
}
