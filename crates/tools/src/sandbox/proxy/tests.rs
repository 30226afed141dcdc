//! Tests of whole connections. The network of the tests redirects all connections to loopback,
//! where the tests simulate the hosts.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::pending;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt as _, duplex};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::*;
use crate::limits::MAX_PROXY_HEAD_BYTES;

/// Names and their addresses. A name may have several.
const NAMES: &[(&str, &str)] = &[
    ("a.example", "203.0.113.1"),
    ("private.example", "10.0.0.1"),
    ("private.example", "fd00::1"),
    ("mixed.example", "127.0.0.1"),
    ("mixed.example", "10.0.0.1"),
    ("mixed.example", "203.0.113.2"),
    ("local.example", "127.0.0.1"),
    ("metadata.example", "169.254.169.254"),
    ("metadata.example", "::ffff:127.0.0.1"),
    ("proxy.example", "127.0.0.1"),
    ("own.example", "203.0.113.99"),
    ("empty.example", ""),
];

type Judged = (Option<String>, Destination);

struct RunningProxy {
    address: SocketAddr,
    cancel: CancellationToken,
    served: JoinHandle<()>,
    judged: mpsc::UnboundedReceiver<Judged>,
    resolved: Arc<Mutex<Vec<String>>>,
    connected: Arc<Mutex<Vec<IpAddr>>>,
}

impl RunningProxy {
    /// Starts a proxy whose judge always returns the same verdict.
    async fn start(verdict: ConnectionVerdict) -> Self {
        Self::start_with(None, move |_| Box::pin(std::future::ready(verdict.clone()))).await
    }

    async fn start_with(
        upstream: Option<UpstreamProxy>,
        judge: impl Fn(Judged) -> BoxFuture<'static, ConnectionVerdict> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, judged) = mpsc::unbounded_channel();
        let (resolved, connected) = (Arc::default(), Arc::default());
        let network = Arc::new(test_network(Arc::clone(&resolved), Arc::clone(&connected)));
        let judge = Arc::new(move |credentials, destination| {
            sender.send((Option::clone(&credentials), Destination::clone(&destination))).unwrap();
            judge((credentials, destination))
        });
        let cancel = CancellationToken::new();
        let proxy = Proxy { judge, connector: Connector { upstream, network } };
        let served = tokio::spawn(serve_with(listener, proxy, cancel.clone()));
        Self { address, cancel, served, judged, resolved, connected }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request, and returns all that is received until the proxy closes the connection.
    async fn exchange(&self, sent: impl AsRef<[u8]>) -> String {
        let mut client = self.connect().await;
        client.write_all(sent.as_ref()).await.unwrap();
        read_all(&mut client).await
    }

    fn connected(&self) -> Vec<String> {
        let connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        connected.iter().map(IpAddr::to_string).collect()
    }
}

fn test_network(
    resolved: Arc<Mutex<Vec<String>>>,
    connected: Arc<Mutex<Vec<IpAddr>>>,
) -> NetworkFunctions {
    NetworkFunctions {
        resolve: Box::new(move |Destination { host, port }| {
            let records: Vec<_> = NAMES.iter().filter(|(name, _)| *name == host).collect();
            let known = !records.is_empty();
            resolved.lock().unwrap().push(host);
            let addresses = records.into_iter().filter_map(|(_, address)| address.parse().ok());
            let addresses = addresses.map(|ip| SocketAddr::new(ip, port)).collect();
            let unknown = io::Error::other("no such name");
            Box::pin(async move { known.then_some(addresses).ok_or(unknown) })
        }),
        connect: Box::new(move |address| {
            connected.lock().unwrap().push(address.ip());
            Box::pin(TcpStream::connect(("127.0.0.1", address.port())))
        }),
        is_own_address: Box::new(|address| address.to_string() == "203.0.113.99"),
    }
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    String::from_utf8(received).unwrap()
}

/// Simulates a host that accepts one connection, receives `request` and sends `response`. The task
/// returns everything that the host receives until the connection is closed.
async fn play_host(request: &'static str, response: &'static str) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = vec![0; request.len()];
        stream.read_exact(&mut received).await.unwrap();
        assert_eq!(String::from_utf8(received).unwrap(), request);
        stream.write_all(response.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        read_all(&mut stream).await
    });
    (port, host)
}

