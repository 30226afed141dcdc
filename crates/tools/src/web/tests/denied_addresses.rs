//! Tests that no connection is opened to a denied address, in whatever form the address is written.

use std::sync::atomic::{AtomicUsize, Ordering};

use pretty_assertions::assert_eq;
use tokio::net::TcpListener;

use super::super::testing::{Answer, page, redirect, response};
use super::*;

/// Hosts in URLs, and their addresses. All of these addresses are denied.
const DENIED: &[(&str, &str)] = &[
    // This computer.
    ("127.0.0.1", "127.0.0.1"),
    ("127.0.0.1.", "127.0.0.1"),
    ("127.1", "127.0.0.1"),
    ("127.0.1", "127.0.0.1"),
    ("2130706433", "127.0.0.1"),
    ("0x7f000001", "127.0.0.1"),
    ("0X7F.0.0.1", "127.0.0.1"),
    ("0177.0.0.1", "127.0.0.1"),
    ("017700000001", "127.0.0.1"),
    ("0x7f.1", "127.0.0.1"),
    ("%31%32%37.0.0.1", "127.0.0.1"),
    ("\u{ff11}\u{ff12}\u{ff17}.0.0.1", "127.0.0.1"),
    ("\u{2460}\u{2461}\u{2466}.0.0.1", "127.0.0.1"),
    ("127\u{3002}0\u{3002}0\u{3002}1", "127.0.0.1"),
    ("127.255.255.254", "127.255.255.254"),
    ("[::1]", "::1"),
    ("[0:0:0:0:0:0:0:1]", "::1"),
    ("[0000::0001]", "::1"),
    ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
    ("[::ffff:7f00:1]", "::ffff:127.0.0.1"),
    ("[::127.0.0.1]", "::127.0.0.1"),
    ("[::ffff:0:127.0.0.1]", "::ffff:0:127.0.0.1"),
    ("[64:ff9b::127.0.0.1]", "64:ff9b::127.0.0.1"),
    ("[64:ff9b::7f00:1]", "64:ff9b::127.0.0.1"),
    ("[64:ff9b:1::127.0.0.1]", "64:ff9b:1::127.0.0.1"),
    ("[2002:7f00:1::]", "2002:7f00:1::"),
    ("[2001:0:1:2:3:4:80ff:fffe]", "2001:0:1:2:3:4:80ff:fffe"),
    ("203.0.113.99", "203.0.113.99"),
    // The unspecified address.
    ("0.0.0.0", "0.0.0.0"),
    ("0", "0.0.0.0"),
    ("0x0", "0.0.0.0"),
    ("0.1.2.3", "0.1.2.3"),
    ("[::]", "::"),
    ("[::ffff:0:0]", "::ffff:0.0.0.0"),
    // Private.
    ("10.0.0.1", "10.0.0.1"),
    ("012.0.0.1", "10.0.0.1"),
    ("0xa000001", "10.0.0.1"),
    ("167772161", "10.0.0.1"),
    ("172.16.0.1", "172.16.0.1"),
    ("172.31.255.255", "172.31.255.255"),
    ("192.168.0.1", "192.168.0.1"),
    ("192.168.257", "192.168.1.1"),
    ("3232235777", "192.168.1.1"),
    ("100.64.0.1", "100.64.0.1"),
    ("[fc00::1]", "fc00::1"),
    ("[fdff::1]", "fdff::1"),
    ("[fec0::1]", "fec0::1"),
    ("[::ffff:10.0.0.1]", "::ffff:10.0.0.1"),
    ("[::ffff:c0a8:101]", "::ffff:192.168.1.1"),
    ("[64:ff9b::10.0.0.1]", "64:ff9b::10.0.0.1"),
    ("[2002:c0a8:101::1]", "2002:c0a8:101::1"),
    ("[64:ff9b:1::8.8.8.8]", "64:ff9b:1::8.8.8.8"),
    // Link-local addresses, and metadata services of clouds.
    ("169.254.169.254", "169.254.169.254"),
    ("169.254.43518", "169.254.169.254"),
    ("2852039166", "169.254.169.254"),
    ("0xa9fea9fe", "169.254.169.254"),
    ("0xa9.0xfe.0xa9.0xfe", "169.254.169.254"),
    ("0251.0376.0251.0376", "169.254.169.254"),
    ("[fe80::1]", "fe80::1"),
    ("[::ffff:169.254.169.254]", "::ffff:169.254.169.254"),
    ("[64:ff9b::a9fe:a9fe]", "64:ff9b::169.254.169.254"),
    ("[2002:a9fe:a9fe::1]", "2002:a9fe:a9fe::1"),
    ("100.100.100.200", "100.100.100.200"),
    ("168.63.129.16", "168.63.129.16"),
    ("192.0.0.192", "192.0.0.192"),
    ("[fd00:ec2::254]", "fd00:ec2::254"),
    ("[fd20:ce::254]", "fd20:ce::254"),
    ("[fd00:c1::a9fe:a9fe]", "fd00:c1::a9fe:a9fe"),
    ("[fd00:42::42]", "fd00:42::42"),
    // Multicast, broadcast and reserved.
    ("224.0.0.1", "224.0.0.1"),
    ("239.255.255.255", "239.255.255.255"),
    ("255.255.255.255", "255.255.255.255"),
    ("4294967295", "255.255.255.255"),
    ("240.0.0.1", "240.0.0.1"),
    ("[ff02::1]", "ff02::1"),
    ("[::ffff:224.0.0.1]", "::ffff:224.0.0.1"),
];

/// Names that always refer to this computer.
const LOCAL_NAMES: &[&str] = &["localhost", "LocalHost.", "a.localhost", "%6cocalhost"];

