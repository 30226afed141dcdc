//! Runs blocking work on a shared value, on one thread at a time.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// Runs blocking work on a shared value. Work that hangs, e.g. on a disk that does not respond,
/// occupies one thread; later callers wait asynchronously. Once started, the work runs to its end
/// even if its caller is dropped. Returns `None` after a panic.
pub async fn spawn_blocking_exclusive<T: Send + 'static, R: Send + 'static>(
    shared: &Arc<Mutex<T>>,
    work: impl FnOnce(&mut T) -> R + Send + 'static,
) -> Option<R> {
    let mut held = shared.clone().lock_owned().await;
    spawn_blocking(move || work(&mut held)).await.ok()
}
