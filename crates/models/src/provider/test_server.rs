//! A loopback server with fixed responses, for the tests of providers.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

/// Serves one connection per response, in order. Returns the base URL, and a task that returns the
/// received requests after the last response.
pub(super) async fn serve_responses(
    answers: Vec<String>,
) -> (String, JoinHandle<Vec<ReceivedRequest>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().await.unwrap();
            asked.push(serve_connection(stream, &answer).await.unwrap());
        }
        asked
    });
    (url, asked)
}

/// Serves the same response over TLS to every connection. The certificate of the server comes from
/// a new certificate authority. Returns the base URL of the server, and the authority's certificate
/// in PEM.
pub(super) async fn serve_over_tls(answer: String) -> (String, String) {
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&authority).unwrap().pem();
    let issuer = Issuer::new(params, authority);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate disconnects.
            if let Ok(stream) = acceptor.accept(stream).await {
                serve_connection(stream, &answer).await;
            }
        }
    });
    (url, pem)
}

/// Reads one request and responds to it. Returns `None` if the client disconnects before the
/// request is complete.
async fn serve_connection(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &str,
) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    while !is_request_complete(&bytes) {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let body = serde_json::from_str(body).unwrap_or_default();
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()?;
    Some(ReceivedRequest { head: head.to_owned(), body })
}

pub(super) struct ReceivedRequest {
    pub(super) head: String,
    pub(super) body: Value,
}

fn is_request_complete(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
    });
    body.len() >= length.unwrap_or(0)
}

pub(super) fn format_response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n\r\n{body}")
}
