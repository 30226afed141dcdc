//! HTTPS to a server whose certificate authority is trusted only because the configuration names
//! it.

use std::fs;
use std::sync::Arc;

use callboard_models::mock_server::{Dialect, MockReply, MockResponse, ModelServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::models::case::start_configured;

/// Starts a server with a certificate for `name`. Returns the server, and a line of configuration
/// with the file of the certificate authority.
async fn server(name: &str, folder: &TempDir) -> (ModelServer, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let file = folder.path().join("authority.pem");
    fs::write(&file, authority.pem()).unwrap();

    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let answer = |_: &_| MockResponse::from(MockReply::new().with_text("In confidence: yes."));
    let server =
        ModelServer::start_with_tls_acceptor(move |stream| acceptor.accept(stream), answer).await;
    (server.unwrap(), format!("ca_file = '{}'", file.display()))
}

#[tokio::test]
async fn an_authority_of_the_configuration_is_trusted() {
    for dialect in Dialect::ALL {
        let folder = tempfile::tempdir().unwrap();
        let (server, ca_file) = server("localhost", &folder).await;
        let mut agent = start_configured(&server, dialect, &ca_file).await;
        assert_eq!(agent.turn("go").await, "end_turn");
        assert_eq!(agent.session().message_text(), "In confidence: yes.", "{dialect:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn another_authority_or_name_is_not_trusted_and_the_error_explains_it() {
    for (name, is_known) in [("localhost", false), ("elsewhere.example", true)] {
        let folder = tempfile::tempdir().unwrap();
        let (server, ca_file) = server(name, &folder).await;
        let lines = if is_known { &*ca_file } else { "" };
        let mut agent = start_configured(&server, Dialect::Anthropic, lines).await;
        let prompt = agent.prompt("go").await;
        let error = agent.answer(&prompt).await.unwrap_err();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("localhost") && message.contains("not trusted"), "{message}");
        assert!(message.contains("`ca_file`"), "{message}");
        assert_eq!(server.reply_requests().len(), 0);
        agent.finish().await;
    }
}
