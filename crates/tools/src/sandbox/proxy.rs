//! The proxy through which sandboxed commands reach other hosts. A [`JudgeConnection`] function,
//! the judge, decides about each connection.
//!
//! Clients speak HTTP (`CONNECT`, and `http` URLs) or SOCKS5 (RFC 1928, RFC 1929) at the same port.
//! A name is resolved only once, after the judge has allowed it. Connections are opened only to
//! addresses that were checked.

mod http;
mod socks;

use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::io::{AsyncWriteExt as _, copy, copy_bidirectional, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::limits::{ACCEPT_RETRY_DELAY, MAX_PROXY_CONNECTIONS, PROXY_HEAD_TIME, REFUSAL_TIME};
use crate::network::{
    AddressKind, BufferedStream, ConnectError, Connector, Destination, NetworkFunctions,
    UpstreamProxy,
};

/// The decision about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionVerdict {
    /// The proxy connects to a public address of the host.
    Allow {
        /// Whether the proxy may also connect to a private address, e.g. `10.0.0.1`.
        allows_private_addresses: bool,
    },
    /// The proxy refuses the connection.
    Refuse {
        /// The reason, as a text for the user of the command.
        reason: String,
    },
    /// The proxy requests credentials from the client, because the command to which the client
    /// belongs is unknown.
    NeedsCredentials,
}

/// Decides about a connection. The first argument is the user name in the client's credentials, if
/// there is one. The future may take any time. It is dropped if the client disconnects.
pub(crate) type JudgeConnection =
    dyn Fn(Option<String>, Destination) -> BoxFuture<'static, ConnectionVerdict> + Send + Sync;

/// Serves until the token is cancelled or the future is dropped. All connections are closed then.
pub(crate) async fn serve_proxy(
    listener: TcpListener,
    judge: Arc<JudgeConnection>,
    upstream: Option<UpstreamProxy>,
    cancel: CancellationToken,
) {
    let connector = Connector { upstream, network: Arc::new(NetworkFunctions::of_this_process()) };
    serve_with(listener, Proxy { judge, connector }, cancel).await;
}

/// Serves in the same way as [`serve_proxy`]. Tests pass a proxy with a simulated network.
async fn serve_with(listener: TcpListener, proxy: Proxy, cancel: CancellationToken) {
    let proxy = Arc::new(proxy);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(ended) = connections.join_next() => log_panic(ended),
            accepted = listener.accept(), if connections.len() < MAX_PROXY_CONNECTIONS => {
                match accepted {
                    Ok((client, _)) => {
                        // This fails only if the client has disconnected, which the next read
                        // detects.
                        drop(client.set_nodelay(true));
                        let proxy = Arc::clone(&proxy);
                        connections.spawn(async move { proxy.serve_client(client).await });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection to the proxy");
                        sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
            }
        }
    }
    connections.shutdown().await;
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection of the proxy has failed");
    }
}

/// The state that all connections share.
struct Proxy {
    judge: Arc<JudgeConnection>,
    connector: Connector,
}

impl Proxy {
    async fn serve_client(&self, client: TcpStream) {
        let mut client = BufferedStream::new(client);
        let deadline = Instant::now() + PROXY_HEAD_TIME;
        let Ok(Ok(first_byte)) = timeout_at(deadline, client.peek_first_byte()).await else {
            return;
        };
        let protocol = match first_byte {
            socks::VERSION => ClientProtocol::Socks,
            _ => ClientProtocol::Http,
        };
        match self.read_request_and_connect(&mut client, protocol, deadline).await {
            Ok((server, forwarded)) => {
                // An error means that one side has reset its connection. Both connections are then
                // closed.
                drop(tunnel(client, server, protocol, forwarded).await);
            }
            Err(refusal) => {
                tracing::debug!(?refusal, "the proxy has refused a connection");
                refuse(client, protocol, &refusal).await;
            }
        }
    }

    /// Reads a request, and connects to its destination if the judge allows it.
    async fn read_request_and_connect(
        &self,
        client: &mut BufferedStream,
        protocol: ClientProtocol,
        deadline: Instant,
    ) -> Result<(BufferedStream, Option<ForwardedRequest>), Refusal> {
        let read = timeout_at(deadline, protocol.read_request(client)).await;
        let request = read.or(Err(Refusal::TimedOut))??;
        tokio::select! {
            opened = self.judge_and_connect(request) => opened,
            () = client.wait_for_disconnect() => Err(Refusal::Disconnected),
        }
    }

