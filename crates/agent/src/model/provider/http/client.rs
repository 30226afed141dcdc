//! The HTTP clients of the process: one for each set of trusted certificates, with the proxies of
//! the environment and without them.
//!
//! Building one that trusts the system's certificates reads them all, which takes tens of
//! milliseconds; so it happens once, and never for a server that is reached without TLS.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use reqwest::{Certificate, Client, redirect::Policy};
use url::{Host, Url};

use super::Unreachable;
use crate::{limits, model::Fault};

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

/// Returns the process's client for requests to `url`; builds it if this is the first.
pub(in super::super) fn get(url: &Url, ca_file: Option<&Path>) -> Result<Client, Unreachable> {
    let trust = match url.scheme() {
        "https" => Trust::System(ca_file.map(Path::to_owned)),
        _ => Trust::Nobody,
    };
    let kind = Kind { trust, is_loopback: is_loopback(url) };
    // Held while a client is built, so that two first requests do not build two.
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, client)) = clients.iter().find(|(known, _)| *known == kind) {
        return Ok(client.clone());
    }
    let client = build(&kind)?;
    if clients.len() >= limits::MAX_HTTP_CLIENTS {
        clients.clear();
    }
    clients.push((kind, client.clone()));
    Ok(client)
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
    let mut pem = Vec::new();
    File::open(file)
        .and_then(|file| file.take(limits::MAX_CA_BYTES + 1).read_to_end(&mut pem))
        .map_err(|error| unusable(&error))?;
    if pem.len() as u64 > limits::MAX_CA_BYTES {
        return Err(unusable(&format_args!("it exceeds {} bytes", limits::MAX_CA_BYTES)));
    }
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable(&"it holds no certificate in PEM")),
    }
}
