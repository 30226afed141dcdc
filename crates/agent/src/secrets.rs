//! The secrets of this process, which are the same for its sessions and its log.

use std::sync::LazyLock;

use acp_lifecycle::Secrets;
use callboard_models::provider::ApiKey;
use callboard_runtime::LiveSecrets;

/// The secrets of this process.
pub(crate) static PROCESS_SECRETS: LazyLock<LiveSecrets> =
    LazyLock::new(|| LiveSecrets::from_env(callboard_process::env::own_env().collect::<Vec<_>>()));

/// Returns the secrets of this process as they are known by now.
pub(crate) fn current() -> Secrets {
    PROCESS_SECRETS.current()
}

/// Adds a key, which nothing shows from now on.
pub(crate) fn add_key(key: &ApiKey) {
    PROCESS_SECRETS.add(key.expose());
}
