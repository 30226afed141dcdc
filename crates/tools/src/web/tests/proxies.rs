//! Tests with a proxy that the environment names.

use std::net::IpAddr;

use pretty_assertions::assert_eq;

use super::super::testing::{Answer, page, redirect, response};
use super::*;

const PROXY: (&str, &str) = ("HTTPS_PROXY", "http://u:p@proxy.example:3128");

#[tokio::test]
async fn a_proxy_receives_plain_requests_and_is_not_checked() {
    let server = TestServer::start(|_| Answer::Whole(page("text/plain", b"text"))).await;
    // The address of the proxy may be private, because a proxy is usually in the user's network.
    let network = TestNetwork::new(&server, |_, _| vec!["127.0.0.1"]);
    let session = SharedWebAccess::in_network(network.network.clone(), None);
    let fetched = fetch_in_env(&session, "http://a.example/b?c", PUBLIC, &[PROXY]).await;
    assert_eq!(text_of(&fetched), "text");
    let requests = server.requests.lock().unwrap().clone();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert!(request.starts_with("GET http://a.example/b?c HTTP/1.1\r\nhost: a.example\r\n"));
    assert!(request.contains("\r\nproxy-authorization: Basic dTpw\r\n"), "{request}");
    assert_eq!(network.resolved(), ["proxy.example"]);
}

#[tokio::test]
async fn a_proxy_gets_no_request_to_this_computer() {
    let server = TestServer::start(|_| Answer::Whole(page("text/plain", b"text"))).await;
    let (session, network) = public_session(&server);
    let allowed = &[AddressKind::Loopback];
    let fetched = fetch_in_env(&session, "http://x.localhost/", allowed, &[PROXY]).await;
    assert_eq!(text_of(&fetched), "text");
    assert_eq!((network.resolved(), network.connected()), (vec![], vec!["127.0.0.1".to_owned()]));
}

#[tokio::test]
async fn a_proxy_opens_tunnels_for_encrypted_requests() {
    let server = TestServer::start(|request| {
        assert!(request.starts_with("CONNECT a.example:443 HTTP/1.1\r\n"), "{request}");
        Answer::Whole(response(403, "", b""))
    })
    .await;
    let (session, network) = public_session(&server);
    let fetched = fetch_in_env(&session, "https://a.example/", PUBLIC, &[PROXY]).await;
    let Err(FetchError::Download { host, error }) = fetched else { panic!("{fetched:?}") };
    let message = format!("{error:?}");
    assert!(host == "a.example" && message.contains("answered with the status 403"), "{message}");
    assert_eq!(network.resolved(), ["proxy.example"]);
}

#[tokio::test]
async fn a_proxy_does_not_reach_known_addresses_that_are_denied() {
    let server = TestServer::start(|request| {
        Answer::Whole(match request.contains("start.example") {
            true => redirect("http://169.254.169.254/"),
            false => page("text/plain", b"secret"),
        })
    })
    .await;
    let (session, network) = public_session(&server);
    for host in ["127.1", "[::1]", "169.254.169.254", "10.0.0.1", "x.localhost", "0"] {
        let url = format!("http://{host}/");
        let fetched = fetch_in_env(&session, &url, PUBLIC, &[PROXY]).await;
        let is_forbidden = matches!(fetched, Err(FetchError::Refused(ConnectError::Forbidden(_))));
        assert!(is_forbidden, "{host}: {fetched:?}");
    }
    assert_eq!(network.connected(), [""; 0]);
    let fetched = fetch_in_env(&session, "http://start.example/", PUBLIC, &[PROXY]).await;
    assert!(matches!(fetched, Err(FetchError::Refused(ConnectError::Forbidden(_)))), "{fetched:?}");
    assert_eq!(server.request_count(), 1);
}

/// A redirect may lead to another port of the same host. The first port is reached through the
/// proxy. The second port is an exception from the proxy, so the address of its host is checked.
#[tokio::test]
async fn an_exception_is_checked_after_a_redirect_to_it() {
    let respond = |_: &str| Answer::Whole(redirect("http://b.example:81/"));
    let server = TestServer::start(respond).await;
    let network = TestNetwork::new(&server, |name, _| match name {
        "proxy.example" => vec!["203.0.113.8"],
        _ => vec!["10.0.0.1"],
    });
    let session = SharedWebAccess::in_network(network.network.clone(), None);
    let env = [PROXY, ("NO_PROXY", "b.example:81")];
    let fetched = fetch_in_env(&session, "http://b.example/", PUBLIC, &env).await;
    assert!(matches!(fetched, Err(FetchError::Refused(ConnectError::Forbidden(_)))), "{fetched:?}");
    assert_eq!(network.resolved(), ["proxy.example", "b.example"]);
    assert_eq!(network.connected(), ["203.0.113.8"]);
}

#[tokio::test]
async fn exceptions_are_resolved_and_checked() {
    let server = TestServer::start(|_| Answer::Whole(page("text/plain", b"text"))).await;
    let network = TestNetwork::new(&server, |name, _| match name {
        "a.example" => vec!["203.0.113.7"],
        _ => vec!["10.0.0.1"],
    });
    let session = SharedWebAccess::in_network(network.network.clone(), None);
    let env = [PROXY, ("NO_PROXY", "a.example,intern.example,b.example:81")];
    for (url, connected) in [
        ("http://a.example/", Some("203.0.113.7")),
        ("http://intern.example/", None),
        // The request to `b.example` goes through the proxy. The address of the proxy is not
        // checked.
        ("http://b.example/", Some("10.0.0.1")),
        ("http://b.example:81/", None),
    ] {
        let fetched = fetch_in_env(&session, url, PUBLIC, &env).await;
        assert_eq!(fetched.is_ok(), connected.is_some(), "{url}: {fetched:?}");
        let last = network.connected.lock().unwrap().pop();
        assert_eq!(last.as_ref().map(IpAddr::to_string).as_deref(), connected, "{url}");
        let is_proxied = |request: &String| request.contains("proxy-authorization");
        let by_proxy = server.requests.lock().unwrap().pop().is_some_and(|it| is_proxied(&it));
        assert_eq!(by_proxy, url == "http://b.example/", "{url}");
    }
}
