//! The process's HTTP clients: one per set of trusted certificates, with and without proxies.
//!
//! To build a client that trusts the system's certificates, all of these certificates must be read.
//! Reading them takes tens of milliseconds, or longer if the user's certificate file is on a
//! network drive. A client is therefore built only once, on a blocking thread. Servers without TLS
//! use a client without certificates.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use futures::future::{BoxFuture, FutureExt as _, Shared};
use reqwest::{Certificate, Client, redirect::Policy};
use tokio::{task::spawn_blocking, time::timeout};
use url::{Host, Url};

use super::super::errors::RequestFailure;
use crate::{ModelErrorKind, bounded_file, limits};

/// The properties in which clients differ.
#[derive(Clone, PartialEq)]
struct ClientKey {
    trust: TlsTrust,
    /// Whether the client is for loopback addresses. Such a client uses no proxy.
    is_loopback: bool,
}

#[derive(Clone, PartialEq)]
enum TlsTrust {
    /// No certificates: the client supports plain HTTP only.
    NoTls,
    /// The system's certificate authorities, and the authorities in the file, if a file is given.
    System(Option<PathBuf>),
}

/// A client that is built or is being built. If one caller stops waiting, the build continues, and
/// later callers share its result.
type SharedClient = Shared<BoxFuture<'static, Result<Client, RequestFailure>>>;

static CLIENTS: Mutex<Vec<(ClientKey, SharedClient)>> = Mutex::new(Vec::new());

/// Returns the process's client for requests to `url`. Builds the client if it does not exist yet.
pub(in super::super) async fn client_for_url(
    url: &Url,
    ca_file: Option<&Path>,
) -> Result<Client, RequestFailure> {
    let trust = match url.scheme() {
        "https" => TlsTrust::System(ca_file.map(Path::to_owned)),
        _ => TlsTrust::NoTls,
    };
    let kind = ClientKey { trust, is_loopback: is_loopback(url) };
    timeout(limits::CA_FILE_READ_TIMEOUT, cached_or_building_client(kind, build_client))
        .await
        .unwrap_or_else(|_elapsed| {
            let seconds = limits::CA_FILE_READ_TIMEOUT.as_secs();
            let text = format!("the certificates to trust could not be read within {seconds} s");
            Err(RequestFailure::new(ModelErrorKind::Other, text))
        })
}

/// Returns the client for a key. Each client is built on one thread only, regardless of the number
/// of waiting callers. Reading a file on an unresponsive drive may block this thread forever.
fn cached_or_building_client(
    kind: ClientKey,
    build: impl FnOnce(&ClientKey) -> Result<Client, RequestFailure> + Send + 'static,
) -> SharedClient {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    // If building a client failed, the client is built again.
    clients.retain(|(_, client)| !matches!(client.peek(), Some(Err(_))));
    if let Some((_, client)) = clients.iter().find(|(known, _)| *known == kind) {
        return client.clone();
    }
    if clients.len() >= limits::MAX_HTTP_CLIENTS {
        clients.clear();
    }
    let of = kind.clone();
    let built = spawn_blocking(move || build(&of));
    let failed =
        |error| RequestFailure::new(ModelErrorKind::Other, format!("no HTTP client: {error}"));
    let client = built.map(move |built| built.unwrap_or_else(|error| Err(failed(error))));
    let client = client.boxed().shared();
    clients.push((kind, client.clone()));
    client
}

/// Returns whether a URL is on this machine.
pub(in super::super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn build_client(kind: &ClientKey) -> Result<Client, RequestFailure> {
    // Redirects are not followed: a redirect would send the key to another address.
    let builder =
        Client::builder().redirect(Policy::none()).connect_timeout(limits::CONNECT_TIMEOUT);
    let builder = if kind.is_loopback { builder.no_proxy() } else { builder };
    let builder = match &kind.trust {
        TlsTrust::NoTls => builder.tls_certs_only([]),
        TlsTrust::System(None) => builder,
        TlsTrust::System(Some(file)) => builder.tls_certs_merge(read_certificates(file)?),
    };
    builder.build().map_err(|error| {
        let text = format!("cannot create an HTTP client: {}", super::root_cause(&error));
        RequestFailure::new(ModelErrorKind::Other, text)
    })
}

fn read_certificates(file: &Path) -> Result<Vec<Certificate>, RequestFailure> {
    let unusable = |what: &dyn std::fmt::Display| {
        let text =
            format!("the certificates in {} (`ca_file`) cannot be used: {what}", file.display());
        RequestFailure::new(ModelErrorKind::Other, text)
    };
    let pem = bounded_file::read_max_plus_one_bytes(file, limits::MAX_CA_FILE_BYTES)
        .map_err(|error| unusable(&error))?;
    if pem.len() as u64 > limits::MAX_CA_FILE_BYTES {
        return Err(unusable(&format_args!("it exceeds {} bytes", limits::MAX_CA_FILE_BYTES)));
    }
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable(&"it contains no PEM certificate")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    };

    use super::*;

    fn kind(file: &str) -> ClientKey {
        ClientKey { trust: TlsTrust::System(Some(file.into())), is_loopback: false }
    }

    #[tokio::test]
    async fn slow_certificates_are_read_by_one_thread_for_all_callers() {
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let reads = Arc::<AtomicUsize>::default();
        let ask = || {
            let (gate, reads) = (gate.clone(), reads.clone());
            cached_or_building_client(kind("hangs"), move |_| {
                reads.fetch_add(1, SeqCst);
                gate.lock().unwrap().recv().unwrap_err();
                Ok(Client::new())
            })
        };
        for _ in 0..3 {
            // The caller stops waiting immediately.
            assert!(ask().now_or_never().is_none());
        }
        drop(open);
        ask().await.unwrap();
        assert_eq!(reads.load(SeqCst), 1);
    }

    #[tokio::test]
    async fn a_client_that_could_not_be_built_is_built_again() {
        let fail = |_: &ClientKey| {
            Err(RequestFailure::new(ModelErrorKind::Other, "there is no such file"))
        };
        assert!(cached_or_building_client(kind("fails"), fail).await.is_err());
        cached_or_building_client(kind("fails"), |_| Ok(Client::new())).await.unwrap();
    }
}
