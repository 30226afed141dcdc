//! Work that blocks, on something that one thread at a time works on.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// Does blocking work on something that is shared. Work that hangs, such as a look at a disk that
/// does not answer, holds one thread, and who comes later waits for it as a future. What has begun
/// goes on though nobody waits for it any more. None after a panic.
pub async fn spawn_blocking_exclusive<T: Send + 'static, R: Send + 'static>(
    shared: &Arc<Mutex<T>>,
    work: impl FnOnce(&mut T) -> R + Send + 'static,
) -> Option<R> {
    let mut held = shared.clone().lock_owned().await;
    spawn_blocking(move || work(&mut held)).await.ok()
}
