//! Clients for requests to servers over HTTP.

use reqwest::Client;
use reqwest::redirect::Policy;
use url::{Host, Url};

use crate::limits::MAX_REDIRECTS;

/// Creates a client for requests to a server.
pub(crate) async fn build_same_origin_client(url: &str) -> Result<Client, String> {
    // Follow redirects only to the same origin, because no other host may receive the headers.
    let same_origin = Policy::custom(|attempt| match attempt.previous() {
        [first, more @ ..]
            if first.origin() == attempt.url().origin() && more.len() < MAX_REDIRECTS =>
        {
            attempt.follow()
        }
        _ => attempt.stop(),
    });
    build_client(is_loopback(url), same_origin).await
}

/// Creates a client for requests. `is_local` states whether the requests go to this computer. The
/// client is created on a blocking thread, because its creation reads all certificates of the
/// system.
pub(crate) async fn build_client(is_local: bool, redirects: Policy) -> Result<Client, String> {
    let build = move || {
        let client = Client::builder().redirect(redirects);
        // A loopback address must not be sent to a proxy. The proxy would connect to the computer
        // on which it runs, and this computer would receive the headers.
        let client = if is_local { client.no_proxy() } else { client };
        client.build().map_err(|error| error.to_string())
    };
    tokio::task::spawn_blocking(build).await.map_err(|error| error.to_string())?
}

/// Returns whether the host of a URL is this computer.
pub(crate) fn is_loopback(url: &str) -> bool {
    match Url::parse(url).ok().as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_urls_are_on_this_computer() {
        for (url, expected) in [
            ("http://localhost:8/mcp", true),
            ("http://a.LOCALHOST", true),
            ("http://127.1:80/", true),
            ("http://[::1]/", true),
            ("http://localhost.example/", false),
            ("http://127.0.0.1.example/", false),
            ("https://10.0.0.1/", false),
            ("http://user@a.example/?127.0.0.1", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_loopback(url), expected, "{url}");
        }
    }
}
