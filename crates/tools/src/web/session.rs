//! The web access of a session: its network, its proxy, and the pages that it has fetched.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustls::ClientConfig;
use tokio::task::spawn_blocking;

use super::cache::PageCache;
use super::download::{DownloadError, OnBytes, ReceivedResponse, WebRequest, download};
use super::page::Page;
use super::page_url::PageUrl;
use crate::lock::lock;
use crate::network::{Connector, Destination, NetworkFunctions, Route, UpstreamProxy};
use crate::web::limits::MAX_REDIRECTS;

/// The web access that all calls of a session share.
pub(crate) struct SharedWebAccess {
    network: Arc<NetworkFunctions>,
    /// Replaces the certificate authorities of the system.
    tls: Option<Arc<ClientConfig>>,
    cache: Mutex<PageCache>,
}

/// Decides about the hosts of redirects.
pub(crate) trait HostAccess {
    /// The reason why a host is not allowed.
    type Refusal;

    /// Returns a route to a host if it is allowed. May take any time, e.g. until the user answers.
    fn route_if_permitted(
        &self,
        destination: &Destination,
    ) -> impl Future<Output = Result<Route, Self::Refusal>> + Send;
}

/// The reason why a page was not fetched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FetchError<R> {
    /// The request to a host has failed.
    Download { host: String, error: DownloadError },
    /// A redirect must not be followed. The reason is the end of a sentence.
    Redirect { from: PageUrl, reason: String },
    /// The host of a redirect is not allowed.
    Refused(R),
}

impl SharedWebAccess {
    /// Creates web access with a simulated network.
    #[cfg(test)]
    pub(crate) fn in_network(
        network: Arc<NetworkFunctions>,
        tls: Option<Arc<ClientConfig>>,
    ) -> Self {
        Self { network, tls, cache: Mutex::default() }
    }

    /// Returns a connector. If `env` names a proxy, the connector uses this proxy.
    pub(crate) fn connector_with_proxy_from_env(
        &self,
        env: &BTreeMap<String, String>,
    ) -> Connector {
        let upstream = UpstreamProxy::from_env(|name| env.get(name).cloned());
        Connector { upstream, network: Arc::clone(&self.network) }
    }

    /// Returns a page that this session has fetched before.
    pub(crate) fn cached_page(&self, url: &PageUrl) -> Option<Arc<Page>> {
        lock(&self.cache).find(url, Instant::now())
    }

    /// Fetches a page over a route to its host. Follows redirects. If a redirect leads to another
    /// host, `access` must permit this host. A permitted host is resolved only once.
    pub(crate) async fn fetch_and_cache<A: HostAccess>(
        &self,
        connector: &Connector,
        (start, route): (&PageUrl, Route),
        access: &A,
        on_bytes: &OnBytes<'_>,
    ) -> Result<Arc<Page>, FetchError<A::Refusal>> {
        let (mut url, mut routes) = (start.clone(), vec![route]);
        let mut redirects = 0;
        let (received, url) = loop {
            let destination = url.destination();
            let known =
                routes.iter().find_map(|route| connector.route_to_other_port(route, &destination));
            let route = match known {
                Some(route) => route,
                None => {
                    let route = access
                        .route_if_permitted(&destination)
                        .await
                        .map_err(FetchError::Refused)?;
                    routes.push(route.clone());
                    route
                }
            };
            let request = WebRequest::get(url.clone());
            let received = self.send_request(connector, &route, request, on_bytes).await;
            let received = received
                .map_err(|error| FetchError::Download { host: destination.host.clone(), error })?;
            let Some(location) = &received.location else { break (received, url) };
            let refused = |reason| FetchError::Redirect { from: url.clone(), reason };
            if redirects == MAX_REDIRECTS {
                return Err(refused(format!("it is the redirect number {}", MAX_REDIRECTS + 1)));
            }
            redirects += 1;
            url = url.redirect(location).map_err(refused)?;
        };
        let may_store = received.may_store && received.status == 200;
        let page = Arc::new(into_page(url, received).await);
        if may_store {
            lock(&self.cache).insert(start.clone(), Arc::clone(&page), Instant::now());
        }
        Ok(page)
    }

    /// Sends one request over a route of a connector.
    pub(crate) async fn send_request(
        &self,
        connector: &Connector,
        route: &Route,
        request: WebRequest,
        on_bytes: &OnBytes<'_>,
    ) -> Result<ReceivedResponse, DownloadError> {
        // Box the future, because its state is large.
        Box::pin(download(connector, route, self.tls.as_ref(), request, on_bytes)).await
    }
}

/// Converts a response on another thread, because a large page takes some time.
async fn into_page(url: PageUrl, received: ReceivedResponse) -> Page {
    let ReceivedResponse { status, media_type, body, declared_bytes, .. } = received;
    let Some(body) = body else { return Page::binary(url, status, media_type, declared_bytes) };
    let (spare, spare_type, bytes) = (url.clone(), media_type.clone(), body.bytes.len() as u64);
    let converted = spawn_blocking(move || Page::from_body(url, status, media_type, body)).await;
    converted.unwrap_or_else(|error| {
        tracing::error!(%error, "a page cannot be converted");
        Page::binary(spare, status, spare_type, Some(bytes))
    })
}

impl Default for SharedWebAccess {
    fn default() -> Self {
        Self {
            network: Arc::new(NetworkFunctions::of_this_process()),
            tls: None,
            cache: Mutex::default(),
        }
    }
}

impl fmt::Debug for SharedWebAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedWebAccess").finish_non_exhaustive()
    }
}
