//! A response body that drains its remaining bytes when it is dropped.
//!
//! The library reads a body only up to the end of the reply. However, a connection can be reused
//! only after the *whole* body was read, and the body ends a few bytes after the reply. Without
//! reading these bytes, each request would open a new connection.

use bytes::Bytes;
use reqwest::Response;
use tokio::{runtime::Handle, time::timeout};

use crate::limits::{DRAIN_TIMEOUT, MAX_DRAINED_BYTES};

/// A response body. When the body is dropped, the remaining bytes are read if they are few and
/// arrive quickly. Otherwise the connection is closed, which makes the provider stop generating.
pub(super) struct DrainOnDrop(Option<Response>);

impl DrainOnDrop {
    pub(super) fn new(response: Response) -> Self {
        Self(Some(response))
    }

    /// Reads the next chunk; returns `None` at the end of the body.
    pub(super) async fn next_chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        let Some(response) = &mut self.0 else { return Ok(None) };
        let chunk = response.chunk().await;
        if !matches!(chunk, Ok(Some(_))) {
            self.0 = None;
        }
        chunk
    }
}

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let (Some(response), Ok(runtime)) = (self.0.take(), Handle::try_current()) else { return };
        runtime.spawn(timeout(DRAIN_TIMEOUT, drain_within_limit(response)));
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
