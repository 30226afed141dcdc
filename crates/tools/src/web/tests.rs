//! Tests of whole downloads over a simulated network.

mod denied_addresses;
mod downloads;
mod proxies;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::session::{FetchError, HostAccess, SharedWebAccess};
use super::testing::{TestNetwork, TestServer};
use super::{Page, PageUrl};
use crate::network::{AddressKind, ConnectError, Connector, Destination, Route};

const PUBLIC: &[AddressKind] = &[AddressKind::Public];
const PRIVATE_TOO: &[AddressKind] = &[AddressKind::Public, AddressKind::Private];

/// Allows all hosts whose addresses have an allowed kind.
struct AllowHosts<'a> {
    connector: &'a Connector,
    allowed: &'static [AddressKind],
}

impl HostAccess for AllowHosts<'_> {
    type Refusal = ConnectError;

    async fn route_if_permitted(&self, destination: &Destination) -> Result<Route, ConnectError> {
        self.connector.resolve_allowed_route(destination, self.allowed).await
    }
}

type Fetched = Result<Arc<Page>, FetchError<ConnectError>>;

/// Fetches a page in the same way as the tool `fetch`, with some environment variables.
async fn fetch_in_env(
    session: &SharedWebAccess,
    url: &str,
    allowed: &'static [AddressKind],
    env: &[(&str, &str)],
) -> Fetched {
    let env: BTreeMap<_, _> =
        env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let connector = session.connector_with_proxy_from_env(&env);
    let access = AllowHosts { connector: &connector, allowed };
    let url = PageUrl::parse(url).unwrap();
    let route = access.route_if_permitted(&url.destination()).await.map_err(FetchError::Refused)?;
    session.fetch_and_cache(&connector, (&url, route), &access, &|_, _| {}).await
}

async fn fetch(session: &SharedWebAccess, url: &str) -> Fetched {
    fetch_in_env(session, url, PUBLIC, &[]).await
}

/// Starts a session in which every name has a public address.
fn public_session(server: &TestServer) -> (SharedWebAccess, TestNetwork) {
    let network = TestNetwork::public(server);
    (SharedWebAccess::in_network(network.network.clone(), None), network)
}

fn text_of(fetched: &Fetched) -> &str {
    fetched.as_ref().unwrap().shown_text(false).unwrap()
}