const ALLOW: ConnectionVerdict = ConnectionVerdict::Allow { allows_private_addresses: false };
const ALLOW_PRIVATE: ConnectionVerdict =
    ConnectionVerdict::Allow { allows_private_addresses: true };

const ESTABLISHED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

fn connect_request(destination: &str) -> String {
    format!("CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n\r\n")
}

fn socks_request(name: &str, port: u16) -> Vec<u8> {
    let name_bytes = u8::try_from(name.len()).unwrap();
    let head = [5, 1, 2, 1, 1, b't', 0, 5, 1, 0, 3, name_bytes];
    [&head[..], name.as_bytes(), &port.to_be_bytes()].concat()
}

/// Returns the body of a response. Panics if the response has another status.
#[track_caller]
fn body_of<'a>(response: &'a str, status: &str) -> &'a str {
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{response}");
    assert!(head.contains("Content-Type: text/plain"), "{response}");
    body.trim_end()
}

#[tokio::test]
async fn connect_opens_a_tunnel_that_starts_with_early_bytes() {
    let (port, host) = play_host("early", "welcome").await;
    let mut proxy = RunningProxy::start(ALLOW).await;
    let mut client = proxy.connect().await;
    let request = connect_request(&format!("A.example.:{port}")) + "early";
    client.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(read_all(&mut client).await, format!("{ESTABLISHED}welcome"));
    // The other direction remains open until the client closes it.
    client.write_all(b"late").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(host.await.unwrap(), "late");
    let destination = Destination { host: "a.example".to_owned(), port };
    assert_eq!(proxy.judged.recv().await, Some((None, destination)));
    assert_eq!(proxy.connected(), ["203.0.113.1"]);
    assert_eq!(*proxy.resolved.lock().unwrap(), ["a.example"]);
}

#[tokio::test]
async fn socks_opens_a_tunnel() {
    let (port, host) = play_host("hello", "welcome").await;
    let mut proxy = RunningProxy::start(ALLOW).await;
    let mut client = proxy.connect().await;
    client.write_all(&socks_request("a.example", port)).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    let received = read_all(&mut client).await;
    assert_eq!(received, "\x05\x02\x01\0\x05\0\0\x01\0\0\0\0\0\0welcome");
    drop(client);
    assert_eq!(host.await.unwrap(), "");
    let (credentials, destination) = proxy.judged.recv().await.unwrap();
    assert_eq!(credentials.as_deref(), Some("t"));
    assert_eq!(destination, Destination { host: "a.example".to_owned(), port });
}