    async fn judge_and_connect(
        &self,
        request: ProxyRequest,
    ) -> Result<(BufferedStream, Option<ForwardedRequest>), Refusal> {
        let ProxyRequest { credentials, destination, forwarded } = request;
        let allowed: &[AddressKind] = match (self.judge)(credentials, destination.clone()).await {
            ConnectionVerdict::Allow { allows_private_addresses: false } => &[AddressKind::Public],
            ConnectionVerdict::Allow { allows_private_addresses: true } => {
                &[AddressKind::Public, AddressKind::Private]
            }
            ConnectionVerdict::Refuse { reason } => return Err(Refusal::Forbidden(reason)),
            ConnectionVerdict::NeedsCredentials => return Err(Refusal::NeedsCredentials),
        };
        Ok((self.connector.connect(&destination, allowed).await?, forwarded))
    }
}

/// Copies bytes in both directions until both sides have closed their connections.
async fn tunnel(
    mut client: BufferedStream,
    mut server: BufferedStream,
    protocol: ClientProtocol,
    forwarded: Option<ForwardedRequest>,
) -> io::Result<()> {
    if let Some(request) = forwarded {
        server.write_all(&request.head).await?;
        client.limit_reading(request.body_bytes);
    } else {
        client.write_all(protocol.success()).await?;
    }
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// Sends a refusal and closes the connection.
async fn refuse(mut client: BufferedStream, protocol: ClientProtocol, refusal: &Refusal) {
    let reply = protocol.refusal(refusal);
    // Read all bytes of the client. If the connection were closed while bytes are unread, the
    // system would reset it, and the client could lose the reply.
    let send = async {
        client.write_all(&reply).await?;
        client.shutdown().await?;
        copy(&mut client, &mut sink()).await
    };
    drop(timeout(REFUSAL_TIME, send).await);
}

/// A request for a connection.
#[derive(Debug, PartialEq, Eq)]
struct ProxyRequest {
    /// The user name in the credentials of the client, which is not empty.
    credentials: Option<String>,
    destination: Destination,
    /// The request to send to the destination. `None` if the client asks for a bare connection.
    forwarded: Option<ForwardedRequest>,
}

/// A plain HTTP request, as the destination receives it.
#[derive(Debug, PartialEq, Eq)]
struct ForwardedRequest {
    head: Vec<u8>,
    /// Length of the body. `None` for a chunked body, whose end the proxy does not determine.
    body_bytes: Option<u64>,
}

/// The reason why a client gets no connection.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// The request violates its protocol. The text is a sentence.
    Malformed(String),
    /// The request is valid, but the proxy does not support it.
    Unsupported(&'static str),
    /// The client has not sent its request in time.
    TimedOut,
    /// The client has disconnected before the proxy was connected to the destination.
    Disconnected,
    NeedsCredentials,
    /// The judge or the address check has refused the destination.
    Forbidden(String),
    /// The destination cannot be resolved or connected to.
    Unreachable(String),
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Forbidden(reason) => Self::Forbidden(reason),
            ConnectError::Unreachable(reason) => Self::Unreachable(reason),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Malformed(format!("The request cannot be read: {error}."))
    }
}

/// The protocol of a client, determined by its first byte.
#[derive(Clone, Copy, Debug)]
enum ClientProtocol {
    Http,
    Socks,
}

impl ClientProtocol {
    async fn read_request(self, client: &mut BufferedStream) -> Result<ProxyRequest, Refusal> {
        match self {
            Self::Http => http::parse_request(&client.read_head().await?),
            Self::Socks => socks::read_request(client).await,
        }
    }

    /// Returns the reply for an opened connection.
    fn success(self) -> &'static [u8] {
        match self {
            Self::Http => b"HTTP/1.1 200 Connection established\r\n\r\n",
            Self::Socks => &socks::SUCCESS,
        }
    }

    fn refusal(self, refusal: &Refusal) -> Vec<u8> {
        match self {
            Self::Http => http::refusal(refusal),
            Self::Socks => socks::refusal(refusal).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests;
