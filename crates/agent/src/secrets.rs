//! The secrets of this process, which are the same for its sessions and its log.

use std::sync::LazyLock;

use acp_lifecycle::Secrets;
use callboard_models::provider::Key;
use callboard_runtime::LiveSecrets;

/// The secrets of this process.
pub(crate) static LIVE: LazyLock<LiveSecrets> =
    LazyLock::new(|| LiveSecrets::of_env(callboard_process::env::parent().collect::<Vec<_>>()));

/// Returns the secrets of this process as they are known by now.
pub(crate) fn of_process() -> Secrets {
    LIVE.all()
}

/// Adds a key, which nothing shows from now on.
pub(crate) fn learn(key: &Key) {
    LIVE.learn(key.expose());
}
