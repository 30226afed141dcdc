//! The HTTP clients of the process: one for plain HTTP, one for each set of trusted certificates.
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

use super::Unreachable;
use crate::{limits, model::Fault};

#[derive(Clone, PartialEq)]
enum Trust {
    /// Nobody: for plain HTTP.
    Nobody,
    /// The system's authorities, and those in the file.
    System(Option<PathBuf>),
}

static CLIENTS: Mutex<Vec<(Trust, Client)>> = Mutex::new(Vec::new());

/// Returns the process's client for such requests; builds it if this is the first.
pub(super) fn get(is_tls: bool, ca_file: Option<&Path>) -> Result<Client, Unreachable> {
    let trust = if is_tls { Trust::System(ca_file.map(Path::to_owned)) } else { Trust::Nobody };
    // Held while a client is built, so that two first requests do not build two.
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, client)) = clients.iter().find(|(known, _)| *known == trust) {
        return Ok(client.clone());
    }
    let client = build(&trust)?;
    if clients.len() >= limits::MAX_HTTP_CLIENTS {
        clients.clear();
    }
    clients.push((trust, client.clone()));
    Ok(client)
}

fn build(trust: &Trust) -> Result<Client, Unreachable> {
    // A redirect would take the key to wherever the answer says.
    let builder = Client::builder().redirect(Policy::none()).connect_timeout(limits::MODEL_CONNECT);
    let builder = match trust {
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