#[tokio::test]
async fn a_plain_request_is_forwarded_without_a_second_one() {
    let forwarded = "POST /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\
                     Content-Length: 4\r\n\r\nbody";
    let (port, host) = play_host("", "HTTP/1.1 200 OK\r\n\r\nanswer").await;
    let mut proxy = RunningProxy::start(ALLOW).await;
    let mut client = proxy.connect().await;
    let request = format!(
        "POST http://a.example:{port}/x HTTP/1.1\r\nHost: b.example\r\nProxy-Connection: \
         keep-alive\r\nProxy-Authorization: Basic dG9rZW46\r\nContent-Length: 4\r\n\r\nbo"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    client.write_all(b"dyGET http://b.example/ HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(read_all(&mut client).await, "HTTP/1.1 200 OK\r\n\r\nanswer");
    client.write_all(b"GET http://c.example/ HTTP/1.1\r\n\r\n").await.unwrap();
    client.shutdown().await.unwrap();
    let received = host.await.unwrap();
    assert_eq!(received.replace(&format!(":{port}"), ""), forwarded);
    assert_eq!(proxy.judged.recv().await.unwrap().0.as_deref(), Some("token"));
    assert!(proxy.judged.try_recv().is_err());
}

#[tokio::test]
async fn refusals_have_the_reason() {
    let reason = "b.example is not allowed".to_owned();
    let proxy = RunningProxy::start(ConnectionVerdict::Refuse { reason }).await;
    for request in [&*connect_request("b.example:443"), "GET http://b.example HTTP/1.1\r\n\r\n"] {
        let response = proxy.exchange(request).await;
        assert_eq!(body_of(&response, "403"), "b.example is not allowed");
    }
    let response = proxy.exchange(socks_request("b.example", 1)).await;
    assert_eq!(response.as_bytes()[4..6], [5, 2]);
    assert_eq!(proxy.connected(), [""; 0]);
}

#[tokio::test]
async fn credentials_are_asked_for() {
    let proxy = RunningProxy::start(ConnectionVerdict::NeedsCredentials).await;
    let response = proxy.exchange(connect_request("a.example:443")).await;
    body_of(&response, "407");
    assert!(response.contains("\r\nProxy-Authenticate: Basic realm=\"callboard\"\r\n"));
    let response = proxy.exchange(socks_request("a.example", 1)).await;
    assert_eq!(response.as_bytes()[4..6], [5, 2]);
}

#[tokio::test]
async fn addresses_of_refused_kinds_are_never_connected_to() {
    let proxy = RunningProxy::start(ALLOW).await;
    for (destination, reason) in [
        ("private.example:1", "private.example has only private addresses."),
        ("local.example:1", "local.example has only loopback addresses."),
        ("metadata.example:1", "metadata.example has only link-local and loopback addresses."),
        ("own.example:1", "own.example has only machine-local addresses."),
        ("203.0.113.99:1", "203.0.113.99 is a machine-local address."),
        ("[fd00::1]:1", "fd00::1 is a private address."),
        ("[::ffff:127.0.0.1]:1", "127.0.0.1 is a loopback address."),
    ] {
        let response = proxy.exchange(connect_request(destination)).await;
        assert_eq!(body_of(&response, "403"), reason);
    }
    let private = RunningProxy::start(ALLOW_PRIVATE).await;
    let response = private.exchange(connect_request("local.example:1")).await;
    assert_eq!(body_of(&response, "403"), "local.example has only loopback addresses.");
    for proxy in [proxy, private] {
        assert_eq!(proxy.connected(), [""; 0]);
    }
}

#[tokio::test]
async fn loopback_is_refused_in_the_network_of_the_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let judge: Arc<JudgeConnection> = Arc::new(|_, _| Box::pin(async { ALLOW_PRIVATE }));
    let cancel = CancellationToken::new();
    let served = tokio::spawn(serve_proxy(listener, judge, None, cancel.clone()));
    for (host, reason) in [
        ("localhost", "localhost has only loopback addresses."),
        ("127.0.0.1", "127.0.0.1 is a loopback address."),
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = connect_request(&format!("{host}:{}", address.port()));
        client.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(body_of(&read_all(&mut client).await, "403"), reason);
    }
    cancel.cancel();
    served.await.unwrap();
}

#[tokio::test]
async fn all_allowed_addresses_are_tried() {
    // The listener is dropped at once, so no program listens at this port.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for (verdict, tried) in
        [(ALLOW, &["203.0.113.2"][..]), (ALLOW_PRIVATE, &["10.0.0.1", "203.0.113.2"])]
    {
        let proxy = RunningProxy::start(verdict).await;
        let response = proxy.exchange(connect_request(&format!("mixed.example:{port}"))).await;
        assert!(body_of(&response, "502").starts_with("No connection to mixed.example:"));
        assert_eq!(proxy.connected(), tried);
    }
}

#[tokio::test]
async fn names_without_addresses_are_unreachable() {
    let proxy = RunningProxy::start(ALLOW).await;
    for (name, why) in [("empty", "it has no addresses"), ("none", "no such name")] {
        let response = proxy.exchange(connect_request(&format!("{name}.example:1"))).await;
        let expected = format!("The name {name}.example cannot be resolved: {why}.");
        assert_eq!(body_of(&response, "502"), expected);
    }
    let response = proxy.exchange(socks_request("none.example", 1)).await;
    assert_eq!(response.as_bytes()[4..6], [5, 4]);
}

#[tokio::test]
async fn malformed_requests_are_answered_without_a_judge() {
    let mut proxy = RunningProxy::start(ALLOW).await;
    let long = format!("GET http://a.example/ HTTP/1.1\r\nX: {}", "x".repeat(MAX_PROXY_HEAD_BYTES));
    for request in ["GET / HTTP/1.1\r\n\r\n", "\0\r\n\r\n", "\x16\x03\x01\n\n", &long] {
        body_of(&proxy.exchange(request).await, "400");
    }
    assert!(proxy.judged.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_has_a_time_limit() {
    let proxy = RunningProxy::start(ALLOW).await;
    let start = Instant::now();
    assert_eq!(proxy.exchange("").await, "");
    body_of(&proxy.exchange("CONNECT a.example:443 HTTP/1.1\r\n").await, "408");
    assert_eq!(proxy.exchange(b"\x05\x01\0\x05").await.as_bytes()[2..4], [5, 1]);
    assert!(start.elapsed() >= 3 * PROXY_HEAD_TIME);
}

/// Returns a judge that never decides, and a receiver that fails when its future is dropped.
fn pending_judge()
-> (impl Fn(Judged) -> BoxFuture<'static, ConnectionVerdict>, oneshot::Receiver<()>) {
    let (sender, dropped) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let judge = move |_| {
        let sender = sender.lock().unwrap().take();
        let never = async move {
            pending::<()>().await;
            drop(sender);
            ALLOW
        };
        never.boxed()
    };
    (judge, dropped)
}

#[tokio::test]
async fn the_judge_is_dropped_when_the_client_disconnects() {
    for early in [0, 1, MAX_PROXY_HEAD_BYTES + 20_000] {
        let (judge, dropped) = pending_judge();
        let mut proxy = RunningProxy::start_with(None, judge).await;
        let mut client = proxy.connect().await;
        client.write_all(connect_request("a.example:1").as_bytes()).await.unwrap();
        proxy.judged.recv().await.unwrap();
        client.write_all(&vec![b'x'; early]).await.unwrap();
        drop(client);
        let dropped =
            timeout(Duration::from_secs(10), dropped).await.expect("the judge still waits");
        assert!(dropped.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn the_judge_has_no_time_limit() {
    let (port, host) = play_host("", "welcome").await;
    let slow = |_| async { sleep(Duration::from_secs(24 * 60 * 60)).await }.map(|()| ALLOW).boxed();
    let proxy = RunningProxy::start_with(None, slow).await;
    let response = proxy.exchange(connect_request(&format!("a.example:{port}"))).await;
    assert_eq!(response, format!("{ESTABLISHED}welcome"));
    assert_eq!(host.await.unwrap(), "");
}

#[tokio::test]
async fn cancellation_closes_all_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = RunningProxy::start(ALLOW).await;
    let mut open = proxy.connect().await;
    let request = connect_request(&format!("a.example:{port}"));
    open.write_all(request.as_bytes()).await.unwrap();
    let (mut host, _) = listener.accept().await.unwrap();
    open.read_exact(&mut [0; ESTABLISHED.len()]).await.unwrap();
    let mut idle = proxy.connect().await;
    idle.write_all(b"GET").await.unwrap();
    proxy.cancel.cancel();
    proxy.served.await.unwrap();
    assert_eq!(open.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(host.read(&mut [0]).await.unwrap(), 0);
    // The end of a connection with unread bytes is received as a reset.
    assert!(matches!(idle.read(&mut [0]).await, Ok(0) | Err(_)));
    assert!(TcpStream::connect(proxy.address).await.is_err());
}

#[tokio::test]
async fn connections_beyond_the_maximum_wait() {
    let (judge, _dropped) = pending_judge();
    let mut proxy = RunningProxy::start_with(None, judge).await;
    let mut clients = Vec::new();
    for _ in 0..=MAX_PROXY_CONNECTIONS {
        let mut client = proxy.connect().await;
        client.write_all(connect_request("a.example:1").as_bytes()).await.unwrap();
        clients.push(client);
    }
    for _ in 0..MAX_PROXY_CONNECTIONS {
        proxy.judged.recv().await.unwrap();
    }
    assert!(timeout(Duration::from_millis(50), proxy.judged.recv()).await.is_err());
    clients.swap_remove(0);
    proxy.judged.recv().await.unwrap();
}

/// Returns an upstream proxy at a loopback port. One host is an exception that is reached without
/// the proxy.
fn upstream_at(port: u16) -> UpstreamProxy {
    let get = |name: &str| match name {
        "HTTPS_PROXY" => Some(format!("http://u:p@proxy.example:{port}")),
        "NO_PROXY" => Some("a.example".to_owned()),
        _ => None,
    };
    UpstreamProxy::from_env(get).unwrap()
}

fn allow(_: Judged) -> BoxFuture<'static, ConnectionVerdict> {
    Box::pin(std::future::ready(ALLOW))
}

/// The request for a tunnel that an upstream proxy receives.
const TUNNEL: &str = "CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\
                      Proxy-Authorization: Basic dTpw\r\n\r\n";

#[tokio::test]
async fn an_upstream_proxy_opens_the_tunnels() {
    let (port, upstream) = play_host(TUNNEL, "HTTP/1.1 200 OK\r\nX: y\r\n\r\nwelcome").await;
    let proxy = RunningProxy::start_with(Some(upstream_at(port)), allow).await;
    let response = proxy.exchange(connect_request("b.example:443")).await;
    assert_eq!(response, format!("{ESTABLISHED}welcome"));
    assert_eq!(upstream.await.unwrap(), "");
    assert_eq!(*proxy.resolved.lock().unwrap(), ["proxy.example"]);
}

#[tokio::test]
async fn an_upstream_proxy_receives_plain_requests_by_a_tunnel() {
    let tunnel = "CONNECT b.example:80 HTTP/1.1\r\nHost: b.example:80\r\n\
                  Proxy-Authorization: Basic dTpw\r\n\r\n";
    let (port, upstream) = play_host(tunnel, "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 204 X\r\n\r\n").await;
    let proxy = RunningProxy::start_with(Some(upstream_at(port)), allow).await;
    let response = proxy.exchange("GET http://b.example/x HTTP/1.1\r\n\r\n").await;
    assert_eq!(response, "HTTP/1.1 204 X\r\n\r\n");
    let forwarded = "GET /x HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n";
    assert_eq!(upstream.await.unwrap(), forwarded);
}

#[tokio::test]
async fn an_upstream_proxy_may_refuse_and_does_not_serve_exceptions() {
    let (port, _upstream) = play_host(TUNNEL, "HTTP/1.1 403 Forbidden\r\n\r\n").await;
    let proxy = RunningProxy::start_with(Some(upstream_at(port)), allow).await;
    let response = proxy.exchange(connect_request("b.example:443")).await;
    let expected = format!(
        "The proxy proxy.example:{port} cannot connect to b.example:443: it has answered with the \
         status 403."
    );
    assert_eq!(body_of(&response, "502"), expected);
    for (destination, reason) in [
        ("10.0.0.1:1", "10.0.0.1 is a private address."),
        ("x.localhost:1", "x.localhost has only loopback addresses."),
    ] {
        let response = proxy.exchange(connect_request(destination)).await;
        assert_eq!(body_of(&response, "403"), reason);
    }
    let (port, host) = play_host("", "welcome").await;
    let response = proxy.exchange(connect_request(&format!("a.example:{port}"))).await;
    assert_eq!(response, format!("{ESTABLISHED}welcome"));
    assert_eq!(host.await.unwrap(), "");
}

/// A pseudorandom generator with a fixed sequence of numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }

    /// Returns random bytes, or an input with some bytes replaced, removed or inserted.
    fn bytes(&mut self, valid: &[&[u8]]) -> Vec<u8> {
        let mut bytes = match self.below(8) {
            0 => (0..self.below(64)).map(|_| u8::try_from(self.below(256)).unwrap()).collect(),
            _ => valid[self.below(valid.len())].to_vec(),
        };
        for _ in 0..self.below(6) {
            let start = self.below(bytes.len() + 1);
            let end = (start + self.below(3)).min(bytes.len());
            let replacement = match self.below(2) {
                0 => vec![u8::try_from(self.below(256)).unwrap(); self.below(3)],
                _ => vec![b" \t\r\n:/.@[]%#?0"[self.below(14)]; self.below(3)],
            };
            bytes.splice(start..end, replacement);
        }
        bytes
    }
}

/// Random requests cause no panic, and each accepted request is valid.
#[tokio::test]
async fn random_requests_are_refused_or_valid() {
    let plain = b"POST http://u.example:81/p?q HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic \
                  dG9rZW46\r\nContent-Length: 3\r\nX: y\r\n\r\n";
    let valid: [&[u8]; 4] = [
        plain,
        b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nProxy-Authorization: Basic dG9rZW46\r\n\r\n",
        b"\x05\x02\0\x02\x01\x05token\x01x\x05\x01\0\x03\x09a.example\0\x16",
        b"\x05\x01\0\x05\x01\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x16",
    ];
    let mut numbers = Numbers(1);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let bytes = numbers.bytes(&valid);
        let (mut client, mut proxy) = duplex(1024);
        client.write_all(&bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let requests = [http::parse_request(&bytes), socks::read_request(&mut proxy).await];
        for request in requests.into_iter().flatten() {
            accepted += 1;
            let destination = request.destination;
            let parsed = Destination::parse(&destination.to_string(), None);
            assert_eq!(parsed, Some(destination), "{bytes:?}");
            let heads = request.forwarded.into_iter().map(|request| request.head);
            for head in heads {
                let lines = head.split(|byte| *byte == b'\n').count();
                let empty = head.windows(4).filter(|bytes| bytes == b"\r\n\r\n").count();
                let ends = head.windows(2).filter(|bytes| bytes == b"\r\n").count();
                assert_eq!((empty, lines), (1, ends + 1), "{bytes:?}");
            }
        }
    }
    assert!(accepted > 1000, "{accepted}");
}

#[test]
fn random_environments_are_ignored_or_valid() {
    let mut numbers = Numbers(2);
    for _ in 0..20_000 {
        let mut text = || {
            let valid: [&[u8]; 2] = [b"http://u:p%40@[::1]:8/", b"a.example:3128,*.b.example,::1"];
            String::from_utf8_lossy(&numbers.bytes(&valid)).into_owned()
        };
        let (url, exceptions) = (text(), text());
        let get = |name: &str| Some(if name == "NO_PROXY" { &exceptions } else { &url }.clone());
        if let Some(proxy) = UpstreamProxy::from_env(get) {
            let address = proxy.address();
            assert_eq!(Destination::parse(&address.to_string(), None).as_ref(), Some(address));
        }
    }
}
