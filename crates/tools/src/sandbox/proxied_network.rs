//! A network of sandboxed commands, and the proxy that connects it to other hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_sandbox::{NetworkHandle, SandboxError, SessionNetwork};
use futures::FutureExt as _;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connections::SessionConnections;
use super::proxy::serve_proxy;
use crate::network::UpstreamProxy;

/// A network of sandboxed commands without any other host, and its proxy.
#[derive(Debug)]
pub(super) struct ProxiedNetwork {
    network: SessionNetwork,
    proxy_port: u16,
    has_upstream: bool,
    _proxy: DropGuard,
}

impl ProxiedNetwork {
    /// Creates a network whose connections `connections` judges. `env` may name an upstream proxy.
    /// Must be called on a thread of a tokio runtime.
    pub(super) fn create(
        env: &BTreeMap<String, String>,
        connections: &Arc<SessionConnections>,
    ) -> Result<Self, SandboxError> {
        let network = SessionNetwork::create()?;
        let proxy_port = network.loopback_listener().local_addr()?.port();
        let listener = network.loopback_listener().try_clone()?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let upstream = UpstreamProxy::from_env(|name| env.get(name).cloned());
        let has_upstream = upstream.is_some();
        let connections = connections.clone();
        let judge = move |name, destination| {
            let connections = connections.clone();
            async move { connections.judge(name, destination).await }.boxed()
        };
        let cancel = CancellationToken::new();
        tokio::spawn(serve_proxy(listener, Arc::new(judge), upstream, cancel.clone()));
        Ok(Self { network, proxy_port, has_upstream, _proxy: cancel.drop_guard() })
    }

    pub(super) fn handle(&self) -> NetworkHandle {
        self.network.handle()
    }

    /// Returns whether the proxy sends all connections to an upstream proxy.
    pub(super) fn has_upstream(&self) -> bool {
        self.has_upstream
    }

    /// Returns the environment variables from which programs read the address of the proxy. `name`
    /// identifies the command.
    pub(super) fn proxy_variables(&self, name: &str) -> impl Iterator<Item = (String, String)> {
        let url = format!("http://{name}:x@127.0.0.1:{}", self.proxy_port);
        let proxied = PROXY_VARIABLES.into_iter().map(move |name| (name, url.clone()));
        let direct = NO_PROXY_VARIABLES.into_iter().map(|name| (name, LOOPBACK_HOSTS.to_owned()));
        // Node.js ignores the other variables if this variable is missing.
        let node = [(NODE_PROXY_VARIABLE, "1".to_owned())];
        proxied.chain(direct).chain(node).map(|(name, value)| (name.to_owned(), value))
    }
}

/// Returns the names of the variables that [`ProxiedNetwork::proxy_variables`] returns.
pub(super) fn proxy_variable_names() -> impl Iterator<Item = &'static str> {
    PROXY_VARIABLES.into_iter().chain(NO_PROXY_VARIABLES).chain([NODE_PROXY_VARIABLE])
}

/// The variable that makes Node.js use the other variables.
const NODE_PROXY_VARIABLE: &str = "NODE_USE_ENV_PROXY";

/// Variables with the URL of a proxy for all hosts.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Variables with the hosts that programs connect to without the proxy.
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
const LOOPBACK_HOSTS: &str = "localhost,127.0.0.1,::1";
