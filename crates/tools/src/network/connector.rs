//! Connections to destinations, directly or through an upstream proxy.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

use super::address::{AddressKind, classify_address};
use super::buffered_stream::BufferedStream;
use super::{Destination, UpstreamProxy};
use crate::limits::{CONNECT_TIME, MAX_CONNECT_ATTEMPTS, RESOLVE_TIME};

/// Returns the addresses of a name.
type ResolveName =
    dyn Fn(Destination) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// Connects to an address.
type ConnectTo = dyn Fn(SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync;

/// Returns whether an address belongs to an interface of this computer.
type IsOwnAddress = dyn Fn(IpAddr) -> bool + Send + Sync;

/// Access to the network, which tests replace.
pub(crate) struct NetworkFunctions {
    pub(crate) resolve: Box<ResolveName>,
    pub(crate) connect: Box<ConnectTo>,
    pub(crate) is_own_address: Box<IsOwnAddress>,
}

impl NetworkFunctions {
    /// Returns the network of this process.
    pub(crate) fn of_this_process() -> Self {
        Self {
            resolve: Box::new(|name| {
                Box::pin(async move { Ok(lookup_host((name.host, name.port)).await?.collect()) })
            }),
            connect: Box::new(|address| Box::pin(connect_socket(address))),
            is_own_address: Box::new(is_own_address),
        }
    }

    fn classify(&self, address: IpAddr) -> AddressKind {
        match classify_address(address) {
            AddressKind::Public | AddressKind::Private if (self.is_own_address)(address) => {
                AddressKind::OwnInterface
            }
            kind => kind,
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

/// Returns whether an address belongs to this computer. The function asks the system which source
/// address it would use for packets to `address`. If `address` belongs to this computer, the source
/// address is the same address or a loopback address. No packet is sent.
fn is_own_address(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        // The port does not matter, because no packet is sent.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address || source.ip().is_loopback())
}

/// A destination, and the checked addresses at which to connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination: Destination,
    /// The checked addresses. `None` if the connection goes through the upstream proxy, which
    /// resolves names itself.
    pub(crate) addresses: Option<Vec<SocketAddr>>,
}

impl Route {
    /// Returns whether the connection goes through the upstream proxy. If it does, the addresses of
    /// the host were not checked.
    #[cfg(feature = "web")]
    pub(crate) fn is_proxied(&self) -> bool {
        self.addresses.is_none()
    }
}

/// A connection for plain HTTP.
#[cfg(feature = "web")]
pub(crate) struct PlainHttpConnection {
    pub(crate) stream: BufferedStream,
    /// Whether the other side is a proxy, which needs the whole URL.
    pub(crate) is_proxied: bool,
    /// The value of the field `Proxy-Authorization`, if the proxy needs one.
    pub(crate) authorization: Option<String>,
}

/// The reason why a destination cannot be connected to. Each text is a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// None of the addresses has an allowed kind.
    Forbidden(String),
    /// The destination cannot be resolved or connected to.
    Unreachable(String),
}

/// Connects to destinations that were allowed.
pub(crate) struct Connector {
    pub(crate) upstream: Option<UpstreamProxy>,
    pub(crate) network: Arc<NetworkFunctions>,
}

impl Connector {
    /// Connects to a destination, at an address of an allowed kind. If the connection goes through
    /// an upstream proxy, the proxy resolves the name, so the addresses of the name are not
    /// checked.
    pub(crate) async fn connect(
        &self,
        destination: &Destination,
        allowed: &[AddressKind],
    ) -> Result<BufferedStream, ConnectError> {
        self.open(&self.resolve_allowed_route(destination, allowed).await?).await
    }

    /// Resolves a destination, and removes the addresses whose kind is not allowed. Opens no
    /// connection to the destination.
    pub(crate) async fn resolve_allowed_route(
        &self,
        destination: &Destination,
        allowed: &[AddressKind],
    ) -> Result<Route, ConnectError> {
        let addresses = if self.upstream_of(destination).is_none() {
            let mut addresses = self.look_up_addresses(destination).await?;
            self.retain_allowed_addresses(&destination.host, &mut addresses, allowed)?;
            Some(addresses)
        } else {
            if let Some(mut addresses) = known_addresses(destination) {
                self.retain_allowed_addresses(&destination.host, &mut addresses, allowed)?;
            }
            None
        };
        Ok(Route { destination: destination.clone(), addresses })
    }

    /// Returns whether [`resolve_allowed_route`](Self::resolve_allowed_route) sends the name of a
    /// destination to a name server.
    #[cfg(feature = "web")]
    pub(crate) fn needs_name_server(&self, destination: &Destination) -> bool {
        known_addresses(destination).is_none() && self.upstream_of(destination).is_none()
    }

    /// Connects to the destination of a route. This connector must have returned the route.
    pub(crate) async fn open(&self, route: &Route) -> Result<BufferedStream, ConnectError> {
        let Route { destination, addresses } = route;
        if let Some(addresses) = addresses {
            return self.connect_to_any(destination, addresses).await.map(BufferedStream::new);
        }
        let (proxy, stream) = self.connect_to_upstream(destination).await?;
        let opened = timeout(CONNECT_TIME, proxy.open_tunnel(stream, destination)).await;
        let proxy = proxy.address();
        opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|error| {
            let message = format!("The proxy {proxy} cannot connect to {destination}: {error}.");
            ConnectError::Unreachable(message)
        })
    }

    /// Connects to a destination for plain HTTP. If the connection goes through an upstream proxy,
    /// the caller sends the request to the proxy and not through a tunnel, because many proxies
    /// open tunnels only to the port of HTTPS.
    #[cfg(feature = "web")]
    pub(crate) async fn open_plain(
        &self,
        route: &Route,
    ) -> Result<PlainHttpConnection, ConnectError> {
        if route.addresses.is_some() {
            let stream = self.open(route).await?;
            return Ok(PlainHttpConnection { stream, is_proxied: false, authorization: None });
        }
        let (proxy, stream) = self.connect_to_upstream(&route.destination).await?;
        let authorization = proxy.authorization().map(str::to_owned);
        let stream = BufferedStream::new(stream);
        Ok(PlainHttpConnection { stream, is_proxied: true, authorization })
    }

    /// Returns a route to another port of the same host, with the same addresses. Returns `None` if
    /// `destination` has another host, or if only one of the two ports is reached through the
    /// upstream proxy.
    #[cfg(feature = "web")]
    pub(crate) fn route_to_other_port(
        &self,
        route: &Route,
        destination: &Destination,
    ) -> Option<Route> {
        let is_direct = self.upstream_of(destination).is_none();
        if route.destination.host != destination.host || route.addresses.is_some() != is_direct {
            return None;
        }
        let with_port = |address: &SocketAddr| SocketAddr::new(address.ip(), destination.port);
        let addresses = route.addresses.as_ref();
        let addresses = addresses.map(|addresses| addresses.iter().map(with_port).collect());
        Some(Route { destination: destination.clone(), addresses })
    }

    fn upstream_of(&self, destination: &Destination) -> Option<&UpstreamProxy> {
        // For the proxy, a loopback name or address would mean the computer on which the proxy
        // runs.
        let is_local = destination.is_loopback();
        self.upstream.as_ref().filter(|upstream| !is_local && upstream.serves(destination))
    }

    async fn connect_to_upstream(
        &self,
        destination: &Destination,
    ) -> Result<(&UpstreamProxy, TcpStream), ConnectError> {
        let Some(upstream) = self.upstream_of(destination) else {
            let message = format!("There is no proxy for {destination} any more.");
            return Err(ConnectError::Unreachable(message));
        };
        let proxy = upstream.address();
        let stream = self.connect_to_any(proxy, &self.look_up_addresses(proxy).await?).await?;
        Ok((upstream, stream))
    }

    async fn look_up_addresses(
        &self,
        destination: &Destination,
    ) -> Result<Vec<SocketAddr>, ConnectError> {
        let Destination { host, .. } = destination;
        if let Some(addresses) = known_addresses(destination) {
            return Ok(addresses);
        }
        let why = match timeout(RESOLVE_TIME, (self.network.resolve)(destination.clone())).await {
            Ok(Ok(addresses)) if !addresses.is_empty() => return Ok(addresses),
            Ok(Ok(_)) => "it has no addresses".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", RESOLVE_TIME.as_secs()),
        };
        Err(ConnectError::Unreachable(format!("The name {host} cannot be resolved: {why}.")))
    }

    /// Connects to the first address that works.
    async fn connect_to_any(
        &self,
        destination: &Destination,
        addresses: &[SocketAddr],
    ) -> Result<TcpStream, ConnectError> {
        let mut failures = Vec::new();
        for address in addresses.iter().take(MAX_CONNECT_ATTEMPTS) {
            match timeout(CONNECT_TIME, (self.network.connect)(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failures.push(format!("{}: {error}", address.ip())),
                Err(_) => failures.push(format!("{}: no answer", address.ip())),
            }
        }
        let failures = failures.join("; ");
        Err(ConnectError::Unreachable(format!("No connection to {destination} ({failures}).")))
    }

    /// Removes the addresses whose kind is not allowed.
    ///
    /// # Errors
    ///
    /// Returns an error if no address remains.
    fn retain_allowed_addresses(
        &self,
        host: &str,
        addresses: &mut Vec<SocketAddr>,
        allowed: &[AddressKind],
    ) -> Result<(), ConnectError> {
        let mut refused: Vec<String> = Vec::new();
        addresses.retain(|address| {
            let kind = self.network.classify(address.ip());
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
        let article = if kinds.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        Err(ConnectError::Forbidden(match host.parse::<IpAddr>() {
            Ok(address) => format!("{address} is {article} {kinds} address."),
            Err(_) => format!("{host} has only {kinds} addresses."),
        }))
    }
}

/// Returns the addresses of a destination that can be resolved without a name server. Returns
/// `None` for other destinations.
fn known_addresses(destination: &Destination) -> Option<Vec<SocketAddr>> {
    let with_port = |address| SocketAddr::new(address, destination.port);
    if let Some(address) = destination.address() {
        return Some(vec![with_port(address)]);
    }
    let local = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    destination.is_loopback().then(|| local.map(with_port).to_vec())
}

#[cfg(test)]
mod tests;
