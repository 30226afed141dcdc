//! The HTTP clients of the process: one for each set of trusted certificates, with the proxies of
//! the environment and without them.
//!
//! Building one that trusts the system's certificates reads them all, which takes tens of
//! milliseconds, or longer where the user's file of certificates lies on a network; so it happens
//! once, beside everything else, and never for a server that is reached without TLS.

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

/// What makes two clients different.
#[derive(Clone, PartialEq)]
struct ClientKey {
    trust: Trust,
    /// Proxies are for the way out.
    is_loopback: bool,
}

#[derive(Clone, PartialEq)]
enum Trust {
    /// Nobody: for plain HTTP.
    NoTls,
    /// The system's authorities, and those in the file.
    System(Option<PathBuf>),
}

/// A client that is there or that somebody builds: who gives up waiting for it leaves it to those
/// who come later.
type SharedClient = Shared<BoxFuture<'static, Result<Client, RequestFailure>>>;

static CLIENTS: Mutex<Vec<(ClientKey, SharedClient)>> = Mutex::new(Vec::new());

/// Returns the process's client for requests to `url`; builds it if this is the first.
pub(in super::super) async fn client_for(
    url: &Url,
    ca_file: Option<&Path>,
) -> Result<Client, RequestFailure> {
    let trust = match url.scheme() {
        "https" => Trust::System(ca_file.map(Path::to_owned)),
        _ => Trust::NoTls,
    };
    let kind = ClientKey { trust, is_loopback: is_loopback(url) };
    timeout(limits::CA_FILE_READ_TIMEOUT, cached_client(kind, build_client)).await.unwrap_or_else(
        |_elapsed| {
            let seconds = limits::CA_FILE_READ_TIMEOUT.as_secs();
            let text = format!("the certificates to trust could not be read within {seconds} s");
            Err(RequestFailure::new(ModelErrorKind::Other, text))
        },
    )
}

/// Returns the client of a kind. It is built in one thread at a time, however often it is asked
/// for: a file that cannot be read may hold that thread for ever.
fn cached_client(
    kind: ClientKey,
    build: impl FnOnce(&ClientKey) -> Result<Client, RequestFailure> + Send + 'static,
) -> SharedClient {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    // What failed is tried anew.
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

/// Tells whether an address is on this machine.
pub(in super::super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn build_client(kind: &ClientKey) -> Result<Client, RequestFailure> {
    // A redirect would take the key to wherever the answer says.
    let builder =
        Client::builder().redirect(Policy::none()).connect_timeout(limits::CONNECT_TIMEOUT);
    let builder = if kind.is_loopback { builder.no_proxy() } else { builder };
    let builder = match &kind.trust {
        Trust::NoTls => builder.tls_certs_only([]),
        Trust::System(None) => builder,
        Trust::System(Some(file)) => builder.tls_certs_merge(read_certificates(file)?),
    };
    builder.build().map_err(|error| {
        let text = format!("no HTTP client can be made: {}", super::root_cause(&error));
        RequestFailure::new(ModelErrorKind::Other, text)
    })
}

fn read_certificates(file: &Path) -> Result<Vec<Certificate>, RequestFailure> {
    let unusable = |what: &dyn std::fmt::Display| {
        let text =
            format!("the certificates in {} (`ca_file`) cannot be used: {what}", file.display());
        RequestFailure::new(ModelErrorKind::Other, text)
    };
    let pem = bounded_file::read_bounded(file, limits::MAX_CA_FILE_BYTES)
        .map_err(|error| unusable(&error))?;
    if pem.len() as u64 > limits::MAX_CA_FILE_BYTES {
        return Err(unusable(&format_args!("it exceeds {} bytes", limits::MAX_CA_FILE_BYTES)));
    }
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable(&"it holds no certificate in PEM")),
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
        ClientKey { trust: Trust::System(Some(file.into())), is_loopback: false }
    }

    #[tokio::test]
    async fn certificates_that_take_long_are_read_by_one_thread_and_count_for_who_comes_later() {
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let reads = Arc::<AtomicUsize>::default();
        let ask = || {
            let (gate, reads) = (gate.clone(), reads.clone());
            cached_client(kind("hangs"), move |_| {
                reads.fetch_add(1, SeqCst);
                gate.lock().unwrap().recv().unwrap_err();
                Ok(Client::new())
            })
        };
        for _ in 0..3 {
            // Gives up at once.
            assert!(ask().now_or_never().is_none());
        }
        drop(open);
        ask().await.unwrap();
        assert_eq!(reads.load(SeqCst), 1);
    }

    #[tokio::test]
    async fn a_client_that_could_not_be_built_is_built_anew() {
        let fail = |_: &ClientKey| {
            Err(RequestFailure::new(ModelErrorKind::Other, "there is no such file"))
        };
        assert!(cached_client(kind("fails"), fail).await.is_err());
        cached_client(kind("fails"), |_| Ok(Client::new())).await.unwrap();
    }
}