fn is_forbidden(fetched: &Fetched) -> bool {
    matches!(fetched, Err(FetchError::Refused(ConnectError::Forbidden(_))))
}

/// Starts a server that redirects requests to `start.example`. The path of the request is the host
/// of the redirect.
async fn redirecting_server() -> TestServer {
    TestServer::start(|request| {
        let target = request.split(' ').nth(1).unwrap();
        Answer::Whole(match request.contains("host: start.example") {
            true => redirect(&format!("http://{}/", target.trim_start_matches('/'))),
            false => page("text/plain", b"secret"),
        })
    })
    .await
}

#[tokio::test]
async fn no_spelling_of_a_denied_address_is_connected_to() {
    assert!(DENIED.len() >= 60);
    let server = redirecting_server().await;
    for (host, address) in DENIED {
        let address = *address;
        let network = TestNetwork::new(&server, move |name, _| match name {
            "start.example" => vec!["203.0.113.1"],
            _ => vec![address],
        });
        let session = SharedWebAccess::in_network(network.network.clone(), None);
        let direct = fetch(&session, &format!("http://{host}:8080/")).await;
        assert!(is_forbidden(&direct), "direct: {host}");
        let answered = fetch(&session, "http://a.example/").await;
        assert!(is_forbidden(&answered), "as an answer: {address}");
        assert_eq!(network.connected(), [""; 0], "{host}");
        let redirected = fetch(&session, &format!("http://start.example/{host}")).await;
        assert!(is_forbidden(&redirected), "after a redirect: {host}: {redirected:?}");
        assert_eq!(network.connected(), ["203.0.113.1"], "{host}");
        assert_eq!(network.resolved(), ["a.example", "start.example"], "{host}");
    }
    assert_eq!(server.request_count(), DENIED.len());
}

#[tokio::test]
async fn names_of_this_computer_are_denied() {
    let server = redirecting_server().await;
    for name in LOCAL_NAMES {
        let network = TestNetwork::new(&server, |_, _| vec!["127.0.0.1", "::1"]);
        let session = SharedWebAccess::in_network(network.network.clone(), None);
        for allowed in [PUBLIC, PRIVATE_TOO] {
            let fetched = fetch_in_env(&session, &format!("http://{name}/"), allowed, &[]).await;
            assert!(is_forbidden(&fetched), "{name}");
        }
        assert_eq!(network.connected(), [""; 0], "{name}");
    }
}

#[tokio::test]
async fn a_rule_allows_private_addresses_and_no_others() {
    let server = redirecting_server().await;
    for (host, address) in DENIED {
        let address = *address;
        let network = TestNetwork::new(&server, move |_, _| vec![address]);
        let session = SharedWebAccess::in_network(network.network.clone(), None);
        let fetched = fetch_in_env(&session, &format!("http://{host}/"), PRIVATE_TOO, &[]).await;
        let parsed = PageUrl::parse(host).unwrap().destination().host;
        let private = ["10.", "172.", "192.168.", "100.64.", "fc", "fdff", "fec0", "2002:c0a8"];
        let is_private = private.iter().any(|start| parsed.starts_with(start))
            || ["64:ff9b::a00:1", "64:ff9b:1::808:808"].contains(&&*parsed);
        assert_eq!(fetched.is_ok(), is_private, "{host} ({parsed})");
        assert_eq!(network.connected().len(), usize::from(is_private), "{host}");
    }
}

/// The name server returns other addresses each time. A connection is only opened to an address
/// that was checked.
#[tokio::test]
async fn an_answer_that_changes_is_never_connected_to() {
    let server = TestServer::start(|request| {
        Answer::Whole(match request.starts_with("GET /again ") {
            true => redirect("http://other.example/"),
            false => response(200, "Cache-Control: no-store\r\n", b"public"),
        })
    })
    .await;
    let turn = AtomicUsize::new(0);
    let network =
        TestNetwork::new(&server, move |_, _| match turn.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => vec!["203.0.113.1"],
            1 => vec!["127.0.0.1", "169.254.169.254"],
            _ => vec!["10.0.0.1", "203.0.113.2", "::1"],
        });
    let session = SharedWebAccess::in_network(network.network.clone(), None);
    let mut refused = 0;
    for round in 0..1_000 {
        let path = if round % 2 == 0 { "" } else { "again" };
        let fetched = fetch(&session, &format!("http://flip.example/{path}")).await;
        match &fetched {
            Ok(page) => assert_eq!(page.shown_text(false), Some("public")),
            Err(FetchError::Refused(ConnectError::Forbidden(_))) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    let connected = network.connected();
    assert!(connected.iter().all(|address| address.starts_with("203.0.113.")), "{connected:?}");
    assert!(refused > 300 && connected.len() > 600, "{refused} {}", connected.len());
    // Each call resolves each host only once, so it never receives a second answer for the same
    // host.
    let hosts = network.resolved().len();
    assert_eq!(connected.len(), hosts - refused);
}

/// This test uses the name resolution of the system and a real listener.
#[tokio::test]
async fn a_listener_of_this_computer_is_not_reached_in_the_network_of_the_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let session = SharedWebAccess::default();
    for host in ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "0", "[::ffff:127.0.0.1]"] {
        for allowed in [PUBLIC, PRIVATE_TOO] {
            let url = format!("http://{host}:{port}/");
            let fetched = fetch_in_env(&session, &url, allowed, &[]).await;
            let is_refused = matches!(fetched, Err(FetchError::Refused(_)));
            assert!(is_refused, "{host}: {fetched:?}");
        }
    }
    let accepted = tokio::time::timeout(std::time::Duration::from_millis(20), listener.accept());
    assert!(accepted.await.is_err());
}
