//! Connections to destinations, directly or by an upstream proxy.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use futures::future::BoxFuture;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

use super::address::{AddressKind, classify_address};
use super::buffered_stream::BufferedStream;
use super::{
    CONNECT_TIME, Destination, MAX_CONNECT_ATTEMPTS, RESOLVE_TIME, Refusal, UpstreamProxy,
};

/// Returns the addresses of a name.
type ResolveName =
    dyn Fn(Destination) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// Connects to an address.
type ConnectTo = dyn Fn(SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync;

/// The network that destinations are in. Tests replace it.
pub(super) struct Network {
    pub(super) resolve: Box<ResolveName>,
    pub(super) connect: Box<ConnectTo>,
}

impl Network {
    /// Returns the network of this process.
    pub(super) fn of_host() -> Self {
        Self {
            resolve: Box::new(|name| {
                Box::pin(async move { Ok(lookup_host((name.host, name.port)).await?.collect()) })
            }),
            connect: Box::new(|address| Box::pin(connect_socket(address))),
        }
    }
}

async fn connect_socket(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // An open connection has no time limit, so the system must detect that a host is gone.
    socket.set_keepalive(true)?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

/// Connects to destinations that the judge has allowed.
pub(super) struct Connector {
    pub(super) upstream: Option<UpstreamProxy>,
    pub(super) network: Network,
}

impl Connector {
    /// Connects to a destination, at an address of an allowed kind. An upstream proxy resolves names
    /// itself, so the addresses of names are then not checked.
    pub(super) async fn connect(
        &self,
        destination: &Destination,
        allowed: &[AddressKind],
    ) -> Result<BufferedStream, Refusal> {
        let Some(upstream) = self.upstream.as_ref().filter(|it| it.serves(destination)) else {
            let mut addresses = self.resolve(destination).await?;
            check_addresses(&destination.host, &mut addresses, allowed)?;
            return self.connect_to_any(destination, &addresses).await.map(BufferedStream::new);
        };
        if let Some(address) = known_address(destination) {
            let mut addresses = vec![SocketAddr::new(address, destination.port)];
            check_addresses(&destination.host, &mut addresses, allowed)?;
        }
        let proxy = upstream.address();
        let stream = self.connect_to_any(proxy, &self.resolve(proxy).await?).await?;
        let opened = timeout(CONNECT_TIME, upstream.open_tunnel(stream, destination)).await;
        opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|error| {
            let message = format!("The proxy {proxy} cannot connect to {destination}: {error}.");
            Refusal::Unreachable(message)
        })
    }

    async fn resolve(&self, destination: &Destination) -> Result<Vec<SocketAddr>, Refusal> {
        let Destination { host, port } = destination;
        if let Some(address) = destination.address() {
            return Ok(vec![SocketAddr::new(address, *port)]);
        }
        let why = match timeout(RESOLVE_TIME, (self.network.resolve)(destination.clone())).await {
            Ok(Ok(addresses)) if !addresses.is_empty() => return Ok(addresses),
            Ok(Ok(_)) => "it has no addresses".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", RESOLVE_TIME.as_secs()),
        };
        Err(Refusal::Unreachable(format!("The name {host} cannot be resolved: {why}.")))
    }

    /// Connects to the first address that works.
    async fn connect_to_any(
        &self,
        destination: &Destination,
        addresses: &[SocketAddr],
    ) -> Result<TcpStream, Refusal> {
        let mut failures = Vec::new();
        for address in addresses.iter().take(MAX_CONNECT_ATTEMPTS) {
            match timeout(CONNECT_TIME, (self.network.connect)(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failures.push(format!("{}: {error}", address.ip())),
                Err(_) => failures.push(format!("{}: no answer", address.ip())),
            }
        }
        let failures = failures.join("; ");
        Err(Refusal::Unreachable(format!("No connection to {destination} ({failures}).")))
    }
}

/// Returns the address of a destination that needs no resolver. `localhost` and the names beneath
/// it always mean this computer (RFC 6761).
fn known_address(destination: &Destination) -> Option<IpAddr> {
    let is_localhost = destination.host.rsplit('.').next() == Some("localhost");
    destination.address().or_else(|| is_localhost.then_some(Ipv6Addr::LOCALHOST.into()))
}

/// Removes addresses of other kinds than the allowed ones.
///
/// # Errors
///
/// Returns an error if no address remains.
fn check_addresses(
    host: &str,
    addresses: &mut Vec<SocketAddr>,
    allowed: &[AddressKind],
) -> Result<(), Refusal> {
    let mut refused: Vec<String> = Vec::new();
    addresses.retain(|address| {
        let kind = classify_address(address.ip());
        let (is_allowed, kind) = (allowed.contains(&kind), kind.to_string());
        if !is_allowed && !refused.contains(&kind) {
            refused.push(kind);
        }
        is_allowed
    });
    if !addresses.is_empty() {
        return Ok(());
    }
    let kinds = refused.join(" and ");
    Err(Refusal::Forbidden(match host.parse::<IpAddr>() {
        Ok(address) => format!("{address} is a {kinds} address."),
        Err(_) => format!("{host} has only {kinds} addresses."),
    }))
}
