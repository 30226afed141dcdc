//! A response body that drains its remaining bytes when it is dropped.
//!
//! The library reads a body only up to the end of the reply. However, a connection can be reused
//! only after the *whole* body was read, and the body ends a few bytes after the reply. Without
//! reading these bytes, each request would open a new connection.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::Response;
use tokio::sync::RwLock;
use tokio::{runtime::Handle, task::yield_now, time::timeout};

use crate::limits::{DRAIN_TIMEOUT, MAX_DRAINED_BYTES};

/// A response body. When the body is dropped, the remaining bytes are read if they are few and
/// arrive quickly. Otherwise the connection is closed, which makes the provider stop generating.
pub(super) struct DrainOnDrop {
    response: Option<Response>,
    drains: OpenDrains,
}

/// The bodies of a sender that are being drained.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenDrains(Arc<RwLock<()>>);

impl OpenDrains {
    /// Waits until the connections of all bodies can be reused, or until the time limit of a drain.
    pub(super) async fn wait_until_drained(&self) {
        drop(timeout(DRAIN_TIMEOUT, self.0.write()).await);
    }
}

impl DrainOnDrop {
    pub(super) fn new(response: Response, drains: OpenDrains) -> Self {
        Self { response: Some(response), drains }
    }

    /// Reads the next chunk; returns `None` at the end of the body.
    pub(super) async fn next_chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        let Some(response) = &mut self.response else { return Ok(None) };
        let chunk = response.chunk().await;
        if !matches!(chunk, Ok(Some(_))) {
            self.response = None;
        }
        chunk
    }
}

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let Some(response) = self.response.take() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        let open = self.drains.0.clone().try_read_owned();
        runtime.spawn(async move {
            drop(timeout(DRAIN_TIMEOUT, drain_within_limit(response)).await);
            // The HTTP library releases the connection in a task that runs next.
            yield_now().await;
            drop(open);
        });
    }
}

async fn drain_within_limit(mut response: Response) {
    let mut bytes = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes += chunk.len();
        if bytes > MAX_DRAINED_BYTES {
            return;
        }
    }
}
