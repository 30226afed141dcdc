//! Tests of encrypted connections, and of redirects that would end the encryption.

use pretty_assertions::assert_eq;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::super::download::DownloadError;
use super::super::testing::{page, redirect, response};
use super::super::tls::with_http1_alpn_only;
use super::*;

/// Starts a server whose certificate is for `a.example`. Returns the port of the server, and a
/// client configuration that trusts this certificate.
async fn start_tls_server(answer: Vec<u8>) -> (u16, Arc<ClientConfig>) {
    let certified = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut received = Vec::new();
            while !received.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut received).await.unwrap() == 0 {
                    break;
                }
            }
            stream.write_all(&answer).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (port, with_http1_alpn_only(client))
}

/// Starts a session in a network in which every name leads to the server at `port`.
async fn session_at(port: u16, tls: Option<Arc<ClientConfig>>) -> (SharedWebAccess, TestNetwork) {
    let mut server = TestServer::with_pages(Vec::new()).await;
    server.port = port;
    let network = TestNetwork::public(&server);
    (SharedWebAccess::in_network(network.network.clone(), tls), network)
}

#[tokio::test]
async fn encrypted_pages_are_fetched_from_the_checked_address() {
    let (port, tls) = start_tls_server(page("text/plain", b"text")).await;
    let (session, network) = session_at(port, Some(tls)).await;
    // A URL without a scheme is treated as an https URL.
    let fetched = fetch(&session, "a.example/b").await;
    assert_eq!(text_of(&fetched), "text");
    assert_eq!(fetched.unwrap().url.to_string(), "https://a.example/b");
    assert_eq!(network.connected(), ["203.0.113.1"]);
}

#[tokio::test]
async fn certificates_are_checked() {
    let (port, tls) = start_tls_server(page("text/plain", b"text")).await;
    for (url, tls) in [("https://b.example", Some(tls)), ("https://a.example", None)] {
        let (session, _) = session_at(port, tls).await;
        let fetched = fetch(&session, url).await;
        let is_refused =
            matches!(fetched, Err(FetchError::Download { error: DownloadError::Tls(_), .. }));
        assert!(is_refused, "{url}: {fetched:?}");
    }
}

#[tokio::test]
async fn a_redirect_to_an_unencrypted_page_is_not_followed() {
    for location in ["http://a.example/", "HTTP://b.example/x"] {
        let (port, tls) = start_tls_server(redirect(location)).await;
        let (session, network) = session_at(port, Some(tls)).await;
        let fetched = fetch(&session, "https://a.example").await;
        let Err(FetchError::Redirect { reason, .. }) = fetched else { panic!("{fetched:?}") };
        assert_eq!(reason, "it leads from https to http");
        assert_eq!(network.connected().len(), 1);
    }
    // A response with the status 300 is not treated as a redirect.
    let (port, tls) =
        start_tls_server(response(300, "Location: http://a.example/\r\n", b"x")).await;
    let (session, _) = session_at(port, Some(tls)).await;
    assert_eq!(fetch(&session, "https://a.example").await.unwrap().status, 300);
}
