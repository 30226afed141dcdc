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

use super::super::fault::Unreachable;
use crate::{Fault, file, limits};

/// What makes two clients different.
#[derive(Clone, PartialEq)]
struct Kind {
    trust: Trust,
    /// Proxies are for the way out.
    is_loopback: bool,
}

#[derive(Clone, PartialEq)]
enum Trust {
    /// Nobody: for plain HTTP.
    Nobody,
    /// The system's authorities, and those in the file.
    System(Option<PathBuf>),
}

/// A client that is there or that somebody builds: who gives up waiting for it leaves it to those
/// who come later.
type Building = Shared<BoxFuture<'static, Result<Client, Unreachable>>>;

static CLIENTS: Mutex<Vec<(Kind, Building)>> = Mutex::new(Vec::new());

/// Returns the process's client for requests to `url`; builds it if this is the first.
pub(in super::super) async fn get(
    url: &Url,
    ca_file: Option<&Path>,
) -> Result<Client, Unreachable> {
    let trust = match url.scheme() {
        "https" => Trust::System(ca_file.map(Path::to_owned)),
        _ => Trust::Nobody,
    };
    let kind = Kind { trust, is_loopback: is_loopback(url) };
    timeout(limits::FILE_DEADLINE, of_kind(kind, build)).await.unwrap_or_else(|_elapsed| {
        let seconds = limits::FILE_DEADLINE.as_secs();
        let text = format!("the certificates to trust could not be read within {seconds} s");
        Err(Unreachable::new(Fault::Other, text))
    })
}

/// Returns the client of a kind. It is built in one thread at a time, however often it is asked
/// for: a file that cannot be read may hold that thread for ever.
fn of_kind(
    kind: Kind,
    build: impl FnOnce(&Kind) -> Result<Client, Unreachable> + Send + 'static,
) -> Building {
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
    let failed = |error| Unreachable::new(Fault::Other, format!("no HTTP client: {error}"));
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

fn build(kind: &Kind) -> Result<Client, Unreachable> {
    // A redirect would take the key to wherever the answer says.
    let builder = Client::builder().redirect(Policy::none()).connect_timeout(limits::MODEL_CONNECT);
    let builder = if kind.is_loopback { builder.no_proxy() } else { builder };
    let builder = match &kind.trust {
        Trust::Nobody => builder.tls_certs_only([]),
        Trust::System(None) => builder,
        Trust::System(Some(file)) => builder.tls_certs_merge(certificates(file)?),
    };
    builder.build().map_err(|error| {
        let text = format!("no HTTP client can be made: {}", super::causes(&error));
        Unreachable::new(Fault::Other, text)
    })
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, Unreachable> {
    let unusable = |what: &dyn std::fmt::Display| {
        let text =
            format!("the certificates in {} (`ca_file`) cannot be used: {what}", file.display());
        Unreachable::new(Fault::Other, text)
    };
    let pem = file::read(file, limits::MAX_CA_BYTES).map_err(|error| unusable(&error))?;
    if pem.len() as u64 > limits::MAX_CA_BYTES {
        return Err(unusable(&format_args!("it exceeds {} bytes", limits::MAX_CA_BYTES)));
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

    fn kind(file: &str) -> Kind {
        Kind { trust: Trust::System(Some(file.into())), is_loopback: false }
    }

    #[tokio::test]
    async fn certificates_that_take_long_are_read_by_one_thread_and_count_for_who_comes_later() {
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let reads = Arc::<AtomicUsize>::default();
        let ask = || {
            let (gate, reads) = (gate.clone(), reads.clone());
            of_kind(kind("hangs"), move |_| {
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
        let fail = |_: &Kind| Err(Unreachable::new(Fault::Other, "there is no such file"));
        assert!(of_kind(kind("fails"), fail).await.is_err());
        of_kind(kind("fails"), |_| Ok(Client::new())).await.unwrap();
    }
}
