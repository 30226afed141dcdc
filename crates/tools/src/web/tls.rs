//! TLS with the certificate authorities that the system trusts.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// The configuration of all connections of this process. Reading the certificates of the system
/// takes tens of milliseconds.
static SYSTEM_CONFIG: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();

/// Returns the configuration that trusts the authorities of the system.
///
/// # Errors
///
/// Returns the reason as the end of a sentence. The next call tries again.
pub(super) async fn system_config() -> Result<Arc<ClientConfig>, String> {
    let build = || async {
        let built = spawn_blocking(|| {
            let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()?
                .with_platform_verifier()?;
            Ok::<_, rustls::Error>(with_http1_alpn_only(builder.with_no_client_auth()))
        });
        let built = built.await.map_err(|error| error.to_string())?;
        built.map_err(|error| format!("the trusted certificates cannot be read ({error})"))
    };
    SYSTEM_CONFIG.get_or_try_init(build).await.cloned()
}

/// Offers servers only HTTP/1.1, because this crate supports no other version.
pub(super) fn with_http1_alpn_only(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
