//! The secrets of this process. Its sessions and its log share them.

use std::sync::LazyLock;

use acp_lifecycle::Secrets;
use callboard_models::provider::ApiKey;
use callboard_runtime::LiveSecrets;

/// Secrets of this process.
pub(crate) static PROCESS_SECRETS: LazyLock<LiveSecrets> =
    LazyLock::new(|| LiveSecrets::from_env(callboard_process::env::own_env().collect::<Vec<_>>()));

/// Returns a snapshot of the secrets of this process.
pub(crate) fn process_secrets() -> Secrets {
    PROCESS_SECRETS.current()
}

/// Adds a key to the secrets, so that it is redacted in all later output.
pub(crate) fn add_key_to_redact(key: &ApiKey) {
    add_to_redact(key.expose());
}

/// Adds a text to the secrets.
pub(crate) fn add_to_redact(secret: &str) {
    PROCESS_SECRETS.add_permanent(secret);
}
