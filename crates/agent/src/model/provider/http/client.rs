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

use reqwest::{Certificate, Client, redirect::Policy};
use tokio::{task::spawn_blocking, time::timeout};
use url::{Host, Url};

use super::Unreachable;
use crate::{limits, model::Fault, sys::regular};

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

static CLIENTS: Mutex<Vec<(Kind, Client)>> = Mutex::new(Vec::new());

/// Held while a client is built, so that two first requests do not build two.
static BUILDING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

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
    if let Some(client) = known(&kind) {
        return Ok(client);
    }
    let _one = BUILDING.lock().await;
    if let Some(client) = known(&kind) {
        return Ok(client);
    }
    let wanted = kind.clone();
    let built = timeout(limits::FILE_DEADLINE, spawn_blocking(move || build(&wanted))).await;
    let failed = |what: String| Unreachable::new(Fault::Other, what);
    let client = match built {
        Ok(Ok(client)) => client?,
        Ok(Err(error)) => return Err(failed(format!("no HTTP client can be made: {error}"))),
        Err(_) => {
            let seconds = limits::FILE_DEADLINE.as_secs();
            let text = format!("the certificates to trust could not be read within {seconds} s");
            return Err(failed(text));
        }
    };
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if clients.len() >= limits::MAX_HTTP_CLIENTS {
        clients.clear();
    }
    clients.push((kind, client.clone()));
    Ok(client)
}

fn known(kind: &Kind) -> Option<Client> {
    let clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    clients.iter().find(|(known, _)| known == kind).map(|(_, client)| client.clone())
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
    let pem = regular::read(file, limits::MAX_CA_BYTES).map_err(|error| unusable(&error))?;
    if pem.len() as u64 > limits::MAX_CA_BYTES {
        return Err(unusable(&format_args!("it exceeds {} bytes", limits::MAX_CA_BYTES)));
    }
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable(&"it holds no certificate in PEM")),
    }
}
