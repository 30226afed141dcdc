//! The client's reply to a request for files or terminals.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::Value;
use tokio::time::sleep;

/// The reply to a request.
pub(crate) enum ServiceReply {
    Now(Value),
    /// The reply is sent later. The future returns the result.
    Later(BoxFuture<'static, Value>),
    Never,
}

impl ServiceReply {
    /// Delays the reply.
    pub(crate) fn delayed(self, pause: Duration) -> Self {
        let late = |result: BoxFuture<'static, Value>| async move {
            let result = result.await;
            sleep(pause).await;
            result
        };
        match self {
            Self::Now(result) => Self::Later(late(ready(result).boxed()).boxed()),
            Self::Later(result) => Self::Later(late(result).boxed()),
            Self::Never => Self::Never,
        }
    }
}
